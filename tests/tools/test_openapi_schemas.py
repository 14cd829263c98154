"""Schemas of OpenAPI documents, as tools show them to models."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.tools.openapi_documents import document
from tests.validators import tool_schemas
from toolnexus.tools.openapi_schemas import Document, DocumentError

NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
        "parent": {"allOf": [{"$ref": "#/components/schemas/Node"}], "description": "Above."},
    },
}
SCHEMAS: dict[str, Any] = {
    "Node": NODE,
    "Name": {"type": "string", "description": "A name."},
    "Alias": {"$ref": "#/components/schemas/Name"},
    "a/b~c d": {"type": "boolean"},
    "Animal": {
        "type": "object",
        "properties": {"kind": {"type": "string"}, "friend": {"$ref": "#/components/schemas/Animal"}},
        "required": ["kind"],
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
    },
    "Cat": {"allOf": [{"$ref": "#/components/schemas/Animal"}, {"properties": {"lives": {"type": "integer"}}}]},
    "Dog": {"allOf": [{"$ref": "#/components/schemas/Animal"}, {"properties": {"tricks": {"type": "integer"}}}]},
    "Loop": {"$ref": "#/components/schemas/Loop"},
    "Knot": {"allOf": [{"$ref": "#/components/schemas/Knot"}, {"type": "string"}]},
    "Lists": {"type": "array", "items": {"$ref": "#/components/schemas/Lists"}},
    "Map": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Map"}},
}
TEXT = {"type": "string"}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def read(schema: Any) -> dict[str, Any]:
    return Document({"components": {"schemas": SCHEMAS}}).schema(schema)


CASES: dict[str, tuple[Any, Any]] = {
    "a type": ({"type": "string"}, TEXT),
    "nothing": ({}, {}),
    "anything": (True, {}),
    "integers": ({"type": "integer", "format": "int64", "minimum": 1, "maximum": 5.5},
                 {"type": "integer", "minimum": 1, "maximum": 5.5}),
    "3.0's exclusive bound": ({"type": "number", "minimum": 1, "exclusiveMinimum": True},
                              {"type": "number", "description": "Above 1."}),
    "3.1's exclusive bound": ({"type": "number", "exclusiveMaximum": 1.5},
                              {"type": "number", "description": "Below 1.5."}),
    "no exclusive bound": ({"type": "number", "minimum": 1, "exclusiveMinimum": False},
                           {"type": "number", "minimum": 1}),
    "bounds that are none": ({"type": "number", "minimum": "1", "maximum": True}, {"type": "number"}),
    "a date and time": ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
    "a format": ({"type": "string", "format": "uuid", "description": " An id. "},
                 {"type": "string", "description": "An id. Format: uuid."}),
    "in words": (
        {"type": "string", "default": "a", "pattern": "^a{2}$", "minLength": 1, "maxLength": 9},
        {"type": "string", "description": "Default: a. Pattern: ^a{2}$ At least 1 characters. At most 9 characters."},
    ),
    "no default": ({"type": "boolean", "default": False}, {"type": "boolean"}),
    "a default of null": ({"type": "string", "default": None}, TEXT),
    "items in words": ({"type": "array", "items": {}, "minItems": 1, "uniqueItems": True, "default": [1]},
                       {"type": "array", "items": {}, "description": "Default: [1]. At least 1 items. No item twice."}),
    "a title": ({"type": "string", "title": "Name"}, {"type": "string", "description": "Name"}),
    "an enum": ({"type": "string", "enum": ["a", "b", "a"]}, {"type": "string", "enum": ["a", "b"]}),
    "an enum without a type": ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    "an enum of numbers": ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}),
    "an enum with an empty text": ({"type": "string", "enum": ["", "a"]},
                                   {"type": "string", "description": 'One of: "", "a".'}),
    "an enum of this and that": ({"enum": [1, "a"]}, {}),
    "a constant": ({"const": "a"}, {"type": "string", "enum": ["a"]}),
    "a number as a constant": ({"type": "integer", "const": 1}, {"type": "integer", "description": "One of: 1."}),
    "nullable": ({"type": "string", "nullable": True, "description": "d"},
                 {"anyOf": [TEXT, {"type": "null"}], "description": "d"}),
    "null as a type": ({"type": ["string", "null"]}, {"anyOf": [TEXT, {"type": "null"}]}),
    "null in an enum": ({"type": "string", "nullable": True, "enum": ["a", None]},
                        {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
    "null and nothing else": ({"type": "null", "description": "d"}, {"type": "null", "description": "d"}),
    "null, said by nullable alone": ({"nullable": True, "description": "d"}, {"description": "d"}),
    "types": ({"type": ["integer", "string"], "minimum": 1, "description": "d"},
              {"anyOf": [TEXT, {"type": "integer", "minimum": 1}], "description": "d"}),
    "an integer is a number": ({"type": ["integer", "number"]}, {"type": "number"}),
    "a type that is none": ({"type": "file"}, {}),
    "a list": ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": TEXT}),
    "a list of anything": ({"type": "array"}, {"type": "array", "items": {}}),
    "a tuple": ({"type": "array", "prefixItems": [TEXT], "items": False}, {"type": "array", "items": {}}),
    "a list without a type": ({"items": {"type": "string"}}, {"type": "array", "items": TEXT}),
    "an object": (
        {"type": "object", "properties": {"a": {"type": "string"}, "b": True}, "required": ["a", "c"],
         "additionalProperties": False, "xml": {}, "x-a": 1, "example": {}, "minProperties": 1},
        {"type": "object", "properties": {"a": TEXT, "b": {}}, "required": ["a"], "additionalProperties": False},
    ),
    "an object without a type": ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
    "what only comes back": (
        {"type": "object", "properties": {"id": {"type": "string", "readOnly": True}, "a": {}}, "required": ["id"]},
        {"type": "object", "properties": {"a": {}}},
    ),
    "a map": ({"additionalProperties": {"type": "string"}}, {"type": "object", "additionalProperties": TEXT}),
    "a map of anything": ({"type": "object", "additionalProperties": {}}, {"type": "object"}),
    "a reference": (ref("Name"), {"type": "string", "description": "A name."}),
    "a reference to one": (ref("Alias"), {"type": "string", "description": "A name."}),
    "a reference with a description": ({**ref("Name"), "description": "Mine."},
                                       {"type": "string", "description": "Mine."}),
    "an escaped reference": (ref("a~1b~0c%20d"), {"type": "boolean"}),
    "a reference twice": (
        {"type": "object", "properties": {"a": ref("Name"), "b": ref("Name")}},
        {"type": "object", "properties": {key: {"type": "string", "description": "A name."} for key in "ab"}},
    ),
    "itself": (
        ref("Node"),
        {
            "type": "object",
            "properties": {
                "value": TEXT,
                "children": {"type": "array", "items": {"type": "object"}},
                "parent": {"type": "object", "description": "Above."},
            },
        },
    ),
    "lists of itself": (ref("Lists"), {"type": "array", "items": {"type": "array", "items": {}}}),
    "maps of itself": (ref("Map"), {"type": "object", "additionalProperties": {"type": "object"}}),
    "nothing but itself": (ref("Loop"), {}),
    "all of itself": (ref("Knot"), {"type": "string"}),
    "all of": (
        {"allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"description": "B."}, "c": {"type": "integer"}}, "required": ["c", "a"]},
        ], "description": "d"},
        {
            "type": "object", "description": "d", "required": ["a", "c"],
            "properties": {"a": TEXT, "b": {"type": "string", "description": "B."}, "c": {"type": "integer"}},
        },
    ),
    "all of, with narrower enums and items": (
        {"allOf": [{"type": "array", "items": {"enum": ["a", "b"]}}, {"items": {"enum": ["b"], "type": "string"}}]},
        {"type": "array", "items": {"type": "string", "enum": ["b"]}},
    ),
    "one of": ({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "string"}]},
               {"anyOf": [TEXT, {"type": "integer"}]}),
    "one of one": ({"oneOf": [{"type": "string"}], "description": "d"}, {"type": "string", "description": "d"}),
    "one of, with null": ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
    "one of, within one of": (
        {"anyOf": [{"oneOf": [{"type": "string"}, {"type": "boolean"}]}, {"type": "integer"}]},
        {"anyOf": [TEXT, {"type": "boolean"}, {"type": "integer"}]},
    ),
    "one of, and more beside it": (
        {"type": "object", "properties": {"a": {}}, "oneOf": [{"properties": {"b": {}}}, {"properties": {"c": {}}}]},
        {"anyOf": [
            {"type": "object", "properties": {"b": {}, "a": {}}}, {"type": "object", "properties": {"c": {}, "a": {}}},
        ]},
    ),
    "one of what must be there": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "properties": {"a": {}, "b": {}}},
    ),
    "kinds that inherit from what they are kinds of": (
        ref("Animal"),
        {"anyOf": [
            {"type": "object", "required": ["kind"],
             "properties": {"lives": {"type": "integer"}, "kind": TEXT, "friend": {"type": "object"}}},
            {"type": "object", "required": ["kind"],
             "properties": {"tricks": {"type": "integer"}, "kind": TEXT, "friend": {"type": "object"}}},
        ]},
    ),
    "what no API knows": ({"not": {"type": "null"}, "if": {}, "contains": {}, "$id": "x", "discriminator": {}}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "wanted"), CASES.values(), ids=CASES)
def test_a_schema_becomes_what_every_model_api_takes(schema, wanted):
    found = read(schema)
    assert found == wanted
    tool_schemas.check({"type": "object", "properties": {"x": found}})


def test_reading_a_schema_changes_nothing_of_the_document():
    before = json.dumps(SCHEMAS)
    for name in SCHEMAS:
        first, second = (
            read(ref(name.replace("~", "~0").replace("/", "~1"))),
            read(ref(name.replace("~", "~0").replace("/", "~1"))),
        )
        assert first == second
    assert json.dumps(SCHEMAS) == before


def test_a_schema_that_would_be_endless_is_bounded():
    # Written out, 5 to the 12th schemas.
    schemas = document(1)["components"]["schemas"]
    began = time.perf_counter()
    found = Document({"components": {"schemas": schemas}}).schema(ref("Wide0"))
    assert time.perf_counter() - began < 5
    assert 1000 < len(json.dumps(found)) < 60_000
    tool_schemas.check({"type": "object", "properties": {"x": found}})


def test_inheritance_that_doubles_at_every_level_is_bounded():
    schemas = {
        f"S{n}": {"allOf": [ref(f"S{n + 1}"), ref(f"S{n + 1}"), {"properties": {f"p{n}": {}}}]} for n in range(60)
    }
    found = Document({"components": {"schemas": {**schemas, "S60": {"type": "object"}}}}).schema(ref("S0"))
    assert found["properties"].keys() == {f"p{n}" for n in range(60)}


def test_what_is_nested_too_deep_is_cut():
    schema: dict[str, Any] = {"type": "string"}
    for n in range(30):
        schema = {"type": "object", "properties": {"x": schema}, "description": f"level {n}"}
    text = json.dumps(read(schema))
    assert "level 29" in text
    assert "level 19" in text
    assert "level 5" not in text


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("#/components/schemas/Gone", "leads nowhere"),
        ("#/components/schemas/Node/properties/value/type/x", "leads nowhere"),
        ("#/components/schemas/Animal/oneOf/5", "leads nowhere"),
        ("#/components/schemas/Animal/oneOf/x", "leads nowhere"),
        ("other.yaml#/Node", "leads out of the document"),
        ("https://example.com/schema.json", "leads out of the document"),
        ("file:///etc/passwd", "leads out of the document"),
    ],
)
def test_a_reference_that_cannot_be_followed_is_an_error(reference, why):
    with pytest.raises(DocumentError, match=why):
        read({"type": "array", "items": {"$ref": reference}})


def test_a_circle_of_references_is_an_error_where_an_object_must_be():
    with pytest.raises(DocumentError, match="leads in a circle"):
        Document({"components": {"schemas": SCHEMAS}}).resolved(ref("Loop"))
    with pytest.raises(DocumentError, match="expected an object, got 'x'"):
        Document({}).resolved("x")
