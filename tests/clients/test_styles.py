"""Both styles over the wire: conversations that change from one to the other, headers, addresses, options.

The servers look at each request with the validators, and refuse what the API would refuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import claude
from tests.server import (
    Request,
    Response,
    Server,
    calls,
    delta,
    done,
    failure,
    finish,
    reply,
    says,
    sse,
    tool_call,
    whole,
)
from tests.validators import anthropic, openai
from toolnexus import (
    BadRequestError,
    ConfigurationError,
    ImagePart,
    MemoryStore,
    OverloadedError,
    ReasoningPart,
    TextPart,
    Toolkit,
    ToolResult,
    from_openai,
    to_anthropic,
    to_openai,
    tool,
)
from toolnexus.demo.scripted import Call, Reply, ScriptedRequest, ScriptedServer

Json = dict[str, Any]
Answer = Callable[[Request], Response]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def says_claude(*payloads: Json | list[Json]) -> Response:
    """A streamed answer in Anthropic's words, the events with their names."""
    flat = [p for given in payloads for p in (given if isinstance(given, list) else [given])]
    return reply([f"event: {payload['type']}\n".encode() + sse(payload) for payload in flat])


def claude_text(text: str) -> Response:
    return says_claude(claude.start(input_tokens=3), claude.text(0, text), claude.finish(output_tokens=2))


def strict(check: Callable[[Json], None], *replies: Response) -> Answer:
    """Refuses what the API would refuse, with the reason; else the next reply."""
    rest = iter(replies)

    def answer(request: Request) -> Response:
        try:
            check(request.json)
        except AssertionError as broken:
            return failure(400, str(broken))
        return next(rest)

    return answer


def check_openai(body: Json) -> None:
    openai.check(body, also={"reasoning_content"})


# -- one conversation, two providers


def openai_asks(a: int, id: str) -> Response:
    arguments = json.dumps({"a": a, "b": 1})
    thinking = delta(reasoning_content=f"openai thinks of {a}")
    return reply(thinking, tool_call(id, "add", [arguments]), finish("tool_calls"), done())


def anthropic_asks(a: int, id: str) -> Response:
    return says_claude(
        claude.start(input_tokens=3),
        claude.thought(0, f"anthropic thinks of {a}", f"signature+{a}=="),
        [claude.begin(1, "redacted_thinking", data=f"redacted+{a}=="), claude.end(1)],
        claude.call(2, id, json.dumps({"a": a, "b": 1}), name="add"),
        claude.finish("tool_use", output_tokens=2),
    )


@pytest.mark.case("api-history-switch-provider-style")
def test_a_conversation_changes_its_provider_at_every_turn(connect, serve):
    """With ids that come again, and thinking that one wants back and the other must not see."""
    ids = ("functions.add:0", "toolu_1", "functions.add:0", "toolu_1")
    theirs = serve(
        strict(check_openai, openai_asks(1, ids[0]), says("2."), openai_asks(3, ids[2]), says("4.")),
    )
    ours = serve(
        strict(
            anthropic.check,
            *(anthropic_asks(2, ids[1]), claude_text("3.")),
            *(anthropic_asks(4, ids[3]), claude_text("5.")),
        ),
    )
    store, toolkit = MemoryStore(), Toolkit(add)
    clients = [connect(theirs, store=store), connect(ours, style="anthropic", store=store)] * 2
    results = [c.stream(f"{n} and 1?", toolkit, id="sums") for n, c in enumerate(clients, 1)]

    assert [result.text for result in results] == ["2.", "3.", "4.", "5."]
    assert [call.output for result in results for call in result.tool_calls] == ["2", "3", "4", "5"]
    assert [message.role for message in results[-1].messages] == ["user", "assistant", "tool", "assistant"] * 4
    assert [call.id for message in results[-1].messages for call in message.tool_calls] == list(ids)

    to_openai_ = [json.dumps(request.json) for request in theirs.requests]
    to_anthropic_ = [json.dumps(request.json) for request in ours.requests]
    assert len(to_openai_) == len(to_anthropic_) == 4
    # Turn 3 has the thinking of turn 1 again, turn 4 the signed thinking of turn 2.
    assert all("openai thinks of 1" in body for body in to_openai_[1:])
    for sent in ("anthropic thinks of 2", "signature+2==", "redacted+2=="):
        assert all(sent in body for body in to_anthropic_[1:])
        assert not any(sent in body for body in to_openai_)
    assert not any("openai thinks" in body for body in to_anthropic_)
    # What they wrote goes back to them in the order, and with the ids, in which it came.
    answers = [m["content"] for m in ours.requests[3].json["messages"] if m["role"] == "assistant"]
    assert [[b["type"] for b in blocks] for blocks in answers] == [
        ["tool_use"],
        ["text"],
        ["thinking", "redacted_thinking", "tool_use"],
        ["text"],
        ["tool_use"],
        ["text"],
        ["thinking", "redacted_thinking", "tool_use"],
    ]
    called = [b["id"] for blocks in answers for b in blocks if b["type"] == "tool_use"]
    assert called == ["functions_add_0", "toolu_1", "functions_add_0_2", "toolu_1_2"]
    sent_ids = [c["id"] for m in theirs.requests[3].json["messages"] for c in m.get("tool_calls", ())]
    assert sent_ids == ["functions.add:0", "toolu_1", "functions.add:0"]


