from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Awaitable
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolnexus.errors import ConfigurationError
from toolnexus.suspension import Answer, Pending, pending
from toolnexus.tool import Tool, ToolContext, ToolInputError
from toolnexus.tools import define_tool, tool

CTX = ToolContext(id="call_1", name="t")
CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPEN_CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}


def call(tool: Tool, /, **args: Any) -> Any:
    return tool.bind(args, CTX)()


def misfit(tool: Tool, /, **args: Any) -> str:
    with pytest.raises(ToolInputError) as caught:
        tool.bind(args, CTX)
    return str(caught.value)


def test_a_decorated_function_is_a_tool_and_can_still_be_called() -> None:
    @tool
    def weather(city: str) -> str:
        """Weather for a city.

        Args:
            city: Where.
        """
        return f"31C in {city}"

    assert weather.name == "weather"
    assert weather.description == "Weather for a city."
    assert weather.input_schema["properties"] == {"city": {"type": "string", "description": "Where."}}
    assert weather("Pune") == "31C in Pune"
    assert call(weather, city="Pune") == "31C in Pune"
    assert (weather.is_async, weather.parallel, weather.timeout, weather.approval, weather.idempotent) == (
        False,
        True,
        None,
        False,
        False,
    )


def test_options_reach_the_tool() -> None:
    def risky(args: dict[str, Any]) -> bool:
        return bool(args)

    @tool(name="w", description="d", parallel=False, timeout=5, approval=risky, idempotent=True)
    def weather() -> None:
        """Not this."""

    assert (weather.name, weather.description) == ("w", "d")
    assert (weather.parallel, weather.timeout, weather.approval, weather.idempotent) == (False, 5, risky, True)


def test_a_function_without_a_docstring_has_an_empty_description() -> None:
    assert define_tool(lambda: None, name="t").description == ""


async def anything(x: int) -> int:
    """Do."""
    return x


class Sync:
    """A thing."""

    def __call__(self, x: int) -> int:
        """Call it."""
        return x

    async def method(self, x: int) -> int:
        """Do."""
        return x


class Async(Sync):
    async def __call__(self, x: int) -> int:  # type: ignore[override]  # the case
        return x


@functools.wraps(anything)
def wrapped(x: int) -> Awaitable[int]:
    return anything(x)


@pytest.mark.parametrize(
    ("function", "name", "description", "is_async"),
    [
        (anything, "anything", "Do.", True),
        (functools.partial(anything, 1), "anything", "Do.", True),
        (Sync().method, "method", "Do.", True),
        (Sync(), "Sync", "Call it.", False),
        (Async(), "Async", "", True),
        (functools.partial(Async(), x=1), "Async", "", True),
        (wrapped, "anything", "Do.", False),  # the wrapper decides; that it returns an awaitable shows when called
        (functools.lru_cache(Sync().method), "method", "Do.", False),
    ],
)
def test_any_callable_becomes_a_tool(function: Any, name: str, description: str, is_async: bool) -> None:
    made = define_tool(function)
    assert (made.name, made.description, made.is_async) == (name, description, is_async)
    assert made.function is function


@pytest.mark.parametrize("name", ["a", "a-b_C9", "x" * 64])
def test_good_names_are_taken(name: str) -> None:
    assert define_tool(lambda: None, name=name).name == name


@pytest.mark.case("schema-bad-tool-names")
@pytest.mark.parametrize("name", ["", "a b", "größe", "x" * 65, "a\n", "a.b", 5])
def test_bad_names_are_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"tool name: expected 1 to 64 of .* got .*; pass name="):
        define_tool(lambda: None, name=name)


@pytest.mark.case("schema-bad-tool-names")
def test_a_function_whose_own_name_is_bad_needs_another() -> None:
    def größe() -> None: ...

    for function in (größe, lambda: None):
        with pytest.raises(ConfigurationError, match="pass name="):
            define_tool(function)


@pytest.mark.parametrize("timeout", [0, -1, True, "5", float("nan")])
def test_a_timeout_is_seconds(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="tool 't': timeout: expected seconds above 0"):
        define_tool(lambda: None, name="t", timeout=timeout)


def test_an_approval_is_a_switch_or_a_predicate() -> None:
    with pytest.raises(ConfigurationError, match="tool 't': approval: expected a bool or a plain function, got 'yes'"):
        define_tool(lambda: None, name="t", approval="yes")  # type: ignore[arg-type]  # the case

    async def ask(args: dict[str, Any]) -> bool:
        return False

    with pytest.raises(ConfigurationError, match="approval: expected a bool or a plain function"):
        define_tool(lambda: None, name="t", approval=ask)  # type: ignore[arg-type]  # its promise would count as yes


