"""What a function takes: the parameters a model fills, the one the loop fills, and the call made of both."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ..errors import ConfigurationError
from ..tool import ToolContext
from .misfits import clip, describe

Function = Callable[..., object]
"""Whatever the user wrote."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters, hints resolved."""

    function: Function
    parameters: Mapping[str, inspect.Parameter]
    """Those that the model fills, in order; `annotation` is the resolved hint, or `empty`."""
    whole: Sequence[tuple[str, object, Any]]
    """All of them, in order: name, kind, and default, which is nothing for the variadic ones."""
    context: tuple[str, ...]
    """Those that get the `ToolContext`."""
    reserved: frozenset[str]
    """Names that are taken even where the function has `**kwargs`: its own, and those already bound."""

    def call(self, values: Mapping[str, object], ctx: ToolContext) -> Callable[[], object]:
        """Return the call, ready to be made; what `values` leaves out takes the function's own default."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, kind, default in self.whole:
            value: Any = ctx if name in self.context else values.get(name, default)
            match kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    args += value
                case inspect.Parameter.VAR_KEYWORD:
                    kwargs |= value
                case inspect.Parameter.KEYWORD_ONLY:
                    kwargs[name] = value
                case _:  # by position, a default too: one that is left out must not move its neighbours
                    args.append(value)
        return functools.partial(self.function, *args, **kwargs)


def read_signature(function: Function, *, need_hints: bool = True) -> Signature:
    """Read what `function` takes.

    Args:
        function: A function, method, `functools.partial` or callable object, decorated or not.
        need_hints: Whether a hint that cannot be resolved is an error; else it counts as none.

    Raises:
        ConfigurationError: It has no signature, is a class or an unbound method, or a hint cannot be resolved.
    """
    if inspect.isclass(function):
        raise ConfigurationError(f"expected a function, got the class {function.__qualname__!r}; pass an instance")
    inner = _innermost(function)
    try:
        whole = _signature(function)
        reserved = [name for name, p in _signature(inner).parameters.items() if p.kind not in _NEVER_BY_NAME]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{function!r} has no signature to read; wrap it in a function with hints") from error
    first = next(iter(whole.parameters.values()), None)
    if first is not None and first.name in ("self", "cls") and first.annotation is first.empty:
        raise ConfigurationError(
            f"parameter {first.name!r} is not bound: {inner.__qualname__!r} is a method; pass it from an instance"
        )
    context: list[str] = []
    parameters: dict[str, inspect.Parameter] = {}
    hidden = _bound_by_partial(function)
    for name, parameter in whole.parameters.items():
        variadic = parameter.kind in _VARIADIC
        if name == "ctx" and not variadic:
            context.append(name)
        elif name not in hidden or variadic:
            hint = _resolve(parameter, inner, need_hints)
            if _is_context(hint):
                context.append(name)
            else:
                parameters[name] = parameter.replace(annotation=hint)
    every = [(name, p.kind, _EMPTY.get(p.kind, p.default)) for name, p in whole.parameters.items()]
    return Signature(function, parameters, every, tuple(context), frozenset(reserved) | hidden)


def without_partials(function: Any) -> Any:  # Any: each kind of callable has attributes of its own
    """What a `functools.partial` of a partial of … calls in the end; any other callable itself."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_EMPTY: dict[Any, Any] = {inspect.Parameter.VAR_POSITIONAL: (), inspect.Parameter.VAR_KEYWORD: {}}
_NEVER_BY_NAME = (*_VARIADIC, inspect.Parameter.POSITIONAL_ONLY)


def _signature(function: Function) -> inspect.Signature:
    options: dict[str, Any] = {}  # Any: the type of the format exists from Python 3.14 on
    # Python 3.14 evaluates annotations when they are looked at; names it does not know are left for `_resolve`.
    if sys.version_info >= (3, 14):  # pragma: no cover  # coverage is measured on an older one
        import annotationlib

        options["annotation_format"] = annotationlib.Format.FORWARDREF
    return inspect.signature(function, **options)


def _innermost(function: Any) -> Any:  # Any: as above
    """The function whose globals the hints are written in: below partials, methods, decorators and `__call__`."""
    while True:
        function = without_partials(function)
        if inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function):
            return function
        else:
            function = type(function).__call__


def _bound_by_partial(function: Any) -> set[str]:  # Any: as above
    """Keywords that a partial has filled; `inspect` shows them as defaults, the model must not see them."""
    return set(function.keywords) if isinstance(function, functools.partial) else set()


def _resolve(parameter: inspect.Parameter, inner: Any, need_hints: bool) -> Any:  # Any: a hint can be any object
    if parameter.annotation is parameter.empty:
        return parameter.empty

    def holder() -> None: ...

    holder.__annotations__ = {parameter.name: parameter.annotation}
    names: dict[str, Any] = getattr(inner, "__globals__", {})  # Any: what a module holds
    # `ToolContext` is often imported under TYPE_CHECKING only; a class defined in a function is in its closure.
    local: dict[str, Any] = {} if "ToolContext" in names else {"ToolContext": ToolContext}
    for name, cell in zip(_free_names(inner), getattr(inner, "__closure__", None) or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet, such as the tool's own name
            local[name] = cell.cell_contents
    try:
        return get_type_hints(holder, names, local, include_extras=True)[parameter.name]
    except Exception as error:  # a hint is code: evaluating it can raise anything
        if not need_hints:
            return parameter.empty
        raise ConfigurationError(
            f"parameter {parameter.name!r}: cannot resolve the hint {parameter.annotation!r} "
            f"({clip(describe(error))}); its names must be known where the function's module is"
        ) from error


def _free_names(inner: Any) -> tuple[str, ...]:  # Any: as above
    return inner.__code__.co_freevars if hasattr(inner, "__code__") else ()


def _is_context(hint: object) -> bool:
    if hint is ToolContext:
        return True
    return get_origin(hint) in (Union, types.UnionType, Annotated) and any(map(_is_context, get_args(hint)))