def checked(*replies: Reply) -> Iterator[Callable[[ScriptedRequest], Reply]]:
    """Steps of a script that look at the request first."""

    def step(answer: Reply) -> Callable[[ScriptedRequest], Reply]:
        def take(request: ScriptedRequest) -> Reply:
            (anthropic if request.path.endswith("/messages") else openai).check(request.body)
            return answer

        return take

    return map(step, replies)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("kept", ["store", "history"])
def test_a_conversation_goes_on_elsewhere_however_it_is_kept_and_asked_for(connect, streamed, kept):
    turns = [r for n in range(4) for r in (Reply("I add.", (Call("add", {"a": n, "b": n}),) * 2), Reply(f"{2 * n}."))]
    with ScriptedServer(checked(*turns)) as server:
        store, history, texts = MemoryStore(), None, []
        for n in range(4):
            style = ("openai", "anthropic")[n % 2]
            client = connect(base_url=server.base_url, style=style, store=store)
            memory = {"id": "x"} if kept == "store" else {"history": history}
            if streamed:
                result = client.stream(f"{n} twice?", Toolkit(add), **memory)
            elif kept == "store":
                result = client.ask(f"{n} twice?", Toolkit(add), **memory)
            else:
                result = client.run(f"{n} twice?", Toolkit(add), **memory)
            # Handed over in the shape of the provider that is left.
            history = to_openai(result.messages) if style == "openai" else to_anthropic(result.messages)[1]
            texts.append(result.text)
        assert texts == ["0.", "2.", "4.", "6."]
        assert len(server.requests) == 8
        assert {"/v1/chat/completions", "/v1/messages"} == {request.path for request in server.requests}
        assert [(r["role"], r.get("content")) for r in server.requests[6].body["messages"]][-1][0] == "user"
        assert len(server.requests[7].tool_results) == 8


HISTORY = from_openai(
    [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]},
        {"role": "assistant", "content": "An image."},
    ]
)


