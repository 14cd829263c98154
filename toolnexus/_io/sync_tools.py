"""Running tools for the sync world: each in a daemon thread, async ones on one private event loop."""

from __future__ import annotations

import contextvars
import inspect
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .._core.commands import ToolCall, ToolOutcome
from ..cancel import Cancel
from ..limits import Limits
from .bounds import Bounds
from .lines import context_lent
from .threads import DaemonThreads
from .tool_calls import context_for, outcome, prepare, timed_out

if TYPE_CHECKING:
    from .loop_thread import LoopThread


class SyncTools:
    """Runs the calls of a turn side by side; lives as long as its client."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = DaemonThreads("toolnexus-tool")
        self._lock = threading.Lock()
        self._loop: LoopThread | None = None
        self._is_closed = False

    def run(self, calls: Sequence[ToolCall], bounds: Bounds, conversation_id: str | None) -> Iterator[ToolOutcome]:
        """Run `calls` and give each outcome as soon as it is there.

        Raises:
            RunCancelledError, DeadlineExceededError: The run is over; what still runs is told, and its result dropped.
            BaseException: What a tool raised that is no `Exception`, such as `KeyboardInterrupt`.
        """
        done: queue.SimpleQueue[tuple[ToolCall, ToolOutcome | BaseException] | None] = queue.SimpleQueue()
        unlink = bounds.cancel.add_callback(lambda: done.put(None))
        waiting = deque(calls)
        running: dict[int, tuple[ToolCall, Cancel]] = {}
        ends: dict[int, float] = {}  # of those that have a timeout
        try:
            while waiting or running:
                bounds.check()
                while waiting and len(running) < self._limits.parallel_tools:
                    call = waiting.popleft()
                    if call.tool.timeout is not None:
                        ends[call.slot] = time.monotonic() + call.tool.timeout
                    running[call.slot] = call, self._start(call, bounds, conversation_id, done.put)
                try:
                    item = done.get(timeout=_until_next(ends, bounds))
                except queue.Empty:  # a result that lies there was in time, however long the consumer took
                    for slot in [slot for slot, end in ends.items() if time.monotonic() >= end]:
                        (call, cancel), end = running.pop(slot), ends.pop(slot)
                        cancel.cancel()
                        assert call.tool.timeout is not None
                        yield timed_out(call, call.tool.timeout + time.monotonic() - end)
                    continue
                if item is None:
                    continue
                call, result = item
                ends.pop(call.slot, None)
                if running.pop(call.slot, None) is None:
                    continue  # it came after its timeout
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            unlink()
            for _, cancel in running.values():
                cancel.cancel()

    def _start(
        self,
        call: ToolCall,
        bounds: Bounds,
        conversation_id: str | None,
        report: Callable[[tuple[ToolCall, ToolOutcome | BaseException]], None],
    ) -> Cancel:
        """Start one call; `report` gets its outcome, in the call's thread.

        Returns:
            A switch for this call alone.
        """
        cancel = Cancel()
        unlink = bounds.cancel.add_callback(cancel.cancel)
        context = context_for(call, bounds, conversation_id, cancel)
        variables = context_lent(bounds.lent)

        def work() -> None:
            began = time.monotonic()
            try:
                if cancel.cancelled:  # the run was over before the thread began: what nobody waits for is not done
                    return
                prepared = prepare(call, context)
                if isinstance(prepared, ToolOutcome):
                    report((call, prepared))
                    return
                try:
                    value = prepared()
                    if inspect.isawaitable(value):
                        value = self._get_loop().run(value, contextvars.copy_context(), cancel)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # also a CancelledError, of a tool that drives an event loop
                    value = error
                report((call, outcome(call, value, context, time.monotonic() - began)))
            except BaseException as error:  # a KeyboardInterrupt of the tool's belongs to whoever started the run
                report((call, error))
            finally:
                unlink()

        try:
            self._threads.start(lambda: variables.run(work))
        except RuntimeError as error:  # the system has no thread left: the call fails, as any other may
            unlink()
            report((call, outcome(call, error, context, 0.0)))
        return cancel

    def spawn(self, awaitable: Awaitable[object]) -> None:
        """Await what an observer returned, on the loop thread, without waiting for it here."""
        self._get_loop().spawn(awaitable)

    def _get_loop(self) -> LoopThread:
        from .loop_thread import LoopThread  # with asyncio, which few clients need

        with self._lock:
            if self._loop is None:
                self._loop = LoopThread()
                if self._is_closed:
                    self._loop.close()
            return self._loop

    def close(self) -> None:
        """Let the threads end; a tool that still runs keeps its own, a daemon."""
        self._threads.close()
        with self._lock:
            self._is_closed = True
            loop = self._loop
        if loop is not None:
            loop.close()


def _until_next(ends: Mapping[int, float], bounds: Bounds) -> float | None:
    """Seconds until the run or one of its calls is out of time."""
    every = [*ends.values(), *(() if bounds.expires is None else (bounds.expires,))]
    return min(max(0.0, min(every) - time.monotonic()), threading.TIMEOUT_MAX) if every else None
