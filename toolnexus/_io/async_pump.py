"""An exchange over a caller's `httpx.AsyncClient`, or a proxy, that a cancel cannot break.

httpcore's pool loses a slot for ever when a request is cancelled at some of its awaits. So one task of ours talks to
httpx from the request to the closing of the response, and the reader's task never does: it takes what has come, all
at once, and leaves when it likes. The task is cancelled only where that does no harm; elsewhere it is told to stop,
and ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable
from typing import Any

import httpx

from .bounds import Patience

_MAX_WAITING = 16 * 1024
"""Bytes that may wait for a slow consumer before the pump stops reading."""

_STEPS_BEFORE_THE_HEAD = (
    "http11.send_request_headers.started",
    "http11.send_request_body.started",
    "http11.receive_response_headers.started",
)
_STEPS_TO_CANCEL = (  # reads, the one place where a cancel does no harm (measured)
    "http11.receive_response_headers.started",
    "http11.receive_response_body.started",
    "http2.receive_response_body.started",
)

_tasks: set[asyncio.Task[None]] = set()  # the loop keeps weak references only


class Pump:
    """One exchange: `await head()`, then `await read()` until it gives `b""`; `close()` in any case."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request, patience: Patience) -> None:
        loop = asyncio.get_running_loop()
        self._client = client
        self._request = request
        self._patience = patience
        self._response: httpx.Response | None = None
        self._waiting = bytearray()  # what has come of the body and was not read yet
        self._error: Exception | None = None  # what comes behind that, instead of the end
        self._is_over = False
        self._is_stopped = False
        self._may_be_cancelled = False
        self._news: asyncio.Future[bool] = loop.create_future()  # what the reader waits for; false: in vain
        self._room: asyncio.Future[bool] = loop.create_future()  # what the task waits for while too much waits
        request.extensions["trace"] = self._trace

        def cancelled() -> None:  # in whichever thread cancels
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._wake)

        self._unlink = patience.bounds.cancel.add_callback(cancelled)
        self._task = loop.create_task(self._run())
        _tasks.add(self._task)
        self._task.add_done_callback(_tasks.discard)

    async def head(self) -> httpx.Response:
        """The reply's head; its body must be read through `read`."""
        while self._response is None:
            if self._error is not None:
                raise self._error
            await self._wait(None)
        return self._response

    async def read(self, idle: float | None) -> bytes:
        """All that has come since the last time, at least a byte, or `b""` at the end of the body.

        Args:
            idle: The longest silence, in seconds.
        """
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._is_over:
                return b""
            await self._wait(idle)
        data = bytes(self._waiting)
        self._waiting.clear()
        _settle(self._room, True)
        return data

    def close(self) -> None:
        """Stop; the task closes the response and ends by itself."""
        self._unlink()
        self._is_stopped = True
        _settle(self._room, True)  # a task that waits for its reader, who is gone
        if self._may_be_cancelled:
            self._may_be_cancelled = False  # once: what the task does then, closing, must not be cancelled
            self._task.cancel()

    def _wake(self) -> None:
        _settle(self._news, True)

    async def _wait(self, idle: float | None) -> None:
        """Wait until something has changed, within the run's bounds."""
        self._patience.bounds.check()
        loop = asyncio.get_running_loop()
        self._news = loop.create_future()
        timeout = self._patience.timeout(idle)
        timer = None if timeout is None else loop.call_later(timeout, _settle, self._news, False)
        try:
            came = await self._news
        finally:
            if timer is not None:
                timer.cancel()
        if not came:
            raise httpx.ReadTimeout("")

    async def _run(self) -> None:
        try:
            response = await self._client.send(self._request, stream=True, follow_redirects=False)
            try:
                self._response = response
                self._wake()
                await self._copy(response)
            finally:
                # Before the reader is told of the end: its next request finds the connection free.
                self._may_be_cancelled = False
                await response.aclose()
        except asyncio.CancelledError:
            self._error = httpx.ReadError("the caller's client was cancelled")
        except Exception as error:  # a caller's client may raise what it likes
            self._error = error
        finally:
            self._is_over = True
            self._wake()

    async def _trace(self, step: str, info: dict[str, Any]) -> None:  # Any: as httpcore declares it
        """How far httpcore is. Once nobody waits any more it is stopped where that does no harm.

        Source: httpcore, "Extensions", `trace`.
        """
        if step in _STEPS_BEFORE_THE_HEAD and self._is_stopped:
            raise httpx.ReadError("given up")
        self._may_be_cancelled = step in _STEPS_TO_CANCEL

    async def _copy(self, response: httpx.Response) -> None:
        """Take over all that comes, without a task or a turn of the loop for each piece."""
        # Not aiter_raw(): at the end of the body that closes the response, where a cancel loses the pool's slot.
        # A mock's response may have been read before.
        stream = response.aiter_bytes() if response.is_stream_consumed else response.stream
        assert isinstance(stream, AsyncIterable)  # an AsyncClient's response has no other
        self._may_be_cancelled = True  # a caller's transport may tell of no steps
        loop = asyncio.get_running_loop()
        if self._is_stopped:
            return
        async for piece in stream:
            self._waiting += piece
            if not self._news.done():
                self._news.set_result(True)
            while len(self._waiting) >= _MAX_WAITING and not self._is_stopped:
                self._room = loop.create_future()
                await self._room
            if self._is_stopped:  # a caller's client may swallow a cancel
                return


def _settle(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)
