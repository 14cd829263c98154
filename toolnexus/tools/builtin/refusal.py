"""What a built-in tool will not do, said to the model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ...tool import ToolResult

P = ParamSpec("P")
R = TypeVar("R")


class RefusedError(Exception):
    """A call that is refused or cannot be done; the message is written for the model."""


class MissingError(RefusedError):
    """What a call is about does not exist."""


def refusing(function: Callable[P, R]) -> Callable[P, R | ToolResult]:
    """Let `function` refuse by raising: a refusal is a tool's ordinary answer, no failure that belongs into a log."""

    @functools.wraps(function)
    def refuse(*args: P.args, **options: P.kwargs) -> R | ToolResult:
        try:
            return function(*args, **options)
        except RefusedError as error:
            return ToolResult(str(error), is_error=True)

    return refuse
