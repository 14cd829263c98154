"""Interrupting a send: one `aborted` finish, one summary, no tool afterwards, no half answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.harness import transcript
from tests.conversation.harness import Chat, Log
from tests.server import PATIENCE_S, Gate, Response, calls, delta, done, failure, finish, reply, says, text, tool_call
from toolnexus import (
    APIStatusError,
    Cancel,
    ChunkType,
    DeadlineExceededError,
    RunCancelledError,
    RunResult,
    StreamInterruptedError,
    tool,
)
from toolnexus.chunks import ChunkTag

ran: list[str] = []


@tool
def look() -> str:
    """Look."""
    ran.append("look")
    return "a cat"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def interrupted(chat: Chat, ready: Callable[[], object], prompt: str = "Go.", **options) -> RunResult:
    """Interrupt a send from another thread once `ready` returns; gives the partial result."""

    def interrupt() -> None:
        ready()
        chat.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(RunCancelledError) as caught:
            chat.send(prompt, **options)
    finally:
        thread.join()
    result = caught.value.result
    assert result is not None
    assert (result.status, result.finish_reason) == ("error", "aborted")
    return result


def came(chat: Chat, tag: ChunkTag[Any]) -> Callable[[], object]:
    """Waits until a chunk of this type has come."""
    seen = threading.Event()
    chat.chunks.hook(tag).do(lambda chunk: seen.set())
    return lambda: seen.wait(PATIENCE_S)


def finishes(log: Log) -> list[tuple[str | None, bool, int]]:
    return [(c.finish_reason, c.artificial, c.round) for c in log.chunks if c.type == "finish"]


def test_an_abort_before_the_first_byte(serve, converse):
    gate = Gate()
    server = serve(Response(before=gate), says("Hello."))
    chat = converse(server)
    log = Log().watch(chat)
    result = interrupted(chat, lambda: server.wait_for_requests(1))
    gate.open()
    assert finishes(log) == [("aborted", True, 1)]
    assert [(s.content, s.finish_reason) for s in chat.chunks.summary()] == [("", "aborted")]
    assert transcript(chat.messages) == transcript(result.messages) == [("user", "Go.")]
    assert chat.send("Again.").text == "Hello."
    assert [m.role for m in chat.messages] == ["user", "user", "assistant"]


def test_an_abort_in_the_text(serve, converse):
    gate = Gate()
    chat = converse(serve(reply(text("Hel"), gate, text("lo."), finish(), done()), says("Hello.")))
    log = Log().watch(chat)
    result = interrupted(chat, came(chat, ChunkType.CONTENT))
    assert result.text == "Hel"
    assert log.order == ["message user", "content", "finish"]
    assert finishes(log) == [("aborted", True, 1)]
    assert chat.chunks.finish_reason() == "aborted"
    assert [(s.content, s.finish_reason) for s in chat.chunks.summary()] == [("Hel", "aborted")]
    assert transcript(chat.messages) == [("user", "Go.")]
    assert chat.send("Again.").text == "Hello."


def test_an_abort_from_a_hook_ends_the_send_too(serve, converse):
    gate = Gate()
    chat = converse(serve(reply(text("Hel"), gate, text("lo."), finish(), done())))
    chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: chat.interrupt())
    with pytest.raises(RunCancelledError):
        chat.send("Go.")
    assert [(s.content, s.finish_reason) for s in chat.chunks.summary()] == [("Hel", "aborted")]


def test_an_abort_in_the_arguments_of_a_tool_call(serve, converse):
    gate = Gate()
    call = tool_call("c1", "look", ["{"])
    chat = converse(serve(reply(text("Let me see."), call, gate, finish("tool_calls"), done())), look)
    log = Log().watch(chat)
    result = interrupted(chat, came(chat, ChunkType.TOOL_CALL_DELTA))
    assert ran == []
    assert log.types == ["content", "tool_call_delta", "finish"]
    assert finishes(log) == [("aborted", True, 1)]
    assert [(s.content, s.tool_call_count) for s in chat.chunks.summary()] == [("Let me see.", 1)]
    assert result.tool_calls == []
    assert transcript(chat.messages) == [("user", "Go.")]


def test_an_abort_while_a_tool_runs_starts_no_further_tool_and_asks_the_model_nothing(serve, converse):
    started = threading.Event()

    @tool(parallel=False)
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    @tool(parallel=False)
    def then() -> str:
        """After it."""
        ran.append("then")
        return "no"

    server = serve(calls(("c1", "wait", "{}"), ("c2", "then", "{}")), says("Never."))
    chat = converse(server, wait, then)
    log = Log().watch(chat)
    result = interrupted(chat, lambda: started.wait(PATIENCE_S))
    assert ran == []
    assert len(server.requests) == 1
    assert finishes(log) == [("tool_calls", False, 1), ("aborted", True, 1)]
    assert [s.finish_reason for s in chat.chunks.summary()] == ["tool_calls"]
    assert [call.is_error for call in result.tool_calls] == [True, True]
    assert chat.messages == result.messages
    assert [(m.role, len(m.parts)) for m in chat.messages] == [("user", 1), ("assistant", 2), ("tool", 1), ("tool", 1)]


def test_an_abort_at_the_finish_starts_no_tool(serve, converse):
    server = serve(calls(("c1", "look", "{}")), says("Never."))
    chat = converse(server, look)
    chat.chunks.hook(ChunkType.FINISH).do(lambda chunk: chat.interrupt())
    with pytest.raises(RunCancelledError):
        chat.send("Go.")
    assert ran == []
    assert len(server.requests) == 1
    assert [s.finish_reason for s in chat.chunks.summary()] == ["tool_calls"]


def test_an_abort_before_the_second_response_belongs_to_the_second_round(serve, converse):
    gate = Gate()
    server = serve(calls(("c1", "look", "{}")), Response(before=gate))
    chat = converse(server, look)
    log = Log().watch(chat)
    interrupted(chat, lambda: server.wait_for_requests(2))
    gate.open()
    assert finishes(log) == [("tool_calls", False, 1), ("aborted", True, 2)]
    assert [s.finish_reason for s in chat.chunks.summary()] == ["tool_calls", "aborted"]
    assert [m.role for m in chat.messages] == ["user", "assistant", "tool"]


def test_interrupt_with_nothing_in_flight_does_nothing(serve, converse):
    chat = converse(serve(says("One."), says("Two.")))
    chat.interrupt()
    assert chat.send("1?").text == "One."
    chat.interrupt()
    assert chat.send("2?").text == "Two."


def test_a_cancel_and_a_deadline_of_the_send_abort_it_alike(serve, converse):
    gates = Gate(), Gate()
    server = serve(*(reply(text("Hel"), gate, text("lo."), finish(), done()) for gate in gates))
    chat = converse(server)
    log = Log().watch(chat)
    cancel = Cancel()
    chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: cancel.cancel())
    with pytest.raises(RunCancelledError):
        chat.send("Go.", cancel=cancel)
    with pytest.raises(DeadlineExceededError):
        chat.send("Go.", deadline=0.2)
    assert [c.finish_reason for c in log.chunks if c.type == "finish"] == ["aborted", "aborted"]
    assert [s.content for s in chat.chunks.summary()] == ["Hel", "Hel"]


def test_leaving_the_events_in_mid_stream_is_an_abort(serve, converse):
    gate = Gate()
    chat = converse(serve(reply(text("Hel"), gate, text("lo."), finish(), done()), says("Hello.")))
    log = Log().watch(chat)
    with chat.iter_events("Go.") as events:
        next(iter(events))
    assert finishes(log) == [("aborted", True, 1)]
    assert len(chat.chunks.summary()) == 1
    assert chat.send("Again.").text == "Hello."


def test_an_error_after_some_text_leaves_a_summary_of_what_was_said(serve, converse):
    chat = converse(serve(reply(text("Hel"), end="close"), says("Hello.")), retries=0)
    log = Log().watch(chat)
    with pytest.raises(StreamInterruptedError) as caught:
        chat.send("Go.")
    assert caught.value.result is not None
    assert caught.value.result.text == "Hel"
    assert log.types == ["content", "finish"]
    assert [s.content for s in chat.chunks.summary()] == ["Hel"]
    assert transcript(chat.messages) == [("user", "Go.")]
    assert chat.send("Again.").text == "Hello."


def test_a_refused_request_leaves_no_chunk_and_no_summary_and_the_prompt_stays(serve, converse):
    server = serve(failure(401), says("Hello."))
    chat = converse(server)
    with pytest.raises(APIStatusError):
        chat.send("Go.")
    assert (chat.chunks.all(), chat.chunks.summary()) == ([], [])
    assert chat.send("Again.").text == "Hello."
    assert [(m.role, m.text) for m in chat.messages] == [("user", "Go."), ("user", "Again."), ("assistant", "Hello.")]


def test_a_thought_that_was_cut_is_in_the_summary(serve, converse):
    chat = converse(serve(reply(delta(reasoning_content="Hm, w"), end="close")), retries=0)
    with pytest.raises(StreamInterruptedError):
        chat.send("Go.")
    assert [(s.content, s.reasoning) for s in chat.chunks.summary()] == [("", "Hm, w")]
