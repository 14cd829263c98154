"""Messages as JSON: all of it comes back, and what cannot is refused with its place."""

from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus import (
    Answer,
    ConfigurationError,
    ImagePart,
    Message,
    Request,
    TextPart,
    ToolCallPart,
    messages_from_json,
    messages_to_json,
)
from toolnexus.stores.codec import read_message, write_message
from toolnexus.stores.records import Misfit, form_of
from toolnexus.testing.transcripts import every_part

# Two halves of a surrogate pair that stand side by side become one character, in JSON as elsewhere.
texts = st.text(st.characters(exclude_categories=())).filter(
    lambda s: s == s.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def call(**args: Any) -> Message:
    return Message("assistant", [ToolCallPart("c1", "look", args)])


def asks(data: Any) -> Message:
    return Message("assistant", [ToolCallPart("c1", "look", {}, request=Request("r1", "input", "?", data=data))])


def document(*messages: Any, version: Any = 1) -> str:
    return json.dumps({"version": version, "messages": messages})


def user(**part: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [part]}


@given(values)
def test_json_values_come_back_as_they_were(value: Any):
    message = Message(
        "assistant", [ToolCallPart("c1", "look", {"value": value}), TextPart(repr(value), extra={"v": value})]
    )
    (back,) = messages_from_json(messages_to_json([message]))
    assert repr(back) == repr(message)
    assert back == message
    assert back.tool_calls[0].args["value"] == value


@given(texts)
def test_text_comes_back_as_it_was_and_the_json_can_be_encoded(text: str):
    written = messages_to_json([Message("user", text)])
    assert messages_from_json(written.encode("utf-8"))[0].text == text


def test_every_part_comes_back_whole():
    assert messages_from_json(messages_to_json(every_part())) == every_part()
    assert messages_from_json(messages_to_json([])) == []


def test_the_json_has_the_fields_names_and_leaves_defaults_out():
    message = Message("assistant", [TextPart("é"), ToolCallPart("c1", "look", {}, state="started")])
    assert messages_to_json([message]) == (
        '{"version":1,"messages":[{"role":"assistant","parts":['
        '{"type":"text","text":"é"},{"type":"tool_call","id":"c1","name":"look","args":{},"state":"started"}]}]}'
    )
    image = Message("user", [ImagePart(data=b"\xfb\xff\x00", media_type="image/png")])
    assert json.loads(messages_to_json([image]))["messages"][0]["parts"] == [
        {"type": "image", "data": "+/8A", "media_type": "image/png"}
    ]


def test_two_halves_of_a_pair_become_the_character():
    assert messages_from_json(messages_to_json([Message("user", "\ud83d\ude00\ud83d")]))[0].text == "😀\ud83d"


def test_tuples_in_json_values_become_lists():
    (back,) = messages_from_json(messages_to_json([asks((1, {"a": (2,)}))]))
    assert back.tool_calls[0].request == Request("r1", "input", "?", data=[1, {"a": [2]}])


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


def test_values_that_are_also_plain_ones_are_written_as_those():
    (back,) = messages_from_json(messages_to_json([call(colour=Colour.RED, level=Level.LOW)]))
    args = back.tool_calls[0].args
    assert args == {"colour": "red", "level": 1}
    assert [type(value) for value in args.values()] == [str, int]


PLACE = "messages[0].parts[0]"
IMAGE = ImagePart(data=bytearray(b"x"), media_type="image/png")  # type: ignore[arg-type]  # the point of the test
CALL = {"type": "tool_call", "id": "c", "name": "n", "args": {}}
RESULT = {"type": "tool_result", "id": "c", "name": "n", "content": []}
ASKED = {"id": "r", "kind": "k", "prompt": "p"}
TWICE = '{"version":1,"messages":[{"role":"user","role":"tool","parts":[]}]}'


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (call(when=datetime.date(2026, 1, 1)), f"{PLACE}.args['when']: expected a JSON value, got a date"),
        (call(a=[0, {"b": float("nan")}]), f"{PLACE}.args['a'][1]['b']: JSON has no nan"),
        (asks(float("-inf")), f"{PLACE}.request.data: JSON has no -inf"),
        (asks({1: 2}), f"{PLACE}.request.data: expected keys that are strs, got 1"),
        (asks(Answer("r1")), f"{PLACE}.request.data: expected a JSON value, got an Answer"),
        (asks(b"x"), f"{PLACE}.request.data: expected a JSON value, got bytes"),
        (asks({"x"}), f"{PLACE}.request.data: expected a JSON value, got a set"),
        (call(n=10**5000), "messages[0]: Exceeds the limit"),
        (Message("user", [TextPart(None)]), f"{PLACE}.text: expected a str, got None"),  # type: ignore[arg-type]  # a wrong type is the point
        (Message("user", [ToolCallPart("c", "n", [])]), f"{PLACE}.args: expected a dict, got a list"),  # type: ignore[arg-type]  # a wrong type is the point
        (Message("user", [IMAGE]), f"{PLACE}.data: expected bytes or None"),
        ({"role": "user"}, "messages[0]: expected a Message, got a dict"),
    ],
)  # fmt: skip
def test_what_json_cannot_say_is_refused_with_its_place(message: Any, problem: str):
    with pytest.raises(ConfigurationError) as caught:
        messages_to_json([message])
    assert str(caught.value).startswith(problem)


