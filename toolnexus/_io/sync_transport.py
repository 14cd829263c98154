"""One request and its reply over httpx, for the sync world."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from ..config import ClientConfig
from ..errors import RunCancelledError, ToolnexusError
from .bounds import Bounds, Patience
from .request import (
    encode,
    environment_proxies,
    hidden_query,
    is_encoded,
    key_headers,
    request_headers,
    shared_ssl_context,
    url_with_query,
)
from .sync_network import DirectTransport, shut_down
from .translation import FOREIGN, translate


class SyncTransport:
    """Opens responses: with a client of ours, or with the caller's `http_client`."""

    def __init__(self, config: ClientConfig, http_client: httpx.Client | None) -> None:
        self._config = config
        self._given = http_client
        self._lock = threading.Lock()
        self._own: httpx.Client | None = None
        self._direct: DirectTransport | None = None
        self._closed = False

    def open(self, body: dict[str, Any], bounds: Bounds) -> SyncResponse:
        """Send a request and wait for the head of the reply.

        Raises:
            ToolnexusError: No reply came; trying again is the caller's affair.
        """
        bounds.check()
        patience = Patience(bounds)
        client = self._given or self._client()
        reply = self._send(client, body, patience)
        if isinstance(reply, Exception):
            raise self.error(reply, bounds)
        return SyncResponse(self, reply, patience)

    def error(self, error: Exception, bounds: Bounds) -> ToolnexusError:
        """Our error for one of the HTTP stack: the run's own end first, if that is what broke the connection."""
        if self._closed:
            return RunCancelledError("the client was closed")
        return bounds.exceeded() or translate(error, self._config.url)

    def _send(self, client: httpx.Client, body: dict[str, Any], patience: Patience) -> httpx.Response | Exception:
        """The reply, or what the HTTP stack raised: raised here, it would carry along frames that hold the key."""
        try:
            return client.send(self._request(client, body, patience), stream=True, follow_redirects=False)
        except FOREIGN as error:
            return error

    def _request(self, client: httpx.Client, body: dict[str, Any], patience: Patience) -> httpx.Request:
        config = self._config
        extensions: dict[str, Any] = {"patience": patience}
        url = httpx.URL(config.url)
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
        headers = request_headers(config, with_key=self._given is not None)
        return client.build_request("POST", url, content=encode(body), headers=headers, extensions=extensions)

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._closed:
                raise RunCancelledError("the client was closed")
            if self._own is None:
                context = shared_ssl_context() if self._config.url.startswith("https:") else None
                self._direct = DirectTransport(context)
                self._own = httpx.Client(
                    transport=KeyedTransport(self._config, self._direct),
                    mounts={
                        pattern: KeyedTransport(
                            self._config,
                            httpx.HTTPTransport(
                                proxy=proxy, verify=shared_ssl_context(), limits=httpx.Limits(max_connections=None)
                            ),
                        )
                        if proxy
                        else None
                        for pattern, proxy in environment_proxies()
                    },
                )
            return self._own

    def end(self, bounds: Bounds) -> None:
        """Drop the connections of ours that a run which is over has left behind."""
        if self._direct is not None:
            self._direct.end(bounds)

    def close(self) -> None:
        """Close our connections, also those in use; a caller's `http_client` stays as it is."""
        with self._lock:
            self._closed = True
            own, self._own = self._own, None
        if own is not None:
            own.close()


class SyncResponse:
    """A reply whose body is read piece by piece."""

    def __init__(self, transport: SyncTransport, response: httpx.Response, patience: Patience) -> None:
        self._transport = transport
        self._response = response
        self._patience = patience
        self._watch = _Watch(response, patience.bounds)
        self._body = response.iter_bytes() if is_encoded(response) else response.iter_raw()
        self.status = response.status_code
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in response.headers.items()}

    def read(self, patience: float | None) -> bytes:
        """The next bytes of the body; `b""` at its end.

        Args:
            patience: Seconds to wait in all, from the first time it is given; `None` for the idle timeout.
        """
        if patience is not None and self._patience.shorten(patience):
            self._watch.shorten(patience)
        data = self._next()
        if isinstance(data, Exception):
            raise self._transport.error(data, self._patience.bounds)
        self._patience.bounds.check()  # bytes may come for ever, and an interrupted connection reads as an end
        return data

    def _next(self) -> bytes | Exception:
        try:
            return next(self._body, b"")
        except FOREIGN as error:
            return error

    def close(self) -> None:
        """Let go of the reply; its connection is used again if the whole body was read."""
        self._watch.close()
        self._response.close()


class _Watch:
    """Interrupts reads over connections that are not ours, a proxy's or a caller's: those know no `Patience`."""

    def __init__(self, response: httpx.Response, bounds: Bounds) -> None:
        self._timers: list[threading.Timer] = []
        self._unlink: Callable[[], None] = lambda: None
        stream = None if "patience" in response.extensions else response.extensions.get("network_stream")
        self._socket = stream.get_extra_info("socket") if stream is not None else None
        if self._socket is not None:
            self._unlink = bounds.cancel.add_callback(self._interrupt)
            if bounds.expires is not None:
                self.shorten(bounds.remaining)

    def shorten(self, seconds: float) -> None:
        """Interrupt in so many seconds at the latest."""
        if self._socket is not None:
            timer = threading.Timer(seconds, self._interrupt)
            timer.daemon = True
            timer.start()
            self._timers.append(timer)

    def _interrupt(self) -> None:
        if self._socket is not None:
            shut_down(self._socket)

    def close(self) -> None:
        self._unlink()
        self._socket = None
        for timer in self._timers:
            timer.cancel()


class KeyedTransport(httpx.BaseTransport):
    """Puts the key and the query on a copy of the request, below the place where httpx writes its log."""

    def __init__(self, config: ClientConfig, transport: httpx.BaseTransport) -> None:
        self._config = config
        self._transport = transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._transport.handle_request(
            httpx.Request(
                request.method,
                url_with_query(self._config),
                headers=[*request.headers.raw, *key_headers(self._config)],
                stream=request.stream,
                extensions=request.extensions,
            )
        )

    def close(self) -> None:
        self._transport.close()
