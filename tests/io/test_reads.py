"""Reading a response: it ends with its run even if bytes are always there, and its errors carry nothing along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from toolnexus import AsyncClient, RunCancelledError, StreamInterruptedError, SyncClient
from toolnexus._io.async_bounds import AsyncBounds
from toolnexus._io.async_transport import AsyncResponse, AsyncTransport
from toolnexus._io.bounds import Bounds, Patience
from toolnexus._io.sync_transport import SyncResponse, SyncTransport
from toolnexus.config import ClientConfig

KEY = "sk-CANARY-0123456789abcdef"
REQUEST = httpx.Request("POST", "http://127.0.0.1:1", extensions={"timeout": {"read": None}})


class Endless(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield b": alive\n"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b": alive\n"


class Breaks(Endless):
    """Breaks in mid-stream as httpx does: the error knows the request, and so the key."""

    def __init__(self, request: httpx.Request) -> None:
        self.error = httpx.RemoteProtocolError("cut", request=request)

    def __iter__(self) -> Iterator[bytes]:
        yield b": alive\n"
        raise self.error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": alive\n"
        raise self.error


def config() -> ClientConfig:
    return SyncClient(model="m", base_url="http://127.0.0.1:1")._config


def test_a_read_ends_with_the_run_even_if_bytes_are_always_there():
    bounds = Bounds(None, None)
    response = httpx.Response(200, stream=Endless(), request=REQUEST)
    reading = SyncResponse(SyncTransport(config(), None), response, Patience(bounds))
    assert reading.read(None)
    bounds.end("over")
    with pytest.raises(RunCancelledError, match="over"):
        reading.read(None)
    reading.close()


def test_a_read_under_asyncio_ends_with_the_run_even_if_bytes_are_always_there():
    async def main() -> None:
        bounds = AsyncBounds(None, None)
        response = httpx.Response(200, stream=Endless(), request=REQUEST)
        reading = AsyncResponse(AsyncTransport(config(), None), response, Patience(bounds), None)
        assert await reading.read(None)
        bounds.end("over")
        with pytest.raises(RunCancelledError, match="over"):
            await reading.read(None)
        await reading.aclose()

    asyncio.run(main())


class Gaps(Endless):
    def __iter__(self) -> Iterator[bytes]:
        yield from (b"", b"a", b"", b"", b"b", b"")


def test_an_empty_piece_of_a_callers_transport_is_no_end():
    response = httpx.Response(200, stream=Gaps(), request=REQUEST)
    reading = SyncResponse(SyncTransport(config(), None), response, Patience(Bounds(None, None)))
    assert [reading.read(None) for _ in range(4)] == [b"a", b"b", b"", b""]


def chain(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else [error, *chain(error.__cause__), *chain(error.__context__)]


def check(error: BaseException) -> None:
    for found in chain(error):
        request = getattr(found, "_request", None)
        assert request is None or KEY not in str(request.headers.raw), found


def test_an_error_of_a_callers_httpx_does_not_bring_its_request_along():
    mock = httpx.MockTransport(lambda request: httpx.Response(200, stream=Breaks(request)))
    with (
        httpx.Client(transport=mock) as http_client,
        SyncClient(model="m", base_url="http://127.0.0.1:1", api_key=KEY, retries=0, http_client=http_client) as client,
        pytest.raises(StreamInterruptedError) as failed,
    ):
        client.run("Go.")
    check(failed.value)


def test_nor_does_one_of_a_callers_async_httpx():
    mock = httpx.MockTransport(lambda request: httpx.Response(200, stream=Breaks(request)))

    async def main() -> None:
        async with httpx.AsyncClient(transport=mock) as http_client:
            url = "http://127.0.0.1:1"
            async with AsyncClient(model="m", base_url=url, api_key=KEY, retries=0, http_client=http_client) as client:
                with pytest.raises(StreamInterruptedError) as failed:
                    await client.run("Go.")
                check(failed.value)

    asyncio.run(main())
