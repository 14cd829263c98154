"""The rules of OpenAI's chat completions API for a request, as its reference and its error messages state them.

It shares no code with the library. Rules of other providers of the style are options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]

REFERENCE = "API reference, 'Create chat completion'"
CALLS = "'Function calling', https://platform.openai.com/docs/guides/function-calling"
IMAGES = "'Images and vision', https://platform.openai.com/docs/guides/images-vision"
MISTRAL = "400 'Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9' (Mistral)"

RULES = {
    "known members": f"{REFERENCE}; 400 'Unrecognized request argument supplied'",
    "model": f"{REFERENCE}, model: required text",
    "stream": f"{REFERENCE}, stream: boolean",
    "stream_options": f"{REFERENCE}, stream_options: 'Only set this when you set stream: true'",
    "temperature": f"{REFERENCE}, temperature: from 0 to 2",
    "max tokens": f"{REFERENCE}, max_tokens and max_completion_tokens: one of them, above 0",
    "stop": f"{REFERENCE}, stop: up to 4 sequences, none empty",
    "messages": f"{REFERENCE}, messages; 400 '[] is too short - messages'",
    "roles": f"{REFERENCE}, messages: developer, system, user, assistant, tool",
    "text content": f"{REFERENCE}, system, developer and tool messages: text, or a list of text parts",
    "user content": f"{REFERENCE}, user message: text, or a list of parts that is not empty",
    "user part": f"{REFERENCE}, user message, content parts: text, image_url, input_audio, file",
    "image": f"{IMAGES}: an http URL, or a data URL with base64",
    "assistant content": f"{REFERENCE}, assistant message, content: 'Required unless tool_calls is specified'",
    "empty assistant": "400 'must not be empty' (Mistral, Moonshot, Gemini's compatible endpoint)",
    "tool_calls": f"{REFERENCE}, assistant message, tool_calls; 400 '[] is too short - messages.tool_calls'",
    "call": f"{REFERENCE}, tool_calls: objects with id, type 'function', and function",
    "call id": "400 'messages.tool_calls.id: string too long. Expected a string with maximum length 40'",
    "Mistral's call id": MISTRAL,
    "unique ids": f"{CALLS}: results are matched by tool_call_id; 400 'Duplicate value for tool_call_id'",
    "call name": "400 'messages.tool_calls.function.name: string does not match pattern ^[a-zA-Z0-9_-]+$'",
    "arguments": f"{REFERENCE}, function.arguments: JSON text; servers with templates want an object (vLLM, llama.cpp)",
    "answered": "400 'An assistant message with tool_calls must be followed by tool messages responding to each "
    "tool_call_id'",
    "orphan result": "400 'messages with role tool must be a response to a preceding message with tool_calls'",
    "results in order": "not asked for by OpenAI; templates that number results ask for it (Mistral, Gemini)",
    "tools": f"{REFERENCE}, tools: a list of functions; 400 '[] is too short - tools'",
    "tool name": f"{REFERENCE}, tools.function.name: a-z, A-Z, 0-9, underscores and dashes, at most 64",
    "unique tools": "400 'Tool names must be unique'",
    "tool schema": f"{REFERENCE}, tools.function.parameters: a JSON Schema object",
    "choice without tools": "400 'tool_choice is only allowed when tools are specified'",
    "tool_choice": f"{REFERENCE}, tool_choice: none, auto, required, or a function by name",
    "chosen tool": "400 'Tool choice … not found in tools parameter'",
    "parallel without tools": "400 'parallel_tool_calls is only allowed when tools are specified'",
}
"""The rules by name, each with its source."""

_TOP = {
    "model", "messages", "stream", "stream_options", "temperature", "top_p", "max_tokens", "max_completion_tokens",
    "stop", "tools", "tool_choice", "parallel_tool_calls", "n", "seed", "response_format", "reasoning_effort",
    "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "user", "metadata", "store",
}  # fmt: skip
_MEMBERS = {
    "assistant": {"role", "content", "tool_calls", "name", "refusal", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}

Broken = tuple[str, str]
"""A rule, and where it is broken."""


def broken_rules(
    body: Json, *, mistral: bool = False, also: Collection[str] = (), longest_id: int = 40
) -> list[Broken]:
    """The rules that a request breaks, in no particular order; none for a request that the API takes.

    Args:
        mistral: With Mistral's rule for the ids of calls.
        also: Members of messages and calls that the provider knows besides OpenAI's, such as `reasoning_content`.
        longest_id: Characters of a call's id; other providers than OpenAI give and take longer ones.
    """
    broken = _request(body, _Known(set(also), longest_id))
    return [(rule, where) for rule, where in broken if mistral or rule != "Mistral's call id"]


def check(body: Json, **options: Any) -> None:
    """Assert that the API takes a request; the options are those of `broken_rules`."""
    broken = [f"{where}: {rule} ({RULES[rule]})" for rule, where in broken_rules(body, **options)]
    assert not broken, "\n".join(broken)


class _Known(NamedTuple):
    also: set[str]
    longest_id: int


def _request(body: Json, known: _Known) -> Iterator[Broken]:
    yield from (("known members", name) for name in body.keys() - _TOP)
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model", "model"
    if type(body.get("stream", False)) is not bool:
        yield "stream", "stream"
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options", "stream_options"
    temperature = body.get("temperature", 1)
    if not isinstance(temperature, (int, float)) or isinstance(temperature, bool) or not 0 <= temperature <= 2:
        yield "temperature", "temperature"
    given = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
    if len(given) > 1 or any(type(most) is not int or most < 1 for most in given):
        yield "max tokens", "max_tokens"
    stops = [body["stop"]] if isinstance(body.get("stop"), str) else body.get("stop", [])
    if not isinstance(stops, list) or len(stops) > 4 or not all(isinstance(s, str) and s for s in stops):
        yield "stop", "stop"
    yield from _tools(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages", "messages"
    elif any(m.get("role") not in ("developer", "system", "user", "assistant", "tool") for m in messages):
        yield "roles", "messages"
    else:
        yield from _messages(messages, known)


def _tools(body: Json) -> Iterator[Broken]:
    tools = body.get("tools")
    names = []
    if tools is not None:
        if not isinstance(tools, list) or not tools or not all(_is_function(tool) for tool in tools):
            yield "tools", "tools"
            return
        names = [tool["function"].get("name") for tool in tools]
        if not all(isinstance(name, str) and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names):
            yield "tool name", "tools"
        elif len(set(names)) < len(names):
            yield "unique tools", "tools"
        if not all(isinstance(tool["function"].get("parameters", {}), dict) for tool in tools):
            yield "tool schema", "tools"
    if "parallel_tool_calls" in body and not tools:
        yield "parallel without tools", "parallel_tool_calls"
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not tools:
        yield "choice without tools", "tool_choice"
    if _is_function(choice):
        if tools and choice["function"].get("name") not in names:
            yield "chosen tool", "tool_choice.function.name"
    elif choice not in ("none", "auto", "required"):
        yield "tool_choice", "tool_choice"


def _is_function(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("function"), dict)


def _messages(messages: list[Json], known: _Known) -> Iterator[Broken]:
    waiting: list[Any] = []
    asked: list[Any] = []
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        members = _MEMBERS.get(message["role"], {"role", "content", "name"}) | known.also
        yield from (("known members", f"{where}.{name}") for name in message.keys() - members)
        if message["role"] == "tool":
            id = message.get("tool_call_id")
            if id not in waiting:
                yield "orphan result", where
            else:
                if asked[len(asked) - len(waiting)] != id:
                    yield "results in order", where
                waiting.remove(id)
            yield from _text_content(message, where)
            continue
        if waiting:
            yield "answered", where
            waiting = []
        match message["role"]:
            case "user":
                yield from _user(message.get("content"), where)
            case "assistant":
                yield from _assistant(message, where, known)
                waiting = [call.get("id") for call in _calls(message)]
                asked = list(waiting)
            case _:
                yield from _text_content(message, where)
    if waiting:
        yield "answered", f"messages[{len(messages) - 1}]"


def _text_content(message: Json, where: str) -> Iterator[Broken]:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        yield "text content", where


def _user(content: Any, where: str) -> Iterator[Broken]:
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        yield "user content", where
        return
    for j, part in enumerate(content):
        match part:
            case {"type": "text", "text": str()} | {"type": "input_audio" | "file"}:
                pass
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                if not re.match(r"https?://.|data:image/[a-z+.-]+;base64,[A-Za-z0-9+/]+=*$", url):
                    yield "image", f"{where}.content[{j}]"
            case _:
                yield "user part", f"{where}.content[{j}]"


def _calls(message: Json) -> list[Json]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _assistant(message: Json, where: str, known: _Known) -> Iterator[Broken]:
    content, calls = message.get("content"), _calls(message)
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    is_text = all(isinstance(part, dict) and isinstance(part.get("text") or part.get("refusal"), str) for part in parts)
    if not (content == "" or (content is None and calls) or (is_text and content is not None)):
        yield "assistant content", where
    elif not (content or calls or message.keys() & known.also):
        yield "empty assistant", where
    if "tool_calls" in message and not calls:
        yield "tool_calls", where
    ids = [call.get("id") for call in calls]
    for j, call in enumerate(calls):
        yield from _call(call, f"{where}.tool_calls[{j}]", known)
    if len(set(map(str, ids))) < len(ids):
        yield "unique ids", where


def _call(call: Json, where: str, known: _Known) -> Iterator[Broken]:
    yield from (("known members", f"{where}.{name}") for name in call.keys() - {"id", "type", "function"} - known.also)
    if not _is_function(call):
        yield "call", where
        return
    id, function = call.get("id"), call["function"]
    if not isinstance(id, str) or not 1 <= len(id) <= known.longest_id:
        yield "call id", where
    elif not re.fullmatch(r"[a-zA-Z0-9]{9}", id):
        yield "Mistral's call id", where
    name = function.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_-]+", name):
        yield "call name", where
    try:
        arguments = json.loads(function.get("arguments"))
    except (TypeError, ValueError):
        arguments = None
    if not isinstance(arguments, dict):
        yield "arguments", where
