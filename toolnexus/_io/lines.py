"""The line in front of a conversation: one run at a time, in the order in which they came.

Every run that keeps its transcript enters the line of its id before it loads, and leaves it when it is over; the first
in the line is at work, the others wait. The lines belong to the process, not to a client: whoever shares a
store object queues up, threads and tasks alike. Between processes it is the store that notices.

A run that would wait for itself is refused. `Place` knows who that is: a run cannot go on while the thread or task
that read from it last waits, nor while one of its tools or hooks does. The first is looked up when somebody wants to
wait; the second is lent to whatever a run starts and awaits, through a context variable.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError

if TYPE_CHECKING:
    import asyncio

    from ..stores import Keep
    from .async_bounds import AsyncBounds
    from .bounds import Bounds

Caller = tuple[threading.Thread, "asyncio.Task[Any] | None"]
"""Who executes something: a thread, and the task that it is executing, if it is."""
Lenders = tuple["weakref.ref[Place]", ...]
"""The places of the runs that wait for what is going on here, outermost first."""
_Line = deque["weakref.ref[Place]"]

# One lock for all lines, since whoever looks for a circle looks at all of them; it is held for microseconds. Reentrant:
# inside of it the garbage collector may close a half-read run, which then leaves its own place, or a line of its own.
# So each step below leaves things in a state that another `leave` may meet.
_lock = threading.RLock()
_lines: dict[tuple[int, str], _Line] = {}
"""Only lines in which somebody stands. References are weak: a run that vanishes without a word, since its event loop
was closed, gives up its place as well."""
_lenders: ContextVar[Lenders] = ContextVar("toolnexus_lenders", default=())


def caller() -> Caller:
    """Who executes this."""
    # Where asyncio was never imported, or another thread is just about it, no loop runs here; it takes long to import.
    # Unlike get_running_loop this one, of asyncio.__all__, does not raise where none runs: half a microsecond for each
    # event of a sync run.
    get_running_loop = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    if get_running_loop is None or (loop := get_running_loop()) is None:
        return threading.current_thread(), None
    return threading.current_thread(), sys.modules["asyncio"].current_task(loop)


def context_lent(lenders: Lenders) -> Context:
    """A copy of this context; what runs in it counts as part of the run with these places: it waits for them."""
    context = copy_context()
    if lenders:
        context.run(_lenders.set, lenders)
    return context


@contextlib.contextmanager
def lend(lenders: Lenders) -> Generator[None, None, None]:
    """Let tasks and contexts that are made inside count as part of the run with these places: it waits for them."""
    if not lenders:
        yield
        return
    token = _lenders.set(lenders)
    try:
        yield
    finally:
        _lenders.reset(token)


@contextlib.contextmanager
def apart() -> Generator[None, None, None]:
    """Let tasks that are made inside count as nobody's: no run waits for them, so they may wait for any."""
    token = _lenders.set(())
    try:
        yield
    finally:
        _lenders.reset(token)


