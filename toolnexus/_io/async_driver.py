"""Carries out the machine's orders in the async world: in the task that asks for the next event."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, assert_never

from .._core.commands import AdmitTools, Checkpoint, Finish, RunTools, SendRequest, ToolCall, ToolOutcome, WaitFor
from .._core.response import Response
from .._core.run import AgentRun
from ..errors import APIConnectionError, ProtocolError, StoreError, ToolnexusError
from ..events import StreamEvent
from ..retry import RetryPolicy, RetrySeen
from ..stores import Keep
from ..suspension import Answer, Request
from .async_bounds import AsyncBounds, to_its_end
from .async_closing import aclosing
from .async_tools import AsyncTools
from .async_transport import AsyncResponse, AsyncTransport
from .bounds import Runs
from .hooking import Audience, Step, after_llm, after_tool, before_llm, before_tool, misfit_of
from .keeping import Kept
from .launch import Call
from .tool_calls import context_for, objection

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
    kept = Kept(call.keep) if call.keep is not None else None
    place = call.place
    audience = Audience(call.hooks, None, world.tools.spawn)
    world.runs.enter(bounds)
    try:
        bounds.check()
        if place is not None:
            await place.aenter(bounds)
        if call.watch is not None:
            audience = replace(audience, watch=call.watch(bounds))
        stored = await bounds.wait(_play_store(kept.load(), kept, world)) if kept is not None else None
        if (connecting := call.toolkit.connecting()) is not None:
            await bounds.wait(asyncio.wrap_future(connecting))
        run, first = call.begin(stored, audience.watch)
        audience.tell(run.take_news())
        async with aclosing(_carry_out(run, first, call, kept, world, bounds, audience)) as batches:
            async for events in batches:
                if place is not None or bounds.is_limited:  # the user's own code takes time: look after each event
                    for event in events:
                        yield (event,)
                        if place is not None:
                            place.stepped()
                        bounds.check()
                else:
                    yield events
    except BaseException as error:
        try:
            await _abandon(run, call, kept, world, error)
        finally:  # a second cancel comes out there
            if run is not None:
                audience.tell(run.take_news())
        raise
    finally:
        world.runs.leave(bounds)
        bounds.close()
        if place is not None:
            place.leave()
    yield run.done()


async def _carry_out(
    run: AgentRun,
    first: Sequence[StreamEvent],
    call: Call,
    kept: Kept | None,
    world: AsyncWorld,
    bounds: AsyncBounds,
    audience: Audience,
) -> AsyncGenerator[Sequence[StreamEvent], None]:
    yield first
    while True:
        bounds.check()
        command = run.next_command()
        match command:
            case SendRequest():
                async with aclosing(_exchange(run, command, call, world.transport, bounds, audience)) as batches:
                    async for events in batches:
                        yield events
            case AdmitTools(calls):
                for one in calls:
                    admitted, outcome = await _admit(one, call, bounds)
                    bounds.check()
                    if outcome is None:
                        run.tool_admitted(admitted.slot, admitted.args)
                    else:
                        events = run.tool_finished(outcome)
                        audience.tell(run.take_news())
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
                assert kept is not None  # the machine saves only where a transcript is kept
                await to_its_end(_play_store(kept.save(messages), kept, world))
                run.saved()
            case Finish():
                return
            case _ as unreachable:
                assert_never(unreachable)


async def _exchange(
    run: AgentRun, command: SendRequest, call: Call, transport: AsyncTransport, bounds: AsyncBounds, audience: Audience
) -> AsyncGenerator[Sequence[StreamEvent], None]:
    """One model response. Opening it is tried again, as long as nothing of it was shown."""
    if call.hooks:
        command = await _play(before_llm(command, call.hooks), bounds)
    body = call.body(run, command.request)

    async def open_response() -> tuple[AsyncResponse, Sequence[StreamEvent]]:
        response = await transport.open(body, bounds)
        try:
            run.response_opened(response.status, response.headers, time.time())
            events: Sequence[StreamEvent] = ()
            while (reading := run.reading) is not None and not events:
                events = await _read(run, reading, response, audience)
        except BaseException:
            await response.aclose()
            raise
        return response, events

    policy, seen = call.config.retry, call.retry_seen(audience, command)
    response, events = await _with_retries(open_response, policy, seen, bounds)
    try:
        yield events
        while (reading := run.reading) is not None:
            yield await _read(run, reading, response, audience)
    finally:
        await response.aclose()
    if call.hooks:
        await _play(after_llm(run, command, call.hooks), bounds)


async def _with_retries(
    function: Callable[[], Awaitable[T]], policy: RetryPolicy, seen: RetrySeen, bounds: AsyncBounds
) -> T:
    """What `function` gives, in one of the tries that `policy` allows."""
    failures: list[ToolnexusError] = []
    try:  # without the retry library, which takes as long for a try as sending the request does
        first = await function()
    except ToolnexusError as error:
        failures.append(error)
    else:
        policy.budget.succeeded(after_retry=False)
        return first

    async def again() -> T:
        if failures:
            raise failures.pop()
        return await function()

    from tenacity import AsyncRetrying

    try:
        rules = policy.tenacity(lambda: bounds.remaining, seen)
        result: T = await AsyncRetrying(**rules, sleep=bounds.sleep)(again)
        return result
    except ToolnexusError as error:
        # Without the frames of the retry library, which say nothing to whoever reads the traceback.
        raise error.with_traceback(None) from error.__cause__


async def _play(steps: Generator[Step, Any, T], bounds: AsyncBounds) -> T:
    """Call the hooks that `steps` wants called, wait for those that are async, and give its result."""

    async def call(hook: Callable[[Any], Any], given: Any) -> Any:  # Any: whatever a hook returns
        try:
            returned = hook(given)
            return await bounds.wait(returned) if inspect.isawaitable(returned) else returned
        except Exception:
            bounds.check()
            raise

    return await _play_with(call, steps)


async def _play_store(steps: Generator[Step, Any, T], kept: Kept, world: AsyncWorld) -> T:
    """Call the methods of a store that `steps` wants called, and give its result."""

    async def call(method: Callable[[Any], Any], given: Any) -> Any:  # Any: what the method returns
        if kept.is_quick or inspect.iscoroutinefunction(method):
            returned = method(given)
        else:  # a sync one that may wait for a disk must not hold up the event loop
            returned = await world.tools.in_thread(lambda: method(given))
        return await returned if inspect.isawaitable(returned) else returned

    return await _play_with(call, steps)


async def _play_with(call: Callable[[Callable[[Any], Any], Any], Awaitable[Any]], steps: Generator[Step, Any, T]) -> T:
    try:
        function, given = next(steps)
        while True:
            try:
                returned = await call(function, given)
            except Exception as error:
                function, given = steps.throw(error)
            else:
                function, given = steps.send(returned)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _admit(one: ToolCall, call: Call, bounds: AsyncBounds) -> tuple[ToolCall, ToolOutcome | None]:
    """A call as the hooks want it, and its outcome if they, or the lack of an approval, keep it from running."""
    one, stand_in = await _play(before_tool(one, call.hooks), bounds)
    if stand_in is not None:
        return one, await _play(after_tool(one, stand_in, call.hooks), bounds)
    refusal = objection(one, context_for(one, bounds, call.id, bounds.cancel))
    return one, refusal and await _play(after_tool(one, refusal, call.hooks), bounds)


async def _run_tools(
    calls: Sequence[ToolCall], call: Call, tools: AsyncTools, bounds: AsyncBounds
) -> AsyncGenerator[ToolOutcome, None]:
    """The outcomes of calls that run side by side, as the hooks want them."""
    by_slot = {one.slot: one for one in calls}
    async with aclosing(tools.run(calls, bounds, call.id)) as outcomes:
        async for outcome in outcomes:
            if call.hooks:
                outcome = await _play(after_tool(by_slot[outcome.slot], outcome, call.hooks), bounds)
            yield outcome


async def _read(run: AgentRun, reading: Response, response: AsyncResponse, audience: Audience) -> Sequence[StreamEvent]:
    """Report the next read, or the end, of a response; observers see it before anybody sees the events."""
    try:
        if not reading.wants_bytes:
            return run.response_ended(time.time())
        try:
            data = await response.read(reading.turn.patience, reading.progress)
        except (APIConnectionError, ProtocolError) as error:
            return run.response_failed(error, time.time())
        if not data:
            return run.response_ended(time.time())
        return run.receive(data, time.time() if run.observed else 0.0)  # the time is for observers
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
    why = misfit_of(answer, request)
    if why is not None:
        return run.answer_failed(why)
    return run.answer_received(answer, time.time())


async def _abandon(
    run: AgentRun | None, call: Call, kept: Kept | None, world: AsyncWorld, error: BaseException
) -> None:
    """Keep what a failed run has said and done: on the error, and in the store."""
    call.failed(run, error)
    if run is not None and kept is not None and not isinstance(error, StoreError):
        try:
            await to_its_end(_play_store(kept.save(run.messages), kept, world))
        except StoreError as failure:
            logger.error("after a failed run: %s", failure)


async def forget(keep: Keep, world: AsyncWorld) -> None:
    """Empty a conversation.

    Raises:
        StoreError: It could not be loaded or saved.
    """
    kept = Kept(keep)
    await _play_store(kept.load(), kept, world)
    await to_its_end(_play_store(kept.save([]), kept, world))
