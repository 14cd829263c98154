"""The sentences of the second seed, one by one; its names are translated in the design of the hooks."""

from __future__ import annotations

import dataclasses

import pytest

from tests import claude
from tests.conversation.harness import Log
from tests.server import calls, delta, done, finish, reply, says, sse, text, tool_call, usage
from toolnexus import ChunkType, Usage, tool

LOOK = ("c1", "look", "{}")


@tool
def look() -> str:
    """Look."""
    return "a cat"


def thinks_and_says():
    return reply(delta(reasoning_content="Hm."), text("Hel", "lo!"), finish(), usage(3, 2, 5), done())


def asks():
    return reply(text("Let me see."), tool_call("c1", "look", ["{", "}"]), finish("tool_calls"), usage(7, 1, 8), done())


def test_content_hooks_get_the_text_piece_by_piece(serve, converse):
    chat = converse(serve(thinks_and_says()))
    seen: list[str] = []
    chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: seen.append(chunk.text))
    chat.send("Hi?")
    assert seen == ["Hel", "lo!"]


def test_reasoning_hooks_get_the_thinking(serve, converse):
    chat = converse(serve(thinks_and_says()))
    seen: list[str] = []
    chat.chunks.hook(ChunkType.REASONING).do(lambda chunk: seen.append(chunk.text))
    chat.send("Hi?")
    assert seen == ["Hm."]


def test_tool_call_delta_hooks_get_the_arguments_with_the_id_and_name_on_every_piece(serve, converse):
    chat = converse(serve(asks(), says("A cat.")), look)
    seen: list[tuple[str, int, str, str]] = []
    chat.chunks.hook(ChunkType.TOOL_CALL_DELTA).do(lambda c: seen.append((c.text, c.index, c.id, c.name)))
    chat.send("What is there?")
    assert seen == [("{", 0, "c1", "look"), ("}", 0, "c1", "look")]


def test_usage_hooks_get_the_tokens_of_each_response(serve, converse):
    chat = converse(serve(asks(), thinks_and_says()), look)
    seen: list[int | None] = []
    chat.chunks.hook(ChunkType.USAGE).do(lambda chunk: seen.append(chunk.usage.total_tokens))
    chat.send("What is there?")
    assert seen == [8, 5]


def test_the_usage_chunk_comes_right_before_the_finish_chunk(serve, converse):
    chat = converse(serve(asks(), thinks_and_says()), look)
    chat.send("What is there?")
    types = [chunk.type for chunk in chat.chunks.all()]
    first = ["content", "tool_call_delta", "tool_call_delta", "usage", "finish"]
    assert types == [*first, "reasoning", "content", "content", "usage", "finish"]


def test_finish_hooks_get_the_reason_of_each_response(serve, converse):
    chat = converse(serve(asks(), thinks_and_says()), look)
    seen: list[str | None] = []
    chat.chunks.hook(ChunkType.FINISH).do(lambda chunk: seen.append(chunk.finish_reason))
    chat.send("What is there?")
    assert seen == ["tool_calls", "stop"]


def test_no_type_means_every_chunk(serve, converse):
    chat = converse(serve(asks(), thinks_and_says()), look)
    seen: list[object] = []
    chat.chunks.hook().do(seen.append)
    chat.send("What is there?")
    assert seen == chat.chunks.all()


def test_several_types_mean_chunks_of_any_of_them(serve, converse):
    chat = converse(serve(thinks_and_says(), thinks_and_says()))
    two: list[str] = []
    three: list[str] = []
    chat.chunks.hook(ChunkType.CONTENT, ChunkType.FINISH).do(lambda chunk: two.append(chunk.type))
    chat.chunks.hook(ChunkType.REASONING, ChunkType.USAGE, ChunkType.FINISH).do(lambda c: three.append(c.type))
    chat.send("Hi?")
    assert two == ["content", "content", "finish"]
    assert three == ["reasoning", "usage", "finish"]


