"""One session with a server, from its beginning to its end.

Whatever the session is made of (a child process, its pipes, the SDK's task groups) is entered and left by one task,
its owner, which nobody cancels: it is told to stop, and winds down in order. Calls are tasks beside it.

    connecting ──► live ──► over          told to stop, or nothing more can come from the server
         └───────────────► over          no connection, no agreement, no time
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..._version import VERSION
from ..misfits import clip, describe
from .call import Call, Open
from .config import ServerConfig
from .definitions import Definition
from .questions import Question
from .transport import Ears, transport
from .variables import Redaction

if TYPE_CHECKING:
    from mcp import Client, types
    from mcp.client import ClientRequestContext, IncomingMessage

_log = logging.getLogger("toolnexus.mcp")

_MAX_PAGES = 100
_MAX_TOOLS = 1000
_GOODBYE_S = 3.0
"""How long the end of an HTTP session may take. A child process has bounds of the SDK's own, 2 s for each step."""
_LISTEN_AGAIN_S = 1.0
_MAX_LISTEN_AGAIN_S = 60.0

_current: ContextVar[Call | None] = ContextVar("toolnexus_mcp_call", default=None)
"""The call that a request of the server is about, where that is known: over HTTP it comes on the call's own stream."""


class SessionError(Exception):
    """A session could not begin or go on; the message says why, without secrets."""


