"""From the HTTP stack's exceptions to ours, in one table for both worlds."""

from __future__ import annotations

import httpcore
import httpx

from ..errors import APIConnectionError, APITimeoutError, ProtocolError, StreamInterruptedError, ToolnexusError

# First match wins. A server that breaks off is told apart from one that was never reached: the first may have
# done some work. httpx's own classes are what a caller's http_client raises, httpcore's what our network does.
_TABLE: tuple[tuple[tuple[type[Exception], ...], type[ToolnexusError], str], ...] = (
    ((httpx.ConnectTimeout, httpcore.ConnectTimeout), APITimeoutError, "could not connect in time"),
    ((httpx.PoolTimeout, httpcore.PoolTimeout), APITimeoutError, "no connection of http_client became free in time"),
    ((httpx.WriteTimeout, httpcore.WriteTimeout), APITimeoutError, "could not send the request in time"),
    ((httpx.TimeoutException, httpcore.TimeoutException), APITimeoutError, "the server was silent for too long"),
    ((httpx.ConnectError, httpcore.ConnectError), APIConnectionError, "could not connect"),
    ((httpx.ProxyError, httpcore.ProxyError), APIConnectionError, "the proxy failed"),
    ((httpx.RemoteProtocolError, httpcore.RemoteProtocolError), StreamInterruptedError, "the server broke off"),
    ((httpx.DecodingError,), ProtocolError, "the body does not match its content encoding"),
    ((httpx.NetworkError, httpcore.NetworkError), StreamInterruptedError, "the connection broke"),
    ((httpx.TransportError, OSError), APIConnectionError, "the connection failed"),
)

FOREIGN: tuple[type[Exception], ...] = (
    httpx.TransportError,
    httpx.DecodingError,
    httpx.StreamError,
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    OSError,
)
"""What the stack below us may raise, and nothing else."""


def translate(error: Exception, where: str) -> ToolnexusError:
    """Our error for one of `FOREIGN`, to be raised `from` nothing.

    The cause is kept as its type and message, without its frames: the locals of the HTTP stack hold the key.
    """
    ours, what = next(
        ((ours, what) for classes, ours, what in _TABLE if isinstance(error, classes)),
        (APIConnectionError, "the exchange failed"),
    )
    detail = str(error)
    translated = ours(f"{what}: POST {where}" + (f": {detail}" if detail else ""))
    translated.__cause__ = type(error)(detail)
    return translated
