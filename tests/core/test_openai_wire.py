from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.core.scripted import ORIGIN, answer, call_chunk, chunk, feed, make_run, make_tool, settle, sse
from toolnexus._core.commands import ModelOptions, RunTools, SendRequest
from toolnexus._core.run import AgentRun
from toolnexus.errors import APIStatusError, BadRequestError, InternalServerError, ProtocolError
from toolnexus.events import ReasoningEvent, StreamEvent, TextEvent, ToolCallEvent
from toolnexus.messages import Message, ReasoningPart, ToolCallPart
from toolnexus.results import Usage


def body(run: AgentRun) -> dict[str, Any]:
    command = run.next_command()
    assert isinstance(command, SendRequest)
    return run.body(command.request)


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextEvent))


def thinking_of(events: list[StreamEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ReasoningEvent))


def calls_of(events: list[StreamEvent]) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, event.args) for event in events if isinstance(event, ToolCallEvent)]


# -- the request


def test_a_plain_request_holds_nothing_that_was_not_set() -> None:
    assert body(make_run()) == {
        "model": "m-1",
        "messages": [{"role": "user", "content": "Hello?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert body(make_run(stream=False)) == {"model": "m-1", "messages": [{"role": "user", "content": "Hello?"}]}


def test_the_system_prompt_comes_first_and_an_empty_one_not_at_all() -> None:
    messages = body(make_run(system="Be brief."))["messages"]
    assert messages[0] == {"role": "system", "content": "Be brief."}
    assert [m["role"] for m in messages] == ["system", "user"]
    assert [m["role"] for m in body(make_run(system=""))["messages"]] == ["user"]


def test_tools_are_described_with_their_schema() -> None:
    assert body(make_run(make_tool("look")))["tools"] == [
        {
            "type": "function",
            "function": {"name": "look", "description": "Tool look.", "parameters": {"type": "object"}},
        }
    ]


def test_members_of_the_users_win_and_none_removes_one() -> None:
    params = {"temperature": 0, "stream_options": None, "stop": ["x"], "seed": None}
    sent = body(make_run(params=params))
    assert sent["temperature"] == 0
    assert sent["stop"] == ["x"]
    assert "stream_options" not in sent
    assert "seed" not in sent
    assert body(make_run(params={"stream_options": {"x": 1}}))["stream_options"] == {"x": 1}
    assert params["stream_options"] is None


def options_of(run: AgentRun, **options: Any) -> dict[str, Any]:
    command = run.next_command()
    assert isinstance(command, SendRequest)
    sent = run.body(replace(command.request, options=ModelOptions(**options)))
    return {name: value for name, value in sent.items() if name not in ("model", "messages", "tools", "stream")}


def test_options_go_out_under_the_names_of_the_style() -> None:
    given = {
        "max_tokens": 9,
        "temperature": 0.0,
        "stop": ("x",),
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    sent = {"max_tokens": 9, "temperature": 0.0, "stop": ["x"], "tool_choice": "required", "parallel_tool_calls": False}
    assert options_of(make_run(make_tool(), stream=False), **given) == sent
    without_tools = {name: sent[name] for name in ("max_tokens", "temperature", "stop")}
    assert options_of(make_run(stream=False), **given) == without_tools
    assert options_of(make_run(make_tool(), stream=False)) == {}
    assert options_of(make_run(stream=False, origin="openai:api.openai.com"), max_tokens=9) == {
        "max_completion_tokens": 9
    }
    assert options_of(make_run(make_tool(), stream=False), tool_choice="look") == {
        "tool_choice": {"type": "function", "function": {"name": "look"}}
    }


def test_a_second_request_has_the_call_and_its_result_in_place() -> None:
    run = make_run(make_tool())
    answer(run, call_chunk(("c1", "look", '{"where": "Ål"}')))
    settle(run, "rain")
    assert body(run)["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"where": "Ål"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]


# -- thinking goes back


def after_thinking(*chunks: dict[str, Any], **setup: Any) -> AgentRun:
    run = make_run(make_tool(), **setup)
    answer(run, *chunks, call_chunk(("c1", "look", "{}")))
    settle(run, "rain")
    return run


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_goes_back_under_its_own_name_beside_calls(field: str) -> None:
    run = after_thinking(chunk(**{field: "Hm"}), chunk(**{field: "."}))
    assert body(run)["messages"][1][field] == "Hm."


def test_thinking_without_calls_does_not_go_back_but_details_do() -> None:
    plain, details = make_run(), make_run()
    answer(plain, chunk(reasoning_content="Hm."), chunk("Yes.", finish="stop"))
    detail = {"type": "reasoning.encrypted", "data": "x", "index": 0}
    answer(details, chunk(reasoning="Hm.", reasoning_details=[detail]), chunk("Yes.", finish="stop"))
    sent = [body(make_run(history=run.messages))["messages"][1] for run in (plain, details)]
    assert sent[0] == {"role": "assistant", "content": "Yes."}
    assert sent[1] == {"role": "assistant", "content": "Yes.", "reasoning_details": [detail]}


def test_thinking_goes_back_only_to_whom_it_came_from() -> None:
    history = after_thinking(chunk(reasoning_content="Hm.")).messages
    assert "reasoning_content" in body(make_run(history=history))["messages"][1]
    assert "reasoning_content" not in body(make_run(history=history, origin="openai:other.example"))["messages"][1]


def test_the_extras_of_a_call_go_back_only_to_whom_they_came_from() -> None:
    signed = call_chunk(("c1", "look", "{}"))
    signed["choices"][0]["delta"]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "s"}}
    run = make_run(make_tool())
    answer(run, signed)
    settle(run, "rain")
    (call,) = body(run)["messages"][1]["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "s"}}
    other = make_run(history=run.messages, origin="openai:other.example")
    assert set(body(other)["messages"][1]["tool_calls"][0]) == {"id", "type", "function"}


def test_the_same_thinking_under_two_names_is_shown_once() -> None:
    run = make_run()
    details = [{"type": "reasoning.text", "text": "Hm.", "index": 0}]
    events = answer(run, chunk(reasoning="Hm.", reasoning_content="Hm.", reasoning_details=details), chunk("Yes."))
    assert thinking_of(events) == "Hm."
    assert text_of(events) == "Yes."


def test_details_alone_are_shown_and_their_pieces_become_one_item_again() -> None:
    run = make_run()
    events = answer(
        run,
        chunk(reasoning_details=[{"type": "reasoning.text", "text": "H", "index": 0}, "nonsense"]),
        chunk(reasoning_details=[{"type": "reasoning.text", "text": "m.", "index": 0, "signature": None}]),
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "signature": "s", "text": None}]),
        chunk(reasoning_details=[{"type": "reasoning.summary", "summary": " So.", "index": 1}]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "y"}]),
        chunk("Yes.", finish="stop"),
    )
    assert thinking_of(events) == "Hm. So."
    (part, _) = run.messages[-1].parts
    assert isinstance(part, ReasoningPart)
    assert part.extra["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Hm.", "index": 0, "signature": "s"},
        {"type": "reasoning.summary", "summary": " So.", "index": 1},
        {"type": "reasoning.encrypted", "data": "x"},
        {"type": "reasoning.encrypted", "data": "y"},
    ]


