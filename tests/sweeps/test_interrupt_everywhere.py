"""A sync run of two turns, with tools, hooks, a suspension, a retry and a store, struck at every line of the package.

At each line that the caller's thread executes: a `KeyboardInterrupt`, a `Cancel`, the deadline. And, for the lines of
other packages, a real signal at random moments.
"""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.harness import MODEL
from tests.server import Server
from tests.sweeps.everywhere import PROMPT, Lines, Script, Trip, Visit, check_client, interrupt, threads
from toolnexus import Cancel, DeadlineExceededError, InternalServerError, RunCancelledError, SyncClient
from toolnexus._io import bounds as bounds_module

CAREFUL = ("sync_network.py", "sync_driver.py", "bounds.py")
"""Where connections and runs are taken and let go of."""


class Place:
    """One client and its server; runs are ended on it again and again."""

    def __init__(self, server: Server, script: Script) -> None:
        self.server = server
        self.script = script
        self.outcomes: Counter[str] = Counter()
        self.client = SyncClient(base_url=server.url, model=MODEL, **Trip(is_async=False).options)

    def new_trip(self, failures: int = 1) -> Trip:
        trip = Trip(is_async=False)
        self.client._store, self.client._hooks = trip.book, (trip.hooks,)
        # What a retry took that was ended before its response, so that the budget lasts for thousands of runs.
        self.client._config.retry.budget.succeeded(after_retry=True)
        self.script.failures = failures
        return trip

    def run(self, trip: Trip, **options: Any) -> str:
        return self.client.stream(PROMPT, trip.toolkit, lambda event: None, "talk", **options).text

    def check(self, trip: Trip, where: str) -> None:
        """Nothing is left of the run, and the same conversation goes on, on the same client."""
        try:
            check_client(self.client, self.server)
            trip.check_kept("talk")
            # One that is struck while it is being told is not told again.
            assert trip.finishes.count("aborted") <= 1, f"the finish chunks were {trip.finishes}"
            self.script.failures = 0
            assert self.run(trip) == "Done."
            check_client(self.client, self.server)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error

    def places(self, everything: bool, offset: int, step: int) -> Iterator[int | Visit]:
        """Where to strike: every `step`-th line, or of the first and last visits to careful lines, and a few others."""
        self.check(self.new_trip(0), "before")  # what is done once is done
        if everything:
            return itertools.count(1 + offset, step)
        trip = self.new_trip()
        with Lines(lambda: None, 0) as lines:
            self.run(trip)
        assert len(lines.visits) > 4000, "the run has fewer lines than it had"
        first = [visit for visit in lines.visits if visit[1] == 1 and visit[0][0].endswith(CAREFUL)]
        last = [visit for visit in dict(lines.visits).items() if visit[1] > 1 and visit[0][0].endswith(CAREFUL)]
        return iter([*[*first, *last][offset::step], *lines.visits[offset::250]])

    def sweep(
        self, places: Iterator[int | Visit], strike: Callable[[], Any], *expected: type[BaseException], **call: Any
    ) -> None:
        """Strike at each of these lines. `call` has functions that make options for a run."""
        for place in places:
            trip = self.new_trip()
            options = {name: make() for name, make in call.items()}
            with Lines(strike, place) as lines:
                try:
                    outcome = "finished" if self.run(trip, **options) == "Done." else "wrong"
                except expected as error:
                    outcome = type(error).__name__
            if not lines.where and isinstance(place, int):
                break
            if outcome == "finished" and lines.where.rpartition(":")[0].endswith("lines.py"):
                outcome = "in_a_finalizer"  # of a place in line; the interpreter swallows what is raised there
            # A place is not met when a run has fewer reads than the first one had.
            self.outcomes[outcome if lines.where else "not_met"] += 1
            self.check(trip, f"line {place}, {lines.where}")
        assert len(threads()) <= 8, "threads grow in number"  # three for a run, and more where the last still works


@pytest.fixture
def place(serve: Callable[..., Server], publish: Callable[..., None]) -> Iterator[Place]:
    script = Script()
    place = Place(serve(script), script)
    yield place
    place.client.close()
    publish(points=place.outcomes.total(), **place.outcomes)


@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function Place.leave:pytest.PytestUnraisableExceptionWarning"
)
def test_an_interrupt_at_any_line_leaves_nothing_behind(place, everything):
    place.sweep(place.places(everything, 0, step=1), interrupt, KeyboardInterrupt)
    assert place.outcomes["finished"] == 0
    assert place.outcomes["KeyboardInterrupt"] > 300


def test_a_cancel_at_any_line_leaves_nothing_behind(place, everything):
    cancels: list[Cancel] = []

    def new_cancel() -> Cancel:
        cancels.append(Cancel())
        return cancels[-1]

    place.sweep(place.places(everything, 1, step=5), lambda: cancels[-1].cancel(), RunCancelledError, cancel=new_cancel)
    assert place.outcomes["RunCancelledError"] > 0
    assert all(cancel._callbacks == {} for cancel in cancels)


def test_a_deadline_reached_at_any_line_leaves_nothing_behind(place, everything, monkeypatch):
    class Clock:
        """The time of the bounds; jumps over the deadline."""

        ahead = 0.0

        def monotonic(self) -> float:
            return time.monotonic() + self.ahead

    clock = Clock()
    monkeypatch.setattr(bounds_module, "time", clock)

    def jump() -> None:
        clock.ahead += 2000

    # Reached between a failure and the next try, it leaves no time for one, and the failure is what is told.
    errors = (DeadlineExceededError, InternalServerError)
    place.sweep(place.places(everything, 2, step=5), jump, *errors, deadline=lambda: 1000)
    assert place.outcomes["DeadlineExceededError"] > 0


# One that strikes in a finalizer is swallowed by the interpreter, which only reports it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_at_any_moment_leaves_nothing_behind(place, everything):
    """Moments are random, so that they come to lie in the HTTP stack and the interpreter's own library as well."""
    moments = random.Random(6)
    armed = False

    def strike(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    place.check(place.new_trip(0), "before")
    began = time.perf_counter()
    place.run(place.new_trip())
    took = time.perf_counter() - began
    previous = signal.signal(signal.SIGALRM, strike)
    try:
        for n in range(3000 if everything else 60):
            trip = place.new_trip()
            moment = moments.uniform(0.00001, took)
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, moment)
                place.run(trip)
                armed = False
                place.outcomes["finished"] += 1
            except KeyboardInterrupt:
                armed = False
                place.outcomes["KeyboardInterrupt"] += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            place.check(trip, f"signal {n}, after {moment:.6f} s")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert place.outcomes["KeyboardInterrupt"] > 0
