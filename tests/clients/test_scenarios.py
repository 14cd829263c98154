"""One table of runs, each through both clients and both ways of watching: all must tell the same story."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.clients.harness import transcript
from tests.server import Response, calls, done, failure, finish, reply, says, text, tool_call, usage, whole
from toolnexus import Answer, ImagePart, Limits, Message, TextPart, ToolContext, ToolResult, pending, tool


@dataclass(frozen=True)
class Scenario:
    """A script, what is asked, and the story that must come of it."""

    script: tuple[Response, ...]
    events: list[Any]
    """Tuples, or sets of them where the order is open."""
    messages: list[tuple[Any, ...]]
    """The transcript after the prompt `"Go."`."""
    tools: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    """Attributes of the result."""
    requests: int | None = None


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def shout(word: str) -> str:
    """Shout."""
    return word.upper()


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("no such thing")


@tool
def note(ctx: ToolContext) -> ToolResult:
    """Take a note."""
    ctx.metadata["seen"] = ctx.turn
    return ToolResult("noted", metadata={"page": 3})


@tool
def sign(ctx: ToolContext) -> object:
    """Ask for a signature."""
    if ctx.answer is None:
        return pending("Sign?")
    return f"signed by {ctx.answer.data}"


@tool
def sign_twice(ctx: ToolContext) -> object:
    """Ask again and again, under one id."""
    return pending("Sign?", id="same")


@tool(approval=True)
def launch(site: str) -> str:
    """Launch."""
    return f"launched from {site}"


@tool(approval=lambda args: args["site"] != "home")
def careful_launch(site: str) -> str:
    """Launch, and ask first unless it is from home."""
    return f"launched from {site}"


def answer(data: Any = "Ada", **members: Any) -> Callable[[Any], Answer]:
    return lambda request: Answer(**{"id": request.id, "data": data, **members})


def broken(request: Any) -> Answer:
    raise LookupError("nobody there")


ASKS_SIGN = (calls(("c1", "sign", "{}")), says("Good."))
SIGN_CALL: tuple[Any, ...] = ("assistant", ("c1", "sign", {}, "finished"))


def declined(why: str) -> dict[str, Any]:
    output = f"The call did not go on: {why}."
    return {
        "script": ASKS_SIGN,
        "tools": (sign,),
        "events": [
            ("tool_call", "c1", "sign", {}),
            ("pending", "Sign?"),
            ("tool_result", "c1", output, True),
            ("text", "Good."),
            ("done", "done"),
        ],
        "messages": [SIGN_CALL, ("tool", ("c1", output, True)), ("assistant", "Good.")],
    }


SCENARIOS = {
    "text": Scenario(
        (reply(text("Hel", "lo!"), usage(3, 2, 5), done()),),
        [("text", "Hel"), ("text", "lo!"), ("usage", 5), ("done", "done")],
        [("assistant", "Hello!")],
        result={"text": "Hello!", "turns": 1, "finish_reason": None, "id": None},
    ),
    "an answer of nothing": Scenario(
        (reply(finish(), done()),),
        [("done", "done")],
        [],
        result={"text": "", "finish_reason": "stop"},
    ),
    "a tool turn": Scenario(
        (
            reply(
                text("Let me see."),
                tool_call("c1", "add", ['{"a": 2,', ' "b": 3}']),
                finish("tool_calls"),
                usage(10, 4, 14),
                done(),
            ),
            reply(text("It is 5."), finish(), usage(20, 3, 23), done()),
        ),
        [
            ("text", "Let me see."),
            ("usage", 14),
            ("tool_call", "c1", "add", {"a": 2, "b": 3}),
            ("tool_result", "c1", "5", False),
            ("text", "It is 5."),
            ("usage", 37),
            ("done", "done"),
        ],
        [
            ("assistant", "Let me see.", ("c1", "add", {"a": 2, "b": 3}, "finished")),
            ("tool", ("c1", "5", False)),
            ("assistant", "It is 5."),
        ],
        tools=(add,),
        result={"text": "It is 5.", "turns": 2, "finish_reason": "stop"},
        requests=2,
    ),
    "an async tool": Scenario(
        (calls(("c1", "shout", '{"word": "hey"}')), says("HEY it is.")),
        [
            ("tool_call", "c1", "shout", {"word": "hey"}),
            ("tool_result", "c1", "HEY", False),
            ("text", "HEY it is."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "shout", {"word": "hey"}, "finished")),
            ("tool", ("c1", "HEY", False)),
            ("assistant", "HEY it is."),
        ],
        tools=(shout,),
    ),
    "a tool that raises": Scenario(
        (calls(("c1", "fail", "{}")), says("Sorry.")),
        [
            ("tool_call", "c1", "fail", {}),
            ("tool_result", "c1", "fail failed: ValueError: no such thing", True),
            ("text", "Sorry."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "fail", {}, "finished")),
            ("tool", ("c1", "fail failed: ValueError: no such thing", True)),
            ("assistant", "Sorry."),
        ],
        tools=(fail,),
    ),
    "a tool that is not there": Scenario(
        (calls(("c1", "nope", "{}")), says("Sorry.")),
        [
            ("tool_call", "c1", "nope", {}),
            ("tool_result", "c1", "There is no tool named 'nope'. Tools: add.", True),
            ("text", "Sorry."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "nope", {}, "finished")),
            ("tool", ("c1", "There is no tool named 'nope'. Tools: add.", True)),
            ("assistant", "Sorry."),
        ],
        tools=(add,),
    ),
    "the context of a tool": Scenario(
        (calls(("c1", "note", "{}")), says("Ok.")),
        [
            ("tool_call", "c1", "note", {}),
            ("tool_result", "c1", "noted", False),
            ("text", "Ok."),
            ("done", "done"),
        ],
        [("assistant", ("c1", "note", {}, "finished")), ("tool", ("c1", "noted", False)), ("assistant", "Ok.")],
        tools=(note,),
    ),
    "the turns are used up": Scenario(
        (calls(("c1", "add", '{"a": 1, "b": 1}')), calls(("c2", "add", '{"a": 2, "b": 2}'))),
        [
            ("tool_call", "c1", "add", {"a": 1, "b": 1}),
            ("tool_result", "c1", "2", False),
            ("tool_call", "c2", "add", {"a": 2, "b": 2}),
            ("tool_result", "c2", "4", False),
            ("done", "incomplete"),
        ],
        [
            ("assistant", ("c1", "add", {"a": 1, "b": 1}, "finished")),
            ("tool", ("c1", "2", False)),
            ("assistant", ("c2", "add", {"a": 2, "b": 2}, "finished")),
            ("tool", ("c2", "4", False)),
        ],
        tools=(add,),
        call={"max_turns": 2},
        result={"limit": "max_turns", "turns": 2},
        requests=2,
    ),
    "cut by the token limit": Scenario(
        (reply(text("Once upon"), tool_call("c1", "add", ['{"a": 1']), finish("length"), done()),),
        [
            ("text", "Once upon"),
            ("tool_call", "c1", "add", {}),
            ("tool_result", "c1", ..., True),
            ("done", "incomplete"),
        ],
        [("assistant", "Once upon", ("c1", "add", {}, "finished")), ("tool", ("c1", ..., True))],
        tools=(add,),
        result={"limit": "max_tokens"},
        requests=1,
    ),
    "suspended and answered": Scenario(
        ASKS_SIGN,
        [
            ("tool_call", "c1", "sign", {}),
            ("pending", "Sign?"),
            ("tool_result", "c1", "signed by Ada", False),
            ("text", "Good."),
            ("done", "done"),
        ],
        [SIGN_CALL, ("tool", ("c1", "signed by Ada", False)), ("assistant", "Good.")],
        tools=(sign,),
        options={"wait_for": answer()},
    ),
    "suspended, and nobody to answer": Scenario(
        ASKS_SIGN,
        [("tool_call", "c1", "sign", {}), ("pending", "Sign?"), ("done", "pending")],
        [("assistant", ("c1", "sign", {}, "waiting"))],
        tools=(sign,),
        requests=1,
    ),
    "suspended beside a call that finishes": Scenario(
        (calls(("c1", "sign", "{}"), ("c2", "add", '{"a": 1, "b": 2}')),),
        [
            ("tool_call", "c1", "sign", {}),
            ("tool_call", "c2", "add", {"a": 1, "b": 2}),
            {("pending", "Sign?"), ("tool_result", "c2", "3", False)},
            ("done", "pending"),
        ],
        [
            ("assistant", ("c1", "sign", {}, "waiting"), ("c2", "add", {"a": 1, "b": 2}, "finished")),
            ("tool", ("c2", "3", False)),
        ],
        tools=(sign, add),
    ),
    "suspended and declined": Scenario(
        **declined("declined: too late"), options={"wait_for": answer(ok=False, reason="too late")}
    ),
    "suspended, and wait_for raises": Scenario(
        **declined("LookupError in wait_for: nobody there"), options={"wait_for": broken}
    ),
    "suspended, and the answer is no answer": Scenario(
        **declined("wait_for gave str, not an Answer"), options={"wait_for": lambda request: "yes"}
    ),
    "suspended again under the same id": Scenario(
        (calls(("c1", "sign_twice", "{}")), says("Good.")),
        [
            ("tool_call", "c1", "sign_twice", {}),
            ("pending", "Sign?"),
            ("tool_result", "c1", "The tool asked again for request 'same'.", True),
            ("text", "Good."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "sign_twice", {}, "finished")),
            ("tool", ("c1", "The tool asked again for request 'same'.", True)),
            ("assistant", "Good."),
        ],
        tools=(sign_twice,),
        options={"wait_for": answer()},
    ),
    "approved": Scenario(
        (calls(("c1", "launch", '{"site": "Kourou"}')), says("Up.")),
        [
            ("tool_call", "c1", "launch", {"site": "Kourou"}),
            ("pending", "Allow launch to run?"),
            ("tool_result", "c1", "launched from Kourou", False),
            ("text", "Up."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "launch", {"site": "Kourou"}, "finished")),
            ("tool", ("c1", "launched from Kourou", False)),
            ("assistant", "Up."),
        ],
        tools=(launch,),
        options={"wait_for": answer(None)},
    ),
    "not approved": Scenario(
        (calls(("c1", "launch", '{"site": "Kourou"}')), says("Down.")),
        [
            ("tool_call", "c1", "launch", {"site": "Kourou"}),
            ("pending", "Allow launch to run?"),
            ("tool_result", "c1", "The call did not go on: declined.", True),
            ("text", "Down."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "launch", {"site": "Kourou"}, "finished")),
            ("tool", ("c1", "The call did not go on: declined.", True)),
            ("assistant", "Down."),
        ],
        tools=(launch,),
        options={"wait_for": answer(None, ok=False)},
    ),
    "approval by the arguments": Scenario(
        (calls(("c1", "careful_launch", '{"site": "home"}')), says("Up.")),
        [
            ("tool_call", "c1", "careful_launch", {"site": "home"}),
            ("tool_result", "c1", "launched from home", False),
            ("text", "Up."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "careful_launch", {"site": "home"}, "finished")),
            ("tool", ("c1", "launched from home", False)),
            ("assistant", "Up."),
        ],
        tools=(careful_launch,),
    ),
    "approval of arguments that do not fit is not asked for": Scenario(
        (calls(("c1", "launch", '{"place": "Kourou"}')), says("Down.")),
        [
            ("tool_call", "c1", "launch", {"place": "Kourou"}),
            ("tool_result", "c1", ..., True),
            ("text", "Down."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "launch", {"place": "Kourou"}, "finished")),
            ("tool", ("c1", ..., True)),
            ("assistant", "Down."),
        ],
        tools=(launch,),
        options={"wait_for": broken},
    ),
    "a tool's output is bounded": Scenario(
        (calls(("c1", "shout", '{"word": "abcdef"}')), says("Ok.")),
        [
            ("tool_call", "c1", "shout", {"word": "abcdef"}),
            ("tool_result", "c1", "ABCD\n[cut: 6 bytes of output, the limit is 4]", False),
            ("text", "Ok."),
            ("done", "done"),
        ],
        [
            ("assistant", ("c1", "shout", {"word": "abcdef"}, "finished")),
            ("tool", ("c1", "ABCD\n[cut: 6 bytes of output, the limit is 4]", False)),
            ("assistant", "Ok."),
        ],
        tools=(shout,),
        options={"limits": Limits(tool_output_bytes=4)},
    ),
    "a reply that is not a stream": Scenario(
        (whole({"choices": [{"message": {"content": "All at once."}, "finish_reason": "stop"}]}),),
        [("text", "All at once."), ("done", "done")],
        [("assistant", "All at once.")],
    ),
    "a service that comes back": Scenario(
        (failure(503), failure(429, retry_after="0"), says("Here.")),
        [("text", "Here."), ("done", "done")],
        [("assistant", "Here.")],
        requests=3,
    ),
}

BODIES = {
    "chunked": {},
    "with a length": {"framing": "length"},
    "until the end of the connection": {"framing": "close"},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_run_tells_the_same_story_to_everybody(play, serve, scenario, body):
    server = serve(*(Response(**{**vars(r), **body}) if r.status == 200 else r for r in scenario.script))
    played = play(server, "Go.", *scenario.tools, call=scenario.call, **scenario.options)
    result = played.ended()
    _assert_like(played.shown, scenario.events)
    _assert_like(transcript(result.messages), [("user", "Go."), *scenario.messages])
    assert played.events[-1].type == "done"
    assert played.events[-1].result == result
    for name, value in scenario.result.items():
        assert getattr(result, name) == value
    if scenario.requests is not None:
        assert len(server.requests) == scenario.requests
    results = {e.id for e in played.events if e.type == "tool_result"}
    called = [e.id for e in played.events if e.type == "tool_call"]
    assert [record.id for record in result.tool_calls] == [id for id in called if id in results]


def _assert_like(found: list[Any], expected: list[Any]) -> None:
    """Compare; `...` stands for anything, a set for its members in any order."""
    found = list(found)
    for item in expected:
        if isinstance(item, set):
            assert set(found[: len(item)]) == item
            del found[: len(item)]
        else:
            assert found
            assert _like(found.pop(0), item)
    assert found == []


def _like(found: Any, expected: Any) -> bool:
    if expected is ...:
        return True
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        return all(_like(f, e) for f, e in zip(found, expected, strict=True))
    assert found == expected
    return True


def test_metadata_of_a_tool_is_on_its_record_and_not_sent(play, serve):
    server = serve(calls(("c1", "note", "{}")), says("Ok."))
    record = play(server, "Go.", note).ended().tool_calls[0]
    assert record.metadata == {"seen": 1, "page": 3}
    assert server.requests[1].json["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "noted"}


def test_a_prompt_may_hold_images(play, serve):
    server = serve(says("A cat."))
    play(server, [TextPart("What is this?"), ImagePart(url="http://127.0.0.1/cat.png")]).ended()
    assert server.requests[0].json["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1/cat.png"}},
    ]


HISTORIES = {
    "messages": [Message("user", "One?"), Message("assistant", "One.")],
    "dicts": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "One."}],
}


@pytest.mark.case("api-history-not-mutated")
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_history_comes_before_the_prompt_and_is_not_changed(play, serve, history):
    server = serve(says("Two."), says("Two again."))
    before = list(history)
    for _ in range(2):
        messages = play(server, "Two?", call={"history": history}).ended().messages
        assert [m.text for m in messages[:3]] == ["One?", "One.", "Two?"]
        assert history == before
    assert server.requests[0].json["messages"] == server.requests[1].json["messages"]


def test_an_open_call_in_the_history_gets_an_error_result_first(play, serve):
    call = {"id": "c9", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    history = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    server = serve(says("Fine."))
    play(server, "Two?", call={"history": history}).ended()
    assert [m["role"] for m in server.requests[0].json["messages"]] == ["user", "assistant", "tool", "user"]
