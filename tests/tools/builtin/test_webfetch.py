"""Reading web pages: which URLs, from where, and what is shown."""

from __future__ import annotations

import gzip
import time

import pytest

from tests.clients.harness import later, soon
from tests.server import Gate, Response, calls, says
from tests.tools.address_cases import REFUSED
from toolnexus import Builtins, Cancel, RunCancelledError, Toolkit, ToolResult
from toolnexus.tools.builtin.page import page_text
from toolnexus.tools.builtin.refusal import RefusedError
from toolnexus.tools.builtin.web import parse_url

HERE = {"addresses": ["127.0.0.0/8"]}


def page(body: str | bytes, content_type: str = "text/html; charset=utf-8", **options: object) -> Response:
    headers = {"content-type": content_type, **options.pop("headers", {})}  # type: ignore[dict-item]  # options of several types
    data = body.encode() if isinstance(body, str) else body
    return Response([data], framing="length", headers=headers, **options)  # type: ignore[arg-type]  # options of several types


@pytest.fixture
def fetch():
    def fetch(url: str, **options: object) -> ToolResult:
        kit = Toolkit(builtins=Builtins(allow=["webfetch"], **options))  # type: ignore[arg-type]  # options of several types
        result = kit.execute("webfetch", {"url": url})
        assert isinstance(result, ToolResult)
        return result

    return fetch


def test_the_text_of_a_page_is_shown(serve, fetch):
    server = serve(page("<title>t</title><h1>Café &amp; bar</h1><script>x</script><p>Open<br>daily</p>"))
    result = fetch(server.url + "/a b".replace(" ", "%20") + "?q=é#part", **HERE)
    assert result.text == "t\nCafé & bar\nOpen\ndaily"
    assert result.metadata == {"status": 200, "url": f"{server.url}/a%20b"}
    assert server.requests[0].target == "/a%20b?q=%C3%A9"
    assert "authorization" not in server.requests[0].headers


def test_other_texts_are_shown_as_they_are(serve, fetch):
    assert fetch(serve(page('{"a": "<b>"}', "application/json")).url, **HERE).text == '{"a": "<b>"}'
    zipped = page(gzip.compress(b"<b>plain</b>"), "text/plain", headers={"content-encoding": "gzip"})
    assert fetch(serve(zipped).url, **HERE).text == "<b>plain</b>"
    assert fetch(serve(page("")).url, **HERE).text == "[the page has no text]"


def test_bytes_and_failures_are_errors(serve, fetch):
    result = fetch(serve(page(b"\x89PNG\0", "image/png")).url, **HERE)
    assert (result.is_error, result.text) == (True, "status 200: expected text, got image/png")
    result = fetch(serve(page("<p>No such page", status=404)).url, **HERE)
    assert (result.is_error, result.text, result.metadata["status"]) == (True, "status 404\nNo such page", 404)
    assert len(fetch(serve(page("x" * 5000, "text/plain", status=500)).url, **HERE).text) < 600


def test_a_redirect_is_told_and_not_followed(serve, fetch):
    server = serve(page("", status=302, headers={"location": "http://169.254.169.254/latest"}))
    result = fetch(server.url, **HERE)
    assert (result.is_error, result.text) == (True, "status 302: the page has moved to http://169.254.169.254/latest")
    assert len(server.requests) == 1


def test_what_is_read_and_what_is_shown_are_bounded(serve, fetch):
    script = page("é" * 1000, "text/plain; charset=utf-8")
    assert fetch(serve(script).url, output_bytes=101, **HERE).text == "é" * 50 + "\n[cut: the page is longer]"
    assert fetch(serve(script).url, page_bytes=100, **HERE).text == "é" * 50 + "\n[cut: the page is longer]"
    assert fetch(serve(script).url, output_bytes=2000, page_bytes=2000, **HERE).text == "é" * 1000


def test_silence_ends_with_the_timeout(serve, fetch):
    assert "no whole reply" in fetch(serve(page("x", before=Gate())).url, fetch_timeout=0.2, **HERE).text


