from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.scripted import DONE, answer, call_chunk, chunk, feed, make_run, make_tool, reading, say, settle, sse
from tests.core.wire_judge import check_history
from toolnexus._core.commands import (
    APPROVAL,
    TOOL,
    AdmitTools,
    Checkpoint,
    Finish,
    ModelOptions,
    RunTools,
    SendRequest,
    ToolCall,
    ToolOutcome,
    WaitFor,
)
from toolnexus._core.run import AgentRun
from toolnexus._core.transcript import NOT_ANSWERED, NOT_RUN, UNKNOWN_OUTCOME, closed
from toolnexus._core.wire.openai_messages import to_openai
from toolnexus.errors import AnswerMismatchError, ProtocolError, RateLimitError, StreamInterruptedError
from toolnexus.events import (
    DoneEvent,
    PendingEvent,
    TextEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)
from toolnexus.limits import Limits
from toolnexus.messages import ImagePart, Message, TextPart, ToolCallPart, ToolResultPart
from toolnexus.results import ToolCallRecord, Usage
from toolnexus.suspension import Answer, GivenAnswer, Pending, Request, RequestCall
from toolnexus.tool import ToolResult

LOOK = make_tool("look")
TWO_CALLS = call_chunk(("c1", "look", '{"n": 1}'), ("c2", "look", '{"n": 2}'))
ONE_CALL = call_chunk(("c1", "look", '{"n": 1}'))


def command_of(run: AgentRun) -> str:
    return type(run.next_command()).__name__


def results_of(run: AgentRun) -> list[tuple[str, str, bool]]:
    return [(p.id, p.output, p.is_error) for m in run.messages for p in m.parts if isinstance(p, ToolResultPart)]


def asking(id: str | None = None, **options: Any) -> Pending:
    return Pending("Sure?", id=id, **options)


def open_request(run: AgentRun) -> Request:
    command = run.next_command()
    assert isinstance(command, WaitFor)
    return command.request


# -- the plain way


def test_an_answer_without_calls_ends_the_run() -> None:
    run = make_run()
    command = run.next_command()
    assert isinstance(command, SendRequest)
    assert command.turn == 1
    events = answer(run, chunk("Hel"), chunk("lo."), chunk(finish="stop"))
    assert events == [TextEvent("Hel"), TextEvent("lo.")]
    finish = run.next_command()
    assert isinstance(finish, Finish)
    result = finish.event.result
    assert (result.status, result.text, result.turns, result.finish_reason, result.limit) == (
        "done",
        "Hello.",
        1,
        "stop",
        None,
    )
    assert result.messages == [Message("user", "Hello?"), Message("assistant", "Hello.")]
    assert run.done() == (DoneEvent(result),)


def test_a_call_is_told_run_and_answered_before_the_model_is_asked_again() -> None:
    run = make_run(LOOK)
    events = answer(run, chunk("I look."), ONE_CALL)
    assert events == [TextEvent("I look."), ToolCallEvent("c1", "look", {"n": 1})]
    command = run.next_command()
    assert isinstance(command, RunTools)
    (call,) = command.calls
    assert (call.slot, call.id, call.tool, call.args, call.turn) == (0, "c1", LOOK, {"n": 1}, 1)
    assert call.given == {}
    outcome = ToolOutcome(0, ToolResult("rain", metadata={"m": 1}), duration=0.5)
    assert run.tool_finished(outcome) == [ToolResultEvent("c1", "look", "rain")]
    second = run.next_command()
    assert isinstance(second, SendRequest)
    assert second.turn == 2
    assert say(run) == [TextEvent("Done.")]
    result = run.result()
    assert result.tool_calls == [ToolCallRecord("c1", "look", {"n": 1}, "rain", False, {"m": 1}, 0.5)]
    assert (result.text, result.turns) == ("Done.", 2)


def test_a_command_stays_the_same_until_its_facts_are_in() -> None:
    run = make_run(LOOK)
    assert run.next_command() == run.next_command()
    answer(run, ONE_CALL)
    assert run.next_command() == run.next_command()


def test_results_join_the_transcript_in_the_models_order_and_are_shown_as_they_finish() -> None:
    run = make_run(LOOK)
    answer(run, TWO_CALLS)
    assert run.tool_finished(ToolOutcome(1, ToolResult("two"))) == [ToolResultEvent("c2", "look", "two")]
    assert results_of(run) == [("c2", "two", False)]
    assert run.tool_finished(ToolOutcome(0, ToolResult("one"))) == [ToolResultEvent("c1", "look", "one")]
    assert results_of(run) == [("c1", "one", False), ("c2", "two", False)]
    assert [record.output for record in run.result().tool_calls] == ["one", "two"]


def test_the_state_of_each_call_is_on_record() -> None:
    def states() -> list[str]:
        return [call.state for message in run.messages for call in message.tool_calls]

    run = make_run(LOOK, make_tool("alone", parallel=False))
    answer(run, call_chunk(("c1", "look", "{}"), ("c2", "alone", "{}")))
    assert states() == ["started", "open"]
    settle(run, "one")
    assert states() == ["finished", "started"]
    settle(run, "two")
    assert states() == ["finished", "finished"]


