"""The body of a request: what came in the one before is not written again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
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
    """Writes the bodies of one run's requests; an object that stood in the one before is not written again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[str, Any], bytes]] = {}
        """What the objects in lists of the latest body look like, by `id`; held here, so that it stays their own."""

    def write(self, body: dict[str, Any], *, is_shared: bool = True) -> RequestBody:
        """The body as bytes.

        Args:
            is_shared: Whether the objects of one body come again in the next, and do not change.

        Raises:
            ConfigurationError: It is not JSON: something in `history`, a tool's schema or `body_transform` is not.
        """
        before, self._known = self._known, {}
        try:
            data = self._members(body, before) if is_shared else _text(body)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"the request body is not JSON: {error}") from None
        return RequestBody(data, bool(body.get("stream")))

    def _members(self, value: dict[str, Any], before: Mapping[int, tuple[dict[str, Any], bytes]]) -> bytes:
        # Whole, where no object can come again in another one; json has rules for keys that are no text.
        if list not in map(type, value.values()) or not all(type(key) is str for key in value):
            return _text(value)
        return b"{%b}" % b",".join(
            b"%b:[%b]" % (_name(key), b",".join([self._item(one, before) for one in item]))
            if type(item) is list
            else b"%b:%b" % (_name(key), _text(item))
            for key, item in value.items()
        )

    def _item(self, value: Any, before: Mapping[int, tuple[dict[str, Any], bytes]]) -> bytes:
        if type(value) is not dict:
            return _text(value)
        known = before.get(id(value))
        if known is None:
            known = value, self._members(value, before)
        self._known[id(value)] = known
        return known[1]


def _text(value: object) -> bytes:
    return well_formed(_json(value)).encode()  # a prompt, too, may hold half of a surrogate pair


_name = lru_cache(maxsize=256)(_text)  # members have few names
