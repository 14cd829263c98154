"""The OpenAI chat style: `POST {base}/chat/completions`, as many servers speak it.

Source: OpenAI API reference, "Chat completions" and "Chat completions streaming". Where other servers of the
style differ, the line says who.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...errors import InternalServerError, ProtocolError
from ...results import Usage
from ...tool import Tool
from ..commands import ModelRequest
from ..failure import error_in_payload
from ..payload import parse_payload
from ..sse import ServerSentEvent
from ..turn import CallDraft, Turn
from .delta_template import DeltaTemplate, SoleDelta
from .openai_messages import REASONING_FIELDS, spelled
from .spellings import Spelling, Spellings

_FINISH_REASONS = {
    "function_call": "tool_calls",  # the field's older name for it
    "eos": "stop",
    "end_turn": "stop",
    "max_tokens": "length",
    "model_length": "length",  # Mistral
    "MAX_TOKENS": "length",  # Gemini
    "STOP": "stop",
    "SAFETY": "content_filter",
}

_STREAM_OPTIONS = {"include_usage": True}  # without it OpenAI's streams report no usage


class OpenAIWire:
    """The style as a `Wire`."""

    def __init__(self) -> None:
        self._spellings: Spellings[dict[str, Any]] = Spellings()
        self._tools: Spelling[Sequence[Tool], list[dict[str, Any]]] = Spelling(_declared)
        self._system: Spelling[str, dict[str, Any]] = Spelling(lambda text: {"role": "system", "content": text})

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON body; members that are not set are left out, so that no server's default is overruled."""
        messages = spelled(request.messages, request.origin, self._spellings)
        if request.system:
            messages = [self._system.of(request.system), *messages]
        options = request.options
        # OpenAI's own newer models refuse the old name, most other servers do not know the new one.
        max_tokens = "max_completion_tokens" if request.origin.endswith(":api.openai.com") else "max_tokens"
        body: dict[str, Any] = {
            "model": request.model,
            "messages": messages,
            max_tokens: options.max_tokens,
            "temperature": options.temperature,
            "stop": list(options.stop) or None,
        }
        if request.tools:
            body["tool_choice"] = _tool_choice(options.tool_choice)
            body["parallel_tool_calls"] = options.parallel_tool_calls
            body["tools"] = self._tools.of(request.tools)
        if request.stream:
            body["stream"] = True
            body["stream_options"] = _STREAM_OPTIONS
        body.update(request.params)
        return {key: value for key, value in body.items() if value is not None}

    def reader(self, turn: Turn) -> OpenAIReader:
        return OpenAIReader(turn)


def _declared(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    functions = (
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema} for tool in tools
    )
    return [{"type": "function", "function": function} for function in functions]


