from __future__ import annotations

import contextlib
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.scripted import answer, call_chunk, make_run, make_tool, sse
from tests.tables import json_cases
from toolnexus._core.commands import RunTools, SendRequest
from toolnexus._core.payload import (
    MAX_DEPTH,
    UnreadableArguments,
    check_depth,
    clean,
    excerpt,
    parse_arguments,
    parse_payload,
    well_formed,
)
from toolnexus.errors import ProtocolError
from toolnexus.events import ToolCallEvent

CASES = json_cases()
every_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def plainly_read(data: bytes) -> Any:
    """What Python's own reader makes of it, with lone surrogates replaced."""
    return clean(json.loads(data.decode("utf-8", "replace")))


def test_the_table_is_whole() -> None:
    assert len(CASES) == 84
    assert {case["stream"] for case in CASES} == {"accept", "error"}
    assert {case["args"] for case in CASES} == {"object", "refuse"}


@every_case
def test_as_a_payload_it_is_an_object_or_an_error_with_a_short_message(case: dict[str, Any]) -> None:
    if case["stream"] == "accept":
        assert clean(parse_payload(case["bytes"])) == plainly_read(case["bytes"])
        return
    with pytest.raises(ProtocolError) as caught:
        parse_payload(case["bytes"])
    assert 20 < len(str(caught.value)) < 1200


@every_case
def test_as_arguments_it_is_an_object_or_refused_with_a_short_message(case: dict[str, Any]) -> None:
    text = case["bytes"].decode("utf-8", "replace")
    if case["args"] == "object":
        expected = {} if text.strip() in ("", "null") else plainly_read(case["bytes"])
        assert parse_arguments(text) == expected
        return
    with pytest.raises(UnreadableArguments) as caught:
        parse_arguments(text)
    assert len(str(caught.value)) < 300


@every_case
def test_as_the_arguments_of_a_call_in_a_stream_it_runs_or_the_model_is_told(case: dict[str, Any]) -> None:
    text = case["bytes"].decode("utf-8", "replace")
    run = make_run(make_tool())
    events = answer(run, call_chunk(("c1", "look", text)))
    (call,) = (event for event in events if isinstance(event, ToolCallEvent))
    command = run.next_command()
    if text == "{}{}":  # in a stream the first one is a placeholder that some servers send
        text = "{}"
    if case["args"] == "object" or text == "{}":
        assert call.error is None
        assert isinstance(command, RunTools)
        assert command.calls[0].args == parse_arguments(text)
        return
    assert call.args == {}
    assert call.error
    assert isinstance(command, SendRequest)
    assert run.messages[-2].tool_calls[0].raw == text
    sent = run.body(command.request)["messages"]
    assert sent[-2]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert call.error in sent[-1]["content"]


@every_case
def test_as_an_event_of_a_stream_it_is_read_or_ends_the_response(case: dict[str, Any]) -> None:
    if b"\n" in case["bytes"] or b"\r" in case["bytes"] or not case["bytes"].strip():
        return  # those are several lines of an event stream, or a heartbeat
    run = make_run()
    run.response_opened(200, {}, 0.0)
    run.receive(sse({"choices": []}))
    body = b"data: " + case["bytes"] + b"\n\n" + sse("[DONE]")
    if case["stream"] == "accept":
        run.receive(body)
        run.response_ended()
    else:
        with pytest.raises(ProtocolError):
            run.receive(body)


def test_the_payload_in_an_error_is_cut_and_its_size_is_told() -> None:
    with pytest.raises(ProtocolError, match=r"… \(100002 bytes\)"):
        parse_payload(b'["' + b"x" * 99_998 + b'"]')
    assert excerpt(b"x" * 200) == repr("x" * 200)
    assert excerpt(b"\xff\n", length=5) == repr("\ufffd\n")


