"""Daemon threads for tools.

Not `concurrent.futures`: its workers are joined at interpreter exit and its `close` waits for them, so one tool
that never returns would keep the process alive.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable

_IDLE_S = 5.0
"""How long a thread without work waits for more."""


class DaemonThreads:
    """Runs functions in threads that are used again; as many as are wanted at once.

    There is no lock, which a `KeyboardInterrupt` could leave locked: each step is one call into the interpreter. A
    thread that waits has put a token down first, and a function that is queued takes one along. So the tokens that lie
    there are the threads that nobody counts on yet, and no function is queued behind one that runs.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[tuple[None, Callable[[], object] | None]] = queue.SimpleQueue()
        self._tokens: deque[None] = deque()
        self._closed = False

    def start(self, function: Callable[[], object]) -> None:
        """Run `function` soon, in some thread; it must not raise.

        After `close` as well: a run that is ended by the closing of its client still has its transcript to save.
        """
        try:
            self._queue.put((self._tokens.pop(), function))
        except IndexError:
            threading.Thread(target=self._work, args=([function],), name=self._name, daemon=True).start()

    def _work(self, first: list[Callable[[], object]]) -> None:
        function: Callable[[], object] | None = first.pop()
        while function is not None:
            function()
            del function  # an idle thread must not keep a tool's arguments alive
            function = self._next()

    def _next(self) -> Callable[[], object] | None:
        """More work; `None` to end the thread."""
        self._tokens.append(None)
        for _ in range(2):  # once more where somebody counts on this thread, who could else be on the way here
            if self._closed and self._take_token():
                break
            try:
                return self._queue.get(timeout=_IDLE_S)[1]
            except queue.Empty:
                if self._take_token():
                    break
        return None

    def _take_token(self) -> bool:
        try:
            self._tokens.pop()
        except IndexError:
            return False
        return True

    def close(self) -> None:
        """Let idle threads end at once and busy ones after their work; waits for none."""
        self._closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._queue.put((self._tokens.pop(), None))
