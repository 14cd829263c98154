"""Every error that a run or a constructor raises; the type says whose fault it is.

    ToolnexusError
    ├── ConfigurationError              the caller: an argument that cannot work
    ├── APIStatusError                  the service answered, and the answer is an error
    │   ├── BadRequestError             400, 413, 422
    │   ├── AuthenticationError         401
    │   ├── PermissionDeniedError       403
    │   ├── NotFoundError               404
    │   ├── ConflictError               409
    │   ├── RateLimitError              429
    │   ├── OverloadedError             529, or `overloaded_error` inside a stream
    │   └── InternalServerError         any other 5xx
    ├── APIConnectionError              the network, or a server that hung up
    │   ├── APITimeoutError
    │   └── StreamInterruptedError      the response ended before it was complete
    ├── ProtocolError                   what came is not the protocol, or is beyond a limit
    ├── DeadlineExceededError           the run's own `deadline`
    ├── RunCancelledError               `Cancel.cancel()`
    ├── AnswerMismatchError             an answer that fits no open request
    └── StoreError                      a conversation could not be loaded or saved
        └── ConversationConflictError   somebody else saved it meanwhile

An error raised from a run has `.result`: a partial `RunResult` with what was said and done so far.
A tool's failure is none of these: it is a result for the model.
"""

from __future__ import annotations

from . import results


class ToolnexusError(Exception):
    """Base of every error of this library."""

    result: results.RunResult | None = None
    """What the run had said and done when it failed; `None` where there was no run."""


class ConfigurationError(ToolnexusError):
    """An argument cannot work; the message names it and says what was expected."""


class APIStatusError(ToolnexusError):
    """The service answered with an error: by HTTP status, or inside a stream or a 200."""

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        body: str = "",
        kind: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """The provider's own words where it gave some, else a description of the reply."""
        self.status_code = status_code
        """HTTP status; `None` for an error that came inside a stream."""
        self.body = body
        """The start of the error body, secrets removed, at most `Limits.error_body_bytes`."""
        self.kind = kind
        """The provider's own type or code of the error, such as `"overloaded_error"`."""
        self.request_id = request_id
        self.retry_after = retry_after
        """Seconds the service asked us to wait, if it did."""
        self.should_retry = should_retry
        """The service's own word on retrying (`x-should-retry`), which overrides the status."""
        self.url: str | None = None
        """Where the request went, without a query."""
        self.hint = ""
        """What to look at first, in our words; empty where there is nothing to say."""

    def __str__(self) -> str:
        where = f"status {self.status_code}" if self.status_code is not None else "error in the stream"
        kind = f" ({self.kind})" if self.kind else ""
        request = f" [request {self.request_id}]" if self.request_id else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{where}{kind}: {self.message}{request}{hint}"


class BadRequestError(APIStatusError):
    """The service refused the request as it is; sending it again will not help."""


class AuthenticationError(APIStatusError):
    """The key is missing, wrong or expired."""


class PermissionDeniedError(APIStatusError):
    """The key is known but may not do this."""


class NotFoundError(APIStatusError):
    """No such endpoint or model; are `base_url` and `model` right?"""


class ConflictError(APIStatusError):
    """The service reports a conflict; retried."""


class RateLimitError(APIStatusError):
    """Too many requests or tokens; retried after `retry_after`."""


class OverloadedError(APIStatusError):
    """The service is overloaded; retried."""


class InternalServerError(APIStatusError):
    """The service failed; retried."""


class APIConnectionError(ToolnexusError):
    """No connection, or a connection that broke."""


class APITimeoutError(APIConnectionError):
    """The service was silent for longer than `timeout` allows."""


class StreamInterruptedError(APIConnectionError):
    """The response ended before the protocol's own end mark; nothing of it counts as an answer."""


class ProtocolError(ToolnexusError):
    """What came is not the expected protocol, or is larger than `Limits` allows."""


class DeadlineExceededError(ToolnexusError):
    """The run took longer than its `deadline`."""


class RunCancelledError(ToolnexusError):
    """The run was cancelled through its `Cancel`."""


class AnswerMismatchError(ToolnexusError):
    """An answer names no open request, or was used before; nothing was changed."""


class StoreError(ToolnexusError):
    """The conversation could not be loaded or saved."""


class ConversationConflictError(StoreError):
    """The conversation was saved by somebody else since it was loaded."""
