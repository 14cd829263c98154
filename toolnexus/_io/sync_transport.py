"""One request and its reply, over connections of our own or over httpx, for the sync world."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..config import ClientConfig
from ..errors import RunCancelledError, ToolnexusError
from .body import RequestBody
from .bounds import Bounds, Patience
from .decoding import Decoder, decoder_for
from .request import (
    endpoint,
    environment_proxy,
    httpx_request,
    request_headers,
    shared_ssl_context,
)
from .sync_network import DirectResponse, DirectTransport, shut_down
from .translation import foreign, translate

if TYPE_CHECKING:
    import httpx


class SyncTransport:
    """Opens responses: over connections of ours, through the environment's proxy, or with a caller's `http_client`."""

    def __init__(self, config: ClientConfig, http_client: httpx.Client | None) -> None:
        self._config = config
        self._given = http_client
        self._headers = request_headers(config, with_key=http_client is not None)
        self._lock = threading.Lock()
        self._own: DirectTransport | httpx.Client | None = None
        self._closed = False

    def open(self, body: RequestBody, bounds: Bounds) -> SyncResponse:
        """Send a request and wait for the head of the reply.

        Raises:
            ToolnexusError: No reply came; trying again is the caller's affair.
        """
        bounds.check()
        # A reply that is not streamed comes whole: nothing of it could show progress before.
        patience = Patience(bounds, self._config.progress_timeout if body.is_streamed else None)
        patience.wait_begins(0)
        reply = self._send(self._given or self._get_own(), body.data, patience)
        if isinstance(reply, Exception):
            raise self.error(reply, patience)
        patience.wait_ended()
        return SyncResponse(self, reply, patience)

    def error(self, error: Exception, patience: Patience) -> ToolnexusError:
        """Our error for one of the HTTP stack: our own reason first, if that is what broke the connection."""
        if self._closed:
            return RunCancelledError("the client was closed")
        return patience.bounds.exceeded() or patience.stalled() or translate(error, self._config.url)

    def _send(
        self, client: DirectTransport | httpx.Client, body: bytes, patience: Patience
    ) -> DirectResponse | httpx.Response | Exception:
        """The reply, or what the HTTP stack raised: raised here, it would carry along frames that hold the key."""
        try:
            if isinstance(client, DirectTransport):
                return client.send(body, patience)
            return client.send(self._request(client, body, patience), stream=True, follow_redirects=False)
        except foreign() as error:
            return error

    def _request(self, client: httpx.Client, body: bytes, patience: Patience) -> httpx.Request:
        return httpx_request(self._config, client, self._headers, body, patience, is_given=self._given is not None)

    def _get_own(self) -> DirectTransport | httpx.Client:
        with self._lock:
            if self._closed:
                raise RunCancelledError("the client was closed")
            if self._own is None:
                proxy = environment_proxy(self._config.url)
                if proxy is None:
                    where = endpoint(self._config)
                    context = shared_ssl_context() if where.is_tls else None
                    self._own = DirectTransport(where, context, self._config.timeouts)
                else:
                    from .proxied import proxied  # over httpx, which takes a while to import

                    self._own = proxied(self._config, proxy)
            return self._own

    def end(self, bounds: Bounds) -> None:
        """Drop the connections of ours that a run which is over has left behind."""
        if isinstance(self._own, DirectTransport):
            self._own.end(bounds)

    def close(self) -> None:
        """Close our connections, also those in use; a caller's `http_client` stays as it is."""
        with self._lock:
            self._closed = True
        if self._own is not None:
            self._own.close()


