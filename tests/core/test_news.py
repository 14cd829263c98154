"""What observers of a run are told, and in which order: chunks, summaries, messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import claude
from tests.core.scripted import DONE, answer, call_chunk, chunk, feed, make_run, make_tool, reading, say, settle, sse
from toolnexus._core.chunk_log import News
from toolnexus._core.commands import Finish, RunTools, SendRequest, ToolOutcome
from toolnexus._core.run import AgentRun
from toolnexus._core.wire.anthropic import AnthropicWire
from toolnexus.chunks import ContentChunk, FinishChunk, ReasoningChunk, ToolCallDeltaChunk, UsageChunk
from toolnexus.errors import APIConnectionError, ProtocolError, RateLimitError, StreamInterruptedError, ToolnexusError
from toolnexus.events import ReasoningEvent, StreamEvent, TextEvent, ToolCallEvent
from toolnexus.messages import Message
from toolnexus.results import StreamSummary, Usage
from toolnexus.suspension import Pending
from toolnexus.tool import ToolResult

LOOK = make_tool("look")
ONE_CALL = call_chunk(("c1", "look", '{"n": 1}'))
BEGUN_CALL = call_chunk(("c1", "look", '{"n"'), finish=None)
COUNTS = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
LESS = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
RESET = APIConnectionError("the connection was reset")


def observed(*tools: Any, **setup: Any) -> AgentRun:
    return make_run(*tools, **{"observed": True, **setup})


def observed_claude(*tools: Any, **setup: Any) -> AgentRun:
    return observed(*tools, wire=AnthropicWire(), origin="anthropic:api.example", **setup)


def opened(run: AgentRun, *payloads: Any, now: float = 0.0) -> list[StreamEvent]:
    """A response that begins with these payloads and is not over."""
    assert isinstance(run.next_command(), SendRequest)
    run.response_opened(200, {}, now)
    return list(run.receive(sse(*payloads), now)) if payloads else []


def short(news: Iterable[News]) -> list[tuple[Any, ...]]:
    """News as short tuples."""
    return [_short(item) for item in news]


def _short(item: News) -> tuple[Any, ...]:
    match item:
        case ContentChunk(text=text):
            return ("content", text)
        case ReasoningChunk(text=text):
            return ("reasoning", text)
        case ToolCallDeltaChunk(text=text, index=index, id=id, name=name):
            return ("delta", index, id, name, text)
        case UsageChunk(usage=usage):
            return ("usage", usage.total_tokens)
        case FinishChunk(finish_reason=reason, artificial=artificial):
            return ("finish", reason, "artificial") if artificial else ("finish", reason)
        case StreamSummary():
            return ("summary", item.content, item.tool_call_count, item.finish_reason)
        case Message():
            return (item.role,)


def told(run: AgentRun) -> list[tuple[Any, ...]]:
    return short(run.take_news())


def contents(summaries: Sequence[StreamSummary]) -> list[tuple[str, int, str | None]]:
    return [(summary.content, summary.tool_call_count, summary.finish_reason) for summary in summaries]


# -- who is told, and what


def test_the_prompt_the_chunks_the_summary_and_the_answer_are_told_in_this_order() -> None:
    run = observed()
    assert told(run) == [("user",)]
    assert isinstance(run.next_command(), SendRequest)
    feed(run, sse(chunk("Hel"), chunk("lo!"), chunk(finish="stop", usage=COUNTS), "[DONE]"))
    assert told(run) == [
        ("content", "Hel"),
        ("content", "lo!"),
        ("usage", 5),
        ("finish", "stop"),
        ("summary", "Hello!", 0, "stop"),
        ("assistant",),
    ]
    assert told(run) == []


def test_of_the_messages_at_the_start_only_the_prompt_is_news() -> None:
    run = observed(history=[Message("user", "Hi."), Message("assistant", "Yes?")], prompt="Now?")
    assert run.take_news() == [Message("user", "Now?")]


def test_where_nobody_observes_nothing_is_told_and_the_summaries_are_there_all_the_same() -> None:
    run = make_run(LOOK)
    answer(run, chunk("I look."), ONE_CALL, chunk(usage=COUNTS))
    settle(run, "rain")
    say(run)
    assert run.take_news() == ()
    first, second = run.result().summaries
    assert contents([first, second]) == [("I look.", 1, "tool_calls"), ("Done.", 0, "stop")]
    assert first.usage is not None
    assert (first.usage.total_tokens, second.usage) == (5, None)


def test_each_piece_is_told_with_the_read_that_brought_it() -> None:
    run = observed()
    run.take_news()
    opened(run, chunk("Hel"))
    assert told(run) == [("content", "Hel")]
    run.receive(sse(chunk("lo!"), chunk(reasoning_content="Hm.")))
    assert told(run) == [("content", "lo!"), ("reasoning", "Hm.")]


def test_chunks_say_the_same_as_the_events() -> None:
    run = observed(split_think_tags=True)
    payloads = [chunk("<thi"), chunk("nk>Hm.</think>Hel"), chunk("lo \ud83d"), chunk("\ude00"), chunk("!\ud83d")]
    events = answer(run, *payloads, chunk(finish="stop"))
    news = run.take_news()
    assert [item.text for item in news if isinstance(item, ContentChunk)] == [
        event.delta for event in events if isinstance(event, TextEvent)
    ]
    assert [item.text for item in news if isinstance(item, ReasoningChunk)] == [
        event.delta for event in events if isinstance(event, ReasoningEvent)
    ]
    assert contents(run.result().summaries) == [("Hello \U0001f600!\ufffd", 0, "stop")]
    assert run.result().summaries[0].reasoning == "Hm."


# -- identity


def test_numbers_go_on_over_the_rounds_and_each_chunk_names_its_round_batch_and_time() -> None:
    run = observed(LOOK, batch=4)
    run.take_news()
    run.response_opened(200, {}, 10.0)
    run.receive(sse(chunk("I look.")), 11.0)
    run.receive(sse(ONE_CALL), 12.0)
    run.receive(DONE, 13.0)
    run.response_ended(14.0)
    settle(run, "rain")
    feed(run, sse(chunk("Rain.", finish="stop"), "[DONE]"), now=20.0)
    chunks = [item for item in run.take_news() if not isinstance(item, (Message, StreamSummary))]
    assert [(c.type, c.seq, c.batch, c.round, c.timestamp) for c in chunks] == [
        ("content", 0, 4, 1, 11.0),
        ("tool_call_delta", 1, 4, 1, 12.0),
        ("finish", 2, 4, 1, 14.0),
        ("content", 3, 4, 2, 20.0),
        ("finish", 4, 4, 2, 20.0),
    ]
    assert [summary.timestamp for summary in run.result().summaries] == [14.0, 20.0]


def test_deltas_of_a_call_carry_its_id_and_name_once_they_are_known() -> None:
    def piece(text: str, index: int, id: str | None = None, name: str | None = None) -> Any:
        function = {"arguments": text} if name is None else {"arguments": text, "name": name}
        entry = (
            {"index": index, "function": function} if id is None else {"index": index, "id": id, "function": function}
        )
        return chunk(tool_calls=[entry])

    run = observed(LOOK)
    run.take_news()
    answer(
        run,
        piece('{"n"', 0),
        piece(": 1", 0, "c1", "look"),
        piece("", 1, "c2", "look"),
        piece("{", 1),
        piece("}", 0),
        piece("}", 1),
        chunk(finish="tool_calls"),
    )
    assert told(run)[:5] == [
        ("delta", 0, "", "", '{"n"'),
        ("delta", 0, "c1", "look", ": 1"),
        ("delta", 1, "c2", "look", "{"),
        ("delta", 0, "c1", "look", "}"),
        ("delta", 1, "c2", "look", "}"),
    ]


def test_deltas_of_an_anthropic_call_carry_its_id_and_name_and_its_place_among_the_calls() -> None:
    run = observed_claude(LOOK)
    run.take_news()
    payloads = [*claude.text(0, "I look."), *claude.call(1, "c1", '{"n"', ": 1}"), *claude.call(2, "c2", "{}")]
    feed(run, sse(claude.start(), *payloads, *claude.finish("tool_use")))
    assert told(run)[:5] == [
        ("content", "I look."),
        ("delta", 0, "c1", "look", '{"n"'),
        ("delta", 0, "c1", "look", ": 1}"),
        ("delta", 1, "c2", "look", "{}"),
        ("finish", "tool_calls"),
    ]


def test_a_call_that_the_provider_began_anew_is_counted_once_and_its_pieces_keep_apart() -> None:
    run = observed_claude(LOOK)
    run.take_news()
    begun = [claude.begin(0, "tool_use", id="c1", name="look", input={}), claude.delta(0, "input_json_delta")]
    begun[1]["delta"]["partial_json"] = '{"n"'
    feed(run, sse(claude.start(), *begun, claude.start(), *claude.call(0, "c2", "{}"), *claude.finish("tool_use")))
    news = told(run)
    assert news[:2] == [("delta", 0, "c1", "look", '{"n"'), ("delta", 1, "c2", "look", "{}")]
    assert contents(run.result().summaries) == [("", 1, "tool_calls")]


# -- the end of a response


@pytest.mark.parametrize(
    ("payloads", "usages"),
    [
        ([chunk("Hi.", finish="stop", usage=COUNTS)], [("usage", 5)]),
        ([chunk("Hi.", finish="stop"), chunk(usage=COUNTS)], [("usage", 5)]),
        ([chunk("Hi.", finish="stop"), {"choices": [], "usage": COUNTS}], [("usage", 5)]),
        ([chunk("Hi.", usage=LESS), chunk(finish="stop", usage=LESS), chunk(usage=COUNTS)], [("usage", 5)]),
        ([chunk("Hi.", finish="stop")], []),
        ([chunk("Hi.", finish="stop"), {"choices": [], "usage": None}], []),
    ],
    ids=["on the finish frame", "after it", "without choices", "on every frame", "never", "null"],
)
def test_usage_is_told_once_with_its_last_value_right_before_the_finish(payloads: list[Any], usages: list[Any]) -> None:
    run = observed()
    run.take_news()
    answer(run, *payloads)
    assert told(run) == [
        ("content", "Hi."),
        *usages,
        ("finish", "stop"),
        ("summary", "Hi.", 0, "stop"),
        ("assistant",),
    ]
    (summary,) = run.result().summaries
    assert (summary.usage is not None) is bool(usages)


def test_usage_of_a_chunk_and_of_a_summary_is_that_of_their_response_alone() -> None:
    run = observed(LOOK)
    answer(run, ONE_CALL, chunk(usage=COUNTS))
    settle(run, "rain")
    answer(run, chunk("Done.", finish="stop", usage=LESS))
    chunks = [item.usage.total_tokens for item in run.take_news() if isinstance(item, UsageChunk)]
    summaries = [summary.usage.total_tokens for summary in run.result().summaries if summary.usage]
    assert chunks == summaries == [5, 4]
    assert run.result().usage.total_tokens == 9


def test_an_anthropic_response_that_tells_usage_at_both_ends_has_one_usage_chunk() -> None:
    run = observed_claude()
    run.take_news()
    payloads = [claude.start(input_tokens=3, output_tokens=1), *claude.text(0, "Hi.")]
    feed(run, sse(*payloads, *claude.finish("end_turn", output_tokens=2)))
    news = run.take_news()
    assert short(news)[1:3] == [("usage", 5), ("finish", "stop")]
    (usage,) = [item.usage for item in news if isinstance(item, UsageChunk)]
    assert (usage.prompt_tokens, usage.completion_tokens) == (3, 2)


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter", "refusal", "tool_calls", "house_word"])
def test_the_finish_says_the_reason_of_the_provider(reason: str) -> None:
    run = observed(LOOK)
    run.take_news()
    answer(run, chunk("Hal"), chunk(finish=reason))
    assert told(run) == [
        ("content", "Hal"),
        ("finish", reason),
        ("summary", "Hal", 0, reason),
        ("assistant",),
    ]
    assert run.result().finish_reason == reason


def test_a_response_whose_end_mark_comes_without_a_reason_has_an_artificial_finish() -> None:
    run = observed()
    run.take_news()
    answer(run, chunk("Hi."))
    assert told(run)[1:3] == [("finish", None, "artificial"), ("summary", "Hi.", 0, None)]
    assert run.result().finish_reason is None


def test_calls_of_a_filtered_response_are_counted_and_do_not_run() -> None:
    run = observed(LOOK)
    run.take_news()
    answer(run, call_chunk(("c1", "look", "{}"), finish="content_filter"))
    assert isinstance(run.next_command(), Finish)
    assert told(run) == [
        ("delta", 0, "c1", "look", "{}"),
        ("finish", "content_filter"),
        ("summary", "", 1, "content_filter"),
        ("assistant",),
        ("tool",),
    ]


def test_an_empty_answer_has_a_finish_and_a_summary_and_no_message() -> None:
    run = observed()
    run.take_news()
    answer(run, chunk(finish="stop"))
    assert told(run) == [("finish", "stop"), ("summary", "", 0, "stop")]


def test_the_results_of_a_turn_are_told_together_in_the_models_order_before_the_next_response() -> None:
    run = observed(LOOK)
    answer(run, call_chunk(("c1", "look", "{}"), ("c2", "look", "{}")))
    run.take_news()
    run.tool_finished(ToolOutcome(1, ToolResult("two")))
    assert told(run) == []
    run.tool_finished(ToolOutcome(0, ToolResult("one")))
    results = run.take_news()
    assert results == run.messages[-2:]
    say(run)
    assert told(run)[0] == ("content", "Done.")


def test_a_run_that_ends_pending_has_told_its_response_and_not_yet_the_results() -> None:
    run = observed(LOOK)
    answer(run, ONE_CALL)
    run.take_news()
    settle(run, Pending("Sure?"))
    assert run.result().status == "pending"
    assert told(run) == []
    assert contents(run.result().summaries) == [("", 1, "tool_calls")]


# -- what was not streamed

WHOLE = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    "usage": COUNTS,
}


@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_reply_makes_no_chunks_but_a_summary(stream: bool) -> None:
    run = observed(stream=stream)
    run.take_news()
    feed(run, sse(WHOLE).removeprefix(b"data: "), now=7.0)
    assert told(run) == [("summary", "Hi.", 0, "stop"), ("assistant",)]
    (summary,) = run.result().summaries
    assert summary == StreamSummary("Hi.", "", 0, "stop", Usage(3, 2, 5, raw=(COUNTS,)), 7.0)


def test_a_stream_that_nobody_asked_for_makes_no_chunks() -> None:
    run = observed(stream=False)
    run.take_news()
    answer(run, chunk("Hi.", finish="stop"))
    assert told(run) == [("summary", "Hi.", 0, "stop"), ("assistant",)]


def test_a_run_that_is_not_streamed_has_no_finish_chunk_when_it_is_aborted() -> None:
    run = observed(LOOK, stream=False)
    run.take_news()
    run.abandon(aborted=True, now=3.0)
    assert told(run) == [("summary", "", 0, "aborted")]


# -- errors


def fail(run: AgentRun, error: ToolnexusError = RESET) -> None:
    with pytest.raises(type(error)):
        run.response_failed(error, 2.0)


def test_an_error_after_some_text_leaves_a_finish_and_a_summary_of_what_was_said() -> None:
    run = observed()
    run.take_news()
    opened(run, chunk(reasoning_content="Hm."), chunk("Hal"))
    fail(run)
    run.abandon(now=3.0)
    result = run.result()
    assert told(run) == [
        ("reasoning", "Hm."),
        ("content", "Hal"),
        ("finish", None, "artificial"),
        ("summary", "Hal", 0, None),
    ]
    assert result.summaries == [StreamSummary("Hal", "Hm.", 0, None, None, 3.0)]
    assert [message.role for message in result.messages] == ["user"]


def test_an_error_behind_the_text_of_one_read_is_told_after_it() -> None:
    run = observed()
    run.take_news()
    opened(run, chunk("Hal"), {"error": {"message": "slow down", "code": 429}})
    assert told(run) == [("content", "Hal")]
    with pytest.raises(RateLimitError):
        run.receive(b"")
    run.abandon()
    assert told(run) == [("finish", None, "artificial"), ("summary", "Hal", 0, None)]


def test_an_error_after_the_finish_reason_keeps_the_reason() -> None:
    run = observed_claude()
    run.take_news()
    ending = claude.finish("end_turn", output_tokens=2)[0]  # the end mark does not come
    opened(run, claude.start(), *claude.text(0, "Hal"), ending)
    fail(run)
    run.abandon()
    result = run.result()
    assert [item for item in told(run) if item[0] in ("finish", "summary")] == [
        ("finish", "stop"),
        ("summary", "Hal", 0, "stop"),
    ]
    assert result.finish_reason == "stop"


def test_an_error_before_anything_was_said_is_no_response_and_leaves_no_summary() -> None:
    run = observed()
    run.take_news()
    opened(run)
    fail(run)
    run.abandon()
    assert run.result().summaries == []
    assert told(run) == []


def test_a_failed_try_is_no_response_and_the_next_one_takes_its_round() -> None:
    run = observed()
    run.take_news()
    opened(run)
    fail(run)
    assert told(run) == []
    say(run)
    news = run.take_news()
    assert short(news) == [("content", "Done."), ("finish", "stop"), ("summary", "Done.", 0, "stop"), ("assistant",)]
    assert [item.round for item in news if isinstance(item, (ContentChunk, FinishChunk))] == [1, 1]


def test_a_try_that_broke_off_in_the_arguments_of_a_call_has_no_finish_and_its_deltas_come_again() -> None:
    run = observed(LOOK)
    run.take_news()
    opened(run, BEGUN_CALL)
    assert not reading(run).shown
    fail(run)
    answer(run, ONE_CALL)
    assert told(run) == [
        ("delta", 0, "c1", "look", '{"n"'),
        ("delta", 0, "c1", "look", '{"n": 1}'),
        ("finish", "tool_calls"),
        ("summary", "", 1, "tool_calls"),
        ("assistant",),
    ]


def test_what_a_caller_raises_in_mid_stream_leaves_one_finish_and_one_summary() -> None:
    run = observed(LOOK)
    opened(run, chunk("Hal"), BEGUN_CALL)
    run.take_news()
    run.abandon()
    run.abandon()
    assert told(run) == [("finish", None, "artificial"), ("summary", "Hal", 1, None)]


# -- aborts


def before_the_first_byte(run: AgentRun) -> None:
    assert isinstance(run.next_command(), SendRequest)


def after_the_head(run: AgentRun) -> None:
    opened(run)


def in_text(run: AgentRun) -> None:
    opened(run, chunk("Hal"))


def in_arguments(run: AgentRun) -> None:
    opened(run, chunk("Hal"), BEGUN_CALL)


def behind_the_finish_reason(run: AgentRun) -> None:
    opened(run, chunk("Hal"), chunk(finish="stop"))


ABORTS: dict[Callable[[AgentRun], None], tuple[str, int]] = {
    before_the_first_byte: ("", 0),
    after_the_head: ("", 0),
    in_text: ("Hal", 0),
    in_arguments: ("Hal", 1),
    behind_the_finish_reason: ("Hal", 0),
}


@pytest.mark.parametrize("round", [1, 2])
@pytest.mark.parametrize("place", ABORTS, ids=lambda place: place.__name__)
def test_an_abort_has_one_finish_and_one_summary_and_stores_no_half_answer(
    place: Callable[[AgentRun], None], round: int
) -> None:
    run = observed(LOOK)
    if round == 2:
        answer(run, ONE_CALL)
        settle(run, "rain")
    before = list(run.messages)
    place(run)
    run.take_news()
    run.abandon(aborted=True, now=9.0)
    result = run.result()
    content, calls = ABORTS[place]
    news = run.take_news()
    assert short(news) == [("finish", "aborted", "artificial"), ("summary", content, calls, "aborted")]
    (finish,) = [item for item in news if isinstance(item, FinishChunk)]
    assert (finish.round, finish.timestamp) == (round, 9.0)
    assert len(result.summaries) == round
    assert (result.finish_reason, result.messages) == ("aborted", before)
    run.abandon(aborted=True)
    assert told(run) == []
    assert isinstance(run.next_command(), Finish)


def test_what_was_known_of_usage_at_an_abort_is_told_before_the_finish() -> None:
    run = observed()
    opened(run, chunk("Hal", usage=LESS))
    run.take_news()
    run.abandon(aborted=True)
    assert told(run) == [("usage", 4), ("finish", "aborted", "artificial"), ("summary", "Hal", 0, "aborted")]


def test_an_abort_during_a_tool_has_one_aborted_finish_and_no_second_summary_and_no_tool_starts() -> None:
    run = observed(LOOK, make_tool("alone", parallel=False))
    run.take_news()
    answer(run, call_chunk(("c1", "look", "{}"), ("c2", "alone", "{}")))
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert [call.id for call in command.calls] == ["c1"]
    run.abandon(aborted=True)
    result = run.result()
    assert told(run) == [
        ("delta", 0, "c1", "look", "{}"),
        ("delta", 1, "c2", "alone", "{}"),
        ("finish", "tool_calls"),
        ("summary", "", 2, "tool_calls"),
        ("assistant",),
        ("tool",),
        ("tool",),
        ("finish", "aborted", "artificial"),
    ]
    assert contents(result.summaries) == [("", 2, "tool_calls")]
    assert isinstance(run.next_command(), Finish)


def test_an_error_during_a_tool_has_no_further_finish() -> None:
    run = observed(LOOK)
    answer(run, ONE_CALL)
    run.take_news()
    run.abandon()
    assert told(run) == [("tool",)]


def test_an_abort_after_the_last_response_adds_nothing() -> None:
    run = observed()
    say(run)
    run.take_news()
    run.abandon(aborted=True)
    assert len(run.result().summaries) == 1
    assert told(run) == []


def test_where_nobody_observes_an_abort_leaves_its_summary_all_the_same() -> None:
    run = make_run()
    opened(run, chunk("Hal"))
    run.abandon(aborted=True)
    assert contents(run.result().summaries) == [("Hal", 0, "aborted")]


# -- the order, whatever comes

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
Delta = tuple[str, int, str]
deltas: st.SearchStrategy[list[Delta]] = st.lists(
    st.tuples(st.sampled_from(["text", "reasoning"]), st.just(0), words)
    | st.tuples(st.just("call"), st.integers(0, 2), st.just('{"n": 1}') | words),
    max_size=8,
)
responses = st.lists(st.tuples(deltas, st.sampled_from(["before", "with", "after", "never"])), min_size=1, max_size=3)


def openai_payloads(given: list[Delta], usage: str) -> list[Any]:
    """Deltas in OpenAI's words."""
    payloads: list[Any] = [chunk(usage=LESS)] if usage == "before" else []
    seen: set[int] = set()
    for kind, index, text in given:
        if kind == "text":
            payloads.append(chunk(text))
        elif kind == "reasoning":
            payloads.append(chunk(reasoning_content=text))
        else:
            entry: dict[str, Any] = {"index": index, "function": {"arguments": text}}
            if index not in seen:
                entry = {"index": index, "id": f"c{index}", "function": {"name": "look", "arguments": text}}
            seen.add(index)
            payloads.append(chunk(tool_calls=[entry]))
    payloads.append(chunk(finish="tool_calls" if seen else "stop", usage=COUNTS if usage == "with" else None))
    if usage == "after":
        payloads.append({"choices": [], "usage": COUNTS})
    return [*payloads, "[DONE]"]


