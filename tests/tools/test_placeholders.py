"""What an argument may be in each place of a template, and what it becomes or is refused for."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus.errors import ConfigurationError
from toolnexus.tool import ToolInputError
from toolnexus.tools.placeholders import HeaderTemplates, JSONTemplate, URLTemplate, as_text, query_piece

ENCODED = {
    "plain": "plain",
    "a/b": "a%2Fb",
    "/etc/passwd": "%2Fetc%2Fpasswd",
    "//evil.example": "%2F%2Fevil.example",
    "a?b=c": "a%3Fb%3Dc",
    "a#b": "a%23b",
    "a@b": "a%40b",
    "@evil.example": "%40evil.example",
    ":8080": "%3A8080",
    "a%b": "a%25b",
    "%2f": "%252f",
    "%2Fadmin": "%252Fadmin",
    "a\\b": "a%5Cb",
    "a b": "a%20b",
    "a+b": "a%2Bb",
    "a&b": "a%26b",
    "a;b": "a%3Bb",
    "a.b..c": "a.b..c",
    "...": "...",
    ".hidden": ".hidden",
    "{id}": "%7Bid%7D",
    "${HOME}": "%24%7BHOME%7D",
    "ü/€": "%C3%BC%2F%E2%82%AC",
    "𝄞": "%F0%9D%84%9E",
    "\u202e": "%E2%80%AE",
    5: "5",
    2.0: "2",
    1.5: "1.5",
    -3: "-3",
    2**70: str(2**70),
    True: "true",
}

REFUSED = {
    "": "not empty",
    ".": "another path",
    "..": "another path",
    "../admin": "another path",
    "a/../b": "another path",
    "a/..": "another path",
    "./a": "another path",
    "..\\a": "another path",
    "a\\..\\b": "another path",
    "..;/manager": "another path",  # Tomcat drops what follows the semicolon
    "a/..;x=1/b": "another path",
    "%2e%2e": "another path",
    "%2E%2E%2Fadmin": "another path",
    ".%2e/x": "another path",
    "..%2fadmin": "another path",
    "..%5cadmin": "another path",
    "%252e%252e%252fadmin": "another path",  # decoded twice
    "%25252e%25252e": "another path",  # and three times
    "a\rb": "control characters",
    "a\nb": "control characters",
    "a\r\nX-Injected: 1": "control characters",
    "a%0d%0ab": "control characters",
    "a%250d%250ab": "control characters",
    "a\x00b": "control characters",
    "a%00b": "control characters",
    "a\tb": "control characters",
    "\x7f": "control characters",
    "\ud800": "surrogate",
}


@pytest.mark.parametrize(("value", "encoded"), ENCODED.items(), ids=lambda v: ascii(v))
def test_an_argument_stays_within_its_segment(value, encoded):
    template = URLTemplate("https://api.example.com/items/{id}/parts?x=1")
    assert template.fill_path({"id": value}) == f"/items/{encoded}/parts"
    assert URLTemplate("https://api.example.com/v-{id}.json").fill_path({"id": value}) == f"/v-{encoded}.json"


@pytest.mark.parametrize(("value", "why"), REFUSED.items(), ids=ascii)
def test_an_argument_that_could_lead_elsewhere_is_refused(value, why):
    for url in ("https://api.example.com/items/{id}", "https://api.example.com/items/x{id}y"):
        with pytest.raises(ToolInputError, match=f"^id: .*{why}"):
            URLTemplate(url).fill_path({"id": value})


@pytest.mark.parametrize("value", [None, [], ["a"], {}, {"a": 1}], ids=repr)
def test_what_is_no_text_is_refused_in_a_path(value):
    with pytest.raises(ToolInputError, match=r"^id: (required, but missing|expected text, a number or a boolean, got)"):
        URLTemplate("https://api.example.com/{id}").fill_path({"id": value})


def test_dots_cannot_come_together_in_a_segment():
    for url in ("https://api.example.com/{a}{b}/x", "https://api.example.com/.{a}/x", "https://api.example.com/{a}./x"):
        for args in ({"a": ".", "b": "."}, {"a": "", "b": ".."}, {"a": "..", "b": ""}, {"a": "", "b": ""}):
            with pytest.raises(ToolInputError, match=r"^[ab]: "):
                URLTemplate(url).fill_path(args)


@given(st.text(min_size=1))
def test_whatever_is_not_refused_comes_back_from_its_one_segment(value):
    try:
        path = URLTemplate("https://api.example.com/items/{id}/parts").fill_path({"id": value})
    except ToolInputError:
        return
    parts = urlsplit(f"https://api.example.com{path}")
    assert (parts.netloc, parts.query, parts.fragment) == ("api.example.com", "", "")
    _, items, segment, last = parts.path.split("/")
    assert (items, unquote(segment), last) == ("items", value, "parts")


# -- the host

LABELS_REFUSED = [
    "", "a.b", "evil.example", "evil.example/", "a/b", "a#", "a?", "a@b", "a:80", "a b", "-a", "a-", "a_b", "ü", "a%2e",
    "a\\", "a\r\n", "a\x00", "[::1]", "{x}", "a" * 64, None, ["a"],
]  # fmt: skip


@pytest.mark.parametrize("value", LABELS_REFUSED, ids=ascii)
def test_an_argument_cannot_leave_its_label_of_the_host(value):
    with pytest.raises(ToolInputError, match=r"^tenant: "):
        URLTemplate("https://{tenant}.example.com/").fill_host({"tenant": value})


def test_an_argument_may_be_a_label_or_a_part_of_one():
    assert URLTemplate("https://{tenant}.example.com/").fill_host({"tenant": "Acme-1"}) == "acme-1.example.com"
    assert URLTemplate("https://api-{region}.example.com").fill_host({"region": "eu-1"}) == "api-eu-1.example.com"
    assert URLTemplate("https://a.{x}.{y}.example.com").fill_host({"x": "b", "y": 7}) == "a.b.7.example.com"
    with pytest.raises(ToolInputError, match=r"^a and b: 'x-' is no label"):
        URLTemplate("https://{a}{b}.example.com").fill_host({"a": "x", "b": "-"})
    with pytest.raises(ToolInputError, match="no host name"):
        URLTemplate(f"https://{{a}}.{'.'.join(['x' * 60] * 4)}").fill_host({"a": "a" * 60})


def test_only_an_argument_in_the_host_shapes_it():
    assert URLTemplate("https://{a}.example.com/{b}").shapes_host
    assert not URLTemplate("https://api.example.com/{b}?c={d}").shapes_host


@pytest.mark.parametrize(
    ("url", "why"),
    {
        "": "expected a URL",
        "api.example.com": "expected a URL",
        "/items": "expected a URL",
        "ftp://example.com": "expected a URL",
        "file:///etc/passwd": "expected a URL",
        "https:///items": "expected a URL",
        "https://": "expected a URL",
        "https:example.com": "expected a URL",
        "https://example.com/#top": "without a fragment",
        "{url}": "expected a URL",
        "{scheme}://example.com": "expected a URL",
        "https://{host}/x": "its last two labels must be fixed",
        "https://{host}:8080/x": "its last two labels must be fixed",
        "https://{a}.com/x": "its last two labels must be fixed",
        "https://api.{a}.com/x": "its last two labels must be fixed",
        "https://example.{tld}/": "its last two labels must be fixed",
        "https://example.com{rest}/": "its last two labels must be fixed",
        "https://{a}.0.0.1/": "is no IPv4 address",
        "https://[{a}::1]/": "expected a URL",
        "https://example.com:{port}/": "expected a URL",
        "https://example.com:99999/": "expected a URL",
        "https://user:hunter2@example.com/": "must not hold credentials",
        "https://{user}@example.com/": "must not hold credentials",
        "https://exa mple.com/": "in ASCII",
        "https://example.com/a\nb": "in ASCII",
        "https://example.com/ü": "in ASCII",
        "https://example.com\\@evil.example/": "in ASCII",
        "https://example.com/{a b}": "in ASCII",
        "https://example.com/{0}": "a placeholder is {name}",
        "https://example.com/{}": "a placeholder is {name}",
        "https://example.com/{a": "a placeholder is {name}",
        "https://example.com/a}": "a placeholder is {name}",
        "https://example.com/?k=${KEY}": "read in headers only",
        "https://1.2.3.256/": "is no IPv4 address",
        "https://a..b/": "is no host name",
    }.items(),
)
def test_a_url_that_cannot_work_is_refused_at_once(url, why):
    with pytest.raises(ConfigurationError, match=why.replace("{", r"\{").replace("$", r"\$")) as caught:
        URLTemplate(url)
    assert "hunter2" not in str(caught.value)


def test_a_url_of_another_type_is_refused():
    with pytest.raises(ConfigurationError, match="url: expected a URL such as"):
        URLTemplate(5)  # type: ignore[arg-type]  # a wrong type is the point


def test_a_query_is_not_shown_in_an_error():
    with pytest.raises(ConfigurationError) as caught:
        URLTemplate("https://example.com/{a?key=sk-secret")
    assert "sk-secret" not in str(caught.value)


def test_the_parts_of_a_url():
    template = URLTemplate("HTTPS://API.example.com.:8443/a/{b}?c={d}&e=f%20g&{h}=1&i={b}")
    assert (template.scheme, template.port, template.fill_host({})) == ("https", 8443, "api.example.com")
    assert (template.required, template.names) == (["b"], ["b", "d", "h", "b"])
    assert template.fill_query({"b": "x&y=z#", "d": "ü"}) == ["c=%C3%BC", "e=f%20g", "i=x%26y%3Dz%23"]
    assert URLTemplate("http://[::1]").fill_host({}) == "[::1]"
    assert URLTemplate("http://[0:0::1]:80/x").fill_host({}) == "[::1]"
    assert URLTemplate("http://2130706433").fill_host({}) == "127.0.0.1"
    assert URLTemplate("http://a.example").fill_path({}) == "/"
    assert (URLTemplate("http://a.example").port, URLTemplate("https://a.example?x").port) == (80, 443)


# -- headers


def test_a_header_is_filled_from_the_environment_and_from_arguments(monkeypatch):
    monkeypatch.setenv("TOKEN", "sk-123456\n")
    headers = HeaderTemplates({"Authorization": "Bearer ${TOKEN}", "X-Tenant": "t-{tenant}", "X-Fixed": "v1 {"})
    assert headers.fill({"tenant": "acme"}) == (
        [("Authorization", "Bearer sk-123456"), ("X-Tenant", "t-acme"), ("X-Fixed", "v1 {")],
        ["sk-123456", "Bearer sk-123456"],
    )
    monkeypatch.setenv("TOKEN", "sk-rotated")
    assert headers.fill({})[0] == [("Authorization", "Bearer sk-rotated"), ("X-Fixed", "v1 {")]
    assert repr(headers) == "<headers Authorization, X-Tenant, X-Fixed>"
    assert repr(HeaderTemplates(None)) == "<headers (none)>"


@pytest.mark.parametrize("value", ["${TOKEN}", "{TOKEN}", "a${TOKEN}b", "$", "${", "{tenant}"])
def test_an_argument_is_never_read_for_placeholders(monkeypatch, value):
    monkeypatch.setenv("TOKEN", "sk-123456")
    headers = HeaderTemplates({"X-Tenant": "{tenant}", "X-Both": "${TOKEN}/{tenant}"})
    assert headers.fill({"tenant": value})[0] == [("X-Tenant", value), ("X-Both", f"sk-123456/{value}")]


def test_what_the_environment_says_is_never_read_for_placeholders(monkeypatch):
    monkeypatch.setenv("TOKEN", "{tenant}${OTHER}")
    assert HeaderTemplates({"X-A": "${TOKEN}{tenant}"}).fill({"tenant": "t"})[0] == [("X-A", "{tenant}${OTHER}t")]


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "a\nb", "a\rb", "a\x00b", " a", "a ", "ü", "\x7f", "a\u2028"])
def test_an_argument_cannot_leave_its_header(value):
    with pytest.raises(ToolInputError, match=r"^tenant: expected ASCII text on one line"):
        HeaderTemplates({"X-Tenant": "{tenant}"}).fill({"tenant": value})


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([("a", "b")], "expected a dict, got list"),
        ({5: "x"}, "5 is no header name"),
        ({"a b": "x"}, "is no header name"),
        ({"a\r\nb": "x"}, "is no header name"),
        ({"": "x"}, "is no header name"),
        ({"Host": "evil.example"}, "set by the library itself"),
        ({"Transfer-Encoding": "chunked"}, "set by the library itself"),
        ({"Content-Length": "1"}, "set by the library itself"),
        ({"A": 5}, "expected a str, got int"),
        ({"A": "sk-secret\r\nB: c"}, "expected ASCII text on one line"),
        ({"A": "sk-secretü"}, "expected ASCII text on one line"),
        ({"A": " sk-secret"}, "expected ASCII text on one line"),
        ({"A": "${NOT_THERE}"}, "the environment variable NOT_THERE is not set"),
        ({"A": "${BLANK}"}, "the environment variable BLANK is not set"),
        ({"A": "${TWO_LINES}"}, "expected ASCII text on one line"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_and_not_shown(monkeypatch, headers: Any, why):
    monkeypatch.setenv("BLANK", "  ")
    monkeypatch.setenv("TWO_LINES", "sk-secret\nb")
    with pytest.raises(ConfigurationError, match=why) as caught:
        HeaderTemplates(headers)
    assert "sk-secret" not in str(caught.value)


def test_a_variable_that_is_gone_later_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setenv("TOKEN", "sk-123456")
    headers = HeaderTemplates({"Authorization": "Bearer ${TOKEN}"})
    monkeypatch.delenv("TOKEN")
    with pytest.raises(ConfigurationError, match="the environment variable TOKEN is not set"):
        headers.fill({})


def test_short_values_and_public_headers_are_no_secrets(monkeypatch):
    monkeypatch.setenv("FLAG", "on")
    headers = {"X-Flag": "${FLAG}", "Accept-Language": "en-GB,en", "X-Api-Key": "literal-key", "Cookie": "sid={sid}"}
    assert HeaderTemplates(headers).fill({"sid": "session"})[1] == ["literal-key"]


# -- bodies and queries


def test_a_text_that_is_one_placeholder_becomes_the_argument_itself():
    template = JSONTemplate(
        "body", {"a": "{x}", "b": ["{y}", "n={n}", 1, None, True], "{z}": "literal", "c": {"d": "{x}"}}
    )
    assert template.names == ["x", "y", "n", "x"]
    args = {"x": {"deep": [1]}, "y": None, "n": 2.0}
    assert template.fill(args) == {
        "a": {"deep": [1]}, "b": [None, "n=2", 1, None, True], "{z}": "literal", "c": {"d": {"deep": [1]}},
    }  # fmt: skip


def test_what_was_left_out_is_left_out():
    template = JSONTemplate("body", {"a": "{x}", "b": ["{y}", "n={n}"], "c": {"d": "{x}"}})
    assert template.fill({}) == {"b": [], "c": {}}
    assert JSONTemplate("body", "{x}").fill({}) is None
    assert JSONTemplate("body", ["{x}"]).fill({"x": "{y}"}) == ["{y}"]


def test_a_body_has_no_business_with_the_environment():
    with pytest.raises(ConfigurationError, match=r"body: \$\{…\} is read in headers only"):
        JSONTemplate("body", {"a": ["x ${TOKEN}"]})


def test_pieces_of_a_query():
    assert query_piece("x", "a b", ["1&2", 3, False]) == ["a%20b=1%262", "a%20b=3", "a%20b=false"]
    assert query_piece("x", "a", "\r\n#/?+") == ["a=%0D%0A%23%2F%3F%2B"]
    assert query_piece("x", "a", None) == []
    with pytest.raises(ToolInputError, match=r"^x: expected text"):
        query_piece("x", "a", {"b": 1})
    with pytest.raises(ToolInputError, match=r"^x: expected text"):
        query_piece("x", "a", [None])


def test_numbers_are_written_as_they_are_meant():
    assert [as_text("x", n) for n in (1e15, 1e300, 0.1, -0.0, True)] == [
        "1000000000000000", "1e+300", "0.1", "0", "true",
    ]  # fmt: skip
