"""The neutral transcript in Anthropic's shape, and back.

Source: Anthropic API reference, "Create a Message", `messages`; "Tool use", "Handling tool use and tool result content
blocks"; "Extended thinking", "Preserving thinking blocks". Members of a block that we do not know are kept as `extra`,
blocks that we do not know as `OpaquePart`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, assert_never

from ...errors import ConfigurationError
from ...messages import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from ..transcript import balanced, is_for, with_ids
from .spellings import Spellings

STYLE = "anthropic"

_BAD_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")  # the API's own pattern for ids and names of tools, negated
_OPENING = "(the conversation begins with the assistant)"
_NOTHING = "(a message without text)"

Block = dict[str, Any]


def to_anthropic(messages: Iterable[Message], *, origin: str | None = None) -> tuple[str | None, list[dict[str, Any]]]:
    """The transcript as Anthropic-shaped messages, balanced as in a request.

    Args:
        origin: Whom the messages are for; what only another provider understands is left out. `None` keeps what
            any provider of the style wrote.

    Returns:
        The text of the system messages, `None` without one, and the messages: they alternate, begin with the user,
        and hold no empty text; the results of a turn are together, first in the user's message.
    """
    return spelled(messages, origin, Spellings())


def spelled(
    messages: Iterable[Message], origin: str | None, spellings: Spellings[dict[str, Any]]
) -> tuple[str | None, list[dict[str, Any]]]:
    """`to_anthropic` for one request of several; its dicts are not to be changed."""

    def is_ours(part_origin: str | None) -> bool:
        return is_for(part_origin, STYLE, origin)

    def accepted(call: ToolCallPart) -> str:
        """An id as the API takes it: letters, digits, `_` and `-`, and no id twice; a provider takes its own."""
        is_own = origin is not None and call.origin == origin
        base = id = (call.id if is_own else _BAD_IN_ID.sub("_", call.id)) or "call"
        number = 1
        while id in spellings.taken:
            number += 1
            id = f"{base}_{number}"
        spellings.taken.add(id)
        return id

    def spell(turns: Sequence[Message]) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        role: Role | None = None
        for message in with_ids(balanced(turns), accepted):
            blocks = [block for part in message.parts for block in _blocks(part, message.role, is_ours)]
            if message.role == role == "tool":
                out[-1]["content"] += blocks  # the results of a turn are one message
            elif message.role == "system":
                out.append({"role": "system", "content": message.text})
            else:
                out.append({"role": "assistant" if message.role == "assistant" else "user", "content": blocks})
            role = message.role
        return out

    system: list[str] = []
    out: list[dict[str, Any]] = []
    joined: dict[str, Any] | None = None
    for message in spellings.of(messages, origin, spell):
        role, blocks = message["role"], message["content"]
        if role == "system":
            system += [blocks] if blocks.strip() else []
            continue
        goes_on = bool(out) and out[-1]["role"] == role
        if not blocks and (goes_on or role == "assistant"):
            continue
        if not blocks:
            # It stays a turn of the user: two answers must not become one, nor the last one the start of the next.
            message = {"role": role, "content": [{"type": "text", "text": _NOTHING}]}
        if not goes_on:
            out.append(message)
        elif out[-1] is joined:
            out[-1]["content"] += blocks
        else:
            joined = out[-1] = {"role": role, "content": [*out[-1]["content"], *blocks]}
    if out and out[0]["role"] == "assistant":
        out.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
    return "\n\n".join(system) or None, out


def _blocks(part: Part, role: Role, is_ours: Callable[[str | None], bool]) -> Iterable[Block]:
    if role == "user" and isinstance(part, (ReasoningPart, ToolCallPart, ToolResultPart)):
        raise ConfigurationError(f"a {part.type!r} part cannot stand in a user message")
    match part:
        case TextPart(text):
            if text.strip():  # "text content blocks must contain non-whitespace text"
                yield {"type": "text", "text": text, **(part.extra if is_ours(part.origin) else {})}
        case ImagePart():
            if role == "user":  # the API takes none from the assistant
                yield _image(part)
        case ReasoningPart(text):
            # Signed, and tied to its place: it goes back whole, in order, and only to whom it came from. Thinking that
            # was written into the text has no signature, and would be refused.
            if part.origin is not None and is_ours(part.origin) and "signature" in part.extra:
                yield {"type": "thinking", "thinking": text, **part.extra}
        case ToolCallPart():
            yield {
                "type": "tool_use",
                "id": part.id,
                "name": _BAD_IN_ID.sub("_", part.name)[:128] or "unknown",
                "input": part.args,
                **(part.extra if is_ours(part.origin) else {}),
            }
        case ToolResultPart():
            yield _tool_result(part)
        case OpaquePart(data, part_origin):
            if is_ours(part_origin):
                yield dict(data)
        case _ as unreachable:
            assert_never(unreachable)


def _tool_result(part: ToolResultPart) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": part.id}
    content: list[Block] = [
        _image(piece) if isinstance(piece, ImagePart) else {"type": "text", "text": piece.text}
        for piece in part.content
        if isinstance(piece, ImagePart) or piece.text.strip()
    ]
    if part.is_error:
        block["is_error"] = True
        content = content or [{"type": "text", "text": "error"}]  # "content cannot be empty if is_error is true"
    if len(content) == 1 and content[0]["type"] == "text":
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    return block


def _image(part: ImagePart) -> Block:
    if part.data is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    data = base64.b64encode(part.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}


def is_anthropic_shaped(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether messages are of this shape rather than OpenAI's; plain text is of either."""
    if any(message.get("role") not in ("user", "assistant") or "tool_calls" in message for message in messages):
        return False
    theirs = {"text", "image_url", "input_audio", "file", "refusal"}
    return any(
        isinstance(block, Mapping) and block.get("type") not in theirs
        for message in messages
        if isinstance(content := message.get("content"), list)
        for block in content
    )


