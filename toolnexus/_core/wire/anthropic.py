"""The Anthropic Messages style: `POST {base}/v1/messages`, as Anthropic and its imitators speak it.

Source: Anthropic API reference, "Create a Message", and "Streaming messages". Where an imitator differs, the line
says who.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import ProtocolError
from ...results import Usage
from ...tool import Tool
from ..failure import error_in_payload
from ..payload import UnreadableArguments, parse_arguments, parse_payload
from ..turn import CallDraft, Draft, OpaqueDraft, ReasoningDraft, TextDraft, Turn
from .anthropic_messages import spelled
from .delta_template import DeltaTemplate, SoleDelta
from .spellings import Spelling, Spellings

if TYPE_CHECKING:
    from ..commands import ModelRequest
    from ..sse import ServerSentEvent

DEFAULT_MAX_TOKENS = 8192
"""The API wants a number; this one every current model takes, and few answers are longer."""

_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class AnthropicWire:
    """The style as a `Wire`."""

    def __init__(self) -> None:
        self._spellings: Spellings[dict[str, Any]] = Spellings()
        self._tools: Spelling[Sequence[Tool], list[dict[str, Any]]] = Spelling(_declared)

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON body; no sampling parameter that the user did not set, newer versions of the API refuse them."""
        system, messages = spelled(request.messages, request.origin, self._spellings)
        options = request.options
        body: dict[str, Any] = {
            "model": request.model,
            "max_tokens": options.max_tokens or DEFAULT_MAX_TOKENS,
            "system": "\n\n".join(text for text in (request.system, system) if text and text.strip()) or None,
            "messages": messages,
            "temperature": options.temperature,
            "stop_sequences": list(options.stop) or None,
        }
        if request.tools:
            body["tools"] = self._tools.of(request.tools)
            body["tool_choice"] = _tool_choice(options.tool_choice, options.parallel_tool_calls)
        if request.stream:
            body["stream"] = True
        body.update(request.params)
        return {key: value for key, value in body.items() if value is not None}

    def reader(self, turn: Turn) -> AnthropicReader:
        return AnthropicReader(turn)


def _declared(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]


def _tool_choice(choice: str | None, parallel: bool | None) -> dict[str, Any] | None:
    if choice is None and parallel is None:
        return None
    out: dict[str, Any]
    match choice:
        case None | "auto":
            out = {"type": "auto"}
        case "none":
            return {"type": "none"}
        case "required":
            out = {"type": "any"}
        case name:
            out = {"type": "tool", "name": name}
    if parallel is not None:
        out["disable_parallel_tool_use"] = not parallel
    return out


_Index = int | str | None


@dataclass(slots=True, eq=False)
class _OpenBlock:
    draft: Draft
    input: list[str] = field(default_factory=list)
    """Pieces of the input of a block that is not for us to run."""


