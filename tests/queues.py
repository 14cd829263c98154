"""Looks at the lines of those who wait for a conversation."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from tests.server import PATIENCE_S
from toolnexus._io import lines


def standing() -> int:
    """How many stand in any line now, at work or waiting."""
    return sum(len(line) for line in tuple(lines._lines.values()))


class Watched:
    """Lets a test wait until somebody stands in line, in whichever thread: put `deque` in the place of the module's."""

    def __init__(self) -> None:
        self._grew = threading.Condition()
        grew = self._grew

        class Line(deque[Any]):
            def append(self, place: Any) -> None:
                with grew:
                    super().append(place)
                    grew.notify_all()

        self.deque = Line

    def wait_for(self, count: int) -> None:
        """Wait until `count` stand in line."""
        with self._grew:
            assert self._grew.wait_for(lambda: standing() >= count, PATIENCE_S), f"{standing()} stand in line"
