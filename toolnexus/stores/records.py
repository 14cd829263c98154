"""Dataclasses as plain JSON values and back, by the types of their fields.

Strict both ways: a value is exactly what its type says, or a `Misfit` names the place. A field that has its default is
left out; a union of dataclasses is told apart by their `type` field.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

Change: TypeAlias = Callable[[Any], Any]  # Any, here and below: values and types are looked at when they come

_NAMES = {bytes: "bytes", type(None): "None"}


class Misfit(ValueError):
    """A value that is not what its place wants; `str()` says what, and where."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = ""

    def __str__(self) -> str:
        return f"{self.where.lstrip('.')}: {self.problem}" if self.where else self.problem

    def under(self, step: str) -> Misfit:
        """This misfit, one step further out."""
        self.where = step + self.where
        return self


@dataclass(frozen=True, slots=True)
class Form:
    """How values of one type are written as JSON values, and read."""

    kinds: tuple[type, ...]
    """The classes of the values."""
    shape: type
    """The class of the JSON value."""
    write: Change
    read: Change
    tag: str | None = None
    """What `type` says in a record of this form, if it says always the same."""


@cache
def form_of(hint: Any) -> Form:
    """The form for values of the type `hint`.

    Raises:
        TypeError: Such values have no form; whoever gave a field this type must add one here.
    """
    if hint is Any or (Any in get_args(hint) and get_origin(hint) in (Union, UnionType)):
        return _ANY
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if is_dataclass(hint) and isinstance(hint, type):
        return _record(hint)
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is Literal and all(type(arg) is str for arg in args):
        return _choice(args)
    if origin in (Union, UnionType):
        return _union([form_of(arg) for arg in args])
    if origin is dict and args in ((), (str, Any)):
        return _OBJECT
    if origin is dict and args[:1] == (str,):
        return _mapping(form_of(args[1]))
    if origin is tuple and args[1:] == (...,):
        return _series(tuple, form_of(args[0]))
    if origin in (list, tuple) and len(args) < 2:
        return _series(origin, form_of(args[0] if args else Any))
    raise TypeError(f"no JSON form for {hint}")


def _record(cls: type) -> Form:
    hints = get_type_hints(cls)
    members = {field.name: (field, form_of(hints[field.name])) for field in fields(cls)}
    (tag,) = get_args(hints["type"]) if get_origin(hints.get("type")) is Literal else (None,)
    written = [(name, form.write, _default(field)) for name, (field, form) in members.items()]
    if tag:
        written = [member for member in written if member[0] != "type"]  # it comes first, and always
    readers = {name: form.read for name, (_, form) in members.items()}
    required = [name for name, (field, _) in members.items() if _default(field) is MISSING]
    tagged = {"type": tag} if tag else {}

    def write(value: Any) -> dict[str, Any]:
        if type(value) is not cls:
            raise _unexpected(_name(cls), value)
        plain: dict[str, Any] = {**tagged}
        for name, write_member, default in written:
            item = getattr(value, name)
            if item is default or (item == default and type(item) is type(default)):
                continue
            try:
                plain[name] = write_member(item)
            except Misfit as misfit:
                raise misfit.under(f".{name}") from None
        return plain

    def read(plain: Any) -> Any:
        values: dict[str, Any] = {}
        for name, item in _expect(dict, plain).items():
            reader = readers.get(name)
            if reader is None:
                raise Misfit(f"{cls.__name__} has no {name!r}; was it written by a newer version of toolnexus?")
            try:
                values[name] = reader(item)
            except Misfit as misfit:
                raise misfit.under(f".{name}") from None
        for name in required:
            if name not in values:
                raise Misfit(f"{cls.__name__} needs {name!r}")
        try:
            return cls(**values)
        except TypeError as error:  # members that do not go together
            raise Misfit(str(error)) from None

    return Form((cls,), dict, write, read, tag)


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _series(kind: Any, member: Form) -> Form:
    def each(values: Any, change: Change) -> list[Any]:
        out: list[Any] = []
        try:
            for value in values:
                out.append(change(value))
        except Misfit as misfit:
            raise misfit.under(f"[{len(out)}]") from None
        return out

    return Form(
        (kind,),
        list,
        lambda values: each(_expect(kind, values), member.write),
        lambda plain: kind(each(_expect(list, plain), member.read)),
    )