# -- the answer


def test_of_several_answers_the_first_that_came_is_shown_whatever_its_index() -> None:
    def choice(index: int | None, content: str, finish: str | None = None) -> dict[str, Any]:
        return {"index": index, "delta": {"content": content}, "finish_reason": finish}

    run = make_run()
    events = answer(
        run,
        {"choices": [choice(1, "a"), choice(0, "x")]},
        {"choices": [choice(0, "y", "length")]},
        {"choices": [choice(0, "z"), choice(1, "b")]},
        {"choices": [choice(None, "c", "stop")]},
    )
    assert text_of(events) == "abc"
    assert run.result().finish_reason == "stop"


@pytest.mark.parametrize("where", ["usage", "x_groq"])
def test_usage_is_read_where_servers_put_it(where: str) -> None:
    counts = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    run = make_run()
    answer(run, chunk("Hi", finish="stop"), {"choices": [], where: counts if where == "usage" else {"usage": counts}})
    assert run.result().usage == Usage(10, 3, 13, 4, 2, 1, raw=(counts,))


@pytest.mark.parametrize("bad", [None, True, -1, 1.5, "7", [7], {}])
def test_counts_that_are_no_counts_are_unknown(bad: Any) -> None:
    run = make_run()
    answer(run, chunk("Hi", finish="stop", usage={"prompt_tokens": bad, "completion_tokens": 3, "total_tokens": bad}))
    usage = run.result().usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (None, 3, None)