def test_a_disposed_hook_is_not_called_again(serve, converse):
    chat = converse(serve(says("One."), says("Two.")))
    seen: list[str] = []
    hook = chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: seen.append(chunk.text))
    chat.send("1?")
    hook.dispose()
    chat.send("2?")
    assert seen == ["One."]


def test_seq_counts_from_zero_within_a_send_across_its_rounds_and_anew_with_each_send(serve, converse):
    chat = converse(serve(calls(LOOK), says("A", " cat."), says("Yes.")), look)
    chat.send("What is there?")
    assert [(chunk.seq, chunk.round) for chunk in chat.chunks.all()] == [(0, 1), (1, 1), (2, 2), (3, 2), (4, 2)]
    chat.send("Really?")
    assert [(chunk.seq, chunk.round) for chunk in chat.chunks.all()] == [(0, 1), (1, 1)]


def test_batch_is_one_for_the_first_send_and_two_for_the_second(serve, converse):
    chat = converse(serve(says("One."), says("Two.")))
    log = Log().watch(chat)
    chat.send("1?")
    chat.send("2?")
    assert [(chunk.batch, chunk.seq) for chunk in log.chunks] == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_chunks_and_finish_reason_can_be_read_after_a_send(serve, converse):
    chat = converse(serve(says("One."), reply(text("Tw"), finish("length"), done())))
    assert (chat.chunks.all(), chat.chunks.finish_reason()) == ([], None)
    chat.send("1?")
    assert [chunk.type for chunk in chat.chunks.all()] == ["content", "finish"]
    assert chat.chunks.finish_reason() == "stop"
    chat.send("2?")
    assert chat.chunks.finish_reason() == "length"


def test_chunks_and_finish_reason_are_cleared_at_the_start_of_a_send(serve, converse):
    chat = converse(serve(says("One."), says("Two.")))
    chat.send("1?")
    state: list[tuple[int, str | None]] = []
    chat.chunks.hook().do(lambda chunk: state.append((len(chat.chunks.all()), chat.chunks.finish_reason())))
    chat.send("2?")
    assert state == [(1, None), (2, "stop")]


def test_hooks_survive_from_send_to_send(serve, converse):
    chat = converse(serve(says("One."), says("Two."), says("Three.")))
    seen: list[str] = []
    chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: seen.append(chunk.text))
    for prompt in "123":
        chat.send(prompt)
    assert seen == ["One.", "Two.", "Three."]


@pytest.mark.parametrize("whole", [False, True], ids=["chunks.clear()", "clear()"])
def test_clear_removes_chunks_and_hooks_and_leaves_summaries(serve, converse, whole):
    chat = converse(serve(says("One."), says("Two.")))
    seen: list[object] = []
    chat.chunks.hook().do(seen.append)
    chat.send("1?")
    if whole:
        chat.clear()
    else:
        chat.chunks.clear()
    assert (chat.chunks.all(), chat.chunks.finish_reason()) == ([], None)
    assert [summary.content for summary in chat.chunks.summary()] == ["One."]
    assert len(chat.messages) == (0 if whole else 2)
    chat.send("2?")
    assert len(seen) == 2


def test_each_round_leaves_a_summary(serve, converse):
    chat = converse(serve(asks(), thinks_and_says()), look)
    result = chat.send("What is there?")
    first, second = chat.chunks.summary()
    assert (first.content, first.reasoning, first.tool_call_count) == ("Let me see.", "", 1)
    assert (second.content, second.reasoning, second.tool_call_count) == ("Hello!", "Hm.", 0)
    assert (first.finish_reason, second.finish_reason) == ("tool_calls", "stop")
    assert isinstance(first.usage, Usage)
    assert isinstance(second.usage, Usage)
    assert (first.usage.total_tokens, second.usage.total_tokens) == (8, 5)
    assert 0 < first.timestamp <= second.timestamp
    assert result.summaries == [first, second]


