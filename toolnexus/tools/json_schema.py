"""JSON Schema as far as an explicit `input_schema` is checked: six keywords, by the standard's meaning.

`type`, `properties`, `required`, `enum`, `items` and `additionalProperties` are checked; any other keyword
is shown to the model and left to the tool. Where another keyword changes what one of the six means
(`patternProperties`, `prefixItems`), the six refuse nothing that it may allow.

Source: JSON Schema 2020-12, "Core" and "Validation". A float without a fraction is an integer (Validation, 6.1.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

from ..errors import ConfigurationError
from .misfits import as_json, clip, place

Path = tuple[str | int, ...]


def is_object(value: object) -> TypeGuard[dict[str, Any]]:  # Any: JSON
    """Whether JSON `value` is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:  # Any: JSON
    """Whether JSON `value` is an array."""
    return isinstance(value, list)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {  # Any: any JSON value
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == value // 1,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": is_object,
    "array": is_array,
    "null": lambda value: value is None,
}


def misfits(value: Any, schema: Any, path: Path = ()) -> Iterator[str]:  # Any: JSON, and a schema checked before
    """Yield a line for each place where `value` does not fit `schema`, as made by `check_schema`."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{place(path)}: unknown argument"
        return
    types = _type_names(schema)
    if types and not any(_TYPES[name](value) for name in types):
        yield f"{place(path)}: expected {' or '.join(types)}, got {as_json(value)}"
    elif "enum" in schema and not any(_same(value, option) for option in schema["enum"]):
        options = clip(json.dumps(schema["enum"], ensure_ascii=False))
        yield f"{place(path)}: expected one of {options}, got {as_json(value)}"
    elif is_object(value):
        yield from _object_misfits(value, schema, path)
    elif is_array(value) and isinstance(schema.get("items"), dict | bool):
        start = len(schema.get("prefixItems", ()))
        for index, item in enumerate(value[start:], start):
            yield from misfits(item, schema["items"], (*path, index))


def _object_misfits(value: dict[str, Any], schema: Mapping[str, Any], path: Path) -> Iterator[str]:  # Any: as above
    properties = schema.get("properties", {})
    others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place((*path, name))}: required, but missing"
    for name, item in value.items():
        yield from misfits(item, properties.get(name, others), (*path, name))


def _same(a: object, b: object) -> bool:
    """Equal as JSON: 1 is 1.0, but not true."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _type_names(schema: Mapping[str, Any]) -> list[Any]:  # Any: not checked yet, or names
    types = schema.get("type", [])
    return types if is_array(types) else [types]


def check_schema(schema: object) -> dict[str, Any]:
    """Return a copy of an explicit `input_schema`, with `type` and `properties` filled in.

    Raises:
        ConfigurationError: It is no JSON Schema of an object; the message names the place.
    """
    if not isinstance(schema, Mapping):
        raise _unexpected("input_schema", "a dict", schema)
    try:
        copy: dict[str, Any] = json.loads(json.dumps({"type": "object", "properties": {}, **schema}, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"input_schema: expected plain JSON data, but {error}") from error
    if copy["type"] != "object":
        raise _unexpected("input_schema.type", "'object'", copy["type"])
    _check(copy, "input_schema")
    return copy


def _check(schema: object, where: str) -> None:
    if isinstance(schema, bool):
        return
    if not is_object(schema):
        raise _unexpected(where, "a schema (a dict)", schema)
    for name in _type_names(schema):
        if not isinstance(name, str) or name not in _TYPES:
            raise _unexpected(f"{where}.type", f"one or a list of {', '.join(_TYPES)}", name)
    for keyword, kind in (("enum", list), ("properties", dict), ("required", list)):
        if not isinstance(schema.get(keyword, kind()), kind):
            raise _unexpected(f"{where}.{keyword}", f"a {kind.__name__}", schema[keyword])
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if not isinstance(name, str) or ("properties" in schema and name not in properties):
            raise _unexpected(f"{where}.required", f"names of properties ({clip(', '.join(properties))})", name)
    for name, child in properties.items():
        _check(child, f"{where}.properties.{name}")
    if not is_array(items := schema.get("items", True)):  # an array is an old draft's tuple, not ours to check
        _check(items, f"{where}.items")
    _check(schema.get("additionalProperties", True), f"{where}.additionalProperties")


def _unexpected(where: str, expected: str, value: object) -> ConfigurationError:
    return ConfigurationError(f"{where}: expected {expected}, got {clip(repr(value))}")