@pytest.mark.parametrize("host", REFUSED)
def test_no_spelling_of_an_address_that_is_not_public_is_connected_to(fetch, host):
    result = fetch(f"http://{host}:1/")
    assert result.is_error
    assert "not public" in result.text or "is no URL" in result.text or "is not known" in result.text


def test_by_default_this_machine_is_not_reached(serve, fetch):
    server = serve(page("secret"))
    for host in ("127.0.0.1", "localhost"):
        assert "must not be connected to" in fetch(f"http://{host}:{server.port}/").text
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "is no URL"),
        ("example.com", "is no URL"),
        ("file:///etc/passwd", "is no URL"),
        ("ftp://example.com/", "expected https:// or http://"),
        ("javascript:alert(1)", "is no URL"),
        ("http://user:key@example.com/", "has a user's name in it"),
        ("http://example.com@127.0.0.1/", "has a user's name in it"),
        ("http://127.0.0.1\\@example.com/", "a backslash in it"),
        ("http://example.com\\.evil.test/", "a backslash in it"),
        ("http://exa\tmple.com/", "white space"),
        ("http://example.com/\r\nHost: x", "white space"),
        ("http://example.com/a b", "white space"),
        (" http://example.com/", "white space"),
        ("http://example.com:port/", "is no URL"),
        ("http://example.com:99999/", "is no URL"),
        ("http://[::1/", "is no URL"),
        ("http://[fe80::1%25eth0]/", "is no URL"),
        ("http://exämple.com/", "is no URL"),
        ("http://１２７.0.0.1/", "is no URL"),
        ("http://exa%6dple.com/", "is no URL"),
        ("http:///path", "is no URL"),
    ],
)
def test_what_is_no_plain_url_is_refused(url, said):
    with pytest.raises(RefusedError, match=said):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "host", "port", "target"),
    [
        ("https://Example.com", "example.com", 443, "/"),
        ("http://example.com?q", "example.com", 80, "/?q"),
        ("http://example.com:8080/a%2Fb/ü;v=1?x=%26&y='z'#f", "example.com", 8080, "/a%2Fb/%C3%BC;v=1?x=%26&y='z'"),
        ("http://[2606:4700::1]:81/", "[2606:4700::1]", 81, "/"),
        ("HTTPS://example.com/", "example.com", 443, "/"),
    ],
)
def test_a_url_becomes_a_request(url, host, port, target):
    request = parse_url(url)
    assert (request.host, request.port, request.target, request.method) == (host, port, target, "GET")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a <b>bold</b> word", "a bold word"),
        ("<p>one</p><p>two</p>", "one\ntwo"),
        ("<div>  many\n spaces </div>", "many spaces"),
        ("<!-- hidden > --> shown", "shown"),
        ("<!DOCTYPE html><?xml?>x", "x"),
        ("<SCRIPT>if (a < b) {}</SCRIPT >x", "x"),
        ("<style>p{}</style><head><title>t</title></head>x", "t\nx"),
        ("1 < 2 &lt; 3", "1 < 2 < 3"),
        ("<script>never closed", ""),
        ("x<!-- never closed", "x"),
        ("x<p never closed", "x"),
        ("İ<script>İ</script>İ", "İİ"),
        ("", ""),
    ],
)
def test_the_text_of_markup(html, text):
    assert page_text(html) == text


@pytest.mark.parametrize("piece", ["<", "<!--", "<script>", "<p ", "<p>", "&", "<a", "&#", "</script"])
def test_no_page_takes_long(piece):
    began = time.monotonic()
    page_text(piece * (1_000_000 // len(piece)))
    assert time.monotonic() - began < 5


def test_a_fetch_ends_with_the_run(connect, serve):
    gate, cancel = Gate(), Cancel()
    builtins = Builtins(allow=["webfetch"], addresses=["127.0.0.0/8"])
    pages = serve(page("x", before=gate))
    model = serve(calls(("c1", "webfetch", f'{{"url": "{pages.url}"}}')), says("Done."))
    later(cancel, lambda: pages.wait_for_requests(1))
    with soon(), pytest.raises(RunCancelledError):
        connect(model).run("Go.", Toolkit(builtins=builtins), cancel=cancel)
    pages.requests[0].wait_left()
    gate.open()
