"""Requests through a proxy, for both worlds: these go over httpx, which has the ways of asking one.

The key and the query are put on below the place where httpx writes its log.
"""

from __future__ import annotations

import httpx

from ..config import ClientConfig
from .request import key_headers, shared_ssl_context, url_with_query

_UNLIMITED = httpx.Limits(max_connections=None)


def proxied(config: ClientConfig, proxy: str) -> httpx.Client:
    """A client of ours, whose requests go through `proxy`."""
    through = httpx.HTTPTransport(proxy=proxy, verify=shared_ssl_context(), limits=_UNLIMITED)
    return httpx.Client(transport=KeyedTransport(config, through))


def async_proxied(config: ClientConfig, proxy: str) -> httpx.AsyncClient:
    """A client of ours, whose requests go through `proxy`."""
    through = httpx.AsyncHTTPTransport(proxy=proxy, verify=shared_ssl_context(), limits=_UNLIMITED)
    return httpx.AsyncClient(transport=AsyncKeyedTransport(config, through))


class _Keys:
    """Puts key and query on a copy of a request."""

    def __init__(self, config: ClientConfig) -> None:
        self._url = url_with_query(config)
        self._keys = key_headers(config)

    def put_on(self, request: httpx.Request) -> httpx.Request:
        return httpx.Request(
            request.method,
            self._url,
            headers=[*request.headers.raw, *self._keys],
            stream=request.stream,
            extensions=request.extensions,
        )


class KeyedTransport(httpx.BaseTransport):
    """Sends requests with the key and the query."""

    def __init__(self, config: ClientConfig, transport: httpx.BaseTransport) -> None:
        self._keys = _Keys(config)
        self._transport = transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._transport.handle_request(self._keys.put_on(request))

    def close(self) -> None:
        self._transport.close()


class AsyncKeyedTransport(httpx.AsyncBaseTransport):
    """Sends requests with the key and the query."""

    def __init__(self, config: ClientConfig, transport: httpx.AsyncBaseTransport) -> None:
        self._keys = _Keys(config)
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(self._keys.put_on(request))

    async def aclose(self) -> None:
        await self._transport.aclose()
