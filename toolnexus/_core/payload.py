"""JSON as it comes off the wire: the payload of one event, and the arguments of a tool call.

Two readers with two tempers. A payload is read fast, and leniently where providers are known to be
sloppy (broken UTF-8, lone surrogates). Arguments are read strictly: a tool never runs with what two
readers could understand in two ways.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, NoReturn

from pydantic_core import from_json

from ..errors import ProtocolError

MAX_DEPTH = 256
"""Nesting that we follow. No provider nests deeper than a few dozen levels; Python's own reader recurses."""

_MAX_INT_DIGITS = 4300  # Python's own limit for int(str), made an error that we choose
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


class UnreadableArguments(ValueError):
    """Arguments that are not one plain JSON object; the message is written for the model."""


def parse_payload(data: bytes) -> dict[str, Any]:
    """Read the JSON object that one event, or one whole reply, carries.

    Raises:
        ProtocolError: `data` is not JSON, not an object, or nested deeper than `MAX_DEPTH`.
    """
    try:
        # About three times as fast as json.loads; it refuses NaN, lone surrogates, broken UTF-8 and 200 levels.
        value = from_json(data, allow_inf_nan=False)
    except ValueError:
        value = _parse_slowly(data)
    if type(value) is not dict:
        raise ProtocolError(f"expected a JSON object in the stream, got {excerpt(data)}")
    return value


def _parse_slowly(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    try:
        check_depth(text)
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_parse_int)
    except ValueError as error:
        raise ProtocolError(f"expected JSON in the stream, got {excerpt(data)}: {error}") from None


def parse_arguments(text: str) -> dict[str, Any]:
    """Read the arguments of a finished tool call.

    Nothing and `null` mean no arguments: many servers send that for a tool without parameters.
    Everything else must be exactly one JSON object without a repeated key.

    Raises:
        UnreadableArguments: with a message that tells the model what is wrong.
    """
    text = well_formed(text)
    if text.strip() in ("", "null"):
        return {}
    try:
        if text.count("[") + text.count("{") > MAX_DEPTH:
            check_depth(text)
        value = _STRICT.decode(text)
    except ValueError as error:
        raise UnreadableArguments(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise UnreadableArguments(f"the arguments must be a JSON object, not {_JSON_NAMES[type(value)]}")
    arguments: dict[str, Any] = clean(value) if "\\u" in text else value  # half a character hides in an escape only
    return arguments


_JSON_NAMES = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def well_formed(text: str) -> str:
    """`text` without surrogates: the halves of a pair are joined, a lone one becomes U+FFFD.

    JSON can spell a surrogate on its own (RFC 8259, section 8.2); a str that holds one cannot be sent or stored.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean(value: Any) -> Any:
    """JSON fit to be stored and sent: text without surrogates, `None` for a number beyond the range of a float."""
    match value:
        case str():
            return well_formed(value)
        case list():
            return [clean(item) for item in value]
        case dict():
            return {well_formed(key): clean(item) for key, item in value.items()}
        case float() if not isfinite(value):
            return None
        case _:
            return value


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values would be written alike; Python's `==` takes 1, 1.0 and `True` for the same."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def check_depth(text: str) -> int:
    """Refuse what nests deeper than `MAX_DEPTH`, before a recursive reader sees it.

    Returns:
        How many brackets and strings are still open at the end: above 0 for a text that was cut.
    """
    depth = 0
    for match in _STRUCTURE.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
        elif token in "]}":
            depth -= 1
        elif len(token) == 1 or not token.endswith('"') or _ends_in_escape(token):
            return depth + 1  # a string that never ends
    return depth


def _ends_in_escape(token: str) -> bool:
    body = token[1:-1]
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1


def excerpt(data: bytes, length: int = 200) -> str:
    """The start of `data`, quoted, for an error message."""
    text = data[:length].decode("utf-8", "replace")
    return repr(text) + (f"… ({len(data)} bytes)" if len(data) > length else "")


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:100]!r} comes twice")  # two readers may disagree about which one counts
        if key != well_formed(key):
            raise ValueError("a key holds half of a surrogate pair")
        found[key] = value
    return found


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_INT_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _parse_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:40]} is out of range")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_STRICT = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_int=_parse_int,
    parse_float=_parse_float,
    object_pairs_hook=_unique_pairs,
)
"""What reads arguments; `json.loads` would make such a decoder for each of them."""
