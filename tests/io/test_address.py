"""Where a request goes and what stands in its head: what httpx would make of the same address."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolnexus import ConfigurationError, SyncClient
from toolnexus._io.http11 import Endpoint
from toolnexus._io.request import endpoint, environment_proxy, request_headers, url_with_query

HOSTS = [
    "127.0.0.1",
    "localhost",
    "api.example.com",
    "API.Example.com",
    "xn--bcher-kva.example",
    "[::1]",
    "a_b.example",
]
PORTS = ["", ":80", ":443", ":8080", ":0", ":080", ":65535"]
PATHS = st.text("aZ09._~-/%!$&'()*+,;=:@{}`^|\\\"<>[]", max_size=12)


def made_for(base_url: str, **options: Any) -> tuple[Endpoint, httpx.URL]:
    """What we ask, and the address that httpx makes of it."""
    config = SyncClient(base_url=base_url, model="m", **options)._config
    return endpoint(config), url_with_query(config)


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=st.sampled_from(HOSTS),
    port=st.sampled_from(PORTS),
    path=PATHS,
    query=st.sampled_from(["", "?a=b", "?a=b%20c&a=d", "?empty="]),
)
@example("http", "localhost", ":80", "a/../b/./c", "")
@example("https", "localhost", ":443", ".hidden/..", "")
@example("http", "localhost", ":0", "a", "")
@example("http", "localhost", ":443", "a%20b/100%", "")
def test_a_request_goes_where_httpx_would_send_it(scheme: str, host: str, port: str, path: str, query: str):
    try:
        ours, url = made_for(f"{scheme}://{host}{port}/{path}{query}")
    except (ConfigurationError, httpx.InvalidURL):
        return
    assert (ours.host, ours.target, ours.is_tls) == (url.raw_host.decode(), url.raw_path, scheme == "https")
    assert ours.port == (url.port or {"http": 80, "https": 443}[scheme])
    assert dict(ours.headers)[b"host"] == url.netloc


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_the_head_has_what_was_configured_and_the_key_last(style):
    client = SyncClient(
        base_url="http://127.0.0.1:1", model="m", style=style, api_key="k", headers={"X-Team": "a", "x-team": "b"}
    )
    headers = endpoint(client._config).headers
    expected = request_headers(client._config, with_key=True)
    assert {(name.decode(), value.decode()) for name, value in headers} == {
        ("host", "127.0.0.1:1"),
        ("connection", "keep-alive"),
        *expected.items(),
    }
    assert headers[-1][1] in (b"k", b"Bearer k")


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "All_Proxy"])
def test_a_proxy_is_found_however_its_variable_is_written(monkeypatch, name):
    assert environment_proxy("https://api.example.com/v1") is None
    monkeypatch.setenv(name, "http://127.0.0.1:3128")
    assert environment_proxy("https://api.example.com/v1") == "http://127.0.0.1:3128"
