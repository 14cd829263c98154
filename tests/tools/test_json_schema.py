from __future__ import annotations

from typing import Any

import pytest

from toolnexus.errors import ConfigurationError
from toolnexus.tools.json_schema import check_schema, misfits


def lines(value: object, **schema: Any) -> list[str]:
    return list(misfits({"x": value}, {"properties": {"x": schema}}))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["", "a"], [1, None, True, [], {}]),
        ("integer", [0, -1, 5.0, 10**400], ["5", 5.5, True, None, float("nan"), float("inf")]),
        ("number", [0, 2.5], ["5", True, None]),
        ("boolean", [True, False], [0, 1, "true", None]),
        ("object", [{}, {"a": 1}], [[], "{}", None]),
        ("array", [[], [1]], ["a", {}, None]),
        ("null", [None], [0, "", False]),
        (["string", "null"], ["a", None], [1]),
        ([], [1, None, "a"], []),
    ],
)
def test_a_value_has_one_of_the_types(kind: Any, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if lines(value, type=kind)] == []
    assert [value for value in bad if not lines(value, type=kind)] == []


def test_a_misfit_says_what_was_expected_and_what_came() -> None:
    assert lines(5, type=["string", "null"]) == ["x: expected string or null, got 5"]


def test_enum_compares_as_json() -> None:
    assert lines(1.0, enum=[1, "a"]) == []
    assert lines(True, enum=[1, "ä"]) == ['x: expected one of [1, "ä"], got true']


def test_places_are_named_by_their_path() -> None:
    schema = {"type": "array", "items": {"properties": {"n": {"type": "integer"}}, "required": ["n", "m"]}}
    assert lines([{"n": 1, "m": 2}, {"n": "a"}], **schema) == [
        "x[1].m: required, but missing",
        'x[1].n: expected integer, got "a"',
    ]


def test_the_arguments_as_a_whole_have_a_name() -> None:
    assert list(misfits([], {"type": "object"})) == ["arguments: expected object, got []"]


def test_other_properties_are_allowed_unless_the_schema_says_no() -> None:
    assert lines({"a": 1}) == []
    assert lines({"a": 1}, additionalProperties=True) == []
    assert lines({"a": 1}, additionalProperties=False) == ["x.a: unknown argument"]
    assert lines({"a": 1}, additionalProperties={"type": "string"}) == ["x.a: expected string, got 1"]
    assert lines({"a": 1}, properties={"a": False}) == ["x.a: unknown argument"]


def test_keywords_beside_the_six_refuse_nothing() -> None:
    assert lines({"a": 1}, additionalProperties=False, patternProperties={"a": {"type": "string"}}) == []
    assert lines([1, "a"], items={"type": "string"}, prefixItems=[{"type": "integer"}]) == []
    assert lines([1, 2], items=False, prefixItems=[{}]) == ["x[1]: unknown argument"]
    assert lines([1], items=[{"type": "string"}]) == []
    assert lines("a", maxLength=0, pattern="b", const=1) == []


def test_a_long_value_is_cut() -> None:
    (line,) = lines("a" * 1000, type="integer")
    assert len(line) < 200


def test_a_schema_gets_its_type_and_properties_and_is_a_copy() -> None:
    given: dict[str, Any] = {"required": (), "x-mine": {"title": 1}}
    checked = check_schema(given)
    assert checked == {"type": "object", "properties": {}, "required": [], "x-mine": {"title": 1}}
    given["x-mine"]["title"] = 2
    assert checked["x-mine"] == {"title": 1}


def test_a_sound_schema_passes() -> None:
    check_schema(
        {
            "properties": {"a": True, "b": {"type": ["string", "null"], "enum": ["x", None]}, "c": {"items": [{}]}},
            "required": ["a"],
            "additionalProperties": {"required": ["anything"], "items": False},
        }
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (5, "input_schema: expected a dict, got 5"),
        ({"type": "string"}, "input_schema.type: expected 'object', got 'string'"),
        ({"type": ["object"]}, "input_schema.type: expected 'object'"),
        ({"properties": []}, "input_schema.properties: expected a dict, got []"),
        ({"properties": {"a": 5}}, "input_schema.properties.a: expected a schema (a dict), got 5"),
        ({"properties": {"a": {"type": "str"}}}, "input_schema.properties.a.type: expected one or a list of string,"),
        ({"properties": {"a": {"type": {}}}}, "input_schema.properties.a.type"),
        ({"properties": {"a": {"enum": "ab"}}}, "input_schema.properties.a.enum: expected a list, got 'ab'"),
        ({"required": "ab"}, "input_schema.required: expected a list, got 'ab'"),
        (
            {"properties": {"a": {}}, "required": ["b"]},
            "input_schema.required: expected names of properties (a), got 'b'",
        ),
        ({"required": [["b"]]}, "input_schema.required"),
        ({"properties": {"a": {"items": {"type": "x"}}}}, "input_schema.properties.a.items.type"),
        ({"additionalProperties": "no"}, "input_schema.additionalProperties: expected a schema"),
        ({"properties": {"a": {"default": {1, 2}}}}, "input_schema: expected plain JSON data"),
        ({"properties": {"a": {"default": float("nan")}}}, "input_schema: expected plain JSON data"),
    ],
)
def test_a_broken_schema_is_refused_where_it_is_broken(schema: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_schema(schema)
    assert str(caught.value).startswith(message)
