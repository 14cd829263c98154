"""Functions as tools: `@tool` and `define_tool`."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from .._copies import copied
from ..errors import ConfigurationError
from ..tool import Tool, ToolContext, ToolInputError
from .docstrings import parse_docstring
from .json_schema import check_schema, misfits
from .misfits import clip, describe, place, refusal
from .signature import Function, Signature, read_signature, without_partials

if TYPE_CHECKING:
    from .schema import HintedArguments

Approval = bool | Callable[[dict[str, Any]], bool]  # Any: JSON, the arguments


def define_tool(
    run: Function,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,  # Any: JSON
    parallel: bool = True,
    timeout: float | None = None,
    approval: Approval = False,
    idempotent: bool = False,
) -> Tool:
    """Make a tool of a function, sync or async.

    A parameter annotated `ToolContext`, or named `ctx`, gets the call's context; the model does not see it.

    Without `input_schema` the arguments are described by the hints and the docstring (`toolnexus.tools.schema` has
    the rules), and an argument the function does not name is refused. Only a function whose one parameter besides
    the context is called `args` or `_args` and has no hint gets all arguments, unchecked, as one dict.

    With `input_schema` hints play no part. A function with exactly one parameter besides the context, whose name is
    no property of the schema, gets the arguments as one dict of its own; any other gets the properties by name.

    Args:
        run: A function, bound method, `functools.partial` or object with `__call__`.
        name: What the model calls it; the function's name when left out.
        description: What the model is told it does; the docstring up to its parameters when left out.
        input_schema: JSON Schema of the arguments, an object.
        parallel: `False` keeps the tool to itself: no other tool of the turn runs beside it.
        timeout: Seconds it may run.
        approval: Whether a human must agree before it runs, or a predicate on the arguments that says so.
        idempotent: Whether it may run again after a crash in mid-call.

    Raises:
        ConfigurationError: The name, the schema, a hint or an option cannot work.
        TypeError: `run` cannot be called.
    """
    if isinstance(run, Tool):
        raise ConfigurationError(f"{run.name!r} is a tool already; dataclasses.replace() makes a changed copy of it")
    if not callable(run):
        raise TypeError(f"expected a function to make a tool of, got {clip(repr(run))} ({type(run).__name__})")
    target = without_partials(run)
    name = _check_name(getattr(target, "__name__", type(target).__name__) if name is None else name)
    _check_options(name, timeout, approval)
    doc = parse_docstring((target if hasattr(target, "__name__") else type(target).__call__).__doc__)
    try:
        arguments = _arguments(run, input_schema, doc.parameters)
    except ConfigurationError as error:
        raise ConfigurationError(f"tool {name!r}: {error}") from error.__cause__
    return Tool(
        name=name,
        description=doc.summary if description is None else description,
        input_schema=arguments.schema,
        function=run,
        bind=functools.partial(_bind, arguments),
        is_async=inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__),
        parallel=parallel,
        timeout=timeout,
        approval=approval,
        idempotent=idempotent,
    )


@overload
def tool(run: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,  # Any: JSON
    parallel: bool = True,
    timeout: float | None = None,
    approval: Approval = False,
    idempotent: bool = False,
) -> Callable[[Function], Tool]: ...
def tool(
    run: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,  # Any: JSON
    parallel: bool = True,
    timeout: float | None = None,
    approval: Approval = False,
    idempotent: bool = False,
) -> Tool | Callable[[Function], Tool]:
    """Make a tool of the function below: `@tool`, or `@tool(name=..., ...)` with the options of `define_tool`."""
    define = functools.partial(
        define_tool,
        name=name,
        description=description,
        input_schema=input_schema,
        parallel=parallel,
        timeout=timeout,
        approval=approval,
        idempotent=idempotent,
    )
    return define if run is None else define(run)


class _GivenArguments:
    """The arguments of a function as an explicit schema describes them."""

    def __init__(self, signature: Signature, input_schema: object) -> None:
        self.schema = check_schema(input_schema)
        self._signature = signature
        self._named: dict[str, bool] = {}  # whether the function needs it
        self._rest: str | None = None
        self._whole: str | None = None
        properties = self.schema["properties"]
        for name, parameter in signature.parameters.items():
            if _is_field(parameter.default):
                raise ConfigurationError(f"parameter {name!r}: with input_schema, Field() is not read; give a default")
            if parameter.kind is parameter.VAR_KEYWORD:
                self._rest = name
            elif parameter.kind is not parameter.VAR_POSITIONAL:  # which no property can name: it stays empty
                self._named[name] = parameter.default is parameter.empty
        if len(signature.parameters) == len(self._named) == 1 and not self._named.keys() <= properties.keys():
            (self._whole,) = self._named
            return
        for name, needed in self._named.items():
            if needed and name not in properties:
                raise ConfigurationError(
                    f"parameter {name!r} is no property of input_schema (a context parameter is called 'ctx' "
                    "or annotated ToolContext)"
                )
        if self._rest is None and (lost := [name for name in properties if name not in self._named]):
            raise ConfigurationError(f"input_schema has the property {lost[0]!r}, but the function no such parameter")

    def bind(self, args: dict[str, Any], ctx: ToolContext) -> Callable[[], object]:  # Any: JSON
        if problems := list(misfits(args, self.schema)):
            raise refusal(problems)
        own = copied(args)  # a tool may change what it gets; the transcript must not change with it
        if self._whole is not None:
            return self._signature.call({self._whole: own}, ctx)
        values: dict[str, object] = {name: own.pop(name) for name in self._named if name in own}
        problems = [
            f"{name}: required, but missing" for name, need in self._named.items() if need and name not in values
        ]
        taken = own if self._rest is None else own.keys() & self._signature.reserved
        problems += [f"{place([name])}: unknown argument" for name in taken]
        if problems:
            raise refusal(problems)
        return self._signature.call(values if self._rest is None else {**values, self._rest: own}, ctx)


def _is_field(default: object) -> bool:
    """Whether it is pydantic's `Field()`; where its module was never imported nothing can be, and need not be now."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(default, fields.FieldInfo)


