"""A run's bounds under asyncio: every wait of ours ends with them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import time
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from ..cancel import Cancel
from ..hooks import log_failure
from .bounds import Bounds
from .lines import lend

T = TypeVar("T")


class AsyncBounds(Bounds):
    """`Bounds` that can be waited for; made inside the event loop of the run."""

    def __init__(self, cancel: Cancel | None, deadline: float | None) -> None:
        super().__init__(cancel, deadline)
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[Any] = loop.create_future()
        """Done as soon as the run was cancelled."""

        def set_over() -> None:
            if not self.over.done():
                self.over.set_result(None)

        def cancelled() -> None:  # in whichever thread cancels
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(set_over)

        self.cancel.add_callback(cancelled)

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Wait for `awaitable`, but no longer than the run may go on.

        Raises:
            RunCancelledError, DeadlineExceededError: The run is over; `awaitable` was cancelled and has ended.
        """
        with lend(self.lent):
            task = asyncio.ensure_future(awaitable)
        try:
            remaining = self.remaining
            await asyncio.wait(
                {task, self.over},
                timeout=None if remaining == math.inf else remaining,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not task.done():
                self.check()
            return await task
        finally:
            await end_tasks({task})

    async def sleep(self, seconds: float) -> None:
        """Sleep, unless the run ends before."""
        await self.wait(asyncio.sleep(seconds))


SAVE_GRACE_S = 5.0
"""How long a save may go on in a task that was cancelled. One that takes longer is left to itself."""


async def to_its_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await what must not be left half done: when the task is cancelled meanwhile, it ends first."""
    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        until = time.monotonic() + SAVE_GRACE_S
        while not task.done() and time.monotonic() < until:
            with contextlib.suppress(asyncio.CancelledError):  # cancelled once more: the first one is raised below
                await asyncio.wait({task}, timeout=until - time.monotonic())
        await end_tasks({task})
        raise


GRACE_S = 0.1
"""How long a cancelled task may take to end. One that takes longer is left to itself: it must not hold up the run."""

_left: set[asyncio.Future[Any]] = set()  # a loop keeps weak references only


async def end_tasks(tasks: set[asyncio.Future[T]]) -> None:
    """Cancel what still runs and wait a little for its end; its results and errors are not wanted."""
    unfinished = {task for task in tasks if not task.done()}
    for task in unfinished:
        _left.add(task)
        task.add_done_callback(_forget)
        task.cancel()
    if unfinished:
        await asyncio.wait(unfinished, timeout=GRACE_S)


def _forget(task: asyncio.Future[Any]) -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not report it as lost


async def observed(awaitable: Awaitable[object]) -> None:
    """Await what an async observer returned; its failure is logged, and nobody's affair."""
    try:
        await awaitable
    except Exception:
        log_failure(awaitable)


def let_go(awaitable: Awaitable[object]) -> None:
    """Close an observer's coroutine that was cancelled before it began, which Python would complain about."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()
