from __future__ import annotations

import enum
import functools
import inspect
import json
import socket
import sys
import typing
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import pytest
from pydantic import BaseModel, Field, field_validator

from toolnexus.errors import ConfigurationError
from toolnexus.tool import Tool, ToolContext, ToolInputError
from toolnexus.tools.function import define_tool

if typing.TYPE_CHECKING:
    from toolnexus.tool import ToolContext as Unimported

if sys.version_info < (3, 12):
    from typing_extensions import TypedDict  # pydantic asks for it

CTX = ToolContext(id="call_1", name="t")


def call(tool: Tool, /, **args: Any) -> Any:
    return tool.bind(args, CTX)()


def misfit(tool: Tool, /, **args: Any) -> list[str]:
    with pytest.raises(ToolInputError) as caught:
        tool.bind(args, CTX)
    first, *lines = str(caught.value).splitlines()
    assert first == "the arguments do not fit:"
    return lines


def properties(tool: Tool) -> dict[str, Any]:
    found: dict[str, Any] = tool.input_schema["properties"]
    return found


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    """A node."""

    v: int
    kids: list[Node] = []


class Tree(BaseModel):
    root: Annotated[Node, Field(description="the root")]
    twin: Annotated[Tree | None, Field(description="the twin")] = None
    again: Annotated[Tree, Field(description="needs itself")] = None  # type: ignore[assignment]  # a broken default


@dataclass
class Point:
    x: int
    y: int = 0


class Opts(TypedDict):
    k: int


def test_the_schema_of_a_plain_function() -> None:
    def weather(city: str, days: int = 1) -> str:
        return f"{city} {days}"

    tool = define_tool(weather)
    assert tool.input_schema == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"default": 1, "type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    assert call(tool, city="Pune") == "Pune 1"


def test_a_function_of_nothing() -> None:
    tool = define_tool(lambda: "x", name="t")
    assert tool.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert call(tool) == "x"
    assert misfit(tool, a=1) == ["a: unknown argument"]


