"""OpenAPI documents as tools: which tools there are, what they send, and what is refused."""

from __future__ import annotations

import copy
import json
import logging
import random
import re
import sys
from typing import Any
from urllib.parse import unquote

import pytest

from tests.server import Request, Response, Server, calls, says, whole
from tests.tools.openapi_documents import document
from tests.validators import anthropic, openai, tool_schemas
from toolnexus import Tool, Toolkit, ToolResult, http_tools_from_openapi
from toolnexus.errors import ConfigurationError

Json = dict[str, Any]


def doc(paths: Json, *, server: str | None = "http://api.example.com/v1", **more: Any) -> Json:
    return {"openapi": "3.1.0", "paths": paths, **({"servers": [{"url": server}]} if server else {}), **more}


def operation(*parameters: Json, body: Json | None = None, **more: Any) -> Json:
    request = {"requestBody": body} if body is not None else {}
    return {"operationId": "do", "parameters": list(parameters), **request, **more}


def parameter(name: str, where: str = "query", schema: Json | None = None, **more: Any) -> Json:
    return {"name": name, "in": where, "schema": schema or {}, **more}


def only(paths: Json, base_url: str = "http://127.0.0.1:9", **options: Any) -> Tool:
    (tool,) = http_tools_from_openapi(doc(paths), base_url=base_url, **options)
    return tool


def run(tool: Tool, **args: Any) -> ToolResult:
    result = Toolkit(tool).execute(tool.name, args)
    assert isinstance(result, ToolResult)
    return result


def echo(request: Request) -> Response:
    return whole({"method": request.method, "target": request.target})


@pytest.fixture
def server():
    with Server(echo) as started:
        yield started


def sent(server: Server, paths: Json, **args: Any) -> Request:
    result = run(only(paths, server.url), **args)
    assert not result.is_error, result
    return server.requests[-1]


# -- the tools of a document


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_document_of_hundreds_of_operations_gives_tools_that_every_model_api_takes(version, caplog):
    made = document(400, version=version)
    with caplog.at_level(logging.WARNING):
        tools = http_tools_from_openapi(made, base_url="http://127.0.0.1:9")
    assert len(tools) == 401
    assert caplog.records == []
    for tool in tools:
        tool_schemas.check(dict(tool.input_schema))
        assert 0 < len(tool.description) <= 1024
    kit = Toolkit(*tools)  # which refuses two of one name
    said = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
    openai.check({**said, "tools": kit.to_openai()})
    anthropic.check({**said, "max_tokens": 1, "tools": kit.to_anthropic()})
    assert sum(len(json.dumps(dict(tool.input_schema))) for tool in tools) < 1_000_000


def test_every_operation_of_a_large_document_can_be_called(server):
    made = document(120)
    tools = http_tools_from_openapi(made, base_url=server.url + "/api")
    templates = [
        (method.upper(), re.compile("/api" + re.sub(r"\\\{[^}]+\\\}", "[^/?]+", re.escape(path))))
        for path, item in made["paths"].items()
        for method in (item if "$ref" not in item else ["get"])
    ]
    for tool, (method, pattern) in zip(tools, templates, strict=True):
        args = sample(random.Random(1), tool.input_schema)
        result = run(tool, **args)
        assert not result.is_error, (tool.name, args, result)
        request = server.requests[-1]
        assert request.method == method
        assert pattern.fullmatch(request.target.partition("?")[0]), (pattern, request.target)
        if "application/json" in request.headers.get("content-type", ""):
            assert request.json == args.get("request_body", args["body"])


def sample(chance: random.Random, schema: Any) -> Any:
    """A value that fits a schema, as tools show them."""
    if "anyOf" in schema:
        return sample(chance, chance.choice(schema["anyOf"]))
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            extra = (
                {"more": sample(chance, schema["additionalProperties"])} if schema.get("additionalProperties") else {}
            )
            return {name: sample(chance, child) for name, child in schema.get("properties", {}).items()} | extra
        case "array":
            return [sample(chance, schema["items"]) for _ in range(2)]
        case "integer" | "number":
            return schema.get("minimum", 0) + 1
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "x/y z"


