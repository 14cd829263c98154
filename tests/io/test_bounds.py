"""How long a run, and each exchange of it, may still wait."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from toolnexus import APITimeoutError, Cancel, DeadlineExceededError, RunCancelledError
from toolnexus._io import async_bounds
from toolnexus._io import bounds as module
from toolnexus._io.async_bounds import AsyncBounds, end_tasks, to_its_end
from toolnexus._io.bounds import Bounds, Patience, Runs


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_without_a_deadline_there_is_no_end():
    bounds = Bounds(None, None)
    assert bounds.remaining == math.inf
    assert bounds.expires is None
    bounds.check()
    bounds.close()


def test_a_deadline_runs_down(clock):
    bounds = Bounds(None, 10)
    assert bounds.remaining == 10
    clock.now += 4
    assert bounds.remaining == 6
    bounds.check()
    clock.now += 7
    assert bounds.remaining == 0
    with pytest.raises(DeadlineExceededError, match="the run took longer than its deadline of 10 s"):
        bounds.check()


def test_a_timer_that_rings_a_little_too_early_finds_the_deadline_reached(clock):
    bounds = Bounds(None, 10)
    clock.now += 9.9995
    assert isinstance(bounds.exceeded(), DeadlineExceededError)


def test_a_cancel_counts_more_than_a_deadline(clock):
    cancel = Cancel()
    bounds = Bounds(cancel, 10)
    clock.now += 20
    cancel.cancel()
    assert isinstance(bounds.exceeded(), RunCancelledError)


@pytest.mark.parametrize("cancelled", [True, False])
def test_whoever_works_for_a_run_hears_of_its_end_whatever_ended_it(cancelled):
    cancel = Cancel()
    bounds = Bounds(cancel, None)
    heard: list[str] = []
    bounds.cancel.add_callback(lambda: heard.append("over"))
    (cancel.cancel if cancelled else bounds.close)()
    assert heard == ["over"]
    assert cancel.cancelled is cancelled


def test_a_run_without_bounds_can_be_ended_from_outside():
    bounds = Bounds(None, None)
    bounds.end("enough")
    with pytest.raises(RunCancelledError, match="enough"):
        bounds.check()
    assert bounds.cancel.cancelled


def test_closing_ends_the_runs_that_are_under_way_and_those_that_were_about_to_begin():
    runs, under_way, over, late = Runs(), Bounds(None, None), Bounds(None, None), Bounds(None, None)
    runs.enter(under_way)
    runs.enter(over)
    runs.leave(over)
    runs.close()
    runs.enter(late)
    for bounds in (under_way, late):
        with pytest.raises(RunCancelledError, match="the client was closed"):
            bounds.check()
    over.check()


def test_a_run_that_is_over_leaves_nothing_at_the_callers_cancel():
    cancel = Cancel()
    Bounds(cancel, None).close()
    assert cancel._callbacks == {}


def test_patience_is_the_least_of_all_bounds(clock):
    bounds = Bounds(None, 10)
    patience = Patience(bounds)
    assert patience.timeout(300) == 10
    assert patience.timeout(3) == 3
    assert patience.timeout(None) == 10
    assert Patience(Bounds(None, None)).timeout(None) is None
    assert Patience(Bounds(None, None)).timeout(5) == 5


def test_patience_is_counted_from_the_first_time_it_is_shortened(clock):
    patience = Patience(Bounds(None, None))
    assert patience.shorten(5)
    clock.now += 3
    assert not patience.shorten(5)
    assert patience.timeout(300) == 2
    assert patience.shorten(1)
    assert patience.timeout(300) == 1
    clock.now += 9
    assert patience.timeout(300) == 0


def test_shorter_patience_never_makes_the_wait_longer(clock):
    patience = Patience(Bounds(None, None))
    patience.shorten(5)
    clock.now += 4.5
    patience.shorten(2)
    assert patience.timeout(None) == 0.5


def test_the_models_clock_runs_while_somebody_waits_and_starts_again_with_each_delta(clock):
    patience = Patience(Bounds(None, None), 10)
    assert patience.timeout(300) == 300  # nobody waits yet
    assert patience.wait_begins(0) == 10
    assert patience.timeout(300) == 10
    clock.now += 4
    assert patience.timeout(300) == 6
    assert patience.timeout(3) == 3
    patience.wait_ended()
    clock.now += 1000  # the consumer's time
    assert patience.wait_begins(0) == 6
    clock.now += 5
    patience.wait_ended()
    assert patience.wait_begins(1) == 10
    clock.now += 9.9
    assert patience.stalled() is None
    clock.now += 0.1
    assert isinstance(patience.stalled(), APITimeoutError)
    assert patience.timeout(300) == 0


def test_a_wait_does_not_begin_when_the_model_has_had_its_time(clock):
    patience = Patience(Bounds(None, None), 10)
    patience.wait_begins(0)
    clock.now += 11
    patience.wait_ended()  # with a comment
    with pytest.raises(APITimeoutError, match=r"within 10 s \(progress_timeout\)"):
        patience.wait_begins(0)


def test_without_a_progress_timeout_the_model_has_no_clock(clock):
    patience = Patience(Bounds(None, None))
    assert patience.wait_begins(0) is None
    clock.now += 10**6
    assert patience.stalled() is None
    assert patience.timeout(None) is None
    patience.wait_ended()


def test_a_model_that_has_said_its_last_word_has_no_clock(clock):
    patience = Patience(Bounds(None, None), 1)
    assert patience.wait_begins(0) == 1
    patience.wait_ended()
    patience.shorten(5)
    assert patience.wait_begins(0) is None
    assert patience.timeout(300) == 5


def test_an_async_wait_gives_what_it_waited_for():
    async def main() -> int:
        async def value() -> int:
            await asyncio.sleep(0)
            return 7

        return await AsyncBounds(None, 60).wait(value())

    assert asyncio.run(main()) == 7


def test_an_async_wait_passes_on_what_is_raised():
    async def main() -> None:
        async def fail() -> None:
            raise LookupError("mine")

        await AsyncBounds(None, None).wait(fail())

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(main())


@pytest.mark.parametrize("deadline", [None, 0.05])
def test_an_async_wait_ends_with_the_run_and_what_it_waited_for_too(deadline):
    ended: list[str] = []

    async def stay() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stay")

    async def main() -> None:
        cancel = Cancel()
        bounds = AsyncBounds(cancel, deadline)
        if deadline is None:
            asyncio.get_running_loop().call_soon(cancel.cancel)
        await bounds.wait(stay())

    with pytest.raises(RunCancelledError if deadline is None else DeadlineExceededError):
        asyncio.run(main())
    assert ended == ["stay"]


def test_an_async_sleep_takes_its_time_and_ends_with_the_run():
    async def main() -> float:
        began = time.monotonic()
        await AsyncBounds(None, None).sleep(0.02)
        took = time.monotonic() - began
        cancel = Cancel()
        bounds = AsyncBounds(cancel, None)
        asyncio.get_running_loop().call_soon(cancel.cancel)
        with pytest.raises(RunCancelledError):
            await bounds.sleep(60)
        return took

    assert asyncio.run(main()) >= 0.02


def test_a_cancel_after_the_loop_was_closed_does_no_harm():
    cancel = Cancel()

    async def main() -> None:
        AsyncBounds(cancel, None)

    asyncio.run(main())
    cancel.cancel()


def test_ended_tasks_report_nothing_as_lost():
    noise: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise LookupError("while it was cancelled") from None

        async def quick() -> None:
            return None

        tasks: set[asyncio.Future[None]] = {asyncio.ensure_future(stubborn()), asyncio.ensure_future(quick())}
        await asyncio.sleep(0)
        await end_tasks(tasks)
        assert all(task.done() for task in tasks)

    asyncio.run(main())
    assert noise == []


@pytest.mark.parametrize("times", [0, 1, 3])
def test_what_must_not_be_broken_off_ends_before_a_cancel_is_passed_on(times):
    async def main() -> None:
        opened, done = asyncio.Event(), False

        async def save() -> str:
            nonlocal done
            await opened.wait()
            done = True
            return "saved"

        task = asyncio.ensure_future(to_its_end(save()))
        await asyncio.sleep(0)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        opened.set()
        await asyncio.wait({task})
        assert done
        assert task.cancelled() if times else task.result() == "saved"

    asyncio.run(main())


def test_what_must_not_be_broken_off_may_fail():
    async def save() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(to_its_end(save()))


def test_what_never_ends_is_given_up_after_a_cancel(monkeypatch):
    monkeypatch.setattr(async_bounds, "SAVE_GRACE_S", 0.01)

    async def main() -> None:
        task = asyncio.ensure_future(to_its_end(asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
