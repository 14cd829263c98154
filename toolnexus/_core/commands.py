"""What the machine orders, and the plain data that goes with it.

A driver carries out one command, reports the facts, and asks for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..events import DoneEvent
from ..messages import Message
from ..results import Usage
from ..suspension import Answer, GivenAnswer, Pending, Request
from ..tool import Tool, ToolResult
from .payload import same_json

Gate = str
"""Who may ask a question about a call: `TOOL` while it runs, before that `APPROVAL` or a hook, by its name."""
TOOL: Gate = "tool"
APPROVAL: Gate = "approval"


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
    """The response of this run that asked for it; 0 for one of an earlier run."""
    call_key: str
    given: Mapping[Gate, GivenAnswer] = field(default_factory=dict)
    memo: Any = None  # any JSON, as the tool noted it

    def answer_to(self, gate: Gate) -> Answer | None:
        """The answer to what `gate` asked, if it was given for the arguments that the call has now."""
        given = self.given.get(gate)
        return given.answer if given is not None and same_json(given.args, self.args) else None


@dataclass(frozen=True, slots=True)
class AdmitTools:
    """Ask hooks and approvals about these calls; report each with `tool_admitted`, or `tool_finished` if it is not."""

    calls: tuple[ToolCall, ...]


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
    gate: Gate = TOOL
    """Who suspended the call."""
    args: dict[str, Any] | None = None
    """The arguments that the suspension is about, where they are not those of the command."""
    spent: Usage | None = None
    """Tokens that the tool used on models of its own."""


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


Command = SendRequest | AdmitTools | RunTools | WaitFor | Checkpoint | Finish