def test_only_functions_become_tools() -> None:
    with pytest.raises(TypeError, match=r"expected a function to make a tool of, got 'weather' \(str\)"):
        tool("weather")  # type: ignore[call-overload]  # the case
    with pytest.raises(ConfigurationError, match=r"'t' is a tool already; dataclasses.replace\(\)"):
        define_tool(define_tool(lambda: None, name="t"))


def test_a_tool_can_be_renamed() -> None:
    other = dataclasses.replace(define_tool(lambda: 1, name="t"), name="u")
    assert call(other) == 1


def test_the_seeds_tool_with_a_schema() -> None:
    weather = define_tool(
        name="get_weather",
        description="Weather for a city",
        input_schema=CITY,
        run=lambda args: f"31C in {args['city']}",
    )
    assert weather.input_schema == CITY
    assert call(weather, city="Chennai") == "31C in Chennai"
    assert misfit(weather, city=5) == "the arguments do not fit:\ncity: expected string, got 5"
    assert misfit(weather) == "the arguments do not fit:\ncity: required, but missing"


def test_the_seeds_tool_without_a_schema() -> None:
    approve = define_tool(
        name="approve",
        description="Needs human sign-off",
        run=lambda _args, ctx: (
            f"signed off: {ctx.answer.data['decision']}"
            if ctx.answer
            else pending(prompt="Approve this action?", kind="input")
        ),
    )
    assert approve.input_schema == {"type": "object", "properties": {}}
    assert call(approve) == Pending("Approve this action?")
    answered = ToolContext(answer=Answer("r", data={"decision": "yes"}))
    assert approve.bind({"whatever": 1}, answered)() == "signed off: yes"
    assert call(define_tool(lambda args: args, name="t"), a=1) == {"a": 1}


def test_only_a_bare_parameter_called_args_takes_everything() -> None:
    def hinted(args: list[int]) -> Any:
        return args

    assert call(define_tool(hinted), args=[1]) == [1]
    assert call(define_tool(lambda *args: args, name="t"), args=[1]) == (1,)


def test_a_single_parameter_that_is_no_property_gets_a_dict_of_its_own() -> None:
    def run(args: dict[str, Any], ctx: ToolContext) -> Any:
        args["tags"].append("changed")
        return args, ctx

    tags = define_tool(run, input_schema={"properties": {"tags": {}}})
    given: dict[str, Any] = {"tags": ["a"], "more": 1}
    assert tags.bind(given, CTX)() == ({"tags": ["a", "changed"], "more": 1}, CTX)
    assert given == {"tags": ["a"], "more": 1}
    keyword = define_tool(lambda *, data: data, name="t", input_schema=OPEN_CITY)
    assert call(keyword, city="x") == {"city": "x"}


def test_any_other_function_gets_the_properties_by_name() -> None:
    city = define_tool(lambda city: city, name="t", input_schema=OPEN_CITY)
    assert call(city, city="x") == "x"
    assert misfit(city) == "the arguments do not fit:\ncity: required, but missing"
    assert misfit(city, city="x", days=1) == "the arguments do not fit:\ndays: unknown argument"

    def run(city: str, /, days=1, *rest, ctx, **more):  # the case
        return city, days, rest, ctx, more

    many = define_tool(run, input_schema=OPEN_CITY)
    assert call(many, city="x", days=2, other=3) == ("x", 2, (), CTX, {"other": 3})
    assert misfit(many, city="x", ctx=3) == "the arguments do not fit:\nctx: unknown argument"


def test_arguments_by_name_are_the_tools_own() -> None:
    given: dict[str, Any] = {"a": [1], "b": 2}
    tool = define_tool(lambda a, b: a.append(b), name="t", input_schema={"properties": {"a": {}, "b": {}}})
    tool.bind(given, CTX)()
    assert given == {"a": [1], "b": 2}


def test_a_schema_and_a_function_that_do_not_agree_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"tool 't': parameter 'context' is no property of input_schema"):
        define_tool(lambda city, context: 1, name="t", input_schema=CITY)
    with pytest.raises(
        ConfigurationError, match=r"tool 't': input_schema has the property 'city', but the function no"
    ):
        define_tool(lambda: 1, name="t", input_schema=CITY)

    def default(city: Annotated[str, Field()] = Field("x"), n: int = 1) -> None: ...

    with pytest.raises(ConfigurationError, match=r"parameter 'city': with input_schema, Field\(\) is not read"):
        define_tool(default, input_schema=CITY)


def test_a_broken_schema_is_refused_with_the_tools_name() -> None:
    with pytest.raises(ConfigurationError, match=r"tool 't': input_schema\.required: expected a list") as caught:
        define_tool(lambda args: 1, name="t", input_schema={"required": "x"})
    assert caught.value.__cause__ is None


def test_what_cannot_be_copied_cannot_be_checked() -> None:
    frame = inspect.currentframe()
    text = misfit(define_tool(lambda args: args, name="t"), x=frame)
    assert text.startswith("the arguments cannot be checked: TypeError")
