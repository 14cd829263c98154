from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from toolnexus.cancel import Cancel


def test_a_new_switch_is_not_cancelled_and_says_so() -> None:
    cancel = Cancel()
    assert not cancel.cancelled
    assert repr(cancel) == "<Cancel not cancelled>"


def test_cancelling_calls_every_callback_once_in_the_order_they_were_added() -> None:
    cancel, called = Cancel(), list[str]()
    cancel.add_callback(lambda: called.append("a"))
    cancel.add_callback(lambda: called.append("b"))
    cancel.cancel()
    cancel.cancel()
    assert called == ["a", "b"]
    assert cancel.cancelled
    assert repr(cancel) == "<Cancel cancelled>"


def test_a_callback_added_after_the_cancel_is_called_at_once() -> None:
    cancel, called = Cancel(), list[str]()
    cancel.cancel()
    remove = cancel.add_callback(lambda: called.append("a"))
    assert called == ["a"]
    remove()


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    cancel, called = Cancel(), list[str]()
    remove = cancel.add_callback(lambda: called.append("a"))
    cancel.add_callback(lambda: called.append("b"))
    remove()
    remove()
    cancel.cancel()
    remove()
    assert called == ["b"]


def test_the_same_function_added_twice_is_called_twice_and_taken_back_alone() -> None:
    cancel, called = Cancel(), list[str]()

    def callback() -> None:
        called.append("a")

    remove = cancel.add_callback(callback)
    cancel.add_callback(callback)
    remove()
    cancel.cancel()
    assert called == ["a"]


def test_a_callback_may_use_the_switch_itself() -> None:
    cancel, called = Cancel(), list[str]()

    def callback() -> None:
        cancel.cancel()
        cancel.add_callback(lambda: called.append("inner"))
        remove_other()

    cancel.add_callback(callback)
    remove_other = cancel.add_callback(lambda: called.append("other"))
    cancel.cancel()
    assert called == ["inner", "other"]  # it was under way already


def test_many_threads_cancel_once() -> None:
    cancel, called = Cancel(), list[int]()
    cancel.add_callback(lambda: called.append(threading.get_ident()))
    gate = threading.Barrier(8)

    def work() -> None:
        gate.wait()
        cancel.cancel()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(called) == 1
    assert called[0] in {thread.ident for thread in threads}


def test_every_callback_is_called_whether_it_comes_before_or_after_the_cancel() -> None:
    cancel, called = Cancel(), list[int]()
    gate = threading.Barrier(5)

    def add() -> None:
        gate.wait()
        for n in range(200):
            cancel.add_callback(lambda n=n: called.append(n))  # type: ignore[misc]  # the default binds the number

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.wait()
    cancel.cancel()
    for thread in threads:
        thread.join()
    assert sorted(called) == sorted(list(range(200)) * 4)


def test_a_callback_that_fails_does_not_keep_the_next_from_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    cancel, called = Cancel(), []

    def fails() -> None:
        raise ValueError("no")

    cancel.add_callback(fails)
    cancel.add_callback(lambda: called.append(1))
    cancel.cancel()
    assert called == [1]
    assert "a callback of Cancel failed" in caplog.text


@pytest.mark.parametrize("first", ["cancel", "note"])
def test_a_callback_is_called_once_when_a_signal_handler_cancels_while_it_is_added(first: str) -> None:
    cancel, called = Cancel(), list[str]()

    class Interrupted(dict[object, Callable[[], object]]):
        def __setitem__(self, token: object, callback: Callable[[], object]) -> None:
            if first == "cancel":
                cancel.cancel()
            super().__setitem__(token, callback)
            cancel.cancel()

    cancel._callbacks = Interrupted()
    cancel.add_callback(lambda: called.append("a"))()
    assert called == ["a"]
    assert cancel._callbacks == {}
