"""Running tools for the async world: async ones as tasks, sync ones in daemon threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.commands import ToolCall, ToolOutcome
from ..cancel import Cancel
from ..limits import Limits
from ..tool import ToolContext
from .async_bounds import AsyncBounds, end_tasks, let_go, observed
from .lines import apart, context_lent
from .threads import DaemonThreads
from .tool_calls import context_for, outcome, prepare, timed_out

_Task = asyncio.Task[ToolOutcome | BaseException]


@dataclass(frozen=True, slots=True)
class _Running:
    """A call under way."""

    call: ToolCall
    context: ToolContext
    unlink: Callable[[], None]
    began: float

    @classmethod
    def begin(cls, call: ToolCall, bounds: AsyncBounds, conversation_id: str | None) -> _Running:
        cancel = Cancel()
        unlink = bounds.cancel.add_callback(cancel.cancel)
        return cls(call, context_for(call, bounds, conversation_id, cancel), unlink, time.monotonic())

    @property
    def duration(self) -> float:
        return time.monotonic() - self.began

    @property
    def is_late(self) -> bool:
        return self.call.tool.timeout is not None and self.duration >= self.call.tool.timeout

    def outcome_of(self, task: _Task) -> ToolOutcome | BaseException:
        if task.cancelled():  # a tool that cancels itself gives an error result, and the run goes on
            return outcome(self.call, RuntimeError("the tool was cancelled"), self.context, self.duration)
        return task.result()

    def close(self) -> None:
        """The call is over: what it left behind in a thread may stop."""
        self.unlink()
        self.context.cancel.cancel()


class _Ended:
    """Tasks in the order in which they end. Unlike `asyncio.wait` it does not look at all of them for each."""

    def __init__(self) -> None:
        self._tasks: deque[_Task] = deque()
        self._bell: asyncio.Future[None] | None = None

    def put(self, task: _Task) -> None:
        self._tasks.append(task)
        self.ring(task)

    def ring(self, _: object) -> None:
        """Let the wait end."""
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def wait(self, timeout: float | None) -> None:
        """Wait until a task has ended, or the bell rings, or so many seconds."""
        if self._tasks:
            return
        loop = asyncio.get_running_loop()
        self._bell = loop.create_future()
        timer = loop.call_later(timeout, self.ring, None) if timeout is not None else None
        try:
            await self._bell
        finally:
            if timer is not None:
                timer.cancel()

    def take(self) -> Iterator[_Task]:
        while self._tasks:
            yield self._tasks.popleft()


def _until_next(running: Mapping[_Task, _Running], bounds: AsyncBounds) -> float | None:
    """Seconds until the run or one of its calls is out of time."""
    ends = [one.began + one.call.tool.timeout for one in running.values() if one.call.tool.timeout is not None]
    if bounds.expires is not None:
        ends.append(bounds.expires)
    return max(0.0, min(ends) - time.monotonic()) if ends else None


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
        waiting, running, late = deque(calls), dict[_Task, _Running](), set[_Task]()
        ended = _Ended()
        bounds.over.add_done_callback(ended.ring)
        try:
            while waiting or running:
                bounds.check()
                while waiting and len(running) < self._limits.parallel_tools:
                    one = _Running.begin(waiting.popleft(), bounds, conversation_id)
                    task = asyncio.create_task(self._outcome(one), context=context_lent(bounds.lent))
                    running[task] = one
                    task.add_done_callback(ended.put)
                await ended.wait(_until_next(running, bounds))
                # Asked now: what ends in time must not be late because the consumer then holds up the event loop.
                overdue = [task for task, one in running.items() if one.is_late and not task.done()]
                for task in ended.take():
                    if (one_ended := running.pop(task, None)) is None:
                        continue  # it came after its timeout
                    one_ended.close()
                    result = one_ended.outcome_of(task)
                    if isinstance(result, BaseException):
                        raise result
                    yield result
                for task in overdue:
                    if (one_late := running.pop(task, None)) is None:
                        continue  # it ended while the consumer was busy
                    late.add(task)
                    one_late.close()
                    task.cancel()
                    yield timed_out(one_late.call, one_late.duration)
        finally:
            bounds.over.remove_done_callback(ended.ring)
            for one in running.values():
                one.close()
            await end_tasks({*running, *late})

    async def _outcome(self, one: _Running) -> ToolOutcome | BaseException:
        value: Any  # what the tool returns, or raised
        try:
            prepared = prepare(one.call, one.context)
            if isinstance(prepared, ToolOutcome):
                return prepared
            value = prepared() if one.call.tool.is_async else await self.in_thread(prepared)
            if inspect.isawaitable(value):
                value = await value
        except asyncio.CancelledError:
            raise
        except (KeyboardInterrupt, SystemExit) as error:  # raised in a task, it would end the event loop instead
            return error
        except BaseException as error:
            value = error
        return outcome(one.call, value, one.context, one.duration)

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
