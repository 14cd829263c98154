"""The body of a request: what came in the one before is not written again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from operator import is_
from typing import Any

from .._core.payload import well_formed
from ..errors import ConfigurationError

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request body on its way."""

    data: bytes
    is_streamed: bool
    """Whether it asks for a streamed response."""


class BodyWriter:
    """Writes the bodies of one run's requests: of a list that has grown, such as the messages, only what is new."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[object, bytes]] = {}
        """The members of the latest body and what they look like; of a list, its items, without the brackets."""

    def write(self, body: dict[str, Any], *, is_shared: bool = True) -> RequestBody:
        """The body as bytes.

        Args:
            is_shared: Whether the objects of one body come again in the next, and do not change. A list may grow.

        Raises:
            ConfigurationError: It is not JSON: something in `history`, a tool's schema or `body_transform` is not.
        """
        try:
            data = self._written(body) if is_shared else _text(body)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"the request body is not JSON: {error}") from None
        return RequestBody(data, bool(body.get("stream")))

    def _written(self, body: dict[str, Any]) -> bytes:
        return b"{%b}" % b",".join(
            [
                b"%b:[%b]" % (_name(name), self._items(name, value))
                if type(value) is list
                else b"%b:%b" % (_name(name), self._value(name, value))
                for name, value in body.items()
            ]
        )

    def _value(self, name: str, value: object) -> bytes:
        latest = self._latest.get(name)
        if latest is None or latest[0] is not value:
            latest = self._latest[name] = value, _text(value)
        return latest[1]

    def _items(self, name: str, items: list[object]) -> bytes:
        known, text = self._latest.get(name, (None, b""))
        if type(known) is not list or len(known) > len(items) or not all(map(is_, known, items)):
            known, text = [], b""
        if len(items) > len(known):
            fresh = _text(items[len(known) :])[1:-1]
            text = b"%b,%b" % (text, fresh) if known else fresh
        self._latest[name] = [*items], text
        return text


def _text(value: object) -> bytes:
    return well_formed(_json(value)).encode()  # a prompt, too, may hold half of a surrogate pair


@lru_cache(maxsize=256, typed=True)  # members have few names; 1 and True are two
def _name(name: str) -> bytes:
    return _text({name: None})[1 : -len(":null}")]  # a name that is no text becomes one
