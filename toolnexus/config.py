"""What a client was configured with, checked once: endpoint, key, timeouts, parameters.

Everything that can be refused is refused here, at construction, with the argument's name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, Protocol, TypedDict
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from .cancel import Cancel
from .errors import APIStatusError, ConfigurationError, ToolnexusError
from .limits import Limits
from .messages import ImagePart, Message, TextPart
from .retry import RetryPolicy

Style = Literal["openai", "anthropic"]
Prompt = str | Sequence[TextPart | ImagePart]
History = Sequence[Message] | Sequence[Mapping[str, Any]]


class CallOptions(TypedDict, total=False):
    """What one call may set otherwise than its client."""

    history: History | None
    """Messages before the prompt: `Message` objects, or OpenAI- or Anthropic-shaped dicts. Not together with `id`."""
    cancel: Cancel | None
    """Ends the run from outside."""
    deadline: float | None
    """Seconds for the whole run."""
    max_turns: int | None
    request_params: Mapping[str, Any] | None
    """Laid over those of the client."""
    model: str | None
    system_prompt: str | None
    max_tokens: int | None
    """Tokens that one response may have; Anthropic's API wants a number and gets 8192."""
    temperature: float | None
    stop: str | Sequence[str] | None
    """Text at which the model stops."""
    tool_choice: str | None
    """`"auto"`, `"none"`, `"required"`, or the name of a tool; for the first response of the run."""
    parallel_tool_calls: bool | None
    """Whether one response may ask for several tools."""


