"""How a server is reached: the official SDK's transports, with bounds, an environment and an ear of our own."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from ...limits import Limits
from .config import ServerConfig
from .variables import Redaction

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

_log = logging.getLogger("toolnexus.mcp")

_STDERR_KEPT = 2000
_CONNECT_S = 30.0


class Ears:
    """What is heard of a server beside the protocol: its last words on stderr, HTTP statuses, the end."""

    def __init__(self, name: str, redact: Redaction, ended: Callable[[], None]) -> None:
        self._name = name
        self._redact = redact
        self._stderr = b""
        self.status: int | None = None
        """The HTTP status of the last reply, if it was an error."""
        self.ended = ended
        """Called when nothing more can come from the server."""

    def wrote(self, data: bytes) -> None:
        """The server wrote this to stderr."""
        self._stderr = (self._stderr + data)[-_STDERR_KEPT:]
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s: %s", self._name, self._redact(data.decode(errors="replace")).rstrip())

    @property
    def last_words(self) -> str:
        """The last line of stderr that says something."""
        lines = [line.strip() for line in self._stderr.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""


def transport(config: ServerConfig, env: Mapping[str, str], headers: Mapping[str, str], ears: Ears) -> Transport:
    """The way to a server, to be entered and left by one task.

    Args:
        config: The server's.
        env: Variables that the child gets beside a few harmless ones of ours, such as `PATH` and `HOME`.
        headers: Sent with every request.
        ears: Told what happens.
    """
    streams = _stdio(config, env, ears) if config.transport == "stdio" else _http(config, headers, ears)
    return cast("Transport", streams)  # a context manager made of a generator does not inherit from the protocol


@contextlib.asynccontextmanager
async def _stdio(config: ServerConfig, env: Mapping[str, str], ears: Ears) -> AsyncGenerator[TransportStreams, None]:
    from mcp import StdioServerParameters, stdio_client

    program, *args = config.command
    params = StdioServerParameters(command=program, args=args, env=dict(env), cwd=config.cwd)
    async with _listening(ears) as errors:
        with os.fdopen(errors, "w") as errlog:
            child = stdio_client(params, errlog)
            read, write = await child.__aenter__()
        # From here on only the child can write to its stderr, and the pipe ends with it.
        try:
            yield _Watched(read, ears.ended), write
        except BaseException as error:
            if not await child.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            await child.__aexit__(None, None, None)


@contextlib.asynccontextmanager
async def _listening(ears: Ears) -> AsyncGenerator[int, None]:
    """A file descriptor for the child's stderr; what it writes there must not fill the caller's own."""
    if os.name == "nt":  # pragma: no cover - there the event loop cannot read such a pipe
        yield os.open(os.devnull, os.O_WRONLY)
        return

    class Reader(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            ears.wrote(data)

    reading, writing = os.pipe()
    source, _ = await asyncio.get_running_loop().connect_read_pipe(Reader, os.fdopen(reading, "rb"))
    try:
        yield writing
    finally:
        source.close()


@contextlib.asynccontextmanager
async def _http(config: ServerConfig, headers: Mapping[str, str], ears: Ears) -> AsyncGenerator[TransportStreams, None]:
    import httpx2  # the HTTP client of the SDK
    from mcp.client.streamable_http import streamable_http_client

    async def seen(response: httpx2.Response) -> None:
        if response.request.method == "POST":  # a server need not offer the stream that a GET asks for
            ears.status = response.status_code if response.status_code >= 400 else None

    assert config.url is not None
    # No read timeout: a stream may be silent for as long as its call may take, and the call has a timeout.
    timeout = httpx2.Timeout(_CONNECT_S, read=None)
    bounds: dict[str, Any] = {}  # Any: options of the SDK
    if "max_sse_event_size" in inspect.signature(streamable_http_client).parameters:  # not before version 2.3
        bounds["max_sse_event_size"] = Limits().event_bytes
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout, event_hooks={"response": [seen]}) as client,
        streamable_http_client(config.url, http_client=client, **bounds) as (read, write),
    ):
        yield _Watched(read, ears.ended), write


class _Watched:
    """A stream of messages that tells when it has ended; the SDK itself tells only the next one who calls."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> Any:  # Any: as the SDK has it, a context or nothing
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._stream.__anext__()
        except Exception:  # StopAsyncIteration, or closed under the reader
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)
