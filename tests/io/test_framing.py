"""HTTP framing: what our network makes of a connection's bytes is what h11 alone makes of them, wherever they are cut.

The judge is `httpcore.HTTP11Connection`, which feeds h11 with everything that comes; headers are as httpx reads them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx
import pytest

from toolnexus._io import faults, sync_network
from toolnexus._io.async_network import AsyncConnection, AsyncDirectTransport, Flow
from toolnexus._io.bounds import Bounds, Patience
from toolnexus._io.framing import Chunks
from toolnexus._io.http11 import Endpoint, Http11
from toolnexus._io.sync_network import Connection, DirectTransport
from toolnexus.config import Timeouts

OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
NEXT = b"HTTP/1.1 202 Accepted\r\ncontent-length: 4\r\n\r\nnext"

WHOLE: dict[str, bytes] = {
    "chunks": CHUNKED + b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
    "no data": CHUNKED + b"0\r\n\r\n",
    "line ends in the data": CHUNKED + b"6\r\n\r\n\r\n\r\n\r\n4\r\n\n\r\n\n\r\n0\r\n\r\n",
    "what looks like framing in the data": CHUNKED + b"7\r\n2\r\nab\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n",
    "what looks like a head in the data": CHUNKED + b"13\r\nHTTP/1.1 200 OK\r\n\r\n\r\n0\r\n\r\n",
    "capital digits and zeros in front": CHUNKED
    + b"0B\r\nhello world\r\n00000000000000c\r\nhello worlds\r\n000\r\n\r\n",
    "sixteen digits": CHUNKED + b"0000000000000003\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "seventeen digits": CHUNKED + b"2\r\nde\r\n00000000000000003\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "twenty digits": CHUNKED + b"00000000000000000003\r\nabc\r\n0\r\n\r\n",
    "an extension": CHUNKED + b"2\r\nab\r\n3;a=b\r\ncde\r\n2\r\nfg\r\n0;x\r\n\r\n",
    "an extension on the first": CHUNKED + b'3;a="\xff;"\r\nabc\r\n2\r\nfg\r\n0\r\n\r\n',
    "white space behind the size": CHUNKED + b"2\r\nab\r\n3 \t\r\nabc\r\n0 \r\n\r\n",
    "trailers": CHUNKED + b"2\r\nab\r\n0\r\nx-sum: 1\r\ny: 2\r\n\r\n",
    "an informational head in front": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    + CHUNKED
    + b"2\r\nab\r\n0\r\n\r\n",
    "two of them": b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + CHUNKED + b"2\r\nab\r\n0\r\n\r\n",
    "a head with bare line feeds": CHUNKED.replace(b"\r\n", b"\n") + b"2\r\nab\r\n0\r\n\r\n",
    "capitals": OK + b"Transfer-Encoding: CHUNKED\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "a length, too": OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "a length": OK + b"content-length: 5\r\n\r\n2\r\nab",
    "a length of nothing": OK + b"content-length: 0\r\n\r\n",
    "a header that comes twice, one no UTF-8": OK + b"x: a\r\nY: \xe9\r\nX: b\r\ncontent-length: 1\r\n\r\na",
    "a header in UTF-8": OK + b"x: \xc3\xa9\r\ncontent-length: 1\r\n\r\na",
    "no content": b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n",
    "chunks of HTTP/1.0": b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "chunks that end the connection": OK
    + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
}
BROKEN: dict[str, bytes] = {
    "until the end": OK + b"\r\n2\r\nab\r\n0\r\n\r\n",
    "a size that is none": CHUNKED + b"2\r\nab\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a size with a sign": CHUNKED + b"2\r\nab\r\n+3\r\nabc\r\n0\r\n\r\n",
    "a size below nothing": CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
    "a size as Python writes it": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "a size with an underscore": CHUNKED + b"1_0\r\n0123456789abcdef\r\n0\r\n\r\n",
    "white space before the size": CHUNKED + b"2\r\nab\r\n 3\r\nabc\r\n0\r\n\r\n",
    "no size": CHUNKED + b"2\r\nab\r\n\r\nabc\r\n0\r\n\r\n",
    "twenty-one digits": CHUNKED + b"000000000000000000003\r\nabc\r\n0\r\n\r\n",
    "a size that never ends": CHUNKED + b"2\r\nab\r\n" + b"1" * 40,
    "a size line without a carriage return": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "a chunk that is longer than its size": CHUNKED + b"2\r\nab\r\n3\r\nabcd\r\n0\r\n\r\n",
    "a size right behind the data": CHUNKED + b"3\r\nabc2\r\nde\r\n0\r\n\r\n",
    "a line feed alone behind the data": CHUNKED + b"3\r\nabc\n2\r\nde\r\n0\r\n\r\n",
    "a carriage return alone behind the data": CHUNKED + b"3\r\nabc\r2\r\nde\r\n0\r\n\r\n",
    "a trailer that is none": CHUNKED + b"2\r\nab\r\n0\r\nno colon\r\n\r\n",
    "another coding": OK + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "the coding twice": OK + b"transfer-encoding: chunked\r\n" * 2 + b"\r\n2\r\nab\r\n0\r\n\r\n",
    "a blank line in front": b"\r\n" + CHUNKED + b"2\r\nab\r\n0\r\n\r\n",
    "another protocol from here on": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n2\r\nab\r\n0\r\n\r\n",
}
CASES = {**WHOLE, **BROKEN}


@dataclass
class Seen:
    """One exchange as its user sees it."""

    status: int | None = None
    headers: Mapping[str, str] | None = None
    body: bytes = b""
    error: str | None = None
    can_be_used_again: bool = False


class Wire(httpcore.NetworkStream):
    """A connection whose reads give these pieces, then its end; also as a socket."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = iter(pieces)

    def read(self, max_bytes: int = 0, timeout: float | None = None) -> bytes:
        return next(self._pieces, b"")

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        pass

    def close(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:
        return False

    # as a socket

    recv = read

    def send(self, buffer: bytes) -> int:
        return len(buffer)

    def settimeout(self, timeout: float | None) -> None:
        pass


ERRORS = (httpcore.ProtocolError, httpcore.NetworkError, faults.ProtocolError, faults.NetworkError)
URL = "http://127.0.0.1:1/"


def judged(pieces: Sequence[bytes]) -> list[Seen]:
    """Two exchanges over one connection, h11 alone; the second only if the connection can be used again."""
    connection = httpcore.HTTP11Connection(httpcore.URL(URL).origin, Wire(pieces))
    exchanges: list[Seen] = []
    while len(exchanges) < 2:
        seen = Seen()
        exchanges.append(seen)
        try:
            with connection.stream("POST", URL, headers={"host": "a"}) as response:
                seen.status, seen.headers = response.status, dict(httpx.Headers(response.headers).items())
                for part in response.iter_stream():
                    seen.body += part
        except ERRORS as error:
            seen.error = type(error).__name__
        # Bytes behind the response answer nobody. h11 alone would take them for the answer to the next request; behind
        # one that has no body they may still come.
        is_left = seen.status in (204, 304) or connection._h11_state.trailing_data[0]
        seen.can_be_used_again = connection.is_idle() and not is_left
        if not seen.can_be_used_again:
            break
    return exchanges


ENDPOINT = Endpoint("127.0.0.1", 1, False, b"/", ((b"host", b"a"),))


def ours(monkeypatch: pytest.MonkeyPatch, *connections: Sequence[bytes]) -> list[Seen]:
    """The same through `DirectTransport`, which may open so many connections."""
    wires = iter([Wire(pieces) for pieces in connections])
    monkeypatch.setattr(Connection, "_connect", lambda self, *args: setattr(self, "_socket", next(wires, Wire([]))))
    monkeypatch.setattr(sync_network, "_is_readable", lambda sock: False)
    transport = DirectTransport(ENDPOINT, None, Timeouts())
    exchanges: list[Seen] = []
    while len(exchanges) < 2:
        seen = Seen()
        exchanges.append(seen)
        try:
            response = transport.send(b"{}", Patience(Bounds(None, None)))
            seen.status, seen.headers = response.status_code, response.headers
            try:
                for part in response.iter_raw():
                    seen.body += part
            finally:
                response.close()
        except ERRORS as error:
            seen.error = type(error).__name__
        seen.can_be_used_again = bool(transport._idle)
        if not seen.can_be_used_again:
            break
    return exchanges


async def aours(monkeypatch: pytest.MonkeyPatch, *connections: Sequence[bytes]) -> list[Seen]:
    """The same through `AsyncDirectTransport`."""
    wires = iter([Wire(pieces) for pieces in connections])
    connected_to: dict[Flow, Wire] = {}

    async def connected(connection: AsyncConnection, *args: Any, **options: Any) -> None:
        connected_to[connection._flow] = next(wires, Wire([]))

    async def read(flow: Flow, timeout: float | None) -> bytes:
        return connected_to[flow].read()

    def write(flow: Flow, data: bytes) -> None:
        connected_to[flow].send(data)

    monkeypatch.setattr(AsyncConnection, "connect_tcp", connected)
    monkeypatch.setattr(Flow, "read", read)
    monkeypatch.setattr(Flow, "write", write)
    transport = AsyncDirectTransport(ENDPOINT, None, Timeouts())
    exchanges: list[Seen] = []
    while len(exchanges) < 2:
        seen = Seen()
        exchanges.append(seen)
        try:
            response = await transport.send(b"{}", Patience(Bounds(None, None)))
            seen.status, seen.headers = response.status_code, response.headers
            try:
                async for part in response.aiter_raw():
                    seen.body += part
            finally:
                await response.aclose()
        except ERRORS as error:
            seen.error = type(error).__name__
        seen.can_be_used_again = bool(transport._idle)
        if not seen.can_be_used_again:
            break
    return exchanges


def arun(monkeypatch: pytest.MonkeyPatch, *connections: Sequence[bytes]) -> list[Seen]:
    return asyncio.run(aours(monkeypatch, *connections))


OURS = [ours, arun]


def cuts(data: bytes, *places: int) -> list[bytes]:
    return [data[a:b] for a, b in zip((0, *places), (*places, len(data)), strict=True) if a < b]


def bytewise(data: bytes) -> list[bytes]:
    return cuts(data, *range(1, len(data)))


def random_cuts(data: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return cuts(data, *sorted(chance.sample(range(1, len(data)), min(len(data) - 1, chance.randrange(2, 12)))))


def agree(read: Callable[..., list[Seen]], monkeypatch: pytest.MonkeyPatch, pieces: Sequence[bytes]) -> None:
    assert read(monkeypatch, pieces) == judged(pieces), pieces


@pytest.mark.parametrize("name", CASES)
def test_it_is_read_as_h11_reads_it_wherever_it_is_cut(name, monkeypatch):
    data = CASES[name] + NEXT
    for place in range(1, len(data)):
        agree(ours, monkeypatch, cuts(data, place))


@pytest.mark.parametrize("read", OURS)
@pytest.mark.parametrize("name", CASES)
def test_it_is_read_as_h11_reads_it_in_many_pieces(name, read, monkeypatch):
    first = CASES[name]
    for data in (first + NEXT, first):
        agree(read, monkeypatch, [data])
        agree(read, monkeypatch, bytewise(data))
        for seed in range(10):
            agree(read, monkeypatch, random_cuts(data, seed))
    agree(read, monkeypatch, [first, NEXT])
    agree(read, monkeypatch, [*bytewise(first), NEXT])


@pytest.mark.parametrize("name", CASES)
def test_an_end_too_early_is_seen_as_h11_sees_it(name, monkeypatch):
    data = CASES[name]
    for place in range(1, len(data)):
        agree(ours, monkeypatch, [data[:place]])
        if place % 7 == 0:
            agree(arun, monkeypatch, [data[:place]])


def test_chunks_larger_than_a_read_and_many_small_ones_are_whole(monkeypatch):
    sizes = [1, 70_000, *range(1, 300), 200_000, 16]
    datas = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    wire = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(data), data) for data in datas) + b"0\r\n\r\n"
    for read in OURS:
        pieces = cuts(wire, *range(4000, len(wire), 65_536))
        (seen, *_) = read(monkeypatch, pieces)
        assert seen.body == b"".join(datas)
        assert seen.can_be_used_again


