"""Daemon threads: as many as are wanted, used again, never waited for."""

from __future__ import annotations

import threading
import weakref

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
    first = run_and_wait(pool)
    with pool._wanted:
        assert pool._wanted.wait_for(lambda: pool._idle == 1, PATIENCE_S) or pool._idle == 1
    assert run_and_wait(pool) is first
    pool.close()


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
