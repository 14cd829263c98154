from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.claude import Payload, begin, call, delta, end, finish, start, text, thought
from tests.core.scripted import feed, make_run, make_tool, reading, settle, sse
from tests.validators import anthropic
from toolnexus._core.commands import Finish, ModelOptions, RunTools, SendRequest
from toolnexus._core.run import AgentRun
from toolnexus._core.wire.anthropic import DEFAULT_MAX_TOKENS, AnthropicWire
from toolnexus.errors import APIStatusError, InternalServerError, OverloadedError, ProtocolError, StreamInterruptedError
from toolnexus.events import ReasoningEvent, StreamEvent, TextEvent, ToolCallEvent, UsageEvent
from toolnexus.messages import ImagePart, Message, OpaquePart, ReasoningPart, TextPart, ToolCallPart
from toolnexus.results import Usage
from toolnexus.suspension import CallJournal
from toolnexus.tool import Tool, ToolResult

ORIGIN = "anthropic:api.example"


def claude(*tools: Tool, **setup: Any) -> AgentRun:
    return make_run(*tools, **{"wire": AnthropicWire(), "origin": ORIGIN, **setup})


def answer(run: AgentRun, *payloads: Payload | list[Payload]) -> list[StreamEvent]:
    """A streamed answer; lists of payloads are flattened, and nothing is added."""
    assert isinstance(run.next_command(), SendRequest)
    flat = [p for given in payloads for p in (given if isinstance(given, list) else [given])]
    return feed(run, sse(*flat))


def body(run: AgentRun) -> Payload:
    """The next request, which the API takes."""
    command = run.next_command()
    assert isinstance(command, SendRequest)
    found = run.body(command.request)
    anthropic.check(json.loads(json.dumps(found)))
    return found


def text_of(events: Sequence[StreamEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextEvent))


def thinking_of(events: Sequence[StreamEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ReasoningEvent))


def calls_of(events: Sequence[StreamEvent]) -> list[tuple[str, Any]]:
    return [(event.id, event.args) for event in events if isinstance(event, ToolCallEvent)]


def with_options(*tools: Tool, **options: Any) -> Payload:
    params = options.pop("params", {})
    return body(claude(*tools, options=ModelOptions(**options), params=params))


# -- the request


def test_a_plain_request_holds_nothing_that_was_not_set_but_a_number_of_tokens() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}]
    plain = {"model": "m-1", "max_tokens": 8192, "messages": messages}
    assert body(claude()) == {**plain, "stream": True}
    assert body(claude(stream=False)) == plain
    assert DEFAULT_MAX_TOKENS == 8192


def test_the_number_of_tokens_can_be_set() -> None:
    assert with_options(max_tokens=7)["max_tokens"] == 7
    assert with_options(max_tokens=7, params={"max_tokens": 9})["max_tokens"] == 9


def test_the_system_prompt_and_system_messages_are_joined_apart_from_the_messages() -> None:
    history = [Message("system", "Be kind."), Message("system", " "), Message("user", "Hi")]
    sent = body(claude(system="Be brief.", history=history))
    assert sent["system"] == "Be brief.\n\nBe kind."
    assert {message["role"] for message in sent["messages"]} == {"user"}
    assert body(claude(history=history))["system"] == "Be kind."


@pytest.mark.parametrize("system", [None, "", " \n"])
def test_a_system_prompt_that_says_nothing_is_not_sent(system: str | None) -> None:
    assert "system" not in body(claude(system=system))


