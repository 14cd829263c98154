"""The outcome of a run, as a model that JSON is read into and written from."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, field_validator

from .messages import Message
from .results import Limit, Status, StreamSummary, ToolCallRecord, Usage
from .suspension import Request


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