@pytest.mark.parametrize(
    ("names", "batches"),
    [
        ("pp", [["c0", "c1"]]),
        ("a", [["c0"]]),
        ("aa", [["c0"], ["c1"]]),
        ("ppa", [["c0", "c1"], ["c2"]]),
        ("app", [["c0"], ["c1", "c2"]]),
        ("pap", [["c0"], ["c1"], ["c2"]]),
    ],
)
def test_a_tool_that_wants_to_be_alone_is_alone_and_the_order_is_kept(names: str, batches: list[list[str]]) -> None:
    run = make_run(make_tool("p"), make_tool("a", parallel=False))
    answer(run, call_chunk(*((f"c{i}", name, "{}") for i, name in enumerate(names))))
    seen = []
    while isinstance(command := run.next_command(), RunTools):
        seen.append([call.id for call in command.calls])
        settle(run, *("out" for _ in command.calls))
    assert seen == batches
    assert isinstance(command, SendRequest)


def test_keys_of_calls_differ_between_calls_turns_and_runs() -> None:
    def keys(**setup: Any) -> list[str]:
        run = make_run(LOOK, **setup)
        found = []
        for _ in range(2):
            answer(run, TWO_CALLS)
            command = run.next_command()
            assert isinstance(command, RunTools)
            found += [call.call_key for call in command.calls]
            settle(run, "one", "two")
        return found

    first = keys(nonce="a")
    assert len(set(first + keys(nonce="b"))) == 8
    # Also within a conversation, which may have been forgotten and begun anew.
    assert len(set(keys(nonce="a", conversation_id="c") + keys(nonce="b", conversation_id="c"))) == 8


# -- calls that do not run


def test_a_call_of_an_unknown_tool_is_answered_and_the_others_run() -> None:
    run = make_run(LOOK)
    events = answer(run, call_chunk(("c1", "nope", "{}"), ("c2", "look", "{}")))
    assert [type(event) for event in events] == [ToolCallEvent, ToolCallEvent, ToolResultEvent]
    assert events[2] == ToolResultEvent("c1", "nope", "There is no tool named 'nope'. Tools: look.", True)
    settle(run, "rain")
    assert [id for id, _, _ in results_of(run)] == ["c1", "c2"]
    nothing = make_run()
    answer(nothing, ONE_CALL)
    assert results_of(nothing) == [("c1", "There is no tool named 'look'. Tools: none.", True)]


def test_a_call_whose_arguments_cannot_be_read_is_told_why_and_nothing_runs() -> None:
    run = make_run(LOOK)
    call, result = answer(run, call_chunk(("c1", "look", '{"n": ')))
    assert isinstance(call, ToolCallEvent)
    assert isinstance(result, ToolResultEvent)
    assert (call.args, result.is_error) == ({}, True)
    assert call.error
    assert call.error in result.output
    assert command_of(run) == "SendRequest"
    assert run.messages[1].tool_calls[0].raw == '{"n": '


@pytest.mark.parametrize(
    ("reason", "status", "limit"),
    [("length", "incomplete", "max_tokens"), ("content_filter", "done", None)],
)
@pytest.mark.parametrize("parts", [[], [ONE_CALL | {}], [TWO_CALLS]])
def test_no_call_of_a_response_that_was_cut_runs(reason: str, status: str, limit: str | None, parts: list[Any]) -> None:
    run = make_run(LOOK, make_tool("alone", parallel=False))
    calls = copy.deepcopy(parts)
    for call in calls:
        call["choices"][0]["finish_reason"] = None
    answer(run, chunk("I look."), *calls, chunk(finish=reason))
    assert command_of(run) == "Finish"
    result = run.result()
    assert (result.status, result.limit, result.finish_reason) == (status, limit, reason)
    assert all(is_error and "was not run" in text for _, text, is_error in results_of(run))
    assert len(results_of(run)) == len(result.tool_calls) == sum(len(m.tool_calls) for m in run.messages)


def test_no_call_beside_a_refusal_runs() -> None:
    run = make_run(LOOK)
    answer(run, chunk(refusal="No."), ONE_CALL)
    result = run.result()
    assert (command_of(run), result.status, result.finish_reason) == ("Finish", "done", "refusal")
    assert result.tool_calls[0].is_error


def test_calls_run_by_their_presence_whatever_finish_reason_comes_with_a_complete_response() -> None:
    for reason in (None, "stop", "odd"):
        run = make_run(LOOK)
        answer(run, call_chunk(("c1", "look", "{}"), finish=reason))
        assert command_of(run) == "RunTools"


def test_a_finish_reason_of_calls_without_any_ends_the_run() -> None:
    run = make_run(LOOK)
    answer(run, chunk("Hm.", finish="tool_calls"))
    assert command_of(run) == "Finish"


# -- turns


def test_the_tools_of_the_last_turn_still_run_and_the_transcript_ends_with_their_results() -> None:
    run = make_run(LOOK, max_turns=2)
    for _ in range(2):
        answer(run, ONE_CALL)
        settle(run, "rain")
    assert command_of(run) == "Finish"
    result = run.result()
    assert (result.status, result.limit, result.turns) == ("incomplete", "max_turns", 2)
    assert result.messages[-1].role == "tool"
    check_history(to_openai(result.messages))


