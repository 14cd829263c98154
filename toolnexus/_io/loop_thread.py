"""The event loop of a sync client, for what can only be awaited: async tools, and what observers return.

Imported when there is such a thing, since asyncio takes a while to import.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable
from typing import Any

from ..cancel import Cancel
from .async_bounds import let_go, observed
from .lines import apart


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
        """Await on the loop, without waiting here; a failure is logged.

        Raises:
            RuntimeError: The client is closed; `awaitable` is, too.
        """
        try:
            loop = self._started()
        except RuntimeError:
            let_go(awaitable)
            raise
        with apart():
            task = asyncio.run_coroutine_threadsafe(observed(awaitable), loop)
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
