"""A tool that waits for a human: the value it returns, the request it becomes, the answer it gets.

A suspension is a value, never an exception, and plain data: a run that waits can be written as
JSON and go on in another process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Pending:
    """What `pending(...)` returns; the loop makes a `Request` of it."""

    prompt: str
    kind: str = "input"
    url: str | None = None
    data: Any = None  # any JSON: the tool's own message to whoever answers
    expires_at: float | None = None
    id: str | None = None


def pending(
    prompt: str,
    kind: str = "input",
    *,
    url: str | None = None,
    data: Any = None,  # any JSON, as above
    expires_at: float | None = None,
    id: str | None = None,
) -> Pending:
    """Suspend the call: return this from a tool that cannot go on without an answer.

    Args:
        prompt: What the human is asked.
        kind: What sort of answer is wanted, such as `"input"` or `"approval"`; yours to choose.
        url: Where the human may act, for example a sign-in page.
        data: Any JSON for whoever shows the request.
        expires_at: Unix seconds after which an answer comes too late.
        id: The request's id; invented when left out.
    """
    return Pending(prompt, kind, url, data, expires_at, id)


@dataclass(frozen=True, slots=True)
class RequestCall:
    """The tool call that a request belongs to."""

    id: str
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """A suspended call's question; its JSON keys are the field names."""

    id: str
    kind: str
    prompt: str
    url: str | None = None
    data: Any = None  # any JSON, as the tool gave it
    expires_at: float | None = None
    """Unix seconds."""
    call: RequestCall | None = None
    """Filled in by the loop."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one `Request`, single use."""

    id: str
    """The id of the request that is answered."""
    ok: bool = True
    """`False` declines: the model is told, with `reason`."""
    data: Any = None  # any JSON: reaches the tool as `ctx.answer.data`
    reason: str | None = None
