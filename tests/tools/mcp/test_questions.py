"""Questions of servers: asked of a human, answered by the waiting server or by the call made again."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from typing import Any

import pytest

from tests.server import calls, says
from tests.tools.mcp.conftest import at_length, official, scripted
from tests.tools.mcp.test_servers import Start, is_waiting, text, value
from toolnexus import Answer, Pending, RunResult, ToolContext, Toolkit, ToolResult
from toolnexus.tools.mcp import server
from toolnexus.tools.mcp.questions import Note, Question, Reply, read_note

COLOR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}


def suspended(result: Any) -> Pending:
    assert isinstance(result, Pending)
    return result


def resumed(pending: Pending, answer: Answer) -> ToolContext:
    """The context of the call when it runs again, as after a store."""
    return ToolContext(answer=answer, memo=json.loads(json.dumps(pending.memo)))


def test_a_question_is_a_suspension_and_its_answer_reaches_the_waiting_server(start: Start) -> None:
    kit = start(scripted())
    asked = suspended(kit.execute("s_ask", {"what": "Which color?"}))
    assert (asked.prompt, asked.kind, asked.url, asked.data) == (
        "Which color?",
        "input",
        None,
        {"server": "s", "schema": COLOR},
    )
    pid = value(kit.execute("s_pid", {}))  # others go on meanwhile
    answered = kit.execute("s_ask", {"what": "Which color?"}, resumed(asked, Answer("x", data={"color": "red"})))
    assert value(answered) == {"action": "accept", "content": {"color": "red"}}
    assert value(kit.execute("s_pid", {})) == pid


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer("x", data="red"), {"action": "accept", "content": {"color": "red"}}),
        (Answer("x", ok=False), {"action": "decline"}),
        (Answer("x", ok=False, reason="cancel"), {"action": "cancel"}),
        (Answer("x", ok=False, data={"action": "cancel"}), {"action": "cancel"}),
    ],
)
def test_answers_are_told_as_the_protocol_wants(start: Start, answer: Answer, expected: Any) -> None:
    kit = start(scripted())
    asked = suspended(kit.execute("s_ask", {}))
    assert value(kit.execute("s_ask", {}, resumed(asked, answer))) == expected


def test_an_answer_that_does_not_fit_is_asked_for_again(start: Start) -> None:
    kit = start(scripted())
    asked = suspended(kit.execute("s_ask", {}))
    again = suspended(kit.execute("s_ask", {}, resumed(asked, Answer("x", data={"colour": "red"}))))
    assert again.prompt == "Which?\n(color: required, but missing)"
    again = suspended(kit.execute("s_ask", {}, resumed(again, Answer("x", data={"color": {"r": 1}}))))
    assert again.prompt == "Which?\n(color: expected a text, a number, true, false, null or a list of texts)"
    assert value(kit.execute("s_ask", {}, resumed(again, Answer("y", data="red"))))["action"] == "accept"


def test_one_call_may_ask_several_things(start: Start) -> None:
    kit = start(scripted())
    args = {"what": ["First?", "Second?", "First?"]}
    asked = suspended(kit.execute("s_asks", args))
    for prompt, color in (("First?", "red"), ("Second?", "green")):
        assert asked.prompt == prompt
        asked = suspended(kit.execute("s_asks", args, resumed(asked, Answer("x", data=color))))
    assert asked.prompt == "First?"  # the same words, but another question
    said = value(kit.execute("s_asks", args, resumed(asked, Answer("x", data="blue"))))
    assert [one["content"]["color"] for one in said] == ["red", "green", "blue"]


def test_where_nobody_waits_the_call_is_made_again_and_answered_when_it_asks(start: Start) -> None:
    """In another process, or when the server died meanwhile."""
    kit, other = start(scripted()), start(scripted())
    args = {"what": ["First?", "Second?"]}
    asked = suspended(kit.execute("s_asks", args))
    asked = suspended(other.execute("s_asks", args, resumed(asked, Answer("x", data="red"))))
    assert asked.prompt == "Second?"
    third = start(scripted())
    said = value(third.execute("s_asks", args, resumed(asked, Answer("y", data="green"))))
    assert [one["content"]["color"] for one in said] == ["red", "green"]


def test_where_nobody_waits_and_the_call_asks_something_else_a_human_is_asked(start: Start) -> None:
    asked = suspended(start(scripted()).execute("s_ask", {"what": "First?"}))
    other = start(scripted())
    again = suspended(other.execute("s_ask", {"what": "Other?"}, resumed(asked, Answer("x", data="red"))))
    assert again.prompt == "Other?"
    assert value(other.execute("s_ask", {}, resumed(again, Answer("y", data="blue"))))["content"] == {"color": "blue"}


def test_where_nobody_waits_a_declined_call_is_not_made_again(start: Start) -> None:
    asked = suspended(start(scripted()).execute("s_ask", {}))
    other = start(scripted())
    result = other.execute("s_ask", {}, resumed(asked, Answer("x", ok=False, reason="no time")))
    assert text(result) == "The call did not go on: declined: no time."


def test_a_server_that_went_on_without_the_answer_has_its_result_taken(start: Start) -> None:
    kit = start(scripted())
    asked = suspended(kit.execute("s_answer_late", {}))
    value(kit.execute("s_open_gate", {}))
    while is_waiting(kit):
        time.sleep(0.001)
    assert value(kit.execute("s_answer_late", {}, resumed(asked, Answer("x", data="red")))) == "went on"
    assert value(kit.execute("s_asked_early", {})) == {"action": "cancel"}  # nobody is left to answer


def test_a_server_is_not_kept_waiting_for_ever(start: Start) -> None:
    kit = start(scripted(timeout={"answer": 0.05}))
    asked = suspended(kit.execute("s_ask", {}))
    while not value(kit.execute("s_cancelled", {})):
        pass
    again = kit.execute("s_ask", {}, resumed(asked, Answer("x", data="red")))
    assert value(again) == {"action": "accept", "content": {"color": "red"}}  # made again, and answered


def test_the_time_in_which_somebody_is_asked_does_not_count(start: Start) -> None:
    kit = start(scripted(timeout={"call": 0.5}))
    asked = suspended(kit.execute("s_ask", {}))
    value(kit.execute("s_pid", {}))
    assert kit._mcp is not None
    done = asyncio.run(asyncio.wait_for(_later(kit, asked), 10))
    assert value(done)["action"] == "accept"


async def _later(kit: Toolkit, asked: Pending) -> Any:
    await asyncio.sleep(0.6)  # longer than timeout.call: the time itself is what is tested
    return await kit.aexecute("s_ask", {}, resumed(asked, Answer("x", data="red")))


def test_a_page_to_visit_is_the_requests_address(start: Start) -> None:
    kit = start(scripted())
    args = {"url": "https://example.org/sign-in"}
    asked = suspended(kit.execute("s_page", args))
    assert (asked.prompt, asked.kind, asked.url, asked.data) == ("Sign in", "url", args["url"], {"server": "s"})
    assert value(kit.execute("s_page", args, resumed(asked, Answer("x")))) == {"action": "accept"}


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "//host/", ""])
def test_no_human_is_sent_to_another_kind_of_address(start: Start, url: str) -> None:
    kit = start(scripted())
    assert value(kit.execute("s_page", {"url": url})) == {"action": "decline"}
    assert "sign in first" in text(kit.execute("s_page_first", {"url": url}))


def test_a_page_that_must_be_visited_first_is_asked_for_and_the_call_made_again(start: Start) -> None:
    kit = start(scripted())
    args = {"url": "https://example.org/sign-in"}
    asked = suspended(kit.execute("s_page_first", args))
    assert (asked.kind, asked.url) == ("url", args["url"])
    assert "declined" in text(kit.execute("s_page_first", args, resumed(asked, Answer("x", ok=False))))
    assert value(kit.execute("s_page_first", args, resumed(asked, Answer("x")))) == "signed in"


def test_a_question_goes_to_the_call_that_is_left(connect: Any, serve: Any, start: Start) -> None:
    """Two calls under way, one asks: which, is known only when the other one has ended."""
    kit = start(scripted())
    server = serve(calls(("c1", "s_meet", "{}"), ("c2", "s_meet", "{}")), says("Done."))
    client = connect(server)
    result = client.run("Go.", kit)
    assert result.status == "pending"
    (request,) = result.requests
    assert [record.output for record in result.tool_calls] == ['"met"']
    assert "may_belong_to_another_call" not in request.data
    done = client.resume(Answer(request.id, data="red"), kit, result=result)
    assert done.status == "done"
    assert json.loads(done.tool_calls[0].output)["content"] == {"color": "red"}


def test_where_all_calls_ask_each_question_has_a_call(connect: Any, serve: Any, start: Start) -> None:
    kit = start(scripted())
    asking = [(f"c{n}", "s_ask", json.dumps({"what": f"{n}?"})) for n in range(3)]
    client = connect(
        serve(calls(*asking), says("Done.")), wait_for=lambda request: Answer(request.id, data=request.prompt)
    )
    result = client.run("Go.", kit)
    said = {json.loads(record.output)["content"]["color"] for record in result.tool_calls}
    assert (result.status, said) == ("done", {"0?", "1?", "2?"})


def test_wait_for_answers_in_line_and_resume_from_json(connect: Any, serve: Any, start: Start) -> None:
    kit = start(scripted())
    client = connect(serve(calls(("c1", "s_ask", "{}")), says("Done.")), wait_for=lambda r: Answer(r.id, data="red"))
    assert '"red"' in client.run("Go.", kit).tool_calls[0].output
    plain = connect(serve(calls(("c1", "s_ask", "{}")), says("Done.")))
    stored = plain.run("Go.", kit).model_dump_json()
    result = RunResult.model_validate_json(stored)
    assert result.pending is not None
    again = plain.resume(Answer(result.pending.id, ok=False, reason="cancel"), kit, result=result)
    assert json.loads(again.tool_calls[0].output) == {"action": "cancel"}


def test_a_note_survives_json_and_nothing_else_is_one() -> None:
    question = Question("?", COLOR)
    note = Note(
        "again",
        question,
        given=[Reply(question, "accept", {"a": 1})],
        state="s",
        key="k",
        done={"d": Reply(question, "decline", reason="r")},
        left={"l": Question("!", url="https://x")},
    )
    assert read_note(json.loads(json.dumps(asdict(note)))) == note
    with pytest.raises(ValueError, match="Note"):
        read_note({"how": "waiting"})


def test_a_memo_of_something_else_is_an_error_result(start: Start) -> None:
    kit = start(scripted())
    assert "ValidationError" in text(kit.execute("s_ask", {}, ToolContext(answer=Answer("x"), memo={"x": 1})))


@pytest.mark.parametrize(
    ("schema", "answer", "expected"),
    [
        ({"properties": {}}, None, {}),
        ({"properties": {"a": {}, "b": {}}}, "x", "expected an object with a, b, got str"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": "x"}, 'a: expected integer, got "x"'),
        ({"type": 5, "properties": {"a": {}}}, {"a": ["x"]}, {"a": ["x"]}),  # no schema: the server's own affair
    ],
)
def test_a_form_is_looked_at_before_it_is_sent(schema: Any, answer: Any, expected: Any) -> None:
    reply = Question("?", schema).reply(Answer("x", data=answer))
    assert (reply if isinstance(reply, str) else reply.content) == expected


def test_a_question_that_belongs_to_no_call_is_refused(start: Start) -> None:
    kit = start(scripted({"asks_early": True}))
    refused = value(kit.execute("s_asked_early", {}))
    assert refused == {"code": -32600, "message": "there is no call to ask for"}


# -- the official SDK's server, in both protocols


def test_questions_of_the_official_server(start: Start) -> None:
    kit = start(old=official(protocol="legacy"), new=official())
    asked = suspended(kit.execute("old_ask", {}))
    assert asked.prompt == "Which color?"
    answered = kit.execute("old_ask", {}, resumed(asked, Answer("x", data={"color": "red"})))
    assert isinstance(answered, ToolResult)
    assert answered.text == "accept red"
    # Since 2026-07-28 nobody waits: the call is made again with all the answers, here by another toolkit.
    asked = suspended(kit.execute("new_require", {}))
    assert (asked.prompt, asked.data["server"]) == ("Which color?", "new")
    asked = suspended(kit.execute("new_require", {}, resumed(asked, Answer("x", data="red"))))
    assert asked.prompt == "Which size?"
    answered = kit.execute("new_require", {}, resumed(asked, Answer("x", ok=False)))
    assert isinstance(answered, ToolResult)
    assert answered.text == "[('color', ('accept', {'color': 'red'})), ('size', ('decline', None))] kept"
    assert getattr(kit.execute("new_lure", {}), "text", None) == "['decline']"
    assert "it asks for 'roots/list', which is not supported" in text(kit.execute("new_sample", {}))
    assert getattr(kit.execute("new_later", {"times": 2}), "text", None) == "after 2"


@at_length
def test_a_server_that_only_wants_to_be_called_again_is_not_for_ever(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_ROUND_PAUSE_S", 0)
    assert "it asked for more time 10 times" in text(start(official()).execute("s_later", {"times": 50}))