def test_summaries_add_up_over_sends_until_they_are_cleared(serve, converse):
    chat = converse(serve(says("One."), says("Two."), says("Three.")))
    seen: list[object] = []
    chat.chunks.hook().do(seen.append)
    chat.send("1?")
    chat.send("2?")
    assert [summary.content for summary in chat.chunks.summary()] == ["One.", "Two."]
    kept = chat.chunks.all()
    chat.chunks.clear_summaries()
    assert (chat.chunks.summary(), chat.chunks.all()) == ([], kept)
    chat.send("3?")
    assert [summary.content for summary in chat.chunks.summary()] == ["Three."]
    assert len(seen) == 6


def test_finish_hooks_come_before_the_message_is_appended_and_message_hooks_after(serve, converse):
    chat = converse(serve(thinks_and_says()), id="talk")
    log = Log().watch(chat)
    roles: list[list[str]] = []
    chat.chunks.hook(ChunkType.FINISH).do(lambda chunk: roles.append([message.role for message in chat.messages]))
    chat.send("Hi?")
    assert log.order == ["message user", "reasoning", "content", "content", "usage", "finish", "message assistant"]
    assert ["assistant" in seen for seen in roles] == [False]


def test_tools_run_after_the_finish_the_summary_and_the_message(serve, converse):
    order: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        order.append(f"tool, {len(chat.chunks.summary())} summary")
        return "a cat"

    chat = converse(serve(calls(LOOK), says("A cat.")), look)
    chat.chunks.hook(ChunkType.FINISH).do(lambda c: order.append(f"finish, {len(chat.chunks.summary())} summary"))
    chat.on_message(lambda m: order.append(f"{m.role}, {len(chat.chunks.summary())} summary"))
    chat.send("What is there?")
    assert order == [
        "user, 0 summary",
        "finish, 0 summary",
        "assistant, 1 summary",
        "tool, 1 summary",
        "tool, 1 summary",
        "finish, 1 summary",
        "assistant, 2 summary",
    ]


def test_chunks_are_frozen_and_tell_when_they_came(serve, converse):
    chat = converse(serve(asks(), thinks_and_says()), look)
    chat.send("What is there?")
    chunks = chat.chunks.all()
    assert {chunk.type for chunk in chunks} == {"content", "reasoning", "tool_call_delta", "usage", "finish"}
    for chunk in chunks:
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            chunk.seq = 9
        with pytest.raises((AttributeError, TypeError)):
            chunk.extra = 9
        assert chunk.timestamp > 1_000_000_000
    times = [chunk.timestamp for chunk in chunks]
    assert times == sorted(times)


def test_the_anthropic_style_makes_the_same_chunks(serve, converse):
    first = [
        claude.start(input_tokens=3, output_tokens=1),
        *claude.thought(0, "Hm.", "signed"),
        *claude.text(1, "Let me see."),
        *claude.call(2, "c1", "{", "}"),
        *claude.finish("tool_use", output_tokens=5),
    ]
    second = [claude.start(input_tokens=9, output_tokens=1), *claude.text(0, "A cat."), *claude.finish(output_tokens=2)]
    server = serve(*(reply([sse(payload) for payload in payloads]) for payloads in (first, second)))
    chat = converse(server, look, style="anthropic")
    log = Log().watch(chat)
    chat.send("What is there?")
    assert log.order == [
        "message user",
        "reasoning",
        "content",
        "tool_call_delta",
        "tool_call_delta",
        "usage",
        "finish",
        "message assistant",
        "message tool",
        "content",
        "usage",
        "finish",
        "message assistant",
    ]
    assert {(c.id, c.name) for c in log.chunks if c.type == "tool_call_delta"} == {("c1", "look")}
    assert [c.usage.completion_tokens for c in log.chunks if c.type == "usage"] == [5, 2]
    assert [s.finish_reason for s in chat.chunks.summary()] == ["tool_calls", "stop"]
