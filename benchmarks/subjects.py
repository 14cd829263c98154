"""What is measured: the floor, and this library. The libraries of others are in `peers`.

A subject is opened for a place, as a client is that will be used again, and gives a job: one whole run there. What
the job returns is what it saw, so that no figure comes from work that was not done.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from toolnexus import (
    AsyncClient,
    ConversationStore,
    Hooks,
    MemoryStore,
    SQLiteStore,
    SyncClient,
    TextEvent,
    Toolkit,
    tool,
)

from .scenarios import Scenario, Style

Job = Callable[[], int]
"""One run. Returns how many text deltas it saw, or how many turns; the floor counts payloads."""


@dataclass(frozen=True)
class Place:
    """Where a subject is sent."""

    root: str
    scenario: Scenario
    style: Style

    @property
    def base_url(self) -> str:
        """The base URL as our clients and the SDKs of both styles take it."""
        return f"{self.root}/v1" if self.style == "openai" else self.root


Subject = Callable[[Place], AbstractContextManager[Job]]


@tool
def get_weather(city: str, days: int = 1, unit: str = "celsius") -> str:
    """Weather for a city.

    Args:
        city: Its name.
        days: How many days from today.
        unit: Of the temperature.
    """
    return "31C"


@tool(name="get_weather")
async def get_weather_async(city: str, days: int = 1, unit: str = "celsius") -> str:
    """Weather for a city.

    Args:
        city: Its name.
        days: How many days from today.
        unit: Of the temperature.
    """
    return "31C"


PROMPT = "What is the weather in Chennai?"
LIMIT = 1000
"""Turns that a run may take."""


# -- the floor: the same bytes through httpx and json alone


def requests(place: Place) -> Iterator[tuple[str, bytes]]:
    """URL and body of each request of the run; a conversation that grows is encoded anew each time."""
    url = place.base_url + ("/chat/completions" if place.style == "openai" else "/v1/messages")
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    results = place.scenario.size if place.scenario.kind == "par" else 1
    for _ in range(place.scenario.turns):
        yield url, json.dumps({"model": "mock-1", "stream": True, "messages": messages}).encode()
        if place.style == "openai":
            messages += [{"role": "tool", "tool_call_id": f"call_{n}", "content": "31C"} for n in range(results)]
        else:
            blocks = [{"type": "tool_result", "tool_use_id": f"call_{n}", "content": "31C"} for n in range(results)]
            messages.append({"role": "user", "content": blocks})


class Payloads:
    """Splits a body at blank lines and reads the JSON of each event."""

    def __init__(self) -> None:
        self.count = 0
        self.last: Any = None
        self._rest = b""

    def receive(self, data: bytes) -> None:
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            payload = event[event.find(b"data: ") + 6 :]
            if payload != b"[DONE]":
                self.last = json.loads(payload)
                self.count += 1


_HEADERS = {"content-type": "application/json"}


@contextlib.contextmanager
def floor(place: Place) -> Iterator[Job]:
    """One `httpx.Client`, `iter_raw`, `json.loads`."""
    with httpx.Client() as client:

        def job() -> int:
            payloads = Payloads()
            for url, body in requests(place):
                with client.stream("POST", url, content=body, headers=_HEADERS) as response:
                    for piece in response.iter_raw():
                        payloads.receive(piece)
            return payloads.count

        yield job


@contextlib.contextmanager
def floor_async(place: Place) -> Iterator[Job]:
    """One `httpx.AsyncClient`, `aiter_raw`, `json.loads`."""
    client = httpx.AsyncClient()
    with running(lambda: _floor_run(client, place), client.aclose) as run:
        yield run


def floor_many(streams: int) -> Subject:
    """So many of those at once, in one client."""

    @contextlib.contextmanager
    def many(place: Place) -> Iterator[Job]:
        client = httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=60)

        async def job() -> int:
            return min(await asyncio.gather(*(_floor_run(client, place) for _ in range(streams))))

        with running(job, client.aclose) as run:
            yield run

    return many


async def _floor_run(client: httpx.AsyncClient, place: Place) -> int:
    payloads = Payloads()
    for url, body in requests(place):
        async with client.stream("POST", url, content=body, headers=_HEADERS) as response:
            async for piece in response.aiter_raw():
                payloads.receive(piece)
    return payloads.count


@contextlib.contextmanager
def running(job: Callable[[], Awaitable[int]], close: Callable[[], Awaitable[object]]) -> Iterator[Job]:
    """An async job as a plain one, in one event loop that goes on from run to run."""

    async def once() -> int:
        return await job()

    async def closing() -> None:
        await close()

    with asyncio.Runner() as runner:
        try:
            yield lambda: runner.run(once())
        finally:
            runner.run(closing())


# -- this library


def options(place: Place, **more: Any) -> dict[str, Any]:
    return dict(base_url=place.base_url, style=place.style, model="mock-1", api_key="k", max_turns=LIMIT, **more)


def _toolkit(place: Place, *, is_async: bool = False) -> Toolkit | None:
    if not place.scenario.has_tools:
        return None
    return Toolkit(get_weather_async if is_async else get_weather)


def _sync(place: Place, **more: Any) -> Iterator[Job]:
    toolkit = _toolkit(place)
    with SyncClient(**options(place, **more)) as client:

        def job() -> int:
            count = 0
            stream = client.iter_events(PROMPT, toolkit)
            for event in stream:
                if type(event) is TextEvent:
                    count += 1
            return count if toolkit is None else stream.result.turns

        yield job


def _async(place: Place, **more: Any) -> Iterator[Job]:
    toolkit = _toolkit(place, is_async=True)
    client = AsyncClient(**options(place, **more))
    with running(lambda: _run(client, toolkit), client.aclose) as run:
        yield run


async def _run(client: AsyncClient, toolkit: Toolkit | None) -> int:
    count = 0
    async with client.stream(PROMPT, toolkit) as stream:
        async for event in stream:
            if type(event) is TextEvent:
                count += 1
    return count if toolkit is None else stream.result.turns


def toolnexus_many(streams: int) -> Subject:
    """So many async streams at once, of one client."""

    @contextlib.contextmanager
    def many(place: Place) -> Iterator[Job]:
        client = AsyncClient(**options(place))

        async def job() -> int:
            return min(await asyncio.gather(*(_run(client, None) for _ in range(streams))))

        with running(job, client.aclose) as run:
            yield run

    return many


@contextlib.contextmanager
def toolnexus(place: Place) -> Iterator[Job]:
    """`SyncClient.iter_events`."""
    yield from _sync(place)


@contextlib.contextmanager
def toolnexus_async(place: Place) -> Iterator[Job]:
    """`AsyncClient.stream`."""
    yield from _async(place)


@contextlib.contextmanager
def toolnexus_over_httpx(place: Place) -> Iterator[Job]:
    """`SyncClient` with a caller's `http_client`: ordinary httpx, as the floor has it."""
    with httpx.Client() as http_client:
        yield from _sync(place, http_client=http_client)


