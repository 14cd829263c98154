"""The neutral transcript in OpenAI's chat shape, and back.

Source: OpenAI API reference, "Create chat completion", `messages`. Members that other providers of the style
add (`reasoning_content`, `reasoning`, `reasoning_details`, `extra_content`) are kept as `extra` of a part.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...errors import ConfigurationError
from ...messages import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from ..payload import UnreadableArguments, parse_arguments
from ..transcript import balanced, is_for, with_ids
from .spellings import Spellings

STYLE = "openai"

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Two spellings of the same thing: DeepSeek, Qwen, Kimi, vLLM, llama.cpp; OpenRouter, Groq, Ollama."""

_BAD_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
"""The API's own pattern for names of functions, negated: a name that the model made up must not block the rest."""
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_MAX_ID = 40
"""Characters of a call's id that OpenAI takes ("string too long", observed 2025)."""


def _digest(id: str) -> str:
    import hashlib  # few ids are too long

    return hashlib.sha256(id.encode()).hexdigest()


def to_openai(messages: Iterable[Message], *, origin: str | None = None) -> list[dict[str, Any]]:
    """The transcript as OpenAI-shaped messages, balanced as in a request.

    Args:
        origin: Whom the messages are for; what only another provider understands is left out. `None` keeps what
            any provider of the style wrote.
    """
    return spelled(messages, origin, Spellings())


def spelled(
    messages: Iterable[Message], origin: str | None, spellings: Spellings[dict[str, Any]]
) -> list[dict[str, Any]]:
    """`to_openai` for one request of several; its dicts are not to be changed."""

    def is_ours(part_origin: str | None) -> bool:
        return is_for(part_origin, STYLE, origin)

    def accepted(call: ToolCallPart) -> str:
        """An id as this provider takes it; its own always go back as they are, some models want their form."""
        if origin is None or call.origin == origin:
            return call.id
        if ".mistral.ai" in origin:  # nine letters or digits (Mistral, "Function calling")
            return call.id if _MISTRAL_ID.fullmatch(call.id) else _digest(call.id)[:9]
        return call.id if len(call.id) <= _MAX_ID else _digest(call.id)[:_MAX_ID]

    def spell(turns: Sequence[Message]) -> list[dict[str, Any]]:
        found = (_to_dict(message, is_ours) for message in with_ids(balanced(turns), accepted))
        return [message for message in found if message is not None]

    return spellings.of(messages, origin, spell)


def _to_dict(message: Message, is_ours: Callable[[str | None], bool]) -> dict[str, Any] | None:
    """A message, or `None` if nothing of it can be said to this provider."""
    match message.role:
        case "tool":
            (part,) = message.parts
            assert isinstance(part, ToolResultPart)  # balanced() builds them so
            return {"role": "tool", "tool_call_id": part.id, "content": _tool_content(part)}
        case "assistant":
            return _assistant(message, is_ours)
        case _:
            parts = [p for p in message.parts if not isinstance(p, OpaquePart) or is_ours(p.origin)]
            if not parts:
                return None
            if len(parts) == 1 and isinstance(parts[0], TextPart):
                return {"role": message.role, "content": parts[0].text}
            return {"role": message.role, "content": [_content(part) for part in parts]}


def _assistant(message: Message, is_ours: Callable[[str | None], bool]) -> dict[str, Any] | None:
    out: dict[str, Any] = {"role": "assistant", "content": message.text}
    calls = message.tool_calls
    for part in message.parts:
        if isinstance(part, ReasoningPart) and is_ours(part.origin):
            _add_reasoning(out, part, with_text=bool(calls))
    if calls:
        # Some servers refuse "" beside calls and some a missing member; null is what OpenAI itself sends.
        out["content"] = message.text or None
        out["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": _BAD_IN_NAME.sub("_", call.name)[:64] or "unknown",
                    "arguments": json.dumps(call.args, ensure_ascii=False),
                },
                **(call.extra if is_ours(call.origin) else {}),
            }
            for call in calls
        ]
    # An answer that was all thinking leaves an empty message, which some servers refuse.
    return out if any(value for key, value in out.items() if key != "role") else None


