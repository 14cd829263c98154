"""Everything that a run starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..limits import Limits
from ..messages import Message
from ..tool import Tool
from .commands import ModelOptions
from .wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """The plain data of one run, and the wire format that it speaks."""

    wire: Wire
    origin: str
    """Whom we ask, as a name for the parts that it writes."""
    model: str
    messages: Sequence[Message]
    """The transcript so far, as it was kept."""
    nonce: str
    """Makes invented ids unlike those of other runs."""
    prompt: Message | None = None
    """What comes next in the transcript; without one the run carries on what the transcript left open."""
    system: str | None = None
    tools: Sequence[Tool] = ()
    options: ModelOptions = field(default_factory=ModelOptions)
    params: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True
    split_think_tags: bool = False
    max_turns: int = 10
    limits: Limits = field(default_factory=Limits)
    conversation_id: str | None = None
    keeps: bool = False
    """Whether the transcript is kept somewhere, so that checkpoints make sense."""
    can_wait: bool = False
    """Whether somebody here can answer a suspended call."""
    is_hooked: bool = False
    """Whether hooks look at each call before it runs."""
    observed: bool = False
    """Whether anybody takes the news: chunks, summaries, messages."""
    batch: int = 1
    """The number of this send in its conversation."""
