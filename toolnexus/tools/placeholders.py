"""Templates of HTTP tools: `{name}` stands for an argument, in a header `${NAME}` for an environment variable.

A template is taken apart before anything is filled in, so an argument cannot become structure: in a URL it stays
within its label, segment or query value, in a header within its value, in a body within its member. What arguments
say is never looked at for placeholders again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ..errors import ConfigurationError
from ..tool import ToolInputError
from .addresses import parse_host
from .json_schema import is_array, is_object
from .misfits import as_json, clip

Arguments = Mapping[str, Any]  # Any: JSON

_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def names_in(template: str) -> list[str]:
    """The arguments that `template` has placeholders for, in order."""
    return _PLACEHOLDER.findall(template)


def as_text(name: str, value: Any) -> str:  # Any: JSON
    """An argument as the text that stands for it in a URL or a header.

    Raises:
        ToolInputError: It has no such text: it is `null`, a list or an object, or holds half of a surrogate pair.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)  # JSON knows one kind of number: 5.0 is the id 5
    if not isinstance(value, str | int | float):
        raise ToolInputError(f"{name}: expected text, a number or a boolean, got {as_json(value)}")
    text = str(value)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolInputError(f"{name}: the text holds half of a surrogate pair, which cannot be sent")
    return text


def _filled(template: str, args: Arguments, encode: Callable[[str, str], str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if args.get(name) is None:
            raise ToolInputError(f"{name}: required, but missing")
        return encode(name, as_text(name, args[name]))

    return _PLACEHOLDER.sub(value, template)


# -- URLs


class URLTemplate:
    """A URL whose scheme and port are fixed, and whose host is fixed at least in its last two labels."""

    def __init__(self, url: str) -> None:
        """Take a URL apart.

        Raises:
            ConfigurationError: It is none, or has a placeholder where none can be.
        """
        expected = "url: expected a URL such as 'https://api.example.com/items/{id}'"
        if not isinstance(url, str):
            raise ConfigurationError(f"{expected}, got {clip(repr(url))}")
        shown = clip(repr(url.partition("?")[0]))  # a query may hold a key
        if _VARIABLE.search(url):
            raise ConfigurationError(f"url: ${{…}} is read in headers only; put the value into {shown} yourself")
        if not url.isascii() or re.search(r"[\x00-\x20\x7f\\\"<>^`|]", url):
            raise ConfigurationError(f"{expected}, in ASCII and percent-encoded, got {shown}")
        try:
            # A placeholder is a letter here: the parser must not stumble over braces.
            parts = urlsplit(_PLACEHOLDER.sub("x", url))
            port = parts.port
        except ValueError as error:
            raise ConfigurationError(f"{expected}: {error}") from None
        whole = re.fullmatch(r"([a-zA-Z]+)://([^/?#]*)([^?#]*)(?:\?([^#]*))?", url)
        if whole is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"{expected}, without a fragment, got {shown}")
        scheme, authority, path, query = whole.groups()
        if "@" in authority:
            raise ConfigurationError("url: must not hold credentials; pass headers={'Authorization': '${…}'}")
        self.scheme = scheme.lower()
        self.port = port or (443 if self.scheme == "https" else 80)
        self.host = _check_host(re.sub(r":\d*$", "", authority))
        self.path = path or "/"
        self.query = query or ""
        rest = _PLACEHOLDER.sub("", url)
        if re.search(r"[{}]", rest):
            raise ConfigurationError(
                f"url: a placeholder is {{name}}, and stands in the host, the path or the query; got {shown}"
            )

    @property
    def required(self) -> list[str]:
        """The arguments that it cannot do without."""
        return [*names_in(self.host), *names_in(self.path)]

    @property
    def names(self) -> list[str]:
        """All arguments that have a place in it."""
        return [*self.required, *names_in(self.query)]

    @property
    def shapes_host(self) -> bool:
        """Whether an argument has a part in where the request goes."""
        return bool(names_in(self.host))

    def fill_host(self, args: Arguments) -> str:
        """The host, for `HTTPRequest.host`.

        Raises:
            ToolInputError: An argument is missing, or is no part of a host's label.
        """
        host = _filled(self.host, args, _label_part)
        for label in host.split(".") if self.shapes_host else ():
            if not _LABEL.fullmatch(label):
                raise ToolInputError(f"{' and '.join(names_in(self.host))}: {clip(repr(label))} is no label of a host")
        try:
            parsed = parse_host(host)
        except ValueError as error:
            raise ToolInputError(f"{' and '.join(names_in(self.host))}: {error}") from None
        return f"[{parsed}]" if not isinstance(parsed, str) and parsed.version == 6 else str(parsed)

    def fill_path(self, args: Arguments) -> str:
        """The path, each argument within its segment.

        Raises:
            ToolInputError: An argument is missing, or could be read as more than one segment's content.
        """
        return _filled(self.path, args, segment_part)

    def fill_query(self, args: Arguments) -> list[str]:
        """The pieces of its own query; one whose argument was left out is left out."""
        pieces = self.query.split("&") if self.query else []
        return [
            _filled(piece, args, lambda name, text: quote(text, safe=""))
            for piece in pieces
            if all(args.get(name) is not None for name in names_in(piece))
        ]


def _check_host(host: str) -> str:
    try:
        parse_host(_PLACEHOLDER.sub("x", host))
    except ValueError as error:
        raise ConfigurationError(f"url: {error}") from None
    fixed = host.removesuffix(".").split(".")[-2:]
    if names_in(host) and (len(fixed) < 2 or any(names_in(label) for label in fixed)):
        raise ConfigurationError(
            f"url: the host {host!r} would come from the arguments; its last two labels must be fixed, as in "
            "'https://{tenant}.example.com'"
        )
    return host


def _label_part(name: str, text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,63}", text):
        raise ToolInputError(f"{name}: expected letters, digits and '-', part of a host's name, got {as_json(text)}")
    return text


def segment_part(name: str, text: str) -> str:
    """An argument as a segment of a path, or as a part of one.

    Everything that is not unreserved is percent-encoded, so that nothing in an argument ends the segment (RFC 3986,
    section 2.2). That is not enough where a server decodes `%2F`, or decodes twice, before it looks at dots: so what
    would climb then is refused, as are control characters, which some servers write into headers or logs. A segment
    cannot become `..` out of parts either, since `.` and nothing are refused as parts.

    Raises:
        ToolInputError: The argument is empty, or refused.
    """
    if not text:  # `/users/` is another resource than `/users/{id}`
        raise ToolInputError(f"{name}: expected text that is not empty")
    plain = text
    for _ in range(4):  # decoded as often as a chain of proxies might
        if _CONTROL.search(plain):
            raise ToolInputError(f"{name}: control characters are not allowed, got {as_json(text)}")
        if any(part.partition(";")[0] in (".", "..") for part in re.split(r"[/\\]", plain)):
            raise ToolInputError(f"{name}: '.' and '..' would lead to another path, got {as_json(text)}")
        plain = unquote(plain)
    return quote(text, safe="")


def query_piece(name: str, key: str, value: Any) -> list[str]:  # Any: JSON
    """`key=value`, encoded; of a list one for each item, of `None` none.

    Raises:
        ToolInputError: A value has no text; `name` is the argument to blame.
    """
    if value is None:
        return []
    values = value if is_array(value) else [value]
    return [f"{quote(key, safe='')}={quote(as_text(name, item), safe='')}" for item in values]


# -- headers

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2, "token"
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?|")
_OWN_HEADERS = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
    "proxy-authorization", "proxy-connection", "accept-encoding",
})  # fmt: skip
_PRIVATE = re.compile(r"auth|cookie|key|token|secret|passw|credential|session|signature", re.IGNORECASE)
_SHORTEST_SECRET = 6
"""Characters; a shorter value is a flag or a version, and replacing it would garble replies."""