def test_names_are_those_of_the_operations_made_to_fit():
    paths = {
        "/a": {"get": {"operationId": "listPets"}, "post": {"operationId": "pets/create now!"}},
        "/a/{id}": {"get": {}, "delete": {"operationId": "listPets"}},
        "/": {"get": {}, "put": {"operationId": "ü"}},
        "/x": {"patch": {"operationId": "x" * 70}, "head": {"operationId": "x" * 80}, "trace": {}},
        "/{a}/b.{c}": {"get": {"operationId": ""}},
    }  # fmt: skip
    tools = http_tools_from_openapi(doc(paths))
    assert [tool.name for tool in tools] == [
        "listPets", "pets_create_now", "get_a_id", "listPets_2", "get", "operation", "x" * 64, "x" * 62 + "_2",
        "get_a_b_c",
    ]  # fmt: skip
    with_prefix = http_tools_from_openapi(doc(paths), prefix="shop-", operations=["listPets", "shop-get_a_id"])
    assert [tool.name for tool in with_prefix] == ["shop-listPets", "shop-get_a_id", "shop-listPets_2"]


def test_descriptions_are_summary_and_description():
    paths = {
        "/a": {
            "get": {"summary": "Sum. ", "description": " Desc.\n"},
            "put": {"summary": "Same.", "description": "Same."},
        },
        "/b": {"get": {}, "put": {"description": "x" * 5000}},
    }
    described = [tool.description for tool in http_tools_from_openapi(doc(paths))]
    assert described[:3] == ["Same.", "Sum.\n\nDesc.", "GET /b"] or described[:3] == [
        "Sum.\n\nDesc.",
        "Same.",
        "GET /b",
    ]
    assert len(described[3]) == 1024


