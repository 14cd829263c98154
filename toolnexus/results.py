"""What a run leaves behind: its result, the calls it made, the tokens it used.

`RunResult` is imported when it is first asked for: as a pydantic model it takes half as long as all the rest of the
package, and no event but the last of a run needs it. Hints name it `results.RunResult`, so that they can be resolved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .run_result import RunResult as RunResult

Status = Literal["done", "pending", "incomplete", "error"]
Limit = Literal["max_turns", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counted them; `None` means that it did not say, never a made-up 0.

    Within one response a later report replaces an earlier one; the responses of a run add up.
    """

    prompt_tokens: int | None = None
    """All tokens that went in, those read from or written to a cache included."""
    completion_tokens: int | None = None
    total_tokens: int | None = None
    """The provider's own total where it gives one; it may exceed the sum of the two above."""
    cached_tokens: int | None = None
    """Of `prompt_tokens`: read from a cache."""
    cache_write_tokens: int | None = None
    """Of `prompt_tokens`: written to a cache."""
    reasoning_tokens: int | None = None
    """Tokens spent on thinking; whether `completion_tokens` has them too differs by provider."""
    raw: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """What each response reported, word for word."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(  # name by name: to ask `dataclasses.fields` takes as long as reading ten events
            prompt_tokens=_add(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=_add(self.completion_tokens, other.completion_tokens),
            total_tokens=_add(self.total_tokens, other.total_tokens),
            cached_tokens=_add(self.cached_tokens, other.cached_tokens),
            cache_write_tokens=_add(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens=_add(self.reasoning_tokens, other.reasoning_tokens),
            raw=self.raw + other.raw,
        )


def _add(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """One call of a run, with what came of it."""

    id: str
    name: str
    args: dict[str, Any]
    output: str
    is_error: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    """The tool's own notes (`ToolResult.metadata`); the model does not see them."""
    duration: float = 0.0
    """Seconds the tool ran; 0 for a call that was not run."""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """One model response, added up; also of one that was cut off."""

    content: str
    reasoning: str
    tool_call_count: int
    """Calls in the response, whether they ran or not."""
    finish_reason: str | None
    usage: Usage | None
    """Of this response alone; `None` if it reported none."""
    timestamp: float
    """Unix seconds when the response ended."""


def __getattr__(name: str) -> object:
    if name != "RunResult":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .run_result import RunResult

    globals()[name] = RunResult
    return RunResult
