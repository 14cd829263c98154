"""What is new in a list of messages that a store has seen before."""

from __future__ import annotations

from ..errors import ConfigurationError
from ..messages import Message
from .protocols import Snapshot

_BLOCK = 256


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