@pytest.mark.case("schema-postponed-annotations")
def test_postponed_annotations_are_resolved() -> None:
    def f(n: int, tags: list[str] | None = None, m: Literal["a", "b"] = "a") -> Any:
        return n, tags, m

    tool = define_tool(f)
    assert properties(tool) == {
        "n": {"type": "integer"},
        "tags": {"anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}], "default": None},
        "m": {"default": "a", "enum": ["a", "b"], "type": "string"},
    }
    assert call(tool, n=1, tags=["x"], m="b") == (1, ["x"], "b")
    assert misfit(tool, n=1, m="c") == ["m: Input should be 'a' or 'b' (got \"c\")"]


@pytest.mark.case("schema-wrapped-functions")
def test_a_decorated_function_is_read_where_it_was_written() -> None:
    # As if from another module: its globals know nothing of `Point`.
    elsewhere: dict[str, Any] = {"functools": functools}
    exec(
        "def traced(function):\n"
        "    @functools.wraps(function)\n"
        "    def wrapper(*args, **kwargs): return function(*args, **kwargs)\n"
        "    return wrapper",
        elsewhere,
    )

    @elsewhere["traced"]  # type: ignore[untyped-decorator]  # made by exec
    def f(p: Point, c: Color) -> Any:
        return p, c

    assert call(define_tool(f), p={"x": 1}, c="red") == (Point(1), Color.RED)


@pytest.mark.case("schema-local-class-annotation")
def test_a_local_class_is_found_in_the_closure() -> None:
    class Local(BaseModel):
        x: int

    def f(p: Local) -> Any:
        return isinstance(p, Local)

    assert call(define_tool(f), p={"x": 1}) is True


def test_a_tool_may_call_itself() -> None:
    def f(n: int) -> Any:
        return 1 if n == 0 else n * f(n - 1)

    def make() -> Tool:
        @define_tool
        def g(n: int) -> Any:
            return 1 if n == 0 else n * g(n - 1)

        return g

    assert call(define_tool(f), n=3) == call(make(), n=3) == 6


@pytest.mark.case("schema-local-class-annotation")
def test_a_hint_that_cannot_be_resolved_is_named() -> None:
    class Local(BaseModel):
        x: int

    def f(n: int, p: Local) -> None: ...

    with pytest.raises(ConfigurationError, match=r"tool 'f': parameter 'p': cannot resolve the hint 'Local' \(NameErr"):
        define_tool(f)
    assert call(define_tool(f, input_schema={"properties": {"n": {}, "p": {}}}), n=1, p=2) is None


@pytest.mark.case("schema-annotated-description-and-field")
def test_descriptions_constraints_and_defaults_of_field() -> None:
    def f(
        city: Annotated[str, "where"],
        age: Annotated[int, Field(gt=0, description="years")] = Field(5),
        n: Annotated[int, Field(ge=1)] = 2,
        made: list[int] = Field(default_factory=lambda: [1]),  # noqa: B008  # pydantic's way
        inner: Annotated[int, Field(default=7)] = Field(),
    ) -> Any:
        """Do.

        Args:
            city: Not this.
            n: Count.
        """
        return city, age, n, made, inner

    tool = define_tool(f)
    assert properties(tool)["city"] == {"type": "string", "description": "where"}
    assert properties(tool)["age"] == {"default": 5, "description": "years", "exclusiveMinimum": 0, "type": "integer"}
    assert properties(tool)["n"] == {"default": 2, "description": "Count.", "minimum": 1, "type": "integer"}
    assert tool.input_schema["required"] == ["city"]
    assert call(tool, city="x") == ("x", 5, 2, [1], 7)
    assert call(tool, city="x") == ("x", 5, 2, [1], 7)
    assert misfit(tool, city="x", age=0, n=0) == [
        "age: Input should be greater than 0 (got 0)",
        "n: Input should be greater than or equal to 1 (got 0)",
    ]


def test_a_plain_default_reaches_the_function_itself() -> None:
    marker: list[int] = []
    tool = define_tool(lambda a=marker, b=None: (a, b), name="t")
    assert call(tool)[0] is marker
    weird = define_tool(lambda a=object(): a, name="t")  # noqa: B008  # a default that JSON cannot say
    assert properties(weird) == {"a": {}}


def test_an_alias_is_the_name_for_the_model() -> None:
    def f(from_: Annotated[str, Field(alias="from")], **more: Any) -> Any:
        return from_, more

    tool = define_tool(f)
    assert list(properties(tool)) == ["from"]
    assert call(tool, **{"from": "a", "to": "b"}) == ("a", {"to": "b"})
    assert misfit(tool, **{"from": "a", "from_": "b"}) == ["from_: unknown argument"]


@pytest.mark.case("schema-nested-models-defs")
def test_recursive_models_have_their_definitions_at_the_root() -> None:
    def f(node: Node, other: Annotated[Node, "another"]) -> Any:
        return node, other

    tool = define_tool(f)
    body = {
        "description": "A node.",
        "properties": {
            "v": {"type": "integer"},
            "kids": {"default": [], "items": {"$ref": "#/$defs/Node"}, "type": "array"},
        },
        "required": ["v"],
        "type": "object",
    }
    assert properties(tool) == {"node": {"$ref": "#/$defs/Node"}, "other": {**body, "description": "another"}}
    assert tool.input_schema["$defs"] == {"Node": body}
    assert call(tool, node={"v": 1, "kids": [{"v": 2}]}, other={"v": 3}) == (Node(v=1, kids=[Node(v=2)]), Node(v=3))
    assert misfit(tool, node={"v": 1, "kids": [{"v": "x"}]}, other={}) == [
        'node.kids[0].v: Input should be a valid integer, unable to parse string as an integer (got "x")',
        "other.v: required, but missing",
    ]


@pytest.mark.case("schema-nested-models-defs")
def test_no_ref_has_neighbours_and_no_definition_is_left_over() -> None:
    def f(tree: Annotated[Tree, "a tree"], c: Color = Color.RED, o: Opts = {"k": 1}) -> None: ...  # noqa: B006  # never called

    tool = define_tool(f)
    text = json.dumps(tool.input_schema)
    assert "title" not in text
    assert text.count("$ref") > 1
    assert set(tool.input_schema["$defs"]) == {"Node", "Tree"}

    def check(node: Any) -> None:
        for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            check(item)
        if isinstance(node, dict) and "$ref" in node:
            assert len(node) == 1
            assert node["$ref"].removeprefix("#/$defs/") in tool.input_schema["$defs"]

    check(tool.input_schema)
    assert properties(tool)["c"] == {"default": "red", "enum": ["red", "blue"], "type": "string"}


def test_a_property_called_title_stays() -> None:
    class Book(BaseModel):
        title: str = Field("x", title="Noise", examples=[{"title": 1}])

    def f(title: str, book: Book) -> Any:
        return book and Book

    tool = define_tool(f)
    assert properties(tool)["title"] == {"type": "string"}
    assert tool.input_schema["$defs"]["Book"]["properties"] == {
        "title": {"default": "x", "examples": [{"title": 1}], "type": "string"}
    }


def test_a_model_may_have_the_name_of_ours() -> None:
    class Arguments(BaseModel):
        field_a: int

    def f(a: Arguments) -> Any:
        return isinstance(a, Arguments) and a.field_a

    assert call(define_tool(f), a={"field_a": 1}) == 1


@pytest.mark.case("schema-dict-object-any")
def test_dicts_are_open_and_any_is_anything() -> None:
    def f(opts: dict, extra: Any, n: dict[str, int], bare) -> Any:  # the case
        return opts, extra, n, bare

    tool = define_tool(f)
    assert properties(tool) == {
        "opts": {"additionalProperties": True, "type": "object"},
        "extra": {},
        "n": {"additionalProperties": {"type": "integer"}, "type": "object"},
        "bare": {},
    }
    given = {"opts": {"a": [1]}, "extra": {"b": []}, "n": {"c": 1}, "bare": None}
    opts, extra, _, _ = call(tool, **given)
    opts["a"].append(2)
    extra["b"].append(2)
    assert given == {"opts": {"a": [1]}, "extra": {"b": []}, "n": {"c": 1}, "bare": None}


@pytest.mark.case("schema-var-args")
def test_variadic_and_positional_parameters() -> None:
    def f(a, /, b: int = 2, *rest: int, flag: bool = False, **more: str) -> Any:
        return a, b, rest, flag, more

    tool = define_tool(f)
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "a": {},
            "b": {"default": 2, "type": "integer"},
            "rest": {"items": {"type": "integer"}, "type": "array"},
            "flag": {"default": False, "type": "boolean"},
        },
        "required": ["a"],
        "additionalProperties": {"type": "string"},
    }
    assert call(tool, a=1) == (1, 2, (), False, {})
    assert call(tool, a=1, rest=[3, 4], flag=True, x="y") == (1, 2, (3, 4), True, {"x": "y"})
    assert misfit(tool, a=1, rest=["q"], x=5) == [
        'rest[0]: Input should be a valid integer, unable to parse string as an integer (got "q")',
        "x: Input should be a valid string (got 5)",
    ]