def test_a_long_key_that_comes_twice_is_cut_in_the_message() -> None:
    key = json.dumps("k" * 10_000)
    with pytest.raises(UnreadableArguments, match="comes twice") as caught:
        parse_arguments(f"{{{key}: 1, {key}: 2}}")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[1]", "an array"),
        ('"x"', "a string"),
        ("1", "a number"),
        ("1.5", "a number"),
        ("true", "a boolean"),
        (" [ null ] ", "an array"),
    ],
)
def test_arguments_of_another_kind_are_named(text: str, kind: str) -> None:
    with pytest.raises(UnreadableArguments, match=f"must be a JSON object, not {kind}"):
        parse_arguments(text)


@pytest.mark.parametrize("text", ["", " \n", "null", " null "])
def test_nothing_and_null_mean_no_arguments(text: str) -> None:
    assert parse_arguments(text) == {}


def test_arguments_are_exact() -> None:
    assert parse_arguments('{"n": 12345678901234567890123, "f": 0.1}') == {"n": 12345678901234567890123, "f": 0.1}
    assert parse_arguments('{"a": "\\ud83d\\ude00", "b": ["\\ud83d"]}') == {"a": "😀", "b": ["\ufffd"]}


# -- text without surrogates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("é☕😀", "é☕😀"),
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("x\udc80y", "x\ufffdy"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
    ],
)
def test_halves_are_joined_and_lone_ones_replaced(text: str, expected: str) -> None:
    assert well_formed(text) == expected


any_text = st.text(st.characters(exclude_categories=()))


@given(any_text)
def test_text_is_well_formed_once_and_for_all(text: str) -> None:
    out = well_formed(text)
    assert out.encode().decode() == out == well_formed(out)
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert out == text


def test_clean_reaches_every_corner() -> None:
    value = {"\ud800": ["\ud83d", {"x": "\ude00"}, float("inf"), float("-inf"), 1.5, 10**400, None, True]}
    assert clean(value) == {"\ufffd": ["\ufffd", {"x": "\ufffd"}, None, None, 1.5, 10**400, None, True]}


# -- depth


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", 0),
        ("{}", 0),
        ("[[]", 1),
        ('{"a": [', 2),
        ('{"a": "x', 2),
        ('{"a": "x\\"', 2),
        ('{"a": "x\\\\"', 1),
        ('{"a": "[[["}', 0),
        ('{"a": "\\"[["}', 0),
        ('"', 1),
        ('"\\"', 1),
        ('""', 0),
        ("}", -1),
        ("12", 0),
    ],
)
def test_brackets_and_strings_that_are_open_at_the_end_are_counted(text: str, left: int) -> None:
    assert check_depth(text) == left


def test_what_nests_too_deep_is_refused_before_a_recursive_reader_sees_it() -> None:
    assert check_depth("[" * MAX_DEPTH) == MAX_DEPTH
    with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH} levels"):
        check_depth("[" * (MAX_DEPTH + 1))
    with pytest.raises(ValueError, match="deeper"):
        check_depth("[" * 1_000_000)
    assert check_depth('"' + "[" * 1_000_000 + '"') == 0


@pytest.mark.parametrize("inside", ["x" * 200_000, '\\"' * 100_000])
def test_a_long_text_is_looked_at_in_little_memory(inside: str) -> None:
    text = f'["{inside}"'
    tracemalloc.start()
    try:
        assert check_depth(text) == 1
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(any_text.map(well_formed), json_values, max_size=5), st.booleans())
@example({"a": "\ud83d\ude00"}, True)
def test_any_object_comes_back_as_payload_and_as_arguments(value: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert clean(parse_payload(text.encode("utf-8", "replace"))) == clean(json.loads(text.encode("utf-8", "replace")))
    assert check_depth(text) == 0
    if text == json.dumps(clean(value), ensure_ascii=ascii_only):
        assert parse_arguments(text) == clean(value)
    else:  # the surrogates may be in keys, which are refused
        with contextlib.suppress(UnreadableArguments):
            assert parse_arguments(text) == clean(value)


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3), st.data())
def test_an_object_that_is_cut_is_never_read_and_known_to_be_cut(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    assert check_depth(cut) > 0
    with pytest.raises(UnreadableArguments):
        parse_arguments(cut)
    with pytest.raises(ProtocolError):
        parse_payload(cut.encode())