def _tool_choice(choice: str | None) -> str | dict[str, Any] | None:
    if choice in (None, "auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


class OpenAIReader:
    """Reads one response into a turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._by_index: dict[int, CallDraft] = {}
        self._by_id: dict[str, CallDraft] = {}
        self._last: CallDraft | None = None
        self._details: dict[tuple[int, str], dict[str, Any]] = {}  # reasoning_details by index and type
        self._choice: int | None = None
        self.template = DeltaTemplate()

    def event_received(self, event: ServerSentEvent) -> None:
        data = event.data
        if data[:1] != b"{":
            stripped = data.strip()
            self.template.forget()
            if stripped == b"[DONE]":
                self._turn.complete = self._turn.ended = True
                return
            if not stripped or data[:1] == b":":  # a heartbeat, and a comment that a gateway wrapped as data
                return
        payload = parse_payload(data)
        self._payload_received(payload, event.type, "delta")
        self.template.learn(event, payload, self._sole_delta)

    def _sole_delta(self, payload: dict[str, Any]) -> SoleDelta | None:
        choices = payload.get("choices")
        if not choices or len(choices) > 1 or self._our_choice(choices) is None:
            return None
        said = [item for item in _object(choices[0].get("delta")).items() if item[1] and item[0] != "role"]
        if len(said) != 1:
            return None
        ((member, value),) = said
        if member == "tool_calls":
            return self._sole_arguments(value)
        if not isinstance(value, str):
            return None
        if member in REASONING_FIELDS:
            return SoleDelta(member, value, self._turn.reasoning_received)
        return SoleDelta(member, value, self._turn.text_received) if member == "content" else None

    def _sole_arguments(self, calls: Any) -> SoleDelta | None:
        """The same for `tool_calls`: of one call, and without a name, which may open a further one each time."""
        function = _object(calls[0].get("function")) if type(calls) is list and len(calls) == 1 else {}
        text = function.get("arguments")
        if self._last is None or function.get("name") or not isinstance(text, str):
            return None
        return SoleDelta("arguments", text, partial(self._turn.arguments_received, self._last))

    def reply_received(self, payload: dict[str, Any]) -> None:
        self._payload_received(payload, "message", "message")
        if not payload.get("choices"):
            raise ProtocolError(f"expected a completion with choices, got an object with {str(list(payload))[:200]}")
        self._turn.complete = self._turn.ended = True

    def _payload_received(self, payload: dict[str, Any], event: str, member: str) -> None:
        choices = payload.get("choices")
        if choices:
            choice = self._our_choice(choices)
            if choice is not None:
                self._message_received(_object(choice.get(member)), whole=member == "message")
                reason = choice.get("finish_reason") or choice.get("finishReason")  # camel case: early Gemini
                if reason:
                    self._finish_received(str(reason), payload, event)
        usage = payload.get("usage") or _object(payload.get("x_groq")).get("usage")
        if usage:
            self._usage_received(_object(usage))
        if not choices or payload.get("error") or event == "error":
            error = error_in_payload(payload, event)
            if error is not None:
                raise error

    def _our_choice(self, choices: Any) -> dict[str, Any] | None:
        """The one answer that we show: the first that came, whatever its index."""
        if type(choices) is list and len(choices) == 1 and type(choices[0]) is dict:  # nearly always
            choice: dict[str, Any] = choices[0]
            index = choice.get("index")
            if self._choice is None:
                self._choice = index if type(index) is int else 0
            return choice if type(index) is not int or index == self._choice else None
        if type(choices) is not list or not all(type(choice) is dict for choice in choices):
            raise ProtocolError(f"expected choices to be a list of objects, got {str(choices)[:200]!r}")
        indexes = [index if type(index := choice.get("index")) is int else None for choice in choices]
        if self._choice is None:
            self._choice = indexes[0] or 0
        return next(
            (_object(c) for c, index in zip(choices, indexes, strict=True) if (index or 0) == self._choice), None
        )

    def _finish_received(self, reason: str, payload: dict[str, Any], event: str) -> None:
        if reason == "error":
            raise error_in_payload(payload, event) or InternalServerError(
                "the response ended with finish_reason 'error'"
            )
        self._turn.finish_reported(_FINISH_REASONS.get(reason, reason))
        self._turn.complete = True

    def _message_received(self, delta: dict[str, Any], *, whole: bool) -> None:
        if len(delta) > 1 or not (
            "content" in delta or "tool_calls" in delta
        ):  # else it is one of those, as nearly always
            self._reasoning_received(delta)
        content = delta.get("content")
        if content:
            if type(content) is str:
                self._turn.text_received(content)
            else:
                self._parts_received(content)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._turn.text_received(refusal)
            self._turn.finish_reported("refusal")
        calls = delta.get("tool_calls")
        if calls:
            for position, entry in enumerate(calls if isinstance(calls, list) else [calls]):
                self._call_received(entry, position if whole else None)

    def _parts_received(self, parts: Any) -> None:
        """`content` as a list of typed parts (Mistral)."""
        for part in parts if isinstance(parts, list) else [parts]:
            if not isinstance(part, dict):
                raise ProtocolError(f"expected content to be text or a list of parts, got {str(parts)[:200]!r}")
            if part.get("type") == "thinking":
                inner = part.get("thinking")
                for piece in inner if isinstance(inner, list) else [inner]:
                    text = piece.get("text") if isinstance(piece, dict) else piece
                    if isinstance(text, str):
                        self._turn.reasoning_received(text)
            elif isinstance(text := part.get("text"), str):
                self._turn.text_received(text)

    def _reasoning_received(self, delta: dict[str, Any]) -> None:
        details = delta.get("reasoning_details")
        shown = False
        for field in REASONING_FIELDS:
            text = delta.get(field)
            if text and isinstance(text, str):
                if not shown:  # some servers send the same text under both names
                    self._turn.reasoning_received(text).extra.setdefault("field", field)
                shown = True
        if isinstance(details, list):
            for detail in details:
                if isinstance(detail, dict):
                    self._detail_received(detail, shown)

    def _detail_received(self, detail: dict[str, Any], shown: bool) -> None:
        """One item of OpenRouter's `reasoning_details`: pieces of one index are one item, and go back as such."""
        text = detail.get("text") or detail.get("summary")
        draft = self._turn.reasoning_received(text if isinstance(text, str) and not shown else "")
        index = detail.get("index")
        key = (index, str(detail.get("type"))) if type(index) is int else None
        known = self._details.get(key) if key else None
        if known is None:
            item = dict(detail)
            draft.extra.setdefault("reasoning_details", []).append(item)
            if key:
                self._details[key] = item
            return
        for name, value in detail.items():
            before = known.get(name)
            if name in ("text", "summary", "data") and isinstance(value, str) and isinstance(before, str):
                known[name] = before + value
            elif value is not None:
                known[name] = value

    # -- tool calls

    def _call_received(self, entry: Any, position: int | None) -> None:
        if not isinstance(entry, dict):
            raise ProtocolError(f"expected a tool call to be an object, got {str(entry)[:200]!r}")
        function = _object(entry.get("function"))
        id, name, arguments = str(entry.get("id") or ""), str(function.get("name") or ""), function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments)  # the object itself in place of its text (Ollama, MiniMax)
        index = entry.get("index") if position is None else position
        call = self._find_call(index if type(index) is int else None, id, name, bool(arguments))
        if call is None:
            call = self._turn.call_opened()
        # Set, never append: some servers repeat both on every piece. Empty is as good as absent.
        call.id = call.id or id
        call.name = call.name or name
        for key, value in entry.items():
            if key not in ("id", "index", "type", "function", "name") and value is not None:
                call.extra[key] = value
        self._last = call
        if call.id:
            self._by_id[call.id] = call
        if type(index) is int:
            self._by_index[index] = call
        if arguments:
            self._turn.arguments_received(call, arguments)

    def _find_call(self, index: int | None, id: str, name: str, has_arguments: bool) -> CallDraft | None:
        """The call that a piece belongs to; `None` if it opens a new one.

        By its index, where there is one. Two habits need care: parallel calls that all come as index 0, and an
        id that changes with every piece of one call (both seen at several gateways).
        """
        known = self._by_index.get(index) if index is not None else self._by_id.get(id) if id else None
        if known is None:
            if index is not None:
                return None
            last = self._last
            # Without an index, what brings neither a new id nor a name goes on with the last call.
            if last is None or (name and (id or name != last.name or last.has_whole_arguments)):
                return None
            return last
        if id and known.id and id != known.id:
            return None if name else known
        if name and has_arguments and not id and known.has_whole_arguments:
            return None
        return known

    def _usage_received(self, usage: dict[str, Any]) -> None:
        prompt = _object(usage.get("prompt_tokens_details"))
        completion = _object(usage.get("completion_tokens_details"))
        counts = Usage(
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            total_tokens=_count(usage.get("total_tokens")),
            cached_tokens=_count(prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))),  # DeepSeek
            cache_write_tokens=_count(prompt.get("cache_write_tokens")),  # OpenRouter
            reasoning_tokens=_count(completion.get("reasoning_tokens")),
            raw=(usage,),
        )
        # MiniMax sends `total_tokens: 0` and nothing else while it streams: no report yet.
        if counts.prompt_tokens is not None or counts.completion_tokens is not None or counts.total_tokens:
            self._turn.usage_reported(counts)


def _object(value: Any) -> dict[str, Any]:
    """An optional member: null, absent and what is no object are the same thing."""
    return value if type(value) is dict else {}


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