class HeaderTemplates:
    """Headers of every request; none of their values shows up in any `repr`."""

    def __init__(self, headers: Mapping[str, str] | None) -> None:
        """Check headers.

        Raises:
            ConfigurationError: One of them cannot be sent, or an environment variable is not set.
        """
        if headers is not None and not isinstance(headers, Mapping):
            raise ConfigurationError(f"headers: expected a dict, got {type(headers).__name__}")
        self._templates: dict[str, str] = {}
        for name, value in (headers or {}).items():
            if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
                raise ConfigurationError(f"headers: {clip(repr(name))} is no header name")
            if name.lower() in _OWN_HEADERS:
                raise ConfigurationError(f"headers[{name!r}]: set by the library itself")
            if not isinstance(value, str):
                raise ConfigurationError(f"headers[{name!r}]: expected a str, got {type(value).__name__}")
            self._templates[name] = value
        for name, value in self._templates.items():
            _check_header(name, _PLACEHOLDER.sub("x", _VARIABLE.sub("x", value)))
            _with_variables(name, value)

    def __repr__(self) -> str:
        return f"<headers {', '.join(self._templates) or '(none)'}>"

    @property
    def names(self) -> list[str]:
        """The arguments that have a place in them."""
        return [argument for value in self._templates.values() for argument in names_in(value)]

    def fill(self, args: Arguments) -> tuple[list[tuple[str, str]], list[str]]:
        """The headers, and the texts in them that are secret; one whose argument was left out is left out.

        Raises:
            ToolInputError: An argument cannot stand in a header.
            ConfigurationError: An environment variable is not set any more.
        """
        headers: list[tuple[str, str]] = []
        secrets: list[str] = []
        for name, template in self._templates.items():
            if any(args.get(argument) is None for argument in names_in(template)):
                continue
            value, private = _with_variables(name, template, args)
            headers.append((name, value))
            secrets += private
            if _PRIVATE.search(name) and not names_in(template):
                secrets += [value, value.rpartition(" ")[2]]  # also without "Bearer"
        return headers, [secret for secret in dict.fromkeys(secrets) if len(secret) >= _SHORTEST_SECRET]


