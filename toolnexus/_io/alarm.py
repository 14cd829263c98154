"""An alarm for waits that follow one another closely, such as the reads of a stream."""

from __future__ import annotations

import asyncio

from .bounds import TICK_S


class Alarm:
    """Ends a wait that lasts too long, one at a time.

    To start a timer for each read and to cancel it takes as long as the read. So a timer that has begun runs on, and
    when it rings too early for the wait of that moment it is wound up again.
    """

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._future: asyncio.Future[None] | None = None
        self._error: type[Exception] = TimeoutError
        self._due = 0.0

    def set(self, future: asyncio.Future[None], timeout: float | None, error: type[Exception]) -> None:
        """Let `future` fail with `error` if it is not done within `timeout` seconds; `None` for never."""
        if timeout is None:
            return
        loop = future.get_loop()
        self._due = loop.time() + timeout
        if self._timer is None or self._timer.when() > self._due:
            self.stop()
            self._timer = loop.call_at(self._due, self._ring)
        self._future, self._error = future, error

    def unset(self) -> None:
        """The wait is over."""
        self._future = None

    def stop(self) -> None:
        """The waits are over, for a while at least: leave no timer behind."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        future, self._timer = self._future, None
        if future is None or future.done():
            return
        loop = future.get_loop()
        if self._due - loop.time() > TICK_S:
            self._timer = loop.call_at(self._due, self._ring)
        else:
            future.set_exception(self._error())
