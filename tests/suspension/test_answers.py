"""Answers: in any order, one by one or together, once each, in time, and for what the human saw."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from tests.clients.harness import transcript
from tests.server import calls, says
from tests.suspension.harness import RAN, TOOLS, written, yes
from tests.suspension.model import model
from toolnexus import (
    Answer,
    BeforeTool,
    Hooks,
    Limits,
    MemoryStore,
    Pending,
    Request,
    RunResult,
    Toolkit,
    ToolResult,
    define_tool,
    pending,
    tool,
)

FOUR = [(f"c{n}", "ask", {"what": what}) for n, what in enumerate("abcd")]
ONE = [("c0", "ask", {"what": "a"})]


def outputs(result: RunResult) -> list[str]:
    return [part.output for m in result.messages if m.role == "tool" for part in m.parts]  # type: ignore[union-attr]  # a tool message holds results


def test_four_questions_are_answered_in_any_order(connect, serve):
    """All 24 orders, each one by one and together, from the store."""
    client = connect(serve(model(FOUR, "Done.")))
    seen: set[str] = set()
    for number, order in enumerate(itertools.permutations(range(4))):
        for together in (False, True):
            id = f"{number} {together}"
            result = client.run("Go.", TOOLS) if number % 2 else client.stream("Go.", TOOLS, id=id)
            where: dict[str, Any] = {} if number % 2 else {"id": id}
            answers = [yes(result.requests[n]) for n in order]
            for given in [answers] if together else [[answer] for answer in answers]:
                assert result.status == "pending"
                result = client.resume(given, TOOLS, **(where or {"result": result}))
            assert result.status == "done"
            seen.add(written(result.messages))
    assert len(seen) == 1
    assert len(RAN) == 48 * 8
    assert outputs(result) == [f"{what}: yes to {what}?" for what in "abcd"]


def test_while_one_of_two_is_answered_the_other_stays_open_and_nothing_is_sent(connect, serve):
    server = serve(model(FOUR[:2], "Done."))
    client = connect(server, store=MemoryStore())
    first = client.stream("Go.", TOOLS, id="t")
    half = client.resume(yes(first.requests[1]), TOOLS, id="t")
    assert (half.status, half.requests, half.turns) == ("pending", first.requests[:1], 0)
    assert [record.id for record in half.tool_calls] == ["c1"]
    assert transcript(half.messages)[1:] == [
        ("assistant", ("c0", "ask", {"what": "a"}, "waiting"), ("c1", "ask", {"what": "b"}, "finished")),
        ("tool", ("c1", "b: yes to b?", False)),
    ]
    assert client.conversation_store().get("t") == half.messages
    assert len(server.requests) == 1
    assert client.resume(yes(first.requests[0]), TOOLS, id="t").status == "done"
    assert len(server.requests) == 2


def test_a_finished_sibling_keeps_its_result_and_never_runs_again(connect, serve):
    client = connect(serve(model([("c0", "look", {"what": "cat"}), *FOUR[1:3]], "Done.")))
    result = client.stream("Go.", TOOLS)
    assert transcript(result.messages)[2:] == [("tool", ("c0", "cat is there", False))]
    for _ in range(2):
        result = client.resume(yes(result.requests[0]), TOOLS, result=result)
    assert outputs(result) == ["cat is there", "b: yes to b?", "c: yes to c?"]
    assert sum(name == "look" for name, *_ in RAN) == 1


def test_a_decline_is_told_to_the_model_with_its_reason(connect, serve):
    client = connect(serve(model(FOUR[:2], "Done.")))
    result = client.stream("Go.", TOOLS)
    result = client.resume([Answer("ask a", ok=False, reason="no ☕"), yes(result.requests[1])], TOOLS, result=result)
    assert transcript(result.messages)[2:4] == [
        ("tool", ("c0", "The call did not go on: declined: no ☕.", True)),
        ("tool", ("c1", "b: yes to b?", False)),
    ]
    assert RAN.count(("ask", "a", None)) == 1
    assert len(RAN) == 3


def test_an_answer_that_comes_too_late_is_used_up_and_the_tool_does_not_run(connect, serve):
    ran: list[str] = []

    @tool
    def hurry() -> Pending:
        """Ask, and have no time."""
        ran.append("hurry")
        return pending("Quick?", id="quick", expires_at=time.time() - 1)

    client = connect(serve(model([("c0", "hurry", {})], "Done.")))
    result = client.stream("Go.", Toolkit(hurry), id="t")
    result = client.resume(Answer("quick"), Toolkit(hurry), id="t")
    assert outputs(result) == ["The call did not go on: the request has expired."]
    assert result.status == "done"
    assert ran == ["hurry"]


@pytest.mark.parametrize("times", [2, 3, 8])
def test_a_call_may_ask_several_times_through_several_resumes(connect, serve, times):
    client = connect(serve(model([("c0", "insist", {"what": "x", "times": times})], "Done.")))
    result = client.stream("Go.", TOOLS, id="t")
    for n in range(1, times + 1):
        assert [request.id for request in result.requests] == [f"insist x {n}"]
        result = client.resume(yes(result.requests[0]), TOOLS, id="t")
    assert outputs(result) == [f"x after {times}"]
    assert [("insist", "x", n) for n in range(times + 1)] == RAN


@pytest.mark.parametrize("limit", [1, 3])
def test_a_call_may_not_ask_for_ever_whoever_answers_and_wherever(connect, serve, limit):
    """The same call is answered inline and by resumes, in turns; the questions are counted through."""
    server = serve(model([("c0", "insist", {"what": "x", "times": 99})], "Done."))
    limits = Limits(suspensions_per_call=limit)
    inline = connect(server, wait_for=yes, limits=limits).stream("Go.", TOOLS)
    client = connect(server, limits=limits)
    result = client.stream("Go.", TOOLS)
    for _ in range(limit):
        result = client.resume(yes(result.requests[0]), TOOLS, result=result)
    assert outputs(result) == [f"The tool asked for more than {limit} answers."]
    assert written(result.messages) == written(inline.messages)
    assert len(RAN) == 2 * (limit + 1)


# -- approval


def test_an_approved_call_runs_and_a_declined_one_does_not(connect, serve):
    client = connect(serve(model([("c0", "delete", {"path": "a"}), ("c1", "delete", {"path": "b"})], "Done.")))
    result = client.stream("Go.", TOOLS)
    assert RAN == []
    assert [(r.kind, r.prompt, r.data) for r in result.requests] == [
        ("approval", "Allow delete to run?", {"name": "delete", "args": {"path": path}}) for path in "ab"
    ]
    allow, deny = result.requests
    result = client.resume([Answer(deny.id, ok=False), Answer(allow.id)], TOOLS, result=result)
    assert outputs(result) == ["a is gone", "The call did not go on: declined."]
    assert RAN == [("delete", "a", None)]


@pytest.mark.parametrize(("amount", "kinds"), [(5, []), (500, ["approval"]), (5000, ["approval", "signature"])])
def test_a_predicate_says_which_calls_want_approval_and_the_tool_may_still_ask(connect, serve, amount, kinds):
    client = connect(serve(model([("c0", "pay", {"amount": amount})], "Done.")))
    result = client.stream("Go.", TOOLS, id="t")
    asked = []
    while result.status == "pending":
        assert result.pending is not None
        asked.append(result.pending.kind)
        result = client.resume(Answer(result.pending.id, data="X"), TOOLS, id="t")
    assert asked == kinds
    assert outputs(result) == [f"paid {amount}" + (", signed X" if amount == 5000 else "")]
    runs = [("pay", amount, None), ("pay", amount, "X")]
    assert (runs if amount == 5000 else runs[:1]) == RAN  # an approval is no answer to the tool itself


def test_arguments_that_do_not_fit_are_not_worth_a_question(connect, serve):
    client = connect(serve(model([("c0", "delete", {"file": "a"})], "Done.")))
    result = client.stream("Go.", TOOLS)
    assert result.status == "done"
    assert "The call was not run" in outputs(result)[0]


# -- for what the human saw


class Rewriting:
    """A hook that gives the call other arguments each time that it is asked."""

    def __init__(self, *paths: Any) -> None:
        self._paths = iter(paths)

    def __call__(self, call: BeforeTool) -> dict[str, Any]:
        return {"path": next(self._paths)}


def resume_by(client: Any, result: RunResult, **answer: Any) -> RunResult:
    assert result.pending is not None
    again: RunResult = client.resume(Answer(result.pending.id, **answer), TOOLS, result=result)
    return again


def test_an_approval_does_not_hold_for_arguments_that_nobody_saw(connect, serve):
    hooks = Hooks(before_tool=Rewriting("one", "two", "three", "three"))
    client = connect(serve(model([("c0", "delete", {"path": "a"})], "Done.")), hooks=hooks)
    result = client.stream("Go.", TOOLS)
    for path in ("one", "two", "three"):
        assert result.pending is not None
        assert result.pending.call is not None
        assert result.pending.call.args == {"path": path} == result.pending.data["args"]
        assert RAN == []
        result = resume_by(client, result)
    assert outputs(result) == ["three is gone"]
    assert RAN == [("delete", "three", None)]


def test_arguments_that_never_stay_the_same_never_run(connect, serve):
    hooks = Hooks(before_tool=Rewriting(*map(str, range(99))))
    client = connect(serve(model([("c0", "delete", {"path": "a"})], "Done.")), hooks=hooks)
    result = client.stream("Go.", TOOLS)
    while result.status == "pending":
        result = resume_by(client, result)
    assert outputs(result) == ["The tool asked for more than 8 answers."]
    assert RAN == []


def test_an_answer_to_a_tool_does_not_reach_it_with_other_arguments(connect, serve):
    whats = iter("xyy")
    hooks = Hooks(before_tool=lambda _: {"what": next(whats), "times": 1})
    client = connect(serve(model([("c0", "insist", {"what": "a", "times": 1})], "Done.")), hooks=hooks)
    result = client.stream("Go.", TOOLS)
    result = client.resume(Answer("insist x 1", data=1), TOOLS, result=result)
    assert [request.id for request in result.requests] == ["insist y 1"]
    result = client.resume(Answer("insist y 1", data=1), TOOLS, result=result)
    assert outputs(result) == ["y after 1"]
    assert RAN == [("insist", "x", 0), ("insist", "y", 0), ("insist", "y", 1)]


@pytest.mark.parametrize("args", [{"path": "seen", "more": (1, 2)}, {"path": "seen", "more": {"1": [None]}}])
def test_an_approval_holds_for_the_same_arguments_in_the_json_of_another_process(connect, serve, args):
    ran: list[Any] = []

    @tool(approval=True)
    def remove(path: str, more: Any = None) -> str:
        """Remove."""
        ran.append((path, more))
        return "gone"

    client = connect(serve(model([("c0", "remove", {"path": "a"})], "Done.")), hooks=Hooks(before_tool=lambda _: args))
    result = client.stream("Go.", Toolkit(remove))
    again = RunResult.model_validate_json(result.model_dump_json())
    assert again.pending is not None
    assert client.resume(Answer(again.pending.id), Toolkit(remove), result=again).status == "done"
    assert len(ran) == 1


# -- hooks that ask


def asking_first(call: BeforeTool) -> Pending:
    return pending(f"First: {call.name}?", kind="first")


def asking_second(call: BeforeTool) -> Pending | None:
    return pending(f"Second: {call.name}?", kind="second") if call.args != {"what": "b"} else None


def standing_in(call: BeforeTool) -> ToolResult | None:
    return ToolResult("stood in") if call.args == {"what": "c"} else None


def hooks_of_this_process() -> list[Hooks]:
    return [Hooks(before_tool=asking_first), Hooks(before_tool=asking_second), Hooks(before_tool=standing_in)]


def test_each_hook_asks_for_itself_and_another_process_knows_which_one_asked(connect, serve):
    """Three calls: asked by two hooks and the tool, by one and the tool, by two and then stood in for."""
    server = serve(model(FOUR[:3], "Done."))
    store = MemoryStore()
    result = connect(server, store=store, hooks=hooks_of_this_process()).stream("Go.", TOOLS, id="t")
    asked: dict[str, list[str]] = {"c0": [], "c1": [], "c2": []}
    while result.status == "pending":
        client = connect(server, store=store, hooks=hooks_of_this_process())
        request = result.requests[-1]
        assert request.call is not None
        asked[request.call.id].append(request.kind)
        result = client.resume(yes(request), TOOLS, id="t")
    assert asked == {"c0": ["first", "second", "input"], "c1": ["first", "input"], "c2": ["first", "second"]}
    assert outputs(result) == ["a: yes to a?", "b: yes to b?", "stood in"]
    assert RAN == [("ask", "b", None), ("ask", "b", "yes to b?"), ("ask", "a", None), ("ask", "a", "yes to a?")]


def test_hooks_that_are_made_alike_ask_each_for_itself(connect, serve):
    def made(word: str) -> Hooks:
        return Hooks(before_tool=lambda call: pending(word, kind=word))

    client = connect(serve(model([("c0", "look", {"what": "a"})], "Done.")), hooks=[made("one"), made("two")])
    result = client.stream("Go.", TOOLS)
    for word in ("one", "two"):
        assert [request.kind for request in result.requests] == [word]
        assert RAN == []
        result = resume_by(client, result)
    assert outputs(result) == ["a is there"]


def test_a_call_that_a_hooks_question_was_declined_for_does_not_run(connect, serve):
    client = connect(serve(model(ONE, "Done.")), hooks=hooks_of_this_process())
    result = client.stream("Go.", TOOLS)
    result = resume_by(client, result, ok=False, reason="never")
    assert outputs(result) == ["The call did not go on: declined: never."]
    assert RAN == []


# -- somebody is there for the rest


def test_with_wait_for_a_resume_answers_what_the_answers_leave_open(connect, serve):
    server = serve(model(FOUR, "Done."))
    result = connect(server).stream("Go.", TOOLS)
    asked: list[Request] = []

    def wait_for(request: Request) -> Answer:
        asked.append(request)
        return yes(request)

    seen: list[Any] = []
    client = connect(server, wait_for=wait_for)
    result = client.resume(yes(result.requests[2]), TOOLS, result=result, on_event=seen.append)
    assert result.status == "done"
    assert [request.id for request in asked] == ["ask a", "ask b", "ask d"]
    assert [event.request.id for event in seen if event.type == "pending"] == ["ask a", "ask b", "ask d"]
    assert outputs(result) == [f"{what}: yes to {what}?" for what in "abcd"]


def test_an_answer_is_on_record_before_anybody_is_asked_for_another(connect, serve):
    """Whoever is asked may take days, and the process may die meanwhile."""
    server = serve(model(FOUR[:2], "Done."))
    store = MemoryStore()
    seen: list[Any] = []

    def wait_for(request: Request) -> Answer:
        seen.append([call.state for message in store.get("t") or () for call in message.tool_calls])
        return yes(request)

    connect(server, store=store).stream("Go.", TOOLS, id="t")
    result = connect(server, store=store, wait_for=wait_for).resume(Answer("ask a", ok=False), TOOLS, id="t")
    assert seen == [["finished", "open"]]
    assert result.status == "done"


def test_an_answer_is_on_record_before_a_hook_sees_its_call_again(connect, serve):
    server = serve(model(ONE, "Done."))
    store = MemoryStore()
    seen: list[Any] = []

    def before_tool(_: BeforeTool) -> None:
        seen.append([call.request for message in store.get("t") or () for call in message.tool_calls])

    connect(server, store=store).stream("Go.", TOOLS, id="t")
    client = connect(server, store=store, hooks=Hooks(before_tool=before_tool))
    assert client.resume(Answer("ask a"), TOOLS, id="t").status == "done"
    assert seen == [[None]]


def test_two_clients_of_one_store_go_on_with_each_others_questions(connect, serve):
    server = serve(model(FOUR[:2], "Done."))
    store = MemoryStore()
    one, other = connect(server, store=store), connect(server, store=store)
    result = one.stream("Go.", TOOLS, id="t")
    result = other.resume(yes(result.requests[0]), TOOLS, id="t")
    assert one.resume(yes(result.requests[0]), TOOLS, id="t").status == "done"
    assert len(RAN) == 4


def test_a_tool_that_keeps_to_its_own_id_is_told_so_in_the_next_run_too(connect, serve):
    @tool
    def again() -> Pending:
        """Ask the same for ever."""
        return pending("Well?", id="same")

    client = connect(serve(model([("c0", "again", {})], "Done.")))
    result = client.stream("Go.", Toolkit(again), id="t")
    result = client.resume(Answer("same"), Toolkit(again), id="t")
    assert outputs(result) == ["The tool asked again for request 'same'."]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (True, "wait_for gave bool, not an Answer"),
        (None, "wait_for gave NoneType, not an Answer"),
        (Answer("other"), "the answer names request 'other', not 'ask a'"),
    ],
)
def test_what_is_no_answer_is_told_to_the_programmer_too(connect, serve, caplog, given, why):
    server = serve(calls(("c1", "ask", '{"id": "ask a"}')), says("Well."))

    def ask(id: str) -> object:
        return pending("Sure?", id=id)

    result = connect(server, wait_for=lambda request: given).run("Go.", Toolkit(define_tool(ask)))
    assert result.tool_calls[0].output == f"The call did not go on: {why}."
    assert f"request 'ask a' is not answered: {why}" in caplog.text
