"""A scripted HTTP/1.1 server on loopback, for tests that want a real socket.

It answers the n-th request with the n-th response of its script, and runs in a thread of its own. A response is a
list of writes; a `Gate` among them holds the rest back until the test opens it, so that no test has to sleep.

    with Server(reply(text("Hel", "lo!"), usage(3, 2, 5), done())) as server:
        ...  # a client talks to server.url
        assert server.requests[0].json["model"] == "test-model"
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, Self

PATIENCE_S = 10.0
"""How long a test waits for what must happen; a failing test only."""

End = Literal["keepalive", "close", "half_close", "reset", "stall"]
Framing = Literal["chunked", "length", "close", "none"]
Accept = Literal["serve", "reset", "stall", "hang_up"]
"""`"hang_up"` reads something first."""


class Gate:
    """Holds a response back until it is opened, and knows when the server has come to it."""

    def __init__(self) -> None:
        self._reached: Future[None] = Future()
        self._opened: Future[None] = Future()

    def open(self) -> None:
        """Let the response go on; may be called again."""
        if not self._opened.done():
            self._opened.set_result(None)

    def wait_reached(self) -> None:
        """Wait until everything before the gate was sent."""
        self._reached.result(PATIENCE_S)

    async def passed(self) -> None:
        if not self._reached.done():
            self._reached.set_result(None)
        await asyncio.shield(asyncio.wrap_future(self._opened))


@dataclass(eq=False)
class Flood:
    """The same bytes again and again, or the n-th piece of a long text, until the client leaves or `times` are over."""

    data: bytes | Callable[[int], bytes]
    times: int | None = None
    sent: int = 0
    """Bytes that the network took so far."""

    def pieces(self) -> Iterator[bytes]:
        for number in itertools.count() if self.times is None else range(self.times):
            piece = self.data if isinstance(self.data, bytes) else self.data(number)
            yield piece
            self.sent += len(piece)


Write = bytes | Gate | Flood
Writes = Write | Sequence["Writes"]


@dataclass(frozen=True)
class Response:
    """One answer: `writes` one after the other, each a chunk of its own if the framing has chunks."""

    writes: Sequence[Write] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    framing: Framing = "chunked"
    """With `"none"` the writes are all there is: no status line and no headers come before them."""
    end: End = "keepalive"
    """What follows the last write: a well-formed end, or the end of the connection in the middle, or silence."""
    before: Gate | None = None
    """Waited for before the status line."""


@dataclass(eq=False)
class Request:
    """What a client sent."""

    method: str
    target: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    left: threading.Event = field(default_factory=threading.Event)
    """Set when the client closed the connection before the response was over."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def wait_left(self) -> None:
        assert self.left.wait(PATIENCE_S), "the client did not close the connection"


