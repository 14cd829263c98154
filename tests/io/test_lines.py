"""The line in front of a conversation: one at a time, in order, left by whoever gives up, closed to its own holder."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.queues import Watched, standing
from tests.server import PATIENCE_S
from toolnexus import Cancel, ConfigurationError, DeadlineExceededError, MemoryStore, RunCancelledError
from toolnexus._io import lines
from toolnexus._io.async_bounds import AsyncBounds
from toolnexus._io.bounds import Bounds
from toolnexus._io.lines import Place, apart, lend
from toolnexus.stores import Keep


@pytest.fixture
def keep() -> Keep:
    return Keep(MemoryStore(), "talk")


def entered(keep: Keep, cancel: Cancel | None = None, deadline: float = PATIENCE_S) -> Place:
    """A place whose turn has come, entered in this thread."""
    place = Place(keep)
    try:
        place.enter(Bounds(cancel, deadline))
    except BaseException:
        place.leave()
        raise
    return place


async def aentered(keep: Keep, cancel: Cancel | None = None, deadline: float = PATIENCE_S) -> Place:
    """A place whose turn has come, entered in this task."""
    place = Place(keep)
    try:
        await place.aenter(AsyncBounds(cancel, deadline))
    except BaseException:
        place.leave()
        raise
    return place


class Thread:
    """Does one thing in a thread of its own, and keeps what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.value = self._work()
        except BaseException as error:
            self.error = error

    def join(self) -> Any:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.value


def elsewhere(work: Callable[[], Any]) -> Any:
    """What `work` gives in another thread, which is over by then."""
    return Thread(work).join()


def open_when(queue: Watched, count: int, over: threading.Event) -> None:
    queue.wait_for(count)
    over.set()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)


# -- one at a time, in order


def test_a_free_line_is_entered_at_once_and_gone_once_it_is_left(keep):
    place = entered(keep)
    assert standing() == 1
    place.leave()
    assert lines._lines == {}
    place.leave()
    entered(keep).leave()


def test_a_place_that_never_entered_leaves_nothing_behind(keep):
    Place(keep).leave()
    assert lines._lines == {}


