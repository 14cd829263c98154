"""What goes over the wire, to whom, and what never does: addresses, headers, keys, proxies, a caller's own httpx."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL, Blocking, Client, later, soon
from tests.server import Gate, Request, Response, Server, calls, failure, reply, says, text
from toolnexus import (
    APIStatusError,
    APITimeoutError,
    AsyncClient,
    AuthenticationError,
    Cancel,
    ConfigurationError,
    RunCancelledError,
    StreamInterruptedError,
    Toolkit,
    ToolnexusError,
    define_tool,
    tool,
)
from toolnexus._version import VERSION

KEY = "sk-CANARY-1234567890"

FORMS = {
    "": "/chat/completions",
    "/": "/chat/completions",
    "/v1": "/v1/chat/completions",
    "/v1/": "/v1/chat/completions",
    "/v1/chat/completions": "/v1/chat/completions",
    "/v1/chat/completions/": "/v1/chat/completions",
    "/deep/er/v1": "/deep/er/v1/chat/completions",
    "/v1?api-version=2024-10-21": "/v1/chat/completions?api-version=2024-10-21",
    "/v1/?a=b%20c&empty=": "/v1/chat/completions?a=b%20c&empty=",
}


@pytest.mark.case("api-base-url-forms", "other-base-url-deep-path", "other-base-url-plain")
@pytest.mark.parametrize(("form", "target"), FORMS.items(), ids=[form or "bare" for form in FORMS])
def test_every_form_of_base_url_leads_to_the_endpoint(connect, serve, form, target):
    server = serve(says("Hi."))
    connect(server, base_url=server.url + form).stream("Hi?")
    assert (server.requests[0].method, server.requests[0].target.replace("+", "%20")) == ("POST", target)


def test_a_service_is_told_who_asks(connect, serve):
    server = serve(says("Hi."))
    connect(server).stream("Hi?")
    assert server.requests[0].headers["user-agent"] == f"toolnexus/{VERSION}"


def test_query_and_headers_are_added_to_every_request(connect, serve):
    server = serve(failure(503), says("Hi."))
    client = connect(
        server,
        base_url=f"{server.url}/v1?version=7",
        query={"key": "a&b"},
        headers={"X-Team": "blue", "User-Agent": "mine", "Accept": "text/plain"},
    )
    client.stream("Hi?")
    for request in server.requests:
        assert request.target == "/v1/chat/completions?version=7&key=a%26b"
        assert request.headers["x-team"] == "blue"
        assert request.headers["user-agent"] == "mine"
        assert request.headers["accept"] == "text/plain"
        assert request.headers["content-type"] == "application/json"
        assert "authorization" not in request.headers


@pytest.mark.parametrize("given", [False, True], ids=["our connections", "the caller's httpx"])
def test_a_name_that_comes_twice_in_the_query_is_sent_twice(connect, kind, serve, given):
    server = serve(says("Hi."))
    http_client = make_httpx(kind) if given else None
    client = connect(server, base_url=f"{server.url}/v1?tag=a&tag=b&version=7", http_client=http_client)
    client.stream("Hi?")
    assert server.requests[0].target == "/v1/chat/completions?tag=a&tag=b&version=7"
    if http_client is not None:
        close_own(client, http_client)


def test_an_error_of_a_missing_key_says_what_to_set(connect, serve):
    with pytest.raises(AuthenticationError, match=r"; no api_key was given, and OPENAI_API_KEY is not set$"):
        connect(serve(failure(401))).run("Hi?")


def test_a_header_of_the_users_own_takes_the_place_of_the_key(connect, serve):
    server = serve(says("Hi."))
    headers = {"authorization": "Basic abc"}
    connect(server, api_key=KEY, headers=headers).stream("Hi?")
    assert server.requests[0].headers["authorization"] == "Basic abc"


def test_model_and_params_may_be_set_for_one_call(connect, serve):
    server = serve(*[says("Hi.")] * 3)
    client = connect(server, request_params={"top_p": 0.5, "seed": 1})
    client.stream("Hi?", request_params={"seed": 2, "stream_options": None}, model="other")
    client.stream("Hi?")
    client.stream("Hi?", request_params={"top_p": None})
    first, second, third = (request.json for request in server.requests)
    assert (first["model"], first["top_p"], first["seed"]) == ("other", 0.5, 2)
    assert "stream_options" not in first
    assert (second["model"], second["seed"]) == (MODEL, 1)
    assert "top_p" not in third


def test_a_body_transform_sees_every_body_last(connect, serve):
    seen: list[dict[str, Any]] = []

    def transform(body: dict[str, Any]) -> dict[str, Any]:
        seen.append(body)
        return {**body, "model": "changed"}

    server = serve(calls(("c1", "look", "{}")), says("Seen."))
    look = define_tool(lambda: "seen", name="look")
    connect(server, body_transform=transform, request_params={"seed": 1}).stream("Go.", Toolkit(look))
    assert [body["model"] for body in seen] == [MODEL, MODEL]
    assert all(body["seed"] == 1 for body in seen)
    assert [request.json["model"] for request in server.requests] == ["changed", "changed"]


ENVIRONMENTS = {
    "the key": ({"OPENAI_API_KEY": f"{KEY}\n"}, KEY),
    "no key": ({}, None),
    "a blank key": ({"OPENAI_API_KEY": "  "}, None),
    "the key of somebody else": ({"OPENROUTER_API_KEY": KEY}, None),
}


@pytest.mark.case("api-env-key-whitespace")
@pytest.mark.parametrize(("environment", "key"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_key_comes_from_the_environment(connect, serve, monkeypatch, environment, key):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    server = serve(says("Hi."))
    connect(server).stream("Hi?")
    assert server.requests[0].headers.get("authorization") == (f"Bearer {key}" if key else None)


def test_the_base_url_comes_from_the_environment(connect, serve, monkeypatch):
    server = serve(says("Hi."))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/env/v1 ")
    connect().stream("Hi?")
    assert server.requests[0].target == "/env/v1/chat/completions"


@pytest.mark.case("api-env-key-whitespace")
def test_a_bad_key_in_the_environment_is_refused_without_being_shown(connect, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nsecond line")
    with pytest.raises(ConfigurationError) as caught:
        connect(base_url="http://127.0.0.1:1")
    assert str(caught.value).startswith("OPENAI_API_KEY: the key holds")
    assert KEY not in str(caught.value)


@pytest.mark.case("api-redirect-with-key", "security-redirect-does-not-carry-key")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_key_stays_here(play, serve, status):
    other = serve(says("Never."))
    server = serve(Response(status=status, headers={"location": f"{other.url}/v1/chat/completions"}))
    played = play(server, "Hi?", api_key=KEY)
    assert type(played.error) is APIStatusError
    assert other.url in str(played.error)
    assert "redirects are never followed" in str(played.error)
    assert other.requests == []
    assert len(server.requests) == 1


# -- the key


ECHOES = {
    "in an error": Response([f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode()], status=401, framing="length"),
    "in a plain error": Response([f"no such key: {KEY}".encode()], status=401, framing="length"),
    "in a stream": reply(f'data: {{"error": {{"message": "bad key {KEY}", "code": 401}}}}\n\n'.encode()),
    "in a redirect": Response(status=302, headers={"location": f"http://127.0.0.1/?key={KEY}"}),
    "in a page": reply(f"<html>{KEY}</html>".encode()),
}


@pytest.mark.parametrize("response", ECHOES.values(), ids=ECHOES)
def test_a_key_that_a_service_echoes_is_not_in_the_error(play, serve, response):
    error = play(serve(response), "Hi?", api_key=KEY).error
    assert isinstance(error, ToolnexusError)
    assert KEY not in f"{error} {error!r} {error.args} {vars(error)} {error.__cause__!r} {error.result}"
    assert "[redacted]" in str(error)


SILENT = {
    "an error": failure(401),
    "an end in the middle": reply(text("Hal"), end="reset"),
    "an end before the answer": Response(framing="close", end="reset"),
    "silence": Response(before=Gate()),
    "nonsense": reply(b"data: {nonsense\n\n"),
    "an answer": says("Hi."),
}


@pytest.mark.parametrize("given", [False, True], ids=["our httpx", "the caller's httpx"])
@pytest.mark.parametrize("response", SILENT.values(), ids=SILENT)
def test_the_key_shows_nowhere(connect, kind, serve, caplog, response, given):
    loggers = ["httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy", "asyncio", "toolnexus"]
    for name in loggers:
        caplog.set_level(1, name)
    caplog.set_level(1)
    server = serve(response)
    http_client = make_httpx(kind) if given else None
    client = connect(server, api_key=KEY, query={"token": KEY}, retries=0, timeout=0.2, http_client=http_client)
    error: ToolnexusError | None = None
    try:
        client.stream("Hi?")
    except ToolnexusError as raised:
        error = raised
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].target.endswith(f"?token={KEY}")
    assert KEY not in caplog.text
    assert KEY not in repr(client)
    assert KEY not in str(vars(getattr(client, "client", client)))
    if error is not None:
        assert not [where for where, value in seen_from(error) if KEY in value]
    if http_client is not None:
        close_own(client, http_client)


def seen_from(error: BaseException) -> Iterator[tuple[str, str]]:
    """What a crash report with local variables shows of an error: the errors behind it, and the frames' locals."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        current = queue.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        queue += [current.__cause__, current.__context__]
        yield repr(type(current)), f"{current} {current!r}"
        trace = current.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if "tests" not in file:  # the test itself knows the key
                for name, value in trace.tb_frame.f_locals.items():
                    yield f"{file}:{trace.tb_lineno} {name}", repr(value)
            trace = trace.tb_next


