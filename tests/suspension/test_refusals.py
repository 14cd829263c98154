"""What `resume` refuses it refuses before anything happens: no request, no tool, the store and the result as before."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from tests.clients.harness import Client, transcript
from tests.server import failure
from tests.suspension.harness import RAN, TOOLS, ask, look, yes
from tests.suspension.model import model
from toolnexus import (
    Answer,
    AnswerMismatchError,
    ConfigurationError,
    Hooks,
    MemoryStore,
    Message,
    RunResult,
    SQLiteStore,
    StoreError,
    Toolkit,
)

TWO = [("c0", "ask", {"what": "a"}), ("c1", "ask", {"what": "b"})]


class Watched(MemoryStore):
    """Counts its saves."""

    saves = 0

    def commit(self, id: str, base: Any, messages: Sequence[Message], /) -> Any:
        self.saves += 1
        return super().commit(id, base, messages)


class Waiting:
    """A run with two open questions, and whatever must not change."""

    def __init__(self, connect: Any, serve: Any, **options: Any) -> None:
        self.server = serve(model(TWO, "Done."))
        self.store = Watched()
        self.client: Client = connect(self.server, store=self.store, **options)
        self.result = self.client.stream("Go.", TOOLS, id="t")
        self.alone = self.client.stream("Go.", TOOLS)
        self.before = self.state()

    def state(self) -> Any:
        return copy.deepcopy((self.store.get("t"), self.store.saves, self.result, self.alone, RAN)), self.asked()

    def asked(self) -> int:
        return len(self.server.requests)

    def refuses(self, kind: type[Exception], words: str, answers: Any, toolkit: Any = TOOLS, **where: Any) -> None:
        before = self.state()
        for method in ("resume", "resume_stream"):
            with pytest.raises(kind, match=words):
                list(getattr(self.client, method)(answers, toolkit, **where))
            assert self.state() == before


@pytest.fixture(params=["nobody waits", "somebody waits"])
def waiting(request: pytest.FixtureRequest, connect: Any, serve: Any) -> Waiting:
    made = Waiting(connect, serve)
    if request.param == "somebody waits":  # the same refusals where the rest would be answered inline
        made.client = connect(made.server, store=made.store, wait_for=yes)
    return made


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (Answer("ask z"), r"request 'ask z' is not open.*Open requests: \['ask a', 'ask b'\]. Nothing was changed"),
        ([Answer("ask a"), Answer("ask z")], "'ask z' is not open"),
        ([Answer("ask a"), Answer("ask a")], "'ask a' is answered twice"),
        ([Answer("ask a"), Answer("ask a", ok=False)], "'ask a' is answered twice"),
        (Answer(""), "'' is not open"),
        (Answer("c0"), "'c0' is not open"),
    ],
)
def test_an_answer_that_fits_no_open_request(waiting, answers, words):
    waiting.refuses(AnswerMismatchError, words, answers, id="t")
    waiting.refuses(AnswerMismatchError, words, answers, result=waiting.alone)
    waiting.refuses(AnswerMismatchError, words, answers, result=waiting.result)


def test_an_answer_that_was_used(waiting):
    waiting.client.resume(Answer("ask a", data=1), TOOLS, id="t", deadline=60)
    waiting.refuses(AnswerMismatchError, "request 'ask a' is not open", Answer("ask a"), id="t")
    waiting.refuses(AnswerMismatchError, "'ask a' is not open", Answer("ask a"), result=waiting.result)


def test_a_conversation_that_is_over(waiting):
    answers = [Answer("ask a", data=1), Answer("ask b", data=1)]
    waiting.client.resume(answers, TOOLS, id="t")
    waiting.refuses(AnswerMismatchError, "'ask a' is not open: the conversation waits for no answer", answers, id="t")
    waiting.refuses(ConfigurationError, "the conversation has nothing to carry on; send it a prompt", [], id="t")


def test_a_conversation_that_is_not_there(waiting):
    waiting.refuses(AnswerMismatchError, "there is no conversation 'other'", Answer("ask a"), id="other")
    waiting.refuses(AnswerMismatchError, "there is no conversation 'other'", [], id="other")
    waiting.refuses(AnswerMismatchError, "the conversation is empty", Answer("ask a"), result=RunResult())
    assert waiting.store.get("other") is None


def test_a_toolkit_without_the_tool(waiting):
    words = "toolkit: the call 'c0' of the conversation is to go on, but its tool 'ask' is not among"
    for toolkit in (None, Toolkit(look)):
        waiting.refuses(ConfigurationError, words, Answer("ask a"), toolkit, id="t")
        waiting.refuses(ConfigurationError, words, Answer("ask a"), toolkit, result=waiting.alone)


def test_no_tool_is_needed_for_a_decline(connect, serve):
    waiting = Waiting(connect, serve)
    result = waiting.client.resume([Answer("ask a", ok=False), Answer("ask b", ok=False)], id="t")
    assert result.status == "done"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "resume: expected either id=, of a conversation in the store, or result="),
        ({"id": "t", "result": RunResult()}, "resume: expected either id="),
        ({"result": "{}"}, "result: expected a RunResult, got str; RunResult.model_validate_json reads one"),
        ({"id": ""}, "id: expected a conversation id"),
        ({"id": "t", "history": []}, "history: cannot be given"),
        ({"result": RunResult(messages=[Message("user", "Hi.")]), "history": []}, "history: cannot be given to resume"),
        ({"id": "t", "deadline": -1}, "deadline"),
    ],
)
def test_arguments_that_cannot_work(waiting, given, words):
    waiting.refuses(ConfigurationError, words, Answer("ask a"), **given)


@pytest.mark.parametrize("answers", [None, "ask a", {"id": "ask a"}, [{"id": "ask a"}], [Answer("ask a"), None], 5])
def test_what_is_no_answer(waiting, answers):
    waiting.refuses(ConfigurationError, "answers: expected an Answer, or a list of them", answers, id="t")


def test_a_toolkit_that_is_none(waiting):
    waiting.refuses(ConfigurationError, "toolkit: expected a Toolkit", Answer("ask a"), [ask], id="t")


# -- what goes wrong later


class Failing(MemoryStore):
    """Fails at its n-th save, once."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def commit(self, id: str, base: Any, messages: Sequence[Message], /) -> Any:
        self.at -= 1
        if self.at == 0:
            raise OSError("disk full")
        return super().commit(id, base, messages)