@pytest.mark.parametrize("shape", [lambda m: m, to_openai, lambda m: to_anthropic(m)[1]])
@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_history_may_have_the_shape_of_either_style(connect, serve, style, shape):
    server = serve(
        strict(openai.check, says("Yes.")) if style == "openai" else strict(anthropic.check, claude_text("Yes."))
    )
    result = connect(server, style=style).stream("Sure?", history=shape(HISTORY))
    assert [message.text for message in result.messages] == ["", "An image.", "Sure?", "Yes."]
    assert result.messages[0].parts == (ImagePart(url="https://x.example/a.png"),)


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_images_go_into_a_prompt_and_out_of_a_tool(connect, serve, style):
    picture = ImagePart(data=b"\x89PNG", media_type="image/png")

    @tool
    def draw() -> ToolResult:
        """Draw."""
        return ToolResult((TextPart("See: "), picture))

    script = {
        "openai": strict(openai.check, calls(("c1", "draw", "{}")), says("Fine.")),
        "anthropic": strict(
            anthropic.check,
            says_claude(claude.start(), claude.call(0, "c1", name="draw"), claude.finish("tool_use")),
            claude_text("Fine."),
        ),
    }
    server = serve(script[style])
    assert connect(server, style=style).stream([TextPart("Like this: "), picture], Toolkit(draw)).text == "Fine."
    prompt, result = server.requests[1].json["messages"][0]["content"], server.requests[1].json["messages"][2]
    if style == "openai":
        assert prompt[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
        assert result["content"] == "See: [image: image/png; this API takes no images in tool results]"
    else:
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}
        assert prompt[1] == block
        assert result["content"][0]["content"] == [{"type": "text", "text": "See: "}, block]


# -- where requests go, and who sends them


