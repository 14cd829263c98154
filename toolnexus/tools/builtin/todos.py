"""The tool that keeps a list of what is to be done: `todowrite`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ...tool import ToolResult

_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class Todo(TypedDict):
    """One thing to do."""

    content: Annotated[str, Field(min_length=1, max_length=500)]
    status: Literal["pending", "in_progress", "completed", "cancelled"]


def todowrite(todos: Annotated[list[Todo], Field(max_length=100)]) -> ToolResult:
    """Write down the plan for a longer task, and keep it up to date: the whole list, each time.

    Args:
        todos: All there is to do, in order, with how far each thing is.
    """
    # The list is kept in the transcript and nowhere else: there it is stored, resumed and forgotten with its run.
    lines = [f"{_BOXES[todo['status']]} {todo['content']}" for todo in todos]
    return ToolResult("\n".join(lines) or "[nothing to do]", metadata={"todos": todos})
