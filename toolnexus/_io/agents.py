"""An agent as a tool of another one: what both worlds make of its prompt, its questions and its result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import replace

from .. import results
from ..config import CallOptions, check_count
from ..errors import ToolnexusError
from ..suspension import Pending
from ..tool import Tool, ToolContext, ToolInputError, ToolResult
from ..tools.function import Approval, define_tool
from ..tools.signature import Function
from .launch import Resumption

_SCHEMA = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What the agent is to do; it sees nothing else."}},
    "required": ["prompt"],
    "additionalProperties": False,
}

_depth: ContextVar[int] = ContextVar("toolnexus_agent_depth", default=0)
"""How many agents deep we are; tools run in copies of the context of the run that they belong to."""


def agent_tool(
    run: Function, name: str, description: str, max_depth: int, timeout: float | None, approval: Approval
) -> Tool:
    """The tool that runs an agent with `run(prompt, ctx)`."""
    check_count("max_depth", max_depth, minimum=1)
    tool = define_tool(
        run, name=name, description=description, input_schema=_SCHEMA, timeout=timeout, approval=approval
    )
    return replace(tool, hears_declines=True)  # its own model is told


@contextlib.contextmanager
def one_deeper(max_depth: int) -> Generator[None, None, None]:
    """Count an agent that runs inside of others.

    Raises:
        ToolInputError: It would be more than `max_depth`.
    """
    depth = _depth.get() + 1
    if depth > max_depth:
        raise ToolInputError(f"agents call each other {max_depth} deep already; do it without one")
    token = _depth.set(depth)
    try:
        yield
    finally:
        _depth.reset(token)


def options_for(options: CallOptions, ctx: ToolContext) -> CallOptions:
    """The agent's options, inside the bounds of the call that it answers."""
    bounded = CallOptions(**options)
    bounded["cancel"] = ctx.cancel
    if ctx.deadline is not None:
        bounded["deadline"] = max(1e-3, min(ctx.deadline, options.get("deadline") or math.inf))
    return bounded


def begun(prompt: str, ctx: ToolContext) -> str | Resumption:
    """What the agent starts from: its prompt, or its own suspended run and the answer to it."""
    if ctx.answer is None or ctx.memo is None:
        return prompt
    return Resumption.create(ctx.answer, None, results.RunResult.model_validate(ctx.memo))


@contextlib.contextmanager
def counted(ctx: ToolContext) -> Generator[None, None, None]:
    """Let the tokens of an agent's run that fails count, too."""
    try:
        yield
    except ToolnexusError as error:
        if error.result is not None:
            ctx.spent.append(error.result.usage)
        raise


def reported(result: results.RunResult, ctx: ToolContext) -> ToolResult | Pending:
    """The agent's result as its tool's: a question of the agent is asked by the run that called it."""
    ctx.spent.append(result.usage)
    request = result.pending
    if request is not None:
        return Pending(
            prompt=request.prompt,
            kind=request.kind,
            url=request.url,
            data=request.data,
            expires_at=request.expires_at,
            id=request.id,
            memo=result.model_dump(mode="json"),
        )
    if result.status == "incomplete":
        return ToolResult(f"[The agent stopped at its limit {result.limit!r}.] {result.text}".rstrip(), is_error=True)
    return ToolResult(result.text)
