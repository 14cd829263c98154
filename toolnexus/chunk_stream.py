"""The raw stream of a conversation: its chunks, who watches them, and a summary of each response."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from .chunks import Chunk, ChunkTag, FinishChunk
from .config import check_count
from .errors import ConfigurationError
from .hooks import fire
from .messages import Message
from .results import StreamSummary

MAX_SUMMARIES = 10_000
"""Summaries that a stream keeps; beyond it the oldest go. At ten responses a minute that is most of a day."""

_TYPES = frozenset({"content", "reasoning", "tool_call_delta", "usage", "finish"})

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


class Hook:
    """A subscription."""

    def __init__(self, dispose: Callable[[], object]) -> None:
        self._dispose = dispose

    def dispose(self) -> None:
        """Unsubscribe; may be called again."""
        self._dispose()


class HookPoint(Generic[T]):
    """Where a callback is hooked in: call `do`, or use it as a decorator."""

    def __init__(self, add: Callable[[Callable[[T], object]], Hook]) -> None:
        self._add = add

    def do(self, callback: Callable[[T], object]) -> Hook:
        """Call `callback` with each chunk from the next one on, fire and forget."""
        return self._add(callback)

    def __call__(self, callback: Callable[[T], object]) -> Callable[[T], object]:
        """The same as a decorator; the function stays what it is."""
        self._add(callback)
        return callback


class Observers(Generic[T]):
    """Callbacks that are told of something, each on its own: the same function may be there twice."""

    def __init__(self) -> None:
        self._callbacks: dict[object, tuple[Callable[[T], object], Callable[[T], bool]]] = {}
        self._lock = threading.Lock()

    def add(self, callback: Callable[[T], object], accepts: Callable[[T], bool] = lambda value: True) -> Hook:
        """Tell `callback` of what `accepts` lets through, from now on."""
        if not callable(callback):
            raise ConfigurationError(f"expected a function, got {callback!r}")
        token = object()
        with self._lock:
            self._callbacks = {**self._callbacks, token: (callback, accepts)}  # a new one: dispatch works on a snapshot
        return Hook(lambda: self._remove(token))

    def _remove(self, token: object) -> None:
        with self._lock:
            self._callbacks = {key: one for key, one in self._callbacks.items() if key is not token}

    def clear(self) -> None:
        with self._lock:
            self._callbacks = {}

    def tell(self, value: T, spawn: Callable[[Awaitable[object]], None]) -> None:
        """Tell those who were there when the telling began and still are."""
        for token, (callback, accepts) in self._callbacks.items():
            if token in self._callbacks and accepts(value):
                fire(callback, value, spawn)


class ChunkStream:
    """The chunks of the current send, and summaries of all sends.

    Chunks and the finish reason are cleared when the next send begins; hooks stay.
    """

    def __init__(self, keep_chunks: int | None = None) -> None:
        """`keep_chunks`: how many of the current send are kept, the newest; `None` keeps all of it."""
        if keep_chunks is not None:
            check_count("keep_chunks", keep_chunks, minimum=0)
        self._chunks: deque[Chunk] = deque(maxlen=keep_chunks)
        self._finish_reason: str | None = None
        self._summaries: deque[StreamSummary] = deque(maxlen=MAX_SUMMARIES)
        self._observers: Observers[Any] = Observers()

    @overload
    def hook(self) -> HookPoint[Chunk]: ...
    @overload
    def hook(self, a: ChunkTag[A], /) -> HookPoint[A]: ...
    @overload
    def hook(self, a: ChunkTag[A], b: ChunkTag[B], /) -> HookPoint[A | B]: ...
    @overload
    def hook(
        self, a: ChunkTag[Any], b: ChunkTag[Any], c: ChunkTag[Any], /, *more: ChunkTag[Any]
    ) -> HookPoint[Chunk]: ...
    def hook(self, *types: ChunkTag[Any]) -> HookPoint[Any]:
        """Watch chunks of these types, of all without any: `hook(ChunkType.CONTENT).do(callback)`, or a decorator."""
        unknown = [type for type in types if type not in _TYPES]
        if unknown:
            raise ConfigurationError(f"hook: expected members of ChunkType, got {unknown}")
        wanted = frozenset(types) or _TYPES
        return HookPoint(lambda callback: self._observers.add(callback, lambda chunk: chunk.type in wanted))

    def all(self) -> list[Chunk]:
        """The chunks of the current send so far."""
        return list(self._chunks)

    def finish_reason(self) -> str | None:
        """Why the latest response of the current send ended; `None` before."""
        return self._finish_reason

    def summary(self) -> list[StreamSummary]:
        """One summary for each model response, over all sends, oldest first; at most `MAX_SUMMARIES`."""
        return list(self._summaries)

    def clear_summaries(self) -> None:
        """Forget the summaries; chunks and hooks stay."""
        self._summaries.clear()

    def clear(self) -> None:
        """Forget chunks and hooks; summaries stay. Numbering goes on, so that no chunk's name comes twice."""
        self.begin()
        self._observers.clear()

    # -- called by the run

    def begin(self) -> None:
        """A send begins."""
        self._chunks.clear()
        self._finish_reason = None

    def tell(self, item: Chunk | StreamSummary, spawn: Callable[[Awaitable[object]], None]) -> None:
        """Note what is new, and show it to the hooks; the client does this."""
        if isinstance(item, StreamSummary):
            self._summaries.append(item)
            return
        self._chunks.append(item)
        if isinstance(item, FinishChunk):
            self._finish_reason = item.finish_reason
        self._observers.tell(item, spawn)


@dataclass(frozen=True, slots=True)
class Watch:
    """What a conversation watches of one of its sends."""

    chunks: ChunkStream
    messages: Observers[Message]
    batch: int
    """The number of the send, from 1."""