def _mapping(member: Form) -> Form:
    def each(values: Any, change: Change) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in _expect(dict, values).items():
            try:
                out[_expect(str, key)] = change(value)
            except Misfit as misfit:
                raise misfit.under(f"[{key!r}]") from None
        return out

    return Form((dict,), dict, lambda values: each(values, member.write), lambda plain: each(plain, member.read))


def _choice(words: tuple[str, ...]) -> Form:
    def same(value: Any) -> Any:
        if value not in words:
            raise _unexpected(" or ".join(map(repr, words)), value)
        return value

    return Form((str,), str, same, same)


def _union(forms: list[Form]) -> Form:
    by_kind = {kind: form for form in forms for kind in form.kinds}
    by_shape = {form.shape: form for form in forms}
    by_tag = {form.tag: form for form in forms if form.tag}
    if len(forms) > len(by_shape) + max(len(by_tag) - 1, 0):
        raise TypeError(f"JSON does not tell {' from '.join(kind.__name__ for kind in by_kind)}")
    wanted = " or ".join(dict.fromkeys(map(_name, by_kind)))

    def write(value: Any) -> Any:
        form = by_kind.get(type(value)) or next((f for kind, f in by_kind.items() if isinstance(value, kind)), None)
        if form is None:
            raise _unexpected(wanted, value)
        return form.write(value)

    def read(plain: Any) -> Any:
        shape: type = type(plain)
        form = by_shape.get(float if shape is int else shape)
        if form is None:
            raise _unexpected(wanted, plain)
        if form.tag and len(by_tag) > 1:
            tag = plain.get("type")
            form = by_tag.get(tag) if isinstance(tag, str) else None
            if form is None:
                raise Misfit(f"expected a 'type' of {sorted(by_tag)}, got {tag!r:.100}")
        return form.read(plain)

    return Form(tuple(by_kind), object, write, read)


def _check_json(value: Any) -> Any:
    """`value`, if JSON can say it. Exact types first: they are nearly all there is."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float or isinstance(value, float):
        if not isfinite(value):
            raise Misfit(f"JSON has no {value!r}")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise Misfit(f"expected keys that are strs, got {key!r}")
            try:
                _check_json(item)
            except Misfit as misfit:
                raise misfit.under(f"[{key!r}]") from None
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            try:
                _check_json(item)
            except Misfit as misfit:
                raise misfit.under(f"[{index}]") from None
    elif not isinstance(value, (str, int)):
        raise _unexpected("a JSON value", value)
    return value


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind and (not isinstance(value, kind) or isinstance(value, bool)):
        raise _unexpected(_name(kind), value)
    return value


def _unexpected(expected: str, value: Any) -> Misfit:
    return Misfit(f"expected {expected}, got {_name(type(value))}")


def _name(kind: type) -> str:
    return _NAMES.get(kind) or f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


def _bytes(text: Any) -> bytes:
    try:
        return b64decode(_expect(str, text), validate=True)
    except ValueError as error:
        raise error if isinstance(error, Misfit) else Misfit(f"expected base64: {error}") from None


def _simple(kind: type, shape: type | None = None) -> Form:
    return Form((kind,), shape or kind, lambda value: _expect(kind, value), lambda plain: _expect(kind, plain))


def _number(value: Any) -> Any:
    return _check_json(_expect(int if isinstance(value, int) else float, value))


_ANY = Form((object,), object, _check_json, lambda plain: plain)
_OBJECT = Form((dict,), dict, lambda value: _check_json(_expect(dict, value)), lambda plain: _expect(dict, plain))
_SIMPLE: dict[Any, Form] = {
    str: _simple(str),
    bool: _simple(bool),
    int: _simple(int, float),
    float: Form((float, int), float, _number, _number),
    bytes: Form((bytes,), str, lambda value: b64encode(_expect(bytes, value)).decode("ascii"), _bytes),
    type(None): _simple(type(None)),
}