def test_a_skipped_positional_only_parameter_does_not_move_its_neighbour() -> None:
    def f(a: int = 1, b: int = 2, /) -> Any:
        return a, b

    assert call(define_tool(f), b=5) == (1, 5)


def test_bare_variadics_take_anything() -> None:
    tool = define_tool(lambda *args, ctx, **kwargs: (args, ctx, kwargs), name="t")
    assert tool.input_schema == {
        "type": "object",
        "properties": {"args": {"items": {}, "type": "array"}},
        "additionalProperties": True,
    }
    assert call(tool, args=[1, "a"], **{"class": 2, "kwargs": 3}) == ((1, "a"), CTX, {"class": 2, "kwargs": 3})
    assert misfit(tool, ctx=1) == ["ctx: unknown argument"]


class Kit:
    def method(self, x: int) -> Any:
        """Do it."""
        return self, x

    def open(self, **more: Any) -> Any:
        return more

    @classmethod
    def klass(cls, x: int) -> Any:
        return cls, x

    @staticmethod
    def static(x: int) -> Any:
        return x


class Callee:
    """A callee."""

    def __call__(self, x: int) -> Any:
        """Call it."""
        return x


class AsyncCallee:
    async def __call__(self, x: int) -> Any:
        return x


@pytest.mark.case("schema-self-cls-methods")
def test_self_and_cls_are_hidden() -> None:
    kit = Kit()
    for function in (kit.method, Kit.klass, Kit.static, Callee(), AsyncCallee(), vars(Kit)["static"]):
        assert list(properties(define_tool(function))) == ["x"]
    assert call(define_tool(kit.method), x=1) == (kit, 1)
    assert call(define_tool(Kit.klass), x=1) == (Kit, 1)
    assert misfit(define_tool(kit.open), self=1) == ["self: unknown argument"]


@pytest.mark.case("schema-self-cls-methods")
def test_an_unbound_method_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'method'.*'self' is not bound: 'Kit.method' is a method"):
        define_tool(Kit.method)


