"""The whole machine: facts that its commands ask for, and facts that they do not, in any order.

A fact that no command asked for is a `RuntimeError` and changes nothing. Everything else has events, or an error of
ours. Wherever a run stops, its transcript can be kept, carried on by another run, and sent to either provider.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.core.scripted import make_tool, reading
from tests.core.test_anthropic_fuzz import SHAPES
from tests.core.wire_cases import WIRES
from tests.fuzz import anthropic as claude
from tests.fuzz import openai
from tests.fuzz.source import Source
from tests.validators import anthropic as anthropics_rules
from tests.validators import openai as openais_rules
from toolnexus._core.commands import (
    APPROVAL,
    TOOL,
    AdmitTools,
    Checkpoint,
    Finish,
    ModelRequest,
    RunTools,
    SendRequest,
    ToolOutcome,
    WaitFor,
)
from toolnexus._core.payload import well_formed
from toolnexus._core.run import AgentRun
from toolnexus._core.setup import RunSetup
from toolnexus._core.transcript import closed
from toolnexus._io.body import BodyWriter
from toolnexus.errors import APITimeoutError, StreamInterruptedError, ToolnexusError
from toolnexus.events import DoneEvent, StreamEvent, ToolCallEvent, event_from_json, event_to_json
from toolnexus.limits import Limits
from toolnexus.messages import ImagePart, Message, TextPart
from toolnexus.results import RunResult, Usage
from toolnexus.suspension import Answer, Pending
from toolnexus.tool import ToolResult
from toolnexus.tools.output import to_result

TOOLS = [
    make_tool("look"),
    make_tool("alone", parallel=False),
    make_tool("ask", approval=True),
    make_tool("again", idempotent=True),
    make_tool("hear", hears_declines=True),
]
NAMES = ["look", "look", "alone", "ask", "again", "hear", "nobody"]
ARGUMENTS = ["{}", '{"a":1}', "{", "[]", ""]
LIMITS = Limits(tool_calls_per_turn=5, tool_args_bytes=200, tool_output_bytes=30, suspensions_per_call=2)
STEPS = 40
Fact = Callable[[], Sequence[StreamEvent] | None]


class Course:
    """One run, and what has happened to it."""

    def __init__(self, source: Source, style: str, messages: Sequence[Message], prompt: str | None, nonce: str) -> None:
        self.source = source
        self.style = style
        self.pieces: list[bytes] = []
        """What is still to come of the response that is being read."""
        self.told: list[StreamEvent] = []
        self.writer = BodyWriter()
        flags = source.below(64)
        self.stream = bool(flags & 1)
        self.run = AgentRun(
            RunSetup(
                wire=WIRES[style],
                origin=f"{style}:api.example",
                model="m-1",
                messages=messages,
                nonce=nonce,
                prompt=None if prompt is None else Message("user", prompt),
                tools=TOOLS,
                stream=self.stream,
                max_turns=1 + source.below(4),
                limits=LIMITS,
                keeps=bool(flags & 2),
                can_wait=bool(flags & 4),
                is_hooked=bool(flags & 8),
                observed=bool(flags & 16),
                split_think_tags=bool(flags & 32),
            )
        )

    def go(self) -> RunResult:
        """Report facts until the run is over, or the source is used up, and look at what is left."""
        run, source = self.run, self.source
        for _ in range(STEPS):
            if source.is_empty or isinstance(run.next_command(), Finish):
                break
            if source.below(6) == 5:
                fact, is_wanted = self.any_fact()
                self.report(fact, asked_for=is_wanted)
            else:
                self.report(self.wanted_fact(), asked_for=True)
        if isinstance(run.next_command(), Finish):
            (done,) = run.done()
            assert isinstance(done, DoneEvent)
            result = done.result
        elif source.below(2):
            run.abandon(aborted=bool(source.below(2)))
            result = run.result()
        else:
            result = run.result()  # as if the process had died here
        self.check(result)
        return result

    # -- one fact

    def report(self, fact: Fact, *, asked_for: bool) -> None:
        run = self.run
        before = run.next_command(), run.messages, run.reading is not None
        events: Sequence[StreamEvent] = ()
        error: Exception | None = None
        try:
            events = fact() or ()
        except (ToolnexusError, RuntimeError) as refusal:
            error = refusal
        assert isinstance(error, RuntimeError) is not asked_for, error
        if error is not None:
            assert len(str(error).encode()) < 3000
            assert (run.next_command(), run.messages) == before[:2]
            assert isinstance(error, ToolnexusError) or (run.reading is not None) is before[2]
        self.told += events
        for event in events:
            assert event_from_json(event_to_json(event)) == event
        self.check_command()
        run.take_news()

    def check_command(self) -> None:
        """What is ordered can be done: tools that are there, with arguments, each call once."""
        match self.run.next_command():
            case RunTools(calls) | AdmitTools(calls):
                assert calls
                assert len({call.slot for call in calls}) == len(calls)
                assert all(call.tool in TOOLS for call in calls)
                assert len(calls) == 1 or all(call.tool.parallel for call in calls)
                json.dumps([call.args for call in calls], allow_nan=False)
                started = [
                    part for message in self.run.messages for part in message.tool_calls if part.state == "started"
                ]
                assert not any(part.error for part in started)
            case WaitFor(request):
                assert request in self.run.result().requests
            case Checkpoint(messages):
                assert messages == self.run.messages
            case SendRequest(request):
                self.check_request(request)

    def check_request(self, request: ModelRequest) -> None:
        body = self.run.body(request)
        assert json.loads(self.writer.write(body).data) == json.loads(BodyWriter().write(body, is_shared=False).data)

    # -- facts

    def wanted_fact(self) -> Fact:
        run, source = self.run, self.source
        match run.next_command():
            case SendRequest():
                if run.reading is None:
                    return self.open_response()
                if self.pieces and reading(run).wants_bytes:
                    piece = self.pieces.pop(0)
                    return lambda: run.receive(piece)
                if not source.below(4):
                    return self.broken_off()
                return run.response_ended
            case AdmitTools(calls):
                call = source.pick(calls)
                if not source.below(3):
                    return self.finished(call.slot)
                args = call.args if source.below(3) else {"b": source.below(9)}
                return lambda: run.tool_admitted(call.slot, args)
            case RunTools(calls):
                return self.finished(source.pick(calls).slot)
            case WaitFor(request):
                if not source.below(4):
                    return lambda: run.answer_failed("nobody there")
                return self.answered(request.id if source.below(5) else source.text())
            case Checkpoint():
                return run.saved
            case Finish():
                raise AssertionError("the run is over")

    def any_fact(self) -> tuple[Fact, bool]:
        """A fact, whatever is wanted, and whether it happens to be what the command asks for."""
        run, source = self.run, self.source
        command = run.next_command()
        slots = [call.slot for call in command.calls] if isinstance(command, RunTools | AdmitTools) else []
        slot = source.below(6) - 1
        match source.below(10):
            case 0:
                return self.open_response(), isinstance(command, SendRequest)
            case 1:
                return partial(run.receive, source.raw(20)), run.reading is not None
            case 2:
                return run.response_ended, run.reading is not None
            case 3:
                return self.broken_off(), run.reading is not None
            case 4:
                return partial(run.tool_admitted, slot, {}), isinstance(command, AdmitTools) and slot in slots
            case 5:
                return self.finished(slot), slot in slots
            case 6:
                return self.answered(source.pick(["r1", source.text()])), isinstance(command, WaitFor)
            case 7:
                return partial(run.answer_failed, "nobody there"), isinstance(command, WaitFor)
            case 8:
                return run.saved, isinstance(command, Checkpoint)
            case _:
                return partial(run.resume, [Answer("r1")] if source.below(2) else [], 0.0), False

    def open_response(self) -> Fact:
        source = self.source
        status = source.pick([200, 200, 200, 200, 200, 200, 204, 401, 429, 503])
        headers = {} if source.below(3) else {"retry-after": _header(source), "x-request-id": _header(source)}
        self.pieces = source.cut(self.body()) if status == 200 else [source.raw(60)]
        return lambda: self.run.response_opened(status, headers, 0.0)

    def broken_off(self) -> Fact:
        error = self.source.pick([StreamInterruptedError("reset"), APITimeoutError("silence")])
        return lambda: self.run.response_failed(error)

    def finished(self, slot: int) -> Fact:
        source = self.source
        value = source.pick(
            [
                to_result(source.text()),
                ToolResult("x" * 50, is_error=True),
                to_result([TextPart(source.text()), ImagePart(data=b"1", media_type="image/png")]),
                Pending("Sure?"),
                Pending("Sure?", "approval", id="r1", expires_at=source.pick([None, 5.0])),
            ]
        )
        gate = source.pick([TOOL, TOOL, APPROVAL, "hook"])
        args = None if source.below(4) else {"b": 1}
        spent = None if source.below(4) else Usage(total_tokens=1)
        return lambda: self.run.tool_finished(ToolOutcome(slot, value, 0.5, gate, args, spent))

    def answered(self, id: str) -> Fact:
        source = self.source
        ok, now = bool(source.below(4)), source.pick([0.0, 9.0])
        try:
            answer = Answer(id, ok, data=source.pick([None, {"x": 1}]), reason=source.pick([None, "no"]))
        except TypeError:  # half of a pair is no id
            answer = Answer("odd")
        return lambda: self.run.answer_received(answer, now)

    def body(self) -> bytes:
        """A response: mostly one that is complete and asks for tools."""
        source = self.source
        kind = source.below(4)
        if kind == 3:
            return source.raw(100)
        if kind == 2 or not self.stream:
            if not self.stream:
                return json.dumps((openai.payload if self.style == "openai" else claude.whole)(source)).encode()
            return encode(source.many(openai.payload, 4) if self.style == "openai" else claude.stream(source))
        calls = [
            (source.pick(["c1", "c2", "c3", ""]), source.pick(NAMES), source.pick(ARGUMENTS))
            for _ in range(source.below(4))
        ]
        return encode((_openai if self.style == "openai" else _anthropic)(source, calls))

    # -- the end

    def check(self, result: RunResult) -> None:
        text = result.model_dump_json()
        assert RunResult.model_validate_json(text) == result
        ends = [event for event in self.told if event.type == "done"]
        assert not ends or isinstance(self.run.next_command(), Finish)
        known = [part.id for message in result.messages for part in message.tool_calls]
        assert all(event.id in known for event in self.told if isinstance(event, ToolCallEvent))
        for style, rules in (("openai", openais_rules.broken_rules), ("anthropic", anthropics_rules.broken_rules)):
            body = self.next_body(style, [*closed(result.messages), Message("user", "And?")])
            assert {rule for rule, _ in rules(body)} <= SHAPES

    @staticmethod
    def next_body(style: str, messages: Sequence[Message]) -> dict[str, Any]:
        """What another provider of this style is asked next."""
        setup = RunSetup(
            wire=WIRES[style], origin=f"{style}:other.example", model="m", messages=messages, nonce="n9", tools=TOOLS
        )
        asked = AgentRun(setup).next_command()
        assert isinstance(asked, SendRequest)
        return WIRES[style].body(asked.request)


def _words(source: Source) -> str:
    return source.text() + source.pick(["", "", "<think>", "<thi", "</think>", "<think>x</think>"]) + source.text()


def _header(source: Source) -> str:
    """As an HTTP library hands it over."""
    return source.text().encode("utf-8", "replace").decode("latin-1")


def encode(payloads: Sequence[Any]) -> bytes:
    texts = [p if isinstance(p, str) else json.dumps(p) for p in payloads]
    return b"".join(f"data: {text}\n\n".encode("utf-8", "surrogatepass") for text in texts)


def _openai(source: Source, calls: list[tuple[str, str, str]]) -> list[Any]:
    entries = [
        {"index": number, "id": id, "function": {"name": name, "arguments": args}}
        for number, (id, name, args) in enumerate(calls)
    ]
    reason = source.pick(["tool_calls", "stop", "stop", "length", "content_filter", "pause_turn", None])
    said = {"content": _words(source), "reasoning": source.text() if source.below(2) else None}
    ends: list[Any] = ["[DONE]"] if source.below(8) else []
    return [
        {"choices": [{"delta": said}]},
        {"choices": [{"delta": {"tool_calls": entries} if entries else {}, "finish_reason": reason}]},
        *ends,
    ]


def _anthropic(source: Source, calls: list[tuple[str, str, str]]) -> list[Any]:
    reason = source.pick(["tool_use", "end_turn", "end_turn", "max_tokens", "refusal", "pause_turn", None])
    text = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": _words(source)}}
    blocks: list[Any] = [text]
    for number, (id, name, args) in enumerate(calls, 1):
        block = {"type": "tool_use", "id": id, "name": name, "input": {}}
        blocks.append({"type": "content_block_start", "index": number, "content_block": block})
        delta = {"type": "input_json_delta", "partial_json": args}
        blocks.append({"type": "content_block_delta", "index": number, "delta": delta})
    ends = [claude.STOP] if source.below(8) else []
    return [*blocks, {"type": "message_delta", "delta": {"stop_reason": reason}}, *ends]


def drive(data: bytes) -> None:
    """A run, and one or two that carry on what it left, each in its own style."""
    source = Source(data)
    messages: list[Message] = []
    prompt: str | None = "Hello?"
    for number in range(3):
        course = Course(source, source.pick(["openai", "anthropic"]), messages, prompt, f"n{number}")
        if prompt is None:
            ids = [request.id for request in course.run.result().requests]
            answers = [Answer(id, bool(source.below(4))) for id in ids if source.below(4)]
            if not source.below(8):
                answers.append(Answer("r1"))
            try:
                events = course.run.resume(answers, source.pick([0.0, 9.0]))
            except ToolnexusError:
                assert course.run.messages == messages
                return
            course.told += events
        messages = course.go().messages
        if source.is_empty:
            return
        prompt = None if source.below(2) else f"And {well_formed(source.text())}"
