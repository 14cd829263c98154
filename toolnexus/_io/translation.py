"""From the HTTP stack's exceptions to ours, in one table for both worlds."""

from __future__ import annotations

import sys

from ..errors import APIConnectionError, APITimeoutError, ProtocolError, StreamInterruptedError, ToolnexusError
from . import faults

# By name, most derived class first: what a caller's http_client raises has the same names as what our network does. A
# server that breaks off is told apart from one that was never reached: the first may have done some work.
_TABLE: dict[str, tuple[type[ToolnexusError], str]] = {
    "ConnectTimeout": (APITimeoutError, "could not connect in time"),
    "PoolTimeout": (APITimeoutError, "no connection of http_client became free in time"),
    "WriteTimeout": (APITimeoutError, "could not send the request in time"),
    "TimeoutException": (APITimeoutError, "the server was silent for too long"),
    "ConnectError": (APIConnectionError, "could not connect"),
    "ProxyError": (APIConnectionError, "the proxy failed"),
    "RemoteProtocolError": (StreamInterruptedError, "the server broke off"),
    "DecodingError": (ProtocolError, "the body does not match its content encoding"),
    "NetworkError": (StreamInterruptedError, "the connection broke"),
    "TransportError": (APIConnectionError, "the connection failed"),
    "OSError": (APIConnectionError, "the connection failed"),
}
_UNNAMED = (APIConnectionError, "the exchange failed")


def foreign() -> tuple[type[Exception], ...]:
    """What the stack below us may raise, and nothing else; httpx's own only where it was imported at all."""
    if "httpx" not in sys.modules:
        return (faults.Fault, OSError)
    import httpx  # which waits, should another thread be in the middle of it

    return (faults.Fault, OSError, httpx.TransportError, httpx.DecodingError, httpx.StreamError)


def translate(error: Exception, where: str) -> ToolnexusError:
    """Our error for one of `foreign()`, to be raised `from` nothing.

    The cause is kept as its type and message, without its frames: the locals of the HTTP stack hold the key.
    """
    names = [cls.__name__ for cls in type(error).__mro__]
    ours, what = next((_TABLE[name] for name in names if name in _TABLE), _UNNAMED)
    detail = str(error)
    translated = ours(f"{what}: POST {where}" + (f": {detail}" if detail else ""))
    translated.__cause__ = type(error)(detail)
    return translated