class Place:
    """One run's place in the line of its conversation; made with the run, by whoever will read from it."""

    _line: _Line | None = None
    """Where it stands, if it does; also while it is half made, since an interrupted one is collected like any other."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep  # also keeps the store alive, and with it the meaning of its id()
        self._key = (id(keep.store), keep.id)
        self._ref: weakref.ref[Place] = weakref.ref(self)
        self._maker = self._reader = caller()
        self._lenders: Lenders = ()
        self._blocks_thread = False
        self.wake: Callable[[], bool] | None = None
        """Tells the run that its turn has come, if it waits; `False` if it cannot be told any more."""

    def enter(self, bounds: Bounds) -> None:
        """Wait in this thread until no other run is at work on the conversation.

        Raises:
            ConfigurationError: It would wait for itself.
            RunCancelledError, DeadlineExceededError: `bounds` ended before its turn came.
        """
        self._blocks_thread = True
        self._join()
        if not self._has_turn:
            woken: queue.SimpleQueue[None] = queue.SimpleQueue()  # a finalizer may tell it, unlike an Event

            def wake() -> bool:
                woken.put(None)
                return True

            self.wake = wake
            unlink = bounds.cancel.add_callback(wake)
            try:
                while not self._has_turn:
                    with contextlib.suppress(queue.Empty):
                        woken.get(timeout=min(bounds.remaining, threading.TIMEOUT_MAX))
                    bounds.check()
            finally:
                unlink()
                self.wake = None
        bounds.lent = (*self._lenders, self._ref)

    async def aenter(self, bounds: AsyncBounds) -> None:
        """`enter` for a task: it waits without holding up its event loop."""
        import asyncio

        self._join()
        if not self._has_turn:
            loop = asyncio.get_running_loop()
            turn: asyncio.Future[None] = loop.create_future()

            def come() -> None:
                if not turn.done():
                    turn.set_result(None)

            def wake() -> bool:
                try:
                    loop.call_soon_threadsafe(come)
                except RuntimeError:  # the loop is closed
                    return False
                return True

            self.wake = wake
            try:
                while not self._has_turn:
                    timeout = None if bounds.expires is None else bounds.remaining
                    await asyncio.wait({turn, bounds.over}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                    bounds.check()
            finally:
                self.wake = None
        bounds.lent = (*self._lenders, self._ref)

    def stepped(self) -> None:
        """Somebody reads on: note who it is."""
        self._reader = caller()

    @property
    def _has_turn(self) -> bool:
        return self._line is not None and self._line[0] is self._ref

    def _join(self) -> None:
        """Stand in line, at its end."""
        self._reader = caller()
        self._lenders = _lenders.get()
        with _lock:
            line = _lines.get(self._key)
            if line is not None:
                self._refuse_circle(line)
            while self._line is None or _lines.get(self._key) is not self._line:
                # Once more if somebody leaves just here, and takes the line away that was empty then.
                self._line = _lines.setdefault(self._key, deque())
                self._line.append(self._ref)

    def leave(self) -> None:
        """Let the next one go. To be called however the wait or the run ended; may be called again."""
        line = self._line
        if line is None:
            return
        with _lock:
            if _lines.get(self._key) is line:  # else it is the copy of a place, in a forked child
                _remove(line, self._ref)
                _call_first(line)
                if not line:
                    _lines.pop(self._key, None)
            self._line = None

    __del__ = leave

    def _refuse_circle(self, line: _Line) -> None:
        """Refuse to wait for a run that waits, by however many others, for this one."""
        at_work = _first(line)
        if at_work is None:
            return
        if at_work._ref in self._lenders:
            raise ConfigurationError(
                f"{self._name} is at work on a run that waits for this one: a tool, hook or wait_for of it would wait "
                "for its own run for ever; use another id, or start this when that run is over"
            )
        if self._holds_up(at_work):
            raise ConfigurationError(
                f"{self._name} is at work on a run of this thread or task that is not over, so that this one would "
                "wait for ever: read its events to the end, or close it, first"
            )
        last = self._end_of_circle(at_work)
        if last is not None:
            raise ConfigurationError(
                f"{self._name} is at work on a run that waits, perhaps by way of others, for {last._name}, which waits "
                "for this run, so that all would wait for ever: use another id, or ask for ids in one order everywhere"
            )

    def _end_of_circle(self, at_work: Place) -> Place | None:
        """The run that waits for this one, and for which `at_work` waits, by however many others."""
        lines = tuple(_lines.values())
        held_up = [first for line in lines if (first := _first(line)) is not None and self._holds_up(first)]
        if not held_up:  # as nearly always: this run is nobody's tool, and its caller has no other run
            return None
        ahead = [at_work]
        for one in ahead:
            for line in lines:
                first = _first(line)
                if first is None or first in ahead or not any(w._holds_up(one) for w in _waiting(line)):
                    continue
                if first in held_up:
                    return first
                ahead.append(first)
        return None

    def _holds_up(self, other: Place) -> bool:
        """Whether `other`'s run cannot go on while this one waits."""
        if other._ref in self._lenders:
            return True
        thread, task = other._reader
        if not thread.is_alive() or (task is not None and task.done()):
            # It was stepped by somebody who is gone (`wait_for(anext(events), 5)` was a task of its own before
            # Python 3.12): it will be whoever made it.
            thread, task = other._maker
        mine, my_task = self._reader
        return thread is mine and (self._blocks_thread or task is None or task is my_task)

    @property
    def _name(self) -> str:
        return f"conversation {self._keep.id!r}" if self._keep.id else "this conversation"


def _first(line: _Line) -> Place | None:
    """Whose run is at work; `None` if it has just vanished."""
    return next((ref() for ref in tuple(line)), None)


def _waiting(line: _Line) -> list[Place]:
    """Those behind the first."""
    return [place for ref in tuple(line)[1:] if (place := ref()) is not None]


def _call_first(line: _Line) -> None:
    """Tell the first of a line that its turn has come. Those whose event loop was closed never come: they go."""
    for ref in tuple(line):
        first = ref()
        if first is None or first.wake is None or first.wake():
            return
        _remove(line, ref)


def _remove(line: _Line, ref: weakref.ref[Place]) -> None:
    with contextlib.suppress(ValueError):  # it left before, or was left out
        line.remove(ref)


def _forget() -> None:
    """In a forked child: the runs of the parent are not ours, and a thread that is not here may hold the lock."""
    global _lock
    _lock = threading.RLock()
    _lines.clear()


with contextlib.suppress(AttributeError):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_forget)