def anthropic_payloads(given: list[Delta], usage: str) -> list[Any]:
    """Deltas in Anthropic's words: several blocks open at once, as an interleaving gateway has them."""
    payloads: list[Any] = [claude.start(**({"input_tokens": 3} if usage in ("before", "with") else {}))]
    blocks: dict[tuple[str, int], int] = {}
    for kind, index, text in given:
        key = (kind, index if kind == "call" else 0)
        if key not in blocks:
            blocks[key] = len(blocks)
            block: dict[str, dict[str, Any]] = {
                "text": {"type": "text", "text": ""},
                "reasoning": {"type": "thinking", "thinking": ""},
                "call": {"type": "tool_use", "id": f"c{index}", "name": "look", "input": {}},
            }
            payloads.append(claude.begin(blocks[key], **block[kind]))
        member = {"text": "text", "reasoning": "thinking", "call": "partial_json"}[kind]
        type = {"text": "text_delta", "reasoning": "thinking_delta", "call": "input_json_delta"}[kind]
        payloads.append(claude.delta(blocks[key], type, **{member: text}))
    payloads += [claude.end(index) for index in blocks.values()]
    reason = "tool_use" if any(kind == "call" for kind, _ in blocks) else "end_turn"
    return [*payloads, *claude.finish(reason, **({"output_tokens": 2} if usage in ("with", "after") else {}))]


