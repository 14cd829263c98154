"""The rules of Anthropic's Messages API for a request, as its documentation and its error messages state them.

It shares no code with the library. Where imitators and resellers of the API (Bedrock, Vertex, gateways) are stricter
than Anthropic itself, the stricter rule is here: a request that passes is taken everywhere.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

REFERENCE = "API reference, 'Create a Message'"
TOOLS = "'Handle tool calls', https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls"
DEFINE = "'Define tools', https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools"
THINKING = "'Extended thinking', https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
VISION = "'Vision', https://platform.claude.com/docs/en/build-with-claude/vision"

RULES = {
    "known members": f"{REFERENCE}; 400 '…: Extra inputs are not permitted'",
    "model": f"{REFERENCE}, model: required text",
    "max_tokens": f"{REFERENCE}, max_tokens: required, minimum 1",
    "stream": f"{REFERENCE}, stream: boolean",
    "temperature": f"{REFERENCE}, temperature: from 0 to 1",
    "stop_sequences": f"{REFERENCE}, stop_sequences; 400 'each stop sequence must contain non-whitespace'",
    "system": f"{REFERENCE}, system: text or text blocks; 400 'system: text content blocks must be non-empty'",
    "messages": f"{REFERENCE}, messages; 400 'messages: at least one message is required'",
    "roles": f"{REFERENCE}, messages: 'there is no \"system\" role for input messages'",
    "first role": f"{REFERENCE} (2024), messages: 'the first message must always use the user role'",
    "alternating roles": "400 'roles must alternate between user and assistant' (Bedrock; Anthropic merges since 2024)",
    "last role": "'What's new in Claude 4.6', prefill removal: 400 'the conversation must end with a user message'; "
    "a paused response is sent back as it is ('Server tools', pause_turn)",
    "content": "400 'all messages must have non-empty content'",
    "text": "400 'text content blocks must contain non-whitespace text'",
    "block": f"{REFERENCE}, messages.content: objects with a type",
    "block's role": f"{REFERENCE}, messages.content: images are the user's, calls the assistant's, and so on",
    "tool_use id": f"{REFERENCE}, tool_use.id; 400 'String should match pattern ^[a-zA-Z0-9_-]+$'",
    "unique ids": f"{TOOLS}: 'a unique identifier for this particular tool use block'; 400 'ids must be unique'",
    "tool_use name": "400 'tool_use.name: String should match pattern ^[a-zA-Z0-9_-]{1,128}$'",
    "tool_use input": f"{REFERENCE}, tool_use.input: an object",
    "answered": f"{TOOLS}: 'each tool_use block must have a corresponding tool_result block in the next message'",
    "results first": f"{TOOLS}: 'tool_result blocks must come first in the content array'",
    "orphan result": f"{TOOLS}; 400 'unexpected tool_use_id found in tool_result blocks'",
    "one result": f"{TOOLS}; 400 'each tool_use must have a single result'",
    "result content": f"{TOOLS}: text, or a list of text, image, document or search_result blocks",
    "error content": "400 'content cannot be empty if is_error is true'",
    "thinking": f"{THINKING}, 'Preserving thinking blocks': text and signature go back unmodified",
    "redacted thinking": f"{THINKING}, 'Thinking redaction': data goes back unmodified",
    "thinking budget": f"{THINKING}: budget_tokens from 1024 on and less than max_tokens",
    "thinking and tool choice": f"{THINKING}, 'Extended thinking with tool use': tool_choice auto or none only",
    "image source": f"{VISION}: base64 data, an https URL, or a file",
    "media type": f"{VISION}: image/jpeg, image/png, image/gif, image/webp",
    "tools": f"{REFERENCE}, tools: a list of objects",
    "tool name": f"{DEFINE}: 'Must match the regex ^[a-zA-Z0-9_-]{{1,64}}$'",
    "unique tools": "400 'tools: Tool names must be unique'",
    "tool schema": f"{DEFINE}: input_schema is a JSON Schema object, of type object",
    "choice without tools": f"{REFERENCE}, tool_choice; 400 'tool_choice may only be specified while providing tools'",
    "tool_choice": f"{REFERENCE}, tool_choice: auto, any, tool, none",
    "chosen tool": "400 'Tool … not found in provided tools'",
    "parallel flag": f"{REFERENCE}, tool_choice.disable_parallel_tool_use: boolean, not beside none",
}
"""The rules by name, each with its source."""

_TOP = {
    "model", "max_tokens", "messages", "system", "stream", "temperature", "top_p", "top_k", "stop_sequences", "tools",
    "tool_choice", "thinking", "metadata", "service_tier", "container", "mcp_servers", "context_management",
}  # fmt: skip
_MEMBERS = {
    "text": {"text", "citations"},
    "image": {"source"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
_USERS = {"image", "document", "search_result", "tool_result", "container_upload"}
_ASSISTANTS = {"tool_use", "server_tool_use", "mcp_tool_use", "thinking", "redacted_thinking"}
_MEDIA_TYPES = {"image/jpeg", "image/png", "image/gif", "image/webp"}

Broken = tuple[str, str]
"""A rule, and where it is broken."""


def broken_rules(body: Json) -> list[Broken]:
    """The rules that a request breaks, in no particular order; none for a request that the API takes."""
    return list(_request(body))


def check(body: Json) -> None:
    """Assert that the API takes a request."""
    broken = [f"{where}: {rule} ({RULES[rule]})" for rule, where in broken_rules(body)]
    assert not broken, "\n".join(broken)


def _request(body: Json) -> Iterator[Broken]:
    yield from (("known members", name) for name in body.keys() - _TOP)
    if not _is_said(body.get("model")):
        yield "model", "model"
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        yield "max_tokens", "max_tokens"
    if type(body.get("stream", False)) is not bool:
        yield "stream", "stream"
    if not _is_number(body.get("temperature", 1), 0, 1):
        yield "temperature", "temperature"
    stops = body.get("stop_sequences", [])
    if not isinstance(stops, list) or not all(_is_said(stop) for stop in stops):
        yield "stop_sequences", "stop_sequences"
    if "system" in body:
        blocks = body["system"] if isinstance(body["system"], list) else [{"type": "text", "text": body["system"]}]
        if not blocks or not all(b.get("type") == "text" and _is_said(b.get("text")) for b in blocks):
            yield "system", "system"
    yield from _tools(body)
    yield from _thinking_mode(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages", "messages"
    elif any(m.get("role") not in ("user", "assistant") for m in messages):
        yield "roles", "messages"
    else:
        yield from _messages(messages)


def _tools(body: Json) -> Iterator[Broken]:
    tools = body.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        yield "tools", "tools"
        return
    names = [tool.get("name") for tool in tools]
    if not all(_matches(r"[a-zA-Z0-9_-]{1,64}", name) for name in names):
        yield "tool name", "tools"
    elif len(set(names)) < len(names):
        yield "unique tools", "tools"
    schemas = [tool.get("input_schema") for tool in tools]
    if not all(isinstance(schema, dict) and schema.get("type") == "object" for schema in schemas):
        yield "tool schema", "tools"
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not tools:
        yield "choice without tools", "tool_choice"
    if not isinstance(choice, dict) or choice.get("type") not in ("auto", "any", "tool", "none"):
        yield "tool_choice", "tool_choice"
        return
    if tools and choice["type"] == "tool" and choice.get("name") not in names:
        yield "chosen tool", "tool_choice.name"
    flag = choice.get("disable_parallel_tool_use", False)
    if type(flag) is not bool or (choice["type"] == "none" and "disable_parallel_tool_use" in choice):
        yield "parallel flag", "tool_choice.disable_parallel_tool_use"


def _thinking_mode(body: Json) -> Iterator[Broken]:
    thinking = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    budget, most = thinking.get("budget_tokens"), body.get("max_tokens")
    if type(budget) is not int or budget < 1024 or (type(most) is int and 1 <= most <= budget):
        yield "thinking budget", "thinking.budget_tokens"
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        yield "thinking and tool choice", "tool_choice"


def _messages(messages: list[Json]) -> Iterator[Broken]:
    if messages[0]["role"] != "user":
        yield "first role", "messages[0]"
    if any(one["role"] == other["role"] for one, other in itertools.pairwise(messages)):
        yield "alternating roles", "messages"
    last = messages[-1]
    if last["role"] == "assistant" and not any("server_tool" in str(b.get("type")) for b in _blocks(last)):
        yield "last role", f"messages[{len(messages) - 1}]"
    ids: set[str] = set()
    waiting: list[str] = []
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        blocks = _blocks(message)
        if not blocks:
            yield "content", where
        if not all(isinstance(block, dict) and _is_said(block.get("type")) for block in blocks):
            yield "block", where
            continue
        for j, block in enumerate(blocks):
            yield from _block(block, message["role"], f"{where}.content[{j}]")
        yield from _results(blocks, waiting, where)
        asks = message["role"] == "assistant"
        waiting = [str(block.get("id")) for block in blocks if asks and block["type"] == "tool_use"]
        if len(set(waiting)) < len(waiting) or ids & set(waiting):
            yield "unique ids", where
        ids |= set(waiting)
    if waiting:
        yield "answered", f"messages[{len(messages) - 1}]"


def _results(blocks: list[Json], waiting: list[str], where: str) -> Iterator[Broken]:
    """The results in a message, held against the calls of the message before."""
    places = [j for j, block in enumerate(blocks) if block["type"] == "tool_result"]
    got = [str(blocks[j].get("tool_use_id")) for j in places]
    if places != list(range(len(places))):
        yield "results first", where
    if set(got) - set(waiting):
        yield "orphan result", where
    elif len(set(got)) < len(got):
        yield "one result", where
    if set(waiting) - set(got):
        yield "answered", where


def _blocks(message: Json) -> list[Any]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _block(block: Json, role: str, where: str) -> Iterator[Broken]:
    kind = block["type"]
    if kind in (_ASSISTANTS if role == "user" else _USERS):
        yield "block's role", where
        return
    if kind in _MEMBERS:
        more = block.keys() - _MEMBERS[kind] - {"type", "cache_control"}
        yield from (("known members", f"{where}.{name}") for name in more)
    match kind:
        case "text":
            if not _is_said(block.get("text")):
                yield "text", where
        case "image":
            yield from _image(block.get("source"), where)
        case "tool_use":
            if not _matches(r"[a-zA-Z0-9_-]+", block.get("id")):
                yield "tool_use id", where
            if not _matches(r"[a-zA-Z0-9_-]{1,128}", block.get("name")):
                yield "tool_use name", where
            if not isinstance(block.get("input"), dict):
                yield "tool_use input", where
        case "tool_result":
            yield from _tool_result(block, where)
        case "thinking":
            if not isinstance(block.get("thinking"), str) or not isinstance(block.get("signature"), str):
                yield "thinking", where
        case "redacted_thinking":
            if not _is_said(block.get("data")):
                yield "redacted thinking", where


def _tool_result(block: Json, where: str) -> Iterator[Broken]:
    content = block.get("content", [])
    if not isinstance(content, (str, list)):
        yield "result content", where
        return
    if block.get("is_error") and not content:
        yield "error content", where
    for j, piece in enumerate(content if isinstance(content, list) else []):
        inner = f"{where}.content[{j}]"
        if piece.get("type") not in ("text", "image", "document", "search_result"):
            yield "result content", inner
        else:
            yield from _block(piece, "user", inner)


def _image(source: Any, where: str) -> Iterator[Broken]:
    match source:
        case {"type": "base64", "data": str(data), "media_type": media_type}:
            try:
                whole = base64.b64decode(data, validate=True)
            except ValueError:
                whole = b""
            if not whole:
                yield "image source", where
            if media_type not in _MEDIA_TYPES:
                yield "media type", where
        case {"type": "url", "url": str(url)} if url.startswith(("http://", "https://")):
            pass
        case {"type": "file", "file_id": str()}:
            pass
        case _:
            yield "image source", where


def _is_said(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number(value: Any, least: float, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


def _matches(pattern: str, value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None