@contextlib.contextmanager
def toolnexus_async_over_httpx(place: Place) -> Iterator[Job]:
    """`AsyncClient` with a caller's `http_client`."""
    yield from _async(place, http_client=httpx.AsyncClient())


@contextlib.contextmanager
def toolnexus_observed(place: Place) -> Iterator[Job]:
    """`SyncClient` with hooks, a chunk observer and a store in memory."""
    yield from _observed(place, MemoryStore())


@contextlib.contextmanager
def toolnexus_on_disk(place: Place) -> Iterator[Job]:
    """The same with a store in a file."""
    with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "conversations.db") as store:
        yield from _observed(place, store)


def _observed(place: Place, store: ConversationStore) -> Iterator[Job]:
    toolkit = _toolkit(place)
    seen: list[object] = []
    hooks = Hooks(
        before_llm=lambda given: None,
        after_llm=lambda given: None,
        before_tool=lambda given: None,
        after_tool=lambda given: None,
        on_message=lambda message: None,
        on_chunk=lambda chunk: seen.append(chunk.seq),
    )
    with SyncClient(**options(place, hooks=hooks, store=store)) as client:
        runs = 0

        def job() -> int:
            nonlocal runs
            runs += 1
            seen.clear()
            result = client.stream(PROMPT, toolkit, id=f"conversation-{runs}")
            return len(seen) if toolkit is None else result.turns

        yield job