STYLES: dict[str, tuple[Callable[..., AgentRun], Callable[[list[Delta], str], list[Any]]]] = {
    "openai": (observed, openai_payloads),
    "anthropic": (observed_claude, anthropic_payloads),
}
RANK = {"content": 0, "reasoning": 0, "delta": 0, "usage": 1, "finish": 2, "summary": 3, "assistant": 4, "tool": 5}


@pytest.mark.parametrize("style", STYLES)
@settings(deadline=None)
@given(data=st.data(), script=responses)
def test_each_response_is_told_as_deltas_usage_finish_summary_message_and_only_then_its_tools(
    style: str, data: st.DataObject, script: list[tuple[list[Delta], str]]
) -> None:
    make, payloads = STYLES[style]
    run = make(LOOK)
    assert told(run) == [("user",)]
    log: list[tuple[Any, ...]] = []  # news, and ("runs",) where a tool starts
    news: list[News] = []

    def listen() -> None:
        taken = run.take_news()
        news.extend(taken)
        log.extend(short(taken))

    asked = 0
    for response, usage in script:
        if not isinstance(run.next_command(), SendRequest):
            break
        asked += 1
        start = len(log)
        body = sse(*payloads(response, usage))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
        run.response_opened(200, {}, 0.0)
        events: list[StreamEvent] = []
        for begin, end in itertools.pairwise([0, *cuts, len(body)]):
            if begin < end and reading(run).wants_bytes:
                events += run.receive(body[begin:end])
                listen()
        events += run.response_ended()
        listen()
        calls = [event.id for event in events if isinstance(event, ToolCallEvent)]
        while isinstance(command := run.next_command(), RunTools):
            order = data.draw(st.permutations(command.calls))
            log.append(("runs",))
            for call in order:
                run.tool_finished(ToolOutcome(call.slot, ToolResult("ok")))
                listen()
        told_now = [item for item in log[start:] if item != ("runs",)]
        ranks = [RANK[item[0]] for item in told_now]
        assert ranks == sorted(ranks)
        assert ranks.count(1) == (usage != "never")
        assert (ranks.count(2), ranks.count(3)) == (1, 1)
        assert ranks.count(4) == bool(response)
        assert ranks.count(5) == len(calls)
        if ("runs",) in log[start:]:
            assert log[log.index(("runs",), start) - 1][0] in ("assistant", "tool")
        assert [item[1:] for item in told_now if item[0] == "content"] == [
            (event.delta,) for event in events if isinstance(event, TextEvent)
        ]
        assert "".join(item[4] for item in told_now if item[0] == "delta" and item[1] == 0) == _first_call(response)
    chunks = [item for item in news if not isinstance(item, (Message, StreamSummary))]
    assert [item.seq for item in chunks] == list(range(len(chunks)))
    assert {item.round for item in chunks} == set(range(1, asked + 1))
    summaries = [item for item in news if isinstance(item, StreamSummary)]
    assert summaries == run.result().summaries
    messages = [item for item in news if isinstance(item, Message)]
    assert [message.role for message in messages] == [message.role for message in run.messages[1:]]


