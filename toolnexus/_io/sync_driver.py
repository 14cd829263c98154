"""Carries out the machine's orders in the sync world: in the caller's thread, one after the other."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar, assert_never

from .._core.commands import Checkpoint, Finish, RunTools, SendRequest, WaitFor
from .._core.run import AgentRun
from ..errors import APIConnectionError, ConfigurationError, ProtocolError, StoreError, ToolnexusError
from ..events import StreamEvent
from ..messages import Message
from ..stores import ConversationStore
from ..suspension import Answer, Request
from .bounds import Bounds, Runs
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
    store: ConversationStore
    wait_for: Callable[[Request], Answer] | None


def drive(call: Call, world: SyncWorld) -> Generator[Sequence[StreamEvent], None, None]:
    """Run a call to its end, a batch of events for each read; the last batch is the `DoneEvent`.

    Raises:
        ToolnexusError: The run failed; `.result` says how far it came.
    """
    bounds = Bounds(call.cancel, call.deadline)
    run: AgentRun | None = None
    world.runs.enter(bounds)
    try:
        bounds.check()
        run = call.begin(_load(world, call.id))
        with closing(_carry_out(run, call, world, bounds)) as batches:
            for events in batches:
                if bounds.is_limited:  # the user's own code takes time, too: look after each event
                    for event in events:
                        yield (event,)
                        bounds.check()
                else:
                    yield events
    except BaseException as error:
        _abandon(run, call, world, error)
        raise
    finally:
        world.runs.leave(bounds)
        bounds.close()
    yield run.done()


def _carry_out(
    run: AgentRun, call: Call, world: SyncWorld, bounds: Bounds
) -> Generator[Sequence[StreamEvent], None, None]:
    while True:
        bounds.check()
        command = run.next_command()
        match command:
            case SendRequest():
                yield from _exchange(run, command, call, world.transport, bounds)
            case RunTools(calls):
                for outcome in world.tools.run(calls, bounds, call.id):
                    yield run.tool_finished(outcome)
            case WaitFor(request):
                yield _answer(run, request, world.wait_for)
            case Checkpoint(messages):
                _save(world, call.id, messages)
                run.saved()
            case Finish():
                return
            case _ as unreachable:
                assert_never(unreachable)


def _exchange(
    run: AgentRun, command: SendRequest, call: Call, transport: SyncTransport, bounds: Bounds
) -> Generator[Sequence[StreamEvent], None, None]:
    """One model response. Opening it is tried again, as long as nothing of it was shown."""
    from tenacity import Retrying

    body = call.body(run, command.request)

    def open_response() -> tuple[SyncResponse, Sequence[StreamEvent]]:
        response = transport.open(body, bounds)
        try:
            run.response_opened(response.status, response.headers, time.time())
            events: Sequence[StreamEvent] = ()
            while run.is_reading and not events:
                events = _read(run, response)
        except BaseException:
            response.close()
            raise
        return response, events

    retrying = Retrying(
        **call.config.retry.tenacity(lambda: bounds.remaining), sleep=lambda seconds: _sleep(seconds, bounds)
    )
    try:
        response, events = retrying(open_response)
    except ToolnexusError as error:
        # Without the frames of the retry library, which say nothing to whoever reads the traceback.
        raise error.with_traceback(None) from error.__cause__
    try:
        yield events
        while run.is_reading:
            yield _read(run, response)
    finally:
        response.close()


def _read(run: AgentRun, response: SyncResponse) -> Sequence[StreamEvent]:
    """Report the next read, or the end, of a response."""
    if not run.wants_bytes:
        return run.response_ended()
    try:
        data = response.read(run.patience)
    except (APIConnectionError, ProtocolError) as error:
        return run.response_failed(error)
    return run.receive(data) if data else run.response_ended()


def _sleep(seconds: float, bounds: Bounds) -> None:
    woken = threading.Event()
    unlink = bounds.cancel.add_callback(woken.set)
    try:
        woken.wait(min(seconds, bounds.remaining))
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


def _load(world: SyncWorld, id: str | None) -> Sequence[Message] | None:
    if id is None:
        return None
    with store_errors(id, "loaded"):
        return _not_awaitable(world.store.get(id))


def _save(world: SyncWorld, id: str | None, messages: list[Message]) -> None:
    assert id is not None  # the machine saves only where a transcript is kept
    with store_errors(id, "saved"):
        _not_awaitable(world.store.save(id, messages))


def _not_awaitable(value: T | Awaitable[T]) -> T:
    """What a method of the store gave; one that is async without saying so shows only now."""
    if isinstance(value, Awaitable):
        if inspect.iscoroutine(value):
            value.close()  # nobody will await it
        raise ConfigurationError("store: SyncClient cannot await an async store; use AsyncClient, or a sync store")
    return value


def _abandon(run: AgentRun | None, call: Call, world: SyncWorld, error: BaseException) -> None:
    """Keep what a failed run has said and done: on the error, and in the store."""
    result = call.failed(run, error)
    if run is not None and call.id is not None and not isinstance(error, StoreError):
        try:
            _save(world, call.id, result.messages)
        except StoreError as failure:
            logger.error("after a failed run: %s", failure)