@pytest.mark.case("api-base-url-forms")
@pytest.mark.parametrize(
    ("form", "target"),
    [
        ("", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/v1/", "/v1/messages"),
        ("/v1/messages", "/v1/messages"),
        ("/deep/er", "/deep/er/v1/messages"),
        ("/deep/er/v1?beta=true", "/deep/er/v1/messages?beta=true"),
    ],
)
def test_every_form_of_base_url_leads_to_the_endpoint(connect, serve, form, target):
    server = serve(claude_text("Hi."))
    connect(server, style="anthropic", base_url=server.url + form).stream("Hi?")
    assert (server.requests[0].method, server.requests[0].target) == ("POST", target)


@pytest.mark.parametrize(
    ("options", "headers"),
    [
        ({"api_key": "k"}, {"x-api-key": "k", "authorization": None, "anthropic-version": "2023-06-01"}),
        ({"auth_token": "t"}, {"x-api-key": None, "authorization": "Bearer t", "anthropic-version": "2023-06-01"}),
        ({}, {"x-api-key": None, "authorization": None, "anthropic-version": "2023-06-01"}),
        ({"anthropic_version": "2024-01-01"}, {"anthropic-version": "2024-01-01"}),
        ({"headers": {"anthropic-beta": "x-1"}}, {"anthropic-beta": "x-1", "anthropic-version": "2023-06-01"}),
    ],
)
def test_a_key_and_the_version_go_into_their_headers(connect, serve, options, headers):
    server = serve(claude_text("Hi."))
    connect(server, style="anthropic", **options).stream("Hi?")
    assert {name: server.requests[0].headers.get(name) for name in headers} == headers


def test_the_version_is_no_header_of_the_other_style(connect, serve):
    server = serve(says("Hi."))
    connect(server, api_key="k").stream("Hi?")
    assert server.requests[0].headers["authorization"] == "Bearer k"
    assert not {"x-api-key", "anthropic-version"} & server.requests[0].headers.keys()


def test_key_and_address_are_found_in_the_environment(connect, serve, monkeypatch):
    server = serve(claude_text("Hi."))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env\n")
    monkeypatch.setenv("OPENAI_API_KEY", "of another")
    connect(style="anthropic").stream("Hi?")
    assert server.requests[0].headers["x-api-key"] == "from-env"


# -- options by name


NAMED = {"max_tokens": 7, "temperature": 0.5, "stop": ["END"], "tool_choice": "add", "parallel_tool_calls": False}


def test_options_have_one_name_and_each_style_its_own_words(connect, serve):
    theirs = serve(strict(openai.check, calls(("c1", "add", '{"a": 1, "b": 2}')), says("3.")))
    ours = serve(
        strict(
            anthropic.check,
            says_claude(
                claude.start(), claude.call(0, "c1", '{"a": 1, "b": 2}', name="add"), claude.finish("tool_use")
            ),
            claude_text("3."),
        )
    )
    assert connect(theirs).stream("1 and 2?", Toolkit(add), **NAMED).text == "3."
    assert connect(ours, style="anthropic").stream("1 and 2?", Toolkit(add), **NAMED).text == "3."
    names = {"max_tokens", "temperature", "stop", "stop_sequences", "tool_choice", "parallel_tool_calls"}
    first, second = ({n: v for n, v in request.json.items() if n in names} for request in theirs.requests)
    choice = {"type": "function", "function": {"name": "add"}}
    assert first == {**NAMED, "tool_choice": choice}
    assert second == {name: value for name, value in NAMED.items() if name != "tool_choice"}
    first, second = ({n: v for n, v in request.json.items() if n in names} for request in ours.requests)
    kept = {"max_tokens": 7, "temperature": 0.5, "stop_sequences": ["END"]}
    assert first == {**kept, "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": True}}
    assert second == {**kept, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_options_that_are_not_given_are_not_sent(connect, serve, style):
    server = serve(says("Hi.") if style == "openai" else claude_text("Hi."))
    connect(server, style=style).stream("Hi?", Toolkit(add))
    sent = server.requests[0].json
    assert not {"temperature", "stop", "stop_sequences", "tool_choice", "parallel_tool_calls", "top_p"} & sent.keys()
    assert sent.get("max_tokens") == (None if style == "openai" else 8192)


@pytest.mark.parametrize("style", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "bad",
    [
        *({"max_tokens": value} for value in (0, -1, 1.5, True, "7")),
        *({"temperature": value} for value in (-0.1, "0", True, float("nan"))),
        *({"stop": value} for value in ("", [""], [1], 7, ["x", None])),
        *({"tool_choice": value} for value in ("", "nobody", 7, {"type": "auto"})),
        *({"parallel_tool_calls": value} for value in (0, 1, "yes")),
    ],
    ids=str,
)
def test_an_option_that_cannot_work_is_refused_by_its_name(connect, style, bad):
    client = connect(style=style, base_url="http://127.0.0.1:1")
    (name,) = bad
    with pytest.raises(ConfigurationError, match=f"^{name}: expected"):
        client.stream("Hi?", Toolkit(add), **bad)


# -- how things go wrong


def test_errors_of_the_style_have_their_classes(connect, serve):
    refused = whole({"type": "error", "error": {"type": "invalid_request_error", "message": "No."}}, status=400)
    busy = whole({"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}, status=529)
    server = serve(refused, busy)
    client = connect(server, style="anthropic", retries=0)
    with pytest.raises(BadRequestError, match=r"No\."):
        client.stream("Hi?")
    with pytest.raises(OverloadedError, match=r"Busy\."):
        client.stream("Hi?")


def test_busy_in_the_stream_is_tried_again_while_nothing_was_shown(connect, serve):
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}
    server = serve(
        says_claude(claude.start(), busy), says_claude(claude.start(), claude.begin(0, "text", text=""), busy),
        claude_text("Hi."),
    )  # fmt: skip
    assert connect(server, style="anthropic").stream("Hi?").text == "Hi."
    assert len(server.requests) == 3


def test_thinking_is_told_as_it_comes_and_kept(connect, serve):
    server = serve(says_claude(claude.start(), claude.thought(0, "Hm.", "s"), claude.text(1, "Yes."), claude.finish()))
    seen: list[Any] = []
    result = connect(server, style="anthropic").stream("Sure?", on_event=seen.append)
    assert [(e.type, e.delta) for e in seen if e.type in ("text", "reasoning")] == [
        ("reasoning", "Hm."),
        ("text", "Yes."),
    ]
    (thinking, _) = result.messages[-1].parts
    assert isinstance(thinking, ReasoningPart)
    assert (thinking.text, thinking.extra) == ("Hm.", {"signature": "s"})
    assert thinking.origin == f"anthropic:127.0.0.1:{server.port}"


def test_a_server_that_answers_whole_although_asked_for_a_stream_is_understood(connect, serve: Callable[..., Server]):
    message = {"type": "message", "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"}
    server = serve(whole(message))
    assert connect(server, style="anthropic").stream("Hi?").text == "Hi."
