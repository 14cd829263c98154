"""The tool that asks a human: `question`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ...suspension import Pending, pending
from ...tool import ToolContext

Option = Annotated[str, Field(min_length=1, max_length=200)]


def question(
    question: Annotated[str, Field(min_length=1, max_length=4000)],
    ctx: ToolContext,
    options: Annotated[list[Option], Field(max_length=20)] | None = None,
) -> object | Pending:
    """Ask the user a question, and wait for the answer. Use it where only the user can decide.

    Args:
        question: What to ask.
        options: Answers to choose from, if there are some to suggest; the user may answer otherwise.
    """
    if ctx.answer is None:
        return pending(question, kind="input", data={"options": options or []})
    answer: object = ctx.answer.data
    if answer is None:
        return ctx.answer.reason or "[the user agreed, and said nothing else]"
    return answer