def test_an_answer_in_the_last_turn_is_an_answer() -> None:
    run = make_run(LOOK, max_turns=1)
    say(run)
    assert (run.result().status, run.result().limit) == ("done", None)


def test_an_empty_answer_ends_the_run_and_is_not_stored() -> None:
    run = make_run()
    answer(run, chunk(finish="stop"))
    assert (command_of(run), run.result().text) == ("Finish", "")
    assert run.messages == [Message("user", "Hello?")]


def test_usage_adds_up_over_the_turns_and_is_told_after_each_that_reports_it() -> None:
    run = make_run(LOOK)
    events = answer(run, call_chunk(("c1", "look", "{}")) | {"usage": {"prompt_tokens": 5, "completion_tokens": 1}})
    first = Usage(prompt_tokens=5, completion_tokens=1, raw=({"prompt_tokens": 5, "completion_tokens": 1},))
    assert events[0] == UsageEvent(first)
    settle(run, "rain")
    assert not any(isinstance(event, UsageEvent) for event in answer(run, ONE_CALL))
    settle(run, "rain")
    (_, last) = answer(run, chunk("Done.", finish="stop", usage={"prompt_tokens": 7, "total_tokens": 9}))
    total = first + Usage(prompt_tokens=7, total_tokens=9, raw=({"prompt_tokens": 7, "total_tokens": 9},))
    assert last == UsageEvent(total)
    assert run.result().usage == total
    assert (total.prompt_tokens, total.completion_tokens, total.total_tokens) == (12, 1, 9)


def test_request_ids_are_collected_and_history_stays_in_front() -> None:
    history = [Message("user", "Before"), Message("assistant", "Yes.")]
    run = make_run(LOOK, history=history, conversation_id="conv")
    feed(run, sse(ONE_CALL), DONE, x_request_id="req_1")
    settle(run, "rain")
    feed(run, sse(chunk("Done.")), DONE, request_id="req_2")
    result = run.result()
    assert result.request_ids == ["req_1", "req_2"]
    assert result.messages[:2] == history
    assert (result.id, result.model) == ("conv", "m-1")


# -- checkpoints


def next_commands(run: AgentRun, facts: dict[str, Callable[[], object]]) -> list[str]:
    """The names of the commands until the end; `facts` says what to do at each."""
    seen = []
    while True:
        seen.append(command_of(run))
        if seen[-1] == "Finish":
            return seen
        facts[seen[-1]]()


def test_a_kept_transcript_is_saved_before_tools_run_after_they_ran_and_at_the_end() -> None:
    run = make_run(LOOK, keeps=True)
    replies = iter([TWO_CALLS, chunk("Done.", finish="stop")])
    saved: list[list[Message]] = []

    def save() -> None:
        command = run.next_command()
        assert isinstance(command, Checkpoint)
        saved.append(command.messages)
        run.saved()

    facts: dict[str, Callable[[], object]] = {
        "SendRequest": lambda: answer(run, next(replies)),
        "RunTools": lambda: settle(run, "one", "two"),
        "Checkpoint": save,
    }
    assert next_commands(run, facts) == [
        "SendRequest", "Checkpoint", "RunTools", "Checkpoint", "SendRequest", "Checkpoint", "Finish"
    ]  # fmt: skip
    before, after, last = saved
    assert [call.state for call in before[1].tool_calls] == ["started", "started"]
    assert [call.state for call in after[1].tool_calls] == ["finished", "finished"]
    assert last == run.result().messages


def test_a_transcript_that_nobody_keeps_is_never_saved() -> None:
    run = make_run(LOOK)
    replies = iter([ONE_CALL, chunk("Done.", finish="stop")])
    facts: dict[str, Callable[[], object]] = {
        "SendRequest": lambda: answer(run, next(replies)),
        "RunTools": lambda: settle(run, "one"),
    }
    assert next_commands(run, facts) == ["SendRequest", "RunTools", "SendRequest", "Finish"]


def test_what_was_saved_before_a_crash_says_that_the_outcome_is_unknown() -> None:
    run = make_run(LOOK, keeps=True)
    answer(run, ONE_CALL)
    command = run.next_command()
    assert isinstance(command, Checkpoint)
    later = closed(command.messages)
    assert later[-1].parts == (ToolResultPart("c1", "look", (TextPart(UNKNOWN_OUTCOME),), True),)


def test_a_suspension_is_saved_with_its_request_before_anybody_waits() -> None:
    run = make_run(LOOK, keeps=True, can_wait=True)
    answer(run, ONE_CALL)
    run.saved()
    settle(run, asking("r1"))
    command = run.next_command()
    assert isinstance(command, Checkpoint)
    request = command.messages[1].tool_calls[0].request
    assert request is not None
    assert request.id == "r1"
    run.saved()
    assert open_request(run) == request


# -- suspension


def suspended(*ids: str | None, **options: Any) -> AgentRun:
    """A run whose calls have all suspended, with these request ids."""
    run = make_run(LOOK, can_wait=True, **options)
    answer(run, call_chunk(*((f"c{i}", "look", f'{{"n": {i}}}') for i in range(len(ids)))))
    settle(run, *(asking(id) for id in ids))
    return run


