from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, asdict, fields
from typing import Any

import pytest

from toolnexus.suspension import Answer, Pending, Request, RequestCall, pending


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
