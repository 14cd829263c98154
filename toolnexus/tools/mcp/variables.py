"""`${NAME}` in the headers and the environment of a server: filled in when it is connected, and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ANY = re.compile(r"\$\{[^}]*\}")
_MIN_SECRET = 4
"""Shorter values are left in texts: they are no secrets, and taking out each `1` would make a text unreadable."""


class MissingVariableError(Exception):
    """A variable that the configuration names is not set; the message names it, and no value."""


def has_variable(text: str) -> bool:
    """Whether `text` has a `${...}` in it."""
    return _ANY.search(text) is not None


def fill(values: Mapping[str, str], environ: Mapping[str, str], where: str) -> dict[str, str]:
    """Fill in `${NAME}`, `${env:NAME}` and `${NAME:-default}`.

    Args:
        values: What the configuration says, by name of the header or variable.
        environ: The variables there are.
        where: What `values` are, for messages, such as `"headers"`.

    Raises:
        MissingVariableError: One is not set and has no default, or `${...}` is something else.
    """

    def value(key: str, match: re.Match[str]) -> str:
        name, default = match.groups()
        found = environ.get(name, default)
        if found is None:
            raise MissingVariableError(f"{where}.{key}: the environment variable {name!r} is not set")
        return found

    filled: dict[str, str] = {}
    for key, text in values.items():
        for other in _ANY.finditer(text):
            if not _VARIABLE.fullmatch(other.group()):
                raise MissingVariableError(
                    f"{where}.{key}: expected ${{NAME}} of an environment variable, got {other.group()!r}"
                )
        filled[key] = _VARIABLE.sub(partial(value, key), text)
    return filled


class Redaction:
    """Takes the values that a server was given out of texts about it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        pieces = {piece for secret in secrets for piece in (secret, *secret.split())}
        # The longest first: one may be a part of another.
        self._secrets = sorted((piece for piece in pieces if len(piece) >= _MIN_SECRET), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return text