def test_a_hinted_parameter_may_be_called_self() -> None:
    def f(self: int = 3) -> int:
        return self

    assert call(define_tool(f), self=4) == 4


@pytest.mark.case("schema-self-cls-methods")
def test_what_a_partial_has_bound_is_hidden() -> None:
    def f(a: int, b: int, c: int = 0, **more: Any) -> Any:
        return a, b, c, more

    tool = define_tool(functools.partial(f, 1, b=2, extra=3))
    assert tool.name == "f"
    assert list(properties(tool)) == ["c"]
    assert call(tool, c=5) == (1, 2, 5, {"extra": 3})
    assert misfit(tool, b=5, extra=4, a=7) == [
        "b: unknown argument",
        "extra: unknown argument",
        "a: unknown argument",
    ]


def test_what_has_no_signature_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no signature to read"):
        define_tool(max)
    with pytest.raises(ConfigurationError, match=r"expected a function, got the class 'Kit'; pass an instance"):
        define_tool(Kit)


def test_a_signature_of_its_own_is_read() -> None:
    class Size:
        __call__ = staticmethod(len)
        __signature__ = inspect.Signature([Parameter("x", Parameter.POSITIONAL_ONLY, annotation="list[int]")])

    assert call(define_tool(Size()), x=["1", 2]) == 2


@pytest.mark.case("schema-context-parameter-hidden")
def test_a_context_parameter_is_hidden_however_it_is_written() -> None:
    def by_type(c: ToolContext, x: int) -> Any:
        return c

    def optional(x: int, c: ToolContext | None = None) -> Any:
        return c

    def union(x: int, *, c: Union[ToolContext, None]) -> Any:  # noqa: UP007  # the case
        return c

    def annotated(x: int, c: Annotated[ToolContext, "mine"]) -> Any:
        return c

    def unimported(x: int, c: "Unimported | ToolContext") -> Any:  # noqa: UP037  # quoted is the case
        return c

    def by_name(ctx, x: int) -> Any:  # the case
        return ctx

    def by_name_with_any_hint(x: int, ctx: Nowhere) -> Any:  # type: ignore[name-defined]  # noqa: F821  # that it is nowhere is the case
        return ctx

    for function in (by_type, optional, union, annotated, by_name, by_name_with_any_hint):
        tool = define_tool(function)
        assert list(properties(tool)) == ["x"]
        assert call(tool, x=1) is CTX
        assert misfit(tool, x=1, ctx=1) == ["ctx: unknown argument"]
    with pytest.raises(ConfigurationError, match="parameter 'c'"):
        define_tool(unimported)


def test_the_context_is_known_where_its_import_is_for_checkers_only() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x: 'int', c: 'ToolContext'): return c", namespace)
    assert call(define_tool(namespace["f"]), x=1) is CTX


def test_parameters_may_be_called_anything() -> None:
    def f(model_config: str, schema: int, copy: int, json: int, _x: int, validate: int, model_fields: int) -> Any:
        return model_config, schema, copy, json, _x, validate, model_fields

    tool = define_tool(f)
    assert list(properties(tool)) == ["model_config", "schema", "copy", "json", "_x", "validate", "model_fields"]
    given = {"model_config": "a", "schema": 1, "copy": 2, "json": 3, "_x": 4, "validate": 5, "model_fields": 6}
    assert call(tool, **given) == ("a", 1, 2, 3, 4, 5, 6)


def test_values_are_what_the_hints_say() -> None:
    def f(
        c: Color, p: Point, o: Opts, when: date, u: uuid.UUID, d: Decimal, path: Path, s: set[int], t: tuple[int, str],
        i: int | str, f: float, either: Point | None,
    ) -> Any:  # fmt: skip
        return c, p, o, when, u, d, path, s, t, i, f, either

    given = {
        "c": "blue",
        "p": {"x": 1},
        "o": {"k": 1},
        "when": "2024-01-02",
        "u": str(uuid.UUID(int=1)),
        "d": "1.5",
        "path": "/a",
        "s": [1, 1],
        "t": [1, "a"],
        "i": "5",
        "f": 2,
        "either": None,
    }
    assert call(define_tool(f), **given) == (
        Color.BLUE, Point(1), {"k": 1}, date(2024, 1, 2), uuid.UUID(int=1), Decimal("1.5"), Path("/a"), {1}, (1, "a"),
        "5", 2.0, None,
    )  # fmt: skip


