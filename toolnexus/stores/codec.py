"""Messages as JSON and back: all that is in them, or an error that says where.

The JSON is that of the classes' own fields, those that have their default left out. A field that is added to one of
the classes needs no change here; whoever does not know it refuses it.

Not pydantic's JSON: that reads 200 levels where a call's arguments may have 256, refuses lone surrogates, and turns a
NaN into null and a date into text without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from math import isfinite
from typing import Any, NoReturn

from ..errors import ConfigurationError
from ..messages import Message
from .records import Form, Misfit, form_of

VERSION = 1
"""Of the format. A further field does not change it: who does not know the field refuses it anyway."""

_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_ENCODE_ASCII = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def messages_to_json(messages: Iterable[Message]) -> str:
    """Write a transcript as JSON, for `messages_from_json`.

    It comes back equal, but for tuples inside of JSON values (arguments, a request's data), which become lists, and
    two halves of a surrogate pair, which become the one character. Images are base64.

    Raises:
        ConfigurationError: Something in a message has no JSON form, such as NaN, or a date in a request's data.
    """
    written: list[str] = []
    try:
        for message in messages:
            written.append(write_message(message))
    except Misfit as misfit:
        raise ConfigurationError(str(misfit.under(f"messages[{len(written)}]"))) from None
    return f'{{"version":{VERSION},"messages":[{",".join(written)}]}}'


def messages_from_json(text: str | bytes) -> list[Message]:
    """The transcript that `messages_to_json` wrote.

    Raises:
        ConfigurationError: `text` is no such transcript, or has what this version does not know.
    """
    read: list[Message] = []
    try:
        envelope = _parse(text)
        if not isinstance(envelope, dict) or envelope.keys() != {"version", "messages"}:
            raise Misfit("expected an object with 'version' and 'messages', as messages_to_json() writes it")
        version, messages = envelope["version"], envelope["messages"]
        if type(version) is not int or version != VERSION:
            raise Misfit(f"expected version {VERSION}, got {version!r:.100}; a newer toolnexus may read it")
        if not isinstance(messages, list):
            raise Misfit(f"messages: expected a list, got {messages!r:.100}")
        for message in messages:
            read.append(_read(message, f"messages[{len(read)}]"))
    except Misfit as misfit:
        raise ConfigurationError(f"not a transcript: {misfit}") from None
    return read


def write_message(message: Message) -> str:
    """One message as one line of JSON, without a version.

    Raises:
        Misfit: Something in it has no JSON form.
    """
    try:
        plain = _form().write(message)
        text = _ENCODE(plain)
        return text if _is_unicode(text) else _ENCODE_ASCII(plain)
    except RecursionError:
        raise Misfit("nested too deeply") from None
    except Misfit:
        raise
    except ValueError as error:  # a number of more digits than Python writes
        raise Misfit(str(error)) from None


def read_message(text: str | bytes) -> Message:
    """The message that `write_message` wrote.

    Raises:
        Misfit: `text` is no message, or has what this version does not know.
    """
    return _read(_parse(text), "")


def _read(plain: Any, where: str) -> Message:  # Any: JSON
    try:
        message: Message = _form().read(plain)
    except Misfit as misfit:
        raise misfit.under(where) from None
    return message


@cache
def _form() -> Form:
    return form_of(Message)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate; as an escape it can be stored anywhere
        return False
    return True


def _parse(text: str | bytes) -> Any:  # Any: JSON
    try:
        return _DECODE(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise Misfit("nested too deeply") from None
    except Misfit:
        raise
    except ValueError as error:
        raise Misfit(f"expected JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise Misfit(f"expected each key once, got {[key for key, _ in pairs]}")
    return members


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise Misfit(f"expected a number that a float can hold, got {text:.40}")
    return value


def _no_constant(name: str) -> NoReturn:
    raise Misfit(f"JSON has no {name}")


_DECODE = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_no_constant).decode