def test_a_request_says_what_the_tool_asked_and_for_which_call() -> None:
    run = make_run(LOOK, can_wait=True)
    answer(run, ONE_CALL)
    question = Pending("Which?", "choice", "https://x.example", {"a": [1]}, 5.0, "r1")
    request = Request(
        "r1", "choice", "Which?", "https://x.example", {"a": [1]}, 5.0, RequestCall("c1", "look", {"n": 1})
    )
    assert settle(run, question) == [PendingEvent(request)]
    assert open_request(run) == request


def test_an_answer_runs_the_same_call_again_with_it() -> None:
    run = suspended("r1")
    given = Answer("r1", data={"x": 1})
    assert run.answer_received(given, 0.0) == []
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert command.calls[0].answer_to(TOOL) == given
    assert command.calls[0].args == {"n": 0}
    settle(run, "rain")
    assert command_of(run) == "SendRequest"
    assert results_of(run) == [("c0", "rain", False)]
    assert run.messages[1].tool_calls[0].request is None


def test_the_time_of_all_tries_of_a_call_adds_up() -> None:
    run = make_run(LOOK, can_wait=True)
    answer(run, ONE_CALL)
    settle(run, asking("r1"), duration=1.0)
    run.answer_received(Answer("r1"), 0.0)
    settle(run, "rain", duration=2.0)
    assert run.result().tool_calls[0].duration == 3.0


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda run: run.answer_received(Answer("r1", ok=False), 0.0), "declined."),
        (lambda run: run.answer_received(Answer("r1", ok=False, reason="too late"), 0.0), "declined: too late."),
        (lambda run: run.answer_received(Answer("other"), 0.0), "the answer names request 'other', not 'r1'."),
        (lambda run: run.answer_received(Answer("r1"), 100.0), "the request has expired."),
        (lambda run: run.answer_received(Answer("r1"), 101.0), "the request has expired."),
        (lambda run: run.answer_failed("ValueError in wait_for: x\ud800"), "ValueError in wait_for: x\ufffd."),
    ],
)
def test_without_a_good_answer_the_model_is_told_and_the_loop_goes_on(
    give: Callable[[AgentRun], list[Any]], words: str
) -> None:
    run = make_run(LOOK, can_wait=True)
    answer(run, ONE_CALL)
    settle(run, asking("r1", expires_at=100.0))
    (event,) = give(run)
    assert event == ToolResultEvent("c1", "look", f"The call did not go on: {words}", True)
    assert command_of(run) == "SendRequest"
    assert run.result().requests == []


def test_an_answer_just_in_time_is_in_time() -> None:
    run = make_run(LOOK, can_wait=True)
    answer(run, ONE_CALL)
    settle(run, asking("r1", expires_at=100.0))
    run.answer_received(Answer("r1"), 99.9)
    assert command_of(run) == "RunTools"


def test_several_requests_are_answered_one_by_one_in_call_order_and_none_is_lost() -> None:
    run = suspended("r0", "r1", "r2")
    assert [request.id for request in run.result().requests] == ["r0", "r1", "r2"]
    assert open_request(run).id == "r0"
    run.answer_received(Answer("r0"), 0.0)
    settle(run, "zero")
    assert open_request(run).id == "r1"
    run.answer_received(Answer("r1", ok=False), 0.0)
    assert open_request(run).id == "r2"
    run.answer_received(Answer("r2"), 0.0)
    settle(run, "two")
    assert command_of(run) == "SendRequest"
    assert [(id, is_error) for id, _, is_error in results_of(run)] == [("c0", False), ("c1", True), ("c2", False)]


def test_the_other_calls_of_a_turn_finish_and_are_not_run_again() -> None:
    run = make_run(LOOK, can_wait=True)
    answer(run, TWO_CALLS)
    settle(run, "one", asking("r2"))
    assert results_of(run) == [("c1", "one", False)]
    run.answer_received(Answer("r2"), 0.0)
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert [call.id for call in command.calls] == ["c2"]


def test_a_call_may_suspend_again_under_a_new_id_and_invented_ids_are_new() -> None:
    run = suspended(None)
    first = open_request(run).id
    run.answer_received(Answer(first), 0.0)
    settle(run, asking(None))
    second = open_request(run).id
    assert first != second
    run.answer_received(Answer(second), 0.0)
    settle(run, "rain")
    assert command_of(run) == "SendRequest"


def test_the_same_id_again_is_an_error_for_the_model() -> None:
    run = suspended("r1")
    run.answer_received(Answer("r1"), 0.0)
    assert settle(run, asking("r1")) == [ToolResultEvent("c0", "look", "The tool asked again for request 'r1'.", True)]
    assert command_of(run) == "SendRequest"


def test_a_call_that_asks_too_often_is_an_error_for_the_model() -> None:
    run = suspended("r0", limits=Limits(suspensions_per_call=2))
    run.answer_received(Answer("r0"), 0.0)
    settle(run, asking("r1"))
    run.answer_received(Answer("r1"), 0.0)
    assert settle(run, asking("r2")) == [ToolResultEvent("c0", "look", "The tool asked for more than 2 answers.", True)]
    assert command_of(run) == "SendRequest"


