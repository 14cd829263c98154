from __future__ import annotations

import json
from typing import Any, Literal

import httpx
import pytest

from toolnexus import BadRequestError, SyncClient, TextEvent, Toolkit
from toolnexus.demo.scripted import Call, Reply, ScriptedRequest, ScriptedServer, Step

ADD = Call("add", {"a": 1, "b": 2})


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def quote(request: ScriptedRequest) -> Reply:
    return Reply(f"The sum is {request.tool_results[-1]}.")


def post(server: ScriptedServer, path: str = "/chat/completions", **body: Any) -> httpx.Response:
    return httpx.post(server.base_url + path, json={"model": "m", "messages": [], **body})


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = (line.removeprefix("data: ") for line in response.text.split("\n") if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_plays_a_whole_run(streamed: bool):
    with (
        ScriptedServer([Reply("Let me see.", (ADD, ADD)), quote]) as server,
        SyncClient(base_url=server.base_url, model="scripted") as client,
    ):
        run = client.stream if streamed else client.run
        result = run("Add 1 and 2.", Toolkit(add))
        assert result.text == "The sum is 3."
        assert [call.args for call in result.tool_calls] == [{"a": 1, "b": 2}] * 2
        assert len({call.id for call in result.tool_calls}) == 2
        assert result.usage.total_tokens == 40
        assert [request.prompt for request in server.requests] == ["Add 1 and 2."] * 2


def test_text_and_arguments_come_in_pieces_and_usage_to_those_who_ask():
    with ScriptedServer([Reply("One  two\n", (ADD,))] * 2) as server:
        chunks = events(post(server, stream=True, stream_options={"include_usage": True}))
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
        assert [delta["content"] for delta in deltas if delta.get("content")] == ["One", "  two", "\n"]
        calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
        arguments = [call["function"]["arguments"] for call in calls]
        assert len(arguments) > 3
        assert json.loads("".join(arguments)) == ADD.args
        assert (calls[0]["function"]["name"], "id" in calls[1]) == ("add", False)
        assert chunks[-1]["usage"] == {"prompt_tokens": 12, "completion_tokens": 8, "total_tokens": 20}
        assert all("usage" not in chunk for chunk in events(post(server, stream=True)))


@pytest.mark.parametrize("style", ["openai", "anthropic"])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_reply_may_be_thought_about_before(style: Literal["openai", "anthropic"], streamed: bool):
    with (
        ScriptedServer([Reply("It is 42.", reasoning="Six times seven.")]) as server,
        SyncClient(base_url=server.base_url, model="scripted", style=style) as client,
    ):
        result = client.stream("6 times 7?") if streamed else client.run("6 times 7?")
    (summary,) = result.summaries
    assert (summary.reasoning, summary.content, result.text) == ("Six times seven.", "It is 42.", "It is 42.")


def test_the_same_script_speaks_anthropic_style():
    result = {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "3"}]}]}
    with ScriptedServer([Reply("Let me see.", (ADD,)), Reply("Let me see.", (ADD,)), quote]) as server:
        whole = post(server, "/messages").json()
        streamed = events(post(server, "/messages", stream=True))
        assert post(server, "/messages", messages=[result]).json()["content"][0]["text"] == "The sum is 3."

    assert [block["type"] for block in whole["content"]] == ["text", "tool_use"]
    assert (whole["content"][1]["input"], whole["stop_reason"]) == (ADD.args, "tool_use")
    assert whole["usage"] == {"input_tokens": 12, "output_tokens": 8}

    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    kinds = [event["type"] for event in streamed]
    assert list(dict.fromkeys(kinds)) == ["message_start", *block, "message_delta", "message_stop"]
    deltas = [event["delta"] for event in streamed if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "Let me see."
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == ADD.args
    assert streamed[-2]["delta"]["stop_reason"] == "tool_use"
    assert streamed[-2]["usage"] == {"output_tokens": 8}


def test_a_request_knows_what_was_said_in_either_style():
    parts = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    messages = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "3"},
    ]
    request = ScriptedRequest("/v1/chat/completions", {"messages": messages})
    assert (request.prompt, request.tool_results) == ("Hi", ["3"])
    silent = ScriptedRequest("/v1/messages", {"messages": []})
    assert (silent.prompt, silent.tool_results) == ("", [])


def fail(request: ScriptedRequest) -> Reply:
    return Reply(request.tool_results[-1])


@pytest.mark.parametrize(("script", "reason"), [([], "the script has ended before request 1"), ([fail], "IndexError")])
def test_a_script_that_cannot_go_on_says_why(script: list[Step], reason: str):
    with (
        ScriptedServer(script) as server,
        SyncClient(base_url=server.base_url, model="scripted") as client,
        pytest.raises(BadRequestError, match=reason),
    ):
        client.run("Hello?")


def test_a_wrong_address_is_an_error_and_takes_no_step():
    with ScriptedServer([Reply("Here.")]) as server:
        wrong = post(server, "/completions")
        assert (wrong.status_code, wrong.json()["error"]["message"]) == (
            400,
            "LookupError('nothing is at /v1/completions')",
        )
        assert post(server).json()["choices"][0]["message"]["content"] == "Here."


def test_a_client_may_leave_and_the_server_goes_on():
    with (
        ScriptedServer([Reply("word " * 100_000), Reply("Next.")]) as server,
        SyncClient(base_url=server.base_url, model="scripted") as client,
    ):
        with client.iter_events("Go on.") as run:
            assert next(run) == TextEvent("word")
        assert client.run("And now?").text == "Next."


def test_a_closing_server_cuts_its_stream_so_that_it_shows():
    server = ScriptedServer([Reply("One two three")], pause_s=3600)
    with (
        server,
        httpx.stream(
            "POST", server.base_url + "/messages", json={"model": "m", "messages": [], "stream": True}
        ) as response,
    ):
        chunks = response.iter_bytes()
        assert next(chunks).startswith(b"event: message_start")
        server.__exit__(None, None, None)
        with pytest.raises(httpx.RemoteProtocolError):
            list(chunks)
