"""How long a run may go on: its deadline and its cancel, looked at by everything that waits."""

from __future__ import annotations

import math
import threading
import time

from ..cancel import Cancel
from ..errors import DeadlineExceededError, RunCancelledError, ToolnexusError
from .lines import Lenders

_TICK_S = 0.001
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

    def end(self, why: str) -> None:
        """End the run from outside, from any thread."""
        self._ended = why
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
        if self.expires is not None and self.remaining <= _TICK_S:
            return DeadlineExceededError(f"the run took longer than its deadline of {self._deadline:g} s")
        return None

    def check(self) -> None:
        """Raise if the run was cancelled or is out of time."""
        error = self.exceeded()
        if error is not None:
            raise error


class Runs:
    """The runs of a client that are under way, so that closing it ends them wherever they wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
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
    """How long one exchange may still wait for bytes: the run's bounds, and the little that is left after the end."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._shortened_to: float | None = None
        self._until: float | None = None

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
        if self._until is not None:
            left = min(left, max(0.0, self._until - time.monotonic()))
        if idle is not None:
            left = min(left, idle)
        return None if left == math.inf else left
