"""What goes wrong on connections of our own; `translation` turns it into the errors that a user sees.

The names are those of httpx, which a caller's `http_client` raises; ours do not need it to be imported.
"""

from __future__ import annotations


class Fault(Exception):
    """Base of all that our own network and its HTTP raise."""


class TimeoutException(Fault):
    """A step took too long."""


class ConnectTimeout(TimeoutException):
    """There was no connection in time."""


class ReadTimeout(TimeoutException):
    """The server was silent for too long."""


class WriteTimeout(TimeoutException):
    """The server took nothing for too long."""


class NetworkError(Fault):
    """The network failed, or whoever is at its other end."""


class ConnectError(NetworkError):
    """No connection."""


class ReadError(NetworkError):
    """The connection broke while we read."""


class WriteError(NetworkError):
    """The connection broke while we wrote."""


class ProtocolError(Fault):
    """What was sent is no HTTP."""


class LocalProtocolError(ProtocolError):
    """What we were to send is none."""


class RemoteProtocolError(ProtocolError):
    """What the server sent is none, or less than it announced."""
