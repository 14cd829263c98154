"""A fault at the first, second, third ... place of a run, and what must hold after each.

Places are counted, not timed, so that every one is met and a failure can be met again: in the async world every
suspension of every task of the run, in the sync world every line of the package that the caller's thread executes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dis
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import toolnexus
from tests.server import PATIENCE_S, Request, Response, Server, calls, failure, says
from toolnexus import (
    Answer,
    AsyncClient,
    Chunk,
    FinishChunk,
    Hooks,
    Message,
    SyncClient,
    ToolContext,
    Toolkit,
    define_tool,
    pending,
)
from toolnexus import Request as PendingRequest
from toolnexus._core.transcript import balanced, closed

PACKAGE = str(Path(toolnexus.__file__).parent)
PROMPT = "Go."

# -- the run


class Script:
    """Three calls, then an answer, after the transcript that came: the same for every run, whatever failed before."""

    def __init__(self) -> None:
        self.failures = 0
        """So many of the next requests fail in a way that is worth another try."""

    def __call__(self, request: Request) -> Response:
        if self.failures:
            self.failures -= 1
            return failure(503, retry_after="0")
        if request.json["messages"][-1]["role"] == "tool":
            return says("Do", "ne.")
        return calls(("c1", "look", "{}"), ("c2", "dig", "{}"), ("c3", "ask", "{}"))


class Book:
    """A store that counts, and takes as little time as it can: `put` is where a transcript is kept whole."""

    def __init__(self) -> None:
        self.pages: dict[str, list[Message]] = {}

    def get(self, id: str, /) -> list[Message] | None:
        found = self.pages.get(id)
        return None if found is None else list(found)

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        self.pages[id] = list(messages)


class AsyncBook(Book):
    """The same with suspensions before and after."""

    async def get(self, id: str, /) -> list[Message] | None:  # type: ignore[override]  # the same, async
        await asyncio.sleep(0)
        found = super().get(id)
        await asyncio.sleep(0)
        return found

    async def save(self, id: str, messages: Sequence[Message], /) -> None:  # type: ignore[override]  # the same, async
        await asyncio.sleep(0)
        super().save(id, messages)
        await asyncio.sleep(0)


class Trip:
    """What one kind of run uses besides a client: tools that count, and hooks that let everything pass."""

    def __init__(self, *, is_async: bool, book: Book | None = None) -> None:
        self.book = Book() if book is None else book
        self.ran: Counter[str] = Counter()
        self.began = False
        self.finishes: list[str | None] = []

        def dig() -> str:
            self.ran["dig"] += 1
            return "dug"

        def look() -> str:
            self.ran["look"] += 1
            return "seen"

        async def look_slowly() -> str:
            await asyncio.sleep(0)
            self.ran["look"] += 1
            await asyncio.sleep(0)
            return "seen"

        def ask(ctx: ToolContext) -> Any:
            self.ran["ask"] += 1
            return pending("Which?") if ctx.answer is None else ctx.answer.data

        async def wait(given: object) -> None:
            await asyncio.sleep(0)

        async def answer_slowly(request: PendingRequest) -> Answer:
            await asyncio.sleep(0)
            return Answer(request.id, ok=True, data="this")

        def on_chunk(chunk: Chunk) -> None:
            if isinstance(chunk, FinishChunk):
                self.finishes.append(chunk.finish_reason)

        looking = define_tool(look_slowly if is_async else look, name="look")
        self.toolkit = Toolkit(looking, define_tool(dig), define_tool(ask))

        def on_message(message: Message) -> Any:
            self.began = True
            return wait(message) if is_async else None

        hook: Any = wait if is_async else lambda given: None
        self.hooks = Hooks(
            before_llm=hook,
            after_llm=hook,
            before_tool=hook,
            after_tool=hook,
            on_message=on_message,
            on_chunk=on_chunk,
        )
        self.options: dict[str, Any] = {
            "wait_for": answer_slowly if is_async else lambda request: Answer(request.id, ok=True, data="this"),
            "retry_base": 0.0,
        }

    def check_kept(self, id: str) -> None:
        """The conversation is untouched, or what it has is whole and no tool that ran is missing."""
        messages = self.book.pages.get(id)
        ran = sorted(self.ran)
        if messages is None:
            assert not ran, f"{ran} ran, and nothing of it is kept"
            return
        assert messages[0] == Message("user", PROMPT)
        assert messages == balanced(messages), f"not balanced: {messages}"
        assert messages == closed(messages), f"calls are left open: {messages}"
        asked = {call.name for message in messages for call in message.tool_calls}
        assert asked >= set(ran), f"{ran} ran, and only {asked} is kept"

    def check_told(self) -> None:
        """Whoever watches the chunks heard once that the run was ended, unless the last answer was whole by then."""
        expected = int(self.began and "stop" not in self.finishes)
        assert self.finishes.count("aborted") == expected, f"the finish chunks were {self.finishes}"


# -- what a client holds


def connections(client: SyncClient | AsyncClient) -> tuple[int, int]:
    """How many connections of its own a client has in use, and how many it keeps for later."""
    world: Any = client._world
    own = world.transport._own if world is not None else None
    if own is None:
        return 0, 0
    return len(own._busy), len(own._idle)


def open_runs(client: SyncClient | AsyncClient) -> int:
    world: Any = client._world
    return len(world.runs._open) if world is not None else 0


def check_client(client: SyncClient | AsyncClient, server: Server) -> None:
    """No run is open, no connection in use, and the server has not one more than the client keeps."""
    assert open_runs(client) == 0, "a run is left open"
    busy, idle = connections(client)
    assert busy == 0, f"{busy} connections are left in use"
    server.wait_for(lambda: server.open_connections <= idle)


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("toolnexus")}


# -- the async world


class Stepped(Coroutine[Any, Any, Any]):
    """A coroutine that tells of each of its suspensions."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], told: Callable[[], None]) -> None:
        self._coroutine, self._told = coroutine, told

    def send(self, value: Any) -> Any:
        waiting_for = self._coroutine.send(value)
        self._told()
        return waiting_for

    def throw(self, *error: Any) -> Any:
        waiting_for = self._coroutine.throw(*error)
        self._told()
        return waiting_for

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError("only tasks run it")


