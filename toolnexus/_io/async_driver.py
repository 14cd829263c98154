"""Carries out the machine's orders in the async world: in the task that asks for the next event."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, assert_never

from .._core.commands import Checkpoint, Finish, RunTools, SendRequest, WaitFor
from .._core.run import AgentRun
from ..errors import APIConnectionError, ProtocolError, StoreError, ToolnexusError
from ..events import StreamEvent
from ..messages import Message
from ..stores import ConversationStore, MemoryStore
from ..suspension import Answer, Request
from .async_bounds import AsyncBounds
from .async_tools import AsyncTools
from .async_transport import AsyncResponse, AsyncTransport
from .bounds import Runs
from .launch import Call, store_errors

logger = logging.getLogger("toolnexus")


@dataclass(frozen=True, slots=True)
class AsyncWorld:
    """What the client lends to its runs."""

    transport: AsyncTransport
    tools: AsyncTools
    runs: Runs
    store: ConversationStore
    wait_for: Callable[[Request], Answer | Awaitable[Answer]] | None


async def drive(call: Call, world: AsyncWorld) -> AsyncGenerator[Sequence[StreamEvent], None]:
    """Run a call to its end, a batch of events for each read; the last batch is the `DoneEvent`.

    Raises:
        ToolnexusError: The run failed; `.result` says how far it came.
    """
    bounds = AsyncBounds(call.cancel, call.deadline)
    run: AgentRun | None = None
    world.runs.enter(bounds)
    try:
        bounds.check()
        run = call.begin(await _load(world, call.id, bounds))
        async with aclosing(_carry_out(run, call, world, bounds)) as batches:
            async for events in batches:
                if bounds.is_limited:  # the user's own code takes time, too: look after each event
                    for event in events:
                        yield (event,)
                        bounds.check()
                else:
                    yield events
    except BaseException as error:
        await _abandon(run, call, world, error)
        raise
    finally:
        world.runs.leave(bounds)
        bounds.close()
    yield run.done()


async def _carry_out(
    run: AgentRun, call: Call, world: AsyncWorld, bounds: AsyncBounds
) -> AsyncGenerator[Sequence[StreamEvent], None]:
    while True:
        bounds.check()
        command = run.next_command()
        match command:
            case SendRequest():
                async with aclosing(_exchange(run, command, call, world.transport, bounds)) as batches:
                    async for events in batches:
                        yield events
            case RunTools(calls):
                async with aclosing(world.tools.run(calls, bounds, call.id)) as outcomes:
                    async for outcome in outcomes:
                        yield run.tool_finished(outcome)
            case WaitFor(request):
                yield await _answer(run, request, world.wait_for, bounds)
            case Checkpoint(messages):
                await _save(world, call.id, messages)
                run.saved()
            case Finish():
                return
            case _ as unreachable:
                assert_never(unreachable)


async def _exchange(
    run: AgentRun, command: SendRequest, call: Call, transport: AsyncTransport, bounds: AsyncBounds
) -> AsyncGenerator[Sequence[StreamEvent], None]:
    """One model response. Opening it is tried again, as long as nothing of it was shown."""
    from tenacity import AsyncRetrying

    body = call.body(run, command.request)

    async def open_response() -> tuple[AsyncResponse, Sequence[StreamEvent]]:
        response = await transport.open(body, bounds)
        try:
            run.response_opened(response.status, response.headers, time.time())
            events: Sequence[StreamEvent] = ()
            while run.is_reading and not events:
                events = await _read(run, response)
        except BaseException:
            await response.aclose()
            raise
        return response, events

    retrying = AsyncRetrying(**call.config.retry.tenacity(lambda: bounds.remaining), sleep=bounds.sleep)
    response: AsyncResponse
    events: Sequence[StreamEvent]
    try:
        response, events = await retrying(open_response)
    except ToolnexusError as error:
        # Without the frames of the retry library, which say nothing to whoever reads the traceback.
        raise error.with_traceback(None) from error.__cause__
    try:
        yield events
        while run.is_reading:
            yield await _read(run, response)
    finally:
        await response.aclose()


async def _read(run: AgentRun, response: AsyncResponse) -> Sequence[StreamEvent]:
    """Report the next read, or the end, of a response."""
    if not run.wants_bytes:
        return run.response_ended()
    try:
        data = await response.read(run.patience)
    except (APIConnectionError, ProtocolError) as error:
        return run.response_failed(error)
    return run.receive(data) if data else run.response_ended()


async def _answer(
    run: AgentRun,
    request: Request,
    wait_for: Callable[[Request], Answer | Awaitable[Answer]] | None,
    bounds: AsyncBounds,
) -> Sequence[StreamEvent]:
    assert wait_for is not None  # the machine waits only where somebody can answer
    try:
        answer = wait_for(request)
        if inspect.isawaitable(answer):
            answer = await bounds.wait(answer)
    except Exception as error:
        bounds.check()
        logger.warning("wait_for failed for request %r", request.id, exc_info=error)
        return run.answer_failed(f"{type(error).__name__} in wait_for: {error}")
    if not isinstance(answer, Answer):
        return run.answer_failed(f"wait_for gave {type(answer).__name__}, not an Answer")
    return run.answer_received(answer, time.time())


async def _load(world: AsyncWorld, id: str | None, bounds: AsyncBounds) -> Sequence[Message] | None:
    if id is None:
        return None
    with store_errors(id, "loaded"):
        return await bounds.wait(_call(world, world.store.get, id))


async def _save(world: AsyncWorld, id: str | None, messages: list[Message]) -> None:
    assert id is not None  # the machine saves only where a transcript is kept
    with store_errors(id, "saved"):
        await _call(world, world.store.save, id, messages)


async def _call(world: AsyncWorld, method: Callable[..., Any], *args: object) -> Any:  # Any: what the method returns
    """Call a method of the store: a sync one that may wait for a disk must not hold up the event loop."""
    if isinstance(world.store, MemoryStore) or inspect.iscoroutinefunction(method):
        result = method(*args)
    else:
        result = await world.tools.in_thread(lambda: method(*args))
    return await result if inspect.isawaitable(result) else result


async def _abandon(run: AgentRun | None, call: Call, world: AsyncWorld, error: BaseException) -> None:
    """Keep what a failed run has said and done: on the error, and in the store."""
    result = call.failed(run, error)
    if run is not None and call.id is not None and not isinstance(error, StoreError):
        try:
            await _save(world, call.id, result.messages)
        except StoreError as failure:
            logger.error("after a failed run: %s", failure)