def _add_reasoning(out: dict[str, Any], part: ReasoningPart, *, with_text: bool) -> None:
    """Give a provider its thinking back.

    Details may be signed or encrypted and always go back whole (OpenRouter, "Preserving reasoning blocks").
    Plain text goes back only beside tool calls: there DeepSeek's thinking mode answers 400 without it, and on
    other messages its older models answer 400 with it (DeepSeek, "Thinking mode" and "Reasoning model").
    """
    extra = dict(part.extra)
    field = extra.pop("field", None)
    for key, value in extra.items():
        out[key] = [*out.get(key, ()), *value] if isinstance(value, list) else value
    if field and with_text and part.text:
        out[field] = out.get(field, "") + part.text


def _content(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart(url, data, media_type):
            if data is not None:
                url = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
            return {"type": "image_url", "image_url": {"url": url}}
        case OpaquePart(data):
            return data
        case _:
            raise ConfigurationError(f"a {part.type!r} part cannot stand in a user message")


def _tool_content(part: ToolResultPart) -> str:
    """The style's tool messages hold text only."""
    return "".join(
        piece.text
        if isinstance(piece, TextPart)
        else f"[image: {piece.url or piece.media_type}; this API takes no images in tool results]"
        for piece in part.content
    )


def from_openai(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """OpenAI-shaped messages as a neutral transcript; the input is left as it is.

    Raises:
        ConfigurationError: a message of another shape, named by its place.
    """
    names: dict[str, str] = {}  # a tool message has the id only
    out: list[Message] = []
    for i, message in enumerate(messages):
        try:
            out.append(_from_dict(message, names))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"messages[{i}] is no OpenAI-shaped message: {error!r}") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"messages[{i}]: {error}") from None
    return out


def _from_dict(message: Mapping[str, Any], names: dict[str, str]) -> Message:
    match message["role"]:
        case "system" | "developer":
            return Message("system", _parts(message.get("content")))
        case "user":
            return Message("user", _parts(message.get("content")))
        case "tool":
            id = _str(message["tool_call_id"])
            content = tuple(p for p in _parts(message.get("content")) if isinstance(p, (TextPart, ImagePart)))
            return Message("tool", (ToolResultPart(id, names.get(id, ""), content),))
        case "assistant":
            parts: list[Part] = []
            extra: dict[str, Any] = {k: list(v) for k in ("reasoning_details",) if (v := message.get(k))}
            field = next((name for name in REASONING_FIELDS if message.get(name)), None)
            if field or extra:
                text = _str(message[field]) if field else ""
                parts.append(ReasoningPart(text, STYLE, {**({"field": field} if field else {}), **extra}))
            parts += _parts(message.get("content")) or _parts(message.get("refusal"))
            for call in message.get("tool_calls") or ():
                part = _call(call)
                names[part.id] = part.name
                parts.append(part)
            return Message("assistant", parts)
        case role:
            raise ConfigurationError(
                f"expected role 'system', 'developer', 'user', 'assistant' or 'tool', got {role!r}"
            )


def _parts(content: Any) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [TextPart(content)]
    return [_part(piece) for piece in content]


def _part(piece: Mapping[str, Any]) -> Part:
    match piece["type"]:
        case "text":
            return TextPart(_str(piece["text"]))
        case "refusal":
            return TextPart(_str(piece["refusal"]))
        case "image_url":
            url = _str(piece["image_url"]["url"])
            head, _, data = url.partition(";base64,")
            if head.startswith("data:") and data:
                return ImagePart(data=base64.b64decode(data, validate=True), media_type=head.removeprefix("data:"))
            return ImagePart(url=url)
        case _:
            return OpaquePart(dict(piece), STYLE)


def _call(call: Mapping[str, Any]) -> ToolCallPart:
    function = call["function"]
    given = function.get("arguments") or ""
    raw = given if isinstance(given, str) else json.dumps(given)
    extra = {k: v for k, v in call.items() if k not in ("id", "type", "function", "index")}
    try:
        args, error = parse_arguments(raw), None
    except UnreadableArguments as unreadable:
        args, error = {}, str(unreadable)
    return ToolCallPart(
        _str(call["id"]),
        _str(function["name"]),
        args,
        raw=raw if error else None,
        error=error,
        state="finished",
        origin=STYLE if extra else None,
        extra=extra,
    )


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {str(value)[:100]!r}")
    return value
