"""The schemas of an OpenAPI document, as every model API takes them.

What comes out is a small part of JSON Schema: one `type`, `description`, `properties`, `required`, `items`,
`additionalProperties`, `enum` of texts, `minimum`, `maximum`, `format: date-time` and `anyOf`; no references. What
else a schema says stands in its description, in words: the endpoint checks it, and the model should know.

Sources: OpenAPI 3.0.4 and 3.1.1, "Schema Object"; for what model APIs refuse, their errors: Gemini's
`Unknown name "exclusiveMinimum"`, `format: only 'enum' and 'date-time' are supported for STRING type` and enums of
other things than texts, llama.cpp's `Pattern must start with '^' and end with '$'` and its bound on repetitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from .json_schema import is_array, is_object
from .misfits import clip

Json = dict[str, Any]  # Any: JSON

_MAX_NODES = 400
"""Schemas in one tool: some 30 KB for the model to read. What is beyond keeps its type and description."""
_MAX_DEPTH = 10
_DESCRIPTION = 300
_TYPES = ("string", "integer", "number", "boolean", "object", "array")
_STRUCTURE = ("type", "properties", "items", "enum", "const", "additionalProperties", "oneOf", "anyOf")
_CUT = "\0cut"


class DocumentError(Exception):
    """Something in the document that no tool can be made of; the message says where."""


class Document:
    """An OpenAPI document, and what its references lead to."""

    def __init__(self, root: Json) -> None:
        self.root = root

    def at(self, reference: str) -> Any:  # Any: JSON
        """What a reference leads to.

        Raises:
            DocumentError: It leads nowhere, or out of the document.
        """
        if not reference.startswith("#"):
            raise DocumentError(f"the reference {clip(reference, 100)!r} leads out of the document; bundle it into one")
        node: Any = self.root
        for step in unquote(reference[1:]).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(step)] if is_array(node) else node[step]
            except (LookupError, TypeError, ValueError):
                raise DocumentError(f"the reference {clip(reference, 100)!r} leads nowhere") from None
        return node

    def resolved(self, node: Any) -> Json:  # Any: JSON
        """`node`, or what it refers to in the end; an object."""
        for _ in range(20):
            if not is_object(node):
                raise DocumentError(f"expected an object, got {clip(repr(node), 60)}")
            if not isinstance(reference := node.get("$ref"), str):
                return node
            node = self.at(reference)
        raise DocumentError(f"the reference {clip(str(node), 60)} leads in a circle")

    def schema(self, schema: Any) -> Json:  # Any: JSON
        """A schema of the document, for a tool.

        Raises:
            DocumentError: A reference in it cannot be followed.
        """
        return _Reading(self).read(schema, frozenset(), 0)


class _Reading:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._left = _MAX_NODES

    def read(self, schema: Any, above: frozenset[str], depth: int) -> Json:  # Any: JSON
        """A schema; `above` are the references that led here."""
        here: set[str] = set()
        flat = self._flat(schema, above, here)
        above |= here
        self._left -= 1
        types, nullable = _types(flat)
        if _CUT in flat or self._left < 0 or depth > _MAX_DEPTH:
            return _stub(flat, types)
        variants = [v for v in _list(flat, "oneOf") or _list(flat, "anyOf") if self._has_structure(v, above)]
        if variants:
            base = {key: flat[key] for key in flat if key not in ("oneOf", "anyOf", "description", "nullable")}
            found = [self.read({"allOf": [v, base]} if base else v, above, depth + 1) for v in variants]
        elif len(types) > 1:
            base = {key: flat[key] for key in flat if key not in ("description", "title", "nullable")}
            found = [self.read({**base, "type": one}, above, depth + 1) for one in types]
        elif flat.get("type") in ("null", ["null"]):
            found, nullable = [{"type": "null"}], False
        else:
            found = [self._plain(flat, types[0] if types else None, above, depth)]
        return _union(found, nullable, _described(flat, types if len(found) == 1 else []))

    def _plain(self, flat: Json, kind: str | None, above: frozenset[str], depth: int) -> Json:
        result: Json = {} if kind is None else {"type": kind}
        if kind == "object":
            properties = {
                name: self.read(child, above, depth + 1)
                for name, child in _members(flat, "properties")
                if not (is_object(child) and child.get("readOnly") is True)  # which a request should not hold
            }
            if properties:
                result["properties"] = properties
            required = [name for name in flat.get("required") or () if name in properties]
            if required:
                result["required"] = required
            others = flat.get("additionalProperties")
            if others is False:
                result["additionalProperties"] = False
            elif is_object(others) and others:
                result["additionalProperties"] = self.read(others, above, depth + 1)
        elif kind == "array":
            items = flat.get("items")
            result["items"] = self.read(items, above, depth + 1) if is_object(items) else {}
        elif kind == "string":
            if options := _texts_of(flat):
                result["enum"] = options
            if flat.get("format") == "date-time":
                result["format"] = "date-time"
        elif kind in ("integer", "number"):
            for key in ("minimum", "maximum"):
                if _is_number(flat.get(key)) and flat.get(f"exclusive{key.capitalize()}") is not True:
                    result[key] = flat[key]
        return result

    def _flat(self, schema: Any, above: frozenset[str], here: set[str]) -> Json:  # Any: JSON
        """A schema with what it refers to and what it is all of merged into it; what stands first wins."""
        if not is_object(schema):
            return {}
        merged = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        parts: list[Json] = []
        if isinstance(reference := schema.get("$ref"), str) and reference not in here:
            target = self._document.at(reference)
            if reference in above:  # it contains itself
                kept = ("type", "description", "properties", "required")
                return {**{key: target[key] for key in kept if key in target}, **merged, _CUT: True}
            here.add(reference)
            parts.append(self._flat(target, above, here))
        parts += [self._flat(part, above, here) for part in _list(schema, "allOf")]
        for part in parts:
            # A kind of pet that is all of "pet", which is one of its kinds: what it inherits is no repetition.
            if _CUT in part and any(_is_structured(other) for other in (merged, *parts) if _CUT not in other):
                del part[_CUT]
            merged = _merged(merged, part)
        return merged

    def _has_structure(self, schema: Any, above: frozenset[str]) -> bool:  # Any: JSON
        """Whether a variant says more than which members must be there."""
        flat = self._flat(schema, above, set())
        return _is_structured(flat) or _CUT in flat


def _is_structured(flat: Json) -> bool:
    return any(key in flat for key in _STRUCTURE)


def _list(schema: Json, key: str) -> list[Any]:  # Any: JSON
    value = schema.get(key)
    return value if is_array(value) else []


def _merged(one: Json, other: Json) -> Json:
    """Both, as far as one schema can say it."""
    merged = {**other, **one}
    if "properties" in one and "properties" in other:
        first, second = dict(_members(one, "properties")), dict(_members(other, "properties"))
        merged["properties"] = {
            name: {"allOf": [first[name], second[name]]}
            if name in first and name in second
            else first.get(name, second.get(name))
            for name in {**first, **second}
        }
    if is_array(one.get("required")) and is_array(other.get("required")):
        merged["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    if is_array(one.get("enum")) and is_array(other.get("enum")):
        merged["enum"] = [value for value in one["enum"] if value in other["enum"]] or one["enum"]
    if is_object(one.get("items")) and is_object(other.get("items")):
        merged["items"] = {"allOf": [one["items"], other["items"]]}
    return merged


def _members(flat: Json, key: str) -> Iterator[tuple[str, Any]]:  # Any: JSON
    value = flat.get(key)
    if is_object(value):
        yield from value.items()


def _types(flat: Json) -> tuple[list[str], bool]:
    """The types but for null, and whether null is one."""
    given = flat.get("type")
    names = given if is_array(given) else [given]
    nullable = flat.get("nullable") is True or "null" in names
    options = flat.get("enum")
    if is_array(options) and None in options:
        nullable = True
    types = [name for name in _TYPES if name in names]
    if "number" in types and "integer" in types:
        types.remove("integer")
    if not types and "null" not in names:
        if "properties" in flat or "additionalProperties" in flat:
            types = ["object"]
        elif "items" in flat:
            types = ["array"]
        elif _texts_of(flat):
            types = ["string"]
    return types, nullable


def _texts_of(flat: Json) -> list[str]:
    """The values of an enum or a const that are all texts."""
    options = flat["enum"] if is_array(flat.get("enum")) else [flat["const"]] if "const" in flat else []
    values = [value for value in options if value is not None]
    # Gemini refuses an empty text in an enum.
    return list(dict.fromkeys(values)) if all(isinstance(value, str) and value for value in values) else []


def _union(found: list[Json], nullable: bool, description: str) -> Json:
    options: list[Json] = []
    for schema in found:
        inner = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        options += [option for option in inner if option not in options]
    nothing: Json = {"type": "null"}
    if nullable and nothing not in options and {} not in options:
        options.append(nothing)
    result: Json = dict(options[0]) if len(options) == 1 else {"anyOf": options}
    if description:
        result["description"] = description
    return result


def _stub(flat: Json, types: list[str]) -> Json:
    """What is left of a schema that is too deep, or contains itself: its type, and what it is."""
    result: Json = {} if len(types) != 1 else {"type": types[0]}
    if types == ["array"]:
        result["items"] = {}
    description = _described(flat, types)
    return {**result, "description": description} if description else result


def _described(flat: Json, types: list[str]) -> str:
    """The description, and in words what no keyword may say."""
    text = flat.get("description") or flat.get("title")
    parts = [clip(text.strip(), _DESCRIPTION)] if isinstance(text, str) and text.strip() else []
    options = flat["enum"] if is_array(flat.get("enum")) else [flat["const"]] if "const" in flat else []
    if types and options and not (types == ["string"] and _texts_of(flat)):
        parts.append(f"One of: {clip(', '.join(map(_json, options)), 300)}.")
    for key, words in _WORDS.items():
        value = flat.get(key)
        if types and value is not None and value is not False:
            parts.append(words.format(value=clip(value if isinstance(value, str) else _json(value), 200)))
    if types and (form := flat.get("format")) and form not in ("date-time", "int32", "int64", "float", "double"):
        parts.append(f"Format: {clip(str(form), 60)}.")
    for key, word in (("minimum", "Above"), ("maximum", "Below")):
        exclusive = flat.get(f"exclusive{key.capitalize()}")
        bound = flat.get(key) if exclusive is True else exclusive  # a boolean in 3.0, a number in 3.1
        if types and _is_number(bound):
            parts.append(f"{word} {bound}.")
    return " ".join(parts)


_WORDS: Mapping[str, str] = {
    "default": "Default: {value}.",
    "pattern": "Pattern: {value}",
    "minLength": "At least {value} characters.",
    "maxLength": "At most {value} characters.",
    "minItems": "At least {value} items.",
    "maxItems": "At most {value} items.",
    "multipleOf": "A multiple of {value}.",
    "uniqueItems": "No item twice.",
}


def _json(value: Any) -> str:  # Any: JSON
    return json.dumps(value, ensure_ascii=False)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
