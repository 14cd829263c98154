"""Both clients against a response that is cut at every byte: head, framing and body, over sockets and without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL
from tests.sweeps.answers import ARGS, STREAMED, TEXT, TOOL, WHOLE, Answer, Style, second
from tests.sweeps.cut_server import FRAMINGS, LEAVES, CutServer, Framing, framed, gzipped
from toolnexus import (
    APIConnectionError,
    AsyncClient,
    Message,
    ProtocolError,
    RunResult,
    StreamEvent,
    StreamInterruptedError,
    SyncClient,
    Toolkit,
    ToolnexusError,
    define_tool,
)


@dataclass
class Seen:
    """One run against a cut response."""

    tools: list[dict[str, Any]] = field(default_factory=list)
    events: list[StreamEvent] = field(default_factory=list)
    result: RunResult | None = None
    error: ToolnexusError | None = None

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.events if event.type == "text")

    def toolkit(self) -> Toolkit:
        def transfer(args):
            self.tools.append(args)
            return "sent"

        return Toolkit(define_tool(transfer, name=TOOL, description="Send money.", input_schema={"type": "object"}))


Run = Callable[[], Seen]
Sweep = Callable[[Callable[[Run], None]], None]
"""Gives a test a way to make one run after the other, with one client."""


def sweeping(kind: str, stream: bool, **options: Any) -> Sweep:
    options = {"model": MODEL, "retries": 0, "max_turns": 1, **options}

    def sync_sweep(test: Callable[[Run], None]) -> None:
        with SyncClient(**options) as client:

            def run() -> Seen:
                seen = Seen()
                try:
                    if stream:
                        seen.result = client.stream("Go.", seen.toolkit(), seen.events.append)
                    else:
                        seen.result = client.run("Go.", seen.toolkit())
                except ToolnexusError as error:
                    seen.error = error
                return seen

            test(run)

    def async_sweep(test: Callable[[Run], None]) -> None:
        async def run(client: AsyncClient) -> Seen:
            seen = Seen()
            try:
                if stream:
                    async with client.stream("Go.", seen.toolkit()) as events:
                        async for event in events:
                            seen.events.append(event)
                        seen.result = events.result
                else:
                    seen.result = await client.run("Go.", seen.toolkit())
            except ToolnexusError as error:
                seen.error = error
            return seen

        with asyncio.Runner() as runner:
            client = AsyncClient(**options)
            test(lambda: runner.run(run(client)))
            runner.run(client.aclose())

    return sync_sweep if kind == "sync" else async_sweep


def judge(seen: Seen, answer: Answer, size: int, *, complete: bool, stream: bool = True) -> None:
    """Compare a run that got `size` bytes of the answer with the oracle."""
    shown = answer.text_of(size) if stream else ""
    if complete:
        assert seen.error is None
        assert seen.result is not None
        # The turns are used up, so the run ends where the tool has run.
        assert (seen.result.status, seen.result.limit) == ("incomplete", "max_turns")
        assert seen.tools == [ARGS]
        assert seen.result.messages[1].text == "".join(TEXT)
        assert not stream or seen.text == "".join(TEXT)
        return
    assert seen.result is None
    assert isinstance(seen.error, (APIConnectionError, ProtocolError))
    assert seen.tools == []
    assert [event.type for event in seen.events if event.type != "text"] == []
    assert seen.text == shown
    assert seen.error.result is not None
    assert seen.error.result.messages == [Message("user", "Go.")]
    assert (seen.error.result.text, seen.error.result.tool_calls) == (shown, [])


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("style", STREAMED)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_stream_cut_on_a_socket_is_never_taken_for_a_whole_one(
    kind, style: Style, framing: Framing, everything, publish
):
    answer = STREAMED[style]
    wire = framed(answer, framing)
    edges = {at for at in range(1, len(wire.data)) if wire.data[at - 1 : at + 1] in (b"\n\n", b"\r\n")}
    points = range(len(wire.data) + 1) if everything else sorted({*range(3, len(wire.data), 97), *sorted(edges)[::3]})
    with CutServer() as server:

        def test(run: Run) -> None:
            for point in points:
                for server.leave in LEAVES:
                    server.response = wire.data[:point]
                    size = wire.body_sizes[point]
                    judge(run(), answer, size, complete=size >= answer.complete_at)

        sweeping(kind, stream=True, base_url=server.url, style=style)(test)
        assert server.requests == 2 * len(points)
    publish(cuts=server.requests)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("style", WHOLE)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_reply_cut_on_a_socket_is_never_taken_for_a_whole_one(
    kind, style: Style, framing: Framing, everything, publish
):
    answer = WHOLE[style]
    wire = framed(answer, framing, "application/json")
    last = len(wire.data)
    points = range(last + 1) if everything else [*range(5, last, 61), *range(last - 3, last + 1)]
    with CutServer() as server:

        def test(run: Run) -> None:
            for point in points:
                for server.leave in LEAVES:
                    server.response = wire.data[:point]
                    # Where it ends when the connection does, a reset is no end.
                    whole = point == last and (framing != "close" or server.leave == "FIN")
                    judge(run(), answer, wire.body_sizes[point], complete=whole, stream=False)

        sweeping(kind, stream=False, base_url=server.url, style=style)(test)
    publish(cuts=server.requests)


class CutStream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that stops, with an error or without a word."""

    def __init__(self, data: bytes, error: Exception | None) -> None:
        self._data, self._error = data, error
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield self._data
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in self:
            yield data

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


class CutTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers every request with a body that stops; no sockets."""

    def __init__(self, **headers: str) -> None:
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.bodies: list[bytes] = []
        """For the next requests; the last one for all that follow."""
        self.error: Exception | None = None
        self.streams: list[CutStream] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        data = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        self.streams.append(CutStream(data, self.error))
        return httpx.Response(200, headers=self._headers, stream=self.streams[-1])

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        return self.handle_request(request)

    def client(self, kind: str) -> httpx.Client | httpx.AsyncClient:
        return httpx.Client(transport=self) if kind == "sync" else httpx.AsyncClient(transport=self)


FAULTS: dict[str, Exception | None] = {
    "a clean end": None,
    "a reset": httpx.ReadError("reset"),
    "a short body": httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
    "silence": httpx.ReadTimeout("timed out"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("style", STREAMED)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_stream_cut_below_httpx_is_never_taken_for_a_whole_one(kind, style: Style, fault, everything, publish):
    answer = STREAMED[style]
    points = answer.points if everything else answer.sample(53)
    transport = CutTransport()
    transport.error = fault

    def test(run: Run) -> None:
        for point in points:
            transport.bodies = [answer.body[:point]]
            judge(run(), answer, point, complete=point >= answer.complete_at)

    sweeping(kind, stream=True, base_url="http://api.test", style=style, http_client=transport.client(kind))(test)
    assert len(transport.streams) == len(points)
    assert all(stream.is_closed for stream in transport.streams)
    publish(cuts=len(points))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("style", STREAMED)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_cut_gzip_stream_is_never_taken_for_a_whole_one(kind, style: Style, fault, everything, publish):
    answer = STREAMED[style]
    data, sizes = gzipped(answer)
    points = [*range(0, len(data) + 1, 1 if everything else 41), *range(len(data) - 9, len(data) + 1)]
    transport = CutTransport(content_encoding="gzip")
    transport.error = fault

    def test(run: Run) -> None:
        for point in points:
            transport.bodies = [data[:point]]
            judge(run(), answer, sizes[point], complete=sizes[point] >= answer.complete_at)

    sweeping(kind, stream=True, base_url="http://api.test", style=style, http_client=transport.client(kind))(test)
    publish(cuts=len(points))


@pytest.mark.parametrize("style", STREAMED)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_cut_gzip_stream_on_a_socket_is_never_taken_for_a_whole_one(kind, style: Style, everything, publish):
    answer = STREAMED[style]
    data, sizes = gzipped(answer)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n"
    points = [*range(0, len(data) + 1, 1 if everything else 61), *range(len(data) - 9, len(data) + 1)]
    with CutServer() as server:

        def test(run: Run) -> None:
            for point in points:
                server.response = head + data[:point]
                judge(run(), answer, sizes[point], complete=sizes[point] >= answer.complete_at)

        sweeping(kind, stream=True, base_url=server.url, style=style)(test)
    publish(cuts=len(points))


@pytest.mark.parametrize("style", STREAMED)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_cut_answer_is_asked_for_again_until_something_of_it_was_shown(kind, style: Style, everything, publish):
    """The next answer is whole and another one: text of both in one run would be a mixture."""
    answer = STREAMED[style]
    transport = CutTransport()
    counts = {"again": 0, "failed": 0}

    def test(run: Run) -> None:
        for point in answer.points if everything else answer.sample(53):
            if point >= answer.complete_at:
                break
            transport.bodies = [answer.body[:point], second(style)]
            seen = run()
            assert seen.tools == []
            if answer.text_of(point):
                assert isinstance(seen.error, StreamInterruptedError)
                assert seen.text == answer.text_of(point)
                assert len(transport.bodies) == 1
                counts["failed"] += 1
            else:
                assert seen.error is None
                assert seen.text == "Fertig."
                counts["again"] += 1

    options = {"base_url": "http://api.test", "http_client": transport.client(kind), "retry_base": 0.0}
    sweeping(kind, stream=True, style=style, retries=1, **options)(test)
    assert min(counts.values()) > 0
    publish(asked_for_again=counts["again"], failed=counts["failed"])
