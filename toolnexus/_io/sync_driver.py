"""Carries out the machine's orders in the sync world: in the caller's thread, one after the other."""

from __future__ import annotations

import contextlib
import inspect
import logging
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from .._core.commands import Checkpoint, Finish, RunTools, SendRequest, ToolCall, ToolOutcome, WaitFor
from .._core.run import AgentRun
from ..errors import APIConnectionError, ConfigurationError, ProtocolError, StoreError, ToolnexusError
from ..events import StreamEvent
from ..messages import Message
from ..stores import Keep
from ..suspension import Answer, Request
from .bounds import Bounds, Runs
from .hooking import Audience, Step, after_llm, after_tool, before_llm, before_tool
from .launch import Call, store_errors
from .sync_tools import SyncTools
from .sync_transport import SyncResponse, SyncTransport

logger = logging.getLogger("toolnexus")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SyncWorld:
    """What the client lends to its runs."""

    transport: SyncTransport
    tools: SyncTools
    runs: Runs
    wait_for: Callable[[Request], Answer] | None

    def leave(self, bounds: Bounds) -> None:
        """A run is over: nothing of it is left; may be called again."""
        self.runs.leave(bounds)
        bounds.close()
        self.transport.end(bounds)


def drive(call: Call, world: SyncWorld) -> Generator[Sequence[StreamEvent], None, None]:
    """Run a call to its end, a batch of events for each read; the last batch is the `DoneEvent`.

    Raises:
        ToolnexusError: The run failed; `.result` says how far it came.
    """
    bounds = Bounds(call.cancel, call.deadline)
    try:
        try:
            run = yield from _drive(call, world, bounds)
        finally:
            world.leave(bounds)
    finally:  # once more: an interrupt may have struck in the first
        world.leave(bounds)
    yield run.done()


def _drive(call: Call, world: SyncWorld, bounds: Bounds) -> Generator[Sequence[StreamEvent], None, AgentRun]:
    run: AgentRun | None = None
    audience = Audience(call.hooks, call.watch, world.tools.spawn)
    try:
        world.runs.enter(bounds)
        bounds.check()
        run = call.begin(_load(call.keep))
        audience.tell(run.take_news())
        with closing(_carry_out(run, call, world, bounds, audience)) as batches:
            for events in batches:
                if bounds.is_limited:  # the user's own code takes time, too: look after each event
                    for event in events:
                        yield (event,)
                        bounds.check()
                else:
                    yield events
    except BaseException as error:
        _abandon(run, call, error)
        if run is not None:
            audience.tell(run.take_news())
        raise
    return run


def _carry_out(
    run: AgentRun, call: Call, world: SyncWorld, bounds: Bounds, audience: Audience
) -> Generator[Sequence[StreamEvent], None, None]:
    while True:
        bounds.check()
        command = run.next_command()
        match command:
            case SendRequest():
                yield from _exchange(run, command, call, world.transport, bounds, audience)
            case RunTools(calls):
                for outcome in _run_tools(calls, call, world.tools, bounds):
                    events = run.tool_finished(outcome)
                    audience.tell(run.take_news())
                    yield events
            case WaitFor(request):
                events = _answer(run, request, world.wait_for)
                audience.tell(run.take_news())
                yield events
            case Checkpoint(messages):
                _save(call.keep, messages)
                run.saved()
            case Finish():
                return
            case _ as unreachable:
                assert_never(unreachable)


def _exchange(
    run: AgentRun, command: SendRequest, call: Call, transport: SyncTransport, bounds: Bounds, audience: Audience
) -> Generator[Sequence[StreamEvent], None, None]:
    """One model response. Opening it is tried again, as long as nothing of it was shown."""
    from tenacity import Retrying

    command = _play(before_llm(command, call.hooks))
    body = call.body(run, command.request)

    def open_response() -> tuple[SyncResponse, Sequence[StreamEvent]]:
        response = transport.open(body, bounds)
        try:
            run.response_opened(response.status, response.headers, time.time())
            events: Sequence[StreamEvent] = ()
            while run.is_reading and not events:
                events = _read(run, response, audience)
        except BaseException:
            response.close()
            raise
        return response, events

    retrying = Retrying(
        **call.config.retry.tenacity(lambda: bounds.remaining, call.retry_seen(audience, command)),
        sleep=lambda seconds: _sleep(seconds, bounds),
    )
    try:
        response, events = retrying(open_response)
    except ToolnexusError as error:
        # Without the frames of the retry library, which say nothing to whoever reads the traceback.
        raise error.with_traceback(None) from error.__cause__
    try:
        yield events
        while run.is_reading:
            yield _read(run, response, audience)
    finally:
        response.close()
    _play(after_llm(run, command, call.hooks))