# -- a caller's own httpx


def close_own(client: Client, http_client: Any) -> None:
    """Close a caller's httpx where its connections live."""
    if isinstance(client, Blocking):
        client.runner.run(http_client.aclose())
    else:
        http_client.close()


def make_httpx(kind: str, **options: Any) -> Any:
    return (httpx.Client if kind == "sync" else httpx.AsyncClient)(**options)


def test_a_callers_httpx_is_used_and_left_open(connect, kind, serve):
    server = serve(says("Hi."), says("Hi again."))
    http_client = make_httpx(kind, headers={"x-mine": "1"})
    client = connect(server, http_client=http_client, api_key=KEY)
    assert client.stream("Hi?").text == "Hi."
    client.close()
    assert not http_client.is_closed
    second = connect(server, http_client=http_client) if kind == "sync" else None
    if second is not None:
        assert second.stream("Hi?").text == "Hi again."
    assert server.requests[0].headers["x-mine"] == "1"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    close_own(client, http_client)


@pytest.mark.parametrize("streams", [False, True], ids=["content", "stream"])
def test_a_mock_transport_is_enough(connect, kind, streams):
    body = b"".join(write for write in says("Hel", "lo.").writes if isinstance(write, bytes))
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if not streams:
            return httpx.Response(200, content=body)
        return httpx.Response(200, stream=Cut(body))

    http_client = make_httpx(kind, transport=httpx.MockTransport(handle))
    client = connect(base_url="http://model.test/v1?a=1", http_client=http_client, query={"b": "2"}, api_key=KEY)
    assert client.stream("Hi?").text == "Hello."
    assert str(seen[0].url) == "http://model.test/v1/chat/completions?a=1&b=2"
    assert seen[0].headers["authorization"] == f"Bearer {KEY}"
    close_own(client, http_client)