def test_where_nobody_can_answer_the_run_ends_pending_with_all_its_requests() -> None:
    run = make_run(LOOK)
    answer(run, call_chunk(*((f"c{i}", "look", "{}") for i in range(3))))
    settle(run, asking("r0"), "one", asking("r2"))
    assert command_of(run) == "Finish"
    result = run.result()
    assert (result.status, [r.id for r in result.requests]) == ("pending", ["r0", "r2"])
    assert result.pending is not None
    assert result.pending.id == "r0"
    assert [record.id for record in result.tool_calls] == ["c1"]
    assert [(c.state, c.request and c.request.id) for c in result.messages[1].tool_calls] == [
        ("open", "r0"),
        ("finished", None),
        ("open", "r2"),
    ]
    later = closed(result.messages)
    assert [p.output for m in later for p in m.parts if isinstance(p, ToolResultPart)] == [
        NOT_ANSWERED,
        "one",
        NOT_ANSWERED,
    ]


def test_a_suspended_call_does_not_hold_back_one_that_wants_to_be_alone() -> None:
    run = make_run(LOOK, make_tool("alone", parallel=False), can_wait=True)
    answer(run, call_chunk(("c1", "look", "{}"), ("c2", "alone", "{}")))
    settle(run, asking("r1"))
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert [call.id for call in command.calls] == ["c2"]
    settle(run, "two")
    assert open_request(run).id == "r1"


# -- approval


GUARDED = make_tool(approval=True)


def admission(run: AgentRun) -> ToolCall:
    """The one call that is to be admitted."""
    command = run.next_command()
    assert isinstance(command, AdmitTools)
    (call,) = command.calls
    return call


def test_an_approval_lets_the_call_run_and_does_not_reach_the_tool() -> None:
    run = make_run(GUARDED, can_wait=True)
    answer(run, ONE_CALL)
    run.tool_finished(ToolOutcome(admission(run).slot, asking("ok?"), gate=APPROVAL))
    run.answer_received(Answer("ok?"), 0.0)
    call = admission(run)
    assert (call.answer_to(APPROVAL), call.answer_to(TOOL)) == (Answer("ok?"), None)
    run.tool_admitted(call.slot, call.args)
    settle(run, asking("r1"))  # a question of the tool's own
    run.answer_received(Answer("r1"), 0.0)
    call = admission(run)
    assert (call.answer_to(APPROVAL), call.answer_to(TOOL)) == (Answer("ok?"), Answer("r1"))


def test_an_answer_reaches_the_tool_once() -> None:
    run = suspended("r1")
    run.answer_received(Answer("r1"), 0.0)
    settle(run, asking("r2"))
    run.answer_received(Answer("r2"), 0.0)
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert command.calls[0].given == {TOOL: GivenAnswer(Answer("r2"), {"n": 0})}


@pytest.mark.parametrize("other", [{"n": 2}, {"n": 1.0}, {"n": True}, {}, {"n": 1, "m": None}])
def test_an_answer_counts_for_the_arguments_that_were_shown(other: dict[str, Any]) -> None:
    run = make_run(GUARDED, can_wait=True)
    answer(run, ONE_CALL)
    shown = {"n": 1}
    run.tool_finished(ToolOutcome(admission(run).slot, asking("ok?"), gate=APPROVAL, args=shown))
    assert open_request(run).call == RequestCall("c1", "look", shown)
    run.answer_received(Answer("ok?"), 0.0)
    call = admission(run)
    assert call.answer_to(APPROVAL) == Answer("ok?")
    assert replace(call, args=other).answer_to(APPROVAL) is None


def test_a_call_runs_with_the_arguments_that_it_was_admitted_with() -> None:
    run = make_run(LOOK, is_hooked=True)
    answer(run, ONE_CALL)
    run.tool_admitted(admission(run).slot, {"n": 7})
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert command.calls[0].args == {"n": 7}
    assert run.messages[1].tool_calls[0].args == {"n": 1}


def test_calls_start_when_all_of_them_were_admitted_or_stood_in_for() -> None:
    run = make_run(LOOK, is_hooked=True, keeps=True)
    answer(run, TWO_CALLS)
    command = run.next_command()
    assert isinstance(command, AdmitTools)
    first, second = command.calls
    run.tool_admitted(second.slot, second.args)
    with pytest.raises(RuntimeError, match="no call of slot 1 is being admitted"):
        run.tool_admitted(second.slot, second.args)
    with pytest.raises(RuntimeError, match="no call of slot 1 is being admitted"):
        run.tool_finished(ToolOutcome(second.slot, ToolResult("too early: it does not run yet")))
    assert [call.id for call in command.calls] == ["c1", "c2"]
    assert [call.state for call in run.messages[1].tool_calls] == ["open", "open"]
    run.tool_finished(ToolOutcome(first.slot, ToolResult("instead")))
    assert command_of(run) == "Checkpoint"
    assert [call.state for call in run.messages[1].tool_calls] == ["finished", "started"]
    run.saved()
    settle(run, "rain")
    assert results_of(run) == [("c1", "instead", False), ("c2", "rain", False)]


def test_a_call_that_is_not_approved_does_not_run() -> None:
    run = make_run(GUARDED, can_wait=True)
    answer(run, ONE_CALL)
    run.tool_finished(ToolOutcome(admission(run).slot, asking("ok?"), gate=APPROVAL))
    (event,) = run.answer_received(Answer("ok?", ok=False, reason="no"), 0.0)
    assert isinstance(event, ToolResultEvent)
    assert event.output == "The call did not go on: declined: no."
    assert command_of(run) == "SendRequest"


