"""One request and its reply, over connections of our own or over httpx, for the async world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

import httpx

from ..config import ClientConfig
from ..errors import RunCancelledError, ToolnexusError
from .async_network import AsyncDirectResponse, AsyncDirectTransport
from .async_pump import Pump
from .body import RequestBody
from .bounds import Bounds, Patience
from .decoding import Decoder, decoder_for
from .proxied import async_proxied
from .request import (
    endpoint,
    environment_proxy,
    httpx_request,
    request_headers,
    shared_ssl_context,
)
from .translation import foreign, translate


class AsyncTransport:
    """Opens responses: over connections of ours, through the environment's proxy, or with a caller's `http_client`."""

    def __init__(self, config: ClientConfig, http_client: httpx.AsyncClient | None) -> None:
        self._config = config
        self._given = http_client
        self._headers = request_headers(config, with_key=http_client is not None)
        self._own: AsyncDirectTransport | httpx.AsyncClient | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard: AsyncGenerator[None, None] | None = None

    async def open(self, body: RequestBody, bounds: Bounds) -> AsyncResponse:
        """Send a request and wait for the head of the reply.

        Raises:
            ToolnexusError: No reply came; trying again is the caller's affair.
        """
        bounds.check()
        # A reply that is not streamed comes whole: nothing of it could show progress before.
        patience = Patience(bounds, self._config.progress_timeout if body.is_streamed else None)
        client = self._given or await self._get_own()
        if isinstance(client, AsyncDirectTransport):
            patience.wait_begins(0)
            return self._opened(await _send(client, body.data, patience), patience, None)
        # Only our own network survives a cancel anywhere; httpx is kept at arm's length.
        # The request is made before the model's time begins to count: the pump reads while the consumer is busy, and
        # httpx would end such a read after the time that the model has for its next word.
        request = self._request(client, body.data, patience)
        patience.wait_begins(0)
        pump = Pump(client, request, patience)
        try:
            return self._opened(await _head(pump), patience, pump)
        except BaseException:
            pump.close()
            raise

    def _opened(
        self, reply: AsyncDirectResponse | httpx.Response | Exception, patience: Patience, pump: Pump | None
    ) -> AsyncResponse:
        if isinstance(reply, Exception):
            raise self.error(reply, patience)
        patience.wait_ended()
        return AsyncResponse(self, reply, patience, pump)

    def error(self, error: Exception, patience: Patience) -> ToolnexusError:
        """Our error for one of the HTTP stack: our own reason first, if that is what broke the connection."""
        if self._closed:
            return RunCancelledError("the client was closed")
        return patience.bounds.exceeded() or patience.stalled() or translate(error, self._config.url)

    def _request(self, client: httpx.AsyncClient, body: bytes, patience: Patience) -> httpx.Request:
        return httpx_request(self._config, client, self._headers, body, patience, is_given=self._given is not None)

    async def _get_own(self) -> AsyncDirectTransport | httpx.AsyncClient:
        """Our connections for the running event loop; a client may be used in several, one after the other."""
        if self._closed:
            raise RunCancelledError("the client was closed")
        loop = asyncio.get_running_loop()
        if self._own is None or self._loop is not loop:
            self._own, self._loop = self._build(), loop
            # A loop ends its async generators when it shuts down, as asyncio.run does, and with this one our client.
            self._guard = _close_at_shutdown(self._own)
            await anext(self._guard)
        return self._own

    def _build(self) -> AsyncDirectTransport | httpx.AsyncClient:
        proxy = environment_proxy(self._config.url)
        if proxy is None:
            where = endpoint(self._config)
            context = shared_ssl_context() if where.is_tls else None
            return AsyncDirectTransport(where, context, self._config.timeouts)
        return async_proxied(self._config, proxy)

    async def aclose(self) -> None:
        """Close our connections, also those in use; a caller's `http_client` stays as it is."""
        self._closed = True
        guard, self._guard, self._own = self._guard, None, None
        if guard is not None and self._loop is asyncio.get_running_loop():
            await guard.aclose()


async def _send(client: AsyncDirectTransport, body: bytes, patience: Patience) -> AsyncDirectResponse | Exception:
    """The reply, or what the HTTP stack raised: raised here, it would carry along frames that hold the key."""
    try:
        return await client.send(body, patience)
    except foreign() as error:
        return error


async def _head(pump: Pump) -> httpx.Response | Exception:
    try:
        return await pump.head()
    except foreign() as error:
        return error


async def _close_at_shutdown(client: AsyncDirectTransport | httpx.AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()


class AsyncResponse:
    """A reply whose body is read piece by piece."""

    def __init__(
        self,
        transport: AsyncTransport,
        response: AsyncDirectResponse | httpx.Response,
        patience: Patience,
        pump: Pump | None,
    ) -> None:
        self._transport = transport
        self._response = response
        self._patience = patience
        self._pump = pump
        self._idle: float | None = None
        if isinstance(response, httpx.Response) and pump is not None:
            self._idle = response.request.extensions["timeout"]["read"]
        else:
            self._body = response.aiter_raw()
        self._decoder = decoder_for(response)
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())  # httpx, too, gives names in lower case

    async def read(self, patience: float | None, progress: int = 0) -> bytes:
        """The next bytes of the body; `b""` at its end.

        Args:
            patience: Seconds to wait in all, from the first time it is given; `None` for the idle timeout.
            progress: How far the model has come; a number that changes with each word of it.
        """
        if patience is not None:
            self._patience.shorten(patience)
        self._patience.wait_begins(progress)
        data = await (self._next() if self._decoder is None else self._next_decoded(self._decoder))
        if isinstance(data, Exception):
            raise self._transport.error(data, self._patience)
        self._patience.wait_ended()
        self._patience.bounds.check()  # bytes may come for ever, and an interrupted connection reads as an end
        return data

    async def _next_decoded(self, decoder: Decoder) -> bytes | Exception:
        while not (piece := decoder.take()):
            data = await self._next()
            if not data or isinstance(data, Exception):
                return data
            self._patience.check()  # what decodes to nothing may come for ever, too
            decoder.feed(data)
        return piece

    async def _next(self) -> bytes | Exception:
        try:
            return await self._pump.read(self._idle) if self._pump is not None else await anext(self._body, b"")
        except foreign() as error:
            return error

    async def aclose(self) -> None:
        """Let go of the reply; its connection is used again if the whole body was read."""
        if self._pump is not None:
            self._pump.close()
        else:
            await self._response.aclose()