def test_arguments_have_names_that_every_model_api_takes():
    paths = {
        "/a/{id}/{user-id}": {
            "post": operation(
                parameter("id", "path"), parameter("id"), parameter("id", "header"), parameter("filter[name]"),
                parameter("$top", required=True), parameter("__x"), parameter("日本"), parameter("body"),
                parameter("x" * 80), parameter("x" * 81), parameter("Accept", "header"), parameter("gone", "path"),
                body={"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
            )
        }
    }  # fmt: skip
    tool = only(paths)
    assert list(tool.input_schema["properties"]) == [
        "id", "user-id", "id_query", "filter_name", "top", "x", "query", "body", "x" * 64, "x" * 50 + "_query",
        "id_header", "request_body",
    ]  # fmt: skip
    assert tool.input_schema["required"] == ["id", "user-id", "top", "request_body"]
    tool_schemas.check(dict(tool.input_schema))


def test_a_parameter_of_the_operation_takes_the_place_of_the_paths():
    shared = [parameter("a", description="Of the path."), parameter("b")]
    paths = {"/": {"parameters": shared, "get": operation(parameter("a", description="Of the operation."))}}
    properties = only(paths).input_schema["properties"]
    assert properties == {"a": {"description": "Of the operation."}, "b": {}}


def test_what_is_said_of_a_parameter_and_of_its_schema_is_shown():
    schema = {"type": "string", "description": "Of the schema.", "format": "uuid"}
    paths = {"/": {"get": operation(parameter("a", schema=schema, description=" Of the parameter. "))}}
    said = only(paths).input_schema["properties"]["a"]["description"]
    assert said == "Of the parameter. Of the schema. Format: uuid."
    body = {"description": "The pet.", "content": {"application/json": {"schema": {"type": "object"}}}}
    assert only({"/": {"post": operation(body=body)}}).input_schema["properties"]["body"]["description"] == "The pet."


def test_only_the_operations_asked_for():
    paths = {"/a": {"get": {"operationId": "one two"}, "put": {"operationId": "three"}}, "/b": {"get": {}}}
    tools = http_tools_from_openapi(doc(paths), operations={"one two", "get_b"})
    assert [tool.name for tool in tools] == ["one_two", "get_b"]
    with pytest.raises(ConfigurationError, match=r"operations: \['four'\] are not in the document"):
        http_tools_from_openapi(doc(paths), operations=["three", "four"])
    with pytest.raises(ConfigurationError, match="operations: expected a list of names, got 'three'"):
        http_tools_from_openapi(doc(paths), operations="three")


def test_a_tool_that_only_reads_may_run_again():
    paths = {"/": {"get": operation(), "post": operation(), "delete": operation()}}
    found = {repr(tool.function): tool.idempotent for tool in http_tools_from_openapi(doc(paths))}
    assert found == {"<GET />": True, "<POST />": False, "<DELETE />": False}


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"post": operation(body={"required": True, "content": {"multipart/form-data": {}}})},
         "its body can only be multipart/form-data"),
        ({"post": operation(body={"$ref": "#/components/requestBodies/Gone"})}, "leads nowhere"),
        ({"get": operation({"$ref": "other.yaml#/a"})}, "leads out of the document"),
        ({"get": operation(parameter("a", schema={"$ref": "#/gone"}))}, "leads nowhere"),
        ({"get": operation(parameter("id", "path", style="matrix"))}, "the parameter 'id' has the style 'matrix'"),
        ({"get": operation({"name": "a", "in": "query", "content": {"application/xml": {}}})},
         "the parameter 'a' is sent as 'application/xml'"),
        ({"get": operation("no object")}, "expected an object, got 'no object'"),  # type: ignore[arg-type]  # a wrong type is the point
        ({"get": "no object"}, "expected an object"),
        ({"$ref": "#/paths/gone"}, "leads nowhere"),
        ("no object", "expected an object"),
    ],
)  # fmt: skip
def test_an_operation_that_cannot_be_a_tool_is_left_out_with_a_warning(caplog, item, why):
    tools = http_tools_from_openapi(doc({"/x/{id}": item, "/fine": {"get": {}}}))
    assert [tool.name for tool in tools] == ["get_fine"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "/x/{id}" in caplog.text
    assert why in caplog.text


def test_a_body_that_cannot_be_sent_but_need_not_is_left_out():
    paths = {"/": {"post": operation(body={"content": {"multipart/form-data": {}}})}}
    assert only(paths).input_schema["properties"] == {}


# -- what is sent: the examples of the specification, "Style Examples"

COLORS: Json = {
    "empty": "",
    "string": "blue",
    "array": ["blue", "black", "brown"],
    "object": {"R": 100, "G": 200, "B": 150},
}


@pytest.mark.parametrize(
    ("style", "explode", "kind", "wanted"),
    [
        ("form", False, "empty", "?color="),
        ("form", False, "string", "?color=blue"),
        ("form", False, "array", "?color=blue,black,brown"),
        ("form", False, "object", "?color=R,100,G,200,B,150"),
        ("form", True, "empty", "?color="),
        ("form", True, "string", "?color=blue"),
        ("form", True, "array", "?color=blue&color=black&color=brown"),
        ("form", True, "object", "?R=100&G=200&B=150"),
        (None, None, "array", "?color=blue&color=black&color=brown"),
        ("spaceDelimited", False, "array", "?color=blue%20black%20brown"),
        ("pipeDelimited", False, "array", "?color=blue%7Cblack%7Cbrown"),
        ("deepObject", True, "object", "?color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ],
)
def test_styles_in_the_query(server, style, explode, kind, wanted):
    more = {key: value for key, value in (("style", style), ("explode", explode)) if value is not None}
    request = sent(server, {"/x": {"get": operation(parameter("color", **more))}}, color=COLORS[kind])
    assert request.target == "/x" + wanted


@pytest.mark.parametrize(
    ("explode", "kind", "wanted"),
    [
        (False, "string", "blue"),
        (False, "array", "blue,black,brown"),
        (False, "object", "R,100,G,200,B,150"),
        (True, "string", "blue"),
        (True, "array", "blue,black,brown"),
        (True, "object", "R=100,G=200,B=150"),
    ],
)
def test_style_simple_in_paths_and_headers(server, explode, kind, wanted):
    paths = {"/{c}/x": {"get": operation(parameter("c", "path", explode=explode))}}
    assert sent(server, paths, c=COLORS[kind]).target == f"/{wanted}/x"
    paths = {"/x": {"get": operation(parameter("X-Color", "header", explode=explode))}}
    assert sent(server, paths, **{"X-Color": COLORS[kind]}).headers["x-color"] == wanted


def test_cookies_and_json_in_parameters(server):
    filter_ = {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}
    session = parameter("session", "cookie"), parameter("tags", "cookie", explode=False)
    paths = {"/x": {"get": operation(filter_, *session)}}
    request = sent(server, paths, filter={"a": [1, "&"]}, session="a; b=c", tags=["x", "y"])
    assert unquote(request.target) == '/x?filter={"a":[1,"&"]}'
    assert request.headers["cookie"] == "session=a%3B%20b%3Dc; tags=x,y"


def test_deep_objects_go_as_deep_as_they_go(server):
    paths = {"/x": {"get": operation(parameter("f", style="deepObject"))}}
    request = sent(server, paths, f={"a": {"b": 1, "c": [True, "x y"]}, "n": None})
    assert request.target == "/x?f%5Ba%5D%5Bb%5D=1&f%5Ba%5D%5Bc%5D%5B%5D=true&f%5Ba%5D%5Bc%5D%5B%5D=x%20y"
    assert sent(server, paths, f="plain").target == "/x?f=plain"


@pytest.mark.parametrize(
    ("media", "value", "body"),
    [
        ("application/json", {"a": [None, "ü"]}, '{"a":[null,"ü"]}'),
        ("application/json", [1], "[1]"),
        ("application/json", None, "null"),
        ("application/problem+json; charset=utf-8", "x", '"x"'),
        ("text/plain", "a ü", "a ü"),
        ("application/x-www-form-urlencoded", {"a": "x y", "b": [1, 2], "c": {"d": 1}, "n": None},
         "a=x%20y&b=1&b=2&c=%7B%22d%22%3A%201%7D"),
    ],
)  # fmt: skip
def test_bodies(server, media, value, body):
    paths = {"/x": {"post": operation(body={"content": {"image/png": {}, media: {}}})}}
    request = sent(server, paths, body=value)
    assert (request.body.decode(), request.headers["content-type"]) == (body, media)
    assert "content-type" not in sent(server, paths).headers


def test_json_is_preferred_and_stands_for_anything(server):
    content: Json = {"text/plain": {}, "application/x-www-form-urlencoded": {}, "application/json": {}}
    assert sent(server, {"/x": {"post": operation(body={"content": content})}}, body=1).body == b"1"
    request = sent(server, {"/x": {"post": operation(body={"content": {"*/*": {}}})}}, body=1)
    assert request.headers["content-type"] == "application/json"


def test_a_form_with_deep_members(server):
    encoding = {"meta": {"style": "deepObject"}, "other": {"style": "form"}}
    body = {"content": {"application/x-www-form-urlencoded": {"encoding": encoding}}}
    request = sent(server, {"/x": {"post": operation(body=body)}}, body={"meta": {"a": 1, "b": [2, 3]}, "x": 1})
    assert unquote(request.body.decode()) == "meta[a]=1&meta[b][]=2&meta[b][]=3&x=1"
    tool = only({"/x": {"post": operation(body=body)}}, server.url)
    assert run(tool, body=[1]).output == "body: expected an object, for a form, got [1]"


@pytest.mark.parametrize(
    "value", ["..", "a/../b", "%2e%2e", "", "a\r\nb", ["a", ".."], {"k": ".."}, {"..": "v"}, None, [[]]]
)
def test_an_argument_stays_within_its_segment(server, value):
    tool = only({"/x/{id}/y": {"get": operation(parameter("id", "path"))}}, server.url)
    result = run(tool, id=value)
    assert result.is_error
    assert result.text.startswith("id: ")
    assert server.requests == []


def test_an_argument_stays_within_its_header(server):
    tool = only({"/x": {"get": operation(parameter("X-A", "header"))}}, server.url)
    assert "expected ASCII text on one line" in run(tool, **{"X-A": "a\r\nX-B: c"}).text


def test_names_and_paths_of_the_document_are_encoded(server):
    paths = {"/a b/{$id}?x#y": {"get": operation(parameter("$id", "path"), parameter("a&b=c"))}}
    assert sent(server, paths, id="7/8", a_b_c="d").target == "/a%20b/7%2F8%3Fx%23y?a%26b%3Dc=d"


def test_headers_of_yours_go_with_every_request_and_win(server, monkeypatch):
    monkeypatch.setenv("TOKEN", "sk-12345678")
    headers = {"Authorization": "Bearer ${TOKEN}", "X-A": "mine", "Cookie": "mine=1", "User-Agent": "me"}
    paths = {"/x": {"get": operation(parameter("x-a", "header"), parameter("c", "cookie"))}}
    tool = only(paths, server.url, headers=headers)
    run(tool, **{"x-a": "model's", "c": "2"})
    got = server.requests[0].headers
    assert (got["authorization"], got["x-a"], got["user-agent"]) == ("Bearer sk-12345678", "mine", "me")
    assert got["cookie"] == "mine=1; c=2"
    assert "sk-1" not in repr(tool)
    with pytest.raises(ConfigurationError, match=r"the placeholder \{id\} cannot be filled"):
        only(paths, headers={"X": "{id}"})


def test_a_run_with_a_tool_of_a_document(serve, connect):
    endpoint = serve(whole({"name": "Rex"}))
    model = serve(calls(("c1", "getPet", '{"id": 7}')), says("Rex."))
    paths = {
        "/pets/{id}": {"get": {**operation(parameter("id", "path", {"type": "integer"})), "operationId": "getPet"}}
    }
    result = connect(model).stream(
        "Who?", Toolkit(*http_tools_from_openapi(doc(paths), base_url=endpoint.url + "/v1/"))
    )
    assert result.tool_calls[0].output == '{"name": "Rex"}'
    assert endpoint.requests[0].target == "/v1/pets/7"


# -- where it goes


def test_the_first_server_is_taken_of_the_operation_the_path_or_the_document(monkeypatch):
    def urls(document: Json, **options: Any) -> list[str]:
        tools = http_tools_from_openapi(document, **options)
        return [tool.function._make({}).url for tool in tools]  # type: ignore[attr-defined]  # an HTTP tool's own

    own, paths_own = [{"url": "https://o.example/x?k=1"}], [{"url": "http://p.example:8080"}]
    paths = {"/a": {"servers": paths_own, "get": {"servers": own}, "put": {}}, "/b": {"get": {}}}
    variables = {"v": {"default": "2"}, "h": {"default": "d"}}
    servers = [{"url": "https://{h}.example/{v}/", "variables": variables}, {"url": "https://no.example"}]
    made = doc(paths, server=None, servers=servers)
    assert urls(made) == ["https://o.example/x/a", "http://p.example:8080/a", "https://d.example/2/b"]
    assert urls(made, base_url="http://b.example") == [
        "http://b.example/a", "http://b.example/a", "http://b.example/b",
    ]  # fmt: skip


@pytest.mark.parametrize("server", [None, "/v1", "{scheme}://x.example", "https://{h}.example.com", "ftp://x"])
def test_without_a_server_a_base_url_is_asked_for(server):
    with pytest.raises(ConfigurationError, match="base_url: expected one"):
        http_tools_from_openapi(doc({"/a": {"get": {}}}, server=server))


def test_a_document_can_be_fetched_and_its_own_host_is_trusted(serve):
    made = doc({"/a": {"get": {"operationId": "a"}}}, server="../v1")
    server = serve(whole(made), whole({"ok": True}))
    (tool,) = http_tools_from_openapi(f"{server.url}/docs/openapi.json?x=1")
    assert server.requests[0].target == "/docs/openapi.json?x=1"
    assert run(tool).output == '{"ok": true}'
    assert server.requests[1].target == "/v1/a"


def test_a_document_that_was_fetched_does_not_choose_another_host(serve):
    made = doc({"/a": {"get": {}}}, server="http://169.254.169.254/")
    server = serve(*[whole(made)] * 2)
    with pytest.raises(ConfigurationError, match="pass base_url= to say that this is right") as caught:
        http_tools_from_openapi(f"{server.url}/openapi.json", headers={"X-Key": "sk-12345678"})
    assert "169.254.169.254" in str(caught.value)
    assert len(http_tools_from_openapi(f"{server.url}/openapi.json", base_url="http://api.example.com")) == 1


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (whole({}, status=404), "cannot fetch http://127.0.0.1:.*/x: status 404$"),
        (whole({}, status=302, headers={"location": "http://other/"}), "redirects are not followed, it leads to http://other/"),
        (Response([b"x"], end="reset"), "cannot fetch .* no reply"),
        (whole({"swagger": "2.0"}), "expected an OpenAPI document .* got None; convert Swagger 2.0 first"),
        (whole({"openapi": "4.0.0"}), "got '4.0.0'"),
        (Response([b"[1]"]), "expected an OpenAPI document .* got None"),
        (Response([b"{"]), "cannot be read"),
        (Response([b"\xff\xfe"]), "cannot be read"),
        (Response([b"[" * 100_000]), "cannot be read"),
    ],
)  # fmt: skip
def test_a_document_that_cannot_be_fetched_or_read(serve, response, why):
    with pytest.raises(ConfigurationError, match=why):
        http_tools_from_openapi(serve(response).url + "/x?key=k")


def test_documents_in_files(tmp_path, monkeypatch):
    made = doc({"/a": {"get": {"operationId": "a"}}})
    (tmp_path / "a.json").write_text(json.dumps(made), encoding="utf-8-sig")
    (tmp_path / "a.yaml").write_text(
        "openapi: 3.0.3\nservers: [{url: https://x.example}]\npaths:\n  /a:\n    get:\n      operationId: a\n"
        "      parameters:\n        - name: since\n          in: query\n"
        "          schema: {type: string, default: 2024-01-01, enum: [no, on]}\n"
        "      responses:\n        200: {description: ok}\n"
    )
    assert [tool.name for tool in http_tools_from_openapi(tmp_path / "a.json")] == ["a"]
    (tool,) = http_tools_from_openapi(str(tmp_path / "a.yaml"))
    assert tool.input_schema["properties"]["since"] == {
        "type": "string", "enum": ["no", "on"], "description": "Default: 2024-01-01.",
    }  # fmt: skip
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert len(http_tools_from_openapi(tmp_path / "a.json")) == 1
    with pytest.raises(ConfigurationError, match=r"pip install 'toolnexus\[skills\]'"):
        http_tools_from_openapi(tmp_path / "a.yaml")


def test_a_document_is_not_changed_and_may_have_numbers_as_keys():
    made = doc({"/a": {"get": {"responses": {200: {}}, "parameters": [parameter("a")]}}})
    before = copy.deepcopy(made)
    http_tools_from_openapi(made)
    assert made == before


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("/no/such/file.json", "document: cannot read '/no/such/file.json': No such file or directory"),
        (5, "document: expected a path, a URL or a dict, got int"),
        ({"openapi": "3.1.0", "x": {1, 2}}, "document: expected plain JSON data"),
        ({"openapi": 3.1}, "got 3.1"),
        ("http://a b/", "url: expected a URL"),
    ],
)
def test_a_source_that_cannot_work(source, why):
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        http_tools_from_openapi(source)