# -- results


def test_output_beyond_the_limit_is_cut_between_characters_and_says_so() -> None:
    run = make_run(LOOK, limits=Limits(tool_output_bytes=10))
    answer(run, TWO_CALLS)
    settle(run, "0123456789", "012345678é")
    (_, fits, _), (_, cut, _) = results_of(run)
    assert fits == "0123456789"
    assert cut == "012345678\n[cut: 11 bytes of output, the limit is 10]"


def test_a_result_keeps_its_images_in_the_transcript() -> None:
    image = ImagePart(url="https://x.example/a.png")
    run = make_run(LOOK)
    answer(run, ONE_CALL)
    settle(run, ToolResult((TextPart("Look: "), image), is_error=True))
    assert run.messages[-1].parts == (ToolResultPart("c1", "look", (TextPart("Look: "), image), True),)


# -- errors of a response


def test_what_came_before_an_error_is_returned_and_the_next_call_raises_it() -> None:
    run = make_run(LOOK)
    run.response_opened(200, {}, 0.0)
    assert reading(run).wants_bytes
    assert run.receive(sse(chunk("Hel"), "nonsense", chunk("lo"))) == [TextEvent("Hel")]
    assert not reading(run).wants_bytes
    assert reading(run).shown
    for _ in range(2):
        with pytest.raises(ProtocolError, match="nonsense"):
            run.receive(b"more")
        with pytest.raises(ProtocolError, match="nonsense"):
            run.response_ended()
        with pytest.raises(ProtocolError, match="nonsense"):
            run.response_failed(StreamInterruptedError("reset"))


def test_an_error_before_anything_is_raised_at_once_and_the_response_may_be_asked_for_again() -> None:
    run = make_run(LOOK)
    run.response_opened(200, {}, 0.0)
    with pytest.raises(RateLimitError):
        run.receive(sse({"error": {"message": "Slow.", "type": "rate_limit_error"}}))
    assert not reading(run).shown
    assert run.reading is not None
    assert say(run) == [TextEvent("Done.")]
    assert (run.result().turns, run.result().text) == (1, "Done.")


def test_a_new_try_forgets_the_half_response_before_it() -> None:
    run = make_run(LOOK)
    run.response_opened(200, {}, 0.0)
    run.receive(
        sse(chunk(role="assistant", usage={"prompt_tokens": 7}), call_chunk(("c9", "look", '{"n"'), finish=None))
    )
    with pytest.raises(StreamInterruptedError):
        run.response_ended()
    answer(run, ONE_CALL)
    assert [call.id for call in run.messages[1].tool_calls] == ["c1"]
    assert run.result().usage == Usage()


def test_bytes_after_the_finish_reason_still_count_until_the_end() -> None:
    run = make_run()
    run.response_opened(200, {}, 0.0)
    run.receive(sse(chunk("Hi", finish="stop")))
    assert run.receive(sse({"choices": [], "usage": {"prompt_tokens": 3}})) == []
    assert run.response_ended() == [UsageEvent(Usage(prompt_tokens=3, raw=({"prompt_tokens": 3},)))]


# -- abandoned


def abandoned_before_the_request(run: AgentRun) -> None:
    pass


def abandoned_in_mid_answer(run: AgentRun) -> None:
    run.response_opened(200, {}, 0.0)
    run.receive(sse(chunk("Hal"), call_chunk(("c1", "look", "{}"))))


def abandoned_before_the_tools(run: AgentRun) -> None:
    answer(run, chunk("I look."), TWO_CALLS)


def abandoned_with_one_tool_running(run: AgentRun) -> None:
    answer(run, TWO_CALLS)
    if isinstance(run.next_command(), Checkpoint):
        run.saved()
    run.tool_finished(ToolOutcome(1, ToolResult("two")))


def abandoned_while_waiting(run: AgentRun) -> None:
    abandoned_with_one_tool_running(run)
    run.tool_finished(ToolOutcome(0, asking("r1")))


def abandoned_in_the_second_turn(run: AgentRun) -> None:
    abandoned_with_one_tool_running(run)
    run.tool_finished(ToolOutcome(0, ToolResult("one")))
    if isinstance(run.next_command(), Checkpoint):
        run.saved()
    abandoned_in_mid_answer(run)


def abandoned_at_the_end(run: AgentRun) -> None:
    say(run)


