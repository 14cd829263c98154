"""An alarm for many waits: each fails when its own time is up, and no timer is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.server import says
from toolnexus import AsyncClient
from toolnexus._io.alarm import Alarm


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time only goes on when nothing else is to be done."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        timers = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]  # asyncio's own
        if not self._ready and timers:  # type: ignore[attr-defined]  # as above
            self.now = max(self.now, min(timers))
        super()._run_once()  # type: ignore[misc]  # as above

    @property
    def timers(self) -> int:
        return sum(not timer.cancelled() for timer in self._scheduled)  # type: ignore[attr-defined]  # as above


def played(scene: Callable[[Clock, Alarm], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=Clock) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Clock)

        async def main() -> None:
            await scene(loop, Alarm())

        runner.run(main())


async def wait(loop: Clock, alarm: Alarm, timeout: float | None, done_in: float | None = None) -> None:
    future: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not future.done():
            future.set_result(None)

    if done_in is not None:
        loop.call_later(done_in, finish)
    alarm.set(future, timeout, ConnectionError)
    try:
        await future
    finally:
        alarm.unset()


def test_a_wait_fails_when_its_time_is_up():
    async def scene(loop: Clock, alarm: Alarm) -> None:
        with pytest.raises(ConnectionError):
            await wait(loop, alarm, 5)
        assert loop.now == 5
        assert loop.timers == 0

    played(scene)


def test_each_wait_has_its_own_time_and_all_have_one_timer():
    async def scene(loop: Clock, alarm: Alarm) -> None:
        for _ in range(10):
            await wait(loop, alarm, 5, done_in=3)
            assert loop.timers == 1
        assert loop.now == 30
        with pytest.raises(ConnectionError):
            await wait(loop, alarm, 5)
        assert loop.now == 35

    played(scene)


def test_a_shorter_wait_is_not_kept_waiting_by_a_longer_one():
    async def scene(loop: Clock, alarm: Alarm) -> None:
        await wait(loop, alarm, 300, done_in=1)
        with pytest.raises(ConnectionError):
            await wait(loop, alarm, 2)
        assert loop.now == 3
        assert loop.timers == 0

    played(scene)


def test_a_timer_that_rings_when_nobody_waits_says_nothing_and_the_next_wait_has_one():
    async def scene(loop: Clock, alarm: Alarm) -> None:
        await wait(loop, alarm, 5, done_in=1)
        await asyncio.sleep(10)
        assert loop.timers == 0
        await wait(loop, alarm, None, done_in=100)
        with pytest.raises(ConnectionError):
            await wait(loop, alarm, 5, done_in=50)
        assert loop.now == 116

    played(scene)


def test_a_wait_without_an_end_may_take_for_ever():
    async def scene(loop: Clock, alarm: Alarm) -> None:
        await wait(loop, alarm, 5, done_in=1)
        await wait(loop, alarm, None, done_in=1000)
        assert loop.now == 1001

    played(scene)


def test_stopped_it_leaves_no_timer():
    async def scene(loop: Clock, alarm: Alarm) -> None:
        await wait(loop, alarm, 5, done_in=1)
        alarm.stop()
        assert loop.timers == 0
        alarm.stop()

    played(scene)


def test_an_idle_connection_has_no_timer(serve):
    server = serve(says("Hi."))

    async def main() -> int:
        async with AsyncClient(base_url=server.url, api_key="k", model="m-1") as client:
            assert (await client.run("Hello?")).text == "Hi."
            loop = asyncio.get_running_loop()
            return sum(not timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]  # asyncio's own

    assert asyncio.run(main()) == 0