def test_tools_are_described_with_their_schema() -> None:
    assert body(claude(make_tool("look")))["tools"] == [
        {"name": "look", "description": "Tool look.", "input_schema": {"type": "object"}}
    ]


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        ("auto", None, {"type": "auto"}),
        ("none", None, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ("look", None, {"type": "tool", "name": "look"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (None, True, {"type": "auto", "disable_parallel_tool_use": False}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("look", True, {"type": "tool", "name": "look", "disable_parallel_tool_use": False}),
        ("none", False, {"type": "none"}),
    ],
)
def test_the_choice_of_a_tool_is_said_in_the_apis_words(
    choice: str | None, parallel: bool | None, sent: Payload | None
) -> None:
    assert with_options(make_tool(), tool_choice=choice, parallel_tool_calls=parallel).get("tool_choice") == sent
    assert "tool_choice" not in with_options(tool_choice=choice, parallel_tool_calls=parallel)


def test_a_forced_choice_is_for_the_first_response_alone() -> None:
    options = ModelOptions(
        tool_choice="required", parallel_tool_calls=False, temperature=0, stop=("END",), max_tokens=9
    )
    run = claude(make_tool(), options=options)
    assert body(run)["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    answer(run, start(), call(0, "c1"), finish("tool_use"))
    settle(run, "rain")
    second = body(run)
    assert second["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert (second["temperature"], second["stop_sequences"], second["max_tokens"]) == (0, ["END"], 9)


def test_a_forced_choice_alone_leaves_nothing_for_the_second_response() -> None:
    run = claude(make_tool(), options=ModelOptions(tool_choice="look"))
    answer(run, start(), call(0, "c1"), finish("tool_use"))
    settle(run, "rain")
    assert "tool_choice" not in body(run)


def test_temperature_and_stop_are_sent_only_if_they_are_set() -> None:
    sent = with_options(temperature=0, stop=("END", "STOP"))
    assert (sent["temperature"], sent["stop_sequences"]) == (0, ["END", "STOP"])
    assert not {"temperature", "stop_sequences", "top_p", "top_k", "stop"} & with_options().keys()


def test_members_of_the_users_win_and_none_removes_one() -> None:
    params = {"temperature": 1, "stop_sequences": None, "system": [{"type": "text", "text": "x"}], "top_k": 5}
    sent = body(claude(system="y", options=ModelOptions(temperature=0, stop=("END",)), params=params))
    assert (sent["temperature"], sent["system"], sent["top_k"]) == (1, params["system"], 5)
    assert "stop_sequences" not in sent
    assert params["stop_sequences"] is None


# -- rounds of tools


def test_the_results_of_a_turn_go_back_together_in_the_order_of_the_calls() -> None:
    run = claude(make_tool(parallel=False))
    calls = [*call(0, "c1", '{"a": 1}'), *call(1, "c2"), *call(2, "c3")]
    assert calls_of(answer(run, start(), calls, finish("tool_use"))) == [("c1", {"a": 1}), ("c2", {}), ("c3", {})]
    settle(run, "one")
    settle(run, ToolResult("two", is_error=True))
    settle(run, "")
    assert body(run)["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "look", "input": {}},
                {"type": "tool_use", "id": "c3", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": True, "content": "two"},
                {"type": "tool_result", "tool_use_id": "c3"},
            ],
        },
    ]


def test_results_come_first_in_the_users_next_message() -> None:
    run = claude(make_tool(), max_turns=1)
    answer(run, start(), call(0, "c1"), finish("tool_use"))
    settle(run, "rain")
    sent = body(claude(history=run.messages, prompt="And now?"))["messages"][-1]["content"]
    assert [block["type"] for block in sent] == ["tool_result", "text"]


def test_images_in_a_result_are_sent_as_images() -> None:
    run = claude(make_tool())
    answer(run, start(), call(0, "c1"), finish("tool_use"))
    picture = ImagePart(data=b"\x89PNG", media_type="image/png")
    settle(run, ToolResult((TextPart("See: "), picture)))
    (result,) = body(run)["messages"][-1]["content"]
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}
    assert result["content"] == [{"type": "text", "text": "See: "}, {"type": "image", "source": source}]
    other = make_run(history=run.messages)
    command = other.next_command()
    assert isinstance(command, SendRequest)
    assert other.body(command.request)["messages"][2]["content"] == (
        "See: [image: image/png; this API takes no images in tool results]"
    )


def test_arguments_that_cannot_be_read_are_an_error_for_the_model_which_gets_an_object_back() -> None:
    run = claude(make_tool())
    answer(run, start(), call(0, "c1", '{"a": ', "oops}"), finish("tool_use"))
    sent = body(run)["messages"]
    assert sent[1]["content"][0]["input"] == {}
    assert sent[2]["content"][0]["is_error"] is True
    (part,) = run.messages[1].tool_calls
    assert part.raw == '{"a": oops}'


def test_a_response_cut_in_the_middle_of_a_call_runs_nothing_and_is_incomplete() -> None:
    run = claude(make_tool())
    answer(
        run,
        start(),
        text(0, "I look."),
        call(1, "c1", "{}"),
        begin(2, "tool_use", id="c2", name="look", input={}),
        delta(2, "input_json_delta", partial_json='{"where": "Ch'),
        finish("max_tokens"),
    )
    command = run.next_command()
    assert isinstance(command, Finish)
    result = command.event.result
    assert (result.status, result.limit, result.finish_reason) == ("incomplete", "max_tokens", "length")
    assert [record.is_error for record in result.tool_calls] == [True, True]
    body(claude(history=run.messages))


@pytest.mark.parametrize(
    ("reason", "read", "status"),
    [
        ("end_turn", "stop", "done"),
        ("stop_sequence", "stop", "done"),
        ("tool_use", "tool_calls", "done"),
        ("max_tokens", "length", "incomplete"),
        ("model_context_window_exceeded", "length", "incomplete"),
        ("refusal", "refusal", "done"),
        ("something_new", "something_new", "done"),
        (None, None, "done"),
    ],
)
def test_stop_reasons_have_the_neutral_names_and_unknown_ones_their_own(
    reason: str | None, read: str | None, status: str
) -> None:
    run = claude()
    answer(run, start(), text(0, "Hi"), finish(reason))
    result = run.result()
    assert (result.finish_reason, result.status, result.text) == (read, status, "Hi")


def test_no_call_of_a_refused_response_runs() -> None:
    run = claude(make_tool())
    answer(run, start(), call(0, "c1"), finish("refusal"))
    assert isinstance(run.next_command(), Finish)


def test_a_pause_goes_on_from_the_same_place() -> None:
    run = claude(make_tool())
    search = [
        begin(0, "server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":'),
        delta(0, "input_json_delta", partial_json='"fog"}'),
        end(0),
    ]
    answer(run, start(), search, finish("pause_turn"))
    assert body(run)["messages"][1:] == [
        {
            "role": "assistant",
            "content": [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "fog"}}],
        }
    ]
    found = begin(0, "web_search_tool_result", tool_use_id="s1", content=[])
    answer(run, start(), found, end(0), text(1, "Fog."), finish())
    result = run.result()
    assert (result.text, result.turns, result.status) == ("Fog.", 2, "done")
    (_, answers) = body(claude(history=run.messages))["messages"][:2]
    assert [block["type"] for block in answers["content"]] == ["server_tool_use", "web_search_tool_result", "text"]


def test_pauses_count_as_turns() -> None:
    run = claude(max_turns=2)
    for _ in range(2):
        answer(run, start(), text(0, "Hm."), finish("pause_turn"))
    result = run.result()
    assert (result.status, result.limit, result.turns) == ("incomplete", "max_turns", 2)


def test_calls_run_by_their_presence_whatever_the_stop_reason() -> None:
    run = claude(make_tool())
    answer(run, start(), call(0, "c1"), finish("end_turn"))
    assert isinstance(run.next_command(), RunTools)


# -- what goes back to whom it came from, and only there


def after(*payloads: Payload | list[Payload]) -> AgentRun:
    """A run that has just had these blocks, a call, and its result."""
    run = claude(make_tool())
    answer(run, start(), *payloads, call(9, "c1"), finish("tool_use"))
    settle(run, "rain")
    return run


def sent_back(run: AgentRun, origin: str = ORIGIN) -> list[Payload]:
    history = run.messages
    blocks: list[Payload] = body(claude(history=history, origin=origin))["messages"][1]["content"]
    return blocks[:-1]


SIGNATURE = "EqoBCkgIARABGAIiQL8/+tü\u2028=="
CITATION = {"type": "char_location", "cited_text": "fog", "document_index": 0, "start_char_index": 0}


@pytest.mark.parametrize(
    ("payloads", "blocks"),
    [
        (thought(0, "Hm.", SIGNATURE), [{"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE}]),
        (thought(0, "", SIGNATURE), [{"type": "thinking", "thinking": "", "signature": SIGNATURE}]),
        (
            [begin(0, "thinking", thinking="H", signature="a"), *thought(0, "m.", "b")[1:]],
            [{"type": "thinking", "thinking": "Hm.", "signature": "ab"}],
        ),
        ([begin(0, "redacted_thinking", data="x="), end(0)], [{"type": "redacted_thinking", "data": "x="}]),
        (
            [begin(0, "server_tool_use", id="s1", name="search", input={"q": 1}), end(0)],
            [{"type": "server_tool_use", "id": "s1", "name": "search", "input": {"q": 1}}],
        ),
        (
            [begin(0, "web_search_tool_result", tool_use_id="s1", content=[{"encrypted_content": "x"}]), end(0)],
            [{"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "x"}]}],
        ),
        (
            [begin(0, "handover", to={"model": "b"}, steps=[1], text="a"), end(0)],
            [{"type": "handover", "to": {"model": "b"}, "steps": [1], "text": "a"}],
        ),
        (
            [
                begin(0, "handover", steps=[1], note="a", n=1),
                delta(0, "handover_delta", steps=[2], note="b", n=2, more={"x": 1}, gone=None),
                delta(0, "text_delta", note="c"),
                end(0),
            ],
            [{"type": "handover", "steps": [1, 2], "note": "abc", "n": 2, "more": {"x": 1}}],
        ),
        (
            [
                begin(0, "text", text="", citations=None),
                delta(0, "text_delta", text="Fog."),
                delta(0, "citations_delta", citation=CITATION),
                delta(0, "citations_delta", citation=CITATION),
                end(0),
            ],
            [{"type": "text", "text": "Fog.", "citations": [CITATION, CITATION]}],
        ),
    ],
)
def test_a_block_goes_back_word_for_word_and_to_nobody_else(payloads: list[Payload], blocks: list[Payload]) -> None:
    run = after(*payloads)
    assert sent_back(run) == blocks
    elsewhere = [{"type": "text", "text": "Fog."}] if blocks[0]["type"] == "text" else []
    assert sent_back(run, "anthropic:gateway.example") == elsewhere
    message = make_run(history=run.messages)
    command = message.next_command()
    assert isinstance(command, SendRequest)
    assistant = message.body(command.request)["messages"][1]
    assert set(assistant) == {"role", "content", "tool_calls"}
    assert assistant["content"] == ("Fog." if elsewhere else None)


def test_the_extras_of_a_call_go_back_only_to_whom_they_came_from() -> None:
    run = claude(make_tool())
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}
    answer(run, start(), call(0, "c1", caller=caller), finish("tool_use"))
    settle(run, "rain")
    assert body(run)["messages"][1]["content"][0]["caller"] == caller
    other = body(claude(history=run.messages, origin="anthropic:gateway.example"))
    assert other["messages"][1]["content"] == [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]


def test_blocks_keep_their_order() -> None:
    run = claude(make_tool())
    blocks = [*thought(0, "a", "s"), *call(1, "c1"), *thought(2, "b", "t"), *text(3, "x"), *call(4, "c2")]
    answer(run, start(), blocks, finish("tool_use"))
    settle(run, "one", "two")
    kinds = [block["type"] for block in body(run)["messages"][1]["content"]]
    assert kinds == ["thinking", "tool_use", "thinking", "text", "tool_use"]


def test_thinking_is_shown_and_is_no_part_of_the_answer() -> None:
    run = claude()
    events = answer(run, start(), thought(0, "Hm.", "s"), text(1, "Yes."), finish())
    assert (thinking_of(events), text_of(events), run.result().text) == ("Hm.", "Yes.", "Yes.")
    assert run.messages[1].parts == (ReasoningPart("Hm.", ORIGIN, {"signature": "s"}), TextPart("Yes."))


@pytest.mark.parametrize("members", [{}, {"signature": ""}, {"signature": None}])
def test_thinking_without_a_signature_has_an_empty_one(members: dict[str, Any]) -> None:
    run = after(begin(0, "thinking", thinking="", **members), delta(0, "thinking_delta", thinking="Hm."), end(0))
    assert sent_back(run) == [{"type": "thinking", "thinking": "Hm.", "signature": ""}]


@pytest.mark.parametrize("members", [{}, {"signature": ""}, {"signature": None}, {"extra": []}])
def test_a_block_of_thinking_in_which_nothing_is_leaves_no_trace(members: dict[str, Any]) -> None:
    run = claude()
    answer(run, start(), begin(0, "thinking", thinking="", **members), finish())
    assert run.messages == [Message("user", "Hello?")]


def test_an_empty_answer_leaves_no_message() -> None:
    run = claude()
    answer(run, start(), text(0, ""), finish())
    assert run.messages == [Message("user", "Hello?")]


def test_inline_thinking_is_split_off_only_where_asked_and_never_goes_back_as_signed() -> None:
    pieces = ["<thi", "nk>H", "m.</think>\n", "Yes", "."]
    plain, split = claude(), claude(split_think_tags=True)
    assert text_of(answer(plain, start(), text(0, *pieces), finish())) == "<think>Hm.</think>\nYes."
    events = answer(split, start(), text(0, *pieces), finish())
    assert (thinking_of(events), text_of(events)) == ("Hm.", "Yes.")
    assert {type(part) for part in split.messages[1].parts} == {ReasoningPart, TextPart}
    sent = body(claude(history=split.messages))["messages"][1]["content"]
    assert sent == [{"type": "text", "text": "Yes."}]


# -- usage


def counted(*payloads: Payload | list[Payload]) -> Usage:
    run = claude()
    answer(run, *payloads)
    return run.result().usage


def test_counts_of_the_end_replace_those_of_the_start() -> None:
    usage = counted(start(input_tokens=10, output_tokens=1), text(0, "Hi"), finish(output_tokens=7))
    assert usage == Usage(10, 7, 17, raw=({"input_tokens": 10, "output_tokens": 7},))
    usage = counted(start(input_tokens=10, output_tokens=1), text(0, "Hi"), finish(input_tokens=12, output_tokens=7))
    assert (usage.prompt_tokens, usage.total_tokens) == (12, 19)


def test_cache_tokens_are_part_of_the_prompt() -> None:
    read = start(input_tokens=10, cache_read_input_tokens=300, cache_creation_input_tokens=4, output_tokens=1)
    assert counted(read, finish(output_tokens=7)) == Usage(
        prompt_tokens=314,
        completion_tokens=7,
        total_tokens=321,
        cached_tokens=300,
        cache_write_tokens=4,
        raw=(
            {
                "input_tokens": 10,
                "cache_read_input_tokens": 300,
                "cache_creation_input_tokens": 4,
                "output_tokens": 7,
            },
        ),
    )


def test_null_and_absent_counts_leave_what_is_known() -> None:
    usage = counted(
        start(input_tokens=10, cache_read_input_tokens=3, output_tokens=1),
        finish(input_tokens=None, cache_read_input_tokens=None, output_tokens=7),
    )
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (13, 7, 3)
    usage = counted(
        start(input_tokens=10, cache_read_input_tokens=3, output_tokens=1),
        finish(input_tokens=12, cache_read_input_tokens=None, output_tokens=7),
    )
    assert (usage.prompt_tokens, usage.cached_tokens, usage.raw[0]["cache_read_input_tokens"]) == (15, 3, 3)


def test_a_repeated_start_does_not_count_twice() -> None:
    usage = counted(*[start(input_tokens=40, output_tokens=1)] * 3, text(0, "Hi"), finish(output_tokens=4))
    assert (usage.prompt_tokens, usage.completion_tokens) == (40, 4)


def test_tokens_of_thinking_are_known_where_they_are_reported() -> None:
    usage = counted(start(input_tokens=1), finish(output_tokens=7, output_tokens_details={"thinking_tokens": 5}))
    assert usage.reasoning_tokens == 5


@pytest.mark.parametrize("usage", [{}, {"input_tokens": None}, {"cache_read_input_tokens": 3}, {"service_tier": "x"}])
def test_a_report_without_counts_is_no_report(usage: dict[str, Any]) -> None:
    assert counted(start(**usage), finish()) == Usage()


@pytest.mark.parametrize("bad", [True, -1, 1.5, "7", [7], {}])
def test_counts_that_are_no_counts_are_unknown(bad: Any) -> None:
    usage = counted(start(input_tokens=bad, output_tokens=1), finish(output_tokens=7))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (None, 7, None)


def test_the_responses_of_a_run_add_up() -> None:
    run = claude(make_tool())
    answer(run, start(input_tokens=10), call(0, "c1"), finish("tool_use", output_tokens=2))
    settle(run, "rain")
    events = answer(run, start(input_tokens=20), text(0, "Hi"), finish(output_tokens=3))
    (event,) = (event for event in events if isinstance(event, UsageEvent))
    assert (event.usage.prompt_tokens, event.usage.completion_tokens, len(event.usage.raw)) == (30, 5, 2)


# -- servers that imitate the format


def test_missing_stops_and_gaps_in_the_indices_do_no_harm() -> None:
    run = claude(make_tool())
    events = answer(
        run,
        start(),
        begin(0, "thinking", thinking=""),
        delta(0, "thinking_delta", thinking="Hm."),
        begin(3, "text", text=""),
        delta(3, "text_delta", text="I look."),
        begin(7, "tool_use", id="c1", name="look"),
        delta(7, "input_json_delta", partial_json='{"a": 1}'),
        finish("tool_use"),
    )
    assert (thinking_of(events), text_of(events), calls_of(events)) == ("Hm.", "I look.", [("c1", {"a": 1})])


def test_blocks_that_all_have_the_same_index_or_none_are_told_apart_by_their_starts() -> None:
    for index in (0, None, "0"):
        run = claude(make_tool())
        blocks = [
            begin(index, "server_tool_use", id="s1", name="search", input={}),
            delta(index, "input_json_delta", partial_json='{"q": 1}'),
            begin(index, "tool_use", id="c1", name="look", input={}),
            delta(index, "input_json_delta", partial_json='{"a": 1}'),
            begin(index, "tool_use", id="c2", name="look", input={}),
            delta(index, "input_json_delta", partial_json='{"a": 2}'),
        ]
        assert calls_of(answer(run, start(), blocks, finish("tool_use"))) == [("c1", {"a": 1}), ("c2", {"a": 2})]
        (search, *_) = run.messages[1].parts
        assert isinstance(search, OpaquePart)
        assert search.data["input"] == {"q": 1}


def test_text_that_was_never_begun_is_not_lost() -> None:
    events = answer(claude(), start(), delta(1, "text_delta", text="Hel"), delta(1, "text_delta", text="lo"), finish())
    assert text_of(events) == "Hello"


def test_text_behind_its_stop_is_not_lost() -> None:
    events = answer(claude(), start(), text(0, "Hel"), delta(0, "text_delta", text="lo"), finish())
    assert text_of(events) == "Hello"


@pytest.mark.parametrize("given", [{"a": 1, "b": [None]}, {"a": "\u2028ü"}])
def test_input_that_comes_whole_with_the_start_is_the_input(given: dict[str, Any]) -> None:
    run = claude(make_tool())
    assert calls_of(
        answer(run, start(), begin(0, "tool_use", id="c1", name="look", input=given), end(0), finish("tool_use"))
    ) == [("c1", given)]
    assert isinstance(run.next_command(), RunTools)


@pytest.mark.parametrize("given", [[1], "x", 7, '{"a": 1}'])
def test_input_that_is_no_object_runs_nothing(given: Any) -> None:
    run = claude(make_tool())
    answer(run, start(), begin(0, "tool_use", id="c1", name="look", input=given), end(0), finish("tool_use"))
    assert run.messages[1].tool_calls[0].error
    assert isinstance(run.next_command(), SendRequest)


def test_input_that_comes_twice_and_differs_runs_nothing() -> None:
    run = claude(make_tool())
    twice = [begin(0, "tool_use", id="c1", name="look", input={"a": 1}), *call(0, "c1", '{"a": 2}')[1:]]
    answer(run, start(), twice, finish("tool_use"))
    assert run.messages[1].tool_calls[0].error
    assert isinstance(run.next_command(), SendRequest)


def test_missing_ids_are_made_up_and_repeated_ones_told_apart() -> None:
    run = claude(make_tool())
    answer(run, start(), call(0, ""), call(1, "c1"), call(2, "c1"), finish("tool_use"))
    settle(run, "one", "two", "three")
    body(run)
    assert len({part.id for part in run.messages[1].tool_calls}) == 3


def test_a_call_without_a_name_runs_nothing() -> None:
    run = claude(make_tool())
    answer(run, start(), call(0, "c1", name=""), finish("tool_use"))
    assert body(run)["messages"][1]["content"][0]["name"] == "unknown"


def test_content_that_comes_whole_with_the_start_of_the_message_is_the_answer() -> None:
    """As Anthropic sends a call that its sandbox makes ("Programmatic tool calling")."""
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}, "caller": caller}
    whole = start(input_tokens=0, output_tokens=0)
    whole["message"].update(content=[block], stop_reason="tool_use")
    run = claude(make_tool())
    assert calls_of(answer(run, whole, {"type": "message_stop"})) == [("c1", {"a": 1})]
    settle(run, "rain")
    assert run.result().finish_reason == "tool_calls"
    assert body(run)["messages"][1]["content"] == [block]
    # Where it comes once more, whole or in pieces, it is one call still.
    for again in (whole, begin(0, "tool_use", id="c1", name="look", input={"a": 1})):
        run = claude(make_tool())
        assert calls_of(answer(run, whole, again, {"type": "message_stop"})) == [("c1", {"a": 1})]
    whole["message"].update(content=[{"type": "text", "text": "Hi"}], stop_reason="end_turn")
    assert text_of(answer(claude(), whole, whole, {"type": "message_stop"})) == "Hi"


def test_a_start_in_the_middle_of_the_text_does_not_interrupt_it() -> None:
    hello = [begin(0, "text", text=""), delta(0, "text_delta", text="Hel"), start(), delta(0, "text_delta", text="lo")]
    run = claude()
    assert text_of(answer(run, start(), start(), hello, end(0), start(), finish())) == "Hello"
    assert run.messages[1].parts == (TextPart("Hello"),)


def test_a_start_between_blocks_does_not_lose_those_before() -> None:
    run = claude(make_tool())
    events = answer(run, start(), call(0, "c1"), start(), call(1, "c2"), start(), text(2, "x"), finish("tool_use"))
    assert [id for id, _ in calls_of(events)] == ["c1", "c2"]


def test_what_was_unfinished_when_the_message_began_anew_is_dropped() -> None:
    run = claude(make_tool())
    half = [begin(0, "tool_use", id="c1", name="look", input={}), delta(0, "input_json_delta", partial_json='{"a')]
    events = answer(run, start(), half, start(), call(0, "c2", '{"a": 2}'), finish("tool_use"))
    assert calls_of(events) == [("c2", {"a": 2})]


def test_what_was_finished_is_dropped_too_when_it_comes_again_so_that_no_call_runs_twice() -> None:
    run = claude(make_tool())
    first = [*thought(0, "a", "s1"), *text(1, "I look. "), *call(2, "c1"), begin(3, "tool_use", id="c2", name="look")]
    again = [*thought(0, "b", "s2"), *text(1, "I look."), *call(2, "c3")]
    events = answer(run, start(), first, start(), again, finish("tool_use"))
    assert [id for id, _ in calls_of(events)] == ["c3"]
    assert text_of(events) == "I look. I look."
    settle(run, "rain")
    blocks = body(run)["messages"][1]["content"]
    assert [block.get("signature") for block in blocks if block["type"] == "thinking"] == ["s2"]


@pytest.mark.parametrize(
    ("payload", "event", "cls", "words"),
    [
        ({"code": 500, "message": "no luck", "type": "server_error"}, "error", InternalServerError, "no luck"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "error", OverloadedError, "busy"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, None, OverloadedError, "busy"),
        ({"type": "error", "error": {"type": "internal_error", "message": "x"}}, "error", InternalServerError, "x"),
        ({"error": {"message": "no luck", "code": 503}}, None, InternalServerError, "no luck"),
        ({"error": "no luck"}, None, APIStatusError, "no luck"),
        ({"object": "error", "message": "no luck", "code": 500}, None, InternalServerError, "no luck"),
        ({"message": "no luck"}, "error", APIStatusError, "no luck"),
        ({}, "error", APIStatusError, "without a message"),
    ],
)
def test_every_known_shape_of_an_error_is_one(
    payload: Payload, event: str | None, cls: type[APIStatusError], words: str
) -> None:
    run = claude()
    head = f"event: {event}\n".encode() if event else b""
    run.response_opened(200, {}, 0.0)
    assert run.receive(sse(start(), *text(0, "Hi")) + head + sse(payload)) == [TextEvent("Hi")]
    with pytest.raises(cls, match=words) as caught:
        run.receive(b"")
    assert caught.value.status_code is None
    assert reading(run).shown


def test_the_name_of_the_event_stands_in_for_a_missing_type() -> None:
    run = claude()
    lines = b""
    for payload in [start(input_tokens=3), *text(0, "Hi"), *finish()]:
        name = payload.pop("type")
        lines += f"event: {name}\n".encode() + sse(payload)
    assert text_of(feed(run, lines)) == "Hi"
    assert run.result().usage.prompt_tokens == 3


@pytest.mark.parametrize("line", ["", " ", ": ping", "[DONE]", '{"type": "ping"}', '{"type": "news", "x": [1]}', "{}"])
def test_pings_news_and_the_other_styles_marks_say_nothing(line: str) -> None:
    run = claude()
    events = feed(run, sse(line, start(), line, *text(0, "Hi"), line, *finish(), line))
    assert text_of(events) == "Hi"


def test_a_stream_without_its_end_mark_is_no_answer_and_no_call_of_it_runs() -> None:
    payloads = [start(), *text(0, "I look."), *call(1, "c1"), *finish("tool_use")]
    for length in range(len(payloads)):
        run = claude(make_tool())
        run.response_opened(200, {}, 0.0)
        if length:
            run.receive(sse(*payloads[:length], "[DONE]"))
        with pytest.raises(StreamInterruptedError):
            run.response_ended()
        run.abandon()
        assert not run.result().tool_calls


def test_nothing_counts_behind_the_end_mark() -> None:
    run = claude()
    assert text_of(answer(run, start(), text(0, "Hi"), finish(), text(1, " late"), {"type": "error"})) == "Hi"


def test_a_whole_reply_is_read_like_a_stream() -> None:
    reply = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "text", "text": "I look.", "citations": None},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}, "caller": {"type": "direct"}},
            {"type": "handover", "to": "b"},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5},
    }
    run = claude(make_tool(), stream=False)
    events = feed(run, json.dumps(reply).encode())
    assert (thinking_of(events), text_of(events), calls_of(events)) == ("Hm.", "I look.", [("c1", {"a": 1})])
    assert run.messages[1].parts == (
        ReasoningPart("Hm.", ORIGIN, {"signature": "s"}),
        TextPart("I look."),
        ToolCallPart(
            "c1",
            "look",
            {"a": 1},
            state="started",
            journal=CallJournal("n0/1/0"),
            origin=ORIGIN,
            extra={"caller": {"type": "direct"}},
        ),
        OpaquePart({"type": "handover", "to": "b"}, ORIGIN),
    )
    usage = run.result().usage
    assert (usage.prompt_tokens, usage.completion_tokens, run.result().finish_reason) == (8, 4, "tool_calls")


