"""HTTP tools against a server on loopback: what is sent, what comes of each reply, and where nothing may go."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import subprocess
import sys
import threading
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.clients.harness import later
from tests.server import PATIENCE_S, Gate, Request, Response, Server, calls, says, whole
from tests.tools.address_cases import NO_HOST, REFUSED
from toolnexus import Cancel, HTTPReply, ImagePart, RunCancelledError, Tool, Toolkit, ToolResult, http_tool
from toolnexus.errors import ConfigurationError
from toolnexus.tools.exchange import ssl_context

CERTIFICATE = Path(__file__).parents[1] / "io" / "loopback.pem"
LOOPBACK = ["127.0.0.0/8"]


def sync_execute(tool: Tool, **args: Any) -> Any:
    return Toolkit(tool).execute(tool.name, args)


def async_execute(tool: Tool, **args: Any) -> Any:
    return asyncio.run(Toolkit(tool).aexecute(tool.name, args))


@pytest.fixture(params=[sync_execute, async_execute])
def execute(request):
    return request.param


def run(tool: Tool, **args: Any) -> ToolResult:
    result = Toolkit(tool).execute(tool.name, args)
    assert isinstance(result, ToolResult)
    return result


def fetch(server: Server, path: str = "/", **options: Any) -> Tool:
    return http_tool("fetch", "Fetch.", options.pop("method", "GET"), server.url + path, **options)


def text(body: bytes | str, content_type: str = "text/plain", **options: Any) -> Response:
    data = body.encode() if isinstance(body, str) else body
    headers = {"content-type": content_type, **options.pop("headers", {})}
    return Response([data], framing=options.pop("framing", "length"), headers=headers, **options)


OK = text("fine")


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    kinds = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()}
    return {"type": "object", "properties": kinds, "required": list(required)}


# -- what is sent


def test_a_get_with_its_rest_in_the_query(serve, execute):
    server = serve(text('{"id": 7}', "application/json; charset=utf-8"))
    schema = object_of("id", id="integer", q="string", tag="array", full="boolean")
    tool = fetch(server, "/items/{id}?lang=en", input_schema=schema)
    result = execute(tool, id=7.0, q="a b&c", tag=["x", "y"], full=True)
    url = f"{server.url}/items/7"
    assert result == ToolResult('{"id": 7}', metadata={"status": 200, "url": url})
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", "/items/7?lang=en&q=a%20b%26c&tag=x&tag=y&full=true")
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.headers["user-agent"] == "toolnexus"
    assert "content-length" not in request.headers
    assert "content-type" not in request.headers


def test_a_post_with_its_rest_in_the_body(serve, execute):
    server = serve(OK)
    schema = object_of("list", list="string", title="string", done="boolean", tags="array", meta="object")
    execute(
        fetch(server, "/lists/{list}", method="post", input_schema=schema),
        list="a/b", title="Ü\ud83d", done=False, tags=[1, None], meta={"a": None},
    )  # fmt: skip
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/lists/a%2Fb")
    assert request.headers["content-type"] == "application/json"
    assert request.json == {"title": "Ü\ud83d", "done": False, "tags": [1, None], "meta": {"a": None}}


def test_templates_say_where_each_argument_goes(serve):
    server = serve(OK)
    tool = fetch(
        server,
        "/v1/{a}",
        method="PUT",
        headers={"X-B": "b-{b}", "X-Gone": "{gone}", "Accept": "text/csv"},
        query={"c": "{c}", "n": 3, "on": True, "both": "{a}-{c}", "gone": "{gone}", "tags": ["x", "y"]},
        body={"d": {"e": ["{d}", "d={d}"]}, "gone": "{gone}", "k": 1},
        input_schema=object_of("a", "b", "c", "d", a="string", b="string", c="array", d="number", gone="string"),
    )
    assert run(tool, a="A", b="B", c="C", d=1.5).is_error  # c is to be a list
    assert run(tool, a="A", b="B", c=[], d=1.5).output == "c: expected text, a number or a boolean, got []"
    tool = fetch(
        server,
        "/v1/{a}",
        method="PUT",
        headers={"X-B": "b-{b}", "X-Gone": "{gone}", "Accept": "text/csv"},
        query={"c": "{c}", "n": 3, "on": True, "both": "{a}-{b}", "gone": "{gone}", "tags": ["x", "y"]},
        body={"d": {"e": ["{d}", "d={d}"]}, "gone": "{gone}", "k": 1},
        input_schema=object_of("a", "b", "c", "d", a="string", b="string", c="array", d="number", gone="string"),
    )
    assert run(tool, a="A", b="B", c=["1", 2], d=1.5).output == "fine"
    (request,) = server.requests
    assert request.target == "/v1/A?c=1&c=2&n=3&on=true&both=A-B&tags=x&tags=y"
    assert (request.headers["x-b"], request.headers["accept"]) == ("b-B", "text/csv")
    assert "x-gone" not in request.headers
    assert request.json == {"d": {"e": [1.5, "d=1.5"]}, "k": 1}


def test_a_form(serve):
    server = serve(OK)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    tool = fetch(server, method="POST", headers=headers, input_schema=object_of(a="string", b="array", c="object"))
    run(tool, a="x y&z", b=[1, True])
    assert server.requests[0].body == b"a=x%20y%26z&b=1&b=true"
    assert server.requests[0].headers["content-type"] == headers["Content-Type"]
    assert run(tool, c={"d": 1}).output == 'c: expected text, a number or a boolean, got {"d": 1}'
    tool = fetch(server, method="POST", headers=headers, body=["{a}"])
    assert run(tool, a="x").output == "body: expected an object, for a form"
    assert len(server.requests) == 1


def test_methods_say_whether_there_is_a_body(serve):
    server = serve(*[OK] * 4)
    for method in ("POST", "DELETE", "GET"):
        run(fetch(server, method=method))
    run(fetch(server, method="DELETE", body={"why": "{why}"}), why="old")
    lengths = [(r.method, r.headers.get("content-length"), r.body) for r in server.requests]
    assert lengths == [
        ("POST", "0", b""),
        ("DELETE", None, b""),
        ("GET", None, b""),
        ("DELETE", "13", b'{"why":"old"}'),
    ]


def test_without_a_schema_every_placeholder_is_a_required_text():
    tool = http_tool("t", "T.", "GET", "https://{a}.example.com/{b}?c={c}", headers={"X": "{d}"}, query={"e": "{e}"})
    assert tool.input_schema == {
        "type": "object",
        "properties": {name: {"type": "string"} for name in "abcde"},
        "required": ["a", "b", "c", "d", "e"],
        "additionalProperties": False,
    }


def test_a_schema_is_closed_and_what_the_path_needs_is_required():
    tool = http_tool("t", "T.", "GET", "https://example.com/{b}", input_schema=object_of("a", a="string", b="string"))
    assert tool.input_schema["required"] == ["a", "b"]
    assert tool.input_schema["additionalProperties"] is False


def test_an_argument_that_nobody_declared_is_not_sent(serve):
    server = serve(OK)
    assert "admin: unknown argument" in run(fetch(server, input_schema=object_of(q="string")), admin=True).text
    schema = {**object_of(q="string"), "additionalProperties": True}
    assert "admin: unknown argument" in run(fetch(server, query={"q": "{q}"}, input_schema=schema), admin=True).text
    assert server.requests == []
    assert run(fetch(server, input_schema=schema), q="x", more="y").text == "fine"
    assert server.requests[0].target == "/?q=x&more=y"


def test_arguments_may_have_the_names_of_ours(serve):
    server = serve(OK)
    names = ["self", "ctx", "args", "arguments", "request", "check"]
    run(fetch(server, input_schema=object_of(**dict.fromkeys(names, "string"))), **dict.fromkeys(names, "x"))
    assert server.requests[0].target == "/?" + "&".join(f"{name}=x" for name in names)


def test_the_tool_can_be_called_like_a_function(serve):
    server = serve(OK)
    assert asyncio.run(fetch(server, "/{a}")(a="b")).output == "fine"


def test_a_tool_that_only_reads_may_run_again_after_a_crash():
    made = {method: http_tool("t", "T.", method, "https://example.com") for method in ("GET", "HEAD", "PUT", "DELETE")}
    assert [method for method, tool in made.items() if tool.idempotent] == ["GET", "HEAD"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"method": "G T"}, "tool 't': method: expected GET, POST or the like, got 'G T'"),
        ({"method": "CONNECT"}, "method: expected GET"),
        ({"method": None}, "method: expected GET"),
        ({"url": "https://{a}.com"}, "tool 't': url: the host '{a}.com' would come from the arguments"),
        ({"name": "a b"}, "tool name"),
        ({"query": ["a"]}, "tool 't': query: expected a dict, got list"),
        ({"query": {"k": "${KEY}"}}, "tool 't': query['k']: ${…} is read in headers only"),
        ({"body": {1, 2}}, "tool 't': body: expected plain JSON data"),
        ({"body": float("nan")}, "tool 't': body: expected plain JSON data"),
        ({"headers": {"Host": "x"}}, "tool 't': headers['Host']: set by the library itself"),
        ({"timeout": 0}, "tool 't': timeout: expected seconds above 0, got 0"),
        ({"timeout": True}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"max_bytes": 0}, "tool 't': max_bytes: expected a positive int, got 0"),
        ({"max_bytes": 1.5}, "max_bytes"),
        ({"result": "xml"}, "tool 't': result: expected 'text', 'json' or a function, got 'xml'"),
        ({"addresses": "private"}, "addresses: expected 'public', 'any' or a list of networks"),
        ({"approval": "yes"}, "approval: expected a bool or a plain function"),
        ({"input_schema": []}, "tool 't': input_schema: expected a dict, got []"),
        ({"input_schema": {"type": "array"}}, "tool 't': input_schema.type: expected 'object'"),
        ({"url": "https://x.example/{idd}", "input_schema": object_of(id="string")}, "{idd} is no property"),
        ({"query": {"a": 1}, "input_schema": object_of(id="string")}, "the argument 'id' has no place"),
        ({"method": "POST", "body": {"a": 1}, "input_schema": object_of(id="string")}, "'id' has no place"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options, why):
    arguments = {"name": "t", "description": "T.", "method": "GET", "url": "https://example.com", **options}
    with pytest.raises(ConfigurationError) as caught:
        http_tool(**arguments)
    assert why in str(caught.value)


# -- what comes of a reply


@pytest.mark.parametrize("status", [400, 401, 404, 418, 500, 503])
def test_another_status_than_2xx_is_an_error_with_the_start_of_its_body(serve, execute, status):
    server = serve(whole({"error": "no such item"}, status=status))
    result = execute(fetch(server))
    assert result.is_error
    assert result.output == f'status {status}\n{{"error": "no such item"}}'
    assert result.metadata == {"status": status, "url": f"{server.url}/"}


def test_a_long_error_is_cut(serve):
    result = run(fetch(serve(text("x" * 100_000, status=500))))
    assert len(result.text) < 2100
    assert result.text.endswith("x…")


def test_an_error_that_is_no_text_is_its_status(serve):
    assert run(fetch(serve(text(b"\x89PNG\0", "image/png", status=500)))).output == "status 500"
    assert run(fetch(serve(text(b"", status=502)))).output == "status 502"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(serve, status):
    server = serve(text("moved", status=status, headers={"location": "http://169.254.169.254/latest/"}), OK)
    result = run(fetch(server))
    assert result.is_error
    assert result.text.startswith(
        f"status {status}: redirects are not followed, this one leads to http://169.254.169.254/"
    )
    assert len(server.requests) == 1
    assert run(fetch(serve(text("", status=304)))).output == "status 304"


def test_a_reply_without_a_body(serve):
    assert run(fetch(serve(Response(status=204, framing="length")))).output == ""
    head = Response(framing="length", headers={"content-length": "100"})
    assert run(fetch(serve(head), method="HEAD")).output == ""


def test_a_reply_is_read_in_its_character_set(serve):
    for charset in ("utf-8", "latin-1", "utf-16"):
        assert run(fetch(serve(text("zwölf".encode(charset), f"text/plain; charset={charset}")))).output == "zwölf"
    for charset in ("no-such", "hex", "idna", '"', "", "utf-8; x=y"):
        content_type = f"text/plain; charset={charset}"
        assert run(fetch(serve(text("zwölf", content_type)))).output == "zwölf"
    assert run(fetch(serve(text(b"a\xffb")))).output == "a\ufffdb"


def test_bytes_are_no_text(serve):
    result = run(fetch(serve(text(b"PK\x03\x04\0\0", "application/zip"))))
    assert (result.is_error, result.output) == (
        True, "status 200, but the reply cannot be shown: expected text, got application/zip",
    )  # fmt: skip


def test_an_image_is_shown_as_one(serve):
    png = b"\x89PNG\r\n\x1a\n\0data"
    server = serve(*[text(png, "image/png")] * 2)
    assert run(fetch(server)).output == (ImagePart(data=png, media_type="image/png"),)
    assert "larger than 5 bytes" in run(fetch(server, max_bytes=5)).text


def test_json_loses_its_white_space_and_must_be_json(serve):
    server = serve(
        text('{"a": [1, 2],\n "b": "ü"}', "application/json"),
        text("<html>", "text/html"),
        text("[" * 100_000, "application/json"),
        text("[1, 2, 3, 4]", "application/json"),
    )
    assert run(fetch(server, result="json")).output == '{"a":[1,2],"b":"ü"}'
    result = run(fetch(server, result="json"))
    assert result.is_error
    assert "expected JSON, got text/html (JSONDecodeError" in result.text
    assert "expected JSON" in run(fetch(server, result="json")).text
    assert "longer than 5 bytes" in run(fetch(server, result="json", max_bytes=5)).text


def test_a_function_makes_the_result(serve):
    seen: list[HTTPReply] = []

    def first(reply: HTTPReply) -> object:
        seen.append(reply)
        return reply.json()["items"][0]

    twice = {"x-a": "1", "X-A": "2"}
    server = serve(text('{"items": [{"n": 1}, 2]}', "Application/JSON;a=b", headers=twice), whole({}, status=404))
    assert run(fetch(server, "/x?key=k", result=first)).output == '{"n":1}'
    (reply,) = seen
    assert (reply.status, reply.content_type, reply.is_cut) == (200, "application/json", False)
    assert reply.headers["x-a"] == "1, 2"
    assert reply.url == f"{server.url}/x"
    assert "items" not in repr(reply)
    assert run(fetch(server, result=first)).output == "status 404\n{}"  # which it does not get to see
    assert len(seen) == 1


def test_a_function_that_fails_is_an_error_of_the_tool(serve):
    result = run(fetch(serve(OK), result=lambda reply: reply.json()))
    assert result.is_error
    assert result.text.startswith("fetch failed: JSONDecodeError")


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_long_reply_is_cut_and_no_more_of_it_read(serve, framing):
    # It never ends: only a reader that stops gets a result.
    endless = Response([b"x" * 1000, b"y" * 1000, Gate()], framing=framing, headers={"content-length": "5000"}
                       if framing == "length" else {})  # fmt: skip
    server = serve(endless)
    result = run(fetch(server, max_bytes=1500))
    assert not result.is_error
    assert result.output == "x" * 1000 + "y" * 500 + "\n[cut: the reply is longer than 1500 bytes]"
    server.requests[0].wait_left()


def test_a_reply_as_long_as_allowed_is_not_cut(serve):
    assert run(fetch(serve(text("x" * 1500)), max_bytes=1500)).output == "x" * 1500


@pytest.mark.parametrize("coding", ["gzip", "X-GZIP", "deflate"])
def test_a_compressed_reply_is_read(serve, coding):
    data = ("zwölf " * 1000).encode()
    packed = zlib.compress(data) if coding == "deflate" else gzip.compress(data)
    pieces = [packed[:5], packed[5:9], packed[9:]]
    server = serve(*[Response(pieces, headers={"content-type": "text/plain", "content-encoding": coding})] * 2)
    assert run(fetch(server)).output == data.decode()
    assert run(fetch(server, max_bytes=100)).text.startswith("zwölf zwölf")


def test_a_bomb_is_cut_like_any_long_reply(serve):
    bomb = gzip.compress(bytes(20_000_000) + b"x" * 1_000_000)
    assert len(bomb) < 30_000
    headers = {"content-type": "text/plain", "content-encoding": "gzip"}
    sizes: list[int] = []

    def look(reply: HTTPReply) -> str:
        sizes.append(len(reply.body))
        return f"cut: {reply.is_cut}"

    tool = fetch(serve(Response([bomb], headers=headers)), result=look)
    tracemalloc.start()
    try:
        assert run(tool).output == "cut: True"
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert sizes == [1024 * 1024]


@pytest.mark.parametrize(
    ("response", "why"),
    {
        "br": (text("x", headers={"content-encoding": "br"}), "compressed as 'br', which was not asked for"),
        "twice": (text("x", headers={"content-encoding": "gzip, gzip"}), "compressed as 'gzip, gzip'"),
        "no gzip": (text("plain", headers={"content-encoding": "gzip"}), "cannot be decompressed"),
        "half": (
            text(gzip.compress(b"x" * 100_000 + bytes(range(256)))[:-20], headers={"content-encoding": "gzip"}),
            "ended in the middle of its compressed body",
        ),
        "short": (text("x", headers={"content-length": "5"}, end="close"), "did not answer in HTTP"),
        "reset": (Response([b"x"], end="reset"), "no reply from 127.0.0.1"),
        "endless head": (text("x", headers={"x": "y" * 200_000}), "did not answer in HTTP"),
    }.values(),
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_half_a_reply_is_an_error(serve, execute, response, why):
    result = execute(fetch(serve(response)))
    assert result.is_error
    assert why in result.text
    assert result.metadata == {}


def answer(*data: bytes) -> tuple[threading.Thread, int]:
    """A server that says `data` whatever it is asked, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_one() -> None:
        with listener, listener.accept()[0] as caller:
            caller.recv(65536)
            for piece in data:
                caller.sendall(piece)

    thread = threading.Thread(target=serve_one)
    thread.start()
    return thread, listener.getsockname()[1]


