"""Carries out the machine's orders in the async world: in the task that asks for the next event."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from .._core.commands import Checkpoint, Finish, RunTools, SendRequest, ToolCall, ToolOutcome, WaitFor
from .._core.run import AgentRun
from ..errors import APIConnectionError, ProtocolError, StoreError, ToolnexusError
from ..events import StreamEvent
from ..messages import Message
from ..stores import Keep, MemoryStore
from ..suspension import Answer, Request
from .async_bounds import AsyncBounds, unbroken
from .async_tools import AsyncTools
from .async_transport import AsyncResponse, AsyncTransport
from .bounds import Runs
from .hooking import Audience, Step, after_llm, after_tool, before_llm, before_tool
from .launch import Call, store_errors

logger = logging.getLogger("toolnexus")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AsyncWorld:
    """What the client lends to its runs."""

    transport: AsyncTransport
    tools: AsyncTools
    runs: Runs
    wait_for: Callable[[Request], Answer | Awaitable[Answer]] | None


async def drive(call: Call, world: AsyncWorld) -> AsyncGenerator[Sequence[StreamEvent], None]:
    """Run a call to its end, a batch of events for each read; the last batch is the `DoneEvent`.

    Raises:
        ToolnexusError: The run failed; `.result` says how far it came.
    """
    bounds = AsyncBounds(call.cancel, call.deadline)
    run: AgentRun | None = None
    audience = Audience(call.hooks, call.watch, world.tools.spawn)
    world.runs.enter(bounds)
    try:
        bounds.check()
        run = call.begin(await _load(world, call.keep, bounds))
        audience.tell(run.take_news())
        async with aclosing(_carry_out(run, call, world, bounds, audience)) as batches:
            async for events in batches:
                if bounds.is_limited:  # the user's own code takes time, too: look after each event
                    for event in events:
                        yield (event,)
                        bounds.check()
                else:
                    yield events
    except BaseException as error:
        try:
            await _abandon(run, call, world, error)
        finally:  # a second cancel comes out there
            if run is not None:
                audience.tell(run.take_news())
        raise
    finally:
        world.runs.leave(bounds)
        bounds.close()
    yield run.done()


async def _carry_out(
    run: AgentRun, call: Call, world: AsyncWorld, bounds: AsyncBounds, audience: Audience
) -> AsyncGenerator[Sequence[StreamEvent], None]:
    while True:
        bounds.check()
        command = run.next_command()
        match command:
            case SendRequest():
                async with aclosing(_exchange(run, command, call, world.transport, bounds, audience)) as batches:
                    async for events in batches:
                        yield events
            case RunTools(calls):
                async with aclosing(_run_tools(calls, call, world.tools, bounds)) as outcomes:
                    async for outcome in outcomes:
                        events = run.tool_finished(outcome)
                        audience.tell(run.take_news())
                        yield events
            case WaitFor(request):
                events = await _answer(run, request, world.wait_for, bounds)
                audience.tell(run.take_news())
                yield events
            case Checkpoint(messages):
                await _save(world, call.keep, messages)
                run.saved()
            case Finish():
                return
            case _ as unreachable:
                assert_never(unreachable)


async def _exchange(
    run: AgentRun, command: SendRequest, call: Call, transport: AsyncTransport, bounds: AsyncBounds, audience: Audience
) -> AsyncGenerator[Sequence[StreamEvent], None]:
    """One model response. Opening it is tried again, as long as nothing of it was shown."""
    from tenacity import AsyncRetrying

    command = await _play(before_llm(command, call.hooks), bounds)
    body = call.body(run, command.request)

    async def open_response() -> tuple[AsyncResponse, Sequence[StreamEvent]]:
        response = await transport.open(body, bounds)
        try:
            run.response_opened(response.status, response.headers, time.time())
            events: Sequence[StreamEvent] = ()
            while run.is_reading and not events:
                events = await _read(run, response, audience)
        except BaseException:
            await response.aclose()
            raise
        return response, events

    retrying = AsyncRetrying(
        **call.config.retry.tenacity(lambda: bounds.remaining, call.retry_seen(audience, command)),
        sleep=bounds.sleep,
    )
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
            yield await _read(run, response, audience)
    finally:
        await response.aclose()
    await _play(after_llm(run, command, call.hooks), bounds)


async def _play(steps: Generator[Step, Any, T], bounds: AsyncBounds) -> T:
    """Call the hooks that `steps` wants called, wait for those that are async, and give its result."""
    try:
        hook, given = next(steps)
        while True:
            try:
                returned = hook(given)
                if inspect.isawaitable(returned):
                    returned = await bounds.wait(returned)
            except Exception as error:
                bounds.check()
                hook, given = steps.throw(error)
            else:
                hook, given = steps.send(returned)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _run_tools(
    calls: Sequence[ToolCall], call: Call, tools: AsyncTools, bounds: AsyncBounds
) -> AsyncGenerator[ToolOutcome, None]:
    """The calls that the hooks let through, side by side, and what stands in for the others."""
    admitted: dict[int, ToolCall] = {}
    for one in calls:
        seen, stand_in = await _play(before_tool(one, call.hooks), bounds)
        bounds.check()
        if stand_in is not None:
            yield await _play(after_tool(seen, stand_in, call.hooks), bounds)
        else:
            admitted[seen.slot] = seen
    async with aclosing(tools.run(list(admitted.values()), bounds, call.id)) as outcomes:
        async for outcome in outcomes:
            yield await _play(after_tool(admitted[outcome.slot], outcome, call.hooks), bounds)


async def _read(run: AgentRun, response: AsyncResponse, audience: Audience) -> Sequence[StreamEvent]:
    """Report the next read, or the end, of a response; observers see it before anybody sees the events."""
    try:
        if not run.wants_bytes:
            return run.response_ended(time.time())
        try:
            data = await response.read(run.patience)
        except (APIConnectionError, ProtocolError) as error:
            return run.response_failed(error, time.time())
        return run.receive(data, time.time()) if data else run.response_ended(time.time())
    finally:
        if run.observed:  # asked here, since this is done for every read
            audience.tell(run.take_news())


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


async def _load(world: AsyncWorld, keep: Keep | None, bounds: AsyncBounds) -> Sequence[Message] | None:
    if keep is None:
        return None
    with store_errors(keep.id, "loaded"):
        return await bounds.wait(_call(world, keep, keep.store.get, keep.id))


async def _save(world: AsyncWorld, keep: Keep | None, messages: list[Message]) -> None:
    assert keep is not None  # the machine saves only where a transcript is kept
    with store_errors(keep.id, "saved"):
        await unbroken(_call(world, keep, keep.store.save, keep.id, messages))


async def _call(
    world: AsyncWorld, keep: Keep, method: Callable[..., Any], *args: object
) -> Any:  # Any: what the method returns
    """Call a method of the store: a sync one that may wait for a disk must not hold up the event loop."""
    if isinstance(keep.store, MemoryStore) or inspect.iscoroutinefunction(method):
        result = method(*args)
    else:
        result = await world.tools.in_thread(lambda: method(*args))
    return await result if inspect.isawaitable(result) else result


async def _abandon(run: AgentRun | None, call: Call, world: AsyncWorld, error: BaseException) -> None:
    """Keep what a failed run has said and done: on the error, and in the store."""
    result = call.failed(run, error)
    if run is not None and call.keep is not None and not isinstance(error, StoreError):
        try:
            await _save(world, call.keep, result.messages)
        except StoreError as failure:
            logger.error("after a failed run: %s", failure)
