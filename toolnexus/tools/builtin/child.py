"""A process that one tool call starts, and that is gone with all it started when the call is over."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Literal, Self

from ...cancel import Cancel

_MARK = "TOOLNEXUS_CALL"
"""In the environment of each child and of all it starts, so that those that left its process group can be found."""
_ROUNDS = 20
"""How often strays are looked for: each can start another while it is found."""

Ending = Literal["timeout", "cancel"]


class Child:
    """A child process in a session and process group of its own, without a terminal.

    It is killed with its whole group when its time is over, when the call is cancelled (which is also how a tool hears
    of the run's deadline), and when the `with` is left, whatever it is doing. On Linux those that left the group
    (`setsid`, a daemon) are found by a mark in their environment and killed too; a process that removes the mark, or
    runs as another user, gets away.

    `sync` and `async` clients alike run it in a thread of the tool's; nothing here needs an event loop.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        cancel: Cancel,
        timeout: float,
        talks: bool = False,
    ) -> None:
        """Start it. Whoever reads `stdout` closes it.

        Args:
            command: The program and its arguments.
            cwd: Where it runs.
            env: All of its environment, but for the mark.
            cancel: Kills it when set.
            timeout: Seconds until it is killed.
            talks: Whether it answers what it is told on `stdin`, and what it says on standard error is dropped;
                else it has nothing to read, and standard error goes where standard output goes.

        Raises:
            OSError: It cannot be started.
        """
        self._token = secrets.token_hex(16)
        # Nested marks: a call inside a call must be found by both.
        outer = os.environ.get(_MARK, "")
        self._lock = threading.Lock()
        self._is_reaped = False
        self.ended_by: Ending | None = None
        """What killed it before its own end."""
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**env, _MARK: f"{outer}:{self._token}"},
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if talks else subprocess.STDOUT,
            start_new_session=True,
        )
        self._timer = threading.Timer(min(timeout, threading.TIMEOUT_MAX), self._end, ("timeout",))
        self._timer.daemon = True
        self._timer.start()
        self._unlink = cancel.add_callback(lambda: self._end("cancel"))

    @property
    def stdin(self) -> IO[bytes]:
        """What it reads from."""
        assert self._process.stdin is not None, "started with talks=False"
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """What it writes."""
        assert self._process.stdout is not None
        return self._process.stdout

    def wait(self) -> int:
        """Wait for its end, and kill what it left behind.

        Returns:
            Its exit status; below 0 it is the signal that ended it.
        """
        if not self._is_reaped:
            if hasattr(os, "waitid"):
                # It is not reaped yet, so its number, which is the group's too, still cannot be anybody else's.
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
                self._kill()
                with self._lock:
                    self._process.wait()
                    self._is_reaped = True
            else:  # pragma: no cover - Windows, and macOS before Python 3.13
                self._process.wait()
                self._kill()
                self._is_reaped = True
            self._kill_strays()
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._unlink()
        self._timer.cancel()
        self._kill()
        self.wait()
        if self._process.stdin is not None:
            with suppress(OSError):  # what it did not read
                self._process.stdin.close()

    def _end(self, ending: Ending) -> None:
        """Kill it from another thread."""
        with self._lock:
            if not self._is_reaped and self.ended_by is None:
                self.ended_by = ending
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._is_reaped:
                return
            if hasattr(os, "killpg"):
                # Not Popen.kill, which reaps. A leader of a session cannot leave its group: this reaches it always.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            else:  # pragma: no cover - Windows
                self._process.kill()

    def _kill_strays(self) -> None:
        for _ in range(_ROUNDS):
            strays = _marked(self._token.encode())
            for pid in strays:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not strays:
                return


def _marked(token: bytes) -> list[int]:
    """The processes with `token` in their environment, as far as `/proc` shows them to us."""
    found: list[int] = []
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if token in file.read():
                        found.append(int(name))
    return found
