"""How tools run inside a run: side by side, in threads or tasks, with the caller's context."""

from __future__ import annotations

import asyncio
import functools
import threading
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from tests.server import PATIENCE_S, calls, says
from toolnexus import AsyncClient, Limits, StreamEvent, ToolContext, Toolkit, define_tool, tool

NAME: ContextVar[str] = ContextVar("name", default="nobody")


def waiting(event: threading.Event, *, is_async: bool) -> Any:
    """A function that waits for `event`, as a sync or an async tool would."""

    def wait() -> str:
        assert event.wait(PATIENCE_S)
        return "waited"

    async def wait_in_loop() -> str:
        while not event.is_set():  # the loop must stay free meanwhile
            await asyncio.sleep(0.001)
        return "waited"

    return wait_in_loop if is_async else wait


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_results_come_as_they_finish_and_stand_in_the_models_order(play, serve, is_async):
    opened = threading.Event()

    @tool
    def quick() -> str:
        """Finish, and let the other one finish."""
        opened.set()
        return "quick"

    slow = define_tool(waiting(opened, is_async=is_async), name="slow")
    server = serve(calls(("c1", "slow", "{}"), ("c2", "quick", "{}")), says("Both."))
    played = play(server, "Go.", slow, quick)
    order = [e.id for e in played.events if e.type == "tool_result"]
    assert sorted(order) == ["c1", "c2"]
    assert [m["tool_call_id"] for m in server.requests[1].json["messages"][-2:]] == ["c1", "c2"]
    assert [record.id for record in played.ended().tool_calls] == ["c1", "c2"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_result_is_shown_before_a_slower_call_has_finished(connect, serve, is_async):
    seen = threading.Event()
    server = serve(calls(("c1", "slow", "{}"), ("c2", "quick", "{}")), says("Both."))
    slow = define_tool(waiting(seen, is_async=is_async), name="slow")
    quick = define_tool(lambda: "quick", name="quick")
    order = []

    def on_event(event: StreamEvent) -> None:
        if event.type == "tool_result":
            order.append(event.id)
            seen.set()

    connect(server).stream("Go.", Toolkit(slow, quick), on_event)
    assert order == ["c2", "c1"]


def test_sync_and_async_tools_of_one_turn_run_side_by_side(play, serve):
    here, there = threading.Event(), threading.Event()

    @tool
    def one() -> str:
        """Meet the other."""
        here.set()
        assert there.wait(PATIENCE_S)
        return "met"

    @tool
    async def other() -> str:
        """Meet the one."""
        there.set()
        while not here.is_set():
            await asyncio.sleep(0.001)
        return "met"

    server = serve(calls(("c1", "one", "{}"), ("c2", "other", "{}")), says("Met."))
    assert [record.output for record in play(server, "Go.", one, other).ended().tool_calls] == ["met", "met"]


@pytest.mark.parametrize("mixed", [(0, 0), (1, 1), (0, 1), (1, 0)], ids=["sync", "async", "sync async", "async sync"])
def test_a_tool_that_wants_to_be_alone_is(play, serve, mixed):
    running = 0
    beside: list[int] = []
    lock = threading.Lock()

    def enter() -> None:
        nonlocal running
        with lock:
            running += 1
            beside.append(running)

    def leave() -> str:
        nonlocal running
        with lock:
            running -= 1
        return "ok"

    def work() -> str:
        enter()
        return leave()

    async def work_later() -> str:
        enter()
        await asyncio.sleep(0)
        return leave()

    kinds = [work, work_later]
    alone = define_tool(kinds[mixed[0]], name="alone", parallel=False)
    free = define_tool(kinds[mixed[1]], name="free")
    script = calls(("c1", "alone", "{}"), ("c2", "alone", "{}"), ("c3", "free", "{}"), ("c4", "alone", "{}"))
    play(serve(script, says("Ok.")), "Go.", alone, free).ended()
    assert beside == [1, 1, 1, 1]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_no_more_tools_run_at_once_than_the_limit_says(play, serve, is_async):
    running, most = 0, 0
    lock = threading.Lock()
    two_are_running = threading.Event()

    def enter() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 2:
                two_are_running.set()

    def leave() -> str:
        nonlocal running
        with lock:
            running -= 1
        return "ok"

    def work() -> str:
        enter()
        assert two_are_running.wait(PATIENCE_S)
        return leave()

    async def work_later() -> str:
        enter()
        while not two_are_running.is_set():
            await asyncio.sleep(0.001)
        return leave()

    busy = define_tool(work_later if is_async else work, name="busy")
    script = calls(*[(f"c{n}", "busy", "{}") for n in range(6)])
    played = play(serve(script, says("Ok.")), "Go.", busy, limits=Limits(parallel_tools=2))
    assert [record.output for record in played.ended().tool_calls] == ["ok"] * 6
    assert most == 2


@pytest.mark.case("api-contextvars-in-sync-tools")
def test_tools_see_the_context_variables_of_the_caller(play, serve):
    @tool
    def name() -> str:
        """Name the caller."""
        return NAME.get()

    @tool
    async def name_later() -> str:
        """Name the caller."""
        await asyncio.sleep(0)
        return NAME.get()

    token = NAME.set("Ada")
    try:
        wanted = [("c1", "name", "{}"), ("c2", "name_later", "{}"), ("c3", "name", "{}"), ("c4", "name_later", "{}")]
        played = play(serve(calls(*wanted), says("Ok.")), "Go.", name, name_later)
    finally:
        NAME.reset(token)
    assert [record.output for record in played.ended().tool_calls] == ["Ada"] * 4


class Shouter:
    async def __call__(self, word: str) -> str:
        await asyncio.sleep(0)
        return word.upper()


async def repeat(word: str, times: int) -> str:
    await asyncio.sleep(0)
    return word * times


def hidden(word: str) -> Any:
    """A plain function, whose result must be awaited."""
    return repeat(word, 2)


AWAITABLES = {
    "an object": (Shouter(), "HEY"),
    "a partial": (functools.partial(repeat, times=3), "heyheyhey"),
    "a function that gives a coroutine": (hidden, "heyhey"),
}


@pytest.mark.case("api-async-tool-in-sync-client")
@pytest.mark.parametrize(("function", "output"), AWAITABLES.values(), ids=AWAITABLES)
def test_whatever_gives_an_awaitable_is_awaited(play, serve, function, output):
    server = serve(calls(("c1", "shout", '{"word": "hey"}')), says("Ok."))
    played = play(server, "Go.", define_tool(function, name="shout"))
    assert played.ended().tool_calls[0].output == output
    assert not played.ended().tool_calls[0].is_error


@pytest.mark.case("api-async-tool-in-sync-client")
def test_async_tools_of_a_client_share_one_loop_from_run_to_run(play, serve):
    loops = []

    @tool
    async def where() -> str:
        """Remember the loop."""
        loops.append(asyncio.get_running_loop())
        return "here"

    script = (calls(("c1", "where", "{}")), says("Ok."))
    server = serve(*script, *script)
    play(server, "Go.", where).ended()
    play(server, "Go.", where).ended()
    assert loops[0] is loops[1]


@pytest.mark.case("api-tool-timeout")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_tool_that_takes_too_long_gives_an_error_result(play, serve, is_async):
    over = threading.Event()
    slow = define_tool(waiting(over, is_async=is_async), name="slow", timeout=0.05)
    quick = define_tool(lambda: "quick", name="quick", timeout=1e12)
    server = serve(calls(("c1", "slow", "{}"), ("c2", "quick", "{}")), says("Too slow."))
    played = play(server, "Go.", slow, quick)
    records = {record.id: record for record in played.ended().tool_calls}
    over.set()
    assert records["c1"].is_error
    assert records["c1"].output == "The tool 'slow' took longer than its timeout of 0.05 s."
    assert records["c2"].output == "quick"
    assert played.ended().text == "Too slow."


def test_what_a_tool_gives_after_its_timeout_is_dropped(connect, serve):
    timed_out, late = threading.Event(), threading.Event()

    def tardy() -> str:
        assert timed_out.wait(PATIENCE_S)
        late.set()
        return "too late"

    def other() -> str:
        assert late.wait(PATIENCE_S)
        threading.Event().wait(0.05)  # the late result is on its way
        return "other"

    tools = Toolkit(define_tool(tardy, name="tardy", timeout=0.02), define_tool(other, name="other"))
    events: list[StreamEvent] = []

    def on_event(event: StreamEvent) -> None:
        events.append(event)
        if event.type == "tool_result":
            timed_out.set()

    server = serve(calls(("c1", "tardy", "{}"), ("c2", "other", "{}")), says("Ok."))
    result = connect(server).stream("Go.", tools, on_event)
    assert [e.id for e in events if e.type == "tool_result"] == ["c1", "c2"]
    assert [record.is_error for record in result.tool_calls] == [True, False]


def test_a_tool_that_has_ended_in_time_is_not_late_because_the_consumer_is_busy(connect, serve):
    shown, ended = threading.Event(), threading.Event()

    def second() -> str:
        assert shown.wait(PATIENCE_S)
        ended.set()
        return "in time"

    def on_event(event: StreamEvent) -> None:
        if event.type == "tool_result" and event.id == "c1":
            shown.set()
            assert ended.wait(PATIENCE_S)
            threading.Event().wait(0.6)  # beyond the timeout; of an async run, this holds up the event loop

    tools = Toolkit(define_tool(lambda: "first", name="first"), define_tool(second, name="second", timeout=0.5))
    server = serve(calls(("c1", "first", "{}"), ("c2", "second", "{}")), says("Ok."))
    result = connect(server).stream("Go.", tools, on_event)
    assert [record.output for record in result.tool_calls] == ["first", "in time"]


def test_a_call_for_which_the_system_has_no_thread_fails_and_the_run_goes_on(connect, serve, monkeypatch):
    start, started = threading.Thread.start, threading.Event()

    def start_one(thread: threading.Thread) -> None:
        if thread.name == "toolnexus-tool":
            if started.is_set():
                raise RuntimeError("can't start new thread")
            started.set()
        start(thread)

    over = threading.Event()
    stay = define_tool(waiting(over, is_async=False), name="stay", timeout=0.05)
    server = serve(calls(("c1", "stay", "{}"), ("c2", "stay", "{}")), says("Ok."))
    client = connect(server)
    monkeypatch.setattr(threading.Thread, "start", start_one)
    result = client.stream("Go.", Toolkit(stay))
    over.set()
    assert "can't start new thread" in {record.id: record for record in result.tool_calls}["c2"].output
    assert result.text == "Ok."


def test_a_tool_that_is_out_of_time_is_told_so(play, serve):
    told = threading.Event()

    @tool(timeout=0.02)
    def patient(ctx: ToolContext) -> str:
        """Wait until told to stop."""
        ctx.cancel.add_callback(told.set)
        assert told.wait(PATIENCE_S)
        return "stopped"

    play(serve(calls(("c1", "patient", "{}")), says("Ok.")), "Go.", patient).ended()
    assert told.wait(PATIENCE_S)


def test_a_timeout_error_of_the_tools_own_is_its_own_failure(play, serve):
    @tool(timeout=60)
    async def flaky() -> str:
        """Fail with a timeout of its own."""
        raise TimeoutError("the database was slow")

    played = play(serve(calls(("c1", "flaky", "{}")), says("Ok.")), "Go.", flaky)
    assert played.ended().tool_calls[0].output == "flaky failed: TimeoutError: the database was slow"


@pytest.mark.case("api-tool-raises-baseexception")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_interrupt_in_a_tool_reaches_the_caller_and_the_client_goes_on(play, serve, error, is_async):
    def stop() -> str:
        raise error

    async def stop_later() -> str:
        await asyncio.sleep(0)
        raise error

    server = serve(calls(("c1", "stop", "{}"), ("c2", "fine", "{}")), says("Still here."))
    stopping = define_tool(stop_later if is_async else stop, name="stop")
    played = play(server, "Go.", stopping, define_tool(lambda: "fine", name="fine"))
    assert type(played.error) is error
    assert play(server, "Again.").ended().text == "Still here."


def test_after_an_interrupt_in_an_async_tool_others_still_run(play, serve):
    @tool
    async def stop() -> str:
        """Stop everything."""
        raise KeyboardInterrupt

    @tool
    async def fine() -> str:
        """Be fine."""
        await asyncio.sleep(0)
        return "fine"

    server = serve(calls(("c1", "stop", "{}")), calls(("c2", "fine", "{}")), says("Ok."))
    assert type(play(server, "Go.", stop, fine).error) is KeyboardInterrupt
    assert play(server, "Go.", stop, fine).ended().tool_calls[0].output == "fine"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_stop_iteration_in_a_tool_is_an_error_result(play, serve, is_async):
    def stop() -> str:
        return next(iter(()))

    async def stop_later() -> str:
        return next(iter(()))

    server = serve(calls(("c1", "stop", "{}")), says("Ok."))
    record = play(server, "Go.", define_tool(stop_later if is_async else stop, name="stop")).ended().tool_calls[0]
    assert record.is_error
    assert "StopIteration" in record.output


def test_a_cancelled_error_of_the_tools_own_is_an_error_result(play, serve):
    @tool
    async def quitter() -> str:
        """Give up."""
        raise asyncio.CancelledError

    record = play(serve(calls(("c1", "quitter", "{}")), says("Ok.")), "Go.", quitter).ended().tool_calls[0]
    assert record.is_error


def test_a_failing_approval_predicate_is_an_error_result(play, serve):
    @tool(approval=lambda args: args["nope"])
    def guarded() -> str:
        """Do what a human allowed."""
        raise AssertionError("it must not run")

    record = play(serve(calls(("c1", "guarded", "{}")), says("Ok.")), "Go.", guarded).ended().tool_calls[0]
    assert record.is_error
    assert "KeyError" in record.output


def test_a_bind_that_fails_in_its_own_way_is_an_error_result(play, serve):
    def bind(args: Any, ctx: Any) -> Any:
        raise RuntimeError("a tool of another source")

    good = define_tool(lambda: "fine", name="odd")
    record = play(serve(calls(("c1", "odd", "{}")), says("Ok.")), "Go.", replace(good, bind=bind)).ended().tool_calls[0]
    assert record.is_error
    assert "a tool of another source" in record.output


def test_the_context_says_what_there_is_to_know(play, serve):
    seen: list[ToolContext] = []

    @tool
    def look(ctx: ToolContext) -> str:
        """Look around."""
        seen.append(ctx)
        return "looked"

    server = serve(calls(("c1", "look", "{}")), calls(("c1", "look", "{}")), says("Ok."))
    play(server, "Go.", look, call={"deadline": 60, "id": "talk"}).ended()
    first, second = seen
    assert (first.id, first.name, first.turn, second.turn) == ("c1", "look", 1, 2)
    assert first.conversation_id == "talk"
    assert first.deadline is not None
    assert 0 < first.deadline <= 60
    assert first.answer is None
    assert first.cancel is not second.cancel
    assert first.call_key != second.call_key


def test_sync_tools_leave_the_event_loop_free(serve):
    ticked = threading.Event()
    slow = define_tool(waiting(ticked, is_async=False), name="slow")
    server = serve(calls(("c1", "slow", "{}")), says("Ok."))

    async def main() -> str:
        async def tick() -> None:
            server_has_answered = asyncio.to_thread(server.wait_for_requests, 1)
            await server_has_answered
            ticked.set()

        async with AsyncClient(base_url=server.url, model="m") as client:
            ticking = asyncio.create_task(tick())
            result = await client.run("Go.", Toolkit(slow))
            await ticking
            return result.tool_calls[0].output

    assert asyncio.run(main()) == "waited"
