"""The mock server, in a process of its own so that its cost is not counted: `with serving() as server`.

It reads no JSON: which response is wanted it sees from the path and from how many tool results the request holds.
Run as a program it writes its two ports, plain and TLS, and serves until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .scenarios import DRIP_S, PACE_S, STAMP, Scenario, Style, response

CERTIFICATE = Path(__file__).parents[1] / "tests" / "io" / "loopback.pem"
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_RESULT = {"openai": b'"tool_call_id"', "anthropic": b'"tool_use_id"'}
_BEFORE = re.compile(rb'"previous_message_id":"msg_(\d+)"')  # the anthropic SDK's runner sends what is new, and this


@dataclass(frozen=True)
class Address:
    """Where the server listens."""

    plain: int
    tls: int

    def root(self, scenario: Scenario, *, tls: bool = False) -> str:
        """The root URL of one scenario, without a slash at its end."""
        host = f"https://127.0.0.1:{self.tls}" if tls else f"http://127.0.0.1:{self.plain}"
        return f"{host}/{scenario.name}"


@contextlib.contextmanager
def serving() -> Iterator[Address]:
    """Run the server as long as the block lasts."""
    command = [sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            plain, tls = process.stdout.readline().split()
            yield Address(int(plain), int(tls))
        finally:
            process.stdin.close()


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport
        self._writing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._writing is not None:
            self._writing.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, blank, body = self._buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not blank or len(body) < size:
            return
        self._buffer = body[size:]
        path = head.split(b" ", 2)[1].decode()
        scenario = Scenario.parse(path.split("/")[1])
        style: Style = "anthropic" if path.partition("?")[0].endswith("/messages") else "openai"
        before = _BEFORE.search(body)
        pieces = response(scenario, style, body.count(_RESULT[style]) + (int(before[1]) if before else 0))
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._writing = asyncio.ensure_future(self._write(pieces, PACE_S if scenario.kind == "paced" else DRIP_S))

    async def _write(self, pieces: list[bytes], pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for piece in pieces:
            self._transport.write(piece.replace(STAMP.encode(), b"%017.6f" % time.monotonic()))
            due += pause_s
            await asyncio.sleep(due - loop.time())


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    plain = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=2048)
    tls = await loop.create_server(_Connection, "127.0.0.1", 0, ssl=context)
    print(*(server.sockets[0].getsockname()[1] for server in (plain, tls)), flush=True)
    await loop.run_in_executor(None, os.read, 0, 1)


if __name__ == "__main__":
    asyncio.run(_serve())
