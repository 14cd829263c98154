"""A tool as the loop sees it: what the model is told, how it is called, what it gives back.

How a function becomes a tool is the affair of `toolnexus.tools`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .cancel import Cancel
from .messages import ImagePart, TextPart
from .results import Usage
from .suspension import Answer


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gives back when there is more to say than a value."""

    output: str | tuple[TextPart | ImagePart, ...] = ""
    """What the model sees."""
    is_error: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    """For you alone: it is on `RunResult.tool_calls`, the model does not see it."""

    @property
    def parts(self) -> tuple[TextPart | ImagePart, ...]:
        """`output` as parts; an empty text is no part."""
        if isinstance(self.output, str):
            return (TextPart(self.output),) if self.output else ()
        return self.output

    @property
    def text(self) -> str:
        """The text of `output`."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may know about its call; it gets one as a parameter annotated so, or named `ctx`."""

    id: str = ""
    """The call's id, as the provider gave it; unique within one turn only."""
    name: str = ""
    turn: int = 0
    """The model response, counted from 1 within the run, that asked for the call."""
    conversation_id: str | None = None
    answer: Answer | None = None
    """The answer to the tool's own `pending(...)`; `None` on the first run of the call."""
    cancel: Cancel = field(default_factory=Cancel)
    """Set when the run is cancelled, closed or out of time: a long tool looks at it now and then."""
    expires: float | None = None
    """`time.monotonic()` at which the run's deadline ends."""
    call_key: str = ""
    """The same for every attempt at this call, also after a crash: an idempotency key."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Yours; it starts empty for each call and lands in the call's record."""
    memo: Any = None  # any JSON
    """What the tool's own `pending(memo=...)` noted; `None` on the first run of the call."""
    spent: list[Usage] = field(default_factory=list)
    """Tokens that the tool uses on models of its own: what is put here counts for the run."""

    @property
    def deadline(self) -> float | None:
        """Seconds left of the run's deadline; `None` without one."""
        return None if self.expires is None else max(0.0, self.expires - time.monotonic())


class ToolInputError(Exception):
    """Arguments that do not fit a tool; the message is written for the model and names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: made with `@tool` or `define_tool`, or by a source of tools.

    Calling it calls the function it was made from.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    """JSON Schema of the arguments, an object."""
    function: Callable[..., Any]  # Any: whatever the user wrote
    bind: Callable[[dict[str, Any], ToolContext], Callable[[], Any]] = field(repr=False)
    """Check the arguments and return the call ready to be made: `bind(args, ctx)()` runs the tool.

    Raises `ToolInputError` where the arguments do not fit, before anything of the tool has run. The call
    returns what the tool returns, or an awaitable of it.
    """
    is_async: bool = False
    """Whether the call is known to return an awaitable; a call that turns out to return one is awaited too."""
    parallel: bool = True
    """`False`: no other tool of the turn runs beside it."""
    timeout: float | None = None
    """Seconds the tool may run."""
    approval: bool | Callable[[dict[str, Any]], bool] = False
    """Whether a human must agree first, or a predicate on the arguments that says so."""
    idempotent: bool = False
    """Whether it may run again after a crash in mid-call."""
    hears_declines: bool = False
    """Whether it runs again, too, when its own question is declined; else the model is told so at once."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # Any: the function's own signature
        return self.function(*args, **kwargs)
