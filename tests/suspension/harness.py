"""Tools that ask, and what is done with their questions; for this process and for the children of `processes.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.clients.harness import Client, new_client
from toolnexus import (
    Answer,
    Message,
    Request,
    RunResult,
    SQLiteStore,
    ToolContext,
    Toolkit,
    messages_to_json,
    pending,
    tool,
)

RAN: list[tuple[Any, ...]] = []
"""Each run of a tool in this process: its name, its argument, the answer that it had."""


@tool
def ask(what: str, ctx: ToolContext) -> object:
    """Ask a human."""
    RAN.append(("ask", what, ctx.answer and ctx.answer.data))
    return pending(f"{what}?", id=f"ask {what}") if ctx.answer is None else f"{what}: {ctx.answer.data}"


@tool
def look(what: str) -> str:
    """Look."""
    RAN.append(("look", what, None))
    return f"{what} is there"


@tool
def insist(what: str, times: int, ctx: ToolContext) -> object:
    """Ask a human several times; the number of the question is in its data."""
    before = 0 if ctx.answer is None else ctx.answer.data
    RAN.append(("insist", what, before))
    if before < times:
        return pending(f"{what}, once more?", data=before + 1, id=f"insist {what} {before + 1}")
    return f"{what} after {before}"


@tool(approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    RAN.append(("delete", path, None))
    return f"{path} is gone"


@tool(approval=lambda args: args["amount"] > 100)
def pay(amount: int, ctx: ToolContext) -> object:
    """Pay; above 100 somebody must allow it, and above 1000 somebody must sign."""
    RAN.append(("pay", amount, ctx.answer and ctx.answer.data))
    if amount > 1000 and ctx.answer is None:
        return pending("Sign here.", kind="signature", id=f"sign {amount}")
    return f"paid {amount}" + (f", signed {ctx.answer.data}" if ctx.answer else "")


TOOLS = Toolkit(ask, look, insist, delete, pay)


def yes(request: Request) -> Answer:
    """What the human says to a request: to `insist` the number of the question, to others something of their own."""
    return Answer(request.id, data=request.data if request.id.startswith("insist") else f"yes to {request.prompt}")


def written(messages: Sequence[Message]) -> str:
    """A transcript, byte for byte."""
    return messages_to_json(messages)


def resume_all(
    client: Client, result: RunResult, order: Callable[[list[Request]], list[list[Request]]], **where: Any
) -> RunResult:
    """Answer what is open until nothing is; `order` says which together, and in which order.

    Args:
        where: `id=`, or nothing: then each resume begins with the JSON of the result before it.
    """
    while result.status == "pending":
        for together in order(result.requests):
            given = where or {"result": RunResult.model_validate_json(result.model_dump_json())}
            result = client.resume([yes(request) for request in together], TOOLS, **given)
    return result


def resume_elsewhere(
    *,
    kind: str,
    url: str,
    style: str,
    answers: list[dict[str, Any]],
    path: str | None = None,
    id: str | None = None,
    result: str | None = None,
) -> dict[str, Any]:
    """In a new process: one resume, from a file or from JSON."""
    options: dict[str, Any] = {} if path is None else {"store": SQLiteStore(path)}
    where: dict[str, Any] = {"id": id} if result is None else {"result": RunResult.model_validate_json(result)}
    with new_client(kind, base_url=url, style=style, **options) as client:
        out = client.resume([Answer(**answer) for answer in answers], TOOLS, **where)
        return {"result": out.model_dump_json(), "messages": written(out.messages), "ran": RAN}
