"""Parts of a run, struck at every line of their own: what they leave behind must be of use."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

import pytest

from tests.core.scripted import DONE, call_chunk, chunk, make_run, make_tool, sse
from tests.server import PATIENCE_S
from tests.sweeps.everywhere import everywhere, interrupt
from toolnexus import Cancel, Limits, MemoryStore, define_tool
from toolnexus._core.commands import RunTools, ToolCall, ToolOutcome
from toolnexus._core.run import AgentRun
from toolnexus._core.transcript import closed
from toolnexus._io.async_tools import AsyncTools
from toolnexus._io.bounds import Bounds
from toolnexus._io.lines import Place
from toolnexus._io.loop_thread import LoopThread
from toolnexus._io.sync_tools import SyncTools
from toolnexus._io.threads import DaemonThreads
from toolnexus.stores import Keep
from toolnexus.tool import ToolResult

CALLS = sse(call_chunk(("c1", "look", "{}"), ("c2", "look", "{}"))) + DONE
ANSWER = sse(chunk("Done.", "stop")) + DONE


TRANSCRIPTS = [
    ["user"],
    ["user", "assistant", "tool", "tool"],
    ["user", "assistant", "tool", "tool", "assistant"],
]


def play(run: AgentRun) -> None:
    """A response with two calls, both of which are settled, and an answer."""
    for body in (CALLS, ANSWER):
        run.next_command()
        run.response_opened(200, {}, 0.0)
        run.receive(body)
        run.response_ended()
        if isinstance(command := run.next_command(), RunTools):
            for call in command.calls:
                run.tool_finished(ToolOutcome(call.slot, ToolResult("seen")))


def test_a_machine_interrupted_at_any_line_has_a_transcript_that_can_go_on(publish):
    runs: list[AgentRun] = []

    def new_run(point: int) -> Callable[[], None]:
        run = make_run(make_tool("look"), observed=True)
        runs.append(run)
        return lambda: play(run)

    for where in everywhere(new_run, interrupt):
        runs[-1].abandon(aborted=True)
        result = runs[-1].result()
        assert result.status == "error", where
        assert result.messages == closed(result.messages), where
        assert [message.role for message in result.messages] in TRANSCRIPTS, where
        assert len(result.tool_calls) in (0, 2), where
    assert len(runs) > 300
    publish(points=len(runs) - 1)


def test_a_cancel_from_a_signal_handler_may_come_in_the_middle_of_any_method(publish):
    """A handler runs between two lines of the thread that it interrupts, which may hold the lock by then."""
    cancels: list[Cancel] = []
    heard: list[str] = []

    def add(point: int) -> Callable[[], object]:
        cancels.append(Cancel())
        heard.clear()
        return lambda: cancels[-1].add_callback(lambda: heard.append("over"))

    def take_back(point: int) -> Callable[[], object]:
        cancels.append(Cancel())
        heard.clear()
        return cancels[-1].add_callback(lambda: heard.append("over"))

    for where in everywhere(add, lambda: cancels[-1].cancel()):
        assert heard == ["over"], where
        assert cancels[-1]._callbacks == {}, where
    points = len(cancels)
    assert points > 5
    for where in everywhere(take_back, lambda: cancels[-1].cancel()):
        assert heard in ([], ["over"]), where
        assert cancels[-1]._callbacks == {}, where
    assert len(cancels) > points + 3
    publish(points=len(cancels) - 2)


@pytest.mark.parametrize("is_needed", [True, False])
def test_a_loop_whose_start_was_interrupted_is_started_by_the_next_call_or_closed(is_needed):
    loops: list[LoopThread] = []

    def start(point: int) -> Callable[[], object]:
        loops.append(LoopThread())
        return loops[-1]._started

    for _ in everywhere(start, interrupt):
        if is_needed:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loops[-1]._started()).result(PATIENCE_S)
    assert len(loops) > 6
    for loop in loops:
        loop.close()


@pytest.mark.filterwarnings("error")  # what a finalizer raises is a warning
def test_a_place_in_line_whose_making_was_interrupted_is_collected_without_a_word():
    keep = Keep(MemoryStore(), "talk")
    made: list[Place] = []
    for _ in everywhere(lambda point: lambda: made.append(Place(keep)), interrupt):
        gc.collect()
    assert len(made) == 1  # the last, which nothing struck


def test_a_pool_whose_start_was_interrupted_takes_further_work():
    pools: list[DaemonThreads] = []

    def start(point: int) -> Callable[[], object]:
        pools.append(DaemonThreads("test-pool"))
        return lambda: pools[-1].start(lambda: None)

    for where in everywhere(start, interrupt):
        done = threading.Event()
        pools[-1].start(done.set)
        assert done.wait(PATIENCE_S), where
    for pool in pools:
        pool.close()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Work for threads that have not begun yet."""
    held: list[Callable[[], object]] = []
    monkeypatch.setattr(DaemonThreads, "start", lambda self, function: held.append(function))
    return held


def test_a_tool_whose_thread_begins_after_the_run_is_over_does_not_run(held):
    ran: list[str] = []
    call = ToolCall(0, "c1", define_tool(lambda: ran.append("dig"), name="dig"), {}, 1, "key")
    bounds = Bounds(None, None)
    outcomes = SyncTools(Limits())._start(call, bounds, None, lambda outcome: ran.append("told"))
    assert not outcomes.cancelled
    bounds.close()
    held.pop()()
    assert ran == []


def test_a_tool_whose_thread_begins_after_its_task_was_cancelled_does_not_run(held):
    ran: list[str] = []

    async def main() -> None:
        waiting = asyncio.ensure_future(AsyncTools(Limits()).in_thread(lambda: ran.append("dig")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        held.pop()()

    asyncio.run(main())
    assert ran == []
