"""The operations of an OpenAPI document as tools, one each.

Source: OpenAPI 3.0.4 and 3.1.1: "Parameter Object" (style, explode), "Request Body Object", "Server Object".
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..errors import ConfigurationError
from ..tool import Tool
from .addresses import Addresses, AddressPolicy, address_policy
from .function import Approval
from .http import FORM, SAFE_METHODS, Result, request_tool
from .http_messages import HTTPRequest
from .json_schema import is_array, is_object
from .misfits import clip
from .openapi_operation import Body, Operation, Parameter
from .openapi_schemas import Document, DocumentError, Json
from .placeholders import HeaderTemplates, URLTemplate
from .yaml_data import YAMLError, read_yaml

_log = logging.getLogger(__name__)

_MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
_MAX_VALUES = 2_000_000
_FETCH_S = 60.0
_DESCRIPTION = 1024
"""Characters; OpenAI takes no more."""
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_LOCATIONS = ("path", "query", "header", "cookie")
_NOT_PARAMETERS = frozenset({"accept", "content-type", "authorization"})  # "Parameter Object", `name`


def http_tools_from_openapi(
    document: str | os.PathLike[str] | Mapping[str, Any],  # Any: JSON
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    operations: Collection[str] | None = None,
    prefix: str = "",
    timeout: float = 30.0,
    result: Result = "text",
    addresses: Addresses = "any",
    max_bytes: int = 1024 * 1024,
    approval: Approval = False,
) -> list[Tool]:
    """Make one tool of each operation of an OpenAPI 3.0 or 3.1 document.

    A tool is named by its `operationId`, else by method and path, in at most 64 of the characters that model APIs
    take, and each name comes once. Its arguments are the parameters, under names that model APIs take, and `body`.
    Schemas are written out without references; one that contains itself ends where it begins anew. The endpoint is
    asked as `http_tool` asks it, with the same bounds and secrets.

    An operation that cannot be a tool (its only body is a file upload, a reference leads nowhere) is left out, and a
    warning is logged.

    Args:
        document: A path, a URL (which is fetched now; this blocks), or the document itself. YAML takes the extra
            `skills`.
        base_url: Where the endpoints are; else the first server that the document names. A document that was fetched
            does not choose another host than its own.
        headers: As for `http_tool`, such as `{"Authorization": "Bearer ${TOKEN}"}`; the document's own security
            schemes are not looked at.
        operations: The operations to take, by `operationId` or name of the tool.
        prefix: Put before each name, to tell two documents apart.
        timeout, result, addresses, max_bytes, approval: As for `http_tool`, for each of the tools.

    Raises:
        ConfigurationError: The document cannot be read, no server is known, or an operation asked for is not there.
    """
    root, url = _load(document)
    reader = _Operations(Document(root), url, base_url, prefix)
    common = HeaderTemplates(headers)
    if common.names:
        raise ConfigurationError(
            f"headers: the placeholder {{{common.names[0]}}} cannot be filled; no operation has it"
        )
    policy = address_policy(addresses)
    wanted = None if operations is None else _names("operations", operations)
    found: set[str] = set()
    tools: list[Tool] = []
    for id, operation in reader.all():
        names = {id, operation.name}
        if wanted is None or wanted & names:
            found |= names
            tools.append(_tool(operation, common, policy, timeout, result, max_bytes, approval))
    if wanted is not None and wanted - found:
        raise ConfigurationError(f"operations: {sorted(wanted - found)} are not in the document, or cannot be tools")
    return tools


def _names(argument: str, names: object) -> set[str]:
    if isinstance(names, str) or not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"{argument}: expected a list of names, got {clip(repr(names))}")
    return {str(name) for name in names}


def _tool(
    operation: Operation,
    headers: HeaderTemplates,
    policy: AddressPolicy,
    timeout: float,
    result: Result,
    max_bytes: int,
    approval: Approval,
) -> Tool:
    return request_tool(
        operation.name,
        operation.description,
        operation.schema,
        lambda args: operation.request(args, headers),
        shown=f"{operation.method} {operation.path}",
        idempotent=operation.method in SAFE_METHODS,
        timeout=timeout,
        result=result,
        policy=policy,
        max_bytes=max_bytes,
        approval=approval,
    )


# -- the document


def _load(source: object) -> tuple[Json, str | None]:
    """The document, and the URL that it was fetched from."""
    where, url = "document", None
    if isinstance(source, Mapping):
        try:
            root: Any = json.loads(json.dumps(source))  # Any: JSON; numbers as keys, of a YAML reader, become text
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"document: expected plain JSON data, but {error}") from None
    elif isinstance(source, str) and source.lower().startswith(("http://", "https://")):
        where = url = source
        root = _read(where, _fetch(source))
    elif isinstance(source, str | os.PathLike):
        where = str(source)
        try:
            with Path(source).open("rb") as file:
                data = file.read(_MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            raise ConfigurationError(f"document: cannot read {where!r}: {error.strerror}") from None
        root = _read(where, data)
    else:
        raise ConfigurationError(f"document: expected a path, a URL or a dict, got {type(source).__name__}")
    version = root.get("openapi") if is_object(root) else None
    if not isinstance(version, str) or not version.startswith(("3.0", "3.1")):
        raise ConfigurationError(
            f"{where}: expected an OpenAPI document with 'openapi': 3.0 or 3.1, got {clip(repr(version), 60)}"
            + ("; convert Swagger 2.0 first" if is_object(root) and "swagger" in root else "")
        )
    return root, url


def _read(where: str, data: bytes) -> Any:  # Any: JSON
    if len(data) > _MAX_DOCUMENT_BYTES:
        raise ConfigurationError(f"{where}: the document is larger than {_MAX_DOCUMENT_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
        if text.lstrip().startswith("{"):
            return json.loads(text)
        return read_yaml(text, max_values=_MAX_VALUES)
    except (ValueError, RecursionError, YAMLError) as error:
        raise ConfigurationError(f"{where}: cannot be read: {clip(str(error))}") from None


def _fetch(url: str) -> bytes:
    """The document at a URL, in a thread: there may be a running event loop in this one."""
    template = URLTemplate(url)
    request = HTTPRequest(
        method="GET",
        scheme=template.scheme,
        host=template.fill_host({}),
        port=template.port,
        target="?".join(part for part in (template.fill_path({}), template.query) if part),
        headers=(("accept", "application/json, application/yaml, */*;q=0.5"), ("user-agent", "toolnexus")),
    )
    outcome: list[bytes | Exception] = []

    def work() -> None:
        import asyncio  # slow to import, and not needed for a file

        from .exchange import exchange

        try:
            limit = _MAX_DOCUMENT_BYTES + 1
            reply = asyncio.run(exchange(request, AddressPolicy(True), timeout=_FETCH_S, max_bytes=limit))
            to = reply.headers.get("location")
            more = f"; redirects are not followed, it leads to {clip(to)}" if to else ""
            outcome.append(reply.body if reply.status == 200 else ValueError(f"status {reply.status}{more}"))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=work, name="toolnexus-openapi", daemon=True)
    thread.start()
    thread.join()
    if isinstance(outcome[0], Exception):
        raise ConfigurationError(f"document: cannot fetch {request.url}: {outcome[0]}")
    return outcome[0]


class _Operations:
    """The operations of a document, ready to be called."""

    def __init__(self, document: Document, url: str | None, base_url: str | None, prefix: str) -> None:
        self._document = document
        self._url = url
        self._base_url = None if base_url is None else URLTemplate(base_url)
        self._prefix = prefix
        self._taken: set[str] = set()
        if self._base_url is not None and self._base_url.names:
            raise ConfigurationError("base_url: there is no argument to fill a placeholder with")

    def all(self) -> Iterator[tuple[str, Operation]]:
        """Each operation with its id, which is empty without one; those that cannot be a tool are logged."""
        paths = self._document.root.get("paths")
        for path, raw_item in paths.items() if is_object(paths) else ():
            if not path.startswith("/"):  # `x-…`
                continue
            try:
                item = self._document.resolved(raw_item)
            except DocumentError as error:
                _log.warning("left out the operations of %s: %s", path, error)
                continue
            for method in item:
                if method not in _METHODS:
                    continue
                try:
                    raw = self._document.resolved(item[method])
                    operation = self._operation(path, method.upper(), item, raw)
                except DocumentError as error:
                    _log.warning("left out the operation %s %s: %s", method.upper(), path, error)
                    continue
                yield str(raw.get("operationId") or ""), operation

    def _operation(self, path: str, method: str, item: Json, operation: Json) -> Operation:
        parameters = self._parameters(path, item, operation)
        body = self._body(operation, {parameter.key for parameter in parameters})
        described = [operation.get("summary"), operation.get("description")]
        text = "\n\n".join(dict.fromkeys(part.strip() for part in described if isinstance(part, str) and part.strip()))
        return Operation(
            name=self._name(operation.get("operationId") or f"{method.lower()}{path}"),
            description=clip(text or f"{method} {path}", _DESCRIPTION),
            method=method,
            path=path,
            base=self._base_url or self._server(item, operation),
            parameters=parameters,
            body=body,
        )

    def _name(self, wanted: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", self._prefix + str(wanted)).strip("_") or "operation"
        candidates = (plain[: 64 - len(end)] + end for end in ("", *(f"_{n}" for n in range(2, len(self._taken) + 3))))
        name = next(candidate for candidate in candidates if candidate not in self._taken)
        self._taken.add(name)
        return name

    def _server(self, item: Json, operation: Json) -> URLTemplate:
        found = [part["servers"] for part in (operation, item, self._document.root) if part.get("servers")]
        server = self._document.resolved(found[0][0]) if found and is_array(found[0]) else {}
        url = server.get("url")
        text = str(url) if isinstance(url, str) else "/"
        variables = server.get("variables")
        for name, variable in variables.items() if is_object(variables) else ():
            text = text.replace(f"{{{name}}}", str(variable.get("default", "")) if is_object(variable) else "")
        if self._url is not None:
            text = urljoin(self._url, text)
        if not text.lower().startswith(("http://", "https://")):
            raise ConfigurationError(f"base_url: expected one, since the document's server is {clip(repr(url), 100)}")
        if self._url is not None and urlsplit(self._url)[:2] != urlsplit(text)[:2]:
            # The headers, keys among them, would go wherever whoever serves the document says.
            raise ConfigurationError(
                f"base_url: the document was fetched from {urlsplit(self._url).netloc!r} and names the server "
                f"{clip(text, 100)!r}; pass base_url= to say that this is right"
            )
        template = URLTemplate(text)
        if template.names:
            raise ConfigurationError(f"base_url: expected one, since the document's server is {clip(repr(url), 100)}")
        return template

    def _parameters(self, path: str, item: Json, operation: Json) -> list[Parameter]:
        declared: dict[tuple[str, str], Json] = {}
        for raw in [*_listed(item, "parameters"), *_listed(operation, "parameters")]:
            parameter = self._document.resolved(raw)
            declared[str(parameter.get("in")), str(parameter.get("name"))] = parameter
        for name in re.findall(r"\{([^{}]+)\}", path):  # some documents forget to declare them
            declared.setdefault(("path", name), {"schema": {"type": "string"}})
        found: list[Parameter] = []
        for where in _LOCATIONS:
            for (place, name), parameter in declared.items():
                if place != where or (where == "header" and name.lower() in _NOT_PARAMETERS):
                    continue
                if where == "path" and f"{{{name}}}" not in path:
                    continue
                key = _key(name, where, {other.key for other in found})
                found.append(self._parameter(key, name, where, parameter))
        return found

    def _parameter(self, key: str, name: str, where: str, parameter: Json) -> Parameter:
        schema, content = parameter.get("schema", {}), parameter.get("content")
        if is_object(content) and content:
            media, described = next(iter(content.items()))
            if not _is_json(media):
                raise DocumentError(f"the parameter {name!r} is sent as {media!r}")
            schema = described.get("schema", {}) if is_object(described) else {}
        style = str(parameter.get("style") or {"query": "form", "cookie": "form"}.get(where, "simple"))
        if where == "path" and style != "simple":
            raise DocumentError(f"the parameter {name!r} has the style {style!r}")
        read = self._document.schema(schema)
        if isinstance(text := parameter.get("description"), str) and text.strip():
            own = read.get("description")
            read["description"] = clip(text.strip(), 500) + (f" {own}" if own and own not in text else "")
        return Parameter(
            key=key,
            name=name,
            where=where,
            style=style,
            explode=bool(parameter.get("explode", style == "form")),
            is_json=is_object(content) and bool(content),
            required=where == "path" or parameter.get("required") is True,
            schema=read,
        )

    def _body(self, operation: Json, taken: set[str]) -> Body | None:
        if "requestBody" not in operation:
            return None
        body = self._document.resolved(operation["requestBody"])
        content = body.get("content")
        medias = list(content) if is_object(content) else []
        kinds = {media: media.partition(";")[0].strip().lower() for media in medias}
        media = next(
            (
                media
                for fits in (_is_json, lambda kind: kind == FORM, lambda kind: kind.startswith("text/"))
                for media, kind in kinds.items()
                if fits(kind)
            ),
            None,
        )
        required = body.get("required") is True
        if media is None:
            if medias and required:
                raise DocumentError(f"its body can only be {', '.join(medias)}")
            return None
        described = content[media] if is_object(content) and is_object(content[media]) else {}
        schema = self._document.schema(described.get("schema", {}))
        if isinstance(text := body.get("description"), str) and text.strip():
            schema.setdefault("description", clip(text.strip(), 500))
        encoding = described.get("encoding")
        deep = {
            name
            for name, how in (encoding.items() if is_object(encoding) else ())
            if is_object(how) and how.get("style") == "deepObject"
        }
        key = next(name for name in ("body", "request_body", "request_body_2") if name not in taken)
        return Body(key, "application/json" if "*" in media else media, required, schema, frozenset(deep))


def _listed(node: Json, key: str) -> list[Any]:  # Any: JSON
    value = node.get(key)
    return value if is_array(value) else []


def _is_json(media: str) -> bool:
    kind = media.partition(";")[0].strip().lower()
    return kind in ("application/json", "*/*", "application/*") or kind.endswith("+json")


def _key(name: str, where: str, taken: set[str]) -> str:
    """The argument of a parameter: Anthropic takes 1 to 64 of the characters a-z, A-Z, 0-9, `_`, `.` and `-`."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_.-") or where
    candidates = [plain[:64], f"{plain[:50]}_{where}", *(f"{plain[:50]}_{number}" for number in range(2, 1000))]
    return next(candidate for candidate in candidates if candidate not in taken)