class Server:
    """Serves a script: responses in order, or a function of the request.

    Of the connections, the first ones are treated as `accept` says; those that are not served send no request.
    """

    def __init__(
        self,
        *script: Response | Callable[[Request], Response],
        tls: ssl.SSLContext | None = None,
        accept: Sequence[Accept] = (),
    ) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        """Accepted so far."""
        self.open_connections = 0
        self._script = list(script)
        self._tls = tls
        self._accept = list(accept)
        self._changed = threading.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(started)), name="test-server")
        self._thread.start()
        self.port = started.result(PATIENCE_S)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds; it is looked at whenever a request came or a connection went."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), f"{self.open_connections} connections are still open"

    def wait_for_requests(self, count: int) -> None:
        self.wait_for(lambda: len(self.requests) >= count)

    def wait_all_closed(self) -> None:
        """Wait until every client has closed its connection."""
        self.wait_for(lambda: self.open_connections == 0)

    async def _main(self, started: Future[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        started.set_result(server.sockets[0].getsockname()[1])
        await self._closing.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with self._changed:
            self.connections += 1
            self.open_connections += 1
            accept = self._accept.pop(0) if self._accept else "serve"
        try:
            # The peer may leave at any point; what it left in the middle of is on the request.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                if accept == "reset":
                    _reset(writer)
                elif accept == "stall":
                    await reader.read()
                elif accept == "hang_up":
                    await reader.read(1)
                else:
                    while await self._exchange(reader, writer):
                        pass
        except asyncio.CancelledError:  # the server closes
            pass
        finally:
            writer.transport.abort()
            with self._changed:
                self.open_connections -= 1
                self._changed.notify_all()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its response; returns whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(method, target, headers, body)
        with self._changed:
            number = len(self.requests)
            self.requests.append(request)
            self._changed.notify_all()
        answer = asyncio.ensure_future(self._answer(writer, self._response(number, request)))
        gone = asyncio.ensure_future(reader.read(1))  # a client says nothing before it has the answer
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() or answer.exception() is not None:
                request.left.set()
                return False
            return answer.result()
        finally:
            answer.cancel()
            gone.cancel()
            await asyncio.gather(answer, gone, return_exceptions=True)

    def _response(self, number: int, request: Request) -> Response:
        step = self._script[min(number, len(self._script) - 1)]
        if not isinstance(step, Response):
            return step(request)
        return step if number < len(self._script) else Response([b"the script is over"], status=418)

    async def _answer(self, writer: asyncio.StreamWriter, response: Response) -> bool:
        if response.before is not None:
            await response.before.passed()
        size = sum(len(write) for write in response.writes if isinstance(write, bytes))
        framing = {
            "chunked": {"transfer-encoding": "chunked"},
            "length": {"content-length": str(size)},
            "close": {"connection": "close"},
            "none": {},
        }[response.framing]
        headers = {"content-type": "text/event-stream", **framing, **response.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if response.framing != "none":
            writer.write(f"HTTP/1.1 {response.status} Scripted\r\n{head}\r\n".encode())
        for write in response.writes:
            if isinstance(write, Gate):
                await writer.drain()
                await write.passed()
                continue
            for piece in write.pieces() if isinstance(write, Flood) else (write,):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if response.framing == "chunked" else piece)
                await writer.drain()
                if isinstance(write, Flood):
                    await asyncio.sleep(0)  # others, too, want to be served
        if response.end == "stall":
            await asyncio.Event().wait()
        if response.end == "half_close":
            writer.write_eof()
            await asyncio.Event().wait()
        if response.end == "reset":
            _reset(writer)
            return False
        if response.end == "keepalive" and response.framing == "chunked":
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        if response.end == "close" or response.framing == "close":
            writer.close()
            await writer.wait_closed()
            return False
        return True


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


# -- what a model says, in OpenAI's words


def reply(*writes: Writes, **options: Any) -> Response:
    """A response with these writes, lists of them flattened."""
    return Response(list(_flat(writes)), **options)


def whole(message: Mapping[str, Any], **options: Any) -> Response:
    """A reply that is not a stream."""
    headers = {"content-type": "application/json", **options.pop("headers", {})}
    return Response([json.dumps(message).encode()], framing="length", headers=headers, **options)


def failure(status: int, message: str = "no luck", **headers: str) -> Response:
    """An error reply; `retry_after="0"` is the header `Retry-After: 0`."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return whole({"error": {"message": message}}, status=status, headers=names)


def _flat(writes: Writes) -> Iterator[Write]:
    if isinstance(writes, (bytes, Gate, Flood)):
        yield writes
    else:
        for write in writes:
            yield from _flat(write)


def sse(payload: object) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()


def delta(**members: Any) -> bytes:
    return sse({"choices": [{"index": 0, "delta": members}]})


def text(*pieces: str) -> list[bytes]:
    return [delta(content=piece) for piece in pieces]


def tool_call(id: str, name: str, pieces: Sequence[str] = ("{}",), index: int = 0) -> list[bytes]:
    """A call whose argument text comes in `pieces`."""
    opening = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    rest = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
    return [delta(tool_calls=[entry]) for entry in (opening, *rest)]


def usage(prompt: int, completion: int, total: int) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return sse({"choices": [], "usage": counts})


def finish(reason: str = "stop") -> bytes:
    return sse({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


def done() -> bytes:
    return b"data: [DONE]\n\n"


def says(*pieces: str, **options: Any) -> Response:
    """A whole answer in text."""
    return reply(text(*pieces), finish(), done(), **options)


def calls(*wanted: tuple[str, str, str], **options: Any) -> Response:
    """A whole answer that asks for tools: (id, name, arguments) each."""
    pieces = [tool_call(id, name, [args], index) for index, (id, name, args) in enumerate(wanted)]
    return reply(pieces, finish("tool_calls"), done(), **options)
