"""Content encodings are undone piece by piece, and what is no such thing is an error."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL, soon
from tests.server import Flood, done, failure, finish, reply, says, text
from toolnexus import (
    AsyncClient,
    BadRequestError,
    DeadlineExceededError,
    ProtocolError,
    RunCancelledError,
    StreamInterruptedError,
    SyncClient,
)
from toolnexus._io.bounds import Bounds, Patience
from toolnexus._io.decoding import Decoder, decoder_for
from toolnexus._io.sync_transport import SyncResponse, SyncTransport

BODY = b"".join(bytes(write) for write in says("Hel", "lo", "!").writes if isinstance(write, bytes)) * 40


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


ENCODED = {
    "gzip": ("gzip", gzip.compress(BODY)),
    "gzip by its older name": ("x-gzip", gzip.compress(BODY)),
    "deflate": ("deflate", zlib.compress(BODY)),
    "deflate without a head": ("deflate", raw_deflate(BODY)),
}


def decode(encoding: str, pieces: list[bytes]) -> bytes:
    decoder, body = Decoder(encoding), b""
    for piece in pieces:
        decoder.feed(piece)
        while taken := decoder.take():
            body += taken
    return body


@pytest.mark.parametrize(("encoding", "data"), ENCODED.values(), ids=ENCODED)
def test_a_body_is_the_same_however_it_is_cut(encoding, data):
    assert decode(encoding, [data]) == BODY
    assert decode(encoding, [data[n : n + 1] for n in range(len(data))]) == BODY
    for at in range(len(data)):
        assert decode(encoding, [data[:at], data[at:]]) == BODY


def test_what_follows_the_end_is_no_part_of_the_body():
    assert decode("gzip", [gzip.compress(b"a") + b"b", b"c"]) == b"a"


def test_a_piece_is_never_larger_than_a_read():
    decoder = Decoder("gzip")
    decoder.feed(gzip.compress(b" " * 10_000_000))
    sizes = []
    while piece := decoder.take():
        sizes.append(len(piece))
    assert sum(sizes) == 10_000_000
    assert max(sizes) == 64 * 1024


@pytest.mark.parametrize(("encoding", "data"), ENCODED.values(), ids=ENCODED)
def test_both_clients_read_it(connect, serve, encoding, data):
    server = serve(reply(data, headers={"content-encoding": encoding.upper()}))
    assert connect(server).stream("Go.").text == "Hello!"


def test_no_encoding_may_be_said_in_words(connect, serve):
    assert connect(serve(says("Hi.", headers={"content-encoding": "identity"}))).stream("Go.").text == "Hi."


def test_an_encoding_that_we_did_not_ask_for_is_named(connect, serve):
    server = serve(says("Hi.", headers={"content-encoding": "br"}))
    with pytest.raises(ProtocolError) as failed:
        connect(server).stream("Go.")
    assert str(failed.value) == (
        "expected a body without content encoding, as was asked for, or in gzip or deflate, got 'br'"
    )
    assert len(server.requests) == 1


def test_of_an_error_in_such_an_encoding_the_status_is_told(connect, serve):
    server = serve(failure(400, "no luck", content_encoding="br"))
    with pytest.raises(BadRequestError):
        connect(server).stream("Go.")


def test_an_encoded_body_that_is_cut_is_an_interrupted_stream(connect, serve):
    packed = gzip.compress(b"".join(text("Hel", "lo.")))
    server = serve(reply(packed[:-12], headers={"content-encoding": "gzip"}))
    with pytest.raises(StreamInterruptedError):
        connect(server, retries=0).stream("Go.")


def test_a_body_that_decodes_to_nothing_for_ever_ends_with_the_run(connect, serve):
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    head, empty_block = packer.flush(zlib.Z_FULL_FLUSH), b"\0\0\0\xff\xff"
    server = serve(reply(head, Flood(empty_block * 100), headers={"content-encoding": "gzip"}))
    with soon(), pytest.raises(DeadlineExceededError):
        connect(server).stream("Go.", deadline=0.2)


def test_nor_does_it_hold_up_a_read_that_always_has_bytes():
    bounds = Bounds(None, None)
    asked: list[int] = []

    class Nothing(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield gzip.compress(b"")[:10]  # the head alone
            for count in range(1000):
                asked.append(count)
                if count == 500:
                    bounds.end("over")
                yield b"\0\0\0\xff\xff"

    request = httpx.Request("POST", "http://127.0.0.1:1")
    response = httpx.Response(200, stream=Nothing(), headers=HEADERS, request=request)
    config = SyncClient(model="m", base_url="http://127.0.0.1:1")._config
    reading = SyncResponse(SyncTransport(config, None), response, Patience(bounds))
    with pytest.raises(RunCancelledError, match="over"):
        reading.read(None)
    assert asked == [*range(501)]
    reading.close()


# -- over a caller's client


class Packed(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield gzip.compress(b"".join((*text("Hello."), finish(), done())))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


HEADERS = {"content-encoding": "gzip"}
MOCKS = {
    "read as it comes": lambda request: httpx.Response(200, stream=Packed(), headers=HEADERS),
    "read before": lambda request: httpx.Response(200, content=next(iter(Packed())), headers=HEADERS),
}


@pytest.mark.parametrize("answer", MOCKS.values(), ids=MOCKS)
def test_a_body_over_a_callers_client_is_decoded_once(answer):
    mock = httpx.MockTransport(answer)
    options: dict[str, Any] = {"base_url": "http://model.test", "model": MODEL}

    async def main() -> str:
        async with (
            httpx.AsyncClient(transport=mock) as theirs,
            AsyncClient(http_client=theirs, **options) as client,
            client.stream("Go.") as events,
        ):
            async for _ in events:
                pass
            return events.result.text

    assert asyncio.run(main()) == "Hello."
    with httpx.Client(transport=mock) as theirs, SyncClient(http_client=theirs, **options) as client:
        assert client.stream("Go.").text == "Hello."


def test_a_response_without_an_encoding_has_no_decoder():
    assert decoder_for(httpx.Response(200)) is None
    assert decoder_for(httpx.Response(200, headers={"content-encoding": " "})) is None
