"""A tool that waits for a human: the value it returns, the request it becomes, the answer it gets.

A suspension is a value, never an exception, and plain data: a run that waits can be written as
JSON and go on in another process.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

_ROOM = 20
"""Levels of JSON that what is given here gets around it where it is written down."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What `pending(...)` returns; the loop makes a `Request` of it."""

    prompt: str
    kind: str = "input"
    url: str | None = None
    data: Any = None  # any JSON: the tool's own message to whoever answers
    expires_at: float | None = None
    id: str | None = None
    memo: Any = field(default=None, repr=False)  # any JSON: the tool's note to itself

    def __post_init__(self) -> None:
        for name, value, kinds in (
            ("prompt", self.prompt, str),
            ("kind", self.kind, str),
            ("url", self.url, (str, type(None))),
            ("expires_at", self.expires_at, (int, float, type(None))),
            ("id", self.id, (str, type(None))),
        ):
            if not isinstance(value, kinds):
                raise TypeError(f"pending: {name} cannot be {value!r}; it may be written down and read elsewhere")
        _json("pending", [self.prompt, self.kind, self.url, self.expires_at, self.id])
        object.__setattr__(self, "data", _json("pending", self.data))
        object.__setattr__(self, "memo", _json("pending", self.memo))


def pending(
    prompt: str,
    kind: str = "input",
    *,
    url: str | None = None,
    data: Any = None,  # any JSON, as above
    expires_at: float | None = None,
    id: str | None = None,
    memo: Any = None,  # any JSON, as above
) -> Pending:
    """Suspend the call: return this from a tool that cannot go on without an answer.

    Args:
        prompt: What the human is asked.
        kind: What sort of answer is wanted, such as `"input"` or `"approval"`; yours to choose.
        url: Where the human may act, for example a sign-in page.
        data: Any JSON for whoever shows the request.
        expires_at: Unix seconds after which an answer comes too late.
        id: The request's id; invented when left out. One of your own must never come again: whoever has the answer
            to the one question could give it to the other.
        memo: Any JSON, which the tool finds as `ctx.memo` when it runs again; nobody else sees it.
    """
    return Pending(prompt, kind, url, data, expires_at, id, memo)


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

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not isinstance(self.ok, bool):
            raise TypeError(f"Answer: expected the id of a request and ok=True or False, got {self.id!r}, {self.ok!r}")
        if not isinstance(self.reason, (str, type(None))):
            raise TypeError(f"Answer: expected a reason in words, got {self.reason!r}")
        _json("Answer", [self.id, self.reason])
        object.__setattr__(self, "data", _json("Answer", self.data))


def _json(owner: str, data: Any) -> Any:
    """A copy of `data` as JSON gives it back, so that it is the same thing before and after it was written down."""
    try:
        text = json.dumps(data, allow_nan=False)
        from_json(f"{'[' * _ROOM}{text}{']' * _ROOM}")  # as RunResult reads it: 200 levels, no half characters
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{owner}: expected data that can be written as JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer that a call has got, and what for."""

    answer: Answer
    args: dict[str, Any]
    """The arguments that its request showed: it counts for these alone."""


@dataclass(frozen=True, slots=True)
class CallJournal:
    """How a call without a result got where it is, so that any process can carry it on."""

    key: str
    """Its idempotency key (`ToolContext.call_key`), the same for every attempt."""
    asked: tuple[str, ...] = ()
    """The ids of all its requests so far."""
    gate: str | None = None
    """Who asked the open one."""
    given: dict[str, GivenAnswer] = field(default_factory=dict)
    """The answers so far, by who asked for them."""
    memo: Any = None  # any JSON
    """What the tool noted for itself when it last suspended."""