def from_anthropic(messages: Sequence[Mapping[str, Any]], system: str | Sequence[Block] | None = None) -> list[Message]:
    """Anthropic-shaped messages as a neutral transcript; the input is left as it is.

    Args:
        system: The request's `system`, text or text blocks; it becomes the first message.

    Raises:
        ConfigurationError: a message of another shape, named by its place.
    """
    out: list[Message] = []
    if system:
        with _named("system"):
            out.append(Message("system", system if isinstance(system, str) else [_part(block, {}) for block in system]))
    names: dict[str, str] = {}  # a tool result has the id only
    for i, message in enumerate(messages):
        with _named(f"messages[{i}]"):
            out += _from_dict(message, names)
    return out


@contextmanager
def _named(place: str) -> Generator[None, None, None]:
    """Say where a message is of another shape."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{place} is not Anthropic-shaped: {error!r}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def _from_dict(message: Mapping[str, Any], names: dict[str, str]) -> list[Message]:
    content = message["content"]
    parts = [TextPart(content)] if isinstance(content, str) else [_part(block, names) for block in content]
    match message["role"]:
        case "assistant":
            return [Message("assistant", parts)]
        case "user":
            results = [Message("tool", (part,)) for part in parts if isinstance(part, ToolResultPart)]
            said = [part for part in parts if not isinstance(part, ToolResultPart)]
            return [*results, Message("user", said)] if said else list(results)
        case role:
            raise ConfigurationError(f"expected role 'user' or 'assistant', got {role!r}")


def _part(block: Mapping[str, Any], names: dict[str, str]) -> Part:
    rest = {key: value for key, value in block.items() if key != "type"}
    match block["type"]:
        case "text":
            text = _str(rest.pop("text"))
            return TextPart(text, STYLE if rest else None, rest)
        case "thinking":
            return ReasoningPart(_str(rest.pop("thinking")), STYLE, rest)
        case "tool_use":
            id, name, args = _str(rest.pop("id")), _str(rest.pop("name")), rest.pop("input", None) or {}
            if not isinstance(args, Mapping):
                raise TypeError(f"expected input to be an object, got {str(args)[:100]!r}")
            names[id] = name
            return ToolCallPart(id, name, dict(args), state="finished", origin=STYLE if rest else None, extra=rest)
        case "tool_result":
            id = _str(block["tool_use_id"])
            content = block.get("content") or []
            pieces = [TextPart(content)] if isinstance(content, str) else [_part(piece, names) for piece in content]
            kept = tuple(piece for piece in pieces if isinstance(piece, (TextPart, ImagePart)))
            return ToolResultPart(id, names.get(id, ""), kept, bool(block.get("is_error")))
        case "image" if block["source"].get("type") == "base64":
            source = block["source"]
            data = base64.b64decode(_str(source["data"]), validate=True)
            return ImagePart(data=data, media_type=_str(source["media_type"]))
        case "image" if block["source"].get("type") == "url":
            return ImagePart(url=_str(block["source"]["url"]))
        case _:
            return OpaquePart(dict(block), STYLE)


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {str(value)[:100]!r}")
    return value
