"""Which failures are worth another try, and how long to wait before it.

Only the opening of a response is tried again; once anything of it was shown, never.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import APIConnectionError, APIStatusError, InternalServerError, OverloadedError, RateLimitError

if TYPE_CHECKING:
    from tenacity import RetryCallState

_MAX_BACKOFF_S = 8.0
"""Where the exponential wait stops growing; the OpenAI and Anthropic SDKs stop there too."""


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
        retry_seen: Callable[[int, float, BaseException | None], object] = lambda attempt, wait, error: None,
    ) -> dict[str, Any]:  # Any: arguments of tenacity's two classes
        """The rules as arguments of `tenacity.Retrying` and `tenacity.AsyncRetrying`.

        Args:
            remaining: Seconds left of the run's deadline; a wait that does not fit into it is not begun.
            retry_seen: Told of each retry before its wait: the tries so far, the seconds, the error.
        """
        import tenacity

        def wait(state: RetryCallState) -> float:
            return self.wait(_error(state), state.attempt_number)

        def stop(state: RetryCallState) -> bool:
            asked = state.upcoming_sleep
            return (
                state.attempt_number > self.retries
                or asked >= remaining()
                or (_asked_to_wait(_error(state)) and asked > self.max_retry_after)
            )

        def before_sleep(state: RetryCallState) -> None:
            retry_seen(state.attempt_number, state.upcoming_sleep, _error(state))

        return {
            # Never a predicate that accepts everything: it would swallow a cancel.
            "retry": tenacity.retry_if_exception_type((APIStatusError, APIConnectionError))
            & tenacity.retry_if_exception(self.is_retryable),
            "wait": wait,
            "stop": stop,
            "before_sleep": before_sleep,
            "reraise": True,
        }


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _asked_to_wait(error: BaseException | None) -> bool:
    return isinstance(error, APIStatusError) and error.retry_after is not None
