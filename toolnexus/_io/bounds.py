"""How long a run may go on: its deadline and its cancel, looked at by everything that waits."""

from __future__ import annotations

import math
import threading
import time

from ..cancel import Cancel
from ..errors import APITimeoutError, DeadlineExceededError, RunCancelledError, ToolnexusError
from .lines import Lenders

TICK_S = 0.001
"""Timers of an event loop may ring this much too early; what waits for the deadline must then find it reached."""


class Bounds:
    """The bounds of one run; made when the run begins."""

    def __init__(self, cancel: Cancel | None, deadline: float | None) -> None:
        self._deadline = deadline
        self._given = cancel
        self.expires = None if deadline is None else time.monotonic() + deadline
        """`time.monotonic()` at which the run must be over."""
        self.cancel = Cancel()
        """Set as soon as the run is over, whatever ended it: what still runs on its behalf may stop."""
        self._unlink = cancel.add_callback(self.cancel.cancel) if cancel is not None else lambda: None
        self.lent: Lenders = ()
        """The places in line that wait for what the run starts: its own, and those of the runs around it."""
        self._ended: str | None = None
        self._is_free = not self.is_limited  # nothing can have ended it yet: what is looked at for every read

    def end(self, why: str) -> None:
        """End the run from outside, from any thread."""
        self._ended = why
        self._is_free = False
        self.cancel.cancel()

    def close(self) -> None:
        """The run is over."""
        self._unlink()
        self.cancel.cancel()

    @property
    def is_limited(self) -> bool:
        """Whether anything but its own end can end the run."""
        return self._given is not None or self.expires is not None

    @property
    def remaining(self) -> float:
        """Seconds left, infinite without a deadline; never negative."""
        return math.inf if self.expires is None else max(0.0, self.expires - time.monotonic())

    def exceeded(self) -> ToolnexusError | None:
        """The error to end the run with, if it is time to."""
        if self._given is not None and self._given.cancelled:
            return RunCancelledError("the run was cancelled")
        if self._ended is not None:
            return RunCancelledError(self._ended)
        if self.expires is not None and self.remaining <= TICK_S:
            return DeadlineExceededError(f"the run took longer than its deadline of {self._deadline:g} s")
        return None

    def check(self) -> None:
        """Raise if the run was cancelled or is out of time."""
        if self._is_free:
            return
        error = self.exceeded()
        if error is not None:
            raise error


class Runs:
    """The runs of a client that are under way, so that closing it ends them wherever they wait."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: set[Bounds] = set()
        self._is_closed = False

    def enter(self, bounds: Bounds) -> None:
        """A run begins."""
        with self._lock:
            self._open.add(bounds)
            is_closed = self._is_closed
        if is_closed:
            bounds.end(_CLOSED)

    def leave(self, bounds: Bounds) -> None:
        """A run is over."""
        with self._lock:
            self._open.discard(bounds)

    def close(self) -> None:
        """End all runs."""
        with self._lock:
            self._is_closed = True
            runs = list(self._open)
        for bounds in runs:
            bounds.end(_CLOSED)


_CLOSED = "the client was closed"


class Patience:
    """How long one exchange may still wait for bytes.

    Three clocks: the run's bounds; the little that is left after the end; and how long the model may take for its next
    word, which runs only between `wait_begins` and `wait_ended`, since the time that the consumer takes is not the
    model's.
    """

    def __init__(self, bounds: Bounds, progress_timeout: float | None = None) -> None:
        self.bounds = bounds
        self._shortened_to: float | None = None
        self._until: float | None = None
        self._progress_timeout = progress_timeout
        self.times_progress = progress_timeout is not None
        """Whether `wait_begins` and `wait_ended` are of any use."""
        self._progress = 0
        self._left = progress_timeout or 0.0
        self._stalls_at: float | None = None

    def shorten(self, seconds: float) -> bool:
        """Wait no longer than `seconds` in all, counted from the first time they are given.

        Returns:
            Whether that is news.
        """
        if self._shortened_to is not None and seconds >= self._shortened_to:
            return False
        self._shortened_to = seconds
        until = time.monotonic() + seconds
        self._until = until if self._until is None else min(self._until, until)
        return True

    def timeout(self, idle: float | None) -> float | None:
        """Seconds that the next wait may take."""
        left = self.bounds.remaining
        if self._stalls_at is not None:
            left = min(left, max(0.0, self._stalls_at - time.monotonic()))
        if self._until is not None:
            left = min(left, max(0.0, self._until - time.monotonic()))
        if idle is not None:
            left = min(left, idle)
        return None if left == math.inf else left

    def wait_begins(self, progress: int) -> float | None:
        """Somebody waits for bytes from now on.

        Args:
            progress: How far the model has come with its response; the clock starts again whenever that has changed.

        Returns:
            Seconds that the model has left for its next word; `None` if it has no limit, or has said its last one.

        Raises:
            APITimeoutError: The model has had its time, whatever other bytes came.
        """
        if self._progress_timeout is None or self._until is not None:
            return None
        if progress != self._progress:
            self._progress, self._left = progress, self._progress_timeout
        self._stalls_at = time.monotonic() + self._left
        self.check()
        return self._left

    def wait_ended(self) -> None:
        """Bytes came; until the next wait begins they are with the consumer."""
        if self._stalls_at is not None:
            self._left = self._stalls_at - time.monotonic()
            self._stalls_at = None

    def check(self) -> None:
        """Raise if there is no time left to wait."""
        error = self.bounds.exceeded() or self.stalled()
        if error is not None:
            raise error

    def stalled(self) -> APITimeoutError | None:
        """The error to end the exchange with, if the model takes too long for its next word."""
        if self._stalls_at is None or self._stalls_at - time.monotonic() > TICK_S:
            return None
        return APITimeoutError(
            f"no progress: expected text, thinking or a tool call from the model within {self._progress_timeout:g} s "
            "(progress_timeout), got none; other bytes, such as comments, do not count"
        )
