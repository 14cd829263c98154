"""One request and its reply over httpx, for the async world."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx

from ..config import ClientConfig
from ..errors import RunCancelledError, ToolnexusError
from .async_network import AsyncDirectTransport
from .async_pump import Pump
from .bounds import Bounds, Patience
from .decoding import Decoder, decoder_for
from .request import (
    encode,
    environment_proxies,
    hidden_query,
    key_headers,
    request_headers,
    shared_ssl_context,
    url_with_query,
)
from .translation import FOREIGN, translate


class AsyncTransport:
    """Opens responses: with a client of ours, or with the caller's `http_client`."""

    def __init__(self, config: ClientConfig, http_client: httpx.AsyncClient | None) -> None:
        self._config = config
        self._given = http_client
        self._url = httpx.URL(config.url)
        self._headers = request_headers(config, with_key=http_client is not None)
        self._own: httpx.AsyncClient | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard: AsyncGenerator[None, None] | None = None
        # Only our own network survives a cancel anywhere; the rest of httpx is kept at arm's length.
        self._pumps = http_client is not None or any(proxy for _, proxy in environment_proxies())

    async def open(self, body: dict[str, Any], bounds: Bounds) -> AsyncResponse:
        """Send a request and wait for the head of the reply.

        Raises:
            ToolnexusError: No reply came; trying again is the caller's affair.
        """
        bounds.check()
        # A reply that is not streamed comes whole: nothing of it could show progress before.
        patience = Patience(bounds, self._config.progress_timeout if body.get("stream") else None)
        patience.wait_begins(0)
        client = self._given or await self._client()
        pump = Pump(client, self._request(client, body, patience), patience) if self._pumps else None
        try:
            reply = await (self._send(client, body, patience) if pump is None else _head(pump))
            if isinstance(reply, Exception):
                raise self.error(reply, patience)
        except BaseException:
            if pump is not None:
                pump.close()
            raise
        patience.wait_ended()
        return AsyncResponse(self, reply, patience, pump)

    def error(self, error: Exception, patience: Patience) -> ToolnexusError:
        """Our error for one of the HTTP stack: our own reason first, if that is what broke the connection."""
        if self._closed:
            return RunCancelledError("the client was closed")
        return patience.bounds.exceeded() or patience.stalled() or translate(error, self._config.url)

    async def _send(
        self, client: httpx.AsyncClient, body: dict[str, Any], patience: Patience
    ) -> httpx.Response | Exception:
        """The reply, or what the HTTP stack raised: raised here, it would carry along frames that hold the key."""
        try:
            return await client.send(self._request(client, body, patience), stream=True, follow_redirects=False)
        except FOREIGN as error:
            return error

    def _request(self, client: httpx.AsyncClient, body: dict[str, Any], patience: Patience) -> httpx.Request:
        config = self._config
        extensions: dict[str, Any] = {"patience": patience}
        url = self._url
        if self._given is not None:
            hidden = hidden_query(config, client)
            url, extensions = (url, {**extensions, **hidden}) if hidden else (url_with_query(config), extensions)
        timeouts = client.timeout if self._given is not None and not config.timeout_given else config.timeouts
        extensions["timeout"] = {
            "connect": patience.timeout(timeouts.connect),
            "read": patience.timeout(timeouts.read),
            "write": patience.timeout(timeouts.write),
            "pool": patience.timeout(timeouts.pool),
        }
        return client.build_request("POST", url, content=encode(body), headers=self._headers, extensions=extensions)

    async def _client(self) -> httpx.AsyncClient:
        """Our client for the running event loop; a client may be used in several, one after the other."""
        if self._closed:
            raise RunCancelledError("the client was closed")
        loop = asyncio.get_running_loop()
        if self._own is None or self._loop is not loop:
            context = shared_ssl_context() if self._config.url.startswith("https:") else None
            self._own, self._loop = self._build(context), loop
            # A loop ends its async generators when it shuts down, as asyncio.run does, and with this one our client.
            self._guard = _close_at_shutdown(self._own)
            await anext(self._guard)
        return self._own

    def _build(self, context: ssl.SSLContext | None) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=AsyncKeyedTransport(self._config, AsyncDirectTransport(context)),
            mounts={
                pattern: AsyncKeyedTransport(
                    self._config,
                    httpx.AsyncHTTPTransport(
                        proxy=proxy, verify=shared_ssl_context(), limits=httpx.Limits(max_connections=None)
                    ),
                )
                if proxy
                else None
                for pattern, proxy in environment_proxies()
            },
        )

    async def aclose(self) -> None:
        """Close our connections, also those in use; a caller's `http_client` stays as it is."""
        self._closed = True
        guard, self._guard, self._own = self._guard, None, None
        if guard is not None and self._loop is asyncio.get_running_loop():
            await guard.aclose()


async def _head(pump: Pump) -> httpx.Response | Exception:
    try:
        return await pump.head()
    except FOREIGN as error:
        return error


async def _close_at_shutdown(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()


class AsyncResponse:
    """A reply whose body is read piece by piece."""

    def __init__(
        self, transport: AsyncTransport, response: httpx.Response, patience: Patience, pump: Pump | None
    ) -> None:
        self._transport = transport
        self._response = response
        self._patience = patience
        self._pump = pump
        self._idle: float | None = response.request.extensions["timeout"]["read"]
        if pump is None:
            self._body = response.aiter_raw()
        self._decoder = decoder_for(response)
        self.status = response.status_code
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in response.headers.items()}

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
        except FOREIGN as error:
            return error

    async def aclose(self) -> None:
        """Let go of the reply; its connection is used again if the whole body was read."""
        if self._pump is not None:
            self._pump.close()
        else:
            await self._response.aclose()


class AsyncKeyedTransport(httpx.AsyncBaseTransport):
    """Puts the key and the query on a copy of the request, below the place where httpx writes its log."""

    def __init__(self, config: ClientConfig, transport: httpx.AsyncBaseTransport) -> None:
        self._url = url_with_query(config)
        self._keys = key_headers(config)
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(
            httpx.Request(
                request.method,
                self._url,
                headers=[*request.headers.raw, *self._keys],
                stream=request.stream,
                extensions=request.extensions,
            )
        )

    async def aclose(self) -> None:
        await self._transport.aclose()