PLACES: dict[Callable[[AgentRun], None], tuple[str, list[tuple[str, str, bool]]]] = {
    abandoned_before_the_request: ("", []),
    abandoned_in_mid_answer: ("Hal", []),
    abandoned_before_the_tools: ("I look.", [("c1", UNKNOWN_OUTCOME, True), ("c2", UNKNOWN_OUTCOME, True)]),
    abandoned_with_one_tool_running: ("", [("c1", UNKNOWN_OUTCOME, True), ("c2", "two", False)]),
    abandoned_while_waiting: ("", [("c1", NOT_ANSWERED, True), ("c2", "two", False)]),
    abandoned_in_the_second_turn: ("Hal", [("c1", "one", False), ("c2", "two", False)]),
    abandoned_at_the_end: ("Done.", []),
}


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("aborted", [True, False])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_run_that_is_abandoned_leaves_a_balanced_transcript(
    place: Callable[[AgentRun], None], aborted: bool, keeps: bool
) -> None:
    run = make_run(LOOK, can_wait=True, keeps=keeps)
    place(run)
    run.abandon(aborted=aborted)
    result = run.result()
    text, results = PLACES[place]
    assert (result.status, result.limit, result.text) == ("error", None, text)
    assert (result.finish_reason == "aborted") is aborted
    assert results_of(run) == results
    assert [(r.id, r.output, r.is_error) for r in result.tool_calls] == results
    assert result.messages == run.messages == closed(run.messages)
    assert result.requests == []
    check_history(to_openai(result.messages))
    # Nothing leads out of the end.
    if keeps:
        assert isinstance(run.next_command(), Checkpoint)
        run.saved()
    run.abandon(aborted=aborted)
    assert run.result() == result
    for fact in facts(run):
        with pytest.raises(RuntimeError):
            fact()
    assert run.result() == result


def test_a_call_that_never_started_says_so_when_the_run_is_abandoned() -> None:
    run = make_run(LOOK, make_tool("alone", parallel=False))
    answer(run, call_chunk(("c1", "look", "{}"), ("c2", "alone", "{}")))
    run.abandon()
    assert results_of(run) == [("c1", UNKNOWN_OUTCOME, True), ("c2", NOT_RUN, True)]


# -- facts in the wrong order


def facts(run: AgentRun) -> list[Callable[[], object]]:
    return [
        lambda: run.response_opened(200, {}, 0.0),
        lambda: run.receive(b"x"),
        lambda: run.response_ended(),
        lambda: run.response_failed(StreamInterruptedError("reset")),
        lambda: run.tool_finished(ToolOutcome(0, ToolResult("late"))),
        lambda: run.answer_received(Answer("r1"), 0.0),
        lambda: run.answer_failed("nobody is there"),
    ]


def asked(run: AgentRun) -> None:
    pass


def in_the_middle(run: AgentRun) -> None:
    run.response_opened(200, {}, 0.0)


def acting(run: AgentRun) -> None:
    answer(run, ONE_CALL)


def waiting(run: AgentRun) -> None:
    answer(run, ONE_CALL)
    settle(run, asking("r1"))


@pytest.mark.parametrize(
    ("prepare", "allowed"),
    [(asked, {0}), (in_the_middle, {0, 1, 2, 3}), (acting, {4}), (waiting, {5, 6}), (say, set[int]())],
)
def test_facts_that_no_command_asked_for_are_errors_and_change_nothing(
    prepare: Callable[[AgentRun], object], allowed: set[int]
) -> None:
    run = make_run(LOOK, can_wait=True)
    prepare(run)
    before = run.next_command()
    for number, fact in enumerate(facts(run)):
        if number not in allowed:
            with pytest.raises(RuntimeError):
                fact()
    with pytest.raises(RuntimeError, match="saved answers Checkpoint, but the run waits for"):
        run.saved()
    assert run.next_command() == before


def test_facts_are_errors_as_long_as_a_checkpoint_is_not_saved() -> None:
    run = make_run(LOOK, keeps=True, can_wait=True)
    answer(run, ONE_CALL)
    for fact in facts(run):
        with pytest.raises(RuntimeError):
            fact()
    run.saved()
    settle(run, "rain")
    with pytest.raises(RuntimeError, match="response_opened answers SendRequest, but the run waits for Checkpoint"):
        run.response_opened(200, {}, 0.0)


def test_a_call_cannot_finish_twice_nor_one_that_was_not_started() -> None:
    run = make_run(LOOK)
    answer(run, TWO_CALLS)
    run.tool_finished(ToolOutcome(0, ToolResult("one")))
    for slot in (0, 2, -1):
        with pytest.raises(RuntimeError, match=f"no call of slot {slot} is being admitted or run"):
            run.tool_finished(ToolOutcome(slot, ToolResult("again")))
    run.tool_finished(ToolOutcome(1, ToolResult("two")))
    assert results_of(run) == [("c1", "one", False), ("c2", "two", False)]


def test_a_run_is_resumed_once_and_before_anything_else() -> None:
    left = make_run(LOOK, can_wait=True)
    answer(left, ONE_CALL)
    with pytest.raises(RuntimeError, match="resume is the first fact of a run without a prompt, and comes once"):
        left.resume([], 0.0)
    settle(left, asking("r1"))
    run = make_run(LOOK, can_wait=True, prompt=None, history=left.messages)
    with pytest.raises(AnswerMismatchError):
        run.resume([Answer("another")], 0.0)  # nothing was changed
    run.resume([Answer("r1")], 0.0)
    before = run.next_command(), run.messages
    for answers in ([], [Answer("r1")]):
        with pytest.raises(RuntimeError, match="and comes once"):
            run.resume(answers, 0.0)
    assert (run.next_command(), run.messages) == before


def test_there_is_no_last_event_before_the_end() -> None:
    with pytest.raises(RuntimeError, match="the run waits for SendRequest"):
        make_run().done()


# -- a run is data


