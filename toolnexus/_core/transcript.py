"""Keeping a transcript fit to be sent: every call with exactly one result, in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..messages import Message, Part, ToolCallPart, ToolResultPart
from ..tool import ToolResult

NOT_RUN = "The call was not run: the run ended before."
UNKNOWN_OUTCOME = "The outcome of the call is unknown: the run ended while it was running."
NOT_ANSWERED = "The call waited for an answer that did not come; the conversation went on without it."


def result_part(call: ToolCallPart, result: ToolResult) -> ToolResultPart:
    """A tool's result as the part that answers `call`."""
    return ToolResultPart(call.id, call.name, result.parts, result.is_error)


def closing_result(call: ToolCallPart) -> ToolResultPart:
    """The explicit error result of a call that never got one of its own."""
    if call.request is not None:
        text = NOT_ANSWERED
    elif call.state == "started":
        text = UNKNOWN_OUTCOME
    else:
        text = NOT_RUN
    return result_part(call, ToolResult(text, is_error=True))


def balanced(messages: Iterable[Message]) -> list[Message]:
    """`messages` with one result for each call, in the order of the calls, right behind their message.

    A missing result is made up as an explicit error, an orphan or second one is left out, and so is a message
    without parts. Ids are matched within one turn only: some providers use them again in the next. A message that
    stays as it is stays the same object.
    """
    out: list[Message] = []
    waiting: dict[str, ToolCallPart] = {}
    found: dict[str, Message] = {}

    def close() -> None:
        out.extend(found.get(id) or Message("tool", (closing_result(call),)) for id, call in waiting.items())
        waiting.clear()
        found.clear()

    for message in messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResultPart) and part.id in waiting:
                    found.setdefault(part.id, message if len(message.parts) == 1 else Message("tool", (part,)))
            continue
        close()
        if message.parts:
            out.append(message)
        waiting.update((call.id, call) for call in message.tool_calls)
    close()
    return out


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """The end of a transcript whose last calls do not all have a result."""

    asking: Message
    """The message that asks for the calls."""
    results: Mapping[int, ToolResultPart]
    """The results that are there, by the position of the call among the calls of the message."""


def parted(messages: Sequence[Message]) -> tuple[list[Message], OpenTurn | None]:
    """A stored transcript as what is closed, in which no call is open or waiting, and its open end."""
    last = len(messages) - 1
    while last >= 0 and messages[last].role == "tool":
        last -= 1
    if last < 0 or not messages[last].tool_calls:
        return closed(messages), None
    asking = messages[last]
    found: dict[str, list[ToolResultPart]] = {}
    for message in messages[last + 1 :]:
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                found.setdefault(part.id, []).append(part)
    results = {position: found[call.id].pop(0) for position, call in enumerate(asking.tool_calls) if found.get(call.id)}
    if len(results) == len(asking.tool_calls):
        return closed(messages), None
    return closed(messages[:last]), OpenTurn(asking, results)


def closed(messages: Sequence[Message]) -> list[Message]:
    return [_finished(message) if message.role == "assistant" else message for message in balanced(messages)]


def _finished(message: Message) -> Message:
    if all(is_finished(call) for call in message.tool_calls):
        return message
    return Message(message.role, (finished(p) if isinstance(p, ToolCallPart) else p for p in message.parts))


def is_finished(call: ToolCallPart) -> bool:
    """Whether the call needs no notes on its way any more."""
    return call.state == "finished" and call.request is None and call.journal is None


def finished(call: ToolCallPart) -> ToolCallPart:
    """A call that has its result."""
    return replace(call, state="finished", request=None, journal=None)


def is_for(part_origin: str | None, style: str, origin: str | None) -> bool:
    """Whether what `part_origin` wants back whole is for `origin`, a provider of `style`.

    An origin is a style and a host, such as `openai:api.example.com`; a bare style is history that the caller gave
    in that style's shape. With `origin` left out, every provider of the style will do.
    """
    if part_origin is None or part_origin == style:
        return True
    return part_origin == origin if origin else part_origin.startswith(style + ":")


def with_ids(messages: Iterable[Message], accepted: Callable[[ToolCallPart], str]) -> list[Message]:
    """`messages` with the id that `accepted` gives for each call, and its results under the same.

    A message that stays as it is stays the same object.
    """
    out: list[Message] = []
    ids: dict[str, str] = {}  # those of the current turn that change
    for message in messages:
        if message.tool_calls:
            ids = {call.id: id for call in message.tool_calls if (id := accepted(call)) != call.id}
        out.append(Message(message.role, (_with_id(part, ids) for part in message.parts)) if ids else message)
    return out


def _with_id(part: Part, ids: Mapping[str, str]) -> Part:
    if isinstance(part, (ToolCallPart, ToolResultPart)) and part.id in ids:
        return replace(part, id=ids[part.id])
    return part
