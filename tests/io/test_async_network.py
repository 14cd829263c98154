"""One connection under asyncio: back pressure, ends of it, and being dropped at any time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL
from tests.server import says
from toolnexus import AsyncClient
from toolnexus._io import async_network, faults
from toolnexus._io.alarm import Alarm
from toolnexus._io.async_bounds import AsyncBounds
from toolnexus._io.async_network import _HIGH_WATER, AsyncConnection, AsyncDirectTransport, Flow
from toolnexus._io.async_pump import Pump
from toolnexus._io.bounds import Patience
from toolnexus._io.http11 import Endpoint
from toolnexus.config import Timeouts


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.paused = False
        self.written: list[bytes] = []
        self.aborted = False
        self.unsent = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def write(self, data: Any) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def connected() -> tuple[Flow, FakeTransport]:
    flow, transport = Flow(), FakeTransport()
    flow.connection_made(transport)
    return flow, transport


def test_a_slow_reader_makes_the_server_wait_and_loses_nothing():
    async def main() -> None:
        flow, transport = connected()
        sent = bytes(range(256)) * (_HIGH_WATER // 256)
        flow.data_received(sent)
        assert not transport.paused
        flow.data_received(b"more")
        flow.data_received(b" and more")
        assert transport.paused
        got = b""
        while transport.paused:
            got += await flow.read(None)
        assert len(sent) // 2 < len(got) < len(sent)
        while len(got) < len(sent) + 13:
            got += await flow.read(None)
        assert got == sent + b"more and more"

    asyncio.run(main())


def test_a_read_waits_for_bytes_and_no_longer_than_it_may():
    async def main() -> None:
        flow, _ = connected()
        asyncio.get_running_loop().call_soon(flow.data_received, b"hello")
        assert await flow.read(5) == b"hello"
        with pytest.raises(faults.ReadTimeout):
            await flow.read(0.01)
        asyncio.get_running_loop().call_soon(flow.data_received, b"again")
        assert await flow.read(None) == b"again"

    asyncio.run(main())


def test_bytes_that_came_before_the_end_are_read_before_it():
    async def main() -> None:
        flow, _ = connected()
        flow.data_received(b"last words")
        flow.eof_received()
        assert flow.is_readable
        assert await flow.read(None) == b"last words"
        assert await flow.read(None) == b""

    asyncio.run(main())


def test_a_lost_connection_wakes_the_reader_with_the_reason():
    async def main() -> None:
        flow, _ = connected()
        asyncio.get_running_loop().call_soon(flow.connection_lost, ConnectionResetError("gone"))
        with pytest.raises(faults.ReadError, match="gone"):
            await flow.read(None)

    asyncio.run(main())


def test_a_write_waits_until_the_other_side_takes_it():
    async def main() -> None:
        flow, transport = connected()
        flow.write(b"one")
        assert not flow.is_full
        await flow.sent(None)
        flow.pause_writing()
        asyncio.get_running_loop().call_soon(flow.resume_writing)
        flow.write(b"two")
        assert flow.is_full
        await flow.sent(5)
        assert not flow.is_full
        assert transport.written == [b"one", b"two"]

    asyncio.run(main())


def test_a_write_times_out_if_nothing_goes_out_meanwhile():
    async def main() -> None:
        flow, transport = connected()
        flow.pause_writing()
        flow.write(b"three")
        transport.unsent = 5
        asyncio.get_running_loop().call_soon(setattr, transport, "unsent", 4)
        await flow.sent(0.01)
        assert flow.is_full
        with pytest.raises(faults.WriteTimeout):
            await flow.sent(0.01)

    asyncio.run(main())


def test_what_is_sent_while_the_time_runs_out_was_sent_in_time(monkeypatch):
    ring = Alarm._ring

    def ring_and_send(alarm: Alarm) -> None:
        ring(alarm)
        flow.resume_writing()

    async def main() -> None:
        flow.pause_writing()
        await flow.sent(0.01)
        assert not flow.is_full

    monkeypatch.setattr(Alarm, "_ring", ring_and_send)
    flow, _ = connected()
    asyncio.run(main())


def test_a_write_on_a_lost_connection_is_an_error():
    async def main() -> None:
        flow, transport = connected()
        flow.pause_writing()
        asyncio.get_running_loop().call_soon(flow.connection_lost, BrokenPipeError("gone"))
        with pytest.raises(faults.WriteError, match="gone"):
            await flow.sent(5)
        assert not flow.is_full
        transport.abort()
        with pytest.raises(faults.WriteError, match="the connection is closed"):
            flow.write(b"two")

    asyncio.run(main())


def test_a_line_that_was_dropped_before_it_connected_does_not_connect():
    async def main() -> None:
        connection = AsyncConnection()
        connection.abort()
        with pytest.raises(faults.ConnectError, match="aborted"):
            await connection.connect_tcp("127.0.0.1", 1, None)

    asyncio.run(main())


def test_a_line_may_be_dropped_at_any_moment_of_its_being_dropped(monkeypatch):
    async def never(host: str, port: int) -> socket.socket:
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(async_network, "_connect_first", never)

    async def main() -> None:
        connection = AsyncConnection()
        connecting = asyncio.ensure_future(connection.connect_tcp("127.0.0.1", 1, 60))
        await asyncio.sleep(0)
        for _ in range(5):  # as a cancel of the run and then the closing of the client do
            connection.abort()
            await asyncio.sleep(0)
        with pytest.raises(faults.ConnectTimeout):
            await connecting

    asyncio.run(main())


def test_a_line_can_be_dropped_after_its_loop_was_closed():
    async def main() -> AsyncConnection:
        return AsyncConnection()

    connection = asyncio.run(main())
    connection.interrupt()
    connection.abort()


def test_a_closed_transport_takes_no_request():
    async def main() -> None:
        transport = AsyncDirectTransport(Endpoint("127.0.0.1", 1, False, b"/", ()), None, Timeouts())
        await transport.aclose()
        with pytest.raises(faults.ConnectError, match="the client is closed"):
            await transport.send(b"{}", Patience(AsyncBounds(None, None)))

    asyncio.run(main())


def test_a_long_answer_reaches_a_slow_consumer_whole(serve):
    pieces = ["x" * 50_000 + str(n) for n in range(100)]
    server = serve(says(*pieces))

    async def main() -> list[str]:
        seen: list[str] = []
        async with AsyncClient(base_url=server.url, model=MODEL) as client, client.stream("Go.") as events:
            async for event in events:
                if event.type == "text":
                    seen.append(event.delta)
                    if len(seen) % 10 == 0:
                        await asyncio.sleep(0.001)
        return seen

    assert asyncio.run(main()) == pieces


class Counted(httpx.AsyncByteStream):
    """A body of many pieces that counts those asked for."""

    def __init__(self, count: int) -> None:
        self.given = 0
        self._count = count

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number in range(self._count):
            self.given += 1
            yield numbered(number)


def numbered(number: int) -> bytes:
    return (b"%d," % number).ljust(4096)


def test_a_pump_stops_reading_for_a_slow_consumer():
    async def main() -> None:
        body = Counted(50)
        transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=body))
        async with httpx.AsyncClient(transport=transport) as client:
            request = client.build_request("POST", "http://model.test")
            pump = Pump(client, request, Patience(AsyncBounds(None, None)))
            await pump.head()
            for _ in range(200):
                await asyncio.sleep(0)
            assert body.given < 10
            got = b""
            while piece := await pump.read(5):
                got += piece
            assert got == b"".join(numbered(number) for number in range(50))
            pump.close()

    asyncio.run(main())


@pytest.mark.parametrize("step", [None, "http11.receive_response_body.complete"], ids=["reading", "between reads"])
def test_a_pump_that_is_closed_while_it_waits_for_its_consumer_ends(step):
    async def main() -> None:
        body = Counted(50)
        transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=body))
        async with httpx.AsyncClient(transport=transport) as client:
            request = client.build_request("POST", "http://model.test")
            pump = Pump(client, request, Patience(AsyncBounds(None, None)))
            await pump.head()
            for _ in range(200):
                await asyncio.sleep(0)
            if step is not None:
                await request.extensions["trace"](step, {})  # a caller's transport may tell of each piece
            pump.close()
            for _ in range(20):
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert body.given < 10

    asyncio.run(main())


def test_a_pump_may_be_closed_twice_and_reports_nothing_as_lost():
    noise: list[Any] = []

    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody there")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        async with httpx.AsyncClient(transport=httpx.MockTransport(fail)) as client:
            for pause in (0, 5):
                request = client.build_request("POST", "http://model.test")
                pump = Pump(client, request, Patience(AsyncBounds(None, None)))
                for _ in range(pause):
                    await asyncio.sleep(0)
                pump.close()
                pump.close()
                for _ in range(10):
                    await asyncio.sleep(0)

    asyncio.run(main())
    gc.collect()
    assert noise == []


class Answered(httpx.AsyncBaseTransport):
    """Answers with the body that `body` makes of a request."""

    def __init__(self, body: Callable[[httpx.Request], AsyncGenerator[bytes, None]]) -> None:
        self.closings: list[str] = []
        self._body = body

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Body(self._body(request), self.closings))


class Body(httpx.AsyncByteStream):
    """A body whose closing takes a few steps, as that of a connection does; a cancel in between leaves it half done."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], closings: list[str]) -> None:
        self._pieces = pieces
        self._closings = closings

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        self._closings.append("begun")
        for _ in range(5):
            await asyncio.sleep(0)
        self._closings.append("done")