@pytest.mark.parametrize("reply", [{}, {"content": None}, {"content": "Hi"}, {"choices": []}, {"x" * 1000: 1}])
def test_a_whole_reply_without_content_is_refused(reply: Payload) -> None:
    with pytest.raises(ProtocolError, match="expected a message with content") as caught:
        feed(claude(stream=False), json.dumps(reply).encode())
    assert len(str(caught.value)) < 500


# -- wrong kinds and wrong types


@pytest.mark.parametrize(
    "payloads",
    [
        [delta(0, "input_json_delta", partial_json="{}")],
        [delta(0, "thinking_delta", thinking="Hm.")],
        [delta(0, None)],
        [*text(0, "Hi"), delta(0, "input_json_delta", partial_json="{}")],
        [begin(0, "text", text=""), delta(0, "input_json_delta", partial_json="{}")],
        [begin(0, "text", text=""), delta(0, "thinking_delta", thinking="Hm.")],
        [begin(0, "thinking", thinking=""), delta(0, "text_delta", text="Hi")],
        [begin(0, "thinking", thinking=""), delta(0, "input_json_delta", partial_json="{}")],
        [begin(0, "tool_use", id="c1", name="look"), delta(0, "text_delta", text="Hi")],
        [begin(0, "tool_use", id="c1", name="look"), delta(0, "thinking_delta", thinking="Hm.")],
        [begin(0, None), delta(0, "thinking_delta", thinking="Hm.")],
        [begin(0, "server_tool_use", id="s"), delta(0, "input_json_delta", partial_json="{"), end(0)],
        [
            begin(0, "server_tool_use", id="s"),
            delta(0, "input_json_delta", partial_json="[]"),
            {"type": "message_stop"},
        ],
    ],
)
def test_what_would_lose_a_part_of_the_answer_is_refused(payloads: list[Payload]) -> None:
    with pytest.raises(ProtocolError):
        answer(claude(make_tool()), start(), payloads, finish())


