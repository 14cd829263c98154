"""The retry policy, and what tenacity makes of it: with waits that are recorded and not waited for."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tenacity import Retrying

from tests.tables import retry_after_cases
from toolnexus import errors
from toolnexus._core.failure import error_for_status, retry_after
from toolnexus._core.reply import Reply
from toolnexus._core.turn import Turn
from toolnexus._core.wire.openai import OpenAIReader
from toolnexus.limits import Limits
from toolnexus.retry import RetryBudget, RetryPolicy


def policy(**options: Any) -> RetryPolicy:
    return RetryPolicy(jitter=lambda: 1.0, **options)


def tries(
    policy: RetryPolicy, attempt: Callable[[int], object], remaining: Callable[[], float] = lambda: math.inf
) -> tuple[int, list[float], BaseException | None]:
    """How often `attempt` was called, the waits in between, and the error that came out."""
    calls, waits = 0, list[float]()

    def call() -> object:
        nonlocal calls
        calls += 1
        return attempt(calls)

    try:
        Retrying(**policy.tenacity(remaining), sleep=waits.append)(call)
    except BaseException as error:
        return calls, waits, error
    return calls, waits, None


def failing(error: BaseException, times: int = 10**6) -> Callable[[int], object]:
    def attempt(number: int) -> object:
        if number <= times:
            raise error
        return number

    return attempt


def status(code: int, **options: Any) -> errors.APIStatusError:
    return error_for_status(code, b"", **options)


# -- which errors


@pytest.mark.parametrize("code", [408, 409, 429, 500, 501, 502, 503, 504, 520, 529, 599])
def test_these_statuses_are_worth_another_try(code: int) -> None:
    assert policy().is_retryable(status(code))
    assert not policy().is_retryable(status(code, should_retry=False))


@pytest.mark.parametrize("code", [300, 307, 400, 401, 403, 404, 410, 413, 418, 422, 451])
def test_these_statuses_are_not_worth_another_try(code: int) -> None:
    assert not policy().is_retryable(status(code))
    assert policy().is_retryable(status(code, should_retry=True))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.APIConnectionError("x"), True),
        (errors.APITimeoutError("x"), True),
        (errors.StreamInterruptedError("x"), True),
        (errors.RateLimitError("in the stream"), True),
        (errors.OverloadedError("in the stream"), True),
        (errors.InternalServerError("in the stream"), True),
        (errors.APIStatusError("in the stream"), False),
        (errors.BadRequestError("in the stream"), False),
        (errors.AuthenticationError("in the stream"), False),
        (errors.ConflictError("in the stream"), False),
        (errors.ProtocolError("x"), False),
        (errors.ConfigurationError("x"), False),
        (errors.DeadlineExceededError("x"), False),
        (errors.RunCancelledError("x"), False),
        (errors.StoreError("x"), False),
        (ValueError("x"), False),
        (OSError("x"), False),
        (KeyboardInterrupt(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_errors_are_judged_by_their_class(error: BaseException, expected: bool) -> None:
    assert policy().is_retryable(error) is expected
    calls, _, raised = tries(policy(retries=1), failing(error))
    assert (calls, raised) == (2 if expected else 1, error)


# -- how long


def test_waits_double_and_stop_growing_at_eight_seconds() -> None:
    assert [policy().wait(None, n) for n in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert policy().wait(errors.APIConnectionError("x"), 10**6) == 8
    assert policy(base=20.0).wait(None, 1) == 8
    assert policy(base=0.0).wait(None, 5) == 0


def test_jitter_takes_away_up_to_half_of_a_wait() -> None:
    assert RetryPolicy(jitter=lambda: 0.0).wait(None, 2) == 0.5
    assert RetryPolicy(jitter=lambda: 0.5).wait(None, 2) == 0.75
    assert 0.25 <= RetryPolicy().wait(None, 1) <= 0.5


def test_what_the_service_asks_for_is_waited_without_jitter() -> None:
    assert RetryPolicy().wait(status(429, retry_after=7.25), 3) == 7.25
    assert RetryPolicy().wait(status(503, retry_after=0.0), 3) == 0


# -- what tenacity makes of it


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_a_failure_that_stays_is_tried_as_often_as_was_said_and_comes_out_as_it_is(retries: int) -> None:
    error = errors.APIConnectionError("no route")
    calls, waits, raised = tries(policy(retries=retries), failing(error))
    assert calls == retries + 1
    assert waits == [0.5, 1, 2, 4, 8][:retries]
    assert raised is error


def test_a_success_ends_the_tries() -> None:
    assert tries(policy(retries=5), failing(status(503), times=2)) == (3, [0.5, 1.0], None)


def test_a_wait_that_the_service_asks_for_is_bounded() -> None:
    assert tries(policy(), failing(status(429, retry_after=60.0), times=1)) == (2, [60.0], None)
    calls, waits, raised = tries(policy(), failing(status(429, retry_after=60.1)))
    assert (calls, waits) == (1, [])
    assert isinstance(raised, errors.RateLimitError)
    assert tries(policy(max_retry_after=0.0), failing(status(429, retry_after=0.0), times=1)) == (2, [0.0], None)
    assert tries(policy(), failing(status(429, retry_after=math.inf)))[:2] == (1, [])


def test_our_own_backoff_is_not_bounded_by_what_a_service_may_ask() -> None:
    assert tries(policy(max_retry_after=0.0), failing(status(500), times=1)) == (2, [0.5], None)


def test_a_wait_that_the_deadline_does_not_leave_is_not_begun() -> None:
    error = status(429, retry_after=30.0)
    assert tries(policy(), failing(error), lambda: 5.0) == (1, [], error)
    assert tries(policy(), failing(error), lambda: 30.0) == (1, [], error)
    assert tries(policy(), failing(error, times=1), lambda: 30.1) == (2, [30.0], None)
    dropped = errors.APIConnectionError("x")
    assert tries(policy(), failing(dropped), lambda: 0.4) == (1, [], dropped)


def test_the_deadline_is_asked_anew_before_each_wait() -> None:
    left = iter([10.0, 0.9])
    error = errors.APIConnectionError("x")
    assert tries(policy(retries=5), failing(error), lambda: next(left)) == (2, [0.5], error)


# -- Retry-After, from the header to the wait


@pytest.mark.case("retry-after-http-date", "retry-after-ms-header", "retry-after-seconds")
@pytest.mark.parametrize("case", retry_after_cases(), ids=lambda case: case["name"])
def test_a_reply_with_these_headers_is_waited_for_like_this(case: dict[str, Any]) -> None:
    code = int(case["headers"].get(":status", 429))
    left = float(case["headers"].get(":deadline", "inf"))
    headers = {name.lower(): value for name, value in case["headers"].items() if not name.startswith(":")}
    turn = Turn(Limits())
    reply = Reply(code, headers, case["now"], OpenAIReader(turn), turn, Limits())
    with pytest.raises(errors.APIStatusError) as caught:
        reply.ended()
    calls, waits, _ = tries(policy(), failing(caught.value, times=1), lambda: left)
    match case["delay"]:
        case "give_up":
            assert (calls, waits) == (1, [])
        case "backoff":
            assert (calls, waits) == (2, [0.5])
        case seconds:
            assert calls == 2
            assert waits == pytest.approx([seconds])
    if "x-should-retry" not in headers:
        assert caught.value.retry_after == retry_after(headers, case["now"])


def test_the_table_has_every_kind_of_row() -> None:
    delays = [case["delay"] for case in retry_after_cases()]
    assert len(delays) == 52
    assert {"give_up", "backoff", 0, 1.5} <= set(delays)


# -- the budget of a client


def emptied(policy: RetryPolicy) -> RetryPolicy:
    while policy.budget.take():
        pass
    return policy


def test_a_budget_pays_for_five_hundred_retries_and_then_for_none() -> None:
    budget = RetryBudget()
    assert [budget.take() for _ in range(501)] == [True] * 500 + [False]
    assert budget.left == 0


def test_five_successes_earn_a_retry_and_one_after_a_retry_gives_it_back() -> None:
    budget = emptied(policy()).budget
    for _ in range(4):
        budget.succeeded(after_retry=False)
    assert budget.left == 0
    budget.succeeded(after_retry=False)
    assert budget.left == 1
    budget.succeeded(after_retry=True)
    assert budget.left == 2


def test_a_budget_never_grows_beyond_what_it_began_with() -> None:
    budget = RetryBudget()
    for _ in range(10):
        budget.succeeded(after_retry=True)
    assert budget.left == 500


def test_with_an_empty_budget_a_failure_is_not_tried_again_and_says_why() -> None:
    error = errors.APIConnectionError("no route")
    calls, waits, raised = tries(emptied(policy()), failing(error))
    assert (calls, waits, raised) == (1, [], error)
    assert error.__notes__ == [
        "not tried again: the retry budget of this client is used up until requests succeed",
    ]


def test_what_is_not_tried_again_anyhow_costs_nothing_and_says_nothing() -> None:
    shared = policy()
    for error, remaining in [
        (errors.AuthenticationError("bad key"), math.inf),
        (status(429, retry_after=61.0), math.inf),
        (errors.APIConnectionError("x"), 0.1),
    ]:
        tries(shared, failing(error), lambda left=remaining: left)  # type: ignore[misc]  # the default binds the number
        assert not hasattr(error, "__notes__")
    tries(policy(retries=0, budget=shared.budget), failing(errors.APIConnectionError("x")))
    assert shared.budget.left == 500


def test_runs_of_one_client_share_its_budget() -> None:
    shared = policy(retries=2)
    assert sum(tries(shared, failing(status(503)))[0] for _ in range(1000)) == 1000 + 500
    assert tries(shared, failing(status(503), times=0))[0] == 1
    assert shared.budget.left == 0


def test_a_retry_that_helps_costs_nothing_in_the_end() -> None:
    shared = policy()
    for _ in range(1000):
        assert tries(shared, failing(status(503), times=1))[0] == 2
    assert shared.budget.left == 500


def test_a_service_that_limits_the_rate_and_says_when_to_come_back_is_not_dead() -> None:
    shared = emptied(policy())
    assert tries(shared, failing(status(429, retry_after=1.0)))[0] == 3
    assert tries(shared, failing(status(429, retry_after=0.0)))[0] == 1
    assert tries(shared, failing(status(429)))[0] == 1
    assert tries(shared, failing(status(503, retry_after=1.0)))[0] == 1
    shared.budget.succeeded(after_retry=True)
    paid_then_paced = [status(503), status(429, retry_after=1.0)]

    def attempt(number: int) -> None:
        if number <= 2:
            raise paid_then_paced[number - 1]

    assert tries(shared, attempt)[0] == 3
    assert shared.budget.left == 0  # what was paid did not help: the wait did


@pytest.mark.parametrize(("failing_of_ten", "holds"), [(3, True), (5, False)])
def test_three_of_ten_attempts_may_fail_for_ever(failing_of_ten: int, holds: bool) -> None:
    shared = policy()
    dice = random.Random(7)

    def attempt(number: int) -> None:
        if dice.random() < failing_of_ten / 10:
            raise status(503)

    for _ in range(5_000):
        tries(shared, attempt)
    assert (shared.budget.left > 400) is holds
    assert (shared.budget.left < 5) is not holds


def test_threads_share_a_budget_to_the_last_retry() -> None:
    budget = RetryBudget()
    taken: list[int] = []
    gate = threading.Barrier(16)

    def work() -> None:
        gate.wait()
        taken.append(sum(budget.take() for _ in range(100)))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 500