@pytest.mark.parametrize("usage", [{}, [], "x", 7, {"total_tokens": 0}, {"prompt_tokens": None}])
def test_a_report_without_counts_is_no_report(usage: Any) -> None:
    run = make_run()
    answer(run, chunk("Hi", finish="stop", usage=usage))
    assert run.result().usage == Usage()


def test_cached_tokens_are_read_under_deepseeks_name() -> None:
    run = make_run()
    answer(run, chunk("Hi", finish="stop", usage={"prompt_tokens": 9, "prompt_cache_hit_tokens": 5}))
    assert run.result().usage.cached_tokens == 5


def test_content_in_parts_is_text_and_thinking() -> None:
    run = make_run()
    events = answer(
        run,
        chunk([{"type": "thinking", "thinking": [{"type": "text", "text": "H"}, {"text": None}, 7]}]),  # type: ignore[arg-type]  # a list
        chunk([{"type": "thinking", "thinking": "m."}, {"type": "text", "text": "Yes"}]),  # type: ignore[arg-type]  # a list
        chunk({"type": "text", "text": "."}),  # type: ignore[arg-type]  # a single part
        chunk([{"type": "text", "text": 7}, {"type": "reference", "ids": [1]}, {"type": "thinking"}]),  # type: ignore[arg-type]  # a list
    )
    assert (thinking_of(events), text_of(events)) == ("Hm.", "Yes.")


def test_a_refusal_is_text_and_the_reason_why_the_response_ended() -> None:
    run = make_run(make_tool())
    events = answer(run, chunk(refusal="I will"), chunk(refusal=" not."), chunk(refusal=7), chunk(finish="stop"))
    assert text_of(events) == "I will not."
    result = run.result()
    assert (result.status, result.finish_reason, result.text) == ("done", "refusal", "I will not.")


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("STOP", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("function_call", "tool_calls"),
        ("tool_calls", "tool_calls"),
        ("something_new", "something_new"),
        ("bad\ud800", "bad\ufffd"),
    ],
)
def test_finish_reasons_have_one_name_each_and_unknown_ones_their_own(sent: str, read: str) -> None:
    run = make_run()
    answer(run, chunk("Hi", finish=sent))
    assert run.result().finish_reason == read


def test_a_finish_reason_of_error_is_an_error_with_the_providers_words_if_there_are_any() -> None:
    with pytest.raises(InternalServerError, match="finish_reason 'error'"):
        answer(make_run(), chunk(finish="error"))
    with pytest.raises(BadRequestError, match="No"):
        answer(make_run(), {**chunk(finish="error"), "error": {"message": "No.", "code": 400}})


def test_an_event_named_error_is_an_error_and_its_text_comes_first() -> None:
    run = make_run()
    run.response_opened(200, {}, 0.0)
    assert run.receive(b"event: error\n" + sse({**chunk("Hi"), "message": "No."})) == [TextEvent("Hi")]
    with pytest.raises(APIStatusError, match="No"):
        run.receive(b"")


