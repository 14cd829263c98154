"""Plays one row with one client, and keeps everything that anybody could see of it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from tests.clients.harness import Blocking, Client, Outcome, new_client
from tests.faults.rows import LIMITS, Row
from tests.server import Request, Server, says
from toolnexus import Hooks, SQLiteStore, StreamEvent, ToolContext, Toolkit, tool

KEY = "sk-CANARY-7f3a9d21c4"
TOKEN = "tk-CANARY-e5b80613aa"
"""What is looked for everywhere: the key, and what stands in the query for one."""
WARNED = "a warning of the test's own, to see that warnings are seen"


@dataclass
class Played:
    """One run of one row."""

    row: Row
    kind: str
    client: Client
    outcome: Outcome
    requests: list[Request]
    others: list[Request]
    """What another server got, to which the redirects lead."""
    paid: list[dict[str, Any]]
    """What the tool ran with."""
    hooked: list[Any]
    """What each hook was given."""
    contexts: list[ToolContext]
    logged: list[str]
    warned: list[str]
    stored: list[bytes]
    """The files of the store, while it was open and after it was closed."""
    frames: list[str]
    """What a crash report shows of all threads, when events, hooks and tools came."""


class Everything(logging.Handler):
    """Keeps each record as text and in parts, of every logger that there is, whatever its own level."""

    def __init__(self) -> None:
        super().__init__(1)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{self.format(record)} {vars(record)!r}")

    @contextlib.contextmanager
    def logged(self) -> Iterator[None]:
        known = [log for log in logging.root.manager.loggerDict.values() if isinstance(log, logging.Logger)]
        levels = [(log, log.level, log.propagate) for log in [logging.root, *known]]
        for log, _, _ in levels:
            log.setLevel(1)
            log.propagate = True
        logging.root.addHandler(self)
        try:
            yield
        finally:
            logging.root.removeHandler(self)
            for log, level, propagate in levels:
                log.setLevel(level)
                log.propagate = propagate


@cache
def knows_the_key(file: str) -> bool:
    """Whether it is one of the tests themselves, or what runs them."""
    return not {"tests", "_pytest", "pluggy"}.isdisjoint(Path(file).parts)


def locals_of(frame: FrameType | None, line: int | None = None) -> Iterator[str]:
    """A frame's local variables as a crash report shows them."""
    if frame is not None and not knows_the_key(frame.f_code.co_filename):
        for name, value in list(frame.f_locals.items()):
            yield f"{frame.f_code.co_filename}:{line or frame.f_lineno} {name} = {value!r}"


def threads() -> Iterator[str]:
    """The local variables of everything that runs, down to the last caller."""
    frame: FrameType | None
    for frame in list(sys._current_frames().values()):
        while frame is not None:
            yield from locals_of(frame)
            frame = frame.f_back


def play(row: Row, kind: str, folder: Path, *, style: str | None = None, given: bool = False) -> Played:
    """Run it with a key, a query, hooks, a tool and a store in a file.

    Args:
        style: Another one than the row's own.
        given: Whether the client gets an httpx of the caller's.
    """
    hooked: list[Any] = []
    contexts: list[ToolContext] = []
    paid: list[dict[str, Any]] = []
    frames: list[str] = []
    outcome = Outcome()

    @tool
    def transfer(to: str, amount: float, ctx: ToolContext) -> str:
        """Transfer money."""
        contexts.append(ctx)
        paid.append({"to": to, "amount": amount})
        if len(paid) == 1:
            frames.extend(threads())
        return "transferred"

    def hook(what: Any) -> None:
        if not any(type(what) is type(known) for known in hooked):
            frames.extend(threads())
            warnings.warn(WARNED, stacklevel=1)
        hooked.append(what)

    def on_event(event: StreamEvent) -> None:
        if not any(type(event) is type(known) for known in outcome.events):
            frames.extend(threads())
        outcome.events.append(event)

    everything = Everything()
    store = SQLiteStore(folder / "talks.db")
    http_client = (httpx.Client if kind == "sync" else httpx.AsyncClient)() if given else None
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(Server(says("Never.")))
        script = [
            dataclasses.replace(r, headers={n: v.replace("{other}", other.url) for n, v in r.headers.items()})
            for r in row.script()
        ]
        server = stack.enter_context(Server(*(script or [says("Never.")]), accept=row.accept))
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(everything.logged())
        client = new_client(
            kind,
            base_url=row.address.format(port=server.port) if row.address else server.url,
            style=style or row.style,
            api_key=KEY,
            query={"token": TOKEN},
            retries=1,
            timeout=0.25,
            limits=LIMITS,
            store=store,
            hooks=Hooks(**{field.name: hook for field in dataclasses.fields(Hooks)}),
            http_client=http_client,
            **{"deadline": 5 if style is None else 1, **row.options},  # bytes may have no end that the other style sees
        )
        try:
            outcome.result = client.stream("Hi?", Toolkit(transfer), on_event, id="talk")
        except Exception as error:
            outcome.error = error
        stored = [path.read_bytes() for path in sorted(folder.iterdir())]
        if isinstance(http_client, httpx.Client):
            http_client.close()
        elif http_client is not None:
            assert isinstance(client, Blocking)
            client.runner.run(http_client.aclose())
        client.__exit__(None, None, None)
        store.close()
        server.wait_all_closed()
    stored += [path.read_bytes() for path in sorted(folder.iterdir())]
    words = [str(warning.message) for warning in warned]
    return Played(
        row,
        kind,
        client,
        outcome,
        server.requests,
        other.requests,
        paid,
        hooked,
        contexts,
        everything.lines,
        words,
        stored,
        frames,
    )
