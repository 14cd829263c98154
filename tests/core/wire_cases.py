"""Plays the cases of `tests/data/wire_cases` in memory; `wire_judge` compares what came of it with what was expected.

It takes the server's part and the driver's: it sends what the case has, runs the stub tools, and tries again where
the retry policy says so.
"""

from __future__ import annotations

import ast
import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.core.scripted import reading
from toolnexus import errors
from toolnexus._core.commands import Finish, RunTools, SendRequest, ToolCall, ToolOutcome
from toolnexus._core.run import AgentRun
from toolnexus._core.setup import RunSetup
from toolnexus._core.transcript import closed
from toolnexus._core.wire import Wire
from toolnexus._core.wire.anthropic import AnthropicWire
from toolnexus._core.wire.openai import OpenAIWire
from toolnexus._core.wire.openai_messages import from_openai
from toolnexus.events import ReasoningEvent, StreamEvent, TextEvent
from toolnexus.messages import Message
from toolnexus.results import RunResult
from toolnexus.retry import RetryPolicy
from toolnexus.tool import Tool, ToolContext, ToolInputError
from toolnexus.tools import define_tool
from toolnexus.tools.output import failure, to_result

WIRES: dict[str, Wire] = {"openai": OpenAIWire(), "anthropic": AnthropicWire()}
Case = dict[str, Any]
Cut = Callable[[Sequence[bytes]], Iterable[bytes]]
"""How the writes of a body become reads."""


@dataclass
class Outcome:
    result: RunResult
    events: list[StreamEvent] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    error: errors.ToolnexusError | None = None
    tool_runs: int = 0
    last: RunResult | None = None
    """Of the run that `second_prompt` started, where the case has one."""

    def joined(self, kind: type[TextEvent] | type[ReasoningEvent]) -> str:
        return "".join(e.delta for e in self.events if isinstance(e, kind))


def run_case(case: Case, cut: Cut, ending: str) -> Outcome:
    """Play a case: each turn's body cut by `cut`, the end of each stream as the case has it (`given`), or a `reset`."""
    only("case", case, {"id", "style", "kind", "origin", "right", "prompt", "tools", "client", "turns", "expect"})
    client: dict[str, Any] = case.get("client", {})
    only("client", client, {"max_retries", "max_turns", "initial_history"})
    tools = _Tools(case["tools"])
    style = case.get("style", "openai")
    history = closed(from_openai(client.get("initial_history", [])))
    setup = RunSetup(
        wire=WIRES[style],
        origin=f"{style}:api.example",
        model="stub-1",
        messages=[*history, Message("user", case["prompt"])],
        nonce="n0",
        tools=list(tools.tools.values()),
        max_turns=client.get("max_turns", 10),
    )
    replies = iter([turn for turn in case["turns"] for _ in range(turn.get("repeat", 1))])
    play = partial(_play, replies=replies, tools=tools, retries=client.get("max_retries", 2), cut=cut, ending=ending)
    out = play(AgentRun(setup))
    if "second_prompt" in case["expect"]:
        prompt = Message("user", case["expect"]["second_prompt"])
        second = play(AgentRun(replace(setup, messages=[*closed(out.result.messages), prompt])))
        out.requests += second.requests
        out.last = second.result
    return out


def _play(
    run: AgentRun, replies: Iterator[dict[str, Any]], tools: _Tools, retries: int, cut: Cut, ending: str
) -> Outcome:
    out = Outcome(run.result())
    policy = RetryPolicy(retries=retries)
    tries = 0
    while not isinstance(command := run.next_command(), Finish):
        match command:
            case SendRequest(request):
                out.requests.append(json.loads(json.dumps(run.body(request))))
                try:
                    _exchange(run, next(replies), cut, ending, out.events)
                    tries = 0
                except errors.ToolnexusError as error:
                    tries += 1
                    if reading(run).shown or tries > policy.retries or not policy.is_retryable(error):
                        run.abandon()
                        out.error, out.result = error, run.result()
                        return out
            case RunTools(calls):
                for call in calls:
                    out.events += run.tool_finished(tools.run(call))
                out.tool_runs = tools.runs
            case _:
                raise AssertionError(f"no case needs {command!r}")
    out.events += run.done()
    out.result = command.event.result
    return out


def _exchange(run: AgentRun, turn: dict[str, Any], cut: Cut, ending: str, events: list[StreamEvent]) -> None:
    only("turn", turn, {"status", "headers", "chunks", "chunks_b64", "end", "repeat"})
    run.response_opened(turn["status"], {k.lower(): v for k, v in turn["headers"].items()}, 0.0)
    writes = [base64.b64decode(c) for c in turn.get("chunks_b64", ())] or [c.encode() for c in turn["chunks"]]
    for data in cut(writes):
        if not reading(run).wants_bytes:
            break
        events += run.receive(data)
    is_stream = turn["status"] == 200 and not b"".join(writes).startswith((b"{", b"<"))
    if turn["end"] == "reset" or (ending == "reset" and is_stream and reading(run).wants_bytes):
        events += run.response_failed(errors.StreamInterruptedError("the connection was reset"))
    else:
        events += run.response_ended()


class _Tools:
    """The stub tools of a case; they count how often they really ran."""

    def __init__(self, specs: Sequence[dict[str, Any]]) -> None:
        self.runs = 0
        self.tools = {spec["name"]: self._make(spec) for spec in specs}

    def _make(self, spec: dict[str, Any]) -> Tool:
        only("tool", spec, {"name", "params", "returns", "returns_python", "returns_sequence", "raises"})
        sequence = list(spec.get("returns_sequence", ()))

        def call(args):  # without a hint it gets the arguments as they are
            self.runs += 1
            if sequence:
                return sequence.pop(0)
            if "raises" in spec:
                raise RuntimeError(spec["raises"])
            return _python(spec["returns_python"]) if "returns_python" in spec else spec["returns"]

        return define_tool(call, name=spec["name"], description="A stub.", input_schema=spec.get("params", {}))

    def run(self, call: ToolCall) -> ToolOutcome:
        try:
            value = to_result(call.tool.bind(call.args, ToolContext())())
        except (ToolInputError, RuntimeError) as error:
            value = failure(error, call.tool.name)
        return ToolOutcome(call.slot, value)


def _python(expression: str) -> Any:
    text, _, count = expression.rpartition("*")
    return ast.literal_eval(text) * int(count) if text else ast.literal_eval(expression)


def only(what: str, given: Iterable[str], known: set[str]) -> None:
    assert not set(given) - known, f"unknown fields of a {what}: {set(given) - known}"
