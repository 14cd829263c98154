"""Short ways to make a machine, to speak to it like an OpenAI-style server, and to settle its calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from toolnexus._core.commands import RunTools, SendRequest, ToolOutcome
from toolnexus._core.response import Response
from toolnexus._core.run import AgentRun
from toolnexus._core.setup import RunSetup
from toolnexus._core.wire.openai import OpenAIWire
from toolnexus.events import StreamEvent
from toolnexus.messages import Message
from toolnexus.suspension import Pending
from toolnexus.tool import Tool, ToolContext, ToolResult

ORIGIN = "openai:api.example"
DONE = b"data: [DONE]\n\n"


def make_tool(name: str = "look", **options: Any) -> Tool:
    """A tool that the machine may order, and that nobody runs."""
    return Tool(name=name, description=f"Tool {name}.", input_schema={"type": "object"}, **_idle, **options)


def _never(*args: Any) -> Any:
    raise AssertionError("the core calls no code of the user")


def _bind(args: dict[str, Any], ctx: ToolContext) -> Callable[[], Any]:
    raise AssertionError("the core calls no code of the user")


_idle: dict[str, Any] = {"function": _never, "bind": _bind}


def make_run(*tools: Tool, prompt: str | None = "Hello?", history: Sequence[Message] = (), **setup: Any) -> AgentRun:
    """A run that waits to be asked for its first command; without a prompt it waits for `resume`."""
    given: dict[str, Any] = {
        "wire": OpenAIWire(),
        "origin": ORIGIN,
        "model": "m-1",
        "messages": history,
        "prompt": None if prompt is None else Message("user", prompt),
        "nonce": "n0",
        "tools": tools,
    }
    return AgentRun(RunSetup(**{**given, **setup}))


def chunk(content: str | None = None, finish: str | None = None, usage: Any = None, **delta: Any) -> dict[str, Any]:
    """One chunk of a streamed answer."""
    if content is not None:
        delta["content"] = content
    out: dict[str, Any] = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return out if usage is None else {**out, "usage": usage}


def call_chunk(*calls: tuple[str, str, str], finish: str | None = "tool_calls") -> dict[str, Any]:
    """One chunk with whole calls, each as id, name and argument text."""
    entries = [
        {"index": i, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (id, name, arguments) in enumerate(calls)
    ]
    return chunk(tool_calls=entries, finish=finish)


def sse(*payloads: Any) -> bytes:
    """Payloads as server-sent events; a `str` is data as it is."""
    return b"".join(
        b"data: " + (p if isinstance(p, str) else json.dumps(p)).encode("utf-8", "surrogatepass") + b"\n\n"
        for p in payloads
    )


def reading(run: AgentRun) -> Response:
    """The response that is being read."""
    assert run.reading is not None
    return run.reading


def feed(run: AgentRun, *pieces: bytes, status: int = 200, now: float = 0.0, **headers: str) -> list[StreamEvent]:
    """A whole reply, read in these pieces, all at `now`."""
    run.response_opened(status, {name.replace("_", "-"): value for name, value in headers.items()}, now)
    events: list[StreamEvent] = []
    for piece in pieces:
        if not reading(run).wants_bytes:
            break
        events += run.receive(piece, now)
    events += run.response_ended(now)
    return events


def answer(run: AgentRun, *payloads: Any) -> list[StreamEvent]:
    """A streamed answer with its end mark."""
    assert isinstance(run.next_command(), SendRequest)
    return feed(run, sse(*payloads, "[DONE]"))


def say(run: AgentRun, text: str = "Done.") -> list[StreamEvent]:
    """A plain last answer."""
    return answer(run, chunk(text, finish="stop"))


def settle(run: AgentRun, *values: ToolResult | Pending | str, **options: Any) -> list[StreamEvent]:
    """Report the calls of the current `RunTools`, one value for each."""
    command = run.next_command()
    assert isinstance(command, RunTools)
    assert len(command.calls) == len(values)
    events: list[StreamEvent] = []
    for call, value in zip(command.calls, values, strict=True):
        result = ToolResult(value) if isinstance(value, str) else value
        events += run.tool_finished(ToolOutcome(call.slot, result, **options))
    return events
