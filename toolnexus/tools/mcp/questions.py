"""What servers ask in mid-call ("elicitation"), as suspensions of ours: the question, its answer, the tool's note.

Two protocols ask differently. Until 2025-11-25 the server sends a request of its own and waits; the call stays under
way. Since 2026-07-28 the call ends as `input_required`, and is made again with the answers; nobody waits.

Source: Model Context Protocol, "Elicitation" (2025-11-25) and "Input required" (2026-07-28).
"""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from ...errors import ConfigurationError
from ...suspension import Answer, Pending
from ..json_schema import check_schema, is_object, misfits

if TYPE_CHECKING:
    from mcp import types
    from pydantic import TypeAdapter

Action = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a server asks; plain data, so that it can be compared and written down."""

    message: str
    schema: dict[str, Any] | None = None
    """What form the answer has: JSON Schema of an object with plain properties. `None`: there is nothing to fill in."""
    url: str | None = None
    """Where the user is to act instead."""

    @classmethod
    def of(cls, params: types.ElicitRequestParams) -> Question:
        """Read a server's request."""
        if params.mode == "url":
            return cls(params.message, url=params.url)
        return cls(params.message, schema=params.requested_schema)

    @property
    def may_be_shown(self) -> bool:
        """Whether its address, if it has one, is one to send a human to."""
        return self.url is None or urlsplit(self.url).scheme in ("http", "https")

    def pending(self, server: str, note: Note, *, hint: str = "", sure: bool = True) -> Pending:
        """The suspension that asks it.

        Args:
            server: The server's name.
            note: What the call wants to find again.
            hint: What was wrong with an answer before.
            sure: Whether it is certain that this call is what the question is about.
        """
        data: dict[str, Any] = {"server": server}  # Any: JSON
        if self.schema is not None:
            data["schema"] = self.schema
        if not sure:
            data["may_belong_to_another_call"] = True
        return Pending(
            prompt=f"{self.message}\n({hint})" if hint else self.message,
            kind="input" if self.url is None else "url",
            url=self.url,
            data=data,
            memo=asdict(note),
        )

    def reply(self, answer: Answer) -> Reply | str:
        """What the server is told; a text says why the answer does not fit the form."""
        if not answer.ok:
            is_cancel = answer.reason == "cancel" or (is_object(answer.data) and answer.data.get("action") == "cancel")
            return Reply(self, "cancel" if is_cancel else "decline", reason=answer.reason)
        if self.schema is None:
            return Reply(self, "accept")
        content = answer.data
        names = list(self.schema.get("properties", {}))
        if not is_object(content):
            if content is None:
                content = {}
            elif len(names) == 1:  # there is only one thing that it can be
                content = {names[0]: content}
            else:
                return f"expected an object with {', '.join(names)}, got {type(content).__name__}"
        problems = _problems(content, self.schema)
        return "; ".join(problems[:5]) if problems else Reply(self, "accept", content)


def _problems(content: dict[str, Any], schema: dict[str, Any]) -> list[str]:  # Any: JSON
    plain = [
        f"{name}: expected a text, a number, true, false, null or a list of texts"
        for name, value in content.items()
        if not isinstance(value, (str, int, float, type(None)))
        and not (isinstance(value, list) and all(isinstance(item, str) for item in value))
    ]
    try:
        return plain or list(misfits(content, check_schema(schema)))
    except ConfigurationError:  # the server's own affair; it looks at the answer, too
        return plain


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question, as the server gets it."""

    question: Question
    action: Action
    content: dict[str, Any] | None = None
    reason: str | None = None

    def to_result(self) -> types.ElicitResult:
        """In the protocol's shape."""
        from mcp import types

        return types.ElicitResult(action=self.action, content=self.content)


@dataclass(slots=True)
class Note:
    """What a suspended call has to know when it goes on, in this process or in another; plain JSON once written."""

    how: Literal["waiting", "again", "url"]
    """The server waits in mid-call; the call is made again with the answers; it is made again once a page was seen."""
    asked: Question
    call: str = ""
    """`waiting`: the call that is under way, if this process made it."""
    given: list[Reply] = field(default_factory=list)
    """Answers so far that the server has not got, or will ask for again."""
    state: str | None = None
    """`again`: what the server wants back."""
    key: str = ""
    """`again`: by which name it knows the question."""
    done: dict[str, Reply] = field(default_factory=dict)
    """`again`: the answers so far."""
    left: dict[str, Question] = field(default_factory=dict)
    """`again`: what is to be asked after this one."""


def read_note(memo: object) -> Note:
    """Read what `asdict` made of a note.

    Raises:
        ValueError: It is something else.
    """
    return _note().validate_python(memo)


@functools.cache
def _note() -> TypeAdapter[Note]:
    from pydantic import TypeAdapter  # imported by now, in a run; not worth it for those who only configure

    return TypeAdapter(Note)
