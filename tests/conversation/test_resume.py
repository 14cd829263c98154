"""A conversation whose tool asked something: an answer makes it go on, a prompt goes on without one."""

from __future__ import annotations

import pytest

from tests.clients.harness import transcript
from tests.conversation.harness import Log
from tests.server import calls, says
from toolnexus import Answer, AnswerMismatchError, ConfigurationError, MemoryStore, ToolContext, pending, tool


@tool
def ask(what: str, ctx: ToolContext) -> object:
    """Ask a human."""
    return pending(f"{what}?", id=what) if ctx.answer is None else f"{what}: {ctx.answer.data}"


TWO = calls(("c0", "ask", '{"what": "a"}'), ("c1", "ask", '{"what": "b"}'))


@pytest.mark.parametrize("id", [None, "talk"])
def test_answers_carry_a_conversation_on(converse, serve, id):
    chat = converse(serve(TWO, says("Done."), says("And on.")), ask, id=id)
    log = Log().watch(chat)
    assert chat.send("Go.").status == "pending"
    half = chat.resume(Answer("b", data=2))
    assert [request.id for request in half.requests] == ["a"]
    with chat.resume_stream([Answer("a", data=1)]) as events:
        assert [event.type for event in events] == ["tool_result", "text", "done"]
    assert transcript(chat.messages)[2:] == [
        ("tool", ("c0", "a: 1", False)),
        ("tool", ("c1", "b: 2", False)),
        ("assistant", "Done."),
    ]
    assert log.order[-5:] == ["message tool", "message tool", "content", "finish", "message assistant"]
    assert log.order.count("message assistant") == 2
    assert {chunk.batch for chunk in log.chunks if chunk.type == "content"} == {3}  # each is a send of its own
    assert chat.send("More.").text == "And on."


def test_what_a_conversation_is_not_asked_it_does_not_take(converse, serve):
    server = serve(TWO, says("Never mind."))
    chat = converse(server, ask)
    with pytest.raises(AnswerMismatchError, match="the conversation is empty"):
        chat.resume(Answer("a"))
    chat.send("Go.")
    before = chat.messages
    with pytest.raises(AnswerMismatchError, match="'c' is not open"):
        chat.resume(Answer("c"))
    with pytest.raises(ConfigurationError, match="history: cannot be given to resume"):
        chat.resume(Answer("a"), history=[])
    assert chat.messages == before
    chat.send("Forget it.")
    with pytest.raises(AnswerMismatchError, match="'a' is not open"):
        chat.resume(Answer("a"))
    assert len(server.requests) == 2


def test_another_conversation_object_of_the_same_id_goes_on(converse, serve):
    server, store = serve(TWO, says("Done.")), MemoryStore()
    converse(server, ask, id="talk", store=store).send("Go.")
    other = converse(server, ask, id="talk", store=store)
    assert other.resume([Answer("a", data=1), Answer("b", ok=False)]).text == "Done."
    assert other.messages == store.get("talk")
