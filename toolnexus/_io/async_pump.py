"""An exchange over a caller's `httpx.AsyncClient`, or a proxy, that a cancel cannot break.

httpcore's pool loses a slot for ever when a request is cancelled at some of its awaits. So a task of ours talks to
httpx; nobody cancels it from outside. The reader is told to stop and leaves at once; the task closes its own
response.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import httpx

from .bounds import Patience

_WAITING_READS = 4
"""Reads that may wait for a slow consumer before the pump stops reading."""

_STEPS_BEFORE_THE_HEAD = (
    "http11.send_request_headers.started",
    "http11.send_request_body.started",
    "http11.receive_response_headers.started",
)

_tasks: set[asyncio.Task[None]] = set()  # the loop keeps weak references only


class Pump:
    """One exchange: `await head()`, then `await read()` until it gives `b""`; `close()` in any case."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request, patience: Patience) -> None:
        loop = asyncio.get_running_loop()
        self._client = client
        self._request = request
        self._patience = patience
        self._head: asyncio.Future[httpx.Response] = loop.create_future()
        self._stop: asyncio.Future[Any] = loop.create_future()
        self._reads: deque[bytes | Exception] = deque()
        self._changed: asyncio.Future[None] = loop.create_future()
        self._reads_head = False
        self._response: httpx.Response | None = None
        request.extensions["trace"] = self._trace

        def cancelled() -> None:  # in whichever thread cancels
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._wake)

        self._unlink = patience.bounds.cancel.add_callback(cancelled)
        task = loop.create_task(self._run())
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async def head(self) -> httpx.Response:
        """The reply's head; its body must be read through `read`."""
        while not self._head.done():
            await self._wait(None)
        return self._head.result()

    async def read(self, idle: float | None) -> bytes:
        """The next bytes; `idle` is the longest silence, in seconds."""
        while not self._reads:
            await self._wait(idle)
        item = self._reads.popleft()
        self._wake()
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        """Stop; the task closes the response and ends by itself."""
        self._unlink()
        if not self._stop.done():
            self._stop.set_result(None)
        if self._head.done() and not self._head.cancelled():
            self._head.exception()
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, self._changed.get_loop().create_future()
        changed.set_result(None)

    async def _wait(self, idle: float | None) -> None:
        """Wait until something has changed, within the run's bounds."""
        self._patience.bounds.check()
        timeout = self._patience.timeout(idle)
        done, _ = await asyncio.wait({self._changed}, timeout=timeout)
        if not done:
            self._patience.bounds.check()
            raise httpx.ReadTimeout("")

    async def _run(self) -> None:
        sending = asyncio.ensure_future(self._send())
        await asyncio.wait({sending, self._stop}, return_when=asyncio.FIRST_COMPLETED)
        if self._reads_head:
            sending.cancel()  # a read is the one place where a cancel does no harm (measured)
        await asyncio.wait({sending})
        # Not the task's result: a cancel that comes with the last bytes of the head may leave the task cancelled
        # although the response is there, and whoever has it must close it.
        response = self._response
        if response is None:
            error = None if sending.cancelled() else sending.exception()
            if not self._stop.done():  # a caller's client may raise what it likes
                self._head.set_exception(error or httpx.ReadError("the caller's client was cancelled"))
                self._wake()
            return
        try:
            if not self._stop.done():
                self._head.set_result(response)
                self._wake()
                await self._copy(response)
        finally:
            await response.aclose()

    async def _send(self) -> None:
        self._response = await self._client.send(self._request, stream=True, follow_redirects=False)

    async def _trace(self, step: str, info: dict[str, Any]) -> None:  # Any: as httpcore declares it
        """How far httpcore is. Once nobody waits any more it is stopped where that does no harm.

        Source: httpcore, "Extensions", `trace`.
        """
        if step in _STEPS_BEFORE_THE_HEAD and self._stop.done():
            raise httpx.ReadError("given up")
        self._reads_head = step == "http11.receive_response_headers.started"

    async def _copy(self, response: httpx.Response) -> None:
        # Not aiter_raw(): at the end of the body that closes the response, where a cancel loses the pool's slot.
        # A mock's response may have been read before.
        stream = response.aiter_bytes() if response.is_stream_consumed else response.stream
        assert isinstance(stream, AsyncIterable)  # an AsyncClient's response has no other
        body = aiter(stream)
        while not self._stop.done():
            read = asyncio.ensure_future(_next(body))
            try:
                await asyncio.wait({read, self._stop}, return_when=asyncio.FIRST_COMPLETED)
                if not read.done():
                    return
                item: bytes | Exception = read.result()
            except Exception as error:
                item = error
            finally:
                if not read.done():
                    read.cancel()  # a read: see above
                    await asyncio.wait({read})
            self._reads.append(item)
            self._wake()
            if not item or isinstance(item, Exception):
                return
            while len(self._reads) >= _WAITING_READS and not self._stop.done():
                await asyncio.wait({self._changed, self._stop}, return_when=asyncio.FIRST_COMPLETED)


async def _next(body: AsyncIterator[bytes]) -> bytes:
    return await anext(body, b"")