def test_the_small_chunks_of_one_read_come_as_one():
    chunks = Chunks()
    assert chunks.receive(b"3\r\nabc\r\n2\r\nde\r\n4\r\nf") == b"abcdef"
    assert chunks.receive(b"ghi\r\n1\r\nj\r\n0\r\n\r\n") == b"ghij"
    assert (chunks.is_over, chunks.rest) == (True, b"0\r\n\r\n")


def test_a_read_that_ends_in_a_size_line_waits_for_the_rest():
    chunks = Chunks()
    assert [chunks.receive(piece) for piece in (b"1", b"0\r", b"\n", b"0123456789abcdef", b"\r", b"\n")] == [
        b"",
        b"",
        b"",
        b"0123456789abcdef",
        b"",
        b"",
    ]
    assert not chunks.is_over


@pytest.mark.parametrize("line", [b"0" * 19 + b"3", b"3;name=a-long-value", b"3" + b" " * 18, b"x" * 18])
def test_a_longer_size_line_is_left_to_h11_at_once(line):
    chunks = Chunks()
    assert chunks.receive(b"1\r\na\r\n" + line) == b"a"
    assert (chunks.is_over, chunks.rest) == (True, line)


@pytest.mark.parametrize("read", OURS)
def test_a_server_that_takes_only_part_of_a_request_and_answers_is_heard(read, monkeypatch):
    def refuse(self: Wire, buffer: bytes) -> int:
        raise faults.WriteError("gone")

    monkeypatch.setattr(Wire, "send", refuse)
    (seen,) = read(monkeypatch, [b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno"])
    assert (seen.status, seen.body, seen.can_be_used_again) == (413, b"no", False)


def test_a_header_that_http_cannot_carry_is_refused():
    with pytest.raises(faults.LocalProtocolError):
        Http11().request(Endpoint("127.0.0.1", 1, False, b"/", ((b"host", b"a"), (b"x", b" 1"))), b"{}")


def test_what_is_secret_in_a_request_shows_in_no_repr():
    shown = repr(Endpoint("127.0.0.1", 1, False, b"/?key=secret", ((b"authorization", b"secret"),)))
    assert "127.0.0.1" in shown
    assert "secret" not in shown
