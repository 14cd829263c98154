"""Makes OpenAPI documents of any size, the same one for the same seed, with what real ones are full of.

References that go in circles, inheritance both ways, `nullable` and lists of types, numbers and nothing in enums,
booleans and numbers as exclusive bounds, names that no model API takes, ids that are long, missing or there twice.
"""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]

_WORDS = ["user", "order", "invoice", "pet", "team", "issue", "label", "file", "job", "token", "Größe", "filter[x]"]


def document(operations: int, *, version: str = "3.1.0", seed: int = 1) -> Json:
    """A document with so many operations."""
    return _Maker(random.Random(seed), version).document(operations)


class _Maker:
    def __init__(self, chance: random.Random, version: str) -> None:
        self._chance = chance
        self._version = version
        self._is_31 = version.startswith("3.1")
        self._names = [f"{word.title()}{n}" for n in range(4) for word in _WORDS[:10]]

    def document(self, operations: int) -> Json:
        paths: Json = {}
        for number in range(operations):
            path, operation = self._operation(number)
            method = self._chance.choice(["get", "post", "put", "patch", "delete"])
            paths.setdefault(path, {})[method] = operation
        paths["/x-shared/{id}"] = {"$ref": "#/components/pathItems/Shared"}
        return {
            "openapi": self._version,
            "info": {"title": "Made up", "version": "1"},
            "servers": [{"url": "/api/{version}", "variables": {"version": {"default": "v1"}}}],
            "paths": paths,
            "components": {
                "schemas": {
                    **{name: self._schema(3) for name in self._names},
                    "Node": self._node(),
                    "Animal": self._animal(),
                    "Cat": self._kind("Cat", {"lives": {"type": "integer", "maximum": 9}}),
                    "Dog": self._kind("Dog", {"puppies": {"type": "array", "items": self._ref("Dog")}}),
                    "Chain": {"$ref": "#/components/schemas/Chain2"},
                    "Chain2": {"allOf": [{"$ref": "#/components/schemas/Node"}], "nullable": True},
                    "a/b~c d": {"type": "string", "format": "uuid"},
                    **{f"Wide{n}": self._wide(n) for n in range(12)},
                },
                "parameters": {
                    "Page": {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 1, "default": 1}},
                    "Trace": {"name": "X-Trace-Id", "in": "header", "schema": {"type": "string"}},
                },
                "requestBodies": {"Node": {"content": {"application/json": {"schema": self._ref("Node")}}}},
                "pathItems": {
                    "Shared": {
                        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                        "get": {"operationId": "getShared"},
                    }
                },
            },
        }  # fmt: skip

    def _operation(self, number: int) -> tuple[str, Json]:
        chance = self._chance
        word = chance.choice(_WORDS[:10])
        path = f"/{word}s/{number}"
        parameters: list[Json] = []
        for name in chance.sample(["id", "user-id", "ref.name", "$top"], chance.randint(0, 2)):
            path += chance.choice([f"/{{{name}}}", f"/x-{{{name}}}.json"])
            if chance.random() < 0.9:  # some forget to declare it
                parameters.append({"name": name, "in": "path", "required": True, "schema": self._simple()})
        names = ["q", "id", "filter[name]", "sort", "$top", "X-Größe", "body", "created_at[gte]", "x" * 80]
        for name in chance.sample(names, chance.randint(0, 4)):
            parameters.append(self._parameter(name))
        if chance.random() < 0.5:
            parameters += [{"$ref": "#/components/parameters/Page"}, {"$ref": "#/components/parameters/Trace"}]
        operation: Json = {"summary": f"Do {number}.", "parameters": parameters, "responses": {}, "x-other": {"a": 1}}
        if chance.random() < 0.3:
            operation["description"] = "Long. " * chance.choice([1, 500])
        kind = chance.random()
        if kind < 0.6:
            operation["operationId"] = f"{word}s/{number}.do it"
        elif kind < 0.7:
            operation["operationId"] = f"do_{word}_with_a_name_that_goes_on_and_on_and_on_and_on_until_it_is_too_long"
        elif kind < 0.8:
            operation["operationId"] = "twice"
        if chance.random() < 0.5:
            operation["requestBody"] = self._body()
        return path, operation

    def _parameter(self, name: str) -> Json:
        chance = self._chance
        where = chance.choice(["query", "query", "query", "header", "cookie"])
        if "[" in name or "$" in name:
            where = "query"
        if not name.isascii():
            where = "query"
        parameter: Json = {"name": name, "in": where, "required": chance.random() < 0.3, "description": "A parameter."}
        shape = chance.random()
        if where == "query" and shape < 0.2:
            return {
                **parameter,
                "style": "deepObject",
                "explode": True,
                "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            }
        if shape < 0.4:
            style = chance.choice(["form", "spaceDelimited", "pipeDelimited"]) if where == "query" else None
            explode = chance.choice([True, False])
            schema = {"type": "array", "items": self._simple()}
            return {**parameter, **({"style": style} if style else {}), "explode": explode, "schema": schema}
        if shape < 0.5:
            return {**parameter, "content": {"application/json": {"schema": self._schema(2)}}}
        return {**parameter, "schema": self._simple()}

    def _body(self) -> Json:
        chance = self._chance
        kind = chance.random()
        if kind < 0.2:
            return {"$ref": "#/components/requestBodies/Node"}
        media = chance.choice(["application/json"] * 5 + ["application/vnd.x+json; v=1", "*/*", "text/plain"])
        schema = {"type": "string"} if media == "text/plain" else self._schema(4)
        if kind < 0.35:
            properties = {"a": self._simple(), "b": {"type": "array", "items": {"type": "string"}}}
            media, schema = "application/x-www-form-urlencoded", {"type": "object", "properties": properties}
        return {"required": chance.random() < 0.5, "content": {"image/png": {}, media: {"schema": schema}}}

    def _ref(self, name: str) -> Json:
        return {"$ref": f"#/components/schemas/{name}"}

    def _simple(self) -> Json:
        return self._chance.choice([
            {"type": "string"},
            {"type": "string", "enum": ["asc", "desc", ""]},
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "uuid", "pattern": "[0-9a-f-]+", "minLength": 36, "maxLength": 36},
            {"type": "integer", "format": "int64", "minimum": 0},
            {"type": "integer", "enum": [1, 2, 3]},
            {"type": "boolean", "default": False},
            {"type": "number", "exclusiveMinimum": 0 if self._is_31 else True, "minimum": 0},
            {"$ref": "#/components/schemas/a~1b~0c%20d"},
        ])  # fmt: skip

    def _schema(self, depth: int) -> Json:
        chance = self._chance
        if depth == 0:
            return self._simple()
        choices = [
            lambda: self._simple(),
            lambda: {"type": "array", "items": self._schema(depth - 1), "minItems": 1, "uniqueItems": True},
            lambda: {"type": "array"},
            lambda: self._object(depth),
            lambda: self._object(depth),
            lambda: self._object(depth),
            lambda: {"type": "object", "additionalProperties": self._schema(depth - 1)},
            lambda: {"type": "object", "additionalProperties": True},
            dict,
            lambda: self._ref(chance.choice([*self._names, "Node", "Animal", "Cat", "Dog", "Chain", "Wide0"])),
            lambda: {"allOf": [self._ref(chance.choice(self._names)), self._object(depth)], "description": "Both."},
            lambda: {"oneOf": [self._schema(depth - 1) for _ in range(3)], "discriminator": {"propertyName": "kind"}},
            lambda: {"anyOf": [self._object(depth), self._simple()], "title": "Either"},
            lambda: {**self._object(depth), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            lambda: {"not": {"type": "null"}},
            lambda: {"enum": [1, "two", None, True]},
        ]
        if self._is_31:
            choices += [
                lambda: {"type": ["string", "null"], "examples": ["x"]},
                lambda: {"type": ["integer", "string", "null"], "const": 5},
                lambda: {"const": "fixed"},
                lambda: {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
                lambda: {**self._ref("Node"), "description": "A node, but said otherwise."},
                lambda: {"type": "array", "items": True},
                lambda: {"type": "object", "patternProperties": {"^x": {}}, "unevaluatedProperties": False},
            ]
        else:
            choices += [
                lambda: {"type": "string", "nullable": True, "example": "x"},
                lambda: {"allOf": [self._ref("Node")], "nullable": True},
                lambda: {"type": "string", "enum": ["a", None], "nullable": True},
            ]
        return chance.choice(choices)()

    def _object(self, depth: int) -> Json:
        chance = self._chance
        names = ["a", "b", "kind", "created at", "@type", "id"][: chance.randint(1, 6)]
        properties: Json = {name: self._schema(depth - 1) for name in names}
        properties["etag"] = {"type": "string", "readOnly": True}
        schema: Json = {"type": "object", "properties": properties, "required": [names[0], "etag", "not_there"]}
        if chance.random() < 0.3:
            del schema["type"]
        if chance.random() < 0.3:
            schema["additionalProperties"] = False
        return {**schema, "xml": {"name": "x"}, "x-internal": True}

    def _node(self) -> Json:
        return {
            "type": "object",
            "properties": {
                "value": {"type": "string"},
                "children": {"type": "array", "items": self._ref("Node")},
                "parent": {"allOf": [self._ref("Node")], "description": "Above."},
            },
            "required": ["value"],
        }

    def _animal(self) -> Json:
        return {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "friend": self._ref("Animal")},
            "required": ["kind"],
            "discriminator": {"propertyName": "kind"},
            "oneOf": [self._ref("Cat"), self._ref("Dog")],
        }

    def _kind(self, name: str, properties: Json) -> Json:
        return {"allOf": [self._ref("Animal"), {"type": "object", "properties": properties}], "title": name}

    def _wide(self, number: int) -> Json:
        """Each refers to the next five times: written out, that is 5 to the 12th."""
        following = self._ref(f"Wide{number + 1}") if number < 11 else {"type": "string"}
        return {"type": "object", "properties": {f"p{n}": following for n in range(5)}}
