"""Carries out the machine's orders in the sync world: in the caller's thread, one after the other."""

from __future__ import annotations

import contextlib
import inspect
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar, assert_never

from .._core.commands import AdmitTools, Checkpoint, Finish, RunTools, SendRequest, ToolCall, ToolOutcome, WaitFor
from .._core.response import Response
from .._core.run import AgentRun
from ..errors import APIConnectionError, ConfigurationError, ProtocolError, StoreError, ToolnexusError
from ..events import StreamEvent
from ..retry import RetryPolicy, RetrySeen
from ..stores import Keep
from ..suspension import Answer, Request
from .bounds import Bounds, Runs
from .hooking import Audience, Step, after_llm, after_tool, before_llm, before_tool, misfit_of
from .keeping import Kept
from .launch import Call
from .sync_tools import SyncTools
from .sync_transport import SyncResponse, SyncTransport
from .tool_calls import context_for, objection

logger = logging.getLogger("toolnexus")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SyncWorld:
    """What the client lends to its runs."""

    transport: SyncTransport
    tools: SyncTools
    runs: Runs
    wait_for: Callable[[Request], Answer] | None

    def leave(self, call: Call, bounds: Bounds) -> None:
        """A run is over: nothing of it is left; may be called again."""
        self.runs.leave(bounds)
        bounds.close()
        self.transport.end(bounds)
        if call.place is not None:
            call.place.leave()


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
            world.leave(call, bounds)
    finally:  # once more: an interrupt may have struck in the first
        world.leave(call, bounds)
    yield run.done()


def _drive(call: Call, world: SyncWorld, bounds: Bounds) -> Generator[Sequence[StreamEvent], None, AgentRun]:
    run: AgentRun | None = None
    kept = Kept(call.keep) if call.keep is not None else None
    place = call.place
    audience = Audience(call.hooks, None, world.tools.spawn)
    try:
        world.runs.enter(bounds)
        bounds.check()
        if place is not None:
            place.enter(bounds)
        if call.watch is not None:
            audience = replace(audience, watch=call.watch(bounds))
        stored = _play(kept.load(), _call_store) if kept is not None else None
        if (connecting := call.toolkit.connecting()) is not None:
            _wait(connecting, bounds)
        run, first = call.begin(stored, audience.watch)
        audience.tell(run.take_news())
        with closing(_carry_out(run, first, call, kept, world, bounds, audience)) as batches:
            if place is None and not bounds.is_limited:
                yield from batches  # to the end: nothing is left for the loop
            for events in batches:  # the user's own code takes time: look after each event
                for event in events:
                    yield (event,)
                    if place is not None:
                        place.stepped()
                    bounds.check()
    except BaseException as error:
        if sys.is_finalizing():  # a stream that was open when the process ended: nobody can be told any more
            raise
        _abandon(run, call, kept, error)
        if run is not None:
            audience.tell(run.take_news())
        raise
    return run


def _wait(future: Future[None], bounds: Bounds) -> None:
    """Wait, but no longer than the run may go on."""
    over = threading.Event()
    future.add_done_callback(lambda _: over.set())
    unlink = bounds.cancel.add_callback(over.set)
    try:
        over.wait(None if bounds.expires is None else min(bounds.remaining, threading.TIMEOUT_MAX))
    finally:
        unlink()
    bounds.check()


def _carry_out(
    run: AgentRun,
    first: Sequence[StreamEvent],
    call: Call,
    kept: Kept | None,
    world: SyncWorld,
    bounds: Bounds,
    audience: Audience,
) -> Generator[Sequence[StreamEvent], None, None]:
    yield first
    while True:
        bounds.check()
        command = run.next_command()
        match command:
            case SendRequest():
                yield from _exchange(run, command, call, world.transport, bounds, audience)
            case AdmitTools(calls):
                for one in calls:
                    admitted, outcome = _admit(one, call, bounds)
                    bounds.check()
                    if outcome is None:
                        run.tool_admitted(admitted.slot, admitted.args)
                    else:
                        events = run.tool_finished(outcome)
                        audience.tell(run.take_news())
                        yield events
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
                assert kept is not None  # the machine saves only where a transcript is kept
                _play(kept.save(messages), _call_store)
                run.saved()
            case Finish():
                return
            case _ as unreachable:
                assert_never(unreachable)


def _exchange(
    run: AgentRun, command: SendRequest, call: Call, transport: SyncTransport, bounds: Bounds, audience: Audience
) -> Generator[Sequence[StreamEvent], None, None]:
    """One model response. Opening it is tried again, as long as nothing of it was shown."""
    if call.hooks:
        command = _play(before_llm(command, call.hooks))
    body = call.body(run, command.request)

    def open_response() -> tuple[SyncResponse, Sequence[StreamEvent]]:
        response = transport.open(body, bounds)
        try:
            run.response_opened(response.status, response.headers, time.time())
            events: Sequence[StreamEvent] = ()
            while (reading := run.reading) is not None and not events:
                events = _read(run, reading, response, audience)
        except BaseException:
            response.close()
            raise
        return response, events

    policy, seen = call.config.retry, call.retry_seen(audience, command)
    response, events = _with_retries(open_response, policy, seen, bounds)
    try:
        yield events
        while (reading := run.reading) is not None:
            yield _read(run, reading, response, audience)
    finally:
        response.close()
    if call.hooks:
        _play(after_llm(run, command, call.hooks))


