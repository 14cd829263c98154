"""What a run tells while it goes on, and the way of that to plain data and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from . import results
from .errors import ConfigurationError
from .results import Usage
from .suspension import Request

# `type` is a class variable: it costs nothing to make, and checkers narrow the union by it.


@dataclass(frozen=True, slots=True)
class TextEvent:
    """The model wrote some text."""

    delta: str
    type: ClassVar[Literal["text"]] = "text"


@dataclass(frozen=True, slots=True)
class ReasoningEvent:
    """The model thought aloud; not part of the answer."""

    delta: str
    type: ClassVar[Literal["reasoning"]] = "reasoning"


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """The model asked for a tool; comes when its response is complete, before any tool of that turn runs."""

    id: str
    name: str
    args: dict[str, Any]
    error: str | None = None
    """Why the call cannot run: its arguments could not be read (`args` is `{}` then)."""
    type: ClassVar[Literal["tool_call"]] = "tool_call"


@dataclass(frozen=True, slots=True)
class ToolResultEvent:
    """A call finished; these come in the order in which the tools finish."""

    id: str
    name: str
    output: str
    is_error: bool = False
    type: ClassVar[Literal["tool_result"]] = "tool_result"


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """The tokens of the run so far, after each response that reports them."""

    usage: Usage
    type: ClassVar[Literal["usage"]] = "usage"


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """A tool suspended; comes before anybody waits for the answer."""

    request: Request
    type: ClassVar[Literal["pending"]] = "pending"


@dataclass(frozen=True, slots=True)
class DoneEvent:
    """The run is over: once and last, if the run did not raise. The conversation is saved by then."""

    result: results.RunResult
    type: ClassVar[Literal["done"]] = "done"


StreamEvent = TextEvent | ReasoningEvent | ToolCallEvent | ToolResultEvent | UsageEvent | PendingEvent | DoneEvent

_CLASSES = (TextEvent, ReasoningEvent, ToolCallEvent, ToolResultEvent, UsageEvent, PendingEvent, DoneEvent)
_BY_TYPE: dict[str, type[StreamEvent]] = {cls.type: cls for cls in _CLASSES}


def event_to_dict(event: StreamEvent) -> dict[str, Any]:
    """Turn an event into plain data (JSON types only), its `type` first."""
    data: dict[str, Any] = {"type": event.type}
    data.update(_adapter(event.type).dump_python(event, mode="json"))
    return data


def event_from_dict(data: dict[str, Any]) -> StreamEvent:
    """The event that `event_to_dict` turned into `data`.

    Raises:
        ConfigurationError: `data` is no event.
    """
    type = data.get("type")
    cls = _BY_TYPE.get(type) if isinstance(type, str) else None
    if cls is None:
        raise ConfigurationError(f"expected an event with a type of {sorted(_BY_TYPE)}, got {type!r}")
    try:
        event: StreamEvent = _adapter(cls.type).validate_python({k: v for k, v in data.items() if k != "type"})
    except ValueError as error:
        raise ConfigurationError(f"not a {data['type']!r} event: {error}") from None
    return event


def event_to_json(event: StreamEvent) -> str:
    """`event_to_dict` as one line of JSON."""
    return json.dumps(event_to_dict(event), ensure_ascii=False)


def event_from_json(text: str | bytes) -> StreamEvent:
    """The event that `event_to_json` wrote.

    Raises:
        ConfigurationError: `text` is no event.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"expected a JSON object: {error}") from None
    if not isinstance(data, dict):
        raise ConfigurationError(f"expected a JSON object, got {type(data).__name__}")
    return event_from_dict(data)


@cache
def _adapter(type: str) -> Any:  # Any: a TypeAdapter; like all of pydantic's schemas it is made on first use
    from pydantic import ConfigDict, TypeAdapter, with_config

    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(_BY_TYPE[type]))