def test_a_deprecated_parameter_warns_nobody() -> None:
    def f(old: Annotated[int, Field(deprecated=True)] = Field(1)) -> Any:
        return old

    tool = define_tool(f)
    assert properties(tool)["old"]["deprecated"] is True
    assert call(tool, old=2) == 2


@pytest.mark.case("schema-argument-coercion")
@pytest.mark.parametrize(
    ("hint", "value", "inside"),
    [
        (int, "5", 5),
        (int, 5.0, 5),
        (float, "2.5", 2.5),
        (float, 2, 2.0),
        (bool, "true", True),
        (bool, 1, True),
        (bool, False, False),
        (int | bool, True, True),
        (Any, True, True),
        (str, "true", "true"),
    ],
)
def test_safe_conversions_are_made(hint: Any, value: object, inside: object) -> None:
    def f(x: Any) -> Any:
        return x

    f.__annotations__["x"] = hint
    result = call(define_tool(f), x=value)
    assert result == inside
    assert type(result) is type(inside)


@pytest.mark.case("schema-argument-coercion")
@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True),
        (float, False),
        (Optional[int], True),  # noqa: UP045  # the case
        (int | str, True),
        (list[int], [1, True]),
        (Node, {"v": True}),
        (Node, {"v": 1, "kids": [{"v": False}]}),
        (Opts, {"k": True}),
        (Point, {"x": True}),
        (int, 5.5),
        (int, "5.5"),
        (int, "1" * 5000),
        (str, 5),
        (bool, 2),
        (bool, "maybe"),
        (list[str], "a"),
        (dict[str, int], '{"k": 1}'),
        (Node, '{"v": 1}'),
        (Point, '{"x": 1}'),
        (float, "NaN"),
    ],
)
def test_other_conversions_are_refused(hint: Any, value: object) -> None:
    def f(x: Any) -> Any:
        raise AssertionError("must not run")

    f.__annotations__["x"] = hint
    assert misfit(define_tool(f), x=value)[0].startswith("x")


def test_what_came_is_shown_as_json_and_cut() -> None:
    def f(x: int, y: int = 0) -> None: ...

    tool = define_tool(f)
    assert misfit(tool, x=True, y=2) == ["x: Input should be a valid integer (got true)"]
    assert misfit(tool, x={"a": None}) == ['x: Input should be a valid integer (got {"a": null})']
    assert misfit(tool, x="ä" * 1000)[0].count("ä") < 200


def test_a_long_list_of_problems_is_cut() -> None:
    tool = define_tool(lambda x: x, name="t")
    lines = misfit(tool, **{f"{i}" * 500: 1 for i in range(30)})
    assert len(lines) == 9
    assert lines[-1] == "… and 23 more"
    assert max(map(len, lines)) < 200


def test_arguments_that_are_no_object_are_refused() -> None:
    tool = define_tool(lambda x: x, name="t")
    with pytest.raises(ToolInputError, match=r"arguments: Input should be an object \(got \[1\]\)"):
        tool.bind([1], CTX)  # type: ignore[arg-type]  # what a model may send


def test_arguments_that_cannot_be_checked_are_refused() -> None:
    class Touchy(BaseModel):
        v: int

        @field_validator("v")
        @classmethod
        def check(cls, v: int) -> int:
            raise KeyError("boom")

    def f(x: Any = None, t: Touchy | None = None) -> Any:
        return Touchy

    tool = define_tool(f)
    for args in ({"x": object()}, {"x": "\ud800"}, {"t": {"v": 1}}):
        with pytest.raises(ToolInputError, match="the arguments cannot be checked"):
            tool.bind(args, CTX)
    assert misfit(tool, x=10**4301)[0].startswith("arguments: Invalid JSON")


def test_hints_without_a_schema_are_named() -> None:
    def callback(n: int, do: Callable[[], int]) -> None: ...

    def sock(s: socket.socket) -> None: ...

    def broken(*, x: 1 / 0) -> None: ...  # type: ignore[valid-type]  # the case

    def extra(**more: socket.socket) -> None: ...

    for function, parameter in ((callback, "do"), (sock, "s"), (extra, "more")):
        with pytest.raises(ConfigurationError) as caught:
            define_tool(function)
        assert str(caught.value).startswith(f"tool {function.__name__!r}: parameter {parameter!r}: cannot make a JSON")
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="parameter 'x'"):
        define_tool(broken)
