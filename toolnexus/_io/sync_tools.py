"""Running tools for the sync world: each in a daemon thread, async ones on one private event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from .._core.commands import ToolCall, ToolOutcome
from ..cancel import Cancel
from ..limits import Limits
from .async_bounds import let_go, observed
from .bounds import Bounds
from .lines import apart, lend
from .threads import DaemonThreads
from .tool_calls import context_for, outcome, prepare, timed_out


class SyncTools:
    """Runs the calls of a turn side by side; lives as long as its client."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = DaemonThreads("toolnexus-tool")
        self._loop = LoopThread()

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
                except queue.Empty:
                    item = None
                if item is not None:
                    call, result = item
                    ends.pop(call.slot, None)
                    if running.pop(call.slot, None) is None:
                        continue  # it came after its timeout
                    if isinstance(result, BaseException):
                        raise result
                    yield result
                for slot in [slot for slot, end in ends.items() if time.monotonic() >= end]:
                    (call, cancel), end = running.pop(slot), ends.pop(slot)
                    cancel.cancel()
                    assert call.tool.timeout is not None
                    yield timed_out(call, call.tool.timeout + time.monotonic() - end)
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
        with lend(bounds.lent):
            variables = contextvars.copy_context()

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
                        value = self._loop.run(value, contextvars.copy_context(), cancel)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # also a CancelledError, of a tool that drives an event loop
                    value = error
                report((call, outcome(call, value, context, time.monotonic() - began)))
            except BaseException as error:  # a KeyboardInterrupt of the tool's belongs to whoever started the run
                report((call, error))
            finally:
                unlink()

        self._threads.start(lambda: variables.run(work))
        return cancel

    def spawn(self, awaitable: Awaitable[object]) -> None:
        """Await what an observer returned, on the loop thread, without waiting for it here."""
        self._loop.spawn(awaitable)

    def close(self) -> None:
        """Let the threads end; a tool that still runs keeps its own, a daemon."""
        self._threads.close()
        self._loop.close()


def _until_next(ends: Mapping[int, float], bounds: Bounds) -> float | None:
    """Seconds until the run or one of its calls is out of time."""
    every = [*ends.values(), *(() if bounds.expires is None else (bounds.expires,))]
    return min(max(0.0, min(every) - time.monotonic()), threading.TIMEOUT_MAX) if every else None


class LoopThread:
    """An event loop in a daemon thread, started when first needed; it outlives runs, as a tool's resources may."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()
        self._is_closed = False

    def run(
        self, awaitable: Awaitable[Any], variables: contextvars.Context, cancel: Cancel
    ) -> Any:  # Any: a tool's value
        """Await on the loop and give the result here; `cancel` cancels the task."""
        loop = self._started()

        async def main() -> tuple[Any, BaseException | None]:
            try:
                return await awaitable, None
            except (KeyboardInterrupt, SystemExit) as error:  # raised in a task, it would end the event loop instead
                return None, error

        async def start() -> asyncio.Task[tuple[Any, BaseException | None]]:
            return loop.create_task(main(), context=variables)

        task = asyncio.run_coroutine_threadsafe(start(), loop).result()
        finished = threading.Event()
        loop.call_soon_threadsafe(task.add_done_callback, lambda _: finished.set())

        def cancelled() -> None:  # in whichever thread cancels
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the task with it
                loop.call_soon_threadsafe(task.cancel)

        unlink = cancel.add_callback(cancelled)
        try:
            finished.wait()
        finally:
            unlink()
        if task.cancelled():
            raise RuntimeError("the tool was cancelled")
        value, error = task.result()
        if error is not None:
            raise error
        return value

    def spawn(self, awaitable: Awaitable[object]) -> None:
        """Await on the loop, without waiting here; a failure is logged."""
        with apart():
            task = asyncio.run_coroutine_threadsafe(observed(awaitable), self._started())
        task.add_done_callback(lambda _: let_go(awaitable))

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the client is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
            if not self._thread.is_alive():  # also where an interrupt struck before it was started
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="toolnexus-loop", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Cancel what runs on the loop and end it; does not wait."""
        with self._lock:
            self._is_closed = True
            loop, self._loop = self._loop, None
        if loop is None:
            return
        if self._thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
        else:  # its start was interrupted
            loop.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
