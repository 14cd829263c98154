"""The transcript: messages and their parts, in no provider's format.

One shape for both wire styles, so that a conversation begun with one provider goes on with
another. What only its provider understands (a signature, an encrypted block) stays on the part,
with the name of its origin, and is sent back only there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from .suspension import CallJournal, Request

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

Role = Literal["system", "user", "assistant", "tool"]
CallState = Literal["open", "started", "finished"]


class _ByType:
    """In a hint, what `pydantic.Field(discriminator="type")` is, without pydantic before a schema is made of it."""

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # Any: a hint
        from pydantic import Field

        return handler.generate_schema(Annotated[union, Field(discriminator="type")])


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text, as written by the user, the model or a tool."""

    text: str
    origin: str | None = field(default=None, repr=False)
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    """What the provider named by `origin` wants back with it, such as citations."""
    type: Literal["text"] = field(default="text", repr=False)


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image: either a `url`, or `data` with its `media_type` (such as `"image/png"`)."""

    url: str | None = None
    data: bytes | None = None
    media_type: str | None = None
    type: Literal["image"] = field(default="image", repr=False)

    def __post_init__(self) -> None:
        if (self.url is None) == (self.data is None):
            raise TypeError("ImagePart takes either url= or data=")
        if self.data is not None and not self.media_type:
            raise TypeError("ImagePart with data= needs media_type=, such as 'image/png'")


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """What the model thought before it answered; not part of the answer's text."""

    text: str
    origin: str | None = None
    """Who wrote it; `extra` goes back only there."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What that provider wants back unchanged, by its own field names."""
    type: Literal["reasoning"] = field(default="reasoning", repr=False)


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A tool call as the model asked for it, and how far it has come."""

    id: str
    name: str
    args: dict[str, Any]
    """The arguments; `{}` where they could not be read, and then `error` says why."""
    raw: str | None = None
    """The argument text as it came, kept only where it could not be read."""
    error: str | None = None
    state: CallState = "open"
    """`"started"` without a result means that the process ended meanwhile. Never sent."""
    request: Request | None = None
    """The open question of a suspended call. Never sent."""
    origin: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    journal: CallJournal | None = field(default=None, repr=False)
    """How a call without a result got where it is. Never sent."""
    type: Literal["tool_call"] = field(default="tool_call", repr=False)


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """The result of one call; `id` and `name` are the call's."""

    id: str
    name: str
    content: tuple[Annotated[TextPart | ImagePart, _ByType()], ...]
    is_error: bool = False
    type: Literal["tool_result"] = field(default="tool_result", repr=False)

    @property
    def output(self) -> str:
        """The text of the result."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A block that only its provider understands, kept whole."""

    data: dict[str, Any]
    origin: str
    type: Literal["opaque"] = field(default="opaque", repr=False)


Part = TextPart | ImagePart | ReasoningPart | ToolCallPart | ToolResultPart | OpaquePart


_ROLES = get_args(Role)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the transcript.

    A `tool` message holds the result of one call; the results of a turn follow its assistant
    message in the order of the calls. The system prompt is not part of a transcript.
    """

    role: Role
    parts: tuple[Annotated[Part, _ByType()], ...]

    def __init__(self, role: Role, parts: str | Iterable[Part]) -> None:
        if role not in _ROLES:
            raise TypeError(f"Message: role: expected one of {_ROLES}, got {role!r}")
        if not isinstance(parts, Iterable):
            raise TypeError(f"Message: parts: expected a str or parts, got {parts!r}")
        parts = (TextPart(parts),) if isinstance(parts, str) else tuple(parts)
        for part in parts:
            if not isinstance(part, Part):
                raise TypeError(f"Message: parts: expected TextPart(...) and its like, got {part!r}")
        object.__setattr__(self, "role", role)
        object.__setattr__(self, "parts", parts)

    @property
    def text(self) -> str:
        """The message's text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that an assistant message asks for, in order."""
        return tuple([part for part in self.parts if isinstance(part, ToolCallPart)])  # a generator takes twice as long
