"""Kills processes that save, again and again, and looks at what the store kept; run as a script with path and rounds.

One process forks the others, so that a round costs hundredths of a second. A child saves transcript after transcript
and says each number when its save has returned; then comes the kill, at a random moment.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

from toolnexus import Message, SQLiteStore, ToolCallPart
from toolnexus.messages import CallState


def transcript(number: int) -> list[Message]:
    """The conversation after `number` saves: it grows, its end is replaced, and now and then it begins anew."""
    state: CallState = "started" if number % 3 else "finished"
    size = random.Random(number).randrange(20_000)
    grown = [Message("user", f"{n}") for n in range(number % 23)]
    return [*grown, Message("assistant", [ToolCallPart(str(number), "x" * size, {"n": number}, state=state)])]


def number_of(messages: list[Message] | None) -> int:
    """The number of the transcript, of which every byte must be there."""
    if messages is None:
        return 0
    number = int(messages[-1].tool_calls[0].id)
    assert messages == transcript(number), f"torn: {number}"
    return number


def save_for_ever(path: str, by_commit: bool, out: int) -> None:
    store = SQLiteStore(path)
    base = store.load("talk")
    number = number_of(store.get("talk"))
    while True:
        number += 1
        old, new = base.messages or [], transcript(number)
        kept = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
        new[:kept] = old[:kept]
        if by_commit:
            base = store.commit("talk", base, new)
        else:
            store.save("talk", new)
        os.write(out, b"%d\n" % number)


def main(path: str, rounds: int) -> None:
    chance = random.Random(rounds)
    for count in range(rounds):
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                save_for_ever(path, count % 2 == 0, writable)
            finally:
                os._exit(1)  # killed children do not come here
        os.close(writable)
        with os.fdopen(readable, "rb") as said:
            first = said.readline()
            time.sleep(chance.random() * 0.02)
            os.kill(pid, signal.SIGKILL)
            acknowledged = int((said.read().split() or [first])[-1])
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        with SQLiteStore(path) as store:
            kept = number_of(store.get("talk"))
        assert acknowledged <= kept <= acknowledged + 1, f"acknowledged {acknowledged}, kept {kept}"
    sys.stdout.write(f"{kept} {os.listdir(os.path.dirname(path))}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
