"""Nothing that a caller or a model says adds a header or a request, or bends one.

What goes into a header is checked when a client is made. Everything else goes into the body, whatever it holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests import claude
from tests.server import Request, Server, calls, done, reply, says, sse, tool_call
from toolnexus import ConfigurationError, Message, TextPart, ToolCallPart, Toolkit, ToolResultPart, define_tool

EVIL = "x\r\nx-injected: yes\r\n\r\nPOST /injected HTTP/1.1\r\nhost: h\r\n\r\n"
BREAKS = {
    "CR LF": "a\r\nx-injected: yes",
    "LF": "a\nx-injected: yes",
    "CR": "a\rx-injected: yes",
    "NUL": "a\0b",
    "obs-fold": "a\r\n x-injected: yes",
    "a line separator": "a\u2028x-injected: yes",
    "next line": "a\x85x-injected: yes",
    "what becomes CR LF in Latin-1": "a\u010d\u010ax-injected: yes",
    "half a character": "a\ud800b",
}
SENT = {
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "user-agent",
}
SENT_BY = {"openai": SENT, "anthropic": SENT - {"authorization"} | {"anthropic-version", "x-api-key"}}


def check_head(request: Request, style: str, *also: str) -> None:
    """One request line, and the headers that there should be, each on its line."""
    assert (request.method, request.target.partition("?")[0]) == (
        "POST",
        {"openai": "/chat/completions", "anthropic": "/v1/messages"}[style],
    )
    assert request.target.isprintable()
    assert set(request.headers) == SENT_BY[style].union(also)
    assert all(value.isascii() and value.isprintable() for value in request.headers.values())


@pytest.mark.parametrize("value", BREAKS.values(), ids=BREAKS)
@pytest.mark.parametrize(
    "options",
    [
        lambda text: {"api_key": f"sk-{text}"},
        lambda text: {"api_key": f"sk-{text}", "style": "anthropic"},
        lambda text: {"auth_token": f"sk-{text}", "style": "anthropic"},
        lambda text: {"anthropic_version": text, "style": "anthropic"},
        lambda text: {"headers": {"x-own": text}},
        lambda text: {"headers": {text: "own"}},
        lambda text: {"base_url": f"http://127.0.0.1:1/{text}"},
        lambda text: {"base_url": f"http://{text}:1/"},
        lambda text: {"base_url": f"http://127.0.0.1:1/?q={text}"},
    ],
    ids=["key", "x-api-key", "token", "version", "header", "header's name", "path", "host", "query of the address"],
)
def test_what_would_break_a_header_is_refused_and_a_key_is_not_shown(
    connect: Any, value: str, options: Callable[[str], dict[str, Any]]
) -> None:
    given = options(value)
    with pytest.raises(ConfigurationError) as refused:
        connect(**given)
    shown = f"{refused.value} {refused.value!r} {refused.value.__cause__!r}"
    assert "\n" not in shown
    assert "\r" not in shown
    assert not {"api_key", "auth_token"}.intersection(given) or "sk-" not in shown


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])
@pytest.mark.parametrize("value", ["a\r\nx-injected: yes", "a\nb", "a\x85b"])
def test_a_key_of_the_environment_is_refused_alike(
    connect: Any, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, f"sk-{value}")
    with pytest.raises(ConfigurationError, match=variable) as refused:
        connect(style=variable.partition("_")[0].lower())
    assert "sk-" not in str(refused.value)


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "HOST", "connection"])
def test_headers_that_frame_the_request_are_not_the_callers(connect: Any, name: str) -> None:
    with pytest.raises(ConfigurationError, match="set by the HTTP library itself"):
        connect(headers={name: "0"})


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_what_a_caller_says_stays_in_the_body_and_in_the_query(
    connect: Any, serve: Callable[..., Server], style: str
) -> None:
    """Ids, model, prompts, history, parameters, descriptions, schemas: none of them is part of the head."""
    tool = define_tool(
        lambda args: "", name="look", description=EVIL, input_schema={"properties": {EVIL: {"type": "string"}}}
    )
    history = [
        Message("user", EVIL),
        Message("assistant", [ToolCallPart(EVIL, EVIL, {EVIL: EVIL})]),
        Message("tool", [ToolResultPart(EVIL, EVIL, (TextPart(EVIL),))]),
    ]
    answer = (
        says("Yes.")
        if style == "openai"
        else reply([sse(payload) for payload in [claude.start(), *claude.text(0, "Yes."), *claude.finish()]])
    )
    server = serve(answer, answer)
    client = connect(
        server,
        style=style,
        api_key="sk-1",
        model=EVIL,
        query={EVIL: EVIL, "u": "\u2028"},
        system_prompt=EVIL,
        request_params={EVIL: EVIL, "user": EVIL},
        headers={"x-own": "mine"},
    )
    assert client.stream(EVIL, Toolkit(tool), history=history, stop=EVIL).text == "Yes."
    assert client.ask(EVIL, id=EVIL).text == "Yes."
    assert len(server.requests) == 2
    for request in server.requests:
        check_head(request, style, "x-own")
        assert request.json["model"] == EVIL
        assert json.dumps(EVIL)[1:-1] in json.dumps(request.json["messages"])


def test_what_a_model_says_stays_in_the_body(connect: Any, serve: Callable[..., Server]) -> None:
    """Ids and names of calls, arguments, finish reasons, request ids: they go back as JSON, or not at all."""
    strange = reply(
        tool_call(EVIL, EVIL, [json.dumps({EVIL: EVIL})]),
        sse({"id": EVIL, "model": EVIL, "choices": [{"finish_reason": EVIL}]}),
        done(),
    )
    server = serve(strange, calls((EVIL, "look", "{}")), says("Yes."))
    look = define_tool(lambda args: EVIL, name="look", description="", input_schema={})
    result = connect(server, api_key="sk-1").stream("Go.", Toolkit(look), id=EVIL)
    assert result.text == "Yes."
    assert len(server.requests) == 3
    for request in server.requests:
        check_head(request, "openai")
    call = server.requests[1].json["messages"][1]["tool_calls"][0]
    assert call["id"] == EVIL
    assert server.requests[2].json["messages"][-1]["tool_call_id"] == EVIL


@pytest.mark.parametrize("name", [EVIL, "a b", "a\n", "", "ü", "x" * 65])
def test_a_name_that_no_tool_may_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        define_tool(lambda: "", name=name)
