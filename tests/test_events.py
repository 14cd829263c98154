from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_results import FULL, REQUEST
from toolnexus.errors import ConfigurationError
from toolnexus.events import (
    DoneEvent,
    PendingEvent,
    ReasoningEvent,
    StreamEvent,
    TextEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
    event_from_dict,
    event_from_json,
    event_to_dict,
    event_to_json,
)
from toolnexus.results import Usage

EVENTS: list[StreamEvent] = [
    TextEvent("Hé\u2028llo"),
    ReasoningEvent("Hm."),
    ToolCallEvent("c1", "look", {"a": [1, {"b": None}], "type": "text"}, "no JSON"),
    ToolCallEvent("c1", "look", {}),
    ToolResultEvent("c1", "look", "out", True),
    UsageEvent(Usage(1, None, 3, raw=({"prompt_tokens": 1, "cost": 0.5},))),
    PendingEvent(REQUEST),
    DoneEvent(FULL),
]
every_event = pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)


def test_every_class_of_event_is_tested_and_has_a_type_of_its_own() -> None:
    classes = get_args(StreamEvent)
    assert {type(event) for event in EVENTS} == set(classes)
    assert len({cls.type for cls in classes}) == len(classes) == 7


@every_event
def test_an_event_does_not_change_and_has_no_other_members(event: StreamEvent) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(event, fields(event)[0].name, "other")
    assert not hasattr(event, "__dict__")


@every_event
def test_an_event_survives_pickling(event: StreamEvent) -> None:
    assert pickle.loads(pickle.dumps(event)) == event


@every_event
def test_an_event_becomes_plain_data_with_its_type_first_and_comes_back(event: StreamEvent) -> None:
    data = event_to_dict(event)
    assert next(iter(data.items())) == ("type", event.type)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert event_from_dict(data) == event
    assert data["type"] == event.type  # and is left as it was


@every_event
def test_an_event_becomes_one_line_of_json_and_comes_back(event: StreamEvent) -> None:
    text = event_to_json(event)
    assert "\n" not in text
    assert event_from_json(text) == event
    assert event_from_json(text.encode()) == event


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back(text: str) -> None:
    assert event_from_json(event_to_json(TextEvent(text))) == TextEvent(text)


@pytest.mark.parametrize("data", [{}, {"type": "nonsense"}, {"type": None}, {"type": ["text"]}, {"delta": "x"}])
def test_data_of_an_unknown_type_is_refused_and_the_known_types_are_named(data: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"expected an event with a type of .*'text'.*, got"):
        event_from_dict(data)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "text"},
        {"type": "text", "delta": 5},
        {"type": "text", "delta": "x", "nonsense": 1},
        {"type": "tool_call", "id": "c1", "name": "look", "args": []},
        {"type": "pending", "request": {"id": "r1"}},
        {"type": "done", "result": {"status": "nonsense"}},
        {"type": "done", "result": {"messages": [{"role": "user", "parts": [{"type": "nonsense"}]}]}},
    ],
)
def test_data_that_does_not_fit_its_type_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"not a '{data['type']}' event: "):
        event_from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "[]", '"text"', "null"])
def test_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected a JSON object"):
        event_from_json(text)
