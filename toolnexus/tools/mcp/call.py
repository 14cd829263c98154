"""One call that a server works at, and what the server asks in the course of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .questions import Question, Reply

if TYPE_CHECKING:
    from mcp import types


@dataclass(frozen=True, slots=True)
class Again:
    """What a call goes on with that the server ended as `input_required`."""

    responses: dict[str, types.InputResponse] | None = None
    """The answers, by the server's names of the questions."""
    state: str | None = None
    """What it wants back."""
    round: int = 0
    """How often it wanted to be called again without having asked anything."""


class Open:
    """A question that a server waits for the answer of."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.is_sure = True
        """Whether it is certain which call it is about."""
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        """Cancelled when the server does not wait any more."""


class Call:
    """One call under way: it has a result at last, and may ask before."""

    def __init__(self, tool: str, args: dict[str, Any], again: Again) -> None:
        """Begin nothing yet.

        Args:
            tool: What the server calls it.
            args: JSON.
            again: What the server said and was told before.
        """
        self.id = os.urandom(8).hex()
        self.tool = tool
        self.args = args
        self.again = again
        self.given: list[Reply] = []
        """What the server was answered, in order."""
        self._asked: list[Open] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[types.CallToolResult | types.InputRequiredResult] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(
        self,
        running: Coroutine[Any, Any, types.CallToolResult | types.InputRequiredResult],
        ended: Callable[[Call], None],
    ) -> None:
        """Run it; `ended` is told when it has its result."""

        def done(task: asyncio.Task[types.CallToolResult | types.InputRequiredResult]) -> None:
            if not task.cancelled():
                task.exception()  # looked at: a held call that nobody goes on with must not be reported as lost
            for opened in self._asked:
                opened.reply.cancel()
            self._news.set()
            ended(self)

        self._task = asyncio.create_task(running)
        self._task.add_done_callback(done)

    @property
    def is_asking(self) -> bool:
        """Whether the server waits for an answer."""
        return self.question is not None

    @property
    def question(self) -> Open | None:
        """The first question that waits."""
        return next((opened for opened in self._asked if not opened.reply.done()), None)

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        return self._task is not None and self._task.done()

    @property
    def has_result(self) -> bool:
        """Whether it came to a good end."""
        task = self._task
        return task is not None and task.done() and not task.cancelled() and task.exception() is None

    def answer(self, opened: Open, reply: Reply) -> None:
        """Answer a question that waits."""
        opened.reply.set_result(reply)
        self.given.append(reply)

    def ask(self, opened: Open) -> None:
        """The server asks something, and waits."""
        self._asked.append(opened)
        self._news.set()

    async def news(self) -> None:
        """Wait until there is a result, or a question."""
        while not self.is_done and not self.is_asking:
            self._news.clear()
            await self._news.wait()

    def result(self) -> types.CallToolResult | types.InputRequiredResult:
        """The result.

        Raises:
            Exception: What the SDK raised.
            asyncio.CancelledError: It was cancelled.
        """
        assert self._task is not None
        return self._task.result()

    def cancel(self) -> None:
        """Give it up; the server is told."""
        self.release()
        if self._task is not None:
            self._task.cancel()

    def hold(self, seconds: float, expired: Callable[[], object]) -> None:
        """Let the server wait for the answer so long, and then give the call up."""

        def expire() -> None:
            while (opened := self.question) is not None:
                opened.reply.set_result(Reply(opened.question, "cancel"))
            self.cancel()
            expired()

        self._timer = asyncio.get_running_loop().call_later(seconds, expire)

    def release(self) -> None:
        """Somebody looks after it again."""
        if self._timer is not None:
            self._timer.cancel()
