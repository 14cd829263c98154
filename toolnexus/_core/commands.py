"""What the machine orders, and the plain data that goes with it.

A driver carries out one command, reports the facts, and asks for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..events import DoneEvent
from ..messages import Message
from ..suspension import Answer, Pending, Request
from ..tool import Tool, ToolResult

Gate = str
"""What may stand in front of a tool: `"approval"` is the tool's own demand, `"hook 0"` a question of the first hook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What a model may be asked to do otherwise, in no provider's words; what is not set is not sent."""

    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | None = None
    """`"auto"`, `"none"`, `"required"`, or the name of a tool."""
    parallel_tool_calls: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What the model is asked, in no provider's words."""

    model: str
    system: str | None
    messages: Sequence[Message]
    tools: Sequence[Tool]
    stream: bool
    options: ModelOptions = ModelOptions()
    params: Mapping[str, Any] = field(default_factory=dict)
    """Members of the request body that the user set; they win, and `None` removes one."""
    origin: str
    """Whom we ask: parts that came from there go back whole."""


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Ask the model; then report `response_opened`, `receive` for each read, and `response_ended`."""

    request: ModelRequest
    turn: int
    """The response that is asked for, counted from 1."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call to be made."""

    slot: int
    """Its place among the calls of the turn; names the call in a `ToolOutcome`."""
    id: str
    tool: Tool
    args: dict[str, Any]
    turn: int
    call_key: str
    answer: Answer | None = None
    passed: frozenset[Gate] = frozenset()
    """Gates that an answer has opened for this call."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls side by side; report each with `tool_finished` as soon as it is through."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How one call ended."""

    slot: int
    value: ToolResult | Pending
    duration: float = 0.0
    gate: Gate | None = None
    """Who suspended the call in front of the tool, which has not run; `None` if it was the tool itself."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Get the answer to this request; report `answer_received` or `answer_failed`."""

    request: Request


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Save the transcript; report `saved`."""

    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over; show the event."""

    event: DoneEvent


Command = SendRequest | RunTools | WaitFor | Checkpoint | Finish