def header_part(name: str, text: str) -> str:
    """An argument that is to stand in a header.

    Raises:
        ToolInputError: It is not one line of ASCII.
    """
    if not _HEADER_VALUE.fullmatch(text):
        raise ToolInputError(f"{name}: expected ASCII text on one line, for a header, got {as_json(text)}")
    return text


def _check_header(name: str, value: str) -> str:
    if not _HEADER_VALUE.fullmatch(value):
        raise ConfigurationError(f"headers[{name!r}]: expected ASCII text on one line, without white space at its ends")
    return value


def _with_variables(name: str, template: str, args: Arguments | None = None) -> tuple[str, list[str]]:
    """The value, and what came from the environment; without `args` placeholders stay."""
    private: list[str] = []
    pieces: list[str] = []
    end = 0
    for match in _VARIABLE.finditer(template):
        value = os.environ.get(match[1], "").strip()  # a file that was read into a variable ends with a newline
        if not value:
            raise ConfigurationError(f"headers[{name!r}]: the environment variable {match[1]} is not set")
        private.append(_check_header(name, value))
        pieces += [template[end : match.start()], value]
        end = match.end()
    pieces.append(template[end:])
    if args is not None:  # the pieces between, never what the environment said
        pieces[::2] = [_filled(piece, args, header_part) for piece in pieces[::2]]
    return "".join(pieces), private


# -- bodies and queries


class JSONTemplate:
    """A value with placeholders in its texts; a text that is one placeholder becomes the argument itself."""

    def __init__(self, where: str, template: Any) -> None:  # Any: JSON
        """Check a template.

        Raises:
            ConfigurationError: It asks for environment variables.
        """
        self.template = template
        self.names: list[str] = []
        for text in _texts(template):
            if _VARIABLE.search(text):
                raise ConfigurationError(f"{where}: ${{…}} is read in headers only, got {clip(repr(text))}")
            self.names += names_in(text)

    def fill(self, args: Arguments) -> Any:  # Any: JSON
        """The value; a member or item whose argument was left out is left out, the whole is `None` then."""
        return _fill_json(self.template, args)


def _texts(value: Any) -> Iterator[str]:  # Any: JSON
    if isinstance(value, str):
        yield value
    for child in value.values() if is_object(value) else value if is_array(value) else ():
        yield from _texts(child)


def _fill_json(template: Any, args: Arguments) -> Any:  # Any: JSON
    if isinstance(template, str):
        whole = _PLACEHOLDER.fullmatch(template)
        return args.get(whole[1]) if whole else _filled(template, args, lambda name, text: text)
    if is_object(template):
        return {key: _fill_json(value, args) for key, value in template.items() if _is_given(value, args)}
    if is_array(template):
        return [_fill_json(value, args) for value in template if _is_given(value, args)]
    return template


def _is_given(template: Any, args: Arguments) -> bool:  # Any: JSON
    return not isinstance(template, str) or all(name in args for name in names_in(template))
