"""One operation of an OpenAPI document: its arguments, and the request that they make.

Source: OpenAPI 3.0.4 and 3.1.1, "Parameter Object" and its "Style Values"; RFC 6570 behind them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..tool import ToolInputError
from .http import FORM, form_body, json_body
from .http_messages import HTTPRequest
from .json_schema import is_array, is_object
from .misfits import as_json
from .openapi_schemas import Json
from .placeholders import Arguments, HeaderTemplates, URLTemplate, as_text, header_part, segment_part


@dataclass(frozen=True, slots=True)
class Parameter:
    key: str
    """The argument."""
    name: str
    where: str
    style: str
    explode: bool
    is_json: bool
    required: bool
    schema: Json


@dataclass(frozen=True, slots=True)
class Body:
    key: str
    media: str
    required: bool
    schema: Json
    deep: frozenset[str]
    """Members of a form that are written `name[key]=value`."""

    def encoded(self, value: Any) -> bytes:  # Any: JSON
        kind = self.media.partition(";")[0].strip().lower()
        if kind == FORM:
            if not is_object(value):
                raise ToolInputError(f"{self.key}: expected an object, for a form, got {as_json(value)}")
            return form_body(dict(_form(self.key, value, self.deep)))
        if kind.startswith("text/"):
            return as_text(self.key, value).encode()
        return json_body(value)


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    description: str
    method: str
    path: str
    base: URLTemplate
    parameters: list[Parameter]
    body: Body | None

    @property
    def schema(self) -> Json:
        """The arguments."""
        fields: list[Parameter | Body] = [*self.parameters, *([self.body] if self.body else [])]
        required = [field.key for field in fields if field.required]
        return {
            "type": "object",
            "properties": {field.key: field.schema for field in fields},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def request(self, args: Arguments, common: HeaderTemplates) -> HTTPRequest:
        headers, secrets = common.fill({})
        own = {name.lower() for name, _ in headers}
        pieces = self.base.fill_query({})
        cookies: list[str] = []
        for parameter in self.parameters:
            value = args.get(parameter.key)
            if value is None or parameter.where == "path":
                continue
            if parameter.where == "query":
                pieces += _query(parameter, value)
            elif parameter.where == "cookie":
                cookies += _query(parameter, value)
            elif parameter.name.lower() not in own:  # yours win
                headers.append((parameter.name, _simple(parameter, value, header_part)))
        body = None
        if self.body is not None and self.body.key in args:
            body = self.body.encoded(args[self.body.key])
            headers.append(("content-type", self.body.media))
        if cookies:
            given = [value for name, value in headers if name.lower() == "cookie"]
            headers = [pair for pair in headers if pair[0].lower() != "cookie"]
            headers.append(("cookie", "; ".join([*given, *cookies])))
        for name, value in (("accept", "application/json, */*;q=0.5"), ("user-agent", "toolnexus")):
            if name not in own:
                headers.append((name, value))
        path = self.base.fill_path({}).rstrip("/") + self._path(args)
        return HTTPRequest(
            method=self.method,
            scheme=self.base.scheme,
            host=self.base.fill_host({}),
            port=self.base.port,
            target="?".join([path, "&".join(pieces)] if pieces else [path]),
            headers=tuple(headers),
            body=body,
            secrets=tuple(secrets),
        )

    def _path(self, args: Arguments) -> str:
        by_name = {parameter.name: parameter for parameter in self.parameters if parameter.where == "path"}

        def fill(match: re.Match[str]) -> str:
            parameter = by_name[match[1]]
            if args.get(parameter.key) is None:
                raise ToolInputError(f"{parameter.key}: required, but missing")
            return _simple(parameter, args[parameter.key], segment_part)

        filled = re.sub(r"\{([^{}]+)\}", fill, self.path)
        return quote(filled, safe="/%:@!$&'()*+,;=-._~")


def _simple(parameter: Parameter, value: Any, encode: Any) -> str:  # Any: JSON; a function of name and text
    """Style `simple`: items joined by commas."""
    if parameter.is_json:
        return str(encode(parameter.key, json_body(value).decode()))
    if is_object(value):
        joint = "=" if parameter.explode else ","
        items = [f"{encode(parameter.key, str(k))}{joint}{_text(parameter, v, encode)}" for k, v in value.items()]
        return ",".join(items)
    return ",".join(_text(parameter, item, encode) for item in (value if is_array(value) else [value]))


def _text(parameter: Parameter, value: Any, encode: Any) -> str:  # Any: as above
    return str(encode(parameter.key, as_text(parameter.key, value)))


def _query(parameter: Parameter, value: Any) -> list[str]:  # Any: JSON
    """The pieces `name=value` of a parameter in the query or in a cookie."""
    name, key = quote(parameter.name, safe=""), parameter.key

    def encode(key: str, text: str) -> str:
        return quote(text, safe="")

    if parameter.is_json:
        return [f"{name}={encode(key, json_body(value).decode())}"]
    if parameter.style == "deepObject" and is_object(value):
        return [f"{quote(k, safe='')}={encode(key, as_text(key, v))}" for k, v in _deep(parameter.name, value)]
    if is_object(value) and parameter.explode:
        return [f"{quote(str(k), safe='')}={_text(parameter, v, encode)}" for k, v in value.items()]
    if is_array(value) and parameter.explode:
        return [f"{name}={_text(parameter, item, encode)}" for item in value]
    if is_array(value):
        joint = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(parameter.style, ",")
        return [f"{name}={joint.join(_text(parameter, item, encode) for item in value)}"]
    return [f"{name}={_simple(parameter, value, encode)}"]


def _deep(name: str, value: Any) -> Iterator[tuple[str, Any]]:  # Any: JSON
    """`name[key]`, as deep as it goes; what PHP and Rails read. OpenAPI leaves lists and deeper objects open."""
    if is_object(value):
        for key, child in value.items():
            yield from _deep(f"{name}[{key}]", child)
    elif is_array(value):
        for child in value:
            yield from _deep(f"{name}[]", child)
    elif value is not None:
        yield name, value


def _form(key: str, value: Json, deep: frozenset[str]) -> Iterator[tuple[str, Any]]:  # Any: JSON
    for name, child in value.items():
        if name in deep and is_object(child):
            members: dict[str, list[Any]] = {}  # Any: JSON
            for path, leaf in _deep(name, child):
                members.setdefault(path, []).append(leaf)
            yield from members.items()
        elif is_object(child):  # OpenAPI 3.1, "Encoding Object": an object is written as JSON
            yield name, json.dumps(child)
        else:
            yield name, child
