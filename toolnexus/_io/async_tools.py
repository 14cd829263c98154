"""Running tools for the async world: async ones as tasks, sync ones in daemon threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from .._core.commands import ToolCall, ToolOutcome
from ..cancel import Cancel
from ..limits import Limits
from .async_bounds import AsyncBounds, end_tasks, let_go, observed
from .lines import apart, lend
from .threads import DaemonThreads
from .tool_calls import context_for, outcome, prepare, timed_out


class AsyncTools:
    """Runs the calls of a turn side by side; lives as long as its client."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = DaemonThreads("toolnexus-tool")
        self._spawned: set[asyncio.Task[None]] = set()  # a loop keeps weak references only

    async def run(
        self, calls: Sequence[ToolCall], bounds: AsyncBounds, conversation_id: str | None
    ) -> AsyncGenerator[ToolOutcome, None]:
        """Run `calls` and give each outcome as soon as it is there.

        Raises:
            RunCancelledError, DeadlineExceededError: The run is over; what still runs is cancelled.
            BaseException: What a tool raised that is no `Exception`, such as `KeyboardInterrupt`.
        """
        waiting = deque(calls)
        running: set[asyncio.Future[ToolOutcome | BaseException]] = set()
        try:
            while waiting or running:
                bounds.check()
                while waiting and len(running) < self._limits.parallel_tools:
                    with lend(bounds.lent):
                        running.add(asyncio.create_task(self._call(waiting.popleft(), bounds, conversation_id)))
                timeout = None if bounds.expires is None else bounds.remaining
                await asyncio.wait({*running, bounds.over}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in running if task.done()]:
                    running.discard(task)
                    result = task.result()
                    if isinstance(result, BaseException):
                        raise result
                    yield result
        finally:
            await end_tasks(running)

    async def _call(
        self, call: ToolCall, bounds: AsyncBounds, conversation_id: str | None
    ) -> ToolOutcome | BaseException:
        cancel = Cancel()
        unlink = bounds.cancel.add_callback(cancel.cancel)
        context = context_for(call, bounds, conversation_id, cancel)
        began = time.monotonic()
        try:
            prepared = prepare(call, context)
            if isinstance(prepared, ToolOutcome):
                return prepared
            running = asyncio.ensure_future(self._made(call, prepared))
            try:
                await asyncio.wait({running}, timeout=call.tool.timeout)
                if not running.done():
                    return timed_out(call, time.monotonic() - began)
                # A tool that cancels itself gives an error result, and the run goes on.
                value = RuntimeError("the tool was cancelled") if running.cancelled() else running.result()
            finally:
                await end_tasks({running})
            if isinstance(value, (KeyboardInterrupt, SystemExit)):
                return value
            return outcome(call, value, context, time.monotonic() - began)
        finally:
            unlink()
            cancel.cancel()  # what the call left behind in a thread may stop

    async def _made(self, call: ToolCall, prepared: Callable[[], Any]) -> Any:  # Any: what the tool returns, or raised
        try:
            value = prepared() if call.tool.is_async else await self.in_thread(prepared)
            return await value if inspect.isawaitable(value) else value
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # raised in a task, a KeyboardInterrupt would end the event loop instead
            return error

    async def in_thread(self, function: Callable[[], Any]) -> Any:  # Any: what the tool returns
        """Run a sync tool in a thread. When the wait is cancelled the thread goes on, and its result is dropped.

        If it is cancelled before the thread has begun, nothing is run.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        variables = contextvars.copy_context()

        def settle(value: Any, error: BaseException | None) -> None:
            if done.done():
                return
            if isinstance(error, StopIteration):  # a future refuses it
                error = RuntimeError("the tool raised StopIteration")
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(value)

        def work() -> None:
            if done.cancelled():
                return
            value, error = None, None
            try:
                value = variables.run(function)
            except BaseException as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, value, error)

        self._threads.start(work)
        return await done

    def spawn(self, awaitable: Awaitable[object]) -> None:
        """Await what an observer returned, in a task of its own."""
        with apart():
            task = asyncio.ensure_future(observed(awaitable))
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)
        task.add_done_callback(lambda _: let_go(awaitable))

    def close(self) -> None:
        """Let the threads end; a sync tool that still runs keeps its own, a daemon."""
        self._threads.close()