def _play(steps: Generator[Step, Any, T]) -> T:
    """Call the hooks that `steps` wants called, and give its result."""
    try:
        hook, given = next(steps)
        while True:
            try:
                returned = _returned(hook, hook(given))
            except Exception as error:
                hook, given = steps.throw(error)
            else:
                hook, given = steps.send(returned)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _returned(hook: object, value: Any) -> Any:  # Any: whatever a hook returns
    """What a hook gave; one that is async without saying so shows only now."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # nobody will await it
        raise ConfigurationError(f"hooks: SyncClient cannot await {hook!r}; use AsyncClient, or a plain function")
    return value


def _run_tools(calls: Sequence[ToolCall], call: Call, tools: SyncTools, bounds: Bounds) -> Iterator[ToolOutcome]:
    """The calls that the hooks let through, side by side, and what stands in for the others."""
    admitted: dict[int, ToolCall] = {}
    for one in calls:
        seen, stand_in = _play(before_tool(one, call.hooks))
        bounds.check()
        if stand_in is not None:
            yield _play(after_tool(seen, stand_in, call.hooks))
        else:
            admitted[seen.slot] = seen
    for outcome in tools.run(list(admitted.values()), bounds, call.id):
        yield _play(after_tool(admitted[outcome.slot], outcome, call.hooks))


def _read(run: AgentRun, response: SyncResponse, audience: Audience) -> Sequence[StreamEvent]:
    """Report the next read, or the end, of a response; observers see it before anybody sees the events."""
    try:
        if not run.wants_bytes:
            return run.response_ended(time.time())
        try:
            data = response.read(run.patience)
        except (APIConnectionError, ProtocolError) as error:
            return run.response_failed(error, time.time())
        return run.receive(data, time.time()) if data else run.response_ended(time.time())
    finally:
        if run.observed:  # asked here, since this is done for every read
            audience.tell(run.take_news())


def _sleep(seconds: float, bounds: Bounds) -> None:
    # Not an Event: a signal handler may cancel in the middle of its methods, and would find it locked.
    woken: queue.SimpleQueue[None] = queue.SimpleQueue()
    unlink = bounds.cancel.add_callback(lambda: woken.put(None))
    try:
        with contextlib.suppress(queue.Empty):
            woken.get(timeout=min(seconds, bounds.remaining, threading.TIMEOUT_MAX))
    finally:
        unlink()
    bounds.check()


def _answer(run: AgentRun, request: Request, wait_for: Callable[[Request], Answer] | None) -> Sequence[StreamEvent]:
    assert wait_for is not None  # the machine waits only where somebody can answer
    try:
        answer = wait_for(request)
    except Exception as error:
        logger.warning("wait_for failed for request %r", request.id, exc_info=error)
        return run.answer_failed(f"{type(error).__name__} in wait_for: {error}")
    if not isinstance(answer, Answer):
        return run.answer_failed(f"wait_for gave {type(answer).__name__}, not an Answer")
    return run.answer_received(answer, time.time())


def _load(keep: Keep | None) -> Sequence[Message] | None:
    if keep is None:
        return None
    with store_errors(keep.id, "loaded"):
        return _not_awaitable(keep.store.get(keep.id))


def _save(keep: Keep | None, messages: list[Message]) -> None:
    assert keep is not None  # the machine saves only where a transcript is kept
    with store_errors(keep.id, "saved"):
        _not_awaitable(keep.store.save(keep.id, messages))


def _not_awaitable(value: T | Awaitable[T]) -> T:
    """What a method of the store gave; one that is async without saying so shows only now."""
    if isinstance(value, Awaitable):
        if inspect.iscoroutine(value):
            value.close()  # nobody will await it
        raise ConfigurationError("store: SyncClient cannot await an async store; use AsyncClient, or a sync store")
    return value


def _abandon(run: AgentRun | None, call: Call, error: BaseException) -> None:
    """Keep what a failed run has said and done: on the error, and in the store."""
    result = call.failed(run, error)
    if run is not None and call.keep is not None and not isinstance(error, StoreError):
        try:
            _save(call.keep, result.messages)
        except StoreError as failure:
            logger.error("after a failed run: %s", failure)