def test_the_message_that_cannot_be_written_is_numbered():
    with pytest.raises(ConfigurationError, match=r"^messages\[2\]\.parts\[0\]\.args\['x'\]: "):
        messages_to_json([call(), call(), call(x=object())])


@pytest.mark.parametrize("make", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_values_that_never_end_are_refused(make: Any):
    value: Any = None
    for _ in range(100_000):
        value = make(value)
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        messages_to_json([asks(value)])
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        messages_from_json("[" * 100_000)
    while value:  # let go of it level by level
        value = value[0] if isinstance(value, list) else value["a"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected JSON: "),
        (b"\xff", "expected JSON: 'utf-8' codec can't decode"),
        ("[]", "expected an object with 'version' and 'messages'"),
        ('{"version":1}', "expected an object with 'version' and 'messages'"),
        ('{"version":1,"messages":[],"more":0}', "expected an object with 'version' and 'messages'"),
        (document(version=2), "expected version 1, got 2; a newer toolnexus may read it"),
        (document(version="1"), "expected version 1, got '1'"),
        (document(version=True), "expected version 1, got True"),
        ('{"version":1,"messages":{}}', "messages: expected a list, got {}"),
        (document([]), "messages[0]: expected a dict, got a list"),
        (document(user(type="text", text="x"), {"role": "user"}), "messages[1]: Message needs 'parts'"),
        (document({"role": "robot", "parts": []}), "messages[0].role: expected 'system' or"),
        (document({"role": "user", "parts": {}}), "messages[0].parts: expected a list, got a dict"),
        (document({"role": "user", "parts": [None]}), f"{PLACE}: expected a TextPart or"),
        (document({"role": "user", "parts": [], "name": "x"}), "messages[0]: Message has no 'name'; was it written by"),
        (document(user(text="x")), f"{PLACE}: expected a 'type' of ['image', 'opaque', 'reasoning', 'text', "),
        (document(user(type="video")), f"{PLACE}: expected a 'type' of"),
        (document(user(type=["text"])), f"{PLACE}: expected a 'type' of"),
        (document(user(type="text", text=1)), f"{PLACE}.text: expected a str, got an int"),
        (document(user(type="text", text="x", journal={})), f"{PLACE}: TextPart has no 'journal'; was it"),
        (document(user(type="text", text="x", extra=None)), f"{PLACE}.extra: expected a dict, got None"),
        (document(user(type="image")), f"{PLACE}: ImagePart takes either url= or data="),
        (document(user(type="image", data="?", media_type="x")), f"{PLACE}.data: expected base64"),
        (document(user(type="image", data="YQ", media_type="x")), f"{PLACE}.data: expected base64"),
        (document(user(type="image", data="é", media_type="x")), f"{PLACE}.data: expected base64"),
        (document(user(**RESULT, is_error=1)), f"{PLACE}.is_error: expected a bool, got an in"),
        (document(user(**{**RESULT, "content": [{"type": "no"}]})), f"{PLACE}.content[0]: expected a 'type' of"),
        (document(user(**CALL, state="lost")), f"{PLACE}.state: expected 'open' or"),
        (
            document(user(**CALL, request={**ASKED, "x": 1})),
            f"{PLACE}.request: Request has no 'x'",
        ),
        (
            document(user(**CALL, request={**ASKED, "expires_at": True})),
            f"{PLACE}.request.expires_at: expected a float or an int or None, got a bool",
        ),
        ('{"version":1,"messages":[NaN]}', "JSON has no NaN"),
        ('{"version":1,"messages":[1e999]}', "expected a number that a float can hold, got 1e999"),
        (TWICE, "expected each key once, got ['role', 'role', 'parts']"),
        (document() + "x", "expected JSON: Extra data"),
    ],
)  # fmt: skip
def test_what_is_no_transcript_is_refused_with_its_place(text: str | bytes, problem: str):
    with pytest.raises(ConfigurationError) as caught:
        messages_from_json(text)
    assert str(caught.value).startswith(f"not a transcript: {problem}")


