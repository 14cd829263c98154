"""A regular expression at work in a child process, where it can be stopped."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Self

from ...tool import ToolContext
from .child import Child
from .refusal import RefusedError

_PROGRAM = Path(__file__).with_name("matching.py")
# What an interpreter may need to find its own libraries; `-I` keeps it from reading any other of its variables.
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class StoppedError(Exception):
    """A search that ends before it is through; the message says why."""


class Matcher:
    """Finds the lines that match; use it with `with`."""

    def __init__(self, pattern: str, *, ignore_case: bool, seconds: float, ctx: ToolContext) -> None:
        """Start the child and have it read the pattern.

        Raises:
            RefusedError: The pattern is none, or there is no interpreter to run.
            StoppedError: Even reading it took longer than `seconds`.
        """
        if not sys.executable or getattr(sys, "frozen", False):
            raise RefusedError("grep runs in a Python interpreter of its own, and this program has none")
        env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        command = [sys.executable, "-I", "-S", str(_PROGRAM)]
        self._seconds = seconds
        self._child = Child(command, cwd=None, env=env, cancel=ctx.cancel, timeout=seconds, talks=True)
        try:
            wanted = {"pattern": pattern, "ignore_case": ignore_case, "seconds": seconds}
            problem = self._told(json.dumps(wanted).encode() + b"\n", "the pattern")
            if problem is not None:
                raise RefusedError(f"the pattern is no regular expression of Python's: {problem}")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child."""
        with self._child, self._child.stdout:
            pass

    def lines(self, data: bytes, path: str, limit: int) -> list[tuple[int, str]]:
        """The first lines of a text that match, at most `limit`: their numbers from 1, and what to show of them.

        Raises:
            StoppedError: The time is over.
        """
        head = len(data).to_bytes(4, "big") + limit.to_bytes(4, "big")
        return [(number, line) for number, line in self._told(head + data, repr(path))]

    def _told(self, message: bytes, subject: str) -> Any:  # Any: JSON
        answer = b""
        try:
            self._child.stdin.write(message)
            self._child.stdin.flush()
            answer = self._child.stdout.readline()
        except BrokenPipeError:
            pass
        if answer.endswith(b"\n"):
            return json.loads(answer)
        if self._child.ended_by == "timeout":
            raise StoppedError(f"it took longer than {self._seconds:g} s, and was at {subject}; use a simpler pattern")
        if self._child.ended_by == "cancel":
            raise StoppedError("the run is over")
        raise StoppedError(f"the pattern needs too much time or memory, at {subject}; use a simpler one")