@pytest.mark.parametrize(
    "data", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 2", b"\x15\x03\x01\x00\x02", b"HTTP/1.1 200 OK\r\nA\r\n\r\n"]
)
def test_what_is_no_http_is_an_error(execute, data):
    thread, port = answer(data)
    result = execute(http_tool("t", "T.", "GET", f"http://127.0.0.1:{port}"))
    thread.join(PATIENCE_S)
    assert result.is_error
    assert result.text.startswith(f"127.0.0.1:{port} did not answer in HTTP")


def test_an_interim_reply_is_passed_over(execute):
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    thread, port = answer(early, early, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    assert execute(http_tool("t", "T.", "GET", f"http://127.0.0.1:{port}")).output == "hi"
    thread.join(PATIENCE_S)


def test_a_server_that_answers_before_it_has_read_the_body():
    # It closes with bytes unread: its system resets the connection. The answer was here first.
    thread, port = answer(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    tool = http_tool("t", "T.", "POST", f"http://127.0.0.1:{port}", body="{x}")
    result = run(tool, x="x" * 3_000_000)
    thread.join(PATIENCE_S)
    assert result.is_error
    assert result.output == "status 413" or "no reply" in result.text


def test_silence_ends_with_the_timeout(serve, execute):
    server = serve(Response(before=Gate()), Response([b"x", Gate()]))
    for _ in range(2):
        result = execute(fetch(server, timeout=0.2))
        assert (result.is_error, result.text) == (True, f"no whole reply from 127.0.0.1:{server.port} within 0.2 s")
    server.requests[1].wait_left()


def test_nobody_listens(execute):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = execute(http_tool("t", "T.", "GET", f"http://127.0.0.1:{port}"))
    assert result.is_error
    assert result.text.startswith(f"cannot connect to 127.0.0.1:{port}: ")


# -- secrets


def echo(request: Request) -> Response:
    return text(json.dumps(request.headers), status=401 if request.target == "/401" else 200, headers=request.headers)


def test_a_secret_shows_up_nowhere(serve, execute, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TOKEN", "sk-12345678")
    seen: list[HTTPReply] = []

    def look(reply: HTTPReply) -> str:
        seen.append(reply)
        return reply.text

    headers = {"Authorization": "Bearer ${TOKEN}", "X-Api-Key": "literal-key-1", "X-Tenant": "acme"}
    server = serve(*[lambda request: echo(request)] * 3)
    tools = [
        fetch(server, headers=headers),
        fetch(server, "/401", headers=headers),
        fetch(server, headers=headers, result=look),
    ]
    results = [execute(tool) for tool in tools]
    assert server.requests[0].headers["authorization"] == "Bearer sk-12345678"
    assert server.requests[0].headers["x-api-key"] == "literal-key-1"
    assert all(
        '"authorization": "Bearer [redacted]"' in result.text or "[redacted]" in result.text for result in results
    )
    assert "acme" in results[0].text
    everything = repr((tools, results, seen, [vars(t.function) for t in tools])) + caplog.text
    everything += repr([reply.headers for reply in seen]) + "".join(reply.text for reply in seen)
    assert "sk-12345678" not in everything
    assert "literal-key-1" not in everything
    assert repr(tools[0].function) == f"<GET {server.url}/>"


def test_a_secret_is_taken_out_without_its_scheme_too(serve):
    server = serve(text("the token hunter22 is unknown", status=401), text("Bearer hunter22?", status=401))
    tool = fetch(server, headers={"Authorization": "Bearer hunter22"})
    assert run(tool).output == "status 401\nthe token [redacted] is unknown"
    assert run(tool).output == "status 401\n[redacted]?"


def test_half_a_secret_at_the_cut_is_taken_out_too(serve, monkeypatch):
    monkeypatch.setenv("TOKEN", "sk-12345678")
    server = serve(text("you sent sk-12345678!"))
    result = run(fetch(server, headers={"A": "${TOKEN}"}, max_bytes=15))
    assert result.output == "you sent \n[cut: the reply is longer than 9 bytes]"


def test_a_variable_that_is_gone_fails_the_call_and_sends_nothing(serve, monkeypatch):
    monkeypatch.setenv("TOKEN", "sk-12345678")
    server = serve(OK)
    tool = fetch(server, headers={"Authorization": "Bearer ${TOKEN}"})
    monkeypatch.delenv("TOKEN")
    result = run(tool)
    assert result.is_error
    assert "the environment variable TOKEN is not set" in result.text
    assert server.requests == []


def test_an_argument_reads_no_variable(serve, monkeypatch):
    monkeypatch.setenv("TOKEN", "sk-12345678")
    server = serve(OK)
    tool = fetch(server, "/{p}?q={q}", method="POST", headers={"X-H": "{h}"}, body="{b}")
    value = "${TOKEN}"
    run(tool, p=value, q=value, h=value, b=value)
    (request,) = server.requests
    assert "sk-1" not in request.target + str(request.headers) + request.body.decode()
    assert (request.headers["x-h"], request.json) == (value, value)


# -- where it may go


class Resolver:
    """Stands in for the name server: each question is answered by the next list of addresses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[list[str]] = []
        self.asked: list[str] = []
        self.connected: list[str] = []
        sock_connect = asyncio.SelectorEventLoop.sock_connect
        resolver = self

        async def getaddrinfo(loop: Any, host: str, port: int, **_: Any) -> list[Any]:
            resolver.asked.append(host)
            if not resolver.answers:
                raise socket.gaierror(socket.EAI_NONAME, "not known")
            return [
                (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                for address in resolver.answers.pop(0)
            ]

        async def connect(loop: Any, sock: socket.socket, address: Any) -> None:
            resolver.connected.append(address[0])
            assert address[0].startswith("127."), "a test must stay on loopback"
            await sock_connect(loop, sock, address)

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", connect)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    return Resolver(monkeypatch)


@pytest.mark.parametrize("host", REFUSED)
def test_no_spelling_of_an_address_that_is_not_public_is_connected_to(names, host):
    result = run(http_tool("t", "T.", "GET", f"http://{host}:8080/x", addresses="public"))
    assert result.is_error
    assert "must not be connected to: its address is not public" in result.text
    assert (names.asked, names.connected) == ([], [])


@pytest.mark.parametrize("host", REFUSED)
def test_no_name_that_resolves_to_such_an_address_is_connected_to(names, host):
    from toolnexus.tools.addresses import parse_host

    names.answers = [[str(parse_host(host))]]
    result = run(http_tool("t", "T.", "GET", "http://{tenant}.example.com/"), tenant="internal")
    assert result.text.startswith("the host 'internal.example.com' must not be connected to")
    assert names.connected == []
    assert str(parse_host(host)) not in result.text  # which would tell the model about the network


@pytest.mark.parametrize("host", sorted({*NO_HOST} - {"a/b", "a?b"}), ids=ascii)
def test_what_is_no_host_makes_no_tool(host):
    with pytest.raises(ConfigurationError, match="url: "):
        http_tool("t", "T.", "GET", f"http://{host}/x")


def test_public_is_the_default_only_where_an_argument_shapes_the_host(serve, names):
    server = serve(OK)
    names.answers = [["127.0.0.1"]] * 3
    shaped, fixed = f"http://{{t}}.example.com:{server.port}", f"http://a.example.com:{server.port}/{{t}}"
    assert "its address is not public (loopback)" in run(http_tool("t", "T.", "GET", shaped), t="a").text
    assert run(http_tool("t", "T.", "GET", fixed), t="a").output == "fine"
    assert "not public" in run(http_tool("t", "T.", "GET", fixed, addresses="public"), t="a").text
    assert len(server.requests) == 1


def test_a_network_can_be_allowed(serve, names):
    server = serve(OK)
    names.answers = [["127.0.0.1"], ["10.0.0.1"]]
    tool = http_tool("t", "T.", "GET", f"http://{{t}}.example.com:{server.port}", addresses=LOOPBACK)
    assert run(tool, t="a").output == "fine"
    assert "not public (private)" in run(tool, t="a").text
    assert server.requests[0].headers["host"] == f"a.example.com:{server.port}"


def test_a_name_is_resolved_once_and_what_was_checked_is_connected_to(serve, names):
    # Asked again, the name server would say something else: DNS rebinding.
    server = serve(OK)
    names.answers = [["127.0.0.1"], ["10.0.0.1"]]
    assert run(http_tool("t", "T.", "GET", f"http://a.example:{server.port}", addresses=LOOPBACK)).output == "fine"
    assert (names.asked, names.connected) == (["a.example"], ["127.0.0.1"])


def test_of_several_addresses_only_the_allowed_ones_are_tried(serve, names):
    server = serve(OK)
    names.answers = [["10.0.0.1", "::1", "fe80::1%1", "127.0.0.2", "127.0.0.2", "127.0.0.1"]]
    assert run(http_tool("t", "T.", "GET", f"http://a.example:{server.port}", addresses=LOOPBACK)).output == "fine"
    assert names.connected == ["127.0.0.2", "127.0.0.1"]  # nobody listens at the first


def test_an_address_that_stays_silent_is_given_up_for_the_next(serve, names, monkeypatch):
    server = serve(OK)
    real = asyncio.SelectorEventLoop.sock_connect

    async def connect(loop: Any, sock: socket.socket, address: Any) -> None:
        await (asyncio.Event().wait() if address[0] == "127.0.0.2" else real(loop, sock, address))

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", connect)
    monkeypatch.setattr("toolnexus.tools.exchange._ATTEMPT_S", 0.05)
    names.answers = [["127.0.0.2", "127.0.0.1"], ["127.0.0.2", "127.0.0.2"]]
    tool = http_tool("t", "T.", "GET", f"http://a.example:{server.port}", timeout=0.5)
    assert run(tool).output == "fine"
    assert run(tool).output == f"no whole reply from a.example:{server.port} within 0.5 s"


def test_a_name_that_nobody_knows(names, execute):
    assert execute(http_tool("t", "T.", "GET", "http://a.example/")).output == "the host 'a.example' is not known"


@pytest.fixture
def tls(monkeypatch):
    """A server with a certificate for localhost, which tools trust; it notes the names that clients ask for."""
    import ssl

    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    ssl_context.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    wanted: list[str | None] = []
    context.sni_callback = lambda sock, name, ctx: wanted.append(name)
    with Server(*[OK] * 3, tls=context) as server:
        yield server, wanted
    ssl_context.cache_clear()


def test_the_certificate_must_be_the_names_not_the_addresses(tls, names, execute):
    server, wanted = tls
    names.answers = [["127.0.0.1"], ["127.0.0.1"]]

    def get(host):
        return execute(http_tool("t", "T.", "GET", f"https://{host}:{server.port}", addresses=LOOPBACK))

    assert get("localhost").output == "fine"
    result = get("other.example")
    assert result.is_error
    assert "certificate verify failed" in result.text
    assert wanted == ["localhost", "other.example"]
    assert len(server.requests) == 1
    server.wait_all_closed()


def test_an_address_can_be_the_host_of_a_certificate(tls):
    server, _ = tls
    assert run(fetch(server)).output == "fine"


def test_a_certificate_that_nobody_trusts_is_refused(tls, monkeypatch):
    server, _ = tls
    monkeypatch.delenv("SSL_CERT_FILE")
    ssl_context.cache_clear()
    assert "certificate verify failed" in run(fetch(server)).text


# -- under the clients


def test_a_run_with_an_http_tool(serve, connect):
    endpoint = serve(whole({"temperature": 31}))
    model = serve(calls(("c1", "fetch", '{"city": "Chennai"}')), says("31 degrees."))
    result = connect(model).stream("How warm?", Toolkit(fetch(endpoint, "/weather/{city}")))
    assert result.text == "31 degrees."
    (record,) = result.tool_calls
    assert (record.output, record.is_error, record.metadata["status"]) == ('{"temperature": 31}', False, 200)
    assert endpoint.requests[0].target == "/weather/Chennai"


def test_calls_of_one_turn_wait_side_by_side(serve, connect):
    first, second = Gate(), Gate()
    endpoint = serve(Response([b"x"], before=first), Response([b"x"], before=second))
    model = serve(calls(("c1", "fetch", "{}"), ("c2", "fetch", "{}")), says("Done."))

    def let_go() -> None:
        endpoint.wait_for_requests(2)  # both have come before either is answered
        first.open()
        second.open()

    thread = threading.Thread(target=let_go)
    thread.start()
    assert connect(model).stream("Go.", Toolkit(fetch(endpoint, headers={"Accept": "*/*"}))).text == "Done."
    thread.join(PATIENCE_S)


@pytest.mark.parametrize("where", ["before the head", "in the body"])
def test_a_cancelled_call_drops_its_connection(serve, connect, where):
    gate = Gate()
    endpoint = serve(Response(before=gate) if where == "before the head" else Response([b"x", gate]))
    model = serve(calls(("c1", "fetch", "{}")))
    cancel = Cancel()
    thread = later(cancel, gate.wait_reached)
    with pytest.raises(RunCancelledError):
        connect(model).stream("Go.", Toolkit(fetch(endpoint)), cancel=cancel)
    thread.join(PATIENCE_S)
    endpoint.requests[0].wait_left()


def test_a_cancelled_handshake_drops_its_connection(serve, connect):
    listener = socket.create_server(("127.0.0.1", 0))
    greeted, left = threading.Event(), threading.Event()

    def mute() -> None:
        with listener, listener.accept()[0] as caller:
            caller.recv(1)
            greeted.set()
            while caller.recv(4096):
                pass
            left.set()

    cancel = Cancel()
    threads = [threading.Thread(target=mute), later(cancel, greeted.wait)]
    threads[0].start()
    tool = http_tool("fetch", "Fetch.", "GET", f"https://127.0.0.1:{listener.getsockname()[1]}")
    with pytest.raises(RunCancelledError):
        connect(serve(calls(("c1", "fetch", "{}")))).stream("Go.", Toolkit(tool), cancel=cancel)
    assert left.wait(PATIENCE_S)
    for thread in threads:
        thread.join(PATIENCE_S)


def test_nobody_is_asked_to_approve_what_cannot_be_sent(serve, connect):
    asked: list[Any] = []
    endpoint, model = serve(OK), serve(calls(("c1", "fetch", '{"p": "../admin"}')), says("Sorry."))
    client = connect(model, wait_for=asked.append)
    result = client.stream("Go.", Toolkit(fetch(endpoint, "/{p}", approval=True)))
    assert asked == []
    assert "would lead to another path" in result.tool_calls[0].output
    assert endpoint.requests == []


def test_making_a_tool_imports_no_http_stack():
    code = """
import sys, toolnexus
toolnexus.http_tool("t", "T.", "GET", "https://example.com/{id}")
print(*sorted({"httpx", "httpcore", "h11", "asyncio", "ssl", "yaml"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
