"""A set of tools under their names, for a run or by hand."""

from __future__ import annotations

import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .._copies import copied
from ..errors import ConfigurationError
from ..suspension import Pending
from ..tool import Tool, ToolContext, ToolResult
from .function import define_tool
from .misfits import clip
from .output import failure, to_result
from .signature import Function, without_partials

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

    from .builtin import Builtins
    from .mcp import MCPConfig, MCPServers, MCPStatus
    from .skills import Skills
    from .skills import Source as SkillSource

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Toolkit:
    """Tools that a model may call; each name stands for one tool.

    May be shared by threads and runs. Use it with `with` or `async with`, or close it, once a source of tools in
    it holds something; functions hold nothing.
    """

    def __init__(
        self,
        *tools: Tool | Toolkit | Function,
        skills: Skills | SkillSource | Sequence[SkillSource] | None = None,
        builtins: Builtins | None = None,
        mcp: MCPConfig | None = None,
    ) -> None:
        """Collect tools.

        Args:
            tools: `Tool` objects, functions to make one of, and other toolkits, whose tools of this moment are
                taken; they are not closed with this one.
            skills: Folders to look for skills in, `Skill` objects, a list of both, or `Skills` with a choice among
                them. They are named in the system prompt, and a tool named `skill` loads them.
            builtins: Built-in tools, those that it names; none without it.
            mcp: MCP servers: the path of a JSON file, or what would be in it. They are started when first needed, and
                live until the toolkit is closed; what cannot be reached has no tools, see `status()`.

        Raises:
            ConfigurationError: Two tools have one name, no tool can be made of a function, or `mcp` cannot be read.
            TypeError: One is something else.
        """
        self._lock = threading.Lock()
        self._tools: dict[str, Tool] = {}  # replaced, never changed: readers need no lock
        self._mcp: MCPServers | None = None
        self._skills: list[Skills] = []
        for item in tools:
            for tool in item.tools() if isinstance(item, Toolkit) else (item,):
                self.register(tool)
            if isinstance(item, Toolkit):
                self._skills += item._skills
        if skills is not None:
            self._add_skills(skills)
        if builtins is not None:
            self._add_builtins(builtins)
        if mcp is not None:
            from .mcp import MCPServers  # few toolkits have any

            self._mcp = MCPServers(mcp)

    def _add_skills(self, given: Skills | SkillSource | Sequence[SkillSource]) -> None:
        from .skills import Skills  # most toolkits have none

        skills = Skills.of(given)
        self._skills.append(skills)
        if (tool := skills.tool()) is not None:
            self.register(tool)

    def __repr__(self) -> str:
        return f"<Toolkit {', '.join(self._tools) or '(empty)'}>"

    def register(self, tool: Tool | Function) -> Tool:
        """Add a tool, or a function to make one of; a run under way goes on with the tools it began with.

        Raises:
            ConfigurationError: The name is taken, or no tool can be made of the function.
            TypeError: It is neither.
        """
        if not isinstance(tool, Tool):
            if not callable(tool):
                hint = (
                    "; give the tools one by one: Toolkit(a, b)" if isinstance(tool, (list, tuple, set, dict)) else ""
                )
                raise TypeError(f"expected a Tool or a function, got {clip(repr(tool))} ({type(tool).__name__}){hint}")
            tool = define_tool(tool)
        with self._lock:
            if (other := self._tools.get(tool.name)) is not None:
                raise ConfigurationError(
                    f"two tools are named {tool.name!r}: {_origin(other)} and {_origin(tool)}; pass name= to one"
                )
            if self._mcp is not None and self._mcp.knows(tool.name):
                raise ConfigurationError(f"a tool of an MCP server is named {tool.name!r} already; pass name=")
            self._tools = {**self._tools, tool.name: tool}
        return tool

    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order they came, then those of MCP servers, for which this waits the first time."""
        own = self._tools
        return tuple(own.values()) if self._mcp is None else (*own.values(), *self._mcp.tools(own))

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        if (own := self._tools.get(name)) is not None or self._mcp is None:
            return own
        return next((tool for tool in self._mcp.tools(self._tools) if tool.name == name), None)

    def connect(self) -> None:
        """Connect MCP servers, those that failed before, too; `status()` says how it went.

        A run does this when it begins, `with` does, and so does asking for the tools; it waits for the slowest server.
        """
        if (connecting := self.connecting(again=True)) is not None:
            connecting.result()

    async def aconnect(self) -> None:
        """Connect, as `connect` does, without holding up the event loop."""
        if (connecting := self.connecting(again=True)) is not None:
            await _wrapped(connecting)

    def status(self) -> dict[str, MCPStatus]:
        """How it stands with each MCP server, by name; connects nothing."""
        return {} if self._mcp is None else self._mcp.status()

    def accept(self, name: str) -> None:
        """Let a tool be called whose definition its MCP server changed after it was first seen.

        Until then its calls are error results and new runs do not get it; `status()[server].changed` shows both
        definitions. A server could otherwise pass off another tool for the one that somebody agreed to.

        Args:
            name: The tool's, as the model calls it.

        Raises:
            ConfigurationError: No such tool is refused.
        """
        if self._mcp is None:
            raise ConfigurationError(f"accept: there is no MCP server that could have changed {clip(repr(name))}")
        self._mcp.accept(name)

    def execute(
        self,
        name: str,
        args: dict[str, Any],  # Any: JSON
        ctx: ToolContext | None = None,
    ) -> ToolResult | Pending:
        """Run one tool by hand, outside any run: without approval, timeout or limits.

        An async tool runs on an event loop of its own in a helper thread, so this works inside a running loop too,
        which it blocks.

        Returns:
            The result; an error result for an unknown name, arguments that do not fit, or a tool that raised.
        """
        _, call = self._bind(name, args, ctx)
        value = _attempt(call, name)
        if inspect.isawaitable(value):
            value = _in_thread(_attempt, functools.partial(_wait_for, value), name).result()
        return to_result(value)

    async def aexecute(
        self,
        name: str,
        args: dict[str, Any],  # Any: JSON
        ctx: ToolContext | None = None,
    ) -> ToolResult | Pending:
        """Run one tool by hand, as `execute` does; a sync tool runs in a thread, an async one in this loop."""
        import asyncio  # not needed before a tool runs, and slow to import

        is_async, call = self._bind(name, args, ctx)
        value = _attempt(call, name) if is_async else await asyncio.wrap_future(_in_thread(_attempt, call, name))
        if inspect.isawaitable(value):
            try:
                value = await value
            except Exception as error:
                value = _failed(error, name)
        return to_result(value)

    def to_openai(self) -> list[dict[str, Any]]:  # Any: JSON
        """The tools as OpenAI's `tools` parameter."""
        return [
            {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
            for name, description, schema in self._definitions()
        ]

    def to_anthropic(self) -> list[dict[str, Any]]:  # Any: JSON
        """The tools as Anthropic's `tools` parameter."""
        return [
            {"name": name, "description": description, "input_schema": schema}
            for name, description, schema in self._definitions()
        ]

    def skills_prompt(self) -> str:
        """What a system prompt says about skills, sorted by name; empty without any."""
        return "\n\n".join(text for text in (skills.prompt() for skills in self._skills) if text)

    def close(self) -> None:
        """Give back what the tools' sources hold: the processes of MCP servers are gone; may be called again."""
        if self._mcp is not None:
            self._mcp.close().result()

    async def aclose(self) -> None:
        """Give back what the tools' sources hold, as `close` does."""
        if self._mcp is not None:
            await _wrapped(self._mcp.close())

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.aconnect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _add_builtins(self, builtins: object) -> None:
        from .builtin import Builtins  # few toolkits have any, and they take a while to import

        if not isinstance(builtins, Builtins):
            raise TypeError(
                f"builtins: expected Builtins(root, allow=['read', ...]), got {clip(repr(builtins))}; "
                "none is on unless it is named"
            )
        for tool in builtins.tools():
            self.register(tool)

    def connecting(self, *, again: bool = False) -> Future[None] | None:
        """Begin to connect MCP servers, once or `again`, without waiting; this is what clients do.

        Returns:
            Done when each server is connected or has failed; `None` if there is nothing to wait for.
        """
        return None if self._mcp is None else self._mcp.connecting(again=again)

    def _definitions(self) -> list[tuple[str, str, dict[str, Any]]]:  # Any: JSON
        return [(tool.name, tool.description, copied(dict(tool.input_schema))) for tool in self.tools()]

    def _bind(self, name: str, args: dict[str, Any], ctx: ToolContext | None) -> tuple[bool, Callable[[], object]]:
        """Return whether the call is async, and the call; what does not fit is a call that gives the error."""
        tool = self.get(name)
        if tool is None:
            known = ", ".join(tool.name for tool in self.tools()) or "none"
            result = ToolResult(f"no tool is named {clip(name)!r}; there are: {clip(known, 1000)}", is_error=True)
            return True, lambda: result
        try:
            return tool.is_async, tool.bind(args, ctx or ToolContext(name=name))
        except Exception as error:
            result = failure(error, name)
            return True, lambda: result


async def _wrapped(future: Future[T]) -> T:
    import asyncio  # as above

    return await asyncio.wrap_future(future)


def _attempt(call: Callable[[], object], name: str) -> object:
    """Make the call; an exception of the tool's becomes its result, `KeyboardInterrupt` and `SystemExit` pass."""
    try:
        return call()
    except Exception as error:
        return _failed(error, name)


def _failed(error: Exception, name: str) -> ToolResult:
    _log.warning("tool %r failed", name, exc_info=error)
    return failure(error, name)


def _wait_for(value: Awaitable[T]) -> T:
    """Wait on an event loop of its own."""
    import asyncio  # as above

    async def main() -> T:
        return await value

    return asyncio.run(main())


def _in_thread(function: Callable[..., T], *args: object) -> Future[T]:
    """Run in a daemon thread with the caller's context variables: a tool that hangs must not hold up the exit."""
    from concurrent.futures import Future  # as above

    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # once begun it cannot be cancelled, only left alone
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(function, *args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="toolnexus-tool", daemon=True).start()
    return future


def _origin(tool: Tool) -> str:
    function = without_partials(tool.function)
    named = function if hasattr(function, "__qualname__") else function.__class__
    return f"{named.__module__}.{named.__qualname__}"
