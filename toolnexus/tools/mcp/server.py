"""One MCP server: connected when needed, and again after it was lost; its tools, and calls of them.

All of it happens on the toolkit's loop; other threads only read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...suspension import Answer, Pending
from ...tool import ToolResult
from ..misfits import clip, describe
from .call import Again, Call
from .config import ServerConfig
from .definitions import MISSING, Definition, Definitions
from .questions import Note, Question, Reply, read_note
from .results import to_tool_result
from .session import Session, SessionError, is_closed
from .status import MCPState
from .variables import MissingVariableError, Redaction, fill

if TYPE_CHECKING:
    from mcp import types

_log = logging.getLogger("toolnexus.mcp")

_PAUSE_S = 0.5
_MAX_PAUSE_S = 60.0
_MAX_ROUNDS = 10
"""How often a server may say that it needs more time, without asking anything."""
_ROUND_PAUSE_S = 0.2
_FIRST = Again()
_LAST_WORDS_S = 0.5
"""How long a call that lost its server waits to hear why."""


class Server:
    """One server of a toolkit."""

    def __init__(self, config: ServerConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.definitions = Definitions(accepts_changes=config.accept_changes)
        self.state: MCPState = "idle" if config.enabled else "disabled"
        self.error: str | None = None
        self.protocol: str | None = None
        self.title: str | None = None
        self._clock = clock
        self._is_closed = False
        self._redact = Redaction(())
        self._session: Session | None = None
        self._sessions: set[Session] = set()
        """All that are not over yet, those that wind down included."""
        self._connecting: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[None] | None = None
        self._is_listing_stale = False
        self._held: dict[str, Call] = {}
        self._failures = 0
        """Connections that failed or were lost since the server last gave a result."""
        self._not_before = 0.0

    # -- connecting

    async def connect(self) -> None:
        """Connect, unless it is connected; never raises, `state` and `error` tell."""
        if self.state in ("disabled", "closed") or (self._session is not None and self._session.is_live):
            return
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        # Others wait for the same connection: it goes on when one of them has had enough.
        await asyncio.shield(self._connecting)

    def _connected(self, _: object) -> None:
        self._connecting = None

    async def _connect(self) -> None:
        session: Session | None = None
        try:
            if self._is_closed:
                return
            if self.config.problem is not None:
                raise SessionError(self.config.problem)
            env = fill(self.config.env, os.environ, "env")
            headers = fill(self.config.headers, os.environ, "headers")
            self._redact = Redaction([*env.values(), *headers.values()])
            session = Session(self.config, env, headers, self._redact, self._list_changed, self._over)
            self._session = session
            self._sessions.add(session)
            await session.open()
            self.protocol, self.title = session.protocol, session.title
            self._take(await session.list_tools())
            self._warn_of_allowed()
        except Exception as error:
            why = str(error) if isinstance(error, (SessionError, MissingVariableError)) else describe(error)
            self._session = None
            if session is not None:
                await session.close()
                self._sessions.discard(session)
            self._failed(self._redact(why))
        else:
            if not self._is_closed:
                self.state, self.error = "connected", None

    def _failed(self, why: str) -> None:
        if self._is_closed:
            return
        self._failures += 1
        # The first one is repaired by the next call; a server that keeps failing is given ever more time.
        pause = 0.0 if self._failures == 1 else min(_MAX_PAUSE_S, _PAUSE_S * 2 ** (self._failures - 2))
        self._not_before = self._clock() + pause
        self.state, self.error = "failed", why
        _log.warning("MCP server %r: %s", self.config.name, why)

    def _lost(self, session: Session) -> None:
        """Note that a session is over, once."""
        if self._session is session:
            self._session = None
            if self.state == "connected":
                self._failed(f"the connection was lost: {session.why}")

    def _over(self, session: Session) -> None:
        self._sessions.discard(session)
        self._lost(session)

    async def close(self) -> None:
        """End the session and everything that belongs to it; for good."""
        self._is_closed = True
        if self.state != "disabled":
            self.state = "closed"
        for session in self._sessions:
            for call in list(session.calls):
                call.cancel()
        await asyncio.gather(*(session.close() for session in self._sessions))
        if self._connecting is not None:
            await asyncio.wait({self._connecting})

    # -- definitions

    def _take(self, listing: list[Definition]) -> None:
        for name in self.definitions.listed(listing):
            _log.warning(
                "MCP server %r: the definition of its tool %r changed since it was first seen; it is refused until "
                "Toolkit.accept(name), see Toolkit.status()",
                self.config.name,
                name,
            )

    def _warn_of_allowed(self) -> None:
        for name in self.config.allow or ():
            if not any(character in name for character in "*?[") and self.definitions.why_not(name) == MISSING:
                _log.warning("MCP server %r: 'allow' names %r, which the server does not offer", self.config.name, name)

    def _list_changed(self) -> None:
        self._is_listing_stale = True
        if self._listing is None:
            self._listing = asyncio.create_task(self._relist())

    async def _relist(self) -> None:
        """Look at the tools again. One whose definitions cannot be known is not called: its session ends."""
        try:
            while self._is_listing_stale and self._session is not None and self._session.is_live:
                session, self._is_listing_stale = self._session, False
                try:
                    self._take(await session.list_tools())
                except SessionError as error:
                    session.stop()
                    self._session = None
                    self._failed(str(error))
        finally:
            self._listing = None

    # -- calls

    async def call(
        self,
        tool: str,
        args: dict[str, Any],
        answer: Answer | None,
        memo: Any,  # Any: JSON
    ) -> ToolResult | Pending:
        """Make a call, or go on with one that was suspended.

        Args:
            tool: What the server calls it.
            args: Checked by the schema that was first seen.
            answer: To the call's last question.
            memo: What the call noted then.

        Returns:
            Its result; an error result where it fails in any way.
        """
        try:
            if answer is None or memo is None:
                return await self._begin(tool, args, [])
            note = read_note(memo)
            reply = note.asked.reply(answer)
            if isinstance(reply, str):
                return note.asked.pending(self.config.name, note, hint=reply)
            match note.how:
                case "waiting":
                    return await self._go_on(tool, args, note, reply)
                case "again":
                    return await self._answered(tool, args, note, reply)
                case "url":
                    return await self._begin(tool, args, []) if reply.action == "accept" else _declined(reply)
        except SessionError as error:
            return self._error(str(error))
        except Exception as error:  # what the SDK raises: the server's error, or a reply that does not fit the protocol
            return self._raised(tool, error)

    async def _begin(
        self,
        tool: str,
        args: dict[str, Any],  # Any: JSON
        given: list[Reply],
        again: Again = _FIRST,
    ) -> ToolResult | Pending:
        session = await self._ready(tool)
        return await self._watch(session, await session.start(Call(tool, args, again)), given)

    async def _ready(self, tool: str) -> Session:
        """The session for a call of `tool`, connected again if need be.

        Raises:
            SessionError: There is none, or the tool must not be called.
        """
        if self._session is not None and not self._session.is_live:
            self._lost(self._session)
        if self._session is None:
            if self._connecting is None and (pause := self._not_before - self._clock()) > 0:
                raise SessionError(f"{self.error}; it is tried again in {pause:.0f} s at the earliest")
            await self.connect()
        while self._listing is not None:
            await asyncio.wait({self._listing})
        if self._session is None or not self._session.is_live:
            raise SessionError(self.error or f"it is {self.state}")
        if (why := self.definitions.why_not(tool)) is not None:
            raise SessionError(f"its tool {tool!r} was not called: {why}")
        return self._session

    async def _watch(self, session: Session, call: Call, given: list[Reply]) -> ToolResult | Pending:
        """Wait for a call's result, or for a question that nobody has answered yet."""
        try:
            async with asyncio.timeout(self.config.timeouts.call):
                while True:
                    await call.news()
                    opened = None if call.is_done else call.question
                    reply = None if opened is None else self._known(opened.question, given)
                    if opened is None or reply is None:
                        break
                    call.answer(opened, reply)
        except TimeoutError:
            call.cancel()
            seconds = self.config.timeouts.call
            return self._error(f"it did not answer within {seconds:g} s (timeout.call); the call was cancelled")
        except BaseException:
            call.cancel()
            raise
        if opened is None:
            return await self._finished(session, call, given)
        self._held[call.id] = call
        call.hold(self.config.timeouts.answer, lambda: self._held.pop(call.id, None))
        note = Note("waiting", opened.question, call=call.id, given=[*call.given, *given])
        return opened.question.pending(self.config.name, note, sure=opened.is_sure)

    def _known(self, question: Question, given: list[Reply]) -> Reply | None:
        """The answer that there is already; each counts once."""
        if not question.may_be_shown:
            _log.warning("MCP server %r: it asks to open an address that is not http(s)", self.config.name)
            return Reply(question, "decline")
        for index, reply in enumerate(given):
            if reply.question == question:
                return given.pop(index)
        return None

    async def _finished(self, session: Session, call: Call, given: list[Reply]) -> ToolResult | Pending:
        from mcp import types

        try:
            result = call.result()
        except asyncio.CancelledError:
            if self._is_closed:
                return self._error("the call was cancelled: the toolkit was closed")
            return await self._lost_in(session)
        except Exception as error:
            if session.is_unknown(error):  # refused before anything was done: it is safe to try once more
                session.stop()
                self._lost(session)
                return await self._begin(call.tool, call.args, [*call.given, *given], call.again)
            if is_closed(error) or not session.is_live:
                return await self._lost_in(session)
            return self._raised(call.tool, error)
        self._failures = 0
        if isinstance(result, types.CallToolResult):
            return to_tool_result(result)
        return await self._input_required(call, result, given)

    async def _lost_in(self, session: Session) -> ToolResult:
        """The result of a call whose session ended; the call is not made again by itself."""
        session.stop()
        await session.over(_LAST_WORDS_S)
        self._lost(session)
        return self._error(f"it was lost while it worked at the call; nobody knows what it did: {session.why}")

    # -- questions

    async def _go_on(self, tool: str, args: dict[str, Any], note: Note, reply: Reply) -> ToolResult | Pending:
        """Answer the server that waits; where none does, the call is made again, and answered when it asks again."""
        call, session = self._held.pop(note.call, None), self._session
        if call is not None and session is not None and (call in session.calls or call.has_result):
            call.release()
            return await self._watch(session, call, [reply])  # it may have gone on without the answer
        return await self._begin(tool, args, [*note.given, reply]) if reply.action == "accept" else _declined(reply)

    async def _input_required(
        self, call: Call, result: types.InputRequiredResult, given: list[Reply]
    ) -> ToolResult | Pending:
        questions: dict[str, Question] = {}
        for key, request in (result.input_requests or {}).items():
            if request.method != "elicitation/create":
                return self._error(f"it asks for {request.method!r}, which is not supported")
            questions[key] = Question.of(request.params)
        if questions:
            note = Note(
                "again", next(iter(questions.values())), state=result.request_state, left=questions, given=given
            )
            return await self._ask_next(call.tool, call.args, note)
        if call.again.round >= _MAX_ROUNDS:
            return self._error(f"it asked for more time {_MAX_ROUNDS} times")
        await asyncio.sleep(_ROUND_PAUSE_S)
        again = Again(state=result.request_state, round=call.again.round + 1)
        return await self._begin(call.tool, call.args, given, again)

    async def _answered(self, tool: str, args: dict[str, Any], note: Note, reply: Reply) -> ToolResult | Pending:
        note.done[note.key] = reply
        return await self._ask_next(tool, args, note)

    async def _ask_next(self, tool: str, args: dict[str, Any], note: Note) -> ToolResult | Pending:
        """Ask the questions of one reply one after the other, then make the call again with all the answers."""
        while note.left:
            note.key, note.asked = next(iter(note.left.items()))
            del note.left[note.key]
            known = self._known(note.asked, note.given)
            if known is None:
                return note.asked.pending(self.config.name, note)
            note.done[note.key] = known
        again = Again({key: reply.to_result() for key, reply in note.done.items()}, note.state)
        return await self._begin(tool, args, note.given, again)

    # -- failures

    def _raised(self, tool: str, error: Exception) -> ToolResult | Pending:
        from mcp import MCPError, UrlElicitationRequiredError, types

        if not isinstance(error, MCPError):
            _log.warning("MCP server %r: its tool %r failed: %s", self.config.name, tool, self._redact(describe(error)))
            return self._error(describe(error))
        if error.code == types.URL_ELICITATION_REQUIRED:
            pages = UrlElicitationRequiredError.from_error(error.error).elicitations
            question = Question.of(pages[0]) if pages else None
            if question is not None and question.may_be_shown:
                return question.pending(self.config.name, Note("url", question))
        return self._error(error.message)

    def _error(self, why: str) -> ToolResult:
        return ToolResult(f"MCP server {self.config.name!r}: {clip(self._redact(why), 2000)}", is_error=True)


def _declined(reply: Reply) -> ToolResult:
    reason = f": {reply.reason}" if reply.reason else ""
    return ToolResult(f"The call did not go on: declined{reason}.", is_error=True)
