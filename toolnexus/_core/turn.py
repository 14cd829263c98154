"""One model response while it is put together: blocks in the order in which they began.

A wire reader reports what it finds, in no provider's words; the turn makes the events that the user
sees, keeps what the transcript needs, and knows whether the response is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar, assert_never

from ..errors import ProtocolError
from ..events import ReasoningEvent, StreamEvent, TextEvent
from ..limits import Limits
from ..messages import OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart
from ..results import Usage
from .chunk_log import ChunkLog
from .payload import UnreadableArguments, clean, parse_arguments, well_formed
from .think_tags import ThinkTags

CUT_REASONS = frozenset({"length", "content_filter", "refusal"})
"""Finish reasons after which no tool of the response runs, whatever calls it holds."""
PAUSE_REASON = "pause_turn"
"""The provider's own tools take long: it wants the response sent back, and goes on from there (Anthropic)."""

LINGER_S = 5.0
"""How long we read on after the finish reason, for usage and the end mark."""
DRAIN_S = 0.1
"""How long we wait for the end of the body after the end mark, so that the connection can be used again."""


_MAX_LOOKS = 100
"""How often the arguments of one call are looked at while they come: each look reads them all."""


class Pieces:
    """Text that grows by deltas, joined in blocks: 200,000 single pieces would cost 15 MB, blocks of 512 cost 4."""

    __slots__ = ("_blocks", "_pieces")

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._pieces: list[str] = []

    def append(self, piece: str) -> None:
        self._pieces.append(piece)
        if len(self._pieces) >= 512:
            self._blocks.append("".join(self._pieces))
            self._pieces.clear()

    def __str__(self) -> str:
        if self._pieces or len(self._blocks) > 1:
            # Kept joined: whoever asks again shares the text, which may be large, and is asked for four times.
            self._blocks = ["".join((*self._blocks, *self._pieces))]
            self._pieces.clear()
        return self._blocks[0] if self._blocks else ""


@dataclass(slots=True, eq=False)
class TextDraft:
    text: Pieces = field(default_factory=Pieces)
    extra: dict[str, Any] = field(default_factory=dict)
    """What the provider wants back with it, such as citations."""


@dataclass(slots=True, eq=False)
class ReasoningDraft:
    text: Pieces = field(default_factory=Pieces)
    extra: dict[str, Any] = field(default_factory=dict)
    """What the provider wants back with it, by its own names."""


