"""A switch that ends a run from outside, from any thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable


class Cancel:
    """Ends the runs it was given to: `client.stream(..., cancel=cancel)`, then `cancel.cancel()` from any thread.

    The run ends with `RunCancelledError`. Once cancelled it stays so; make a new one for the next run.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may cancel in the middle of any method
        self._cancelled = False
        self._callbacks: dict[object, Callable[[], object]] = {}

    def __repr__(self) -> str:
        return f"<Cancel {'cancelled' if self._cancelled else 'not cancelled'}>"

    @property
    def cancelled(self) -> bool:
        """Whether `cancel()` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """End the runs; returns at once, may be called again, also from a signal handler."""
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:  # outside the lock: a callback may take locks of its own
            try:
                callback()
            except Exception:  # one that fails must not keep another run from ending
                logging.getLogger("toolnexus").exception("a callback of Cancel failed")

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once on `cancel()`, in the cancelling thread; at once if that was before.

        Returns:
            A function that takes the callback back.
        """
        token = object()
        with self._lock:
            self._callbacks[token] = callback
            if not self._cancelled:
                return lambda: self._remove(token)
            was_called = self._callbacks.pop(token, None) is None  # by a signal handler, in between
        if not was_called:
            callback()
        return lambda: None

    def _remove(self, token: object) -> None:
        with self._lock:
            self._callbacks.pop(token, None)
