"""Daemon threads: as many as are wanted, used again, never waited for."""

from __future__ import annotations

import threading
import weakref
from collections import deque

from tests.server import PATIENCE_S
from toolnexus._io import threads
from toolnexus._io.threads import DaemonThreads


class Meeting:
    """Work that is done only when so many do it at once."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties, timeout=PATIENCE_S)
        self.names: list[str] = []

    def __call__(self) -> None:
        self.names.append(threading.current_thread().name)
        self._barrier.wait()


class Tokens(deque[None]):
    """Those of a pool, for a test that waits until so many threads are idle."""

    def __init__(self, pool: DaemonThreads) -> None:
        super().__init__()
        self._grew = threading.Condition()
        pool._tokens = self

    def append(self, token: None) -> None:
        with self._grew:
            super().append(token)
            self._grew.notify_all()

    def wait_for(self, count: int) -> None:
        with self._grew:
            assert self._grew.wait_for(lambda: len(self) == count, PATIENCE_S), f"{len(self)} threads are idle"


def run_and_wait(pool: DaemonThreads) -> threading.Thread:
    done = threading.Event()
    ran: list[threading.Thread] = []

    def work() -> None:
        ran.append(threading.current_thread())
        done.set()

    pool.start(work)
    assert done.wait(PATIENCE_S)
    return ran[0]


def test_as_many_threads_run_as_are_wanted_at_once():
    pool = DaemonThreads("test-pool")
    meeting = Meeting(5)
    for _ in range(4):
        pool.start(meeting)
    meeting()
    assert meeting.names.count("test-pool") == 4
    pool.close()


def test_threads_are_daemons():
    pool = DaemonThreads("test-pool")
    assert run_and_wait(pool).daemon
    pool.close()


def test_an_idle_thread_is_used_again():
    pool = DaemonThreads("test-pool")
    tokens = Tokens(pool)
    first = run_and_wait(pool)
    tokens.wait_for(1)
    assert run_and_wait(pool) is first
    pool.close()


def test_what_is_wanted_at_once_runs_at_once_on_used_threads_too():
    pool = DaemonThreads("test-pool")
    tokens = Tokens(pool)
    threads_so_far = 0
    for wanted in (2, 4, 3, 6, 1):
        meeting = Meeting(wanted + 1)
        for _ in range(wanted):
            pool.start(meeting)
        meeting()
        threads_so_far = max(threads_so_far, wanted)
        tokens.wait_for(threads_so_far)
    pool.close()


def test_nothing_waits_behind_a_function_that_runs():
    pool = DaemonThreads("test-pool")
    tokens = Tokens(pool)
    run_and_wait(pool)
    tokens.wait_for(1)
    over = threading.Event()
    pool.start(over.wait)
    assert run_and_wait(pool)
    over.set()
    pool.close()


def test_a_thread_that_was_counted_on_in_vain_ends_too(monkeypatch):
    pool = DaemonThreads("test-pool")
    tokens = Tokens(pool)
    monkeypatch.setattr(threads, "_IDLE_S", 0.05)
    thread = run_and_wait(pool)
    tokens.wait_for(1)
    assert pool._take_token()  # by a `start` that a KeyboardInterrupt ended
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_idle_threads_end_when_the_pool_is_closed():
    pool = DaemonThreads("test-pool")
    thread = run_and_wait(pool)
    pool.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_an_idle_thread_ends_after_a_while(monkeypatch):
    monkeypatch.setattr(threads, "_IDLE_S", 0.01)
    thread = run_and_wait(DaemonThreads("test-pool"))
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_closing_does_not_wait_for_a_busy_thread():
    pool = DaemonThreads("test-pool")
    over = threading.Event()
    pool.start(over.wait)
    pool.close()
    over.set()


def test_a_closed_pool_does_what_is_left_to_do_and_keeps_no_thread():
    pool = DaemonThreads("test-pool")
    run_and_wait(pool)
    pool.close()
    thread = run_and_wait(pool)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_an_idle_thread_keeps_nothing_of_its_work_alive():
    class Argument:
        pass

    pool = DaemonThreads("test-pool")
    argument = Argument()
    gone = threading.Event()
    weakref.finalize(argument, gone.set)
    pool.start(lambda kept=argument: None)  # type: ignore[misc]  # a default is how a lambda keeps it
    del argument
    assert gone.wait(PATIENCE_S)
    pool.close()