class SyncResponse:
    """A reply whose body is read piece by piece."""

    def __init__(self, transport: SyncTransport, response: DirectResponse | httpx.Response, patience: Patience) -> None:
        self._transport = transport
        self._response = response
        self._patience = patience
        self._watch = None if isinstance(response, DirectResponse) else _Watch(response, patience.bounds)
        self._body = _body(response)
        self._decoder = decoder_for(response)
        self.times_progress = patience.times_progress
        """Whether `read` wants to know of progress."""
        self._is_plain = self._decoder is None and not self.times_progress  # as nearly every reply: nothing but reads
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())  # httpx, too, gives names in lower case

    def read(self, patience: float | None, progress: int = 0) -> bytes:
        """The next bytes of the body; `b""` at its end.

        Args:
            patience: Seconds to wait in all, from the first time it is given; `None` for the idle timeout.
            progress: How far the model has come; a number that changes with each word of it.
        """
        if patience is not None and self._patience.shorten(patience) and self._watch is not None:
            self._watch.shorten(patience)
        if self._is_plain:
            data = self._next()
        else:
            data = self._wait_for_progress(progress) if self.times_progress else self._wait()
        if isinstance(data, Exception):
            raise self._transport.error(data, self._patience)
        self._patience.bounds.check()  # bytes may come for ever, and an interrupted connection reads as an end
        return data

    def _wait_for_progress(self, progress: int) -> bytes | Exception:
        left = self._patience.wait_begins(progress)
        if self._watch is not None:
            self._watch.expect_progress(left)
        data = self._wait()
        if self._watch is not None:
            self._watch.expect_progress(None)
        if not data and (stalled := self._patience.stalled()):
            raise stalled
        if not isinstance(data, Exception):
            self._patience.wait_ended()
        return data

    def _wait(self) -> bytes | Exception:
        return self._next() if self._decoder is None else self._next_decoded(self._decoder)

    def _next_decoded(self, decoder: Decoder) -> bytes | Exception:
        while not (piece := decoder.take()):
            data = self._next()
            if not data or isinstance(data, Exception):
                return data
            self._patience.check()  # what decodes to nothing may come for ever, too
            decoder.feed(data)
        return piece

    def _next(self) -> bytes | Exception:
        try:
            for piece in self._body:
                if piece:
                    return piece
            return b""
        except foreign() as error:
            return error

    def close(self) -> None:
        """Let go of the reply; its connection is used again if the whole body was read."""
        if self._watch is not None:
            self._watch.close()
        self._response.close()


def _body(response: DirectResponse | httpx.Response) -> Iterator[bytes]:
    if isinstance(response, DirectResponse):
        return response.iter_raw()
    # Not iter_raw(), which costs much for each piece and only counts. A mock's response may have been read before.
    stream = response.iter_bytes() if response.is_stream_consumed else response.stream
    assert isinstance(stream, Iterable)  # a Client's response has no other
    return iter(stream)


class _Watch:
    """Interrupts reads over connections that are not ours, a proxy's or a caller's: those know no `Patience`."""

    def __init__(self, response: httpx.Response, bounds: Bounds) -> None:
        self._timers: list[threading.Timer] = []
        self._progress_timer: threading.Timer | None = None
        self._unlink: Callable[[], None] = lambda: None
        stream = response.extensions.get("network_stream")
        self._socket = stream.get_extra_info("socket") if stream is not None else None
        if self._socket is not None:
            self._unlink = bounds.cancel.add_callback(self._interrupt)
            if bounds.expires is not None:
                self.shorten(bounds.remaining)

    def shorten(self, seconds: float) -> None:
        """Interrupt in so many seconds at the latest."""
        if self._socket is not None:
            self._timers.append(self._timer(seconds))

    def expect_progress(self, seconds: float | None) -> None:
        """Interrupt in so many seconds, unless it is called again before; `None` for never."""
        if self._progress_timer is not None:
            self._progress_timer.cancel()
            self._progress_timer = None
        if self._socket is not None and seconds is not None:
            self._progress_timer = self._timer(seconds)

    def _timer(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, self._interrupt)
        timer.daemon = True
        timer.start()
        return timer

    def _interrupt(self) -> None:
        if self._socket is not None:
            shut_down(self._socket)

    def close(self) -> None:
        self._unlink()
        self._socket = None
        self.expect_progress(None)
        for timer in self._timers:
            timer.cancel()