async def steps(count: int = 30) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def pumped(transport: httpx.AsyncBaseTransport, use: Callable[[Pump], Awaitable[None]]) -> None:
    """Use a pump over `transport`; nothing of it may be left then."""

    async def main() -> None:
        async with httpx.AsyncClient(transport=transport) as client:
            request = client.build_request("POST", "http://model.test")
            pump = Pump(client, request, Patience(AsyncBounds(None, None)))
            await use(pump)
            pump.close()
            await steps()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_read_of_a_pump_takes_all_that_has_come_and_an_empty_piece_is_no_end():
    async def body(request: httpx.Request) -> AsyncGenerator[bytes, None]:
        for piece in (b"a", b"", b"b", b"", b"c"):
            yield piece
        await asyncio.sleep(0)
        yield b"d"

    async def use(pump: Pump) -> None:
        await pump.head()
        assert [await pump.read(5) for _ in range(4)] == [b"abc", b"d", b"", b""]

    pumped(Answered(body), use)


def test_what_came_before_a_failure_is_read_before_it_is_raised():
    async def body(request: httpx.Request) -> AsyncGenerator[bytes, None]:
        yield b"all "
        yield b"there"
        raise httpx.ReadError("broken")

    async def use(pump: Pump) -> None:
        await pump.head()
        assert await pump.read(5) == b"all there"
        for _ in range(2):
            with pytest.raises(httpx.ReadError, match="broken"):
                await pump.read(5)

    pumped(Answered(body), use)