class Cut(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body in pieces of seven bytes, with empty ones between them, which are no end."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._body), 7):
            yield b""
            yield self._body[start : start + 7]

    async def __aiter__(self) -> Any:
        for piece in self:
            yield piece


def test_what_a_mock_transport_raises_is_translated(connect, kind):
    def handle(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("too slow", request=request)

    http_client = make_httpx(kind, transport=httpx.MockTransport(handle))
    client = connect(base_url="http://model.test", http_client=http_client, retries=0)
    with pytest.raises(APITimeoutError, match="the server was silent for too long"):
        client.stream("Hi?")
    close_own(client, http_client)


def test_what_is_no_fault_of_the_network_comes_through_a_callers_httpx_unchanged(connect, kind):
    def handle(request: httpx.Request) -> httpx.Response:
        raise LookupError("a bug in the mock")

    http_client = make_httpx(kind, transport=httpx.MockTransport(handle))
    client = connect(base_url="http://model.test", http_client=http_client)
    with pytest.raises(LookupError, match="a bug in the mock"):
        client.stream("Hi?")
    close_own(client, http_client)


def one_connection(kind: str) -> Any:
    return make_httpx(kind, limits=httpx.Limits(max_connections=1), timeout=httpx.Timeout(8, pool=5))


@pytest.mark.case("api-async-break-closes")
@pytest.mark.parametrize("how", ["close", "cancel", "deadline", "error", "silence", "raise"])
def test_the_only_connection_of_a_callers_httpx_is_free_after_a_run_was_left(connect, kind, serve, how):
    gate = Gate()
    held = reply(text("Hel"), gate, text("lo!")) if how != "error" else reply(text("Hel"), end="close")
    server = serve(held, says("Next."))
    http_client = one_connection(kind)
    client = connect(server, http_client=http_client, timeout=0.2 if how == "silence" else None)
    if how == "close":
        events = client.iter_events("Go.")
        next(iter(events))
        events.close()
    elif how == "cancel":
        cancel = Cancel()
        thread = later(cancel, gate.wait_reached)
        with pytest.raises(RunCancelledError):
            client.stream("Go.", cancel=cancel)
        thread.join()
    elif how == "deadline":
        with pytest.raises(ToolnexusError, match="deadline"):
            client.stream("Go.", deadline=0.2)
    elif how == "error":
        with pytest.raises(StreamInterruptedError):
            client.stream("Go.")
    elif how == "silence":
        with pytest.raises(APITimeoutError):
            client.stream("Go.")
    else:

        def on_event(event: object) -> None:
            raise LookupError("mine")

        with pytest.raises(LookupError):
            client.stream("Go.", on_event=on_event)
    assert client.stream("Next?").text == "Next."
    close_own(client, http_client)


def test_a_cancel_before_the_head_frees_the_only_connection_of_a_callers_async_httpx(serve):
    gate = Gate()
    server = serve(Response(before=gate), says("Next."))

    async def main() -> str:
        async with (
            one_connection("async") as http_client,
            AsyncClient(base_url=server.url, model=MODEL, http_client=http_client) as client,
        ):
            cancel = Cancel()
            run = asyncio.create_task(client.run("Go.", cancel=cancel))
            await asyncio.to_thread(gate.wait_reached)
            cancel.cancel()
            with pytest.raises(RunCancelledError):
                await run
            with soon():
                return (await client.run("Next?")).text

    assert asyncio.run(main()) == "Next."


@pytest.mark.parametrize("times", [1, 2])
def test_a_callers_async_httpx_survives_a_cancel_at_any_step(serve, times):
    fine = define_tool(lambda: "fine", name="fine")

    def script(request: Request) -> Response:
        return says("Ok.") if request.json["messages"][-1]["role"] == "tool" else calls(("c1", "fine", "{}"))

    server = serve(script)

    async def main() -> None:
        steps = 0
        async with one_connection("async") as http_client:
            while True:
                async with AsyncClient(base_url=server.url, model=MODEL, http_client=http_client) as client:
                    task = asyncio.ensure_future(client.run("Go.", Toolkit(fine)))
                    for _ in range(steps):
                        if task.done():
                            break
                        await asyncio.sleep(0)
                    finished = task.done()
                    for _ in range(times):
                        task.cancel()
                        await asyncio.sleep(0)
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                    assert (await client.run("Go.", Toolkit(fine))).text == "Ok."
                if finished:
                    return
                steps += 1 if steps < 40 else 37

    asyncio.run(main())


def test_a_slow_reader_of_a_callers_async_httpx_loses_nothing(serve):
    pieces = [f"piece {n} " for n in range(200)]
    server = serve(says(*pieces))

    async def main() -> str:
        seen = ""
        async with (
            httpx.AsyncClient() as http_client,
            AsyncClient(base_url=server.url, model=MODEL, http_client=http_client) as client,
            client.stream("Go.") as events,
        ):
            async for event in events:
                if event.type == "text":
                    seen += event.delta
                    await asyncio.sleep(0)
        return seen

    assert asyncio.run(main()) == "".join(pieces)


def test_the_timeouts_of_a_callers_httpx_hold_unless_we_were_given_one(connect, kind, serve):
    server = serve(Response(before=Gate()), Response(before=Gate()))
    http_client = make_httpx(kind, timeout=0.1)
    client = connect(server, http_client=http_client, retries=0)
    with pytest.raises(APITimeoutError):
        client.stream("Go.")
    close_own(client, http_client)
    http_client = make_httpx(kind, timeout=60)
    client = connect(server, http_client=http_client, retries=0, timeout=0.1)
    with pytest.raises(APITimeoutError):
        client.stream("Go.")
    close_own(client, http_client)


# -- proxies


@pytest.fixture
def proxy(serve: Any) -> Server:
    server: Server = serve(lambda request: says("Through the proxy."))
    return server


@pytest.mark.case("api-proxy-env")
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_used(connect, serve, proxy, monkeypatch, variable):
    server = serve(says("Never."))
    monkeypatch.setenv(variable, proxy.url)
    client = connect(server, api_key=KEY, query={"a": "b"})
    assert client.stream("Hi?").text == "Through the proxy."
    assert client.stream("Hi?").text == "Through the proxy."
    assert proxy.requests[0].target == f"{server.url}/chat/completions?a=b"
    assert proxy.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests == []


@pytest.mark.case("api-proxy-env")
@pytest.mark.parametrize("entry", ["127.0.0.1", "*", "10.0.0.0/8,127.0.0.1,::1", " 127.0.0.1 ,example.com"])
def test_no_proxy_leads_past_it(connect, serve, proxy, monkeypatch, entry):
    server = serve(says("Direct."))
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", entry)
    assert connect(server).stream("Hi?").text == "Direct."
    assert proxy.requests == []


@pytest.mark.case("api-proxy-env")
@pytest.mark.parametrize("entry", ["10.0.0.0/8", "::1", "[::1]", "fe80::/10", "*.local", ",", "http://x", "a b"])
def test_odd_entries_of_no_proxy_do_no_harm(connect, serve, proxy, monkeypatch, entry):
    server = serve(says("Never."))
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", entry)
    assert connect(server).stream("Hi?").text == "Through the proxy."


def test_a_proxy_that_is_not_there_is_a_connection_error(connect, serve, monkeypatch):
    server = serve(says("Never."))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(ToolnexusError, match="could not connect"):
        connect(server, retries=0).stream("Hi?")


@pytest.mark.parametrize("wait", ["for the head", "in mid-stream"])
@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_a_run_through_a_proxy_can_be_ended(connect, kind, serve, monkeypatch, wait, how):
    if (kind, wait, how) == ("sync", "for the head", "cancel"):
        return  # httpcore's pool does not say which socket it waits on: that ends with its own timeout
    gate = Gate()
    proxy = serve(Response(before=gate) if wait == "for the head" else reply(text("Hel"), gate), says("Next."))
    server = serve(says("Never."))
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    client = connect(server)
    cancel = Cancel()
    thread = later(cancel, gate.wait_reached) if how == "cancel" else None
    with soon(), pytest.raises(ToolnexusError) as caught:
        client.stream("Go.", cancel=cancel, deadline=0.2 if how == "deadline" else 60)
    if thread is not None:
        thread.join()
    assert type(caught.value).__name__ == ("RunCancelledError" if how == "cancel" else "DeadlineExceededError")
    assert client.stream("Next?").text == "Next."
    proxy.requests[0].wait_left()


def test_a_tool_may_use_a_client_of_its_own(play, serve):
    inner = serve(says("From inside."))

    @tool
    def ask_inside() -> str:
        """Ask another model."""
        from toolnexus import SyncClient

        with SyncClient(base_url=inner.url, model=MODEL) as client:
            return client.run("Well?").text

    server = serve(calls(("c1", "ask_inside", "{}")), says("Ok."))
    assert play(server, "Go.", ask_inside).ended().tool_calls[0].output == "From inside."


def test_a_key_that_is_refused_is_an_authentication_error(play, serve):
    assert isinstance(play(serve(failure(401)), "Hi?", api_key=KEY).error, AuthenticationError)