@pytest.mark.parametrize(
    "payloads",
    [
        [{"type": "message_start"}, {"type": "message_start", "message": [7]}],
        [{"type": "message_start", "message": {"usage": 7}}],
        [{"type": "message_delta"}, {"type": "message_delta", "delta": "x", "usage": []}],
        [end(0), end([0]), {"type": "content_block_stop"}],
        [begin(5, "text", text=7), delta(5, "text_delta", text=["x"]), delta(5, "text_delta")],
        [begin(5, "text", text="", citations="x"), delta(5, "citations_delta", citation=None), end(5)],
        [begin(5, "text", text=""), delta(5, "news_delta", text="x"), delta(5, None), end(5)],
        [begin(5, "thinking", thinking=7), delta(5, "thinking_delta", thinking=None), end(5)],
        [begin(5, "thinking", thinking="", signature=7), delta(5, "news_delta"), delta(5, "citations_delta"), end(5)],
        [{"type": "content_block_start", "index": 5, "content_block": None}, end(5)],
        [begin(5, None, text="x"), end(5), begin([5], 7), begin({"a": 1}, None)],
        [{"type": ["content_block_delta"]}, {"type": None}, {"type": 7}],
    ],
)
def test_odd_members_that_say_nothing_are_ignored(payloads: list[Payload]) -> None:
    run = claude(make_tool())
    events = answer(run, start(), payloads, text(6, "Hi"), finish())
    assert (text_of(events), thinking_of(events), calls_of(events)) == ("Hi", "", [])
    body(claude(history=run.messages))


def test_an_index_of_an_odd_type_is_as_good_as_none() -> None:
    run = claude()
    odd = [begin([0], "text", text=""), delta({"a": 1}, "text_delta", text="Hi"), end(1.5)]
    assert text_of(answer(run, start(), odd, finish())) == "Hi"


def test_the_payloads_of_a_reply_do_not_change_when_a_request_is_made_of_them() -> None:
    run = after(begin(0, "handover", to=["b"]), end(0), thought(1, "Hm.", "s"))
    before = copy.deepcopy(run.messages)
    first = body(run)
    first["messages"][1]["content"][0]["changed"] = True
    assert run.messages == before