def _arguments(run: Function, input_schema: object, texts: Mapping[str, str]) -> HintedArguments | _GivenArguments:
    if input_schema is not None:
        return _GivenArguments(read_signature(run, need_hints=False), input_schema)
    signature = read_signature(run)
    match list(signature.parameters.values()):
        case [inspect.Parameter(name="args" | "_args", annotation=inspect.Parameter.empty) as only] if (
            only.kind not in (only.VAR_POSITIONAL, only.VAR_KEYWORD)
        ):
            return _GivenArguments(signature, {})
        case _:
            from .schema import HintedArguments  # what it needs of pydantic takes a while to import

            return HintedArguments(signature, texts)


def _bind(
    arguments: HintedArguments | _GivenArguments,
    args: dict[str, Any],  # Any: JSON
    ctx: ToolContext,
) -> Callable[[], object]:
    try:
        return arguments.bind(args, ctx)
    except ToolInputError:
        raise
    except Exception as error:  # not JSON, nested too deep, or a validator of the user's that fails
        raise ToolInputError(f"the arguments cannot be checked: {clip(describe(error))}") from error


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ConfigurationError(
            f"tool name: expected 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, got {clip(repr(name))}; pass name="
        )
    return name


def _check_options(name: str, timeout: object, approval: object) -> None:
    seconds = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0
    if timeout is not None and not seconds:
        raise ConfigurationError(f"tool {name!r}: timeout: expected seconds above 0, got {clip(repr(timeout))}")
    if not isinstance(approval, bool) and (not callable(approval) or inspect.iscoroutinefunction(approval)):
        raise ConfigurationError(
            f"tool {name!r}: approval: expected a bool or a plain function, got {clip(repr(approval))}"
        )
