"""REST endpoints as tools: one tool, one request."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..errors import ConfigurationError
from ..messages import ImagePart
from ..tool import Tool, ToolContext, ToolInputError, ToolResult
from .addresses import Addresses, AddressPolicy, address_policy
from .function import Approval, define_tool
from .http_messages import HTTPReply, HTTPRequest
from .json_schema import check_schema
from .misfits import clip, describe
from .placeholders import Arguments, HeaderTemplates, JSONTemplate, URLTemplate, query_piece

Result = Literal["text", "json"] | Callable[[HTTPReply], object]
"""What a tool makes of a reply: its text, its JSON without white space, or whatever a function of yours returns."""

_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # RFC 9110, section 9.2.1, without TRACE
_MAX_BYTES = 1024 * 1024
_ERROR_CHARACTERS = 2000
"""Of an error's body: enough for what an API says about it, not for a page of HTML."""
FORM = "application/x-www-form-urlencoded"
_ACCEPT = "application/json, text/*;q=0.9, */*;q=0.5"


def http_tool(
    name: str,
    description: str,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, Any] | None = None,  # Any: JSON
    body: Any = None,  # Any: JSON
    input_schema: Mapping[str, Any] | None = None,  # Any: JSON
    timeout: float = 30.0,
    result: Result = "text",
    addresses: Addresses | None = None,
    max_bytes: int = _MAX_BYTES,
    approval: Approval = False,
) -> Tool:
    """Make a tool that sends one HTTP request.

    `{name}` stands for an argument, in `url`, `headers`, `query` and `body`. In the path it is encoded as one
    segment, and refused where it could lead to another path. Scheme, port and the last two labels of the host are
    fixed; `https://{tenant}.example.com` is as far as arguments reach. An argument that has no place of its own goes
    into the query, with POST, PUT and PATCH into the JSON body, if that place was not given; so in the simplest case
    `url` and `input_schema` say everything.

    A reply that is not 2xx is an error result with the status and the start of its body; redirects are not followed,
    and proxies of the environment are not used. Under the async client a cancelled call drops its connection at once;
    under the sync client it runs in the client's own loop thread.

    Args:
        name: What the model calls it.
        description: What the model is told it does.
        method: GET, POST and so on.
        url: Where the request goes; `http` or `https`.
        headers: Added to the request. `${NAME}` in a value is read from the environment at each call; those values,
            and those of headers such as `Authorization`, show up in no `repr`, log or error, and are taken out of
            replies.
        query: Added to the URL: texts with placeholders, numbers, booleans, or lists of them. One whose argument is
            left out is left out; an argument that is a list comes once for each item.
        body: Any JSON with placeholders in its texts; `"{name}"` alone becomes the argument itself, of any type. Sent
            as JSON, or as a form if `headers` has `Content-Type: application/x-www-form-urlencoded`.
        input_schema: JSON Schema of the arguments; without one each placeholder is a required text. Closed unless
            it has `additionalProperties`.
        timeout: Seconds for the whole exchange.
        result: `"text"`, `"json"`, or a function of the `HTTPReply`, for 2xx replies. An image becomes an `ImagePart`.
        addresses: Which addresses it may connect to: `"public"`, `"any"`, or a list of networks that are allowed
            besides the public ones. `None`: `"public"` where an argument has a part in the host, else `"any"`.
        max_bytes: How much of a reply is read; a longer text is cut, longer JSON or an image is an error.
        approval: Whether a human must agree before it runs, or a predicate on the arguments that says so.

    Raises:
        ConfigurationError: Something in it cannot work; the message names it.
    """
    endpoint = _Endpoint(name, method, url, headers, query, body, input_schema)
    if addresses is None:
        addresses = "public" if endpoint.url.shapes_host else "any"
    return request_tool(
        name,
        description,
        endpoint.schema,
        endpoint.request,
        shown=f"{endpoint.method} {clip(url.partition('?')[0])}",
        idempotent=endpoint.method in SAFE_METHODS,
        timeout=timeout,
        result=result,
        policy=address_policy(addresses),
        max_bytes=max_bytes,
        approval=approval,
    )


