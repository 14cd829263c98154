"""Daemon threads for tools.

Not `concurrent.futures`: its workers are joined at interpreter exit and its `close` waits for them, so one tool
that never returns would keep the process alive.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

_IDLE_S = 5.0
"""How long a thread without work waits for more."""


class DaemonThreads:
    """Runs functions in threads that are used again; as many as are wanted at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        # The lock is taken by itself and not through the condition, whose methods are Python's own code: a
        # KeyboardInterrupt in the middle of those would leave it locked.
        self._lock = threading.Lock()
        self._wanted = threading.Condition(self._lock)
        self._queue: deque[Callable[[], object]] = deque()
        self._idle = 0
        self._closed = False

    def start(self, function: Callable[[], object]) -> None:
        """Run `function` soon, in some thread; it must not raise.

        After `close` as well: a run that is ended by the closing of its client still has its transcript to save.
        """
        with self._lock:
            self._queue.append(function)
            if self._idle >= len(self._queue):
                self._wanted.notify()
                return
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                has_work = self._wanted.wait_for(lambda: self._queue or self._closed, _IDLE_S)
                self._idle -= 1
                if not has_work or not self._queue:
                    return
                function = self._queue.popleft()
            function()
            del function  # an idle thread must not keep a tool's arguments alive

    def close(self) -> None:
        """Let idle threads end at once and busy ones after their work; waits for none."""
        with self._lock:
            self._closed = True
            self._wanted.notify_all()
