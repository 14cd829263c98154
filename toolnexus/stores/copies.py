"""What stores do with lists of messages: copy them so that nothing is shared, and see what is new.

`copy.deepcopy` makes the same copies at several times the cost: it cannot know that most of a message cannot change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from ..errors import ConfigurationError
from ..messages import Message
from .protocols import Snapshot

_Copier = Callable[[Any], Any]  # Any, here and below: whatever the fields of a message hold

_BLOCK = 256
_UNCHANGING = frozenset({str, int, float, bool, bytes, type(None)})


def copied(messages: Iterable[Message]) -> list[Message]:
    """Copies of `messages`; what is done to the ones does not show in the others."""
    return [_copy(message) for message in messages]


def unchanged(old: list[Message], new: list[Message]) -> int:
    """How many leading messages of `new` are those of `old`: the same objects, or equal ones.

    Raises:
        ConfigurationError: Among the others is something that is no message.
    """
    start = 0
    while start < len(old) and old[start : start + _BLOCK] == new[start : start + _BLOCK]:
        start += _BLOCK  # comparing lists is a tenth of the work of a loop, and knows an object without looking into it
    end = start = min(start, len(old))
    for before, after in zip(old[start : start + _BLOCK], new[start : start + _BLOCK], strict=False):
        if before is not after and before != after:
            break
        end += 1
    for message in new[end:]:
        if not isinstance(message, Message):
            raise ConfigurationError(
                f"messages: expected Message objects, got a {type(message).__name__} among them; from_openai() and"
                " from_anthropic() make messages of dicts"
            )
    return end


def check_base(base: Snapshot, length: int) -> None:
    """Refuse a base that cannot be compared with: at its revision there are `length` messages.

    Raises:
        ConfigurationError: Its list has been changed.
    """
    if len(base.messages or ()) != length:
        raise ConfigurationError(
            f"base: expected the {length} messages that the store gave, got {len(base.messages or ())}; its list was"
            " changed. Pass [*base.messages, ...] as messages instead"
        )


def _copy(value: Any) -> Any:
    # Exact types only: what is derived from these may hold more. One frame for each level, for deep arguments.
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if kind is dict:
        twin = {}
        for key, item in value.items():
            twin[key] = _copy(item)
        return twin
    if kind is list or kind is tuple:
        items: list[Any] = []
        for item in value:
            items.append(_copy(item))
        return items if kind is list else tuple(items)
    return (_COPIERS.get(kind) or _learn(kind))(value)


def _learn(kind: type) -> _Copier:
    _COPIERS[kind] = copier = _record_copier(kind) if _is_record(kind) else copy.deepcopy
    return copier


def _is_record(kind: type) -> bool:
    """Whether what an object of this class is shows in its fields, and nowhere else."""
    return is_dataclass(kind) and kind.__dataclass_params__.frozen and kind.__dictoffset__ == 0  # type: ignore[attr-defined]  # of every dataclass, and of every type


def _record_copier(kind: type) -> _Copier:
    members = [getattr(kind, field.name) for field in fields(kind)]  # of a slotted class: descriptors
    pairs = [(member.__get__, member.__set__) for member in members]
    new = object.__new__

    def copy_record(record: Any) -> Any:
        twin: Any = new(kind)
        for get, put in pairs:
            put(twin, _copy(get(record)))
        return twin

    return copy_record


_COPIERS: dict[type, _Copier] = {}
