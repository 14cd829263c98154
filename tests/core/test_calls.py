"""The calls of a turn that another run left behind: what is carried on, what is closed, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.scripted import answer, call_chunk, make_run, make_tool, say, settle
from toolnexus._core.commands import AdmitTools, RunTools, ToolOutcome, WaitFor
from toolnexus._core.run import AgentRun
from toolnexus.errors import AnswerMismatchError, ConfigurationError
from toolnexus.events import PendingEvent, ToolCallEvent, ToolResultEvent
from toolnexus.messages import Message, TextPart, ToolCallPart, ToolResultPart
from toolnexus.suspension import Answer, Pending, RequestCall
from toolnexus.tool import Tool, ToolResult

LOOK = make_tool("look")
NOTE = make_tool("note", idempotent=True)


def asking(id: str) -> Pending:
    return Pending("Sure?", id=id)


def left_waiting(*ids: str, **setup: Any) -> list[Message]:
    """A transcript whose last turn has one suspended call for each id."""
    run = make_run(LOOK, **setup)
    answer(run, call_chunk(*((f"c{n}", "look", f'{{"n": {n}}}') for n, _ in enumerate(ids))))
    settle(run, *map(asking, ids))
    return run.messages


def left_started(*names: str) -> list[Message]:
    """What is kept of a run whose process died while these tools ran."""
    run = make_run(LOOK, NOTE, keeps=True)
    answer(run, call_chunk(*((f"c{n}", name, f'{{"n": {n}}}') for n, name in enumerate(names))))
    return run.messages


def resumed(history: list[Message], *answers: Answer, tools: tuple[Tool, ...] = (LOOK, NOTE), **setup: Any) -> AgentRun:
    run = make_run(*tools, prompt=None, history=history, **setup)
    run.resume(answers, 0.0)
    return run


def running(run: AgentRun) -> list[str]:
    command = run.next_command()
    assert isinstance(command, RunTools)
    return [call.id for call in command.calls]


def outputs(run: AgentRun) -> list[str]:
    return [part.output for message in run.messages for part in message.parts if isinstance(part, ToolResultPart)]


@pytest.mark.parametrize("args", [{}, {"n": 7}])
def test_a_request_shows_the_arguments_that_its_asker_saw_even_if_there_are_none(args: dict[str, Any]) -> None:
    run = make_run(LOOK, is_hooked=True)
    answer(run, call_chunk(("c0", "look", '{"n": 0}')))
    command = run.next_command()
    assert isinstance(command, AdmitTools)
    (event,) = run.tool_finished(ToolOutcome(0, asking("r1"), gate="hook 0 f", args=args))
    assert isinstance(event, PendingEvent)
    assert event.request.call == RequestCall("c0", "look", args)


def test_a_prompt_is_not_lost_when_an_interrupted_call_runs_again_and_asks() -> None:
    run = make_run(NOTE, prompt="And then?", history=left_started("note"))
    events = settle(run, asking("r1"))
    assert [event.type for event in events] == ["pending", "tool_result"]
    assert [(m.role, m.text) for m in run.messages[-1:]] == [("user", "And then?")]
    assert outputs(run) == ["The call waited for an answer that did not come; the conversation went on without it."]
    say(run)
    assert run.result().status == "done"


def test_a_question_of_an_interrupted_call_is_answered_before_the_prompt_where_somebody_can() -> None:
    run = make_run(NOTE, prompt="And then?", history=left_started("note"), can_wait=True)
    settle(run, asking("r1"))
    assert isinstance(run.next_command(), WaitFor)
    run.answer_received(Answer("r1"), 0.0)
    settle(run, "noted")
    assert outputs(run) == ["noted"]
    assert run.messages[-1].text == "And then?"


def test_only_what_is_idempotent_runs_again_and_under_its_own_key() -> None:
    history = left_started("look", "note")
    keys = [call.journal.key for call in history[-1].tool_calls if call.journal is not None]
    run = make_run(LOOK, NOTE, prompt=None, history=history, nonce="other")
    (event,) = run.resume((), 0.0)
    assert isinstance(event, ToolResultEvent)
    assert (event.id, event.output) == ("c0", "The outcome of the call is unknown: the run ended while it was running.")
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert [(call.id, call.call_key, call.turn) for call in command.calls] == [("c1", keys[1], 0)]


def test_a_call_whose_arguments_could_not_be_read_is_never_run_with_others() -> None:
    unread = ToolCallPart("c0", "look", {}, raw="{", error="no JSON")
    run = make_run(LOOK, prompt=None, history=[Message("user", "Go."), Message("assistant", [unread])])
    run.resume((), 0.0)
    assert outputs(run) == ["The call was not run: no JSON. Send it again with one valid JSON object."]
    say(run)


def test_that_the_tool_of_an_unreadable_call_is_gone_is_no_matter() -> None:
    unread = ToolCallPart("c0", "gone", {}, raw="{", error="no JSON")
    resumed([Message("user", "Go."), Message("assistant", [unread])])


@pytest.mark.parametrize("can_wait", [False, True])
def test_a_tool_must_be_there_for_each_call_that_may_go_on(can_wait: bool) -> None:
    history = left_waiting("r0", "r1")
    with pytest.raises(ConfigurationError, match="'c0' of the conversation is to go on, but its tool 'look' is not"):
        resumed(history, Answer("r0"), tools=(NOTE,), can_wait=can_wait)
    if can_wait:
        with pytest.raises(ConfigurationError, match="'c1'"):
            resumed(history, Answer("r0", ok=False), tools=(NOTE,), can_wait=True)
    else:
        run = resumed(history, Answer("r0", ok=False), tools=(NOTE,))
        assert [request.id for request in run.result().requests] == ["r1"]


def test_an_interrupted_call_whose_tool_is_gone_is_closed() -> None:
    run = resumed(left_started("note"), tools=())
    assert outputs(run) == ["The outcome of the call is unknown: the run ended while it was running."]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([Answer("r9")], "request 'r9' is not open"),
        ([Answer("r0"), Answer("r9", ok=False)], "request 'r9' is not open"),
        ([Answer("r0"), Answer("r0", ok=False)], "request 'r0' is answered twice"),
    ],
)
def test_answers_are_taken_all_or_none(answers: list[Answer], why: str) -> None:
    run = make_run(LOOK, prompt=None, history=left_waiting("r0", "r1"))
    before = run.messages
    with pytest.raises(AnswerMismatchError, match=rf"^{why}.*Open requests: \['r0', 'r1'\]. Nothing was changed"):
        run.resume(answers, 0.0)
    assert run.messages == before


def test_the_questions_that_stay_open_are_told_again_to_whom_answers_here() -> None:
    run = make_run(LOOK, prompt=None, history=left_waiting("r0", "r1"), can_wait=True)
    (event,) = run.resume([Answer("r1")], 0.0)
    assert isinstance(event, PendingEvent)
    assert event.request.id == "r0"
    assert running(run) == ["c1"]
    settle(run, "seen")
    assert isinstance(run.next_command(), WaitFor)


def test_a_call_counts_its_questions_through_all_resumes() -> None:
    history = left_waiting("r0")
    for n in range(1, 8):
        run = resumed(history, Answer(f"r{n - 1}"))
        settle(run, asking(f"r{n}"))
        assert [request.id for request in run.result().requests] == [f"r{n}"]
        history = run.messages
    run = resumed(history, Answer("r7"))
    settle(run, asking("r8"))
    assert outputs(run) == ["The tool asked for more than 8 answers."]


def test_a_tool_that_asks_what_it_asked_in_an_earlier_run_is_told_so() -> None:
    run = resumed(left_waiting("r0"), Answer("r0"))
    settle(run, asking("r0"))
    assert outputs(run) == ["The tool asked again for request 'r0'."]


def test_what_a_failing_resume_did_not_get_to_stays_open() -> None:
    run = resumed(left_waiting("r0", "r1"), Answer("r0"))
    run.abandon()
    assert outputs(run) == ["The outcome of the call is unknown: the run ended while it was running."]
    again = resumed(run.messages, Answer("r1"))
    settle(again, ToolResult("seen"))
    say(again)
    assert outputs(again)[1] == "seen"


def test_a_call_that_waits_is_not_taken_up_when_another_is_closed_by_a_prompt() -> None:
    history = left_waiting("r0")
    (part,) = history[-1].tool_calls
    both = [part, replace(part, id="c1", name="note", state="started", request=None)]
    run = make_run(LOOK, NOTE, history=[history[0], Message("assistant", both)])
    assert running(run) == ["c1"]
    settle(run, "noted")
    assert outputs(run)[1] == "noted"
    assert run.messages[-1].text == "Hello?"


@pytest.mark.parametrize("answers", [(), (Answer("r1"),)])
def test_there_must_be_something_to_carry_on(answers: tuple[Answer, ...]) -> None:
    history = [Message("user", "Go."), Message("assistant", "Gone.")]
    with pytest.raises(AnswerMismatchError if answers else ConfigurationError):
        resumed(history, *answers)
    if not answers:
        say(resumed(history[:1]))


def test_results_go_to_their_calls_in_order_where_a_turn_has_one_id_twice() -> None:
    """As in history from elsewhere; our own calls get ids that differ."""
    asked = Message("assistant", [ToolCallPart("c", "look", {"n": n}) for n in range(3)])
    given = [Message("tool", [ToolResultPart("c", "look", (TextPart(text),))]) for text in ("first", "second")]
    run = resumed([Message("user", "Go."), asked, *given])
    assert isinstance(command := run.next_command(), RunTools)
    assert [call.args for call in command.calls] == [{"n": 2}]
    settle(run, "third")
    assert outputs(run) == ["first", "second", "third"]


def test_a_call_that_has_a_result_is_finished_whatever_its_history_says() -> None:
    asked = Message("assistant", [ToolCallPart(f"c{n}", "look", {}, state="started") for n in range(2)])
    run = make_run(LOOK, prompt=None, history=[Message("user", "Go."), asked, *left_result("c0")])
    assert [call.state for call in run.messages[1].tool_calls] == ["finished", "started"]


def left_result(id: str) -> list[Message]:
    return [Message("tool", [ToolResultPart(id, "look", (TextPart("seen"),))])]


def test_a_call_that_begins_again_does_so_with_the_models_arguments_not_with_those_of_a_hook() -> None:
    run = make_run(LOOK, is_hooked=True, can_wait=True)
    answer(run, call_chunk(("c0", "look", '{"n": 0}')))
    run.tool_admitted(0, {"n": 7})
    settle(run, asking("r1"))
    run.answer_received(Answer("r1", ok=True), 0.0)
    command = run.next_command()
    assert isinstance(command, AdmitTools)
    assert [call.args for call in command.calls] == [{"n": 0}]


def test_what_is_done_to_an_event_or_a_request_changes_nothing_that_runs() -> None:
    run = make_run(LOOK, can_wait=True)
    told, *_ = answer(run, call_chunk(("c0", "look", '{"n": 0}')))
    assert isinstance(told, ToolCallEvent)
    told.args["n"] = 9
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert [call.args for call in command.calls] == [{"n": 0}]
    settle(run, Pending("Sure?", id="r1", data={"n": 0}))
    wanted = run.next_command()
    assert isinstance(wanted, WaitFor)
    wanted.request.data["n"] = 9
    again = run.next_command()
    assert isinstance(again, WaitFor)
    assert again.request.data == {"n": 0}
