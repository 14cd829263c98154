"""The parts of running a tool that know no world: getting a call ready, and making a result of what it gave."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .._copies import copied
from .._core.commands import APPROVAL, TOOL, ToolCall, ToolOutcome
from ..cancel import Cancel
from ..results import Usage
from ..suspension import Pending
from ..tool import ToolContext, ToolInputError, ToolResult
from ..tools.output import failure, to_result
from .bounds import Bounds

logger = logging.getLogger("toolnexus")


def context_for(call: ToolCall, bounds: Bounds, conversation_id: str | None, cancel: Cancel) -> ToolContext:
    """What the tool may know about its call; `cancel` is the call's own switch."""
    return ToolContext(
        id=call.id,
        name=call.tool.name,
        turn=call.turn,
        conversation_id=conversation_id,
        answer=call.answer_to(TOOL),
        memo=call.memo,
        cancel=cancel,
        expires=bounds.expires,
        call_key=call.call_key,
    )


def prepare(call: ToolCall, context: ToolContext) -> Callable[[], Any] | ToolOutcome:  # Any: what the tool returns
    """The call ready to be made, or its outcome where it must not be made now."""
    try:
        invoke = call.tool.bind(call.args, context)
    except ToolInputError as error:
        return ToolOutcome(call.slot, ToolResult(f"The call was not run: {error}", is_error=True))
    except Exception as error:  # a tool of another source than ours may fail in its own ways
        return outcome(call, error, context, 0.0)
    return invoke


def objection(call: ToolCall, context: ToolContext) -> ToolOutcome | None:
    """What keeps a call from running until somebody agrees: a question, or a misfit."""
    approval = call.tool.approval
    if not approval or call.answer_to(APPROVAL) is not None:
        return None
    prepared = prepare(call, context)
    if isinstance(prepared, ToolOutcome):
        return prepared
    try:
        if callable(approval) and not approval(copied(call.args)):
            return None
    except Exception as error:
        return outcome(call, error, context, 0.0)
    question = Pending(
        prompt=f"Allow {call.tool.name} to run?",
        kind="approval",
        data={"name": call.tool.name, "args": call.args},
    )
    return ToolOutcome(call.slot, question, gate=APPROVAL, args=call.args)


def outcome(call: ToolCall, value: object, context: ToolContext, duration: float) -> ToolOutcome:
    """The outcome of a call that gave `value`, or raised it."""
    if isinstance(value, BaseException):
        if not context.cancel.cancelled:  # else it says what the run says already
            traceback = None if isinstance(value, ToolInputError) else value
            logger.warning("tool %r failed: %s", call.tool.name, value, exc_info=traceback)
        result: ToolResult | Pending = failure(value, call.tool.name)
    else:
        result = to_result(value)
    if isinstance(result, ToolResult) and context.metadata:
        result = ToolResult(result.output, result.is_error, {**context.metadata, **result.metadata})
    spent = sum(context.spent, Usage()) if context.spent else None
    return ToolOutcome(call.slot, result, duration, spent=spent)


def timed_out(call: ToolCall, duration: float) -> ToolOutcome:
    """The outcome of a call that took longer than its tool may."""
    text = f"The tool {call.tool.name!r} took longer than its timeout of {call.tool.timeout:g} s."
    return ToolOutcome(call.slot, ToolResult(text, is_error=True), duration)
