"""The raw side of a run, for those who observe it: chunks, summaries and messages in the order in which they come."""

from __future__ import annotations

from typing import TypedDict

from ..chunks import Chunk, ContentChunk, FinishChunk, ReasoningChunk, ToolCallDeltaChunk, UsageChunk
from ..messages import Message
from ..results import StreamSummary, Usage

News = Chunk | StreamSummary | Message


class _Identity(TypedDict):
    seq: int
    batch: int
    round: int
    timestamp: float


class ChunkLog:
    """Makes and numbers the chunks of one run."""

    def __init__(self, batch: int) -> None:
        self.now = 0.0
        """Unix seconds of the read that is being looked at."""
        self.round = 0
        self.news: list[News] = []
        """What observers are to see next; whoever takes it empties the list."""
        self._batch = batch
        self._seq = -1

    def content(self, text: str) -> None:
        self.news.append(ContentChunk(text, **self._identity()))

    def reasoning(self, text: str) -> None:
        self.news.append(ReasoningChunk(text, **self._identity()))

    def tool_call_delta(self, text: str, index: int, id: str, name: str) -> None:
        self.news.append(ToolCallDeltaChunk(text, index, id, name, **self._identity()))

    def usage(self, usage: Usage) -> None:
        self.news.append(UsageChunk(usage, **self._identity()))

    def finish(self, reason: str | None, *, artificial: bool) -> None:
        self.news.append(FinishChunk(reason, artificial, **self._identity()))

    def take(self) -> list[News]:
        news, self.news = self.news, []
        return news

    def _identity(self) -> _Identity:
        self._seq += 1
        return {"seq": self._seq, "batch": self._batch, "round": self.round, "timestamp": self.now}