class Plain:
    """A store that can neither be hashed nor be referred to weakly."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def get(self, id: str) -> None:
        raise NotImplementedError

    def save(self, id: str, messages: object) -> None:
        raise NotImplementedError


def test_other_ids_and_other_stores_are_other_lines():
    store, twin = Plain(), Plain()
    places = [entered(Keep(store, "a")), entered(Keep(store, "b")), entered(Keep(twin, "a"))]
    assert len(lines._lines) == 3
    for place in places:
        place.leave()


def test_threads_get_their_turn_in_the_order_in_which_they_came(keep, queue):
    order: list[int] = []

    def work(number: int) -> None:
        place = entered(keep)
        order.append(number)
        place.leave()

    first = entered(keep)
    threads = []
    for number in range(5):
        threads.append(Thread(lambda number=number: work(number)))  # type: ignore[misc]  # a default binds it
        queue.wait_for(number + 2)
    assert order == []
    first.leave()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_tasks_get_their_turn_in_the_order_in_which_they_came(keep):
    async def main() -> list[int]:
        order: list[int] = []

        async def work(number: int) -> None:
            place = await aentered(keep)
            order.append(number)
            await asyncio.sleep(0)
            place.leave()

        await asyncio.gather(*(work(number) for number in range(5)))
        return order

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_threads_and_tasks_of_several_loops_stand_in_one_line(keep, queue):
    order: list[str] = []

    def in_a_loop(name: str) -> None:
        async def main() -> None:
            place = await aentered(keep)
            order.append(name)
            place.leave()

        asyncio.run(main())

    def in_a_thread(name: str) -> None:
        place = entered(keep)
        order.append(name)
        place.leave()

    first = entered(keep)
    threads = []
    for number, work in enumerate((in_a_loop, in_a_thread, in_a_loop, in_a_thread)):
        threads.append(Thread(lambda work=work, number=number: work(f"{number}")))  # type: ignore[misc]  # a default binds the name
        queue.wait_for(number + 2)
    first.leave()
    for thread in threads:
        thread.join()
    assert order == ["0", "1", "2", "3"]


def test_many_threads_never_hold_one_line_at_once(keep):
    inside, start = threading.Lock(), threading.Barrier(8, timeout=PATIENCE_S)

    def work() -> None:
        start.wait()
        for _ in range(200):
            place = entered(keep)
            assert inside.acquire(blocking=False)
            inside.release()
            place.leave()

    for thread in [Thread(work) for _ in range(8)]:
        thread.join()


# -- giving up


@pytest.mark.parametrize("how", ["deadline", "cancel", "cancelled before"])
def test_a_thread_that_gives_up_leaves_the_line(keep, queue, how):
    first = entered(keep)
    cancel = Cancel()
    if how == "cancelled before":
        cancel.cancel()
    waits = Thread(lambda: entered(keep, cancel, 0.02 if how == "deadline" else PATIENCE_S))
    if how == "cancel":
        queue.wait_for(2)
        cancel.cancel()
    with pytest.raises(DeadlineExceededError if how == "deadline" else RunCancelledError):
        waits.join()
    assert standing() == 1
    first.leave()


def test_a_wait_leaves_nothing_at_the_bounds_of_the_run(keep):
    first, bounds = entered(keep), Bounds(None, 0.01)
    place = Place(keep)

    def wait() -> None:
        try:
            place.enter(bounds)
        finally:
            place.leave()

    with pytest.raises(DeadlineExceededError):
        elsewhere(wait)
    assert bounds.cancel._callbacks == {}
    first.leave()


@pytest.mark.parametrize("how", ["deadline", "cancel", "task.cancel()"])
def test_a_task_that_gives_up_leaves_the_line(keep, how):
    async def main() -> None:
        cancel = Cancel()
        first = await aentered(keep)
        waits = asyncio.create_task(aentered(keep, cancel, 0.02 if how == "deadline" else PATIENCE_S))
        await until(lambda: standing() == 2)
        if how != "deadline":
            (waits if how == "task.cancel()" else cancel).cancel()
        kinds = {"deadline": DeadlineExceededError, "cancel": RunCancelledError}
        with pytest.raises(kinds.get(how, asyncio.CancelledError)):
            await waits
        assert standing() == 1
        first.leave()

    asyncio.run(main())


def test_one_in_the_middle_who_gives_up_holds_up_nobody(keep, queue):
    first, cancel = entered(keep), Cancel()
    gives_up = Thread(lambda: entered(keep, cancel))
    queue.wait_for(2)
    last = Thread(lambda: entered(keep).leave())
    queue.wait_for(3)
    cancel.cancel()
    with pytest.raises(RunCancelledError):
        gives_up.join()
    assert standing() == 2
    first.leave()
    last.join()


def test_a_task_that_is_cancelled_just_as_its_turn_comes_passes_it_on(keep):
    async def main() -> None:
        first = await aentered(keep)
        second, third = asyncio.create_task(aentered(keep)), asyncio.create_task(aentered(keep))
        await until(lambda: standing() == 3)
        first.leave()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        (await third).leave()

    asyncio.run(main())


def test_a_task_may_be_told_twice_that_its_turn_has_come(keep):
    async def main() -> None:
        first = await aentered(keep)
        second, third = asyncio.create_task(aentered(keep)), asyncio.create_task(aentered(keep))
        await until(lambda: standing() == 3)
        first.leave()
        third.cancel()  # who leaves tells the first of the line again, which does not hurt
        await asyncio.gather(third, return_exceptions=True)
        (await second).leave()

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals cannot be sent to a thread on this system")
def test_an_interrupt_from_the_keyboard_ends_the_wait(keep, queue):
    holds, interrupted, over = threading.Event(), threading.Event(), threading.Event()

    def press(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def hold() -> None:
        place = entered(keep)
        holds.set()
        over.wait(PATIENCE_S)
        place.leave()

    def interrupt() -> None:
        queue.wait_for(2)
        while not interrupted.wait(0.01):  # a signal that comes just before the wait begins is seen after it
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, press)
    try:
        holder = Thread(hold)
        assert holds.wait(PATIENCE_S)
        interrupts = Thread(interrupt)
        with pytest.raises(KeyboardInterrupt):
            entered(keep)
        interrupts.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert standing() == 1
    over.set()
    holder.join()


# -- vanishing


def test_a_place_that_is_dropped_is_left(keep, queue):
    place = entered(keep)
    waits = Thread(lambda: entered(keep).leave())
    queue.wait_for(2)
    del place
    waits.join()


def test_a_place_that_the_garbage_collector_finds_in_another_thread_is_left(keep, queue):
    class Node:
        def __init__(self, place: Place) -> None:
            self.place = place
            self.me = self  # only the collector can free it

    gc.disable()
    try:
        node = Node(entered(keep))
        waits = Thread(lambda: entered(keep).leave())
        queue.wait_for(2)
        del node
        elsewhere(gc.collect)
        waits.join()
    finally:
        gc.enable()


def test_a_run_that_comes_while_the_collector_is_at_the_one_at_work_waits_for_the_end_of_that(keep, queue):
    came: list[Thread] = []

    class Node:
        def __init__(self) -> None:
            self.me, self.place = self, entered(keep)

        def __del__(self) -> None:  # references to the place are cleared by now, and it has not been left yet
            came.append(Thread(lambda: entered(keep).leave()))
            queue.wait_for(2)

    gc.disable()
    try:
        Node()
        gc.collect()
    finally:
        gc.enable()
    came[0].join()


def test_a_place_may_be_left_by_a_finalizer_in_the_midst_of_a_change(keep, queue):
    place = entered(keep)
    waits = Thread(lambda: entered(keep).leave())
    queue.wait_for(2)
    with lines._lock:  # as when the collector runs inside
        del place
    waits.join()


def test_a_line_that_vanishes_while_somebody_joins_it_is_made_again(keep, monkeypatch):
    places: list[Place] = []

    class Collected(dict[Any, Any]):
        """The garbage collector strikes once a line was looked up."""

        def setdefault(self, key: Any, default: Any = None) -> Any:
            line = super().setdefault(key, default)
            places.clear()
            return line

    monkeypatch.setattr(lines, "_lines", Collected())
    places.append(elsewhere(lambda: entered(keep)))
    place = entered(keep)
    assert standing() == 1
    place.leave()
    assert lines._lines == {}


def test_a_task_whose_loop_was_closed_while_it_waited_holds_up_nobody(keep, queue):
    first = entered(keep)
    loop = asyncio.new_event_loop()
    dead = [loop.create_task(aentered(keep)), loop.create_task(aentered(keep))]

    async def until_all_wait() -> None:
        await until(lambda: standing() == 3)

    elsewhere(lambda: loop.run_until_complete(until_all_wait()))
    loop.close()
    last = Thread(lambda: entered(keep).leave())
    queue.wait_for(4)
    first.leave()
    last.join()
    assert lines._lines == {}
    for task in dead:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # that it is lost is what this is about


def test_a_line_of_the_dead_is_empty(keep):
    loop = asyncio.new_event_loop()
    first = entered(keep)
    task = loop.create_task(aentered(keep))

    async def until_it_waits() -> None:
        await until(lambda: standing() == 2)

    elsewhere(lambda: loop.run_until_complete(until_it_waits()))
    loop.close()
    first.leave()
    assert lines._lines == {}
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own switch


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork on this system")
def test_a_forked_child_begins_with_empty_lines_and_the_parent_keeps_its_own():
    code = """
        import os, threading
        from toolnexus import MemoryStore
        from toolnexus._io import lines
        from toolnexus._io.bounds import Bounds
        from toolnexus.stores import Keep

        keep = Keep(MemoryStore(), "talk")
        mine = lines.Place(keep)
        mine.enter(Bounds(None, None))
        taken, over = threading.Event(), threading.Event()

        def hold_the_lock():
            with lines._lock:
                taken.set()
                over.wait()

        thread = threading.Thread(target=hold_the_lock, daemon=True)
        thread.start()
        taken.wait()
        child = os.fork()
        if child == 0:
            place = lines.Place(keep)
            place.enter(Bounds(None, 5))
            mine.leave()
            assert len(lines._lines) == 1  # a copy of the parent's place is nobody here
            place.leave()
            assert lines._lines == {}
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        over.set()
        thread.join()
        assert len(lines._lines) == 1
        mine.leave()
        assert lines._lines == {}
    """
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert (run.stdout, run.stderr, run.returncode) == ("", "", 0)


def test_what_a_forked_child_forgets_holds_up_nobody_there(keep):
    place, lock = entered(keep), lines._lock
    lines._forget()
    assert lines._lock is not lock
    other = entered(keep)
    place.leave()
    assert standing() == 1
    other.leave()


# -- waiting for oneself


def test_a_thread_that_holds_a_place_is_refused_and_stands_nowhere(keep):
    place = entered(keep)
    with pytest.raises(ConfigurationError, match=r"conversation 'talk' is at work .* read its events to the end"):
        entered(keep)
    assert standing() == 1
    place.leave()
    entered(keep).leave()


def test_a_task_that_holds_a_place_is_refused_and_others_may_wait(keep):
    async def main() -> None:
        place = await aentered(keep)
        with pytest.raises(ConfigurationError, match="read its events to the end"):
            await aentered(keep)
        waits = asyncio.create_task(aentered(keep))  # merely made by the one who holds it
        await until(lambda: standing() == 2)
        place.leave()
        (await waits).leave()

    asyncio.run(main())


def test_whoever_read_last_is_the_one_who_holds_it(keep, queue):
    place = entered(keep)
    stepped, over = threading.Event(), threading.Event()

    def step() -> None:
        place.stepped()
        stepped.set()
        with pytest.raises(ConfigurationError):
            entered(keep)
        assert over.wait(PATIENCE_S)
        place.leave()

    reader = Thread(step)
    assert stepped.wait(PATIENCE_S)
    opens = Thread(lambda: open_when(queue, 2, over))
    entered(keep).leave()  # it is the other thread's now, so that this one may wait
    reader.join()
    opens.join()


def test_when_the_last_reader_is_gone_it_is_the_maker_who_holds_it(keep):
    place = entered(keep)
    elsewhere(place.stepped)
    with pytest.raises(ConfigurationError):
        entered(keep)
    place.leave()

    async def main() -> None:
        place = Place(keep)

        async def step() -> None:
            await place.aenter(AsyncBounds(None, None))

        await asyncio.create_task(step())
        with pytest.raises(ConfigurationError):
            await aentered(keep)
        place.leave()

    asyncio.run(main())


def test_what_a_run_starts_and_waits_for_is_refused_and_what_it_does_not_wait_for_may_wait(keep):
    async def main() -> None:
        bounds = AsyncBounds(None, None)
        place = Place(keep)
        await place.aenter(bounds)
        with lend(bounds.lent):
            tool = asyncio.create_task(aentered(keep))
            with apart():
                observer = asyncio.create_task(aentered(keep))
        with pytest.raises(ConfigurationError, match="a tool, hook or wait_for of it would wait for its own run"):
            await tool
        await until(lambda: standing() == 2)
        place.leave()
        (await observer).leave()

    asyncio.run(main())


def test_what_a_tool_of_a_tool_starts_is_refused_too(keep):
    other = Keep(keep.store, "other")

    async def main() -> None:
        outer, inner = AsyncBounds(None, None), AsyncBounds(None, None)
        mine, its = Place(keep), Place(other)
        await mine.aenter(outer)

        async def tool() -> None:
            await its.aenter(inner)
            with lend(inner.lent):
                await asyncio.create_task(aentered(keep))

        with lend(outer.lent), pytest.raises(ConfigurationError, match="'talk'"):
            await asyncio.create_task(tool())
        mine.leave()
        its.leave()

    asyncio.run(main())


def test_nothing_is_lent_by_a_run_that_stands_in_no_line(keep):
    with lend((Place(keep)._ref,)), lend(()):
        assert len(lines._lenders.get()) == 1
    assert lines._lenders.get() == ()


def test_a_thread_cannot_wait_for_a_task_of_its_own_event_loop(keep):
    async def main() -> None:
        held, over = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            place = await aentered(keep)
            held.set()
            await over.wait()
            place.leave()

        task = asyncio.create_task(hold())
        await held.wait()
        with pytest.raises(ConfigurationError, match="of this thread or task"):
            entered(keep)  # the loop would stand still
        over.set()
        await task

    asyncio.run(main())


def test_a_task_waits_for_another_task_that_reads_a_sync_run_and_not_for_a_reader_outside_of_the_loop(keep):
    outside = entered(Keep(keep.store, "outside"))

    async def main() -> None:
        held, over = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            place = entered(keep)
            held.set()
            await over.wait()
            place.leave()

        task = asyncio.create_task(hold())
        await held.wait()
        waits = asyncio.create_task(aentered(keep))
        await until(lambda: standing() == 3)
        over.set()
        await task
        (await waits).leave()
        with pytest.raises(ConfigurationError, match="'outside'"):
            await aentered(Keep(keep.store, "outside"))  # this thread reads on only after asyncio.run

    asyncio.run(main())
    outside.leave()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_one_who_would_close_a_circle_is_refused(queue, size):
    store = MemoryStore()
    ready = threading.Barrier(size, timeout=PATIENCE_S)
    refused: list[str] = []

    def work(number: int) -> None:
        mine = entered(Keep(store, f"id {number}"))
        ready.wait()
        queue.wait_for(size + number)  # one after the other
        try:
            entered(Keep(store, f"id {(number + 1) % size}")).leave()
        except ConfigurationError as error:
            refused.append(str(error))
        finally:
            mine.leave()

    for thread in [Thread(lambda number=number: work(number)) for number in range(size)]:  # type: ignore[misc]  # a default binds the name
        thread.join()
    (message,) = refused
    assert "conversation 'id 0' is at work on a run that waits, perhaps by way of others, for" in message
    assert f"conversation 'id {size - 1}', which waits for this run" in message


def test_a_chain_that_is_no_circle_is_waited_for(queue):
    store = MemoryStore()
    a, b, c = (Keep(store, name) for name in "abc")
    over = threading.Event()

    def last() -> None:
        place = entered(c)
        assert over.wait(PATIENCE_S)
        place.leave()

    def middle() -> None:
        place = entered(b)
        entered(c).leave()
        place.leave()

    holder = Thread(last)
    queue.wait_for(1)
    between = Thread(middle)
    queue.wait_for(3)
    mine = entered(a)  # so that there might be a circle
    opens = Thread(lambda: open_when(queue, 5, over))
    entered(b).leave()
    mine.leave()
    for thread in (holder, between, opens):
        thread.join()
