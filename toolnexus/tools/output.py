"""What a tool returned or raised, as the result the model gets."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TypeGuard, cast

from pydantic_core import to_jsonable_python

from ..messages import ImagePart, TextPart
from ..suspension import Pending
from ..tool import ToolInputError, ToolResult
from .misfits import clip, describe

_MAX_FAILURE = 2000
"""Characters of a failure's message: enough for a sentence with data in it, not for a whole reply of a server."""


def to_result(value: object) -> ToolResult | Pending:
    """Turn what a tool returned into its result; never raises.

    Args:
        value: A `str` is sent as it is, `None` as empty text; `ToolResult`, `pending(...)`, an `ImagePart`
            and a list of parts and texts say themselves what they are. Anything else is sent as JSON, written
            by pydantic's rules: keys become strings, NaN and infinity `null`.

    Returns:
        The result; an error result where `value` has no such form (bytes, a generator, an object that is no data).
        Lone surrogates, which cannot be sent, become U+FFFD.
    """
    try:
        return _convert(value)
    except Exception as error:  # serializers of the user's run here, and a value can be nested too deep
        return _refused(value, f"that has no JSON form ({clip(describe(error))})")


def failure(error: BaseException, name: str) -> ToolResult:
    """Make the error result of a tool that raised: type and message, no traceback.

    Args:
        error: What the tool `name` raised; a `ToolInputError` is worded for the model already.
        name: The tool's name.
    """
    text = str(error) if isinstance(error, ToolInputError) else f"{name} failed: {describe(error)}"
    return ToolResult(clip(_sendable(text), _MAX_FAILURE), is_error=True)


def _convert(value: object) -> ToolResult | Pending:
    if value is None:
        return ToolResult("")
    if isinstance(value, str):
        return ToolResult(_sendable(str.__str__(value)))  # of a str enum, too, the text and not the name
    if isinstance(value, Pending):
        return value
    if isinstance(value, ToolResult):
        return _normalised(value)
    if isinstance(value, TextPart | ImagePart):
        return _parts([value])
    if _is_list_with_parts(value):
        return _parts(value)
    if (advice := _unsendable(value)) is not None:
        return _refused(value, advice)
    if _holds_pending(value):
        return _refused(value, "return pending(...) itself; inside of something else it suspends nothing")
    data = to_jsonable_python(value, inf_nan_mode="null", fallback=_as_plain)
    return ToolResult(_sendable(json.dumps(data, ensure_ascii=False, separators=(",", ":"))))


def _unsendable(value: object) -> str | None:
    """Say what to do instead of returning `value`, if it is of a kind that is never sent."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "decode it, or return ImagePart(data=..., media_type=...)"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "return a list, or the joined text"
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # it will never run: no warning about that at some later time
        return "await it in the tool"
    return None


def _is_list_with_parts(value: object) -> TypeGuard[Sequence[object]]:
    items = (
        cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    )  # isinstance does not tell what is in it
    return any(isinstance(item, TextPart | ImagePart) for item in items)


def _holds_pending(value: object) -> bool:
    if isinstance(value, Mapping):
        value = list(cast("Mapping[object, object]", value).values())
    return isinstance(value, list | tuple | set | frozenset) and any(
        isinstance(item, Pending) for item in cast("Collection[object]", value)
    )


def _normalised(result: ToolResult) -> ToolResult:
    inner = _convert(result.output)
    if isinstance(inner, Pending):
        return _refused(inner, "return pending(...) itself, not inside a ToolResult")
    return dataclasses.replace(result, output=inner.output, is_error=bool(result.is_error) or inner.is_error)


def _parts(items: Sequence[object]) -> ToolResult:
    parts: list[TextPart | ImagePart] = []
    for item in items:
        match item:
            case ImagePart():
                parts.append(item)
            case TextPart():
                parts.append(TextPart(_sendable(item.text)))
            case str():
                parts.append(TextPart(_sendable(item)))
            case _:
                return _refused(item, "a list with parts in it may hold TextPart, ImagePart and str only")
    return ToolResult(tuple(parts))


def _as_plain(value: object) -> object:
    """What pydantic does not know: pure paths, other mappings and collections."""
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))  # as above
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))  # as above
    if isinstance(value, Collection):
        return list(cast("Collection[object]", value))  # as above
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def _refused(value: object, advice: str) -> ToolResult:
    return ToolResult(f"the tool returned {type(value).__name__}, which cannot be sent: {advice}", is_error=True)


def _sendable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold; two halves of one character are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
