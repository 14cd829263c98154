from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, asdict, fields
from typing import Any

import pytest

from toolnexus.messages import Message, ToolCallPart
from toolnexus.results import RunResult
from toolnexus.suspension import Answer, CallJournal, GivenAnswer, Pending, Request, RequestCall, pending


def test_pending_makes_a_plain_value_of_its_arguments() -> None:
    value = pending("Which city?", "input", url="https://x.example", data={"a": [1]}, expires_at=5.0, id="r1")
    assert value == Pending("Which city?", "input", "https://x.example", {"a": [1]}, 5.0, "r1")
    assert pending("Sure?") == Pending(prompt="Sure?", kind="input", url=None, data=None, expires_at=None, id=None)


def test_the_rest_of_pendings_arguments_are_by_name_only() -> None:
    with pytest.raises(TypeError):
        pending("Sure?", "input", "https://x.example")  # type: ignore[call-arg]  # the point of the test


def test_the_members_of_a_request_are_those_of_the_documentation() -> None:
    request = Request("r1", "approval", "Sure?", call=RequestCall("c1", "look", {"a": 1}))
    assert [f.name for f in fields(request)] == ["id", "kind", "prompt", "url", "data", "expires_at", "call"]
    assert asdict(request)["call"] == {"id": "c1", "name": "look", "args": {"a": 1}}


def test_an_answer_agrees_unless_it_says_otherwise() -> None:
    assert Answer("r1") == Answer(id="r1", ok=True, data=None, reason=None)


@pytest.mark.parametrize(
    "value", [pending("Sure?"), Request("r1", "input", "Sure?"), Answer("r1"), RequestCall("c1", "look")]
)
def test_these_values_do_not_change_have_no_other_members_and_survive_pickling(value: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, "other")
    assert not hasattr(value, "__dict__")
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("what", [object(), {1, 2}, float("nan"), [float("inf")], "\ud83d", {"\ud83d": 1}, b"raw"])
def test_data_that_json_cannot_hold_is_refused_where_it_is_given(what: Any) -> None:
    for give in (lambda: Answer("r1", data=what), lambda: pending("Sure?", data=what)):
        with pytest.raises(TypeError, match="expected data that can be written as JSON"):
            give()


def test_data_that_nests_so_deep_that_no_process_could_read_it_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(169):
        deep = [deep]
    result = RunResult(
        messages=[
            Message(
                "assistant",
                [
                    ToolCallPart(
                        "c1",
                        "look",
                        {},
                        request=Request("r1", "input", "Sure?", data=pending("Sure?", data=deep).data),
                        journal=CallJournal("k", given={"tool": GivenAnswer(Answer("r1", data=deep), {})}),
                    )
                ],
            )
        ]
    )
    assert RunResult.model_validate_json(result.model_dump_json()) == result
    for _ in range(20):
        deep = [deep]
    with pytest.raises(TypeError, match="pending: expected data that can be written as JSON: recursion limit exceeded"):
        pending("Sure?", data=deep)


def test_what_is_given_is_copied_as_json_gives_it_back() -> None:
    data = {"a": (1, [2])}
    value, answer = pending("Sure?", data=data), Answer("r1", data=data)
    data["a"][1].append(3)
    assert value.data == answer.data == {"a": [1, [2]]}


@pytest.mark.parametrize(
    "options",
    [
        *({"prompt": 5}, {"prompt": "\ud83d"}, {"id": 7}, {"url": b"x"}, {"kind": None}),
        *({"expires_at": "soon"}, {"expires_at": float("nan")}, {"expires_at": float("inf")}),
    ],
)
def test_a_question_that_could_not_be_written_down_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"^pending: "):
        Pending(**{"prompt": "Sure?", **options})


@pytest.mark.parametrize("options", [{"id": 1}, {"ok": 1}, {"ok": None}, {"reason": 5}, {"reason": "\ud83d"}])
def test_an_answer_that_could_not_be_written_down_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"^Answer: expected "):
        Answer(**{"id": "r1", **options})