class _Endpoint:
    """The templates of one `http_tool`, checked against each other."""

    def __init__(
        self,
        name: str,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        query: Mapping[str, Any] | None,  # Any: JSON
        body: Any,  # Any: JSON
        input_schema: Mapping[str, Any] | None,  # Any: JSON
    ) -> None:
        if not isinstance(method, str) or not re.fullmatch(r"[A-Za-z]{1,20}", method) or method.upper() == "CONNECT":
            raise ConfigurationError(f"tool {name!r}: method: expected GET, POST or the like, got {clip(repr(method))}")
        if query is not None and not isinstance(query, Mapping):
            raise ConfigurationError(f"tool {name!r}: query: expected a dict, got {type(query).__name__}")
        self.method = method.upper()
        try:
            self.url = URLTemplate(url)
            self._headers = HeaderTemplates(headers)
            self._query = {str(key): JSONTemplate(f"query[{key!r}]", value) for key, value in (query or {}).items()}
            self._body = JSONTemplate("body", _plain("body", body))
            placed = [
                *self.url.names,
                *self._headers.names,
                *(name for template in self._query.values() for name in template.names),
                *self._body.names,
            ]
            self.schema = _schema(input_schema, self.url.required, placed)
        except ConfigurationError as error:
            raise ConfigurationError(f"tool {name!r}: {error}") from None
        has_body = self.method in _BODY_METHODS
        self._placed = frozenset(placed)
        self._rest = None if (body if has_body else query) is not None else "body" if has_body else "query"
        given = {key.lower(): value for key, value in (headers or {}).items()}
        self._is_form = given.get("content-type", "").partition(";")[0].strip().lower() == FORM
        self._defaults = [pair for pair in (("accept", _ACCEPT), ("user-agent", "toolnexus")) if pair[0] not in given]
        self._names_type = "content-type" in given
        lost = next((key for key in self.schema["properties"] if key not in self._placed), None)
        if lost is not None and self._rest is None:
            raise ConfigurationError(
                f"tool {name!r}: the argument {lost!r} has no place; write {{{lost}}} in url, headers, query or body"
            )

    def request(self, args: Arguments) -> HTTPRequest:
        headers, secrets = self._headers.fill(args)
        rest = {key: value for key, value in args.items() if key not in self._placed}
        if rest and self._rest is None:
            raise ToolInputError(f"{clip(next(iter(rest)), 100)}: unknown argument")
        pieces = self.url.fill_query(args)
        for key, template in self._query.items():
            if all(args.get(name) is not None for name in template.names):
                blame = template.names[0] if template.names else f"query[{key!r}]"
                pieces += query_piece(blame, key, template.fill(args))
        if self._rest == "query":
            pieces += [piece for key, value in rest.items() for piece in query_piece(key, key, value)]
        content = rest or None if self._rest == "body" else self._body.fill(args)
        body = None
        if content is not None:
            body = form_body(content) if self._is_form else json_body(content)
            if not self._names_type:
                headers.append(("content-type", "application/json"))
        path = self.url.fill_path(args)
        return HTTPRequest(
            method=self.method,
            scheme=self.url.scheme,
            host=self.url.fill_host(args),
            port=self.url.port,
            target="?".join([path, "&".join(pieces)] if pieces else [path]),
            headers=(*self._defaults, *headers),
            body=body,
            secrets=tuple(secrets),
        )


def _plain(where: str, value: Any) -> Any:  # Any: JSON
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where}: expected plain JSON data, but {error}") from None


def _schema(given: Mapping[str, Any] | None, required: Sequence[str], placed: Sequence[str]) -> dict[str, Any]:
    """The schema of the arguments: closed, and what the URL cannot do without is required."""
    if given is None:
        properties: dict[str, Any] = {name: {"type": "string"} for name in placed}  # Any: JSON
        return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    schema = check_schema(given)
    lost = next((name for name in placed if name not in schema["properties"]), None)
    if lost is not None:
        known = ", ".join(schema["properties"]) or "it has none"
        raise ConfigurationError(f"the placeholder {{{lost}}} is no property of input_schema ({clip(known)})")
    needed = [*dict.fromkeys([*schema.get("required", ()), *required])]
    return {"additionalProperties": False, **schema, **({"required": needed} if needed else {})}


def json_body(content: Any) -> bytes:  # Any: JSON
    """`content` as JSON; lone surrogates, which UTF-8 cannot hold, stay escaped."""
    try:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def form_body(content: Any) -> bytes:  # Any: JSON
    """`content`, an object, as a form.

    Raises:
        ToolInputError: A value has no text.
    """
    if not isinstance(content, dict):
        raise ToolInputError("body: expected an object, for a form")
    return "&".join(piece for key, value in content.items() for piece in query_piece(key, key, value)).encode()


# -- the tool