@dataclass(slots=True, eq=False)
class CallDraft:
    index: int = 0
    """Its place among the calls that the response began, dropped ones too, so that no two share it."""
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    size: int = 0
    looks: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def has_whole_arguments(self) -> bool:
        """Whether the arguments so far are a whole object: no reason to run the call, but a hint on what follows."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}") or self.looks > _MAX_LOOKS:
            return False
        self.looks += 1
        try:
            parse_arguments(self.arguments)
        except UnreadableArguments:
            return False
        return True

    @property
    def arguments(self) -> str:
        """The argument text, without two habits of known servers that are no part of it.

        An exact `{}` as a placeholder before the object, and the whole object once more at the finish.
        """
        pieces = self.pieces
        if len(pieces) > 1 and pieces[-1].startswith("{") and pieces[-1] == "".join(pieces[:-1]):
            pieces = pieces[:-1]
        text = "".join(pieces)
        return text[2:] if text.startswith("{}") and text[2:].lstrip().startswith("{") else text


@dataclass(slots=True, eq=False)
class OpaqueDraft:
    data: dict[str, Any]


Draft = TextDraft | ReasoningDraft | CallDraft | OpaqueDraft
D = TypeVar("D", TextDraft, ReasoningDraft, CallDraft, OpaqueDraft)


class Turn:
    """A response in the making."""

    def __init__(self, limits: Limits, *, split_think_tags: bool = False, log: ChunkLog | None = None) -> None:
        self.events: list[StreamEvent] = []
        """What the user is to see next; whoever takes them empties the list."""
        self.drafts: list[Draft] = []
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.deltas = 0
        """Grows with whatever comes from the model and is no event for the user yet: blocks, arguments."""
        self.complete = False
        """The protocol says that nothing of the answer is missing."""
        self.ended = False
        """The protocol's own end mark came: nothing after it counts."""
        self.log = log
        """Told of each piece, where somebody observes them."""
        self._limits = limits
        self._calls = 0
        self._half: tuple[TextDraft | ReasoningDraft, str] | None = None  # half of a surrogate pair, held back
        self._tags = ThinkTags() if split_think_tags else None

    # -- facts from the wire reader

    def text_opened(self) -> TextDraft:
        """A block of text began."""
        return self._open(TextDraft())

    def reasoning_opened(self) -> ReasoningDraft:
        """A block of thinking began."""
        return self._open(ReasoningDraft())

    def text_received(self, delta: str, draft: TextDraft | None = None) -> None:
        """Text of the answer; it goes on with `draft`, or with the last block if that is text."""
        if self._tags is not None:
            thinking, delta = self._tags.split(delta)
            if thinking:
                self.reasoning_received(thinking)
            if not delta:
                return
        if draft is None:
            last = self.drafts[-1] if self.drafts else None
            draft = last if isinstance(last, TextDraft) else self.text_opened()
        if not delta.isascii() or self._half:
            delta = self._whole(draft, delta)
        if delta:
            draft.text.append(delta)
            self.events.append(TextEvent(delta))
            if self.log is not None:
                self.log.content(delta)

    def reasoning_received(self, delta: str, draft: ReasoningDraft | None = None) -> ReasoningDraft:
        """Thinking; it goes on with `draft`, or with the last block if that is thinking."""
        if draft is None:
            last = self.drafts[-1] if self.drafts else None
            draft = last if isinstance(last, ReasoningDraft) else self.reasoning_opened()
        if not delta.isascii() or self._half:
            delta = self._whole(draft, delta)
        if delta:
            draft.text.append(delta)
            self.events.append(ReasoningEvent(delta))
            if self.log is not None:
                self.log.reasoning(delta)
        return draft

    def call_opened(self) -> CallDraft:
        """A tool call began; the reader fills in the draft's `id`, `name` and `extra`."""
        self._calls += 1
        if self._calls > self._limits.tool_calls_per_turn:
            raise ProtocolError(
                f"more than {self._limits.tool_calls_per_turn} tool calls in one response (Limits.tool_calls_per_turn)"
            )
        return self._open(CallDraft(index=self._calls - 1))

    def arguments_received(self, draft: CallDraft, piece: str) -> None:
        """The next piece of a call's argument text."""
        if not piece:
            return
        draft.size += len(piece)
        if draft.size > self._limits.tool_args_bytes:
            raise ProtocolError(
                f"the arguments of tool call {draft.name[:100]!r} exceed {self._limits.tool_args_bytes} bytes "
                "(Limits.tool_args_bytes)"
            )
        draft.pieces.append(piece)
        self.deltas += 1
        if self.log is not None:
            self.log.tool_call_delta(well_formed(piece), draft.index, well_formed(draft.id), well_formed(draft.name))

    def block_received(self, data: dict[str, Any]) -> OpaqueDraft:
        """A block that only its provider understands."""
        return self._open(OpaqueDraft(data))

    def block_dropped(self, draft: Draft) -> None:
        """The provider began anew and will not finish this block: it is no part of the answer."""
        self.drafts.remove(draft)

    def usage_reported(self, usage: Usage) -> None:
        """Token counts of this response so far; a later value replaces an earlier one, an unknown one does not."""
        old = self.usage or Usage()
        self.usage = Usage(
            prompt_tokens=_latest(usage.prompt_tokens, old.prompt_tokens),
            completion_tokens=_latest(usage.completion_tokens, old.completion_tokens),
            total_tokens=_latest(usage.total_tokens, old.total_tokens),
            cached_tokens=_latest(usage.cached_tokens, old.cached_tokens),
            cache_write_tokens=_latest(usage.cache_write_tokens, old.cache_write_tokens),
            reasoning_tokens=_latest(usage.reasoning_tokens, old.reasoning_tokens),
            raw=({**(old.raw[0] if old.raw else {}), **clean(usage.raw[0] if usage.raw else {})},),
        )

    def finish_reported(self, reason: str) -> None:
        """Why the response ends. A later word replaces an earlier one, but never one that says it was cut."""
        if self.finish_reason not in CUT_REASONS:
            self.finish_reason = well_formed(reason)

    # -- what came of it

    @property
    def patience(self) -> float | None:
        """Seconds to wait for more bytes in all; `None` as long as the answer is not complete."""
        if self.ended:
            return DRAIN_S
        return LINGER_S if self.complete else None

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return "".join(str(draft.text) for draft in self.drafts if isinstance(draft, TextDraft))

    @property
    def call_count(self) -> int:
        """How many calls the response holds so far."""
        return sum(isinstance(draft, CallDraft) for draft in self.drafts)

    @property
    def reasoning(self) -> str:
        """The thinking so far."""
        return "".join(str(draft.text) for draft in self.drafts if isinstance(draft, ReasoningDraft))

    def closed(self) -> None:
        """No more bytes will come: what was held back is let go."""
        if self._tags is not None:
            tags, self._tags = self._tags, None
            thinking, text = tags.end()
            if thinking:
                self.reasoning_received(thinking)
            if text:
                self.text_received(text)
        self._let_go()

    def _let_go(self) -> None:
        """The other half of a character will not come: what there is of it is shown."""
        if self._half:
            draft, _ = self._half
            self._half = None
            if isinstance(draft, TextDraft):
                self.text_received("\ufffd", draft)
            else:
                self.reasoning_received("\ufffd", draft)

    def parts(self, origin: str, nonce: str) -> tuple[Part, ...]:
        """The response as parts of a message, empty ones left out.

        Args:
            origin: Who wrote it, for what only that provider understands.
            nonce: Makes invented call ids unlike those of other responses.
        """
        return tuple(self._parts(origin, nonce))

    def _parts(self, origin: str, nonce: str) -> Iterator[Part]:
        seen: set[str] = set()
        for draft in self.drafts:
            match draft:
                case TextDraft(text, extra):
                    if str(text):
                        yield TextPart(str(text), origin if extra else None, clean(extra))
                case ReasoningDraft(text, extra):
                    if str(text) or extra:
                        yield ReasoningPart(str(text), origin, clean(extra))
                case OpaqueDraft(data):
                    yield OpaquePart(clean(data), origin)
                case CallDraft():
                    # Some servers send no id, or one for several calls: then nobody could tell the results apart.
                    id = well_formed(draft.id)
                    if not id or id in seen:
                        id = f"call_{nonce}{len(seen)}"
                    seen.add(id)
                    yield _call_part(draft, id, origin)
                case _ as unreachable:
                    assert_never(unreachable)

    def _open(self, draft: D) -> D:
        self.deltas += 1
        self.drafts.append(draft)
        return draft

    def _whole(self, draft: TextDraft | ReasoningDraft, delta: str) -> str:
        """`delta` fit to be shown: half of a surrogate pair at its end waits for the other half."""
        if self._half:
            waiting, half = self._half
            if waiting is draft:
                self._half = None
                delta = half + delta
            elif delta:
                self._let_go()
        if delta and "\ud800" <= delta[-1] <= "\udbff":
            self._half = (draft, delta[-1])
            delta = delta[:-1]
        return well_formed(delta)


def _call_part(draft: CallDraft, id: str, origin: str) -> ToolCallPart:
    raw = draft.arguments
    try:
        if not draft.name:
            raise UnreadableArguments("the call has no name")
        args, error = parse_arguments(raw), None
    except UnreadableArguments as unreadable:
        args, error = {}, str(unreadable)
    return ToolCallPart(
        id=id,
        name=well_formed(draft.name),
        args=args,
        raw=well_formed(raw) if error else None,
        error=error,
        origin=origin,
        extra=clean(draft.extra),
    )


def _latest(new: int | None, old: int | None) -> int | None:
    return old if new is None else new
