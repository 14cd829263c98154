"""What a run leaves behind: its result, the calls it made, the tokens it used."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

from .messages import Message
from .suspension import Request

Status = Literal["done", "pending", "incomplete", "error"]
Limit = Literal["max_turns", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counted them; `None` means that it did not say, never a made-up 0.

    Within one response a later report replaces an earlier one; the responses of a run add up.
    """

    prompt_tokens: int | None = None
    """All tokens that went in, those read from or written to a cache included."""
    completion_tokens: int | None = None
    total_tokens: int | None = None
    """The provider's own total where it gives one; it may exceed the sum of the two above."""
    cached_tokens: int | None = None
    """Of `prompt_tokens`: read from a cache."""
    cache_write_tokens: int | None = None
    """Of `prompt_tokens`: written to a cache."""
    reasoning_tokens: int | None = None
    """Tokens spent on thinking; whether `completion_tokens` has them too differs by provider."""
    raw: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """What each response reported, word for word."""

    def __add__(self, other: Usage) -> Usage:
        sums = {
            name: _add(getattr(self, name), getattr(other, name))
            for name in (f.name for f in fields(self))
            if name != "raw"
        }
        return Usage(**sums, raw=self.raw + other.raw)


def _add(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """One call of a run, with what came of it."""

    id: str
    name: str
    args: dict[str, Any]
    output: str
    is_error: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    """The tool's own notes (`ToolResult.metadata`); the model does not see them."""
    duration: float = 0.0
    """Seconds the tool ran; 0 for a call that was not run."""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """One model response, added up; also of one that was cut off."""

    content: str
    reasoning: str
    tool_call_count: int
    """Calls in the response, whether they ran or not."""
    finish_reason: str | None
    usage: Usage | None
    """Of this response alone; `None` if it reported none."""
    timestamp: float
    """Unix seconds when the response ended."""


class RunResult(BaseModel):
    """The outcome of a run; `model_dump_json` and `model_validate_json` make a round trip.

    pydantic reads 200 levels of JSON: arguments of more than about 190 are written and not read; a store reads them.
    """

    # Schema on first use: it is a third of the time that importing this package takes.
    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, ser_json_bytes="base64", val_json_bytes="base64"
    )

    version: int = 1
    """Of the JSON form: whoever reads a newer one than it knows refuses it."""
    text: str = ""
    """The final answer: the text of the last model response."""
    messages: list[Message] = []
    """The whole transcript, history included."""
    tool_calls: list[ToolCallRecord] = []
    """Every call of this run, in the model's order."""
    turns: int = 0
    """Model responses of this run."""
    usage: Usage = Usage()
    """Tokens of this run."""
    model: str = ""
    """The model that was asked for."""
    status: Status = "done"
    """`"error"` only on `error.result`."""
    limit: Limit | None = None
    """Why a run is `"incomplete"`."""
    finish_reason: str | None = None
    """Why the last response ended: `stop`, `tool_calls`, `length`, `content_filter`, `refusal`, `aborted`, the
    provider's own word, or `None` when it gave none."""
    requests: list[Request] = []
    """The open requests of a `"pending"` run, in call order."""
    summaries: list[StreamSummary] = []
    """One for each model response of this run."""
    id: str | None = None
    """The conversation id."""
    request_ids: list[str] = []
    """The provider's ids of the requests, for its support."""

    @field_validator("version")
    @classmethod
    def _check_version(cls, version: int) -> int:
        if version != 1:
            raise ValueError(f"expected version 1 of a RunResult, got {version}; a newer toolnexus may read it")
        return version

    @property
    def pending(self) -> Request | None:
        """The first open request."""
        return self.requests[0] if self.requests else None
