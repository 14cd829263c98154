"""What is written again from memory is what would be written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus._io.body import BodyWriter
from toolnexus.errors import ConfigurationError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=3)


def plain(body: dict[str, Any]) -> Any:
    return json.loads(BodyWriter().write(body, is_shared=False).data)


@given(st.lists(OBJECTS, max_size=5), st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=4))
def test_bodies_that_share_objects_are_written_as_each_alone(objects, requests):
    writer = BodyWriter()
    for picks in requests:
        body = {"messages": [objects[pick] for pick in picks if pick < len(objects)], "a": [1, [objects]], "n": None}
        assert writer.write(body).data == BodyWriter().write(body, is_shared=False).data
        assert json.loads(writer.write(body).data) == json.loads(json.dumps(body))


def test_what_was_written_is_not_written_again():
    message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "Hi?"}]}
    writer = BodyWriter()
    first = writer.write({"messages": [message]})
    message["role"] = "a change that must not be made, and is not seen"
    assert writer.write({"messages": [message]}) == first
    message["content"][0]["text"] = "Hello?"
    assert b"Hi?" in writer.write({"messages": [message]}).data
    writer.write({"messages": []})
    assert b"Hello?" in writer.write({"messages": [message]}).data


def test_a_member_that_is_another_one_is_written_anew_and_so_is_a_list_that_grew_in_its_place():
    writer, messages = BodyWriter(), [{"n": 1}]
    assert writer.write({"model": "a", "messages": messages}).data == b'{"model":"a","messages":[{"n":1}]}'
    messages.append({"n": 2})
    assert writer.write({"model": "b", "messages": messages}).data == b'{"model":"b","messages":[{"n":1},{"n":2}]}'


def test_what_is_equal_and_not_the_same_is_written_anew():
    writer = BodyWriter()
    for value in (1, True, 1.0, [1], [True], [1.0], [{"a": 0}], [{"a": False}]):
        assert writer.write({"a": value}).data == BodyWriter().write({"a": value}, is_shared=False).data
    names: list[Any] = [1, True, 1.0]
    assert [writer.write({name: 0}).data for name in names] == [b'{"1":0}', b'{"true":0}', b'{"1.0":0}']


def test_an_object_that_changes_is_written_anew_where_none_is_shared():
    writer, message = BodyWriter(), {"text": "Hi?"}
    writer.write({"messages": [message]}, is_shared=False)
    message["text"] = "Hello?"
    assert b"Hello?" in writer.write({"messages": [message]}, is_shared=False).data


def test_keys_that_are_no_text_become_text():
    assert plain({"a": [{1: "x", None: "y"}]}) == {"a": [{"1": "x", "null": "y"}]}
    assert json.loads(BodyWriter().write({"a": [{1: "x"}], 2: [{}]}).data) == {"a": [{"1": "x"}], "2": [{}]}  # type: ignore[dict-item]  # a user's


def test_half_a_character_is_replaced():
    assert (
        BodyWriter().write({"a": [{"b": "\ud83d\ude00 \ud83d"}]}).data == '{"a":[{"b":"\U0001f600 \ufffd"}]}'.encode()
    )


@pytest.mark.parametrize("value", [float("nan"), {1}, object()])
@pytest.mark.parametrize("is_shared", [True, False])
def test_what_is_no_json_is_refused(value, is_shared):
    with pytest.raises(ConfigurationError, match="the request body is not JSON: "):
        BodyWriter().write({"a": [{"b": value}]}, is_shared=is_shared)


def test_what_has_no_end_is_refused():
    endless: list[Any] = []
    endless.append({"a": endless})
    with pytest.raises(ConfigurationError, match="the request body is not JSON: "):
        BodyWriter().write({"a": endless})


@pytest.mark.parametrize(("body", "streamed"), [({"stream": True}, True), ({"stream": False}, False), ({}, False)])
def test_it_is_known_whether_a_stream_is_asked_for(body, streamed):
    assert BodyWriter().write(body).is_streamed is streamed