class AnthropicReader:
    """Reads one response into a turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._open: dict[_Index, _OpenBlock] = {}
        self._stopped: list[tuple[_Index, Draft]] = []
        self._earlier: list[tuple[_Index, Draft]] = []
        """Blocks that were finished when the message was begun once more."""
        self._usage: dict[str, Any] = {}
        self.template = DeltaTemplate()

    def event_received(self, event: ServerSentEvent) -> None:
        data = event.data
        if not data.strip() or data.strip() == b"[DONE]" or data[:1] == b":":  # gateways that mix both styles
            return
        payload = parse_payload(data)
        match payload.get("type") or event.type:
            case "content_block_delta":
                self._delta_received(_index(payload), _object(payload.get("delta")))
                self.template.learn(event, payload, self._sole_delta)
                return
            case "content_block_start":
                self._block_started(_index(payload), _object(payload.get("content_block")))
            case "content_block_stop":
                self._block_stopped(_index(payload))
            case "message_start":
                self._message_started(_object(payload.get("message")))
            case "message_delta":
                self._reason_received(_object(payload.get("delta")).get("stop_reason"))
                self._usage_received(_object(payload.get("usage")))
            case "message_stop":
                for index in list(self._open):  # some servers leave out the stops
                    self._block_stopped(index)
                self._turn.complete = self._turn.ended = True
            case _:  # ping, and what newer versions add
                error = error_in_payload(payload, event.type)
                if error is not None:
                    raise error
        self.template.forget()

    def _sole_delta(self, payload: dict[str, Any]) -> SoleDelta | None:
        delta, block = _object(payload.get("delta")), self._open.get(_index(payload))
        match delta.get("type"), block and block.draft:
            case "text_delta", TextDraft() as draft:
                return SoleDelta("text", _text(delta.get("text")), partial(self._turn.text_received, draft=draft))
            case "input_json_delta", CallDraft() as draft:
                text = _text(delta.get("partial_json"))
                return SoleDelta("partial_json", text, partial(self._turn.arguments_received, draft))
            case "thinking_delta", ReasoningDraft() as draft:
                text = _text(delta.get("thinking"))
                return SoleDelta("thinking", text, partial(self._turn.reasoning_received, draft=draft))
            case _:
                return None

    def reply_received(self, payload: dict[str, Any]) -> None:
        content = payload.get("content")
        if not isinstance(content, list):
            raise ProtocolError(f"expected a message with content, got an object with {str(sorted(payload))[:200]}")
        for index, block in enumerate(content):
            self._block_started(index, _object(block))
            self._block_stopped(index)
        self._reason_received(payload.get("stop_reason"))
        self._usage_received(_object(payload.get("usage")))
        self._turn.complete = self._turn.ended = True

    def _message_started(self, message: dict[str, Any]) -> None:
        """A message begins; some gateways repeat this, or begin anew when their own upstream broke off.

        Then what was not finished is dropped, except text: that was shown and goes on. What was finished is dropped
        when an index comes again: a call in it would run twice.
        """
        for index, block in list(self._open.items()):
            if not isinstance(block.draft, TextDraft):
                self._turn.block_dropped(block.draft)
                del self._open[index]
        content = message.get("content")
        if isinstance(content, list) and not self._turn.drafts:
            # Nearly always empty. A call of ours that their sandbox makes comes whole, and then `message_stop`
            # ("Programmatic tool calling", recorded at Anthropic in December 2025).
            for index, block in enumerate(content):
                self._block_started(index, _object(block))
                self._block_stopped(index)
        self._reason_received(message.get("stop_reason"))
        self._earlier += self._stopped
        self._stopped.clear()
        self._usage_received(_object(message.get("usage")))

    def _block_started(self, index: _Index, block: dict[str, Any]) -> None:
        self._block_stopped(index)  # some servers leave out the stops
        if any(index == earlier for earlier, _ in self._earlier):
            for _, finished in self._earlier:
                if not isinstance(finished, TextDraft):
                    self._turn.block_dropped(finished)
            self._earlier.clear()
        rest = {key: value for key, value in block.items() if key != "type"}
        draft: Draft
        match block.get("type"):
            case "text":
                draft = self._turn.text_opened()
                self._turn.text_received(_text(rest.pop("text", None)), draft)
                draft.extra = {key: value for key, value in rest.items() if value}
            case "thinking":
                draft = self._turn.reasoning_opened()
                self._turn.reasoning_received(_text(rest.pop("thinking", None)), draft)
                draft.extra = {**rest, "signature": _text(rest.get("signature"))}  # the API wants one back
            case "tool_use":
                draft = self._turn.call_opened()
                draft.id, draft.name = _text(rest.pop("id", None)), _text(rest.pop("name", None))
                given = rest.pop("input", None)  # empty, or left out (llama.cpp), where the input is streamed
                draft.extra = rest
                if given:
                    self._turn.arguments_received(draft, json.dumps(given))
            case str() as kind if kind.strip():
                draft = self._turn.block_received(dict(block))
            case _:  # of no type: nobody could take it back
                return
        self._open[index] = _OpenBlock(draft)

    def _delta_received(self, index: _Index, delta: dict[str, Any]) -> None:
        block = self._open.get(index)
        kind = delta.get("type")
        if block is None:
            if kind != "text_delta":
                raise ProtocolError(f"expected content_block_start before a {kind!r} for block {index!r}")
            self._block_started(index, {"type": "text"})  # a gateway that never starts its blocks
            block = self._open[index]
        match kind, block.draft:
            case "text_delta", TextDraft() as draft:
                self._turn.text_received(_text(delta.get("text")), draft)
            case "input_json_delta", CallDraft() as draft:
                self._turn.arguments_received(draft, _text(delta.get("partial_json")))
            case "thinking_delta", ReasoningDraft() as draft:
                self._turn.reasoning_received(_text(delta.get("thinking")), draft)
            case "signature_delta", ReasoningDraft() as draft:
                self._turn.deltas += 1
                draft.extra["signature"] = _text(draft.extra.get("signature")) + _text(delta.get("signature"))
            case "citations_delta", TextDraft() as draft:
                self._turn.deltas += 1
                known = draft.extra.get("citations")
                draft.extra["citations"] = [*(known if isinstance(known, list) else ()), delta.get("citation")]
            case "input_json_delta", OpaqueDraft():
                self._turn.deltas += 1
                block.input.append(_text(delta.get("partial_json")))
            case _, OpaqueDraft(data):
                self._turn.deltas += 1
                _merge(data, delta)
            case (("text_delta" | "thinking_delta" | "input_json_delta"), _):
                raise ProtocolError(f"a {kind!r} came for block {index!r}, which is of another kind")
            case _:  # a delta that a newer version of the API adds to a block we know
                pass

    def _block_stopped(self, index: _Index) -> None:
        block = self._open.pop(index, None)
        match block:
            case None:
                return
            case _OpenBlock(ReasoningDraft(text, extra) as draft) if not str(text) and not any(extra.values()):
                self._turn.block_dropped(draft)  # an imitator that opens one for every answer
                return
            case _OpenBlock(OpaqueDraft(data), [_, *_] as pieces):
                try:
                    data["input"] = parse_arguments("".join(pieces))
                except UnreadableArguments as error:
                    raise ProtocolError(f"the input of a {data.get('type')!r} block: {error}") from None
            case _:
                pass
        self._stopped.append((index, block.draft))

    def _reason_received(self, reason: Any) -> None:
        if reason:
            self._turn.finish_reported(_STOP_REASONS.get(str(reason), str(reason)))

    def _usage_received(self, usage: dict[str, Any]) -> None:
        """Counts are running totals: a later value replaces an earlier one, null and absent leave it."""
        self._usage.update({key: value for key, value in usage.items() if value is not None})
        prompt, completion = _count(self._usage.get("input_tokens")), _count(self._usage.get("output_tokens"))
        read = _count(self._usage.get("cache_read_input_tokens"))
        written = _count(self._usage.get("cache_creation_input_tokens"))
        if prompt is None and completion is None:
            return
        if prompt is not None:  # the API counts cached tokens beside the input, we count them in
            prompt += (read or 0) + (written or 0)
        self._turn.usage_reported(
            Usage(
                prompt_tokens=prompt,
                completion_tokens=completion,
                total_tokens=None if prompt is None or completion is None else prompt + completion,
                cached_tokens=read,
                cache_write_tokens=written,
                reasoning_tokens=_count(_object(self._usage.get("output_tokens_details")).get("thinking_tokens")),
                raw=(dict(self._usage),),
            )
        )


def _index(payload: dict[str, Any]) -> _Index:
    index = payload.get("index")
    return index if isinstance(index, (int, str)) else None


def _merge(data: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a delta to a block that we do not know: text goes on, lists grow, anything else is replaced."""
    for key, value in delta.items():
        known = data.get(key)
        if key == "type" or value is None:
            continue
        if isinstance(known, str) and isinstance(value, str):
            data[key] = known + value
        elif isinstance(known, list) and isinstance(value, list):
            data[key] = [*known, *value]
        else:
            data[key] = value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any]:
    """An optional member: null, absent and what is no object are the same thing."""
    return value if type(value) is dict else {}


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