class Suspensions:
    """Counts the suspensions of every task made inside, and acts at some of them."""

    def __init__(self, act: Callable[[], object], at: set[int]) -> None:
        self.count = 0
        self._act, self._at = act, at

    def __enter__(self) -> Suspensions:
        loop = asyncio.get_running_loop()

        def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
            return asyncio.Task(Stepped(coroutine, self._suspended), loop=loop, **options)

        loop.set_task_factory(make)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().set_task_factory(None)

    def _suspended(self) -> None:
        self.count += 1
        if self.count in self._at:
            self._act()


async def quiet() -> None:
    """Wait until no task but this one is left."""
    end = time.monotonic() + PATIENCE_S
    while left := asyncio.all_tasks() - {asyncio.current_task()}:
        assert time.monotonic() < end, f"tasks are left: {left}"
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # for connections that were aborted in the last step
    await asyncio.sleep(0)


# -- the sync world


def _would_keep_lock(frame: FrameType) -> bool:
    """Whether an exception at this instruction would leave a `with self._lock` without releasing the lock.

    A tracer can raise there, an interrupt cannot: CPython looks for signals when a call has returned, at jumps back and
    where a Python function begins, and between the last call of such a block and the release, which is one call in C,
    there is none of these.
    """
    lock: Any = getattr(frame.f_locals.get("self"), "_lock", None)
    if lock is None or not (lock._is_owned() if hasattr(lock, "_is_owned") else lock.locked()):
        return False
    instructions = {i.offset: i.opname for i in dis.get_instructions(frame.f_code)}
    entries = dis._parse_exception_table(frame.f_code)  # type: ignore[attr-defined]  # what dis prints, as numbers
    handlers = {entry.target for entry in entries if entry.start <= frame.f_lasti < entry.end}
    return not any(instructions.get(handler + 2) == "WITH_EXCEPT_START" for handler in handlers)


Line = tuple[str, int]
"""A file and the number of a line in it."""
Visit = tuple[Line, int]
"""A line and how often it was come to, from 1: it is the same place in every run, however many reads one has."""


class Lines:
    """Notes the lines of the package that this thread executes inside, and acts once: at the `at`-th, or soon after."""

    def __init__(self, act: Callable[[], object], at: int | Visit) -> None:
        self.visits: list[Visit] = []
        self.where = ""
        """Where it acted."""
        self._act, self._at = act, at
        self._times: Counter[Line] = Counter()

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        gc.disable()  # what earlier tests have left is collected at a time of its own, and is no visit of ours
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        gc.enable()

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._traced if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _traced(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            line = (frame.f_code.co_filename, frame.f_lineno)
            self._times[line] += 1
            self.visits.append((line, self._times[line]))
            if self._at in (len(self.visits), self.visits[-1]) and not self.where:
                if _would_keep_lock(frame):
                    self._at = len(self.visits) + 1
                else:
                    self.where = f"{line[0]}:{line[1]}"
                    self._act()
        return self._traced


def interrupt() -> None:
    raise KeyboardInterrupt


def everywhere(work: Callable[[int], Callable[[], object]], act: Callable[[], object]) -> Iterator[str]:
    """Do `work(n)` with `act` at its n-th line, for n from 1 to its last line, and say after each where that was."""
    for point in count(1):
        once = work(point)
        with Lines(act, point) as lines, contextlib.suppress(KeyboardInterrupt):
            once()
        if not lines.where:
            return
        yield lines.where