def test_a_document_beyond_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("toolnexus.tools.openapi._MAX_DOCUMENT_BYTES", 100)
    (tmp_path / "a.json").write_text(json.dumps(doc({"/a" * 100: {}})))
    with pytest.raises(ConfigurationError, match="the document is larger than 100 bytes"):
        http_tools_from_openapi(tmp_path / "a.json")


def test_options_that_cannot_work():
    paths: Json = {"/a": {"get": {}}}
    for options, why in [
        ({"base_url": "http://x.example/{id}"}, "base_url: there is no argument to fill a placeholder with"),
        ({"base_url": "x"}, "url: expected a URL"),
        ({"timeout": 0}, "timeout: expected seconds"),
        ({"addresses": "x"}, "addresses: expected"),
        ({"headers": {"Host": "x"}}, "set by the library itself"),
    ]:
        with pytest.raises(ConfigurationError, match=re.escape(why)):
            http_tools_from_openapi(doc(paths), **options)  # type: ignore[arg-type]  # a wrong type is the point
    assert http_tools_from_openapi(doc({})) == http_tools_from_openapi({"openapi": "3.0.0"}) == []
    assert http_tools_from_openapi(doc({"x-a": {"get": {}}})) == []


def test_addresses_are_checked_as_for_other_tools():
    tool = only({"/a": {"get": {}}}, "http://127.0.0.1:9", addresses="public")
    assert "not public (loopback)" in run(tool).text