def _first_call(given: list[Delta]) -> str:
    """All argument text of the call that began first."""
    indexes = [index for kind, index, _ in given if kind == "call"]
    return "".join(text for kind, index, text in given if kind == "call" and index == indexes[0])


@pytest.mark.parametrize("style", STYLES)
@settings(deadline=None)
@given(data=st.data(), given_deltas=deltas, aborted=st.booleans())
def test_wherever_a_response_is_cut_it_has_one_finish_and_one_summary_of_what_was_said(
    style: str, data: st.DataObject, given_deltas: list[Delta], aborted: bool
) -> None:
    make, payloads = STYLES[style]
    run = make(LOOK)
    body = sse(*payloads(given_deltas, "with"))
    run.response_opened(200, {}, 0.0)
    events = list(run.receive(body[: data.draw(st.integers(0, len(body)))]))
    run.abandon(aborted=aborted)
    result = run.result()
    kinds = [item[0] for item in told(run)]
    said = "".join(event.delta for event in events if isinstance(event, TextEvent))
    assert kinds.count("finish") == kinds.count("summary") == len(result.summaries)
    assert len(result.summaries) == 1 or (not aborted and not events)
    assert all(summary.content == said == result.text for summary in result.summaries)
    assert kinds[-2:] == ["finish", "summary"] or not result.summaries
    assert [message.role for message in result.messages] == ["user"]


def test_a_protocol_error_has_the_summary_of_what_came_before_it() -> None:
    run = observed()
    run.take_news()
    opened(run, chunk("Hal"))
    with pytest.raises(ProtocolError):
        run.receive(b"data: {nonsense\n\n")
    run.abandon()
    assert contents(run.result().summaries) == [("Hal", 0, None)]


def test_a_stream_that_ends_too_early_has_the_summary_of_what_came_before() -> None:
    run = observed()
    run.take_news()
    opened(run, chunk("Hal"))
    with pytest.raises(StreamInterruptedError):
        run.response_ended(4.0)
    run.abandon()
    assert contents(run.result().summaries) == [("Hal", 0, None)]
