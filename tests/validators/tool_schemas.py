"""What every model API takes as the schema of a tool's arguments, as their error messages state it.

The rules are those of the strictest: a schema that passes is taken by OpenAI and Anthropic, by Gemini's function
declarations and its OpenAI-compatible endpoint, and by llama.cpp, which turns schemas into grammars. It shares no code
with the library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

RULES = {
    "object": "OpenAI 400 'schema must be of type \"object\"'; Anthropic 'input_schema.type: Input should "
    'be "object"\'',
    "root": "OpenAI 400 'schema must have type object and not have oneOf/anyOf/allOf/enum/not at the top level'; "
    "Anthropic 'input_schema does not support oneOf, allOf, or anyOf at the top level'",
    "property name": "Anthropic 400 'input_schema.properties: Property keys should match pattern "
    "^[a-zA-Z0-9_.-]{1,64}$' (top level)",
    "keyword": "Gemini 400 'Unknown name \"exclusiveMinimum\" … Cannot find field'; others are OpenAPI's own",
    "type": "Gemini 400 'Proto field is not repeating, cannot start list' for a list of types; one name of JSON's",
    "required": "Gemini 400 'required[0]: property is not defined'; draft 2020-12: a list of unique texts",
    "items": "Gemini 400 'items: missing field'; OpenAI 400 'array schema missing items'",
    "enum": "Gemini 400 'enum: only allowed for STRING type', entries are texts, 'enum[0]: cannot be empty'",
    "format": "Gemini 400 'format: only 'enum' and 'date-time' are supported for STRING type'",
    "anyOf": "draft 2020-12, 10.2.1.2: a list that is not empty; Gemini: nothing but a description beside it",
    "bound": "draft 2020-12, 6.2: numbers, and of a number only (a boolean is OpenAPI 3.0's exclusiveMinimum)",
    "description": "draft 2020-12, 9.1: text; the bound of 2048 characters is ours",
    "depth": "protobuf's limit on nesting is 100, and each level of a schema takes two or more",
    "size": "ours: a model has to read it, beside those of all other tools",
}
"""The rules by name, each with its source."""

_KEYWORDS = {
    "type", "description", "properties", "required", "items", "additionalProperties", "enum", "minimum", "maximum",
    "format", "anyOf",
}  # fmt: skip
_TYPES = {"string", "integer", "number", "boolean", "object", "array", "null"}
_BESIDE = {
    "properties": "object", "required": "object", "additionalProperties": "object", "items": "array", "enum": "string",
    "format": "string",
}  # fmt: skip
_DEEPEST, _LARGEST = 40, 150_000

Broken = tuple[str, str]
"""A rule, and where it is broken."""


def broken_rules(schema: Any) -> list[Broken]:
    """The rules that a tool's `input_schema` breaks."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        return [("object", "schema")]
    combined = {key for key in ("anyOf", "oneOf", "allOf", "not", "enum", "$ref") if key in schema}
    broken = [("root", key) for key in combined]
    broken += [("property name", n) for n in schema["properties"] if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", n)]
    if len(json.dumps(schema)) > _LARGEST:
        broken.append(("size", "schema"))
    rest = {key: value for key, value in schema.items() if key not in combined}
    return [*broken, *_schema(rest, "schema", 0)]


def check(schema: Any) -> None:
    """Assert that every API takes a schema."""
    broken = [f"{where}: {rule} ({RULES[rule]})" for rule, where in broken_rules(schema)]
    assert not broken, "\n".join(broken)


def _schema(schema: Any, where: str, depth: int) -> Iterator[Broken]:
    if not isinstance(schema, dict):
        yield "keyword", where
        return
    if depth > _DEEPEST:
        yield "depth", where
        return
    yield from (("keyword", f"{where}.{key}") for key in schema.keys() - _KEYWORDS)
    kind = schema.get("type")
    if "type" in schema and not (isinstance(kind, str) and kind in _TYPES):
        yield "type", where
        return
    yield from (("type", f"{where}.{key}") for key, owner in _BESIDE.items() if key in schema and kind != owner)
    if not isinstance(schema.get("description", ""), str) or len(schema.get("description", "")) > 2048:
        yield "description", where
    properties = schema.get("properties", {})
    for name, child in properties.items():
        yield from _schema(child, f"{where}.{name}", depth + 1)
    required = schema.get("required", [])
    if not isinstance(required, list) or len({*required}) < len(required) or {*required} - properties.keys():
        yield "required", where
    if kind == "array" and "items" not in schema:
        yield "items", where
    if "items" in schema:
        yield from _schema(schema["items"], f"{where}[]", depth + 1)
    if isinstance(schema.get("additionalProperties", False), dict):
        yield from _schema(schema["additionalProperties"], f"{where}.*", depth + 1)
    options = schema.get("enum", ["x"])
    if not options or not all(isinstance(option, str) and option for option in options):
        yield "enum", where
    if schema.get("format", "date-time") != "date-time":
        yield "format", where
    if "anyOf" in schema:
        if not schema["anyOf"] or schema.keys() - {"anyOf", "description"}:
            yield "anyOf", where
        for place, child in enumerate(schema["anyOf"]):
            yield from _schema(child, f"{where}|{place}", depth + 1)
    for key in ("minimum", "maximum"):
        bound = schema.get(key, 0)
        if (
            isinstance(bound, bool)
            or not isinstance(bound, int | float)
            or (key in schema and kind not in ("integer", "number"))
        ):
            yield "bound", f"{where}.{key}"
