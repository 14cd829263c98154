"""What a model's stream is made of, piece by piece, for those who watch it closer than events show it.

Chunks are made only where somebody observes them; `seq` and `batch` together name one for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Generic, Literal, TypeVar

from .results import Usage

C = TypeVar("C", covariant=True)


class ChunkTag(str, Generic[C]):
    """The name of a kind of chunk, which carries the kind's class for type checkers."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    seq: int
    """Position in the current send, from 0, across its rounds."""
    batch: int
    """Which send of its conversation the chunk belongs to, from 1."""
    round: int
    """Which model response of the send, from 1."""
    timestamp: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class ContentChunk(_Identity):
    """A piece of the answer."""

    text: str
    type: ClassVar[Literal["content"]] = "content"


@dataclass(frozen=True, slots=True)
class ReasoningChunk(_Identity):
    """A piece of the model's thinking."""

    text: str
    type: ClassVar[Literal["reasoning"]] = "reasoning"


@dataclass(frozen=True, slots=True)
class ToolCallDeltaChunk(_Identity):
    """A piece of a tool call's arguments, which mean nothing before the response is complete."""

    text: str
    index: int
    """The call's place in its response, from 0."""
    id: str
    """Empty as long as the provider has not told it."""
    name: str
    type: ClassVar[Literal["tool_call_delta"]] = "tool_call_delta"


@dataclass(frozen=True, slots=True)
class UsageChunk(_Identity):
    """The tokens of this response alone; comes once, before the finish, if the response reported any."""

    usage: Usage
    type: ClassVar[Literal["usage"]] = "usage"


@dataclass(frozen=True, slots=True)
class FinishChunk(_Identity):
    """The end of a response; comes exactly once."""

    finish_reason: str | None
    artificial: bool = False
    """The provider sent no finish reason; this end is ours."""
    type: ClassVar[Literal["finish"]] = "finish"


Chunk = ContentChunk | ReasoningChunk | ToolCallDeltaChunk | UsageChunk | FinishChunk


class ChunkType:
    """The kinds of chunk, to choose by: `chunks.hook(ChunkType.CONTENT)`. Each equals its chunks' `type`."""

    CONTENT: Final[ChunkTag[ContentChunk]] = ChunkTag("content")
    REASONING: Final[ChunkTag[ReasoningChunk]] = ChunkTag("reasoning")
    TOOL_CALL_DELTA: Final[ChunkTag[ToolCallDeltaChunk]] = ChunkTag("tool_call_delta")
    USAGE: Final[ChunkTag[UsageChunk]] = ChunkTag("usage")
    FINISH: Final[ChunkTag[FinishChunk]] = ChunkTag("finish")