def _with_retries(function: Callable[[], T], policy: RetryPolicy, seen: RetrySeen, bounds: Bounds) -> T:
    """What `function` gives, in one of the tries that `policy` allows."""
    failures: list[ToolnexusError] = []
    try:  # without the retry library, which takes as long for a try as sending the request does
        first = function()
    except ToolnexusError as error:
        failures.append(error)
    else:
        policy.budget.succeeded(after_retry=False)
        return first

    def again() -> T:
        if failures:
            raise failures.pop()
        return function()

    from tenacity import Retrying

    try:
        rules = policy.tenacity(lambda: bounds.remaining, seen)
        result: T = Retrying(**rules, sleep=lambda seconds: _sleep(seconds, bounds))(again)
        return result
    except ToolnexusError as error:
        # Without the frames of the retry library, which say nothing to whoever reads the traceback.
        raise error.with_traceback(None) from error.__cause__


def _play(steps: Generator[Step, Any, T], call: Callable[[Callable[[Any], Any], Any], Any] | None = None) -> T:
    """Call what `steps` wants called, a hook unless `call` knows better, and give its result."""
    call = call or _call_hook
    try:
        function, given = next(steps)
        while True:
            try:
                returned = call(function, given)
            except Exception as error:
                function, given = steps.throw(error)
            else:
                function, given = steps.send(returned)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _call_hook(hook: Callable[[Any], Any], given: Any) -> Any:  # Any: whatever a hook returns
    return _not_awaitable(hook(given), f"hooks: SyncClient cannot await {hook!r}; use AsyncClient, or a plain function")


def _call_store(method: Callable[[Any], Any], given: Any) -> Any:  # Any: what the method returns
    return _not_awaitable(
        method(given), "store: SyncClient cannot await an async store; use AsyncClient, or a sync store"
    )


def _not_awaitable(value: Any, complaint: str) -> Any:
    """What user code gave; code that is async without saying so shows only now."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # nobody will await it
        raise ConfigurationError(complaint)
    return value


def _admit(one: ToolCall, call: Call, bounds: Bounds) -> tuple[ToolCall, ToolOutcome | None]:
    """A call as the hooks want it, and its outcome if they, or the lack of an approval, keep it from running."""
    one, stand_in = _play(before_tool(one, call.hooks))
    if stand_in is not None:
        return one, _play(after_tool(one, stand_in, call.hooks))
    refusal = objection(one, context_for(one, bounds, call.id, bounds.cancel))
    return one, refusal and _play(after_tool(one, refusal, call.hooks))


def _run_tools(calls: Sequence[ToolCall], call: Call, tools: SyncTools, bounds: Bounds) -> Iterator[ToolOutcome]:
    """The outcomes of calls that run side by side, as the hooks want them."""
    by_slot = {one.slot: one for one in calls}
    for outcome in tools.run(calls, bounds, call.id):
        yield _play(after_tool(by_slot[outcome.slot], outcome, call.hooks)) if call.hooks else outcome


def _read(run: AgentRun, reading: Response, response: SyncResponse, audience: Audience) -> Sequence[StreamEvent]:
    """Report the next read, or the end, of a response; observers see it before anybody sees the events."""
    try:
        if not reading.wants_bytes:
            return run.response_ended(time.time())
        try:
            data = response.read(reading.turn.patience, reading.progress if response.times_progress else 0)
        except (APIConnectionError, ProtocolError) as error:
            return run.response_failed(error, time.time())
        if not data:
            return run.response_ended(time.time())
        return run.receive(data, time.time() if run.observed else 0.0)  # the time is for observers
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
    why = misfit_of(answer, request)
    if why is not None:
        return run.answer_failed(why)
    return run.answer_received(answer, time.time())


def _abandon(run: AgentRun | None, call: Call, kept: Kept | None, error: BaseException) -> None:
    """Keep what a failed run has said and done: on the error, and in the store."""
    call.failed(run, error)
    if run is not None and kept is not None and not isinstance(error, StoreError):
        try:
            _play(kept.save(run.messages), _call_store)
        except StoreError as failure:
            logger.error("after a failed run: %s", failure)


def forget(keep: Keep) -> None:
    """Empty a conversation.

    Raises:
        StoreError: It could not be loaded or saved.
    """
    kept = Kept(keep)
    _play(kept.load(), _call_store)
    _play(kept.save([]), _call_store)
