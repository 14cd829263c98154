from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from toolnexus.messages import (
    ImagePart,
    Message,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from toolnexus.results import RunResult, ToolCallRecord, Usage
from toolnexus.suspension import Answer, CallJournal, GivenAnswer, Request, RequestCall

REQUEST = Request("r1", "approval", "Sure?", "https://x.example", [1, None], 5.5, RequestCall("c2", "look", {"b": 2}))
JOURNAL = CallJournal("k/1/0", ("r0", "r1"), "approval", {"hook 0 f": GivenAnswer(Answer("r0", data=[1.0]), {"b": 2})})
FULL = RunResult(
    text="Done ☕",
    messages=[
        Message("user", [TextPart("Look: "), ImagePart(data=bytes(range(256)), media_type="image/png")]),
        Message(
            "assistant",
            [
                ReasoningPart("Hm.", "openai:x", {"field": "reasoning"}),
                TextPart("I look."),
                ToolCallPart(
                    "c1", "look", {"a": [1, {"b": None}]}, state="finished", origin="openai:x", extra={"s": 1}
                ),
                ToolCallPart("c2", "look", {}, raw="{", error="no JSON", request=REQUEST, journal=JOURNAL),
                OpaquePart({"type": "block"}, "openai:x"),
            ],
        ),
        Message("tool", [ToolResultPart("c1", "look", (ImagePart(data=b"\xff\xfe", media_type="image/gif"),), True)]),
    ],
    tool_calls=[ToolCallRecord("c1", "look", {"a": [1]}, "out", True, {"m": 1}, 0.5)],
    turns=2,
    usage=Usage(1, 2, 3, 4, 5, 6, ({"prompt_tokens": 1},)),
    model="m-1",
    status="pending",
    limit="max_turns",
    finish_reason="tool_calls",
    requests=[REQUEST],
    id="conv",
    request_ids=["req_1"],
)


def test_a_result_comes_back_from_json_as_it_was_images_and_open_requests_included() -> None:
    text = FULL.model_dump_json()
    assert RunResult.model_validate_json(text) == FULL
    assert RunResult.model_validate_json(json.dumps(json.loads(text), indent=1)) == FULL


def test_a_result_comes_back_from_plain_python_data() -> None:
    assert RunResult.model_validate(FULL.model_dump()) == FULL


def test_a_result_survives_pickling_and_copying() -> None:
    assert pickle.loads(pickle.dumps(FULL)) == FULL
    assert copy.deepcopy(FULL) == FULL


def test_a_result_does_not_change_and_has_no_other_members() -> None:
    result: Any = RunResult()
    with pytest.raises(ValidationError):
        result.text = "other"
    with pytest.raises(ValidationError):
        RunResult.model_validate({"nonsense": 1})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there are objects in JSON that have fields; what is inside of the open ones is anybody's."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            if key not in OPEN:
                yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


OPEN = {"args", "extra", "data", "given", "metadata", "raw"}
PLAIN = json.loads(FULL.model_dump_json())


@pytest.mark.parametrize("path", list(places(PLAIN)), ids=str)
def test_a_field_that_is_not_known_is_refused_wherever_it_stands(path: tuple[Any, ...]) -> None:
    plain = copy.deepcopy(PLAIN)
    place = plain
    for step in path:
        place = place[step]
    place["later"] = None
    with pytest.raises(ValidationError, match=r"later\n"):
        RunResult.model_validate_json(json.dumps(plain))


def test_a_kind_of_part_that_is_not_known_is_refused_by_its_name() -> None:
    with pytest.raises(ValidationError, match="'video'"):
        RunResult.model_validate_json('{"messages": [{"role": "user", "parts": [{"type": "video"}]}]}')


def test_a_result_says_its_version_and_a_newer_one_is_refused_by_it() -> None:
    assert PLAIN["version"] == 1
    with pytest.raises(ValidationError, match="expected version 1 of a RunResult, got 2; a newer"):
        RunResult.model_validate_json(json.dumps(PLAIN | {"version": 2, "later": 1}))


def test_results_do_not_share_their_lists() -> None:
    one, other = RunResult(), RunResult()
    one.messages.append(Message("user", "Hi"))
    assert other.messages == []


def test_the_first_open_request_is_the_pending_one() -> None:
    assert FULL.pending == REQUEST
    assert RunResult().pending is None


def test_an_unknown_count_plus_a_number_is_the_number_and_two_unknown_ones_stay_unknown() -> None:
    total = Usage(prompt_tokens=5, raw=({"a": 1},)) + Usage(prompt_tokens=2, completion_tokens=3, raw=({"b": 2},))
    assert total == Usage(prompt_tokens=7, completion_tokens=3, raw=({"a": 1}, {"b": 2}))
    assert total.total_tokens is None
    assert Usage() + Usage() == Usage()
    assert Usage(cached_tokens=0) + Usage() == Usage(cached_tokens=0)


counts = st.none() | st.integers(0, 10**9)
usages = st.builds(Usage, counts, counts, counts, counts, counts, counts)


@given(usages, usages, usages)
def test_usage_adds_up_in_any_grouping(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Usage() == a


def test_every_count_of_a_usage_is_added_up():
    counts = [field.name for field in dataclasses.fields(Usage) if field.name != "raw"]
    one, other = ({name: base + place for place, name in enumerate(counts)} for base in (1, 100))
    total = Usage(**one, raw=({"a": 1},)) + Usage(**other, raw=({"b": 2},))
    assert total == Usage(**{name: one[name] + other[name] for name in counts}, raw=({"a": 1}, {"b": 2}))
