"""What it costs to save a turn, by how long the conversation is already: `python -m benchmarks.stores`.

A turn is 2 to 4 messages of a few hundred characters. `commit` is what a client uses; `save` gets the whole list, as a
plain store does, made of what the last `get` gave. The time is the median of many turns, in microseconds, SQLite's
with the disk's part in it (synchronous = FULL); behind it the ratio to the shortest history. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from toolnexus import MemoryStore, Message, SQLiteStore, TextPart, ToolCallPart, ToolResultPart

HISTORIES = (10, 100, 1000, 5000)

Store = MemoryStore | SQLiteStore


def turn(number: int) -> list[Message]:
    """Two messages, or four where a tool was asked."""
    question = Message("user", f"Question {number}: what is the weather like in Chennai? " + "x" * 200)
    answer = Message("assistant", f"Answer {number}: it is 31C in Chennai. " + "y" * 300)
    if number % 2:
        return [question, answer]
    call = ToolCallPart(f"call-{number}", "get_weather", {"city": "Chennai", "days": number}, state="finished")
    result = ToolResultPart(call.id, call.name, (TextPart("31C " * 50),))
    return [question, Message("assistant", [call]), Message("tool", [result]), answer]


def history(length: int) -> list[Message]:
    """Whole turns, `length` messages of them."""
    messages: list[Message] = []
    while len(messages) < length:
        messages += turn(len(messages))
    return messages[:length]


class Subject:
    """One store with one conversation, which is as long before each measurement."""

    def __init__(self, store: Store, length: int) -> None:
        self.store = store
        self.count = 0
        store.save("talk", history(length))
        self.base = store.load("talk")
        self.messages = store.get("talk") or []

    def commit(self) -> float:
        """Seconds for a turn by `commit`."""
        base, self.count = self.base, self.count + 1
        messages = [*(base.messages or ()), *turn(self.count)]
        started = time.perf_counter()
        after = self.store.commit("talk", base, messages)
        taken = time.perf_counter() - started
        self.base = self.store.commit("talk", after, base.messages or [])
        return taken

    def save(self) -> float:
        """Seconds for a turn by `save`."""
        self.count += 1
        messages = [*self.messages, *turn(self.count)]
        started = time.perf_counter()
        self.store.save("talk", messages)
        taken = time.perf_counter() - started
        self.store.save("talk", self.messages)
        return taken

    def load(self) -> float:
        """Seconds for reading all of it; that cannot but grow."""
        started = time.perf_counter()
        self.store.load("talk")
        return time.perf_counter() - started


MEASURES: tuple[Callable[[Subject], float], ...] = (Subject.commit, Subject.save, Subject.load)


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs to save a turn.")
    parser.add_argument("--turns", type=int, default=200, help="turns measured for each number")
    parser.add_argument("--folder", type=Path, help="where the database is put; default: a temporary folder")
    options = parser.parse_args()
    columns = "".join(f"{length:>16,}" for length in HISTORIES)
    sys.stdout.write(f"{'µs, messages there:':<20}{columns}\n")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        number = 0

        def sqlite() -> SQLiteStore:
            nonlocal number
            number += 1
            return SQLiteStore(Path(folder) / f"{number}.db")

        makers: dict[str, Callable[[], Store]] = {"SQLiteStore": sqlite, "MemoryStore": MemoryStore}
        for name, make in makers.items():
            for measure in MEASURES:
                subjects = [Subject(make(), length) for length in HISTORIES]
                # In turns, so that what else the machine does falls on all of them.
                taken = [[measure(subject) for subject in subjects] for _ in range(options.turns)]
                times = [1e6 * statistics.median(column) for column in zip(*taken, strict=True)]
                cells = "".join(f"{micros:>9.0f} {micros / times[0]:>4.1f} x" for micros in times)
                sys.stdout.write(f"{name} {measure.__name__:<8}{cells}\n")


if __name__ == "__main__":
    main()
