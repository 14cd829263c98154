"""The program of the child process that `grep` matches in; the standard library is all it imports.

Python's `re` can take for ever on a few characters (`(a+)+$`), holds the interpreter's lock meanwhile and cannot be
interrupted. In a process of its own it can be killed, and holds up nobody.

On standard input come a line of JSON (`pattern`, `ignore_case`, `seconds`) and then texts, each as 4 bytes of length,
4 bytes of how many lines are wanted, and UTF-8. A line of JSON answers the first, `null` or what is wrong with the
pattern, and each text: the lines that match, as number and text.
"""

from __future__ import annotations

import json
import re
import sys
from typing import BinaryIO

_SHOWN = 300
"""Characters of a line that are shown."""
_BEFORE = 100
"""Of them, those before the match where it is far into the line."""
_MEMORY = 1 << 30


def matches(regex: re.Pattern[str], text: str, limit: int) -> list[tuple[int, str]]:
    """The first `limit` lines of `text` that match, with their numbers from 1."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")  # before the search: `$` means the end of the line
        if (match := regex.search(line)) is not None:
            found.append((number, _shown(line, match.start())))
            if len(found) >= limit:
                break
    return found


def _shown(line: str, at: int) -> str:
    start = 0 if at + _BEFORE < _SHOWN else at - _BEFORE
    cut = line[start : start + _SHOWN]
    return f"{'…' if start else ''}{cut}{'…' if start + _SHOWN < len(line) else ''}"


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Answer until the input ends."""

    def answer(value: object) -> None:
        target.write(json.dumps(value).encode() + b"\n")
        target.flush()

    wanted = json.loads(source.readline())
    _bound(wanted["seconds"])
    try:
        regex = re.compile(wanted["pattern"], re.IGNORECASE if wanted["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        answer(f"{error}" or type(error).__name__)
        return
    answer(None)
    while len(head := source.read(8)) == 8:
        size, limit = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
        text = source.read(size).decode("utf-8", "replace")
        answer(matches(regex, text, limit))


def _bound(seconds: float) -> None:
    """Bound this process where the system can: its parent may be killed before it can kill this one."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    cpu = int(seconds) + 2
    for which, bound in ((resource.RLIMIT_CPU, cpu), (resource.RLIMIT_AS, _MEMORY)):
        hard = resource.getrlimit(which)[1]
        if hard == resource.RLIM_INFINITY or bound < hard:
            resource.setrlimit(which, (bound, hard))


if __name__ == "__main__":  # pragma: no cover - in a process of its own
    serve(sys.stdin.buffer, sys.stdout.buffer)
