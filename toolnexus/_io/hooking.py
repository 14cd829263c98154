"""What the hooks of a run make of a command or an outcome, in no particular world.

Each function is a generator: it yields a hook and what to call it with, and is sent what the hook returned. So the
rules stand here once, and each driver only knows how to call a hook of its world.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._copies import copied
from .._core.chunk_log import News
from .._core.commands import SendRequest, ToolCall, ToolOutcome
from .._core.payload import clean
from .._core.run import AgentRun
from ..chunk_stream import Watch
from ..errors import ConfigurationError, ToolnexusError
from ..hooks import AfterLLM, AfterTool, BeforeLLM, BeforeTool, Hooks, RetryInfo, each, fire
from ..messages import Message
from ..results import StreamSummary
from ..suspension import Answer, Pending, Request
from ..tool import Tool, ToolResult

logger = logging.getLogger("toolnexus")

Step = tuple[Callable[[Any], Any], Any]
"""A hook, and what it is to be called with."""
Spawn = Callable[[Awaitable[object]], None]


def before_llm(command: SendRequest, hooks: Sequence[Hooks]) -> Generator[Step, Any, SendRequest]:
    """The command as the hooks want it; the transcript is not touched."""
    request = command.request
    for hook in each(hooks, "before_llm"):
        given = BeforeLLM(tuple(request.messages), tuple(request.tools), request.model, command.turn)
        returned = yield hook, given
        if returned is None:
            continue
        if not isinstance(returned, BeforeLLM):
            raise _misfit("before_llm", "None or dataclasses.replace(given, ...)", returned)
        for name, values, kind in (("messages", returned.messages, Message), ("tools", returned.tools, Tool)):
            if not isinstance(values, (list, tuple)) or not all(isinstance(value, kind) for value in values):
                raise _misfit("before_llm", f"{name} to be a list of {kind.__name__}", values)
        request = replace(request, messages=returned.messages, tools=returned.tools, model=returned.model)
    return replace(command, request=request)


def after_llm(run: AgentRun, command: SendRequest, hooks: Sequence[Hooks]) -> Generator[Step, Any, None]:
    """Show a complete response to those who watch; what they raise is logged."""
    assert run.last_response is not None  # the response is complete
    response, usage = run.last_response
    for hook in each(hooks, "after_llm"):
        try:
            yield hook, AfterLLM(response, usage, command.request.model, command.turn)
        except Exception:
            logger.exception("after_llm hook %r failed", hook)


def before_tool(call: ToolCall, hooks: Sequence[Hooks]) -> Generator[Step, Any, tuple[ToolCall, ToolOutcome | None]]:
    """The call as the hooks want it, and what stands in for it, if anything does; the first stand-in wins."""
    for position, hook in enumerate(each(hooks, "before_tool")):
        # Each asks for itself, under a name that another process knows it by: an answer to one is none to the others.
        gate = f"hook {position} {getattr(hook, '__qualname__', type(hook).__qualname__)}"
        returned = yield hook, BeforeTool(call.tool.name, copied(call.args), call.id, call.turn)
        match returned:
            case None:
                pass
            case ToolResult():
                return call, ToolOutcome(call.slot, returned)
            case Pending():
                if call.answer_to(gate) is None:  # else it was answered: the question is not asked again
                    return call, ToolOutcome(call.slot, returned, gate=gate, args=call.args)
            case Mapping():
                call = replace(call, args=_arguments(returned))
            case _:
                raise _misfit("before_tool", "None, a dict of arguments, a ToolResult or pending(...)", returned)
    return call, None


def _arguments(returned: Mapping[str, Any]) -> dict[str, Any]:
    """What a hook gave, as JSON gives it back: an answer must be found to be for them in another process, too."""
    try:
        args: dict[str, Any] = clean(json.loads(json.dumps(dict(returned), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"hooks.before_tool: expected arguments that are JSON: {error}") from None
    return args


def after_tool(call: ToolCall, outcome: ToolOutcome, hooks: Sequence[Hooks]) -> Generator[Step, Any, ToolOutcome]:
    """The outcome as the hooks want it; a suspension is none of theirs."""
    for hook in each(hooks, "after_tool"):
        if isinstance(outcome.value, Pending):
            break
        returned = yield hook, AfterTool(call.tool.name, copied(call.args), outcome.value, call.id, call.turn)
        if returned is None:
            continue
        if not isinstance(returned, ToolResult):
            raise _misfit("after_tool", "None or a ToolResult", returned)
        outcome = replace(outcome, value=returned)
    return outcome


def misfit_of(answer: object, request: Request) -> str | None:
    """What is wrong with what `wait_for` gave; it is logged, since nobody but the model would hear of it."""
    if not isinstance(answer, Answer):
        why = f"wait_for gave {type(answer).__name__}, not an Answer"
    elif answer.id != request.id:
        why = f"the answer names request {answer.id!r}, not {request.id!r}"
    else:
        return None
    logger.warning("request %r is not answered: %s", request.id, why)
    return why


def _misfit(name: str, expected: str, returned: object) -> ConfigurationError:
    return ConfigurationError(f"hooks.{name}: expected {expected} back, got {type(returned).__name__}")


@dataclass(frozen=True, slots=True)
class Audience:
    """Those who watch a run: observers among the hooks, and the conversation it belongs to."""

    hooks: Sequence[Hooks]
    watch: Watch | None
    spawn: Spawn

    def tell(self, news: Sequence[News]) -> None:
        """Show them what is new."""
        for item in news:
            if isinstance(item, Message):
                for hook in each(self.hooks, "on_message"):
                    fire(hook, item, self.spawn)
                if self.watch is not None:
                    self.watch.messages.tell(item, self.spawn)
                continue
            if self.watch is not None:
                self.watch.chunks.tell(item, self.spawn)
            if not isinstance(item, StreamSummary):
                for hook in each(self.hooks, "on_chunk"):
                    fire(hook, item, self.spawn)

    def tell_retry(self, attempt: int, wait: float, error: ToolnexusError, turn: int) -> None:
        """Show them that a request will be made again."""
        for hook in each(self.hooks, "on_retry"):
            fire(hook, RetryInfo(attempt, wait, error, turn), self.spawn)