def test_an_answer_that_could_not_be_put_on_record_may_be_given_again(connect, serve):
    store = Failing(at=0)
    client = connect(serve(model(TWO, "Done.")), store=store)
    client.stream("Go.", TOOLS, id="t")
    RAN.clear()
    store.at = 1
    with pytest.raises(StoreError, match="disk full"):
        client.resume(Answer("ask a", data=1), TOOLS, id="t")
    assert RAN == []
    client.resume([Answer("ask a", data=1), Answer("ask b", data=2)], TOOLS, id="t")
    assert sorted(RAN) == [("ask", "a", 1), ("ask", "b", 2)]


def test_a_tool_that_ran_but_could_not_be_recorded_does_not_run_again(connect, serve):
    store = Failing(at=0)
    client = connect(serve(model(TWO, "Done.")), store=store)
    client.stream("Go.", TOOLS, id="t")
    RAN.clear()
    store.at = 2
    with pytest.raises(StoreError) as caught:
        client.resume(Answer("ask a", data=1), TOOLS, id="t")
    assert RAN == [("ask", "a", 1)]
    assert caught.value.result is not None
    assert ("tool", ("c0", "a: 1", False)) in transcript(caught.value.result.messages)
    with pytest.raises(AnswerMismatchError):
        client.resume(Answer("ask a", data=1), TOOLS, id="t")
    result = client.resume(Answer("ask b", data=2), TOOLS, id="t")
    assert RAN == [("ask", "a", 1), ("ask", "b", 2)]
    assert transcript(result.messages)[2] == (
        "tool",
        ("c0", "The outcome of the call is unknown: the run ended while it was running.", True),
    )


