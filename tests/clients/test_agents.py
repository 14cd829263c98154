"""An agent as a tool of another: one run inside of another's call."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.clients.harness import later, new_client, transcript
from tests.server import Gate, calls, done, failure, finish, reply, says, text, usage
from toolnexus import (
    Answer,
    Cancel,
    ConfigurationError,
    PendingEvent,
    RunCancelledError,
    RunResult,
    ToolContext,
    Toolkit,
    define_tool,
    pending,
)

ASK_AGENT = ("p1", "researcher", '{"prompt": "Find it."}')


@pytest.fixture
def ran() -> list[Any]:
    """What the agent's own tool was given, each time it ran to its end."""
    return []


@pytest.fixture
def risky(ran):
    """A tool that wants an answer before it does anything."""

    def dig(where: str, ctx: ToolContext) -> object:
        if ctx.answer is None:
            return pending(f"Dig {where}?", "input", id=f"dig {where}")
        ran.append((where, ctx.answer.ok, ctx.answer.data))
        return "gold"

    return define_tool(dig)


def test_an_agent_answers_its_caller(connect, serve):
    server = serve(calls(ASK_AGENT), calls(("c1", "look", "{}")), says("A cat."), says("It is a cat."))
    client = connect(server)
    agent = client.as_tool("researcher", "Finds things.", Toolkit(define_tool(lambda: "seen", name="look")))
    result = client.run("What is it?", Toolkit(agent), system_prompt="Be brief.")
    assert result.text == "It is a cat."
    assert [(record.name, record.output) for record in result.tool_calls] == [("researcher", "A cat.")]
    inner = server.requests[1].json
    assert inner["messages"] == [{"role": "user", "content": "Find it."}]
    assert [tool["function"]["name"] for tool in inner["tools"]] == ["look"]
    outer = server.requests[0].json["tools"][0]["function"]
    assert (outer["description"], list(outer["parameters"]["properties"])) == ("Finds things.", ["prompt"])


def test_an_agent_has_its_own_options(connect, serve):
    server = serve(calls(ASK_AGENT), says("A cat."), says("Done."))
    client = connect(server)
    agent = client.as_tool("researcher", "Finds things.", model="small", system_prompt="You dig.", temperature=0.5)
    client.run("What is it?", Toolkit(agent))
    inner = server.requests[1].json
    assert (inner["model"], inner["temperature"], inner["messages"][0]["content"]) == ("small", 0.5, "You dig.")


@pytest.mark.parametrize("options", [{"max_turns": 0}, {"max_depth": 0}, {"cancel": Cancel()}, {"history": "x"}])
def test_options_that_cannot_work_are_refused_when_the_tool_is_made(connect, serve, options):
    client = connect(serve())
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        client.as_tool("researcher", "Finds things.", **options)


def test_the_tokens_of_an_agent_count_for_its_caller(connect, serve):
    server = serve(
        reply(calls(ASK_AGENT).writes[:-1], usage(1, 2, 3), done()),
        reply(text("A cat."), finish(), usage(10, 20, 30), done()),
        reply(text("Done."), finish(), usage(100, 200, 300), done()),
    )
    client = connect(server)
    result = client.stream("What is it?", Toolkit(client.as_tool("researcher", "Finds things.")))
    assert (result.usage.prompt_tokens, result.usage.completion_tokens, result.usage.total_tokens) == (111, 222, 333)


def test_an_agent_that_fails_is_an_error_for_its_caller_and_its_tokens_count(connect, serve):
    looks = reply(calls(("c1", "look", "{}")).writes[:-1], usage(10, 20, 30), done())
    server = serve(calls(ASK_AGENT), looks, failure(400, "too long"), says("Well."))
    client = connect(server)
    agent = client.as_tool("researcher", "Finds things.", Toolkit(define_tool(lambda: "seen", name="look")))
    result = client.stream("What is it?", Toolkit(agent))
    (record,) = result.tool_calls
    assert (record.is_error, "too long" in record.output, result.text) == (True, True, "Well.")


def test_an_agent_that_reaches_its_limit_says_so(connect, serve):
    server = serve(calls(ASK_AGENT), calls(("c1", "look", "{}")), says("Well."))
    client = connect(server)
    looking = Toolkit(define_tool(lambda: "seen", name="look"))
    result = client.run("What is it?", Toolkit(client.as_tool("researcher", "Finds things.", looking, max_turns=1)))
    (record,) = result.tool_calls
    assert (record.is_error, record.output) == (True, "[The agent stopped at its limit 'max_turns'.]")


def test_a_question_of_an_agent_is_asked_by_its_caller(connect, serve, risky, ran):
    server = serve(calls(ASK_AGENT), calls(("c1", "dig", '{"where": "here"}')), says("Gold!"), says("Rich."))
    client = connect(server, wait_for=lambda request: Answer(request.id, data={"deep": True}))
    events: list[Any] = []
    agent = client.as_tool("researcher", "Finds things.", Toolkit(risky))
    result = client.stream("Go.", Toolkit(agent), events.append)
    asked = [event.request for event in events if isinstance(event, PendingEvent)]
    assert [(request.prompt, request.call and request.call.name) for request in asked] == [("Dig here?", "researcher")]
    assert (ran, result.text) == ([("here", True, {"deep": True})], "Rich.")