@pytest.mark.parametrize("line", ["", " ", ": ping", ":", "{}", '{"choices": []}', '{"choices": null}', '{"id": "x"}'])
def test_heartbeats_and_empty_payloads_say_nothing(line: str) -> None:
    assert text_of(answer(make_run(), line, chunk("Hi"), line, chunk(finish="stop"), line)) == "Hi"


@pytest.mark.parametrize("mark", ["[DONE]", " [DONE]", "[DONE] ", "\t[DONE]"])
def test_the_end_mark_is_known_with_blanks_round_it(mark: str) -> None:
    run = make_run()
    assert text_of(feed(run, sse(chunk("Hi"), mark, chunk("late")))) == "Hi"


# -- calls


def pieces(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [chunk(tool_calls=[entry]) for entry in entries]


def piece(arguments: Any = None, **entry: Any) -> dict[str, Any]:
    function = {"name": entry.pop("name")} if "name" in entry else {}
    return {**entry, "function": function if arguments is None else {**function, "arguments": arguments}}


LOOK = ("look", {"a": 1})


@pytest.mark.parametrize(
    "entries",
    [
        [piece("", index=0, id="c1", name="look"), piece('{"a"', index=0), piece(": 1}", index=0)],
        [piece("", id="c1", name="look"), piece('{"a": 1}')],
        [piece('{"a"', id="c1", name="look"), piece(": 1}", id="c1")],
        [piece('{"a"', id="c1", name="look"), piece(": 1}", name="look")],
        [piece({"a": 1}, index=0, id="c1", name="look")],
        [piece('{"a"', index=0, id="c1", name="look"), piece(": 1}", index=0, id="c1", name="look")],
        [piece('{"a"', index=0, id="c1", name="look"), piece(": 1}", index=0, id="other")],
        [piece('{"a"', index="0", id="c1", name="look"), piece(": 1}", index="0", id="c1")],
        [piece(None, index=0, id="c1", name=""), piece('{"a": 1}', index=0, name="look")],
    ],
)
def test_the_pieces_of_one_call_come_together(entries: list[dict[str, Any]]) -> None:
    assert calls_of(answer(make_run(make_tool()), *pieces(*entries))) == [LOOK]


@pytest.mark.parametrize(
    "entries",
    [
        [piece('{"a": 1}', index=0, id="c1", name="look"), piece('{"a": 1}', index=1, id="c2", name="look")],
        [piece('{"a": 1}', index=0, id="c1", name="look"), piece('{"a": 1}', index=0, id="c2", name="look")],
        [piece('{"a": 1}', index=0, name="look"), piece('{"a": 1}', index=0, name="look")],
        [piece('{"a": 1}', id="c1", name="look"), piece('{"a": 1}', id="c2", name="look")],
        [piece('{"a": 1}', name="look"), piece('{"a": 1}', name="look")],
        [
            piece(name="look", index=0),
            piece(name="look", index=1),
            piece('{"a": 1}', index=0),
            piece('{"a": 1}', index=1),
        ],
    ],
)
def test_the_pieces_of_two_calls_do_not_mix(entries: list[dict[str, Any]]) -> None:
    assert calls_of(answer(make_run(make_tool()), *pieces(*entries))) == [LOOK, LOOK]


def test_calls_as_a_single_object_are_a_list_of_one() -> None:
    assert calls_of(answer(make_run(make_tool()), chunk(tool_calls=piece('{"a": 1}', id="c1", name="look")))) == [LOOK]


def test_calls_of_a_whole_reply_are_told_apart_by_their_place() -> None:
    message = {"content": "I look.", "tool_calls": [piece('{"a": 1}', name="look"), piece({"a": 1}, name="look")]}
    run = make_run(make_tool(), stream=False)
    events = feed(run, json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode())
    assert text_of(events) == "I look."
    assert calls_of(events) == [LOOK, LOOK]
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert len({call.id for call in command.calls}) == 2


def test_arguments_that_are_an_object_with_a_number_beyond_json_are_refused() -> None:
    line = json.dumps(chunk(tool_calls=[piece("X", id="c1", name="look")])).replace('"X"', '{"a": 1e999}')
    run = make_run(make_tool())
    (call,) = (event for event in answer(run, line) if isinstance(event, ToolCallEvent))
    assert call.args == {}
    assert call.error


# -- wrong types


@pytest.mark.parametrize(
    "payload",
    [
        {"choices": "x"},
        {"choices": {"index": 0}},
        {"choices": [7]},
        {"choices": [None]},
        {"choices": 7},
        chunk(7),  # type: ignore[arg-type]  # the point of the test
        chunk([7]),  # type: ignore[arg-type]  # the point of the test
        chunk(["text"]),  # type: ignore[arg-type]  # the point of the test
        chunk(tool_calls=[7]),
        chunk(tool_calls=["x"]),
        chunk(tool_calls=[None]),
        chunk(tool_calls=7),
        "[]",
        '"x"',
        "7",
        "null",
    ],
)
def test_what_would_lose_a_part_of_the_answer_is_refused(payload: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        answer(make_run(make_tool()), payload)
    assert "expected" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "payload",
    [
        {"choices": [{}]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": [7], "finish_reason": False}]},
        {"choices": [{"index": [0], "delta": {}}]},
        {"choices": 0},
        {"usage": "x"},
        {"x_groq": [7]},
        {"error": True},
        chunk(reasoning=7, reasoning_content=["x"], reasoning_details="x"),
        chunk(reasoning_details=[7, None, []]),
        chunk(tool_calls=None),
        chunk(tool_calls=[]),
        chunk(refusal=["x"]),
        chunk([{"type": "thinking", "thinking": 7}]),  # type: ignore[arg-type]  # the point of the test
        chunk([{"type": "thinking", "thinking": True}]),  # type: ignore[arg-type]  # the point of the test
    ],
)
def test_odd_members_that_say_nothing_are_ignored(payload: dict[str, Any]) -> None:
    run = make_run(make_tool())
    events = answer(run, payload, chunk("Hi", finish="stop"))
    assert text_of(events) == "Hi"
    assert not calls_of(events)
    assert not thinking_of(events)


@pytest.mark.parametrize(
    "details",
    [
        [{"index": [0], "text": "a"}, {"index": [0], "text": "b"}],
        [{"index": {"x": 1}, "type": ["y"], "text": "a"}],
        [{"index": 0, "type": [], "text": "a"}, {"index": 0, "type": [], "text": "b"}],
        [{"index": 0, "text": 7}, {"index": 0, "text": "b"}],
        [{"index": 0, "text": "a"}, {"index": 0, "text": 7}],
        [{"index": 0, "data": ["a"]}, {"index": 0, "data": "b"}],
    ],
)
def test_details_of_wrong_types_do_no_harm(details: list[Any]) -> None:
    run = make_run()
    answer(run, *(chunk(reasoning_details=[detail]) for detail in details), chunk("Hi", finish="stop"))
    assert run.result().text == "Hi"
    json.dumps(body(make_run(history=run.messages)))


def test_a_name_or_an_id_of_another_type_is_text() -> None:
    (event,) = (e for e in answer(make_run(), *pieces(piece("{}", id=7, name=["x"]))) if isinstance(e, ToolCallEvent))
    assert (event.id, event.name) == ("7", "['x']")


def test_the_payloads_of_a_reply_do_not_change_when_a_request_is_made_of_them() -> None:
    run = after_thinking(chunk(reasoning="Hm.", reasoning_details=[{"type": "t", "text": "Hm.", "index": 0}]))
    before = copy.deepcopy(run.messages)
    assert body(run) == body(run)
    assert run.messages == before


def test_the_origin_is_on_what_the_model_wrote() -> None:
    run = after_thinking(chunk(reasoning="Hm."))
    origins = [p.origin for p in run.messages[1].parts if isinstance(p, ReasoningPart | ToolCallPart)]
    assert origins == [ORIGIN, ORIGIN]
    assert Message("user", "Hello?") == run.messages[0]
