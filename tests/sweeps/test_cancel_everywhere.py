"""An async run of two turns, with tools, hooks, a suspension, a retry and a store, ended at every suspension.

Every suspension of every task that the run has: its own, those of its tools, those of its connection.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL
from tests.server import Server
from tests.sweeps.everywhere import PROMPT, AsyncBook, Book, Script, Suspensions, Trip, check_client, quiet, threads
from toolnexus import AsyncClient, AsyncEventStream, Cancel, ToolnexusError
from toolnexus._io import bounds as bounds_module


class Place:
    """One client and its server; runs are ended on it again and again."""

    def __init__(self, server: Server, script: Script, *, given: bool, step: int) -> None:
        self.step = step
        """Of so many suspensions one is met."""
        self.server = server
        self.script = script
        self.outcomes: Counter[str] = Counter()
        # With one slot only, the first that is lost is missed.
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        self.http_client = httpx.AsyncClient(limits=limits, timeout=5) if given else None
        self.new_client()

    def new_client(self) -> None:
        options = {**Trip(is_async=True).options, "http_client": self.http_client}
        self.client = AsyncClient(base_url=self.server.url, model=MODEL, **options)

    def new_trip(self) -> Trip:
        """What the next run uses; its store is empty, and sync where the connections are a caller's, for a change."""
        trip = Trip(is_async=True, book=AsyncBook() if self.http_client is None else Book())
        self.client._store, self.client._hooks = trip.book, (trip.hooks,)
        # What a retry took that was ended before its response, so that the budget lasts for thousands of runs.
        self.client._config.retry.budget.succeeded(after_retry=True)
        return trip

    def stream(self, trip: Trip, **options: Any) -> AsyncEventStream:
        return self.client.stream(PROMPT, trip.toolkit, "talk", **options)

    async def run(self, trip: Trip, **options: Any) -> str:
        async with self.stream(trip, **options) as events:
            async for _ in events:
                pass
            return events.result.text

    async def end_run(self, work: Any, what: str) -> None:
        """Wait for a run that was ended, and note how."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task}, timeout=10)
        assert task.done(), f"{what}: the run hangs"
        if task.cancelled():
            self.outcomes["cancelled"] += 1
        elif (error := task.exception()) is not None:
            assert isinstance(error, ToolnexusError), f"{what}: {error!r}"
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["finished"] += 1

    async def check(self, trip: Trip, what: str) -> None:
        """Nothing is left of the run, and the same conversation goes on, on the same client."""
        try:
            await quiet()
            if self.http_client is None:
                check_client(self.client, self.server)
            trip.check_kept("talk")
            trip.check_told()
            self.script.failures = 0
            assert await asyncio.wait_for(self.run(trip), 10) == "Done."
            await quiet()
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error

    async def sweep(self, end: Callable[[asyncio.Task[Any], Cancel], object], also_at: tuple[int, ...] = ()) -> None:
        """End a run at its 1st, 2nd, 3rd ... suspension, until there is none to end it at; `also_at` further ones."""
        await self.check(self.new_trip(), "before")
        for point in range(1 + len(also_at), 1000, self.step):
            trip, cancel = self.new_trip(), Cancel()
            self.script.failures = 1
            marks = {point, *(point + n for n in also_at)}
            with Suspensions(lambda: end(task, cancel), marks) as suspensions:  # noqa: B023  # called inside only
                task = asyncio.ensure_future(self.run(trip, cancel=cancel, deadline=1000))
                await asyncio.wait({task}, timeout=10)
            if suspensions.count < point:
                break
            await self.end_run(task, f"suspension {point}")
            await self.check(trip, f"suspension {point}")
        assert point > 60, "the run has fewer suspensions than it had"
        assert len(threads()) <= 8, "threads grow in number"  # three for a run, and more where the last still works


@pytest.fixture
def sweep_on(serve: Callable[..., Server], everything: bool, publish: Callable[..., None]) -> Callable[..., None]:
    """Run a sweep on a new place, `sweep_on(sweep, given=False)`, and publish what came of it."""

    def sweep_on(sweep: Callable[[Place], Any], *, given: bool) -> None:
        script = Script()
        server = serve(script)

        async def main() -> None:
            place = Place(server, script, given=given, step=1 if everything else 5)
            await sweep(place)
            await place.client.aclose()
            if place.http_client is not None:
                await place.http_client.aclose()
            publish(points=place.outcomes.total(), **place.outcomes)

        asyncio.run(main())

    return sweep_on


GIVEN = pytest.mark.parametrize("given", [False, True], ids=["connections of ours", "a caller's http_client"])


@GIVEN
@pytest.mark.parametrize("also_at", [(), (1,), (1, 2)], ids=["once", "twice", "three times"])
def test_a_task_cancelled_anywhere_leaves_nothing_behind(sweep_on, also_at, given):
    sweep_on(lambda place: place.sweep(lambda task, cancel: task.cancel(), also_at), given=given)


@GIVEN
def test_a_cancel_anywhere_leaves_nothing_behind(sweep_on, given):
    async def sweep(place: Place) -> None:
        await place.sweep(lambda task, cancel: cancel.cancel())
        assert set(place.outcomes) <= {"RunCancelledError", "finished"}

    sweep_on(sweep, given=given)


@GIVEN
def test_a_deadline_reached_anywhere_leaves_nothing_behind(sweep_on, given, monkeypatch):
    class Clock:
        """The time of the bounds; jumps over the deadline."""

        ahead = 0.0

        def monotonic(self) -> float:
            return asyncio.get_running_loop().time() + self.ahead

    clock = Clock()
    monkeypatch.setattr(bounds_module, "time", clock)

    async def sweep(place: Place) -> None:
        def jump(task: asyncio.Task[Any], cancel: Cancel) -> None:
            clock.ahead += 2000

        await place.sweep(jump)
        assert set(place.outcomes) <= {"DeadlineExceededError", "finished"}

    sweep_on(sweep, given=given)


@GIVEN
def test_a_client_closed_anywhere_leaves_nothing_behind(sweep_on, given):
    async def sweep(place: Place) -> None:
        for point in range(1, 1000, place.step):
            place.new_client()
            trip, client = place.new_trip(), place.client
            place.script.failures = 1
            closing: list[asyncio.Task[None]] = []

            def act(client: AsyncClient = client, closing: list[asyncio.Task[None]] = closing) -> None:
                closing.append(asyncio.Task(client.aclose()))

            with Suspensions(act, {point}) as suspensions:
                task = asyncio.ensure_future(place.run(trip))
                await asyncio.wait({task}, timeout=10)
            if suspensions.count < point:
                break
            await place.end_run(task, f"suspension {point}")
            await asyncio.wait(closing)
            place.new_client()
            place.client._store = trip.book
            await place.check(trip, f"suspension {point}")
            await place.client.aclose()
            if place.http_client is None:
                await asyncio.to_thread(place.server.wait_all_closed)
        assert set(place.outcomes) <= {"RunCancelledError", "finished"}
        assert point > 60

    sweep_on(sweep, given=given)


async def after_events(place: Place, leave: Callable[[AsyncEventStream], Any]) -> None:
    """Leave a run behind its 1st, 2nd, 3rd ... event."""
    for wanted in range(1, 100):
        trip = place.new_trip()
        place.script.failures = 1
        events: AsyncEventStream | None = place.stream(trip)
        assert events is not None
        seen = 0
        async for _ in events:
            seen += 1
            if seen == wanted:
                break
        if seen < wanted:
            break
        work = leave(events)
        events = None
        gc.collect()
        await place.end_run(work, f"event {wanted}")
        await place.check(trip, f"event {wanted}")
    assert wanted > 8


@GIVEN
def test_a_stream_closed_after_any_event_leaves_nothing_behind(sweep_on, given):
    sweep_on(lambda place: after_events(place, lambda events: events.aclose()), given=given)


@GIVEN
def test_a_stream_broken_out_of_after_any_event_and_collected_leaves_nothing_behind(sweep_on, given):
    sweep_on(lambda place: after_events(place, lambda events: asyncio.sleep(0)), given=given)


@GIVEN
@pytest.mark.parametrize("also_at", [(), (1,)], ids=["once", "twice"])
def test_a_closing_of_a_stream_cancelled_anywhere_leaves_nothing_behind(sweep_on, also_at, given):
    async def sweep(place: Place) -> None:
        wanted = point = 1
        while True:
            trip = place.new_trip()
            place.script.failures = 1
            events = place.stream(trip)
            seen = 0
            async for _ in events:
                seen += 1
                if seen == wanted:
                    break
            if seen < wanted:
                break
            marks = {point, *(point + n for n in also_at)}
            with Suspensions(lambda: task.cancel(), marks) as suspensions:  # noqa: B023  # called inside only
                task = asyncio.ensure_future(events.aclose())
                await asyncio.wait({task}, timeout=10)
            await place.end_run(task, f"event {wanted}, suspension {point}")
            await place.check(trip, f"event {wanted}, suspension {point}")
            wanted, point = (wanted + 1, 1) if suspensions.count < point else (wanted, point + place.step)
        assert wanted > 8

    sweep_on(sweep, given=given)