def test_a_pump_has_closed_its_response_when_it_tells_of_the_end():
    async def body(request: httpx.Request) -> AsyncGenerator[bytes, None]:
        yield b"all"

    transport = Answered(body)

    async def use(pump: Pump) -> None:
        await pump.head()
        assert await pump.read(5) == b"all"
        assert await pump.read(5) == b""
        assert transport.closings == ["begun", "done"]

    pumped(transport, use)


@pytest.mark.parametrize("times", [1, 2])
def test_closing_a_pump_does_not_disturb_its_client_while_that_closes(times):
    steps_done: list[str] = []

    async def body(request: httpx.Request) -> AsyncGenerator[bytes, None]:
        trace = request.extensions["trace"]  # as httpcore does it
        await trace("http11.receive_response_body.started", {})
        await asyncio.sleep(0)
        await trace("http11.receive_response_body.failed", {})
        steps_done.append("begun")
        await steps(5)
        steps_done.append("done")
        raise httpx.ReadError("broken")
        yield

    transport = Answered(body)

    async def use(pump: Pump) -> None:
        await pump.head()
        while not steps_done:
            await asyncio.sleep(0)
        for _ in range(times):
            pump.close()
            await asyncio.sleep(0)
        await steps()
        assert steps_done == transport.closings == ["begun", "done"]

    pumped(transport, use)


@pytest.mark.parametrize("times", [1, 2])
def test_closing_a_pump_that_reads_closes_its_response_whole(times):
    tidied: list[str] = []

    async def body(request: httpx.Request) -> AsyncGenerator[bytes, None]:
        try:
            await asyncio.get_running_loop().create_future()
            yield b"never"
        finally:
            await steps(5)
            tidied.append("done")

    transport = Answered(body)

    async def use(pump: Pump) -> None:
        await pump.head()
        await steps()
        for _ in range(times):
            pump.close()
            await steps(2)
        await steps()
        assert tidied == ["done"]
        assert transport.closings == ["begun", "done"]

    pumped(transport, use)


def test_closing_a_pump_does_not_disturb_the_closing_at_the_end():
    async def body(request: httpx.Request) -> AsyncGenerator[bytes, None]:
        yield b"all"

    transport = Answered(body)

    async def use(pump: Pump) -> None:
        await pump.head()
        while not transport.closings:
            await asyncio.sleep(0)
        pump.close()
        await steps()
        assert transport.closings == ["begun", "done"]

    pumped(transport, use)


@pytest.mark.parametrize("step", ["nothing", "http11.send_request_headers.started", "connection.connect_tcp.started"])
def test_a_pump_that_is_closed_before_the_head_ends_without_reading(step):
    read: list[str] = []

    async def body(request: httpx.Request) -> AsyncGenerator[bytes, None]:
        read.append("asked")
        await asyncio.get_running_loop().create_future()
        yield b"never"

    class Late(Answered):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await steps(5)  # where a cancel would lose a slot of httpcore's pool
            if step != "nothing":
                await request.extensions["trace"](step, {})
            read.append("sent")
            return await super().handle_async_request(request)

    transport = Late(body)

    async def use(pump: Pump) -> None:
        await asyncio.sleep(0)
        pump.close()
        await steps()
        assert read == ([] if step.startswith("http11") else ["sent"])
        assert transport.closings == ([] if step.startswith("http11") else ["begun", "done"])

    pumped(transport, use)


def test_a_pump_ends_though_its_client_swallows_the_cancel():
    async def body(request: httpx.Request) -> AsyncGenerator[bytes, None]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        while True:
            yield b"more"

    transport = Answered(body)

    async def use(pump: Pump) -> None:
        await pump.head()
        await steps()
        pump.close()
        await steps()
        assert transport.closings == ["begun", "done"]

    pumped(transport, use)