_STYLES: tuple[Style, ...] = ("openai", "anthropic")
_DEFAULT_BASE_URLS: dict[Style, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_BASE_URL_VARIABLES: dict[Style, str] = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
_KEY_VARIABLES: dict[Style, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_AGES_S = 4_000_000.0
"""46 days, as good as for ever: some operating systems' waits take no more."""
_RESERVED_PARAMS = frozenset({"messages", "tools", "stream", "model"})
_RESERVED_HEADERS = frozenset({"content-length", "transfer-encoding", "host", "connection"})


class TimeoutLike(Protocol):
    """What `httpx.Timeout` is, so that httpx need not be imported to say so."""

    connect: float | None
    read: float | None
    write: float | None
    pool: float | None


class Secret:
    """A string that shows up nowhere: not in `repr`, not in `vars`, not in a pickle."""

    __slots__ = ("_reveal",)

    def __init__(self, value: str) -> None:
        self._reveal: Callable[[], str] = lambda: value

    def __repr__(self) -> str:
        return "Secret('…')"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")

    def reveal(self) -> str:
        """The string itself, for the one place that sends it."""
        return self._reveal()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait; `None` waits for ever."""

    connect: float | None = 10.0
    read: float | None = 300.0
    """Between two bytes, comments included. Models may think in silence for minutes."""
    write: float | None = 60.0
    pool: float | None = None
    """For a free connection of the caller's own `http_client`; ours has no limit to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The checked arguments of a client."""

    style: Style
    url: str
    """Where requests go, without a query."""
    query: tuple[tuple[str, str], ...] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    api_key: Secret | None
    auth_token: Secret | None
    anthropic_version: str
    model: str
    system_prompt: str | None
    max_turns: int
    retry: RetryPolicy
    timeouts: Timeouts
    timeout_given: bool
    """Whether `timeouts` win over those of a caller's `http_client`."""
    progress_timeout: float | None
    deadline: float | None
    request_params: Mapping[str, Any]
    body_transform: Callable[[dict[str, Any]], dict[str, Any]] | None
    split_think_tags: bool
    limits: Limits

    @property
    def origin(self) -> str:
        """Whom this client talks to, as a name for what only that provider understands."""
        return f"{self.style}:{urlsplit(self.url).netloc}"

    def auth_headers(self) -> dict[str, str]:
        """The headers that carry the key; made when a request is sent, kept nowhere."""
        if self.auth_token is not None:
            return {"authorization": f"Bearer {self.auth_token.reveal()}"}
        if self.api_key is None:
            return {}
        if self.style == "anthropic":
            return {"x-api-key": self.api_key.reveal()}
        return {"authorization": f"Bearer {self.api_key.reveal()}"}

    def hint(self, status: int | None) -> str:
        """What to look at first after an error with this status; empty where there is nothing to say."""
        if status in (404, 405):
            lacks_path = self.style == "openai" and urlsplit(self.url).path == "/chat/completions"
            base = "base_url (it has no path; most servers want /v1)" if lacks_path else "base_url"
            return f"are {base} and model right? POST {self.url}"
        # A header or the query of the user's own may hold a key, by a name that only that service knows.
        has_key = self.api_key or self.auth_token or self.headers or self.query
        if status in (401, 403) and not has_key:
            return f"no api_key was given, and {_key_variable(self.style, self.url)} is not set"
        return ""

    def redact(self, error: ToolnexusError) -> None:
        """Take the key out of an error: some services echo it."""
        for secret in (self.api_key, self.auth_token):
            if secret is None:
                continue
            key = secret.reveal()
            found: BaseException | None = error
            while found is not None:
                found.args = tuple(_without(key, arg) if isinstance(arg, str) else arg for arg in found.args)
                found = found.__cause__
            if isinstance(error, APIStatusError):
                error.message, error.body = _without(key, error.message), _without(key, error.body)
                error.kind = error.kind and _without(key, error.kind)
                error.request_id = error.request_id and _without(key, error.request_id)

    @classmethod
    def create(
        cls,
        *,
        base_url: str | None,
        style: str,
        model: str,
        api_key: str | None,
        auth_token: str | None,
        anthropic_version: str,
        headers: Mapping[str, str] | None,
        query: Mapping[str, str] | None,
        system_prompt: str | None,
        max_turns: int,
        retries: int,
        retry_base: float,
        max_retry_after: float,
        timeout: float | TimeoutLike | None,
        progress_timeout: float | None,
        deadline: float | None,
        request_params: Mapping[str, Any] | None,
        body_transform: Callable[[dict[str, Any]], dict[str, Any]] | None,
        split_think_tags: bool,
        limits: Limits | None,
    ) -> ClientConfig:
        """Check the arguments of a client.

        Raises:
            ConfigurationError: One of them cannot work.
        """
        if style not in _STYLES:
            raise ConfigurationError(f"style: expected one of {list(_STYLES)}, got {style!r}")
        if auth_token is not None and (style != "anthropic" or api_key is not None):
            raise ConfigurationError(
                "auth_token: for style='anthropic', in place of api_key; other styles send api_key as a bearer token"
            )
        url, url_query = _endpoint(style, base_url)
        if body_transform is not None and not callable(body_transform):
            raise ConfigurationError(f"body_transform: expected a function of the body, got {body_transform!r}")
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigurationError(f"limits: expected Limits(...), got {limits!r}")
        return cls(
            style=style,
            url=url,
            query=_merged(url_query, _query(query)),
            headers=_headers(headers),
            api_key=None if auth_token is not None else _api_key(style, url, api_key),
            auth_token=None if auth_token is None else _secret("auth_token", auth_token),
            anthropic_version=_version(anthropic_version),
            model=check_model(model),
            system_prompt=check_optional_text("system_prompt", system_prompt),
            max_turns=check_count("max_turns", max_turns, minimum=1),
            retry=RetryPolicy(
                retries=check_count("retries", retries, minimum=0),
                base=check_seconds("retry_base", retry_base, minimum=0.0),
                max_retry_after=check_seconds("max_retry_after", max_retry_after, minimum=0.0),
            ),
            timeouts=_timeouts(timeout),
            timeout_given=timeout is not None,
            progress_timeout=check_deadline(progress_timeout, "progress_timeout"),
            deadline=check_deadline(deadline),
            request_params=check_params(request_params),
            body_transform=body_transform,
            split_think_tags=bool(split_think_tags),
            limits=limits or Limits(),
        )


def _without(key: str, text: str) -> str:
    """`text` without `key`, and without its start where the text was cut in the middle of it."""
    text = text.replace(key, "[redacted]")
    end = text.rstrip("…'\"")
    cut = next((n for n in range(min(len(key), len(end)), 3, -1) if end.endswith(key[:n])), 0)
    return f"{end[:-cut]}[redacted]{text[len(end) :]}" if cut else text


# -- checks that a single call shares with the constructor


def check_model(model: object) -> str:
    """A model's name, sent verbatim."""
    if not isinstance(model, str) or not model.strip():
        raise ConfigurationError(f"model: expected the name of a model, got {model!r}")
    return model


def check_optional_text(name: str, value: object) -> str | None:
    """A str or `None`."""
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{name}: expected a str or None, got {type(value).__name__}")
    return value


def check_count(name: str, value: object, *, minimum: int) -> int:
    """An int from `minimum` on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ConfigurationError(f"{name}: expected an int of at least {minimum}, got {value!r}")
    return value


def check_seconds(name: str, value: object, *, minimum: float) -> float:
    """A number of seconds from `minimum` on."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= minimum:
        raise ConfigurationError(f"{name}: expected seconds, at least {minimum:g}, got {value!r}")
    return min(float(value), _AGES_S)


def check_deadline(value: object, name: str = "deadline") -> float | None:
    """Seconds above 0, or `None`."""
    if value is None:
        return None
    seconds = check_seconds(name, value, minimum=0.0)
    if seconds == 0:
        raise ConfigurationError(f"{name}: expected seconds above 0, or None for no {name}")
    return seconds


def check_params(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Members for the request body: JSON, and none of those that the loop itself fills in."""
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise ConfigurationError(f"request_params: expected a dict with str keys, got {params!r}")
    reserved = sorted(_RESERVED_PARAMS.intersection(params))
    if reserved:
        raise ConfigurationError(f"request_params: {reserved} are set by the client itself and cannot be given here")
    try:
        # A copy: what the caller does to it later must not change the requests of a run, or only some of them.
        copied: dict[str, Any] = json.loads(json.dumps(dict(params), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"request_params: expected JSON values: {error}") from None
    return copied


def check_temperature(value: object) -> float | None:
    """A number from 0 on, or `None`; how far it goes is the provider's affair."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
        raise ConfigurationError(f"temperature: expected a number of at least 0, got {value!r}")
    return value


def check_stop(value: object) -> tuple[str, ...]:
    """One text, or several."""
    texts = (value,) if isinstance(value, str) else () if value is None else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) and text for text in texts):
        raise ConfigurationError(f"stop: expected a str or a list of them, none empty, got {value!r}")
    return tuple(str(text) for text in texts)


def check_flag(name: str, value: object) -> bool | None:
    """A bool, or `None`."""
    if value is not None and not isinstance(value, bool):
        raise ConfigurationError(f"{name}: expected True, False or None, got {value!r}")
    return value


# -- checks of the constructor alone


def _endpoint(style: Style, base_url: str | None) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The URL that requests are posted to, and the query of `base_url`.

    A trailing slash, a query string and the full address of the endpoint all work.
    """
    source = "base_url"
    if base_url is None:
        source = _BASE_URL_VARIABLES[style]
        base_url = os.environ.get(source, "").strip() or _DEFAULT_BASE_URLS[style]
    parts = _split_url(source, base_url)
    path = parts.path.rstrip("/")
    if style == "openai":
        path = path.removesuffix("/chat/completions") + "/chat/completions"
    else:  # with and without the version: Anthropic's own SDK wants a base URL without it
        path = path.removesuffix("/messages").removesuffix("/v1") + "/v1/messages"
    url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    return url, tuple(parse_qsl(parts.query, keep_blank_values=True))


def _split_url(source: str, url: object) -> SplitResult:
    expected = "expected a URL such as 'http://127.0.0.1:8080/v1'"
    if not isinstance(url, str):
        raise ConfigurationError(f"{source}: {expected}, got {url!r}")
    shown = url.partition("?")[0]  # a query may hold a key
    if not url.isascii() or any(c <= " " or c == "\x7f" for c in url):
        raise ConfigurationError(f"{source}: {expected}, got {shown!r}")
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed, and refused, when it is asked for
    except ValueError as error:
        raise ConfigurationError(f"{source}: {expected}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{source}: {expected}, got {shown!r}")
    if "@" in parts.netloc:
        raise ConfigurationError(f"{source}: a URL must not hold credentials; use api_key= or headers=")
    return parts


def _api_key(style: Style, url: str, api_key: str | None) -> Secret | None:
    """The key; none at all is fine, local servers need none. A bad one is described, never shown."""
    source = "api_key"
    if api_key is None:
        source = _key_variable(style, url)
        api_key = os.environ.get(source, "").strip()  # a file that was read into a variable ends with a newline
        if not api_key:
            return None
    return _secret(source, api_key)


def _key_variable(style: Style, url: str) -> str:
    host = urlsplit(url).hostname or ""
    is_openrouter = host == "openrouter.ai" or host.endswith(".openrouter.ai")
    return "OPENROUTER_API_KEY" if is_openrouter and style == "openai" else _KEY_VARIABLES[style]


def _secret(source: str, key: object) -> Secret:
    if not isinstance(key, str):
        raise ConfigurationError(f"{source}: expected a str, got {type(key).__name__}")
    if not key.strip():
        raise ConfigurationError(f"{source}: expected a key, got a blank string; leave it out if the server needs none")
    if not key.isascii() or any(c < " " or c == "\x7f" for c in key) or key != key.strip():
        raise ConfigurationError(
            f"{source}: the key holds white space at an end, a control or a non-ASCII character, "
            "which no HTTP header can carry; was it read from a file without strip()?"
        )
    return Secret(key)


def _version(version: object) -> str:
    if not isinstance(version, str) or not re.fullmatch(r"[\x21-\x7e]+", version):
        raise ConfigurationError(f"anthropic_version: expected a version such as '2023-06-01', got {version!r}")
    return version


def _headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise ConfigurationError(f"headers: expected a dict, got {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not name or not name.isascii() or any(c <= " " or c in ':"' for c in name):
            raise ConfigurationError(f"headers: {name!r} is no header name")
        if not isinstance(value, str) or not value.isascii() or any(c in "\r\n\0" for c in value):
            raise ConfigurationError(f"headers[{name!r}]: expected ASCII text on one line")
        if name.lower() in _RESERVED_HEADERS:
            raise ConfigurationError(f"headers[{name!r}]: set by the HTTP library itself")
    return dict(headers)


def _query(query: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    if query is None:
        return ()
    if not isinstance(query, Mapping) or not all(isinstance(s, str) for item in query.items() for s in item):
        raise ConfigurationError("query: expected a dict of str to str")
    return tuple(query.items())


def _merged(first: tuple[tuple[str, str], ...], last: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Both queries; what the last one names is not taken from the first."""
    names = dict(last)
    return (*(pair for pair in first if pair[0] not in names), *last)


def _timeouts(timeout: float | TimeoutLike | None) -> Timeouts:
    if timeout is None:
        return Timeouts()
    if isinstance(timeout, (int, float)):
        seconds = check_seconds("timeout", timeout, minimum=0.0)
        if seconds == 0:
            raise ConfigurationError("timeout: expected seconds above 0, or None for the defaults")
        return Timeouts(read=seconds)
    try:
        return Timeouts(connect=timeout.connect, read=timeout.read, write=timeout.write, pool=timeout.pool)
    except AttributeError:
        raise ConfigurationError(f"timeout: expected seconds, httpx.Timeout or None, got {timeout!r}") from None
