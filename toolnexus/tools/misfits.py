"""What does not fit, said to the model: a line for each problem, and none of them long."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from ..tool import ToolInputError

_MAX_PROBLEMS = 8


def clip(text: str, limit: int = 200) -> str:
    """Cut `text` to at most `limit` characters, with an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def place(path: Iterable[str | int]) -> str:
    """Write a path as the model would: `stops[0].city`; the empty path is the arguments as a whole."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return clip(text.removeprefix("."), 100) or "arguments"


def as_json(value: object) -> str:
    """Show a value as the model wrote it, cut to 100 characters."""
    return clip(json.dumps(value, ensure_ascii=False, default=repr), 100)


def refusal(problems: Sequence[str]) -> ToolInputError:
    """Make the error that tells the model about `problems`, at most ten lines of it."""
    lines = list(problems[:_MAX_PROBLEMS])
    if len(problems) > _MAX_PROBLEMS:
        lines.append(f"… and {len(problems) - _MAX_PROBLEMS} more")
    return ToolInputError("\n".join(["the arguments do not fit:", *lines]))


def describe(error: BaseException) -> str:
    """The type and the message of an exception, whatever its `__str__` does."""
    try:
        message = str(error)
    except Exception:
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