def request_tool(
    name: str,
    description: str,
    input_schema: Mapping[str, Any],  # Any: JSON
    make: Callable[[Arguments], HTTPRequest],
    *,
    shown: str,
    idempotent: bool,
    timeout: float,
    result: Result,
    policy: AddressPolicy,
    max_bytes: int,
    approval: Approval,
) -> Tool:
    """A tool that sends what `make` makes of its arguments; `make` raises `ToolInputError` where it cannot."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < 4_000_000:
        raise ConfigurationError(f"tool {name!r}: timeout: expected seconds above 0, got {clip(repr(timeout))}")
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
        raise ConfigurationError(f"tool {name!r}: max_bytes: expected a positive int, got {clip(repr(max_bytes))}")
    if result not in ("text", "json") and not callable(result):
        raise ConfigurationError(
            f"tool {name!r}: result: expected 'text', 'json' or a function, got {clip(repr(result))}"
        )
    sender = _Sender(name, shown, make, policy, float(timeout), max_bytes, result)
    tool = define_tool(
        sender,
        name=name,
        description=description,
        input_schema=input_schema,
        approval=approval,
        idempotent=idempotent,
    )
    return replace(tool, bind=functools.partial(sender.bind, tool.bind))


class _Sender:
    """What runs an HTTP tool; calling it with the arguments by name does the same, unchecked."""

    def __init__(
        self,
        name: str,
        shown: str,
        make: Callable[[Arguments], HTTPRequest],
        policy: AddressPolicy,
        timeout: float,
        max_bytes: int,
        result: Result,
    ) -> None:
        self._name = name
        self._shown = shown
        self._make = make
        self._policy = policy
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._result = result

    def __repr__(self) -> str:
        return f"<{self._shown}>"

    async def __call__(self, /, **arguments: Any) -> object:  # Any: JSON
        return await self._send(self._make(arguments))

    def bind(
        self,
        check: Callable[[dict[str, Any], ToolContext], object],
        args: dict[str, Any],  # Any: JSON
        ctx: ToolContext,
    ) -> Callable[[], object]:
        """Check the arguments by the schema, and whether they make a request, before anybody is asked to approve."""
        check(args, ctx)
        return functools.partial(self._send, self._make(args))

    async def _send(self, request: HTTPRequest) -> object:
        from .exchange import ExchangeError, exchange  # with asyncio and ssl, which take a while to import

        try:
            reply = await exchange(request, self._policy, timeout=self._timeout, max_bytes=self._max_bytes)
        except ExchangeError as error:
            return ToolResult(str(error), is_error=True)
        reply = _redacted(reply, request.secrets)
        metadata: dict[str, Any] = {"status": reply.status, "url": reply.url}  # Any: JSON
        if not 200 <= reply.status < 300:
            return ToolResult(_failure(reply), is_error=True, metadata=metadata)
        if callable(self._result):
            return self._result(reply)
        return replace(_read(reply, self._result), metadata=metadata)


def _redacted(reply: HTTPReply, secrets: Sequence[str]) -> HTTPReply:
    """The reply without what a server repeats of the keys that it got."""
    body, headers = reply.body, dict(reply.headers)
    for secret in sorted(secrets, key=len, reverse=True):
        body = body.replace(secret.encode(), b"[redacted]")
        if reply.is_cut:  # in the middle of one, perhaps
            body = body[
                : len(body) - next((n for n in range(len(secret), 0, -1) if body.endswith(secret[:n].encode())), 0)
            ]
        headers = {name: value.replace(secret, "[redacted]") for name, value in headers.items()}
    return replace(reply, body=body, headers=headers)


def _failure(reply: HTTPReply) -> str:
    lines = [f"status {reply.status}"]
    if 300 <= reply.status < 400 and (to := reply.headers.get("location")):
        lines[0] += f": redirects are not followed, this one leads to {clip(to)}"
    text = reply.text[: 2 * _ERROR_CHARACTERS].strip()
    if text and (reply.content_type.startswith("text/") or "json" in reply.content_type or "xml" in reply.content_type):
        lines.append(clip(text, _ERROR_CHARACTERS))
    return "\n".join(lines)


def _read(reply: HTTPReply, form: str) -> ToolResult:
    """What a 2xx reply becomes."""
    if form == "json":
        try:
            value = reply.json()
            return ToolResult(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        except (ValueError, RecursionError) as error:
            return _unreadable(reply, f"expected JSON, got {reply.content_type or 'no type'} ({clip(describe(error))})")
    if reply.content_type in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        if reply.is_cut:
            return _unreadable(reply, f"the image is larger than {len(reply.body)} bytes")
        return ToolResult((ImagePart(data=reply.body, media_type=reply.content_type),))
    if b"\0" in reply.body and "charset=utf-16" not in reply.headers.get("content-type", "").lower():
        return _unreadable(reply, f"expected text, got {reply.content_type or 'bytes without a type'}")
    cut = f"\n[cut: the reply is longer than {len(reply.body)} bytes]" if reply.is_cut else ""
    return ToolResult(reply.text + cut)


def _unreadable(reply: HTTPReply, why: str) -> ToolResult:
    return ToolResult(f"status {reply.status}, but the reply cannot be shown: {why}", is_error=True)
