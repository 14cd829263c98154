"""What cannot work is refused where it is given, by a message that names the argument."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.clients.harness import CLIENTS, new_client
from tests.server import says
from toolnexus import Cancel, ConfigurationError, MemoryStore, Message, TextPart, Toolkit, ToolnexusError, define_tool


async def async_function(*args: Any) -> None: ...


class AsyncCallable:
    async def __call__(self, *args: Any) -> None: ...


class AsyncMethods:
    async def get(self, id: str) -> None: ...

    async def save(self, id: str, messages: Any) -> None: ...


CONSTRUCTOR = {
    "an unknown style": ({"style": "cohere"}, "style: expected one of ['openai', 'anthropic'], got 'cohere'"),
    "an empty model": ({"model": " "}, "model: expected the name of a model, got ' '"),
    "a model that is no text": ({"model": None}, "model: expected the name of a model, got None"),
    "a base_url without scheme": ({"base_url": "localhost:8080"}, "base_url: expected a URL such as"),
    "a base_url of another scheme": ({"base_url": "ftp://host/v1"}, "base_url: expected a URL such as"),
    "a base_url without host": ({"base_url": "http:///v1"}, "base_url: expected a URL such as"),
    "a base_url with a space": ({"base_url": "http://a b/v1"}, "base_url: expected a URL such as"),
    "a base_url with a bad port": ({"base_url": "http://host:99999/v1"}, "base_url: expected a URL such as"),
    "a base_url with credentials": ({"base_url": "http://me:pw@host/v1"}, "base_url: a URL must not hold credentials"),
    "a base_url that is bytes": ({"base_url": b"http://host"}, "base_url: expected a URL such as"),
    "a key with a newline": ({"api_key": "sk-SECRET\n"}, "api_key: the key holds white space at an end"),
    "a key with a NUL": ({"api_key": "sk-\0SECRET"}, "api_key: the key holds white space at an end"),
    "a key with an umlaut": ({"api_key": "sk-SECRETä"}, "api_key: the key holds white space at an end"),
    "a blank key": ({"api_key": "  "}, "api_key: expected a key, got a blank string"),
    "a key that is bytes": ({"api_key": b"sk-SECRET"}, "api_key: expected a str, got bytes"),
    "headers that are a list": ({"headers": [("a", "b")]}, "headers: expected a dict, got list"),
    "a header with a newline": ({"headers": {"a": "b\r\nc: SECRET"}}, "headers['a']: expected ASCII text on one line"),
    "a header without name": ({"headers": {"": "b"}}, "headers: '' is no header name"),
    "a header that httpx sets": ({"headers": {"Host": "b"}}, "headers['Host']: set by the HTTP library itself"),
    "a query with numbers": ({"query": {"a": 1}}, "query: expected a dict of str to str"),
    "a system prompt that is a list": ({"system_prompt": []}, "system_prompt: expected a str or None, got list"),
    "no turns": ({"max_turns": 0}, "max_turns: expected an int of at least 1, got 0"),
    "turns that are a bool": ({"max_turns": True}, "max_turns: expected an int of at least 1, got True"),
    "negative retries": ({"retries": -1}, "retries: expected an int of at least 0, got -1"),
    "a negative wait": ({"retry_base": -0.5}, "retry_base: expected seconds, at least 0, got -0.5"),
    "a wait that is no number": ({"max_retry_after": float("nan")}, "max_retry_after: expected seconds"),
    "a timeout of 0": ({"timeout": 0}, "timeout: expected seconds above 0"),
    "a timeout that is text": ({"timeout": "5"}, "timeout: expected seconds, httpx.Timeout or None, got '5'"),
    "a progress_timeout of 0": ({"progress_timeout": 0}, "progress_timeout: expected seconds above 0"),
    "a progress_timeout that is text": ({"progress_timeout": "1"}, "progress_timeout: expected seconds, at least 0"),
    "a deadline of 0": ({"deadline": 0}, "deadline: expected seconds above 0"),
    "a deadline that is text": ({"deadline": "1"}, "deadline: expected seconds, at least 0, got '1'"),
    "params that are a list": ({"request_params": [1]}, "request_params: expected a dict with str keys, got [1]"),
    "params that the loop sets": ({"request_params": {"messages": []}}, "request_params: ['messages'] are set by"),
    "params that are no JSON": ({"request_params": {"a": object()}}, "request_params: expected JSON values:"),
    "params that are NaN": ({"request_params": {"a": float("nan")}}, "request_params: expected JSON values:"),
    "a body_transform that is a dict": ({"body_transform": {}}, "body_transform: expected a function of the body"),
    "a token for the wrong style": ({"auth_token": "t"}, "auth_token: for style='anthropic'"),
    "a token and a key": ({"auth_token": "t", "api_key": "k", "style": "anthropic"}, "auth_token: for style="),
    "a version with a newline": ({"anthropic_version": "1\n"}, "anthropic_version: expected a version such as"),
    "limits that are a number": ({"limits": 5}, "limits: expected Limits(...), got 5"),
    "a wait_for that is text": ({"wait_for": "me"}, "wait_for: expected a function, got 'me'"),
    "the class of a store": ({"store": MemoryStore}, "store: expected an object with get() and save(), got <class"),
    "a store without save": ({"store": {}}, "store: expected an object with get() and save(), got {}"),
    "an http_client of another kind": ({"http_client": "mine"}, "http_client: expected an httpx."),
}


@pytest.mark.parametrize(("options", "message"), CONSTRUCTOR.values(), ids=CONSTRUCTOR)
def test_a_client_refuses(connect, options, message):
    with pytest.raises(ConfigurationError) as caught:
        connect(**{"base_url": "http://127.0.0.1:1", **options})
    assert str(caught.value).startswith(message)
    assert "SECRET" not in str(caught.value)
    assert isinstance(caught.value, ToolnexusError)


def test_a_client_wants_a_model(kind):
    with pytest.raises(TypeError, match="model"):
        CLIENTS[kind](base_url="http://127.0.0.1:1")  # type: ignore[call-arg]  # that is what is tested


def test_a_client_refuses_an_unknown_keyword(connect):
    with pytest.raises(TypeError, match="temprature"):
        connect(base_url="http://127.0.0.1:1", temprature=1)


def test_a_client_refuses_the_http_client_of_the_other_world(connect, kind):
    other = httpx.AsyncClient() if kind == "sync" else httpx.Client()
    wanted = "Client" if kind == "sync" else "AsyncClient"
    with pytest.raises(ConfigurationError, match=rf"http_client: expected an httpx\.{wanted}, got "):
        connect(base_url="http://127.0.0.1:1", http_client=other)


ASYNC = {
    "wait_for": {"wait_for": async_function},
    "wait_for that is an object": {"wait_for": AsyncCallable()},
    "store": {"store": AsyncMethods()},
}


@pytest.mark.parametrize("options", ASYNC.values(), ids=ASYNC)
def test_what_must_be_awaited_is_refused_by_the_sync_client_and_welcome_in_the_other(connect, kind, options):
    if kind == "sync":
        with pytest.raises(ConfigurationError, match="SyncClient cannot await"):
            connect(base_url="http://127.0.0.1:1", **options)
    else:
        connect(base_url="http://127.0.0.1:1", **options)


CALL: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "a prompt that is None": ((None,), {}, ConfigurationError, "prompt: expected a str, or a list"),
    "a prompt that is bytes": ((b"Hi?",), {}, ConfigurationError, "prompt: expected a str, or a list"),
    "a prompt that is a dict": (({"role": "user"},), {}, ConfigurationError, "prompt: expected a str, or a list"),
    "a prompt of nothing": (([],), {}, ConfigurationError, "prompt: expected a str, or a list"),
    "a prompt of dicts": (([{"text": "Hi?"}],), {}, ConfigurationError, "prompt: expected a str, or a list"),
    "a toolkit that is a list": (
        ("Hi?", [len]),
        {},
        ConfigurationError,
        "toolkit: expected a Toolkit, got list; wrap tools as Toolkit(tool, ...)",
    ),
    "an empty id": (("Hi?",), {"id": ""}, ConfigurationError, "id: expected a conversation id"),
    "an id that is a number": (("Hi?",), {"id": 7}, ConfigurationError, "id: expected a conversation id"),
    "an id and a history": (("Hi?",), {"id": "a", "history": []}, ConfigurationError, "history: cannot be given"),
    "a history that is text": (
        ("Hi?",),
        {"history": "Hi."},
        ConfigurationError,
        "history: expected a list of messages",
    ),
    "a history of both kinds": (
        ("Hi?",),
        {"history": [Message("user", "a"), {"role": "user", "content": "b"}]},
        ConfigurationError,
        "history: expected either Message objects or dicts, one kind only",
    ),
    "a history of numbers": (("Hi?",), {"history": [1]}, ConfigurationError, "history: expected either Message"),
    "a cancel that is an event": (("Hi?",), {"cancel": object()}, ConfigurationError, "cancel: expected a Cancel"),
    "a deadline of 0": (("Hi?",), {"deadline": 0}, ConfigurationError, "deadline: expected seconds above 0"),
    "no turns": (("Hi?",), {"max_turns": 0}, ConfigurationError, "max_turns: expected an int of at least 1"),
    "params that the loop sets": (
        ("Hi?",),
        {"request_params": {"stream": False}},
        ConfigurationError,
        "request_params: ['stream'] are set by the client itself",
    ),
    "no tokens": (("Hi?",), {"max_tokens": 0}, ConfigurationError, "max_tokens: expected an int of at least 1"),
    "a negative temperature": (("Hi?",), {"temperature": -1}, ConfigurationError, "temperature: expected a number"),
    "a stop that is empty": (("Hi?",), {"stop": [""]}, ConfigurationError, "stop: expected a str or a list of them"),
    "a stop that is a number": (("Hi?",), {"stop": 5}, ConfigurationError, "stop: expected a str or a list of them"),
    "a tool that is not there": (("Hi?",), {"tool_choice": "x"}, ConfigurationError, "tool_choice: expected 'auto'"),
    "a flag that is text": (("Hi?",), {"parallel_tool_calls": "no"}, ConfigurationError, "parallel_tool_calls: expect"),
    "an empty model": (("Hi?",), {"model": ""}, ConfigurationError, "model: expected the name of a model"),
    "a system prompt of numbers": (("Hi?",), {"system_prompt": 5}, ConfigurationError, "system_prompt: expected a str"),
    "an unknown keyword": (("Hi?",), {"temprature": 1}, TypeError, "unexpected keyword arguments ['temprature']"),
}


@pytest.mark.parametrize(("args", "options", "error", "message"), CALL.values(), ids=CALL)
@pytest.mark.parametrize("method", ["stream", "iter_events", "ask", "run"])
def test_a_call_refuses(connect, serve, method, args, options, error, message):
    if method == "run" and "id" in options:
        return  # run keeps nothing, and takes no id
    server = serve(says("Never."))
    with pytest.raises(error) as caught:
        getattr(connect(server), method)(*args, **options)
    assert str(caught.value).startswith(message)
    assert server.requests == []


@pytest.mark.case("api-async-callback-in-sync-client")
@pytest.mark.parametrize("callback", ["me", 5, async_function, AsyncCallable()], ids=range(4))
def test_the_sync_client_refuses_a_callback_that_it_cannot_call(serve, callback):
    server = serve(says("Never."))
    with new_client("sync", server) as client:
        with pytest.raises(ConfigurationError, match="on_event: "):
            client.stream("Hi?", on_event=callback)
        with pytest.raises(ConfigurationError, match="on_text: "):
            client.ask("Hi?", on_text=callback)
    assert server.requests == []


def test_the_async_client_refuses_an_on_text_that_it_cannot_call(serve):
    with new_client("async", serve(says("Never."))) as client, pytest.raises(ConfigurationError, match="on_text: "):
        client.ask("Hi?", on_text="me")  # type: ignore[arg-type]  # that is what is tested


@pytest.mark.parametrize(
    ("prompt", "options", "ends"),
    [
        ("Hi?", {"id": "c"}, "; run() keeps no conversation: ask() and stream() take id="),
        ("Hi?", {"tools": []}, "; tools go into a Toolkit, which is the second argument"),
        ("Hi?", {"messages": []}, "; earlier messages are history="),
        (
            "Hi?",
            {"on_event": print},
            "; SyncClient.stream() and resume() call back; elsewhere the events are iterated over",
        ),
        ([{"role": "user", "content": "Hi?"}], {}, "; earlier messages go into history="),
    ],
)
def test_what_other_libraries_call_otherwise_is_explained(connect, serve, prompt, options, ends):
    with pytest.raises((TypeError, ConfigurationError)) as caught:
        connect(serve(says("Never."))).run(prompt, **options)
    assert str(caught.value).endswith(ends)


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigurationError, match="two tools are named 'look'"):
        Toolkit(define_tool(lambda: 1, name="look"), define_tool(lambda: 2, name="look"))


def test_a_good_call_works_with_every_option(connect, serve):
    client = connect(serve(says("Hi.")))
    result = client.stream(
        [TextPart("Hi?")],
        Toolkit(),
        history=[],
        cancel=Cancel(),
        deadline=60,
        max_turns=1,
        request_params={"top_p": 0.5},
        model="other",
        system_prompt="Be kind.",
    )
    assert result.text == "Hi."
    assert result.model == "other"


def test_a_body_transform_that_gives_no_dict_is_named(play, serve):
    server = serve(says("Never."))
    played = play(server, "Hi?", body_transform=lambda body: None)
    assert isinstance(played.error, ConfigurationError)
    assert str(played.error) == "body_transform: expected a dict back, got NoneType"
    assert server.requests == []


def test_a_body_that_is_no_json_is_named(play, serve):
    server = serve(says("Never."))
    played = play(server, "Hi?", body_transform=lambda body: {**body, "when": object()})
    assert isinstance(played.error, ConfigurationError)
    assert str(played.error).startswith("the request body is not JSON: ")
    assert server.requests == []


def test_a_body_transform_may_raise(play, serve):
    played = play(serve(says("Never.")), "Hi?", body_transform=lambda body: body["nope"])
    assert isinstance(played.error, KeyError)


def test_half_a_character_in_the_prompt_is_replaced(play, serve):
    server = serve(says("Hi."))
    play(server, "Half \ud83d and whole \U0001f600").ended()
    assert server.requests[0].json["messages"][0]["content"] == "Half \ufffd and whole \U0001f600"