class Session:
    """A session with one server; all of it on one event loop."""

    def __init__(
        self,
        config: ServerConfig,
        env: Mapping[str, str],
        headers: Mapping[str, str],
        redact: Redaction,
        list_changed: Callable[[], None],
        is_over: Callable[[Session], None],
    ) -> None:
        self._config = config
        self._env = env
        self._headers = headers
        self._redact = redact
        self._list_changed = list_changed
        self._is_over = is_over
        self._stop = asyncio.Event()
        self._settled = asyncio.Event()
        self._ears = Ears(config.name, redact, self.stop)
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._error: str | None = None
        self._was_refused_early = False
        self.calls: list[Call] = []
        """Those under way, the oldest first."""
        self._unassigned: list[Open] = []
        self._is_clear = asyncio.Event()
        self._is_clear.set()

    # -- beginning and end

    async def open(self) -> None:
        """Begin; returns when the protocol is agreed on.

        Raises:
            SessionError: There is no session; whatever was begun has ended.
        """
        for mode in ("auto", "legacy") if self._config.protocol == "auto" else ("legacy",):
            self._stop.clear()
            self._settled.clear()
            self._is_stopped = False
            self._error = None
            self._owner = asyncio.create_task(self._own(mode))
            await self._settled.wait()
            if self._client is not None:
                return
            await asyncio.wait({self._owner})
            # Some servers of the older protocol end when the first message is not theirs: begin as they want it.
            if not self._was_refused_early:
                break
        raise SessionError(self.why)

    async def close(self) -> None:
        """Stop, and wait until all that belongs to it is gone."""
        self.stop()
        await self.over()

    async def over(self, seconds: float | None = None) -> None:
        """Wait so long for its end."""
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=seconds)

    def stop(self) -> None:
        """Wind down: there will be no more calls."""
        self._is_stopped = True
        self._stop.set()
        self._is_clear.set()

    @property
    def is_live(self) -> bool:
        """Whether calls can be made."""
        return self._client is not None and not self._is_stopped

    @property
    def why(self) -> str:
        """Why it is over, as far as is known."""
        reasons = [self._error or "the connection ended"]
        if self._ears.status is not None:
            reasons.append(f"HTTP status {self._ears.status}")
        if self._ears.last_words:
            reasons.append(f"its last words were {self._ears.last_words!r}")
        return clip(self._redact("; ".join(reasons)), 500)

    @property
    def protocol(self) -> str | None:
        """The version that was agreed on."""
        return self._client.protocol_version if self._client is not None else None

    @property
    def title(self) -> str | None:
        """How the server calls itself."""
        info = self._client.server_info if self._client is not None else None
        return clip(f"{info.name} {info.version}".strip(), 100) if info is not None else None

    async def _own(self, mode: str) -> None:
        import anyio
        from mcp import Client

        loop = asyncio.get_running_loop()
        scope = anyio.CancelScope()

        def out_of_time() -> None:
            self._error = f"there was no answer within {self._config.timeouts.connect:g} s (timeout.connect)"
            scope.cancel()

        timer = loop.call_later(self._config.timeouts.connect, out_of_time)
        # Told to stop while it connects, it must not go on waiting.
        stopping = asyncio.create_task(self._cancel_when_stopped(scope, timer))
        try:
            with scope:
                async with Client(
                    transport(self._config, self._env, self._headers, self._ears),
                    mode=mode,
                    elicitation_callback=self._elicit,
                    message_handler=self._heard,
                    client_info=_client_info(),
                    cache=None,
                ) as client:
                    timer.cancel()
                    self._client = client
                    self._settled.set()
                    listening = asyncio.create_task(self._listen(client))
                    try:
                        await self._stop.wait()
                    finally:
                        listening.cancel()
                        await asyncio.wait({listening})
        except BaseException as error:  # also groups of errors, and a CancelledError when the loop itself ends
            cause = _first_cause(error)
            self._was_refused_early = self._client is None and is_closed(cause)
            self._error = self._error or _explain(cause)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            timer.cancel()
            stopping.cancel()
            self._is_stopped = True
            for call in self.calls:
                call.cancel()
            self._settled.set()
            if self._client is not None:  # else `open` tells
                self._is_over(self)

    async def _cancel_when_stopped(self, scope: Any, timer: asyncio.TimerHandle) -> None:  # Any: of anyio, typed there
        await self._stop.wait()
        timer.cancel()
        if self._client is not None:
            await asyncio.sleep(_GOODBYE_S)
        scope.cancel()

    # -- what is asked of the server

    async def list_tools(self) -> list[Definition]:
        """All pages of the server's tools, those that its configuration allows.

        Raises:
            SessionError: The server cannot say, or says too much.
        """
        found: dict[str, Definition] = {}
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._config.timeouts.list):
                for _ in range(_MAX_PAGES):
                    page = await self._live.list_tools(cursor=cursor)
                    for tool in page.tools:
                        if self._config.allows(tool.name):
                            found.setdefault(tool.name, _definition(tool))
                    if len(found) > _MAX_TOOLS:
                        raise SessionError(f"it lists more than {_MAX_TOOLS} tools; name some in 'allow'")
                    cursor = page.next_cursor
                    if cursor is None:
                        return list(found.values())
        except TimeoutError:
            limit = self._config.timeouts.list
            raise SessionError(f"it did not list its tools within {limit:g} s (timeout.list)") from None
        except SessionError:
            raise
        except Exception as error:
            reason = self.why if self._is_stopped else self._redact(_explain(error))
            raise SessionError(f"it did not list its tools: {reason}") from None
        raise SessionError(f"its list of tools has more than {_MAX_PAGES} pages")

    async def start(self, call: Call) -> Call:
        """Begin a call. While it is open whose question a server has asked, no further one begins.

        Raises:
            SessionError: The session is over.
        """
        await self._is_clear.wait()
        session = self._live.session

        async def run() -> types.CallToolResult | types.InputRequiredResult:
            _current.set(call)
            return await session.call_tool(
                call.tool,
                call.args,
                input_responses=call.again.responses,
                request_state=call.again.state,
                allow_input_required=True,
            )

        self.calls.append(call)
        call.begin(run(), self._ended)
        return call

    def is_unknown(self, error: BaseException) -> bool:
        """Whether `error` says that the HTTP server does not know the session any more: it was started anew.

        Source: Model Context Protocol 2025-11-25, "Transports", "Session Management": such a request is answered with
        404, and the client must begin a new session. There is no code for it, so the word must do.
        """
        from mcp import MCPError

        return isinstance(error, MCPError) and self._ears.status == 404 and "session" in error.message.lower()

    @property
    def _live(self) -> Client:
        if self._client is None or self._is_stopped:
            raise SessionError(self.why)
        return self._client

    def _ended(self, call: Call) -> None:
        self.calls.remove(call)
        self._assign()

    # -- what the server asks

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Find the call that the question is about, and wait for its answer."""
        from mcp import types

        opened = Open(Question.of(params))
        call = _current.get()
        if call is not None and call in self.calls:
            call.ask(opened)
        elif not self.calls:
            return types.ErrorData(code=types.INVALID_REQUEST, message="there is no call to ask for")
        else:
            self._unassigned.append(opened)
            self._assign()
        try:
            await asyncio.wait({opened.reply})
            if opened.reply.cancelled():  # the calls that it could be about are over
                return types.ElicitResult(action="cancel")
            return opened.reply.result().to_result()
        finally:
            opened.reply.cancel()  # the server asks no more: an answer that comes later must know
            if opened in self._unassigned:
                self._unassigned.remove(opened)
            self._assign()

    def _assign(self) -> None:
        """Give each question to a call, as soon as there are no more calls that it may be about than questions.

        Over stdio a question does not say which call it belongs to. Calls that ask nothing end by themselves; those
        that are left are the ones that wait.
        """
        while self._unassigned and self.calls:
            waiting = [call for call in self.calls if not call.is_asking]
            if len(waiting) > len(self._unassigned):
                break
            opened = self._unassigned.pop(0)
            opened.is_sure = len(self.calls) == 1
            (waiting or self.calls)[0].ask(opened)
        for opened in self._unassigned if not self.calls else ():
            opened.reply.cancel()
        if self._unassigned and self.is_live:
            self._is_clear.clear()
        else:
            self._is_clear.set()

    async def _heard(self, message: IncomingMessage) -> None:
        if not isinstance(message, Exception) and message.method == "notifications/tools/list_changed":
            self._list_changed()

    async def _listen(self, client: Client) -> None:
        """Ask to be told of changes, where the protocol wants to be asked."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools = client.server_capabilities.tools
        pause = _LISTEN_AGAIN_S
        while tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._list_changed()  # what changed since they were listed was told nobody
                    async for _ in changes:
                        pass  # `_heard` is told, too
            except ListenNotSupportedError:  # an older protocol, which tells unasked
                return
            except MCPError as error:
                _log.debug("%s: no news of changed tools: %s", self._config.name, self._redact(error.message))
                return
            except SubscriptionLost:
                pass
            await asyncio.sleep(pause)
            pause = min(_MAX_LISTEN_AGAIN_S, 2 * pause)


def _client_info() -> types.Implementation:
    from mcp import types

    return types.Implementation(name="toolnexus", version=VERSION)


def _definition(tool: types.Tool) -> Definition:
    annotations = tool.annotations.model_dump(mode="json", exclude_none=True) if tool.annotations is not None else None
    return Definition(
        tool.name, tool.description or tool.title or "", tool.input_schema, tool.output_schema, annotations
    )


def _first_cause(error: BaseException) -> BaseException:
    """The first error in a group, which task groups make of every one."""
    while isinstance(error, BaseExceptionGroup):
        inner = [one for one in error.exceptions if not isinstance(one, asyncio.CancelledError)]
        error = (inner or error.exceptions)[0]
    return error


def is_closed(error: BaseException) -> bool:
    """Whether it says that the session is over."""
    from mcp import MCPError, types

    return isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED


def _explain(error: BaseException) -> str:
    from mcp import MCPError

    if isinstance(error, MCPError):
        return error.message
    if isinstance(error, asyncio.CancelledError):
        return "the toolkit was closed"
    return describe(error)
