"""A run whose process dies at a boundary of an effect, and what a new process makes of what is left.

What really happened stands in a log that no crash can take back: a line for each tool as it begins.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.clients.harness import Client, new_client, transcript
from toolnexus import (
    Answer,
    Hooks,
    Message,
    SQLiteStore,
    Tool,
    ToolContext,
    Toolkit,
    ToolnexusError,
    messages_from_json,
    messages_to_json,
    pending,
    tool,
)

STATUS = 77
"""How a process ends that was made to crash."""


class Boundaries:
    """Counts the boundaries that a process comes to, and ends it at one of them."""

    def __init__(self, at: int | None) -> None:
        self.passed: list[str] = []
        self._at = at
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        with self._lock:
            if len(self.passed) == self._at:
                os._exit(STATUS)
            self.passed.append(name)


class FileStore:
    """The simplest store of a user's own: one file, replaced at each save."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, id: str, /) -> list[Message] | None:
        return messages_from_json(self._path.read_bytes()) if self._path.exists() else None

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(messages_to_json(messages), encoding="utf-8")
        os.replace(new, self._path)


def make_store(kind: str, folder: str, boundary: Boundaries) -> Any:
    """A store that comes to a boundary before and after each of its effects."""

    class Crashing(FileStore):
        def get(self, id: str, /) -> Any:
            boundary("before get")
            loaded = super().get(id)
            boundary("after get")
            return loaded

        def save(self, id: str, messages: Sequence[Message], /) -> None:
            boundary("before save")
            super().save(id, messages)
            boundary("after save")

    class CrashingSQLite(SQLiteStore):
        def load(self, id: str, /) -> Any:
            boundary("before load")
            loaded = super().load(id)
            boundary("after load")
            return loaded

        def commit(self, id: str, base: Any, messages: Sequence[Message], /) -> Any:
            boundary("before commit")
            saved = super().commit(id, base, messages)
            boundary("after commit")
            return saved

    return CrashingSQLite(Path(folder) / "t.db") if kind == "sqlite" else Crashing(Path(folder) / "t.json")


def make_tools(folder: str, boundary: Boundaries) -> list[Tool]:
    def ran(name: str, what: str, ctx: ToolContext) -> None:
        boundary(f"before {name}")
        with open(Path(folder) / "log", "a", encoding="utf-8") as log:
            log.write(json.dumps([name, what, ctx.call_key, ctx.answer and ctx.answer.data]) + "\n")
        boundary(f"in {name}")

    @tool
    def charge(what: str, ctx: ToolContext) -> str:
        """Take money."""
        ran("charge", what, ctx)
        return f"charged {what}"

    @tool(idempotent=True)
    def note(what: str, ctx: ToolContext) -> str:
        """Write down."""
        ran("note", what, ctx)
        return f"noted {what}"

    @tool
    def ask(what: str, ctx: ToolContext) -> object:
        """Ask, then take money."""
        if ctx.answer is None:
            return pending(f"{what}?", id=f"ask {what}")
        ran("charge", what, ctx)
        return f"charged {what}"

    @tool(approval=True)
    def guarded(what: str, ctx: ToolContext) -> str:
        """Take money, if somebody allows it."""
        ran("charge", what, ctx)
        return f"charged {what}"

    return [charge, note, ask, guarded]


def act(*, kind: str, url: str, folder: str, store: str, at: int | None = None, **what: Any) -> dict[str, Any]:
    """One call of a client: with `prompt=`, or with `answers=`, each a dict."""
    boundary = Boundaries(at)
    kept = make_store(store, folder, boundary)
    tools = Toolkit(*make_tools(folder, boundary))

    def body_transform(body: dict[str, Any]) -> dict[str, Any]:
        boundary("before request")
        return body

    hooks = Hooks(after_llm=lambda _: boundary("after response"))
    with new_client(kind, base_url=url, store=kept, hooks=hooks, body_transform=body_transform) as client:
        error = _act(client, tools, boundary, **what)
    return {"passed": boundary.passed, "error": error, "left": left(store=store, folder=folder)}


def _act(client: Client, tools: Toolkit, boundary: Boundaries, **what: Any) -> str | None:
    def on_event(event: Any) -> None:
        boundary(f"at {event.type}")

    try:
        if "prompt" in what:
            client.stream(what["prompt"], tools, on_event, "t")
        else:
            client.resume([Answer(**a) for a in what["answers"]], tools, id="t", on_event=on_event)
    except ToolnexusError as error:
        return type(error).__name__
    return None


def left(*, store: str, folder: str) -> dict[str, Any]:
    """What is on record, and what really happened."""
    messages = make_store(store, folder, Boundaries(None)).get("t") or []
    log = Path(folder) / "log"
    return {
        "transcript": transcript(messages),
        "states": [(call.args["what"], call.state) for m in messages for call in m.tool_calls],
        "results": [(p.id, p.output) for m in messages if m.role == "tool" for p in m.parts],
        "log": [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else [],
    }


def open_requests(*, store: str, folder: str) -> list[str]:
    """The ids of what waits for an answer."""
    messages = make_store(store, folder, Boundaries(None)).get("t") or []
    return [call.request.id for m in messages for call in m.tool_calls if call.request is not None]
