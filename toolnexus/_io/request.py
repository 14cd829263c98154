"""What both transports have in common: headers, query, timeouts, proxies, certificates."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from .._version import VERSION
from ..config import ClientConfig
from .bounds import Patience
from .http11 import Endpoint

if TYPE_CHECKING:
    import httpx

_PLAIN_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]+)(:(?P<port>[1-9][0-9]*))?(?P<path>(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+)"
)
"""One in which nothing has to be quoted or normalised: most are, and are not worth the import of httpx."""
_PORTS = {"http": 80, "https": 443}


def request_headers(config: ClientConfig, *, with_key: bool) -> dict[str, str]:
    """The headers of a request; those of the user win."""
    headers = {
        "accept": "text/event-stream, application/json",
        # Proxies that compress hold small events back until a block is full.
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"toolnexus/{VERSION}",
        **({"anthropic-version": config.anthropic_version} if config.style == "anthropic" else {}),
        **(config.auth_headers() if with_key else {}),
    }
    given = {name.lower() for name in config.headers}
    return {**{name: value for name, value in headers.items() if name not in given}, **config.headers}


def key_headers(config: ClientConfig) -> list[tuple[bytes, bytes]]:
    """The headers that carry the key, raw, less those that the user set."""
    given = {name.lower() for name in config.headers}
    return [(n.encode(), v.encode()) for n, v in config.auth_headers().items() if n not in given]


def endpoint(config: ClientConfig) -> Endpoint:
    """What is the same in all requests over connections of our own."""
    plain = None if config.query else _PLAIN_URL.fullmatch(config.url)
    if plain is not None:
        scheme, host, target = plain["scheme"], plain["host"], plain["path"].encode()
        port = int(plain["port"] or _PORTS[scheme])
        netloc = host if port == _PORTS[scheme] else f"{host}:{port}"
    else:
        url = url_with_query(config)
        scheme, host, target, netloc = url.scheme, url.raw_host.decode(), url.raw_path, url.netloc.decode()
        port = url.port or _PORTS[scheme]
    headers = {"host": netloc, "connection": "keep-alive", **request_headers(config, with_key=False)}
    return Endpoint(
        host=host,
        port=port,
        is_tls=scheme == "https",
        target=target,
        headers=(*((name.encode(), value.encode()) for name, value in headers.items()), *key_headers(config)),
    )


def url_with_query(config: ClientConfig) -> httpx.URL:
    """The endpoint with its query, which may hold secrets and is therefore not for any log."""
    import httpx

    url = httpx.URL(config.url)
    return url.copy_with(params=list(config.query)) if config.query else url  # pairs: a name may come twice


def hidden_query(config: ClientConfig, client: httpx.Client | httpx.AsyncClient) -> dict[str, bytes] | None:
    """The query as a request extension that httpx does not log; `None` where the client's transport knows none.

    Source: httpcore, "Extensions", `target`. A caller's own transport (a mock, a recorder) looks at the URL.
    """
    import httpx

    transport = getattr(client, "_transport", None)
    if config.query and isinstance(transport, (httpx.HTTPTransport, httpx.AsyncHTTPTransport)):
        return {"target": url_with_query(config).raw_path}
    return None


def httpx_request(
    config: ClientConfig,
    client: httpx.Client | httpx.AsyncClient,
    headers: Mapping[str, str],
    body: bytes,
    patience: Patience,
    *,
    is_given: bool,
) -> httpx.Request:
    """A request for httpx to send.

    Args:
        is_given: Whether the client is the caller's: then its own timeouts hold, unless we were given some. On the
            requests of ours `proxied` puts the query.
    """
    hidden = hidden_query(config, client) if is_given else None
    timeouts = client.timeout if is_given and not config.timeout_given else config.timeouts
    extensions = {
        **(hidden or {}),
        "timeout": {
            "connect": patience.timeout(timeouts.connect),
            "read": patience.timeout(timeouts.read),
            "write": patience.timeout(timeouts.write),
            "pool": patience.timeout(timeouts.pool),
        },
    }
    url = url_with_query(config) if is_given and hidden is None else config.url
    return client.build_request("POST", url, content=body, headers=headers, extensions=extensions)


@cache
def shared_ssl_context() -> ssl.SSLContext:
    """One context for all clients, made when the first one needs it: loading the certificates takes 20 ms."""
    import httpx

    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def environment_proxy(url: str) -> str | None:
    """The proxy for `url`, from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`; `None` for no proxy.

    httpx reads these only when it makes the transport itself, and its reader is not public; a release that moves
    it makes this import fail in the tests, not quietly ignore a proxy.
    """
    # urllib, which httpx asks, has a look at the system's settings as well on these two.
    if sys.platform not in ("darwin", "win32") and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    import httpx
    from httpx._utils import URLPattern, get_environment_proxies

    found: list[tuple[URLPattern, str | None]] = []
    for pattern, proxy in get_environment_proxies().items():
        pattern = pattern.replace("*[", "[")  # an IPv6 address in brackets is taken for a name there
        with contextlib.suppress(httpx.InvalidURL):  # such as an IPv6 network, which no pattern can say
            found.append((URLPattern(pattern), proxy))
    found.sort(key=lambda pair: pair[0].priority)  # the most specific first
    return next((proxy for pattern, proxy in found if pattern.matches(httpx.URL(url))), None)
