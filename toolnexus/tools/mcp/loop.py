"""The event loop on which a toolkit's MCP servers live: one daemon thread, whatever world the caller is in."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_EXIT_WAIT_S = 15.0
"""How long the interpreter's exit waits for the servers: each gets 2 s to go by itself, 2 s to be killed, and some."""


class LoopThread:
    """An event loop in a thread of its own, started when first needed.

    A forked child has no such thread: it starts its own, and leaves what its parent runs alone.
    """

    def __init__(self, farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start nothing yet.

        Args:
            farewell: Awaited on the loop before it ends.
        """
        self._farewell = farewell
        self._lock = threading.RLock()  # a garbage collection in here may close it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._ended: Future[None] | None = None
        self._is_closed = False

    def submit(self, start: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on the loop; cancelling the future cancels it.

        Raises:
            RuntimeError: The loop is closed.
        """
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the toolkit is closed")
            return asyncio.run_coroutine_threadsafe(start(), self._started())

    @property
    def is_ours(self) -> bool:
        """Whether its thread, if any, runs in this process."""
        return self._pid == os.getpid()

    def close(self) -> Future[None]:
        """Begin to end it: what runs is told farewell and cancelled. May be called again.

        Returns:
            Done when all is over, the thread but for its last instructions, too.
        """
        with self._lock:
            self._is_closed = True
            _open.discard(self)
            if self._loop is None or not self.is_ours or self._ended is None:
                done: Future[None] = Future()
                done.set_result(None)
                return done
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            return self._ended

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or not self.is_ours:
            self._pid = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._ended = Future()
            _open.add(self)
            threading.Thread(
                target=self._serve, args=(self._loop, self._ended), name="toolnexus-mcp", daemon=True
            ).start()
        return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop, ended: Future[None]) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._farewell())
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
            ended.set_result(None)


_open: set[LoopThread] = set()


@atexit.register
def _close_all() -> None:
    """Let no server outlive the interpreter: a daemon thread just stops, and its children would go on."""
    ended = [thread.close() for thread in list(_open) if thread.is_ours]
    for future in ended:
        future.exception(_EXIT_WAIT_S)
