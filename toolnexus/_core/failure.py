"""From what a service says went wrong to the error class that fits."""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    InternalServerError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    RateLimitError,
)
from .payload import well_formed

_MESSAGE_CHARS = 2000
"""How much we show of a provider's own words: some quote the whole request."""
_STATUS = re.compile(r"[0-9]{3}\Z")

_BY_STATUS: dict[int, type[APIStatusError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: BadRequestError,
    422: BadRequestError,
    429: RateLimitError,
    529: OverloadedError,
}

# Words that providers use for `type` and `code` of an error, compared without case, `_` and `-`.
# Sources: OpenAI "Error codes" guide; Anthropic "Errors"; Groq, OpenRouter, vLLM, llama.cpp observed.
_BY_KIND: dict[str, type[APIStatusError]] = {
    "invalidrequesterror": BadRequestError,
    "badrequesterror": BadRequestError,
    "badrequest": BadRequestError,
    "invalidargument": BadRequestError,
    "requesttoolarge": BadRequestError,
    "contextlengthexceeded": BadRequestError,
    "exceedcontextsizeerror": BadRequestError,
    "unprocessableentityerror": BadRequestError,
    "toolusefailed": BadRequestError,
    "authenticationerror": AuthenticationError,
    "invalidapikey": AuthenticationError,
    "unauthorized": AuthenticationError,
    "permissionerror": PermissionDeniedError,
    "permissiondenied": PermissionDeniedError,
    "permissiondeniederror": PermissionDeniedError,
    "forbidden": PermissionDeniedError,
    "notfounderror": NotFoundError,
    "notfound": NotFoundError,
    "modelnotfound": NotFoundError,
    "ratelimit": RateLimitError,
    "ratelimiterror": RateLimitError,
    "ratelimitexceeded": RateLimitError,
    "toomanyrequests": RateLimitError,
    "insufficientquota": RateLimitError,
    "overloaded": OverloadedError,
    "overloadederror": OverloadedError,
    "apierror": InternalServerError,
    "servererror": InternalServerError,
    "internalerror": InternalServerError,
    "internalservererror": InternalServerError,
    "timeouterror": InternalServerError,
    "unavailable": InternalServerError,
    "unavailableerror": InternalServerError,
    "serviceunavailable": InternalServerError,
}


def error_for_status(
    status: int,
    body: bytes,
    *,
    request_id: str | None = None,
    retry_after: float | None = None,
    should_retry: bool | None = None,
) -> APIStatusError:
    """The error for a reply with an HTTP status that is not 2xx, with the provider's message where there is one."""
    text = body.decode("utf-8", "replace").strip()
    found = _find_error(_read_error(text))
    message, kind = _describe(found) if found is not None else (None, None)
    cls = _class_for_status(status)
    if _fold(kind) in ("overloaded", "overloadederror"):
        cls = OverloadedError
    return cls(
        message or _plain(text) or "the reply has no body",
        status_code=status,
        body=text,
        kind=kind,
        request_id=request_id,
        retry_after=retry_after,
        should_retry=should_retry,
    )


def error_in_payload(payload: Mapping[str, Any], event: str = "message") -> APIStatusError | None:
    """The error that a payload of a stream, or a whole 200 reply, stands for; `None` for an ordinary payload.

    Four shapes are known: an `error` member (object or string), an object with `object: "error"` (vLLM), with
    `type: "error"`, and the data of an SSE event named `error` (llama.cpp).
    """
    found = _find_error(payload)
    if found is None and event == "error":
        found = payload
    if found is None:
        return None
    message, kind = _describe(found)
    return _class_for_error(found)(
        message or "the service reports an error without a message", kind=kind, body=json.dumps(found)[:500]
    )


def _find_error(payload: object) -> Mapping[str, Any] | None:
    if isinstance(payload, list) and payload:  # Gemini's compatible endpoint wraps its error in a list
        payload = payload[0]
    if not isinstance(payload, dict):
        return None
    error = payload.get("error")
    if isinstance(error, str) and error:
        return {"message": error, **{k: v for k, v in payload.items() if k in ("type", "code")}}
    if isinstance(error, dict) and error:
        return error
    if payload.get("object") == "error" or payload.get("type") == "error":
        return payload
    return None


def _describe(error: Mapping[str, Any]) -> tuple[str | None, str | None]:
    message = next((m for key in ("message", "detail", "msg") if isinstance(m := error.get(key), str) and m), None)
    names = [v for key in ("type", "code", "status") if isinstance(v := error.get(key), str) and v != "error"]
    kind = next((n for n in names if _fold(n) in _BY_KIND), names[0] if names else None)
    return message and _clip(well_formed(message), _MESSAGE_CHARS), kind and _clip(well_formed(kind), 100)


def _class_for_error(error: Mapping[str, Any]) -> type[APIStatusError]:
    # The code is the finer word of the two ("model_not_found" of "invalid_request_error"); a number is a status.
    for key in ("code", "type", "status", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and _STATUS.match(value):
            value = int(value)
        if isinstance(value, str) and (cls := _BY_KIND.get(_fold(value))):
            return cls
        if isinstance(value, int) and 400 <= value <= 599:
            return _class_for_status(value)
    return APIStatusError


def _class_for_status(status: int) -> type[APIStatusError]:
    return _BY_STATUS.get(status, InternalServerError if 500 <= status <= 599 else APIStatusError)


def _fold(kind: str | None) -> str:
    return (kind or "").replace("_", "").replace("-", "").lower()


def _read_error(text: str) -> object:
    if text.startswith("data:"):  # an error status with a body in stream form
        text = text.removeprefix("data:").partition("\n")[0]
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _plain(text: str) -> str:
    """A body that is not the JSON we know, short enough for a message."""
    return _clip(" ".join(text[:2000].split()), 500)


def _clip(text: str, length: int) -> str:
    return text[:length] + ("…" if len(text) > length else "")


_DIGITS = re.compile(r"[0-9]+\Z")
_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?\Z")


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a reply asks us to wait; infinite for an absurd number, `None` where it does not say.

    `retry-after-ms` (OpenAI, Azure) is the finer word and goes first; `Retry-After` is seconds, with a fraction
    at some services, or an HTTP date.

    Args:
        headers: Names in lower case.
        now: Unix seconds.

    Source: RFC 9110, section 10.2.3, and section 5.6.7 for the dates.
    """
    ms = headers.get("retry-after-ms", "").strip()
    if _DECIMAL.match(ms):
        return float(ms[:400]) / 1000
    value = headers.get("retry-after", "").strip()
    if _DIGITS.match(value):
        digits = value.lstrip("0")
        return float("inf") if len(digits) > 15 else float(digits or "0")
    if _DECIMAL.match(value):
        return float(value[:400])
    at = _http_date(value)
    return None if at is None else max(0.0, at - now)


def _http_date(text: str) -> float | None:
    # A date has words and a time; the T of an ISO 8601 date would make parsedate guess.
    if not text.isascii() or ":" not in text or not any(c.isalpha() for c in text) or "T" in text[8:12]:
        return None
    import email.utils  # few services send a date

    parsed = email.utils.parsedate_tz(text)
    if parsed is None:
        return None
    year, month, day, hour, minute, second, *_, offset = parsed
    try:
        # timegm takes any numbers; datetime refuses what is no date. A leap second counts as the one before.
        datetime(year, month, day, hour, minute, min(second, 59))
        return calendar.timegm((year, month, day, hour, minute, second)) - (offset or 0) if year >= 1970 else None
    except (ValueError, OverflowError):
        return None
