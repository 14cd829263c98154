"""A server on loopback that sends the beginning of a response, byte by byte counted, and leaves: with FIN or RST.

Plain sockets and one thread: between the test that says where to cut and the wire there is nothing that could
buffer, frame or mend.
"""

from __future__ import annotations

import socket
import struct
import threading
import zlib
from dataclasses import dataclass
from typing import Literal, Self

from tests.server import PATIENCE_S
from tests.sweeps.answers import Answer

Framing = Literal["chunked", "length", "close"]
Leave = Literal["FIN", "RST"]
FRAMINGS: tuple[Framing, ...] = ("chunked", "length", "close")
LEAVES: tuple[Leave, ...] = ("FIN", "RST")


@dataclass(frozen=True)
class Wire:
    """A response as it is sent, and how much of the answer each beginning of it holds."""

    data: bytes
    body_sizes: list[int]
    """At each offset, how many bytes of the body came before it."""


def framed(answer: Answer, framing: Framing, content_type: str = "text/event-stream") -> Wire:
    """The answer as a response, each write a chunk of its own where there are chunks."""
    body = [write.data for write in answer.writes]
    header = {
        "chunked": "transfer-encoding: chunked",
        "length": f"content-length: {len(answer.body)}",
        "close": "connection: close",
    }[framing]
    pieces = [(f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{header}\r\n\r\n".encode(), False)]
    for data in body:
        if framing == "chunked":
            pieces += [(f"{len(data):x}\r\n".encode(), False), (data, True), (b"\r\n", False)]
        else:
            pieces.append((data, True))
    if framing == "chunked":
        pieces.append((b"0\r\n\r\n", False))
    sizes, size = [0], 0
    for data, is_body in pieces:
        for _ in data:
            size += is_body
            sizes.append(size)
    return Wire(b"".join(data for data, _ in pieces), sizes)


def gzipped(answer: Answer) -> tuple[bytes, list[int]]:
    """The body compressed as servers compress streams, flushed after each write, and what each beginning holds of it.

    How much a beginning holds is asked of zlib, one byte after the other.
    """
    press = zlib.compressobj(wbits=31)
    data = b"".join(press.compress(write.data) + press.flush(zlib.Z_SYNC_FLUSH) for write in answer.writes)
    data += press.flush()
    reader = zlib.decompressobj(wbits=31)
    sizes = [0]
    for at in range(len(data)):
        sizes.append(sizes[-1] + len(reader.decompress(data[at : at + 1])))
    assert sizes[-1] == len(answer.body)
    return data, sizes


class CutServer:
    """Answers every request with `response`, then leaves as `leave` says; both are set by the test before each run."""

    def __init__(self) -> None:
        self.response = b""
        self.leave: Leave = "FIN"
        self.requests = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:  # the listener was shut down
                return
            with caller:
                self._answer(caller)

    def _answer(self, caller: socket.socket) -> None:
        caller.settimeout(PATIENCE_S)
        request = b""
        while not request.endswith(b"\r\n\r\n") and b"\r\n\r\n" not in request:
            request += caller.recv(65536)
        head, _, body = request.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        wanted = int(lengths[0].partition(b":")[2])
        while len(body) < wanted:
            body += caller.recv(65536)
        self.requests += 1
        caller.sendall(self.response)
        if self.leave == "RST":
            # Closed with this set, a socket sends RST in place of FIN; what the peer's kernel has, it may still read.
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
