"""What a user may hook into a run: some hooks change it, the others only watch.

Those that may change something run around a command, one after the other, and what they raise ends the run. Those
that watch are fire and forget: what they raise is logged, and the run goes on.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from .chunks import Chunk
from .errors import ConfigurationError, ToolnexusError
from .messages import Message
from .results import Usage
from .suspension import Pending
from .tool import Tool, ToolResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BeforeLLM:
    """A request about to be made; return `dataclasses.replace(given, ...)` to change what is sent."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    model: str
    turn: int
    """The model response that is asked for, from 1."""


@dataclass(frozen=True, slots=True)
class AfterLLM:
    """A response that is complete."""

    response: Message
    usage: Usage | None
    """Of this response alone; `None` if it reported none."""
    model: str
    turn: int


@dataclass(frozen=True, slots=True)
class BeforeTool:
    """A call about to be made; its arguments are not validated yet."""

    name: str
    args: dict[str, Any]
    id: str
    turn: int


@dataclass(frozen=True, slots=True)
class AfterTool:
    """A call that has a result."""

    name: str
    args: dict[str, Any]
    result: ToolResult
    id: str
    turn: int


@dataclass(frozen=True, slots=True)
class RetryInfo:
    """A request that failed and will be made again."""

    attempt: int
    """How often it was tried so far, from 1."""
    wait: float
    """Seconds until the next try."""
    error: ToolnexusError
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Functions to be called in the course of every run of a client; under `AsyncClient` they may be async.

    Several `Hooks` compose in their order: each sees what the one before made of it.
    """

    before_llm: Callable[[BeforeLLM], BeforeLLM | Awaitable[BeforeLLM | None] | None] | None = None
    """May return other messages and tools for this request; the transcript stays as it is."""
    after_llm: Callable[[AfterLLM], object] | None = None
    """Watches."""
    before_tool: (
        Callable[
            [BeforeTool],
            dict[str, Any] | ToolResult | Pending | Awaitable[dict[str, Any] | ToolResult | Pending | None] | None,
        ]
        | None
    ) = None
    """May return other arguments, or a `ToolResult` or `pending(...)` that stands in for the tool."""
    after_tool: Callable[[AfterTool], ToolResult | Awaitable[ToolResult | None] | None] | None = None
    """May return another result; not called for a suspension."""
    on_chunk: Callable[[Chunk], object] | None = None
    """Watches the raw stream; fire and forget."""
    on_message: Callable[[Message], object] | None = None
    """Watches each message as it joins the transcript; fire and forget."""
    on_retry: Callable[[RetryInfo], object] | None = None
    """Watches each retry; fire and forget."""


def check_hooks(hooks: Hooks | Sequence[Hooks], *, may_await: bool) -> tuple[Hooks, ...]:
    """The hooks of a client as a tuple.

    Raises:
        ConfigurationError: Something else was given, or an async hook to a client that cannot await.
    """
    if not isinstance(hooks, (Hooks, Sequence)):
        raise ConfigurationError(f"hooks: expected Hooks(...) or a list of them, got {hooks!r}")
    found = (hooks,) if isinstance(hooks, Hooks) else tuple(hooks)
    for one in found:
        if not isinstance(one, Hooks):
            raise ConfigurationError(f"hooks: expected Hooks(...) or a list of them, got {type(one).__name__}")
        for field in fields(one):
            hook = getattr(one, field.name)
            if hook is not None and not callable(hook):
                raise ConfigurationError(f"hooks.{field.name}: expected a function, got {hook!r}")
            if not may_await and is_async(hook):
                raise ConfigurationError(
                    f"hooks.{field.name}: SyncClient cannot await {hook!r}; use AsyncClient, or a plain function"
                )
    return found


def is_async(function: object) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or (
        callable(function) and inspect.iscoroutinefunction(type(function).__call__)
    )


def each(hooks: Sequence[Hooks], name: str) -> Iterator[Callable[[Any], Any]]:
    """The functions that are set for one kind of hook, in order."""
    return (hook for one in hooks if (hook := getattr(one, name)) is not None)


def fire(observer: Callable[[T], object], value: T, spawn: Callable[[Awaitable[object]], None]) -> None:
    """Tell an observer; whatever it does, the run goes on.

    Args:
        spawn: Takes care of what an async observer returns, without waiting for it.
    """
    try:
        returned = observer(value)
        if inspect.isawaitable(returned):
            spawn(returned)
    except Exception:
        log_failure(observer)


def log_failure(observer: object) -> None:
    """Log the exception in flight as an observer's."""
    logging.getLogger("toolnexus").exception("observer %r failed", observer)
