"""Which failures are worth another try, and how long to wait before it.

Only the opening of a response is tried again; once anything of it was shown, never.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from .errors import APIConnectionError, APIStatusError, InternalServerError, OverloadedError, RateLimitError

if TYPE_CHECKING:
    from tenacity import RetryCallState

_MAX_BACKOFF_S = 8.0
"""Where the exponential wait stops growing; the OpenAI and Anthropic SDKs stop there too."""


_BUDGET = 500
"""Retries that a client has before it needs successes: 250 calls that fail for good, at once or in a row, with two
retries each. AWS's clients begin with a hundred; ours are for many streams at once."""
_SUCCESSES_PER_RETRY = 5
"""As in AWS's clients. With two retries, three of ten attempts may fail for ever and the budget holds; a service that
comes back meets a fifth more requests at most."""


RetrySeen = Callable[[int, float, BaseException | None], object]
"""Told of each retry before its wait: the tries so far, the seconds, the error."""


class RetryBudget:
    """How often a client may still try again, over all its runs, so that a dead service is not hammered.

    A retry takes one from the budget. One that leads to a response is given back, and every five responses at the
    first try earn one, up to the full budget. With an empty budget a failed request is not tried again: a dead service
    then gets one request for each call.

    Threads may share it.

    Source: the retry quota of AWS's clients (botocore, retry mode "standard"), with a capacity of our own.
    """

    def __init__(self) -> None:
        # No lock: both are atomic without, and a forked child must not find one that a lost thread holds.
        self._left = deque([None] * _BUDGET, maxlen=_BUDGET)
        self._successes = count(1)

    @property
    def left(self) -> int:
        """Retries that may be made now."""
        return len(self._left)

    def take(self) -> bool:
        """Take one retry; `False` if none is left."""
        try:
            self._left.pop()
        except IndexError:
            return False
        return True

    def succeeded(self, *, after_retry: bool) -> None:
        """A response came: at the first try, or after a retry that was taken from here."""
        if after_retry or next(self._successes) % _SUCCESSES_PER_RETRY == 0:
            self._left.append(None)  # beyond the full budget one falls out at the other end


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The rules, as plain functions of an error; both clients hand them to tenacity."""

    retries: int = 2
    """Tries after the first one, for each model response."""
    base: float = 0.5
    """Seconds before the first retry; each further one waits twice as long."""
    max_retry_after: float = 60.0
    """Seconds that a service may ask us to wait; if it asks for more we give up at once."""
    jitter: Callable[[], float] = random.random
    """A number from 0 to 1."""
    budget: RetryBudget = field(default_factory=RetryBudget, repr=False, compare=False)
    """Shared by all runs of a client."""

    def is_retryable(self, error: BaseException) -> bool:
        """Whether the same request may well succeed in a while."""
        if isinstance(error, APIStatusError):
            if error.should_retry is not None:
                return error.should_retry
            if error.status_code is None:  # inside a stream: by what it says it is
                return isinstance(error, (RateLimitError, OverloadedError, InternalServerError))
            return error.status_code in (408, 409, 429) or error.status_code >= 500
        return isinstance(error, APIConnectionError)

    def wait(self, error: BaseException | None, attempt: int) -> float:
        """Seconds before the next try, after `attempt` tries: what the service asks for, else backoff with jitter."""
        if isinstance(error, APIStatusError) and error.retry_after is not None:
            return error.retry_after
        doublings = min(attempt - 1, 60)  # a float ends at 2 ** 1023
        return min(self.base * 2.0**doublings, _MAX_BACKOFF_S) * (0.5 + self.jitter() / 2)

    def tenacity(
        self,
        remaining: Callable[[], float],
        retry_seen: RetrySeen = lambda attempt, wait, error: None,
    ) -> dict[str, Any]:  # Any: arguments of tenacity's two classes
        """The rules as arguments of `tenacity.Retrying` and `tenacity.AsyncRetrying`.

        Args:
            remaining: Seconds left of the run's deadline; a wait that does not fit into it is not begun.
            retry_seen: Told of each retry.
        """
        taken = False  # whether the latest retry came out of the budget

        def retry(state: RetryCallState) -> bool:
            error = _error(state)
            if error is None:
                self.budget.succeeded(after_retry=taken)
                return False
            return self.is_retryable(error)  # which a cancel is not: trying again would swallow it

        def wait(state: RetryCallState) -> float:
            return self.wait(_error(state), state.attempt_number)

        def stop(state: RetryCallState) -> bool:
            nonlocal taken
            error, asked = _error(state), state.upcoming_sleep
            if (
                state.attempt_number > self.retries
                or asked >= remaining()
                or (_asked_to_wait(error) and asked > self.max_retry_after)
            ):
                return True
            # A service that limits our rate and says when to come back is not dead: it paces us itself.
            is_paced = isinstance(error, RateLimitError) and bool(error.retry_after)
            taken = not is_paced and self.budget.take()
            if is_paced or taken:
                return False
            if error is not None:
                error.add_note("not tried again: the retry budget of this client is used up until requests succeed")
            return True

        def before_sleep(state: RetryCallState) -> None:
            retry_seen(state.attempt_number, state.upcoming_sleep, _error(state))

        return {
            "retry": retry,
            "wait": wait,
            "stop": stop,
            "before_sleep": before_sleep,
            "reraise": True,
        }


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _asked_to_wait(error: BaseException | None) -> bool:
    return isinstance(error, APIStatusError) and error.retry_after is not None