def test_a_resume_that_fails_in_a_hook_leaves_the_other_questions_open(connect, serve):
    failing = [True]

    def before_tool(call: Any) -> None:
        if failing[0]:
            raise RuntimeError("not now")

    server = serve(model(TWO, "Done."))
    store = MemoryStore()
    result = connect(server, store=store).stream("Go.", TOOLS, id="t")
    client = connect(server, store=store, hooks=Hooks(before_tool=before_tool))
    with pytest.raises(RuntimeError, match="not now"):
        client.resume(Answer("ask a", data=1), TOOLS, id="t")
    failing[0] = False
    result = client.resume(Answer("ask b", data=2), TOOLS, id="t")
    assert result.status == "done"
    assert transcript(result.messages)[2:4] == [
        ("tool", ("c0", "The call was not run: the run ended before.", True)),
        ("tool", ("c1", "b: 2", False)),
    ]


def test_a_request_that_fails_after_the_tools_ran_can_be_made_again_without_an_answer(connect, serve):
    broken = [True]
    says = model(TWO, "Done.")

    def answer(request: Any) -> Any:
        return failure(400) if broken[0] and len(request.json["messages"]) > 1 else says(request)

    client = connect(serve(answer))
    result = client.stream("Go.", TOOLS, id="t")
    with pytest.raises(Exception, match="no luck") as caught:
        client.resume(list(map(yes, result.requests)), TOOLS, id="t")
    broken[0] = False
    assert caught.value.result is not None  # type: ignore[attr-defined]  # of every error of ours
    ran = len(RAN)
    other = client.resume([], TOOLS, result=caught.value.result.model_copy(update={"id": None}))  # type: ignore[attr-defined]  # of every error of ours
    assert client.resume([], TOOLS, id="t").messages == other.messages
    assert other.text == "Done."
    assert len(RAN) == ran


# -- a prompt instead of an answer


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_a_prompt_closes_what_is_open_and_its_answer_comes_too_late(connect, serve, tmp_path, style):
    """The model refuses a transcript that the API would refuse."""
    server = serve(model([("c0", "look", {"what": "cat"}), *TWO[1:]], "Never mind.", "Hello again."))
    store = SQLiteStore(tmp_path / "t.db")
    client = connect(server, style=style, store=store)
    client.stream("Go.", TOOLS, id="t")
    result = client.ask("Forget it.", TOOLS, id="t")
    assert transcript(result.messages)[1:6] == [
        ("assistant", ("c0", "look", {"what": "cat"}, "finished"), ("c1", "ask", {"what": "b"}, "finished")),
        ("tool", ("c0", "cat is there", False)),
        ("tool", ("c1", "The call waited for an answer that did not come; the conversation went on without it.", True)),
        ("user", "Forget it."),
        ("assistant", "Never mind."),
    ]
    assert result.tool_calls == []
    with pytest.raises(AnswerMismatchError, match="'ask b' is not open"):
        client.resume(Answer("ask b"), TOOLS, id="t")
    assert store.get("t") == result.messages
    assert client.ask("Hello.", TOOLS, id="t").text == "Hello again."
    assert sorted(name for name, *_ in RAN) == ["ask", "look"]  # side by side


def test_a_prompt_after_half_of_the_answers_closes_the_other_half(connect, serve):
    client = connect(serve(model(TWO, "Never mind.")))
    client.stream("Go.", TOOLS, id="t")
    client.resume(Answer("ask b", data=2), TOOLS, id="t")
    result = client.ask("Forget it.", id="t")
    assert [(p.id, p.is_error) for m in result.messages if m.role == "tool" for p in m.parts] == [
        ("c0", True),
        ("c1", False),
    ]


def test_a_pending_result_is_history_like_any_other(connect, serve):
    client = connect(serve(model(TWO, "Never mind.")))
    waits = client.stream("Go.", TOOLS)
    result = client.run("Forget it.", history=waits.messages)
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "tool", "user", "assistant"]


def test_a_prompt_that_fails_still_closes_the_calls_and_stays(connect, serve):
    def answer(request: Any) -> Any:
        return failure(400) if len(request.json["messages"]) > 1 else model(TWO)(request)

    client = connect(serve(answer))
    client.stream("Go.", TOOLS, id="t")
    with pytest.raises(Exception, match="no luck"):
        client.ask("Forget it.", TOOLS, id="t")
    messages = client.conversation_store().get("t")
    assert [m.role for m in messages] == ["user", "assistant", "tool", "tool", "user"]