def test_a_message_alone_is_a_line_of_json():
    for message in every_part():
        line = write_message(message)
        assert "\n" not in line
        assert read_message(line.encode("utf-8")) == message


# A class that is not there yet: the codec follows the fields and their types.


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    seconds: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Journal:
    id: str
    keys: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    last: Answer | None = None
    steps: tuple[Step, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    anything: Any | None = None
    bare: dict = field(default_factory=dict)
    kind: Literal["a", "b"] = "a"
    number: int | str | None = None


def test_a_class_that_is_new_is_written_and_read_by_its_fields():
    form = form_of(Journal)
    for journal in (
        Journal("j"),
        Journal("j", ("a", "b"), ["n"], {"r": Answer("r", False, {"x": [1]})}, Answer("r")),
        Journal("j", steps=(Step("s", 1.5, 2), Step("t", 3)), facts={"a": 1}, anything=[1], bare={"x": 0}, kind="b"),
        Journal("j", number=3),
        Journal("j", number="3"),
    ):
        plain = json.loads(json.dumps(form.write(journal)))
        assert form.read(plain) == journal
    assert form.write(Journal("j", number=3)) == {"id": "j", "number": 3}
    for bad, place in (
        ({"id": "j", "answers": {"r": {"id": "r", "x": 1}}}, "answers['r']: Answer has no 'x'"),
        ({"id": "j", "steps": [{"name": "s", "count": 1.5}]}, "steps[0].count: expected an int, got a float"),
    ):
        with pytest.raises(Misfit) as caught:
            form.read(bad)
        assert str(caught.value).startswith(place)
    with pytest.raises(Misfit, match=r"^answers\[1\]: expected a str, got an int"):
        form.write(Journal("j", answers={1: Answer("r")}))  # type: ignore[dict-item]  # a wrong type is the point
    with pytest.raises(Misfit, match=r"^number: expected an int or a str or None, got a float"):
        form.write(Journal("j", number=1.5))  # type: ignore[arg-type]  # a wrong type is the point


@pytest.mark.parametrize(
    "hint", [set[str], tuple[int, str], dict[int, str], list[int] | tuple[int, ...], Step | Answer, object, Literal[1]]
)
def test_a_type_without_a_form_in_json_is_an_error_of_ours(hint: Any):
    with pytest.raises(TypeError, match="JSON"):
        form_of(hint)