def test_a_suspended_agent_goes_on_from_its_caller_s_json(connect, serve, risky, ran):
    server = serve(calls(ASK_AGENT), calls(("c1", "dig", '{"where": "here"}')), says("Gold!"), says("Rich."))
    client = connect(server)
    toolkit = Toolkit(client.as_tool("researcher", "Finds things.", Toolkit(risky)))
    waiting = RunResult.model_validate_json(client.run("Go.", toolkit).model_dump_json())
    assert (waiting.status, [request.id for request in waiting.requests]) == ("pending", ["dig here"])
    result = client.resume(Answer("dig here"), toolkit, result=waiting)
    assert (ran, result.status, result.text) == ([("here", True, None)], "done", "Rich.")
    assert transcript(result.messages) == [
        ("user", "Go."),
        ("assistant", ("p1", "researcher", {"prompt": "Find it."}, "finished")),
        ("tool", ("p1", "Gold!", False)),
        ("assistant", "Rich."),
    ]
    assert result.messages[1].tool_calls[0].journal is None


def test_several_questions_of_an_agent_are_asked_one_after_the_other(connect, serve, risky, ran):
    digs = calls(("c1", "dig", '{"where": "here"}'), ("c2", "dig", '{"where": "there"}'))
    server = serve(calls(ASK_AGENT), digs, says("Gold!"), says("Rich."))
    client = connect(server, wait_for=lambda request: Answer(request.id, data=request.prompt))
    result = client.run("Go.", Toolkit(client.as_tool("researcher", "Finds things.", Toolkit(risky))))
    assert (ran, result.text) == ([("here", True, "Dig here?"), ("there", True, "Dig there?")], "Rich.")


def test_a_declined_question_is_told_to_the_model_of_the_agent(connect, serve, risky, ran):
    server = serve(calls(ASK_AGENT), calls(("c1", "dig", '{"where": "here"}')), says("Then not."), says("Poor."))
    client = connect(server, wait_for=lambda request: Answer(request.id, ok=False, reason="protected"))
    result = client.run("Go.", Toolkit(client.as_tool("researcher", "Finds things.", Toolkit(risky))))
    assert (ran, result.text) == ([], "Poor.")
    assert "declined: protected" in server.requests[2].json["messages"][-1]["content"]
    assert server.requests[3].json["messages"][-1]["content"] == "Then not."


def test_an_agent_inside_of_an_agent_suspends_and_resumes_through_both(connect, serve, risky, ran):
    server = serve(
        calls(("o1", "boss", '{"prompt": "Manage."}')),
        calls(ASK_AGENT),
        calls(("c1", "dig", '{"where": "here"}')),
        says("Gold!"),
        says("They dug."),
        says("Rich."),
    )
    client = connect(server)
    inner = client.as_tool("researcher", "Finds things.", Toolkit(risky))
    toolkit = Toolkit(client.as_tool("boss", "Manages.", Toolkit(inner)))
    waiting = client.run("Go.", toolkit)
    result = client.resume(Answer("dig here"), toolkit, result=waiting)
    assert (ran, result.text) == ([("here", True, None)], "Rich.")
    assert [request.json["messages"][-1]["content"] for request in server.requests[3:]] == [
        "gold",
        "Gold!",
        "They dug.",
    ]


def test_agents_that_call_each_other_come_to_an_end(connect, serve):
    again = [calls((f"p{i}", "researcher", '{"prompt": "You do it."}')) for i in range(3)]
    server = serve(*again, says("I cannot."), says("It cannot."), says("Nobody can."))
    client = connect(server)
    toolkit = Toolkit()
    toolkit.register(client.as_tool("researcher", "Finds things.", toolkit, max_depth=2))
    assert client.run("Go.", toolkit).text == "Nobody can."
    assert "2 deep already" in server.requests[3].json["messages"][-1]["content"]


def test_a_cancel_of_the_caller_ends_the_agent(connect, serve):
    gate = Gate()
    server = serve(calls(ASK_AGENT), reply(text("A c"), gate))
    client = connect(server)
    cancel = Cancel()
    thread = later(cancel, gate.wait_reached)
    with pytest.raises(RunCancelledError):
        client.run("Go.", Toolkit(client.as_tool("researcher", "Finds things.")), cancel=cancel)
    thread.join()
    server.requests[1].wait_left()


def test_the_deadline_of_the_caller_is_the_agent_s_too(connect, serve):
    seen: list[float | None] = []

    def look(ctx: ToolContext) -> str:
        seen.append(ctx.deadline)
        return "seen"

    server = serve(*[calls(ASK_AGENT), calls(("c1", "look", "{}")), says("A cat."), says("Done.")] * 2)
    client = connect(server)
    looking = Toolkit(define_tool(look))
    client.run("Go.", Toolkit(client.as_tool("researcher", "Finds things.", looking)), deadline=50)
    client.run("Go.", Toolkit(client.as_tool("researcher", "Finds things.", looking, deadline=20)), deadline=50)
    assert seen[0] is not None
    assert seen[1] is not None
    assert 20 < seen[0] <= 50
    assert seen[1] <= 20


def test_an_agent_of_the_one_client_may_be_a_tool_of_the_other(serve):
    server = serve(*[calls(ASK_AGENT), says("A cat."), says("Done.")] * 2)
    with new_client("sync", server) as one, new_client("async", server) as other:
        assert one.run("Go.", Toolkit(other.as_tool("researcher", "Finds things."))).text == "Done."
        assert other.run("Go.", Toolkit(one.as_tool("researcher", "Finds things."))).text == "Done."
    assert threading.active_count() < 20
