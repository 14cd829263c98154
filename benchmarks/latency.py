"""Figures of the clock on the wall: the first event of a warm client, and events on their way through many streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import httpx

from toolnexus import AsyncClient, SyncClient, TextEvent

from .subjects import PROMPT, Job, Payloads, Place, options, requests, running


@contextmanager
def first_event_floor(place: Place) -> Iterator[Job]:
    """Microseconds from the request to the first payload."""
    url, body = next(requests(place))
    with httpx.Client() as client:

        def job() -> int:
            payloads, took = Payloads(), 0
            start = time.perf_counter_ns()
            with client.stream("POST", url, content=body) as response:
                for piece in response.iter_raw():
                    payloads.receive(piece)
                    if payloads.count and not took:
                        took = time.perf_counter_ns() - start
            return took // 1000

        yield job


@contextmanager
def first_event(place: Place) -> Iterator[Job]:
    """Microseconds from the call to the first event."""
    with SyncClient(**options(place)) as client:

        def job() -> int:
            took = 0
            start = time.perf_counter_ns()
            for _ in client.iter_events(PROMPT):
                took = took or time.perf_counter_ns() - start
            return took // 1000

        yield job


Late = Callable[[int], list[float]]
"""Runs so many paced streams at once; returns each event's seconds from the server's write to the reader."""


@contextmanager
def paced_floor(place: Place) -> Iterator[Late]:
    """`aiter_raw` and `json.loads`."""
    url, body = next(requests(place))
    client = httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=60)

    async def one(late: list[float]) -> None:
        payloads = Payloads()
        async with client.stream("POST", url, content=body) as response:
            async for piece in response.aiter_raw():
                seen = payloads.count
                payloads.receive(piece)
                choices = payloads.last.get("choices") if payloads.count > seen else None
                if choices and choices[0]["delta"].get("content"):
                    late.append(time.monotonic() - float(choices[0]["delta"]["content"]))

    yield from _many(one, client.aclose, place.scenario.size)


@contextmanager
def paced(place: Place) -> Iterator[Late]:
    """`AsyncClient.stream`."""
    client = AsyncClient(**options(place))

    async def one(late: list[float]) -> None:
        async for event in client.stream(PROMPT):
            if type(event) is TextEvent:
                late.append(time.monotonic() - float(event.delta))

    yield from _many(one, client.aclose, place.scenario.size)


def _many(
    one: Callable[[list[float]], Awaitable[None]], close: Callable[[], Awaitable[object]], size: int
) -> Iterator[Late]:
    count = 0
    found: list[list[float]] = []

    async def job() -> int:
        nonlocal found
        found = [[] for _ in range(count)]
        await asyncio.gather(*map(one, found))
        return count

    with running(job, close) as run:

        def late(streams: int) -> list[float]:
            nonlocal count
            count = streams
            run()
            if any(len(values) != size for values in found):
                raise RuntimeError(f"events were lost: {sorted(map(len, found))[0]} of {size} in one stream")
            # In a stream's first events the requests of the other streams are still being sent.
            return [value for values in found for value in values[size // 3 :]]

        yield late