@pytest.mark.parametrize("prepare", [asked, in_the_middle, abandoned_in_mid_answer, acting, waiting, say])
def test_a_run_can_be_copied_at_any_point_and_both_go_on_alike(prepare: Callable[[AgentRun], object]) -> None:
    run = make_run(LOOK, can_wait=True)
    prepare(run)
    other = copy.deepcopy(run)

    def go_on(run: AgentRun) -> Any:
        match run.next_command():
            case SendRequest() if run.reading is not None:
                return [*run.receive(sse(chunk("lo."), chunk(finish="stop"))), *run.response_ended()]
            case SendRequest():
                return say(run)
            case RunTools():
                return settle(run, "rain")
            case WaitFor(request):
                return run.answer_received(Answer(request.id), 0.0)
            case _:
                return run.done()

    before = run.next_command(), run.messages, run.reading is not None
    events = go_on(other)
    assert (run.next_command(), run.messages, run.reading is not None) == before
    assert go_on(run) == events
    assert (run.next_command(), run.messages) == (other.next_command(), other.messages)


def test_the_pending_state_of_a_run_is_plain_json() -> None:
    run = make_run(LOOK)
    answer(run, TWO_CALLS)
    settle(run, "one", asking("r2", data={"x": [1]}))
    result = run.result()
    text = result.model_dump_json()
    assert json.loads(text)["requests"][0]["call"] == {"id": "c2", "name": "look", "args": {"n": 2}}
    assert type(result).model_validate_json(text) == result
    assert pickle.loads(pickle.dumps(result)) == result


def test_results_do_not_change_when_the_run_goes_on() -> None:
    run = make_run(LOOK)
    answer(run, ONE_CALL)
    early, messages = run.result(), run.messages
    copied = copy.deepcopy(early), list(messages)
    settle(run, "rain")
    say(run)
    assert (early, messages) == copied


# -- any course of events

VALUES: list[ToolResult | Pending] = [ToolResult("out"), asking(None), asking("r1")]


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_whatever_happens_the_transcript_can_be_sent_and_every_call_has_one_result(data: st.DataObject) -> None:
    tools = make_tool("p"), make_tool("a", parallel=False)
    run = make_run(*tools, can_wait=data.draw(st.booleans()), keeps=data.draw(st.booleans()), max_turns=3)
    shown: list[Any] = []
    for _ in range(data.draw(st.integers(0, 25))):
        match run.next_command():
            case SendRequest():
                names = data.draw(st.lists(st.sampled_from("ppax"), max_size=3))
                calls = [(f"c{i}", name, data.draw(st.sampled_from(["{}", "{"]))) for i, name in enumerate(names)]
                reason = data.draw(st.sampled_from(["stop", "stop", "length"]))
                chunks = [call_chunk(*calls, finish=None)] if calls else []
                shown += answer(run, chunk(data.draw(st.sampled_from(["", "Hi"]))), *chunks, chunk(finish=reason))
            case RunTools(calls=ordered):
                for call in data.draw(st.permutations(ordered)):
                    value = data.draw(st.sampled_from(VALUES))
                    shown += run.tool_finished(ToolOutcome(call.slot, value))
            case WaitFor(request):
                ok = data.draw(st.booleans())
                shown += run.answer_received(Answer(request.id, ok=ok), 0.0)
            case Checkpoint():
                run.saved()
            case Finish():
                break
    done = isinstance(run.next_command(), Finish)
    if not done:
        run.abandon()
    result = run.result()
    check_history(to_openai(closed(result.messages)))
    if not done:
        assert result.messages == closed(result.messages)
    told = [event.id for event in shown if isinstance(event, ToolCallEvent)]
    assert told == [part.id for m in result.messages for part in m.tool_calls]
    ended = sorted(event.id for event in shown if isinstance(event, ToolResultEvent))
    assert len(ended) <= len(result.tool_calls) <= len(told)
    if result.status != "pending":
        assert len(result.tool_calls) == len(told)


def test_the_transcript_of_a_part_that_is_no_call_is_left_alone() -> None:
    run = make_run(LOOK)
    answer(run, chunk(reasoning="Hm."), chunk("I look."), ONE_CALL)
    kinds = [part.type for part in run.messages[1].parts]
    assert kinds == ["reasoning", "text", "tool_call"]
    assert isinstance(run.messages[1].parts[2], ToolCallPart)


def test_a_forced_choice_of_a_tool_is_for_the_first_response_only() -> None:
    run = make_run(LOOK, options=ModelOptions(tool_choice="required", temperature=0.5))
    sent = []
    for _ in range(2):
        command = run.next_command()
        assert isinstance(command, SendRequest)
        sent.append(command.request.options)
        if not run.result().turns:
            answer(run, ONE_CALL)
            settle(run, "rain")
    assert sent == [ModelOptions(tool_choice="required", temperature=0.5), ModelOptions(temperature=0.5)]


def test_a_response_that_only_paused_is_sent_back_until_the_turns_are_used_up() -> None:
    run = make_run(max_turns=2)
    answer(run, chunk("I search"), chunk(finish="pause_turn"))
    assert command_of(run) == "SendRequest"
    answer(run, chunk("and search"), chunk(finish="pause_turn"))
    result = run.result()
    assert (command_of(run), result.status, result.limit) == ("Finish", "incomplete", "max_turns")
    assert [message.text for message in result.messages] == ["Hello?", "I search", "and search"]
