"""All MCP servers of a toolkit: their tools under the names that a model knows, for callers in any thread."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import json
import os
import threading
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

from ...errors import ConfigurationError
from ...suspension import Pending
from ...tool import Tool, ToolContext, ToolResult
from ..json_schema import check_schema, misfits
from ..misfits import clip, refusal
from .config import MCPConfig, ServerConfig, read_config
from .definitions import Definition
from .loop import LoopThread
from .names import Names
from .server import Server
from .status import MCPChange, MCPStatus

Schema = dict[str, Any]  # Any: JSON


class MCPServers:
    """The servers of one configuration, connected when first needed, until `close`."""

    def __init__(self, config: MCPConfig) -> None:
        """Read the configuration; nothing is started.

        Raises:
            ConfigurationError: It cannot be read, or the SDK is not there.
        """
        _check_sdk()
        self._configs = read_config(config)
        self._lock = threading.Lock()
        self._names = Names()
        self._tools: dict[tuple[str, str], tuple[str, str, Tool]] = {}
        self._pid = os.getpid()
        self._start_anew()

    def _start_anew(self) -> None:
        """Servers, and a thread for them, of this process."""
        self._servers = {config.name: Server(config) for config in self._configs}
        self._connecting: Future[None] | None = None
        servers = list(self._servers.values())

        async def close_all() -> None:
            await asyncio.gather(*(server.close() for server in servers))

        # Neither the thread nor what runs on it knows this object: once nobody else does, the thread ends.
        self._thread = LoopThread(close_all)
        self._finalizer = weakref.finalize(self, self._thread.close)
        self._finalizer.atexit = False  # then the threads are waited for

    # -- connecting

    def connecting(self, *, again: bool = False) -> Future[None] | None:
        """Begin to connect, the first time or `again`.

        Returns:
            Done when each server is connected or has failed; never fails itself. `None` if that has been.
        """
        with self._lock:
            if self._pid != os.getpid():  # in a forked child: the thread, and what it spoke with, are the parent's
                self._pid = os.getpid()
                self._finalizer.detach()
                self._start_anew()
            if self._connecting is not None and self._connecting.done() and again:
                self._connecting = None
            if self._connecting is None and self._finalizer.alive:
                servers = list(self._servers.values())

                async def connect_all() -> None:
                    await asyncio.gather(*(server.connect() for server in servers))

                self._connecting = self._thread.submit(connect_all)
            return None if self._connecting is None or self._connecting.done() else self._connecting

    # -- tools

    def tools(self, taken: Collection[str]) -> tuple[Tool, ...]:
        """The tools that may be called; waits for the servers the first time.

        Args:
            taken: Names of tools from elsewhere, which come first.
        """
        connecting = self.connecting()
        if connecting is not None:
            connecting.result()
        with self._lock:
            return tuple(
                self._tool(server.config, definition, taken)
                for server in self._servers.values()
                for definition in server.definitions.offered()
            )

    def _tool(self, config: ServerConfig, definition: Definition, taken: Collection[str]) -> Tool:
        key = (config.name, definition.name)
        name = self._names.give(*key, taken)
        known = self._tools.get(key)
        if known is None or known[:2] != (name, definition.key):
            known = self._tools[key] = (name, definition.key, self._made(config, definition, name))
        return known[2]

    def _made(self, config: ServerConfig, definition: Definition, name: str) -> Tool:
        remote = RemoteTool(self, config.name, definition.name)
        schema, is_checked = _input_schema(definition.input_schema)

        def bind(args: dict[str, Any], ctx: ToolContext) -> Callable[[], Any]:  # Any: JSON, and the call's coroutine
            if is_checked and (problems := list(misfits(args, schema))):
                raise refusal(problems)
            own = copy.deepcopy(args)
            return lambda: remote(own, ctx)

        return Tool(
            name=name,
            description=definition.description,
            input_schema=schema,
            function=remote,
            bind=bind,
            is_async=True,
            approval=config.needs_approval(definition.name),
            hears_declines=True,  # the server is told
        )

    def knows(self, name: str) -> bool:
        """Whether a tool of that name was given out."""
        return self._names.find(name) is not None

    async def call(self, server: str, tool: str, args: dict[str, Any], ctx: ToolContext) -> ToolResult | Pending:
        """Make a call, from whatever event loop; `ctx.cancel` and cancelling the task end it."""
        target = self._servers[server]
        try:
            future = self._thread.submit(lambda: target.call(tool, args, ctx.answer, ctx.memo))
        except RuntimeError as error:
            return ToolResult(f"MCP server {server!r}: {error}", is_error=True)
        unlink = ctx.cancel.add_callback(future.cancel)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return ToolResult(f"MCP server {server!r}: the call was cancelled", is_error=True)
        finally:
            unlink()

    # -- what its owner may look at and do

    def status(self) -> dict[str, MCPStatus]:
        """How it stands with each server, by name."""
        with self._lock:
            return {name: self._status(server) for name, server in self._servers.items()}

    def _status(self, server: Server) -> MCPStatus:
        name = server.config.name

        def called(definition: Definition) -> str:
            return self._names.give(name, definition.name, ())

        return MCPStatus(
            name=name,
            transport=server.config.transport,
            state=server.state,
            error=server.error,
            tools=tuple(called(definition) for definition in server.definitions.offered()),
            changed=tuple(
                MCPChange(called(now), first.as_dict(), now.as_dict())
                for first, now in server.definitions.changed().values()
            ),
            protocol=server.protocol,
            server=server.title,
        )

    def accept(self, name: str) -> None:
        """Let a tool be called by its changed definition.

        Raises:
            ConfigurationError: No tool of that name is refused.
        """
        with self._lock:
            key = self._names.find(name)
            if key is None or not self._servers[key[0]].definitions.accept(key[1]):
                changed = [change.name for server in self._servers.values() for change in self._status(server).changed]
                raise ConfigurationError(
                    f"accept: expected a tool whose definition changed ({', '.join(changed) or 'there is none'}), "
                    f"got {clip(repr(name))}"
                )

    def close(self) -> Future[None]:
        """End all servers.

        Returns:
            Done when their processes and the thread are gone.
        """
        self._finalizer.detach()
        return self._thread.close()


class RemoteTool:
    """What runs when a tool of a server is called."""

    def __init__(self, servers: MCPServers, server: str, tool: str) -> None:
        self._servers = servers
        self._server = server
        self._tool = tool
        self.__qualname__ = f"{server}.{tool}"

    async def __call__(self, args: dict[str, Any], ctx: ToolContext | None = None) -> ToolResult | Pending:
        """Call it with arguments as they are, unchecked."""
        return await self._servers.call(self._server, self._tool, args, ctx or ToolContext(name=self._tool))


def _input_schema(given: Schema) -> tuple[Schema, bool]:
    """The schema for the model, and whether arguments can be checked by it; if not, the server does that alone."""
    try:
        return check_schema(given), True
    except ConfigurationError:
        plain: Schema = json.loads(json.dumps({"properties": {}, **given, "type": "object"}))
        return plain, False


def _check_sdk() -> None:
    from importlib.metadata import PackageNotFoundError, version

    hint = "pip install 'toolnexus[mcp]'"
    try:
        found = version("mcp")
    except PackageNotFoundError:
        found = None
    if found is None or importlib.util.find_spec("mcp") is None:
        raise ConfigurationError(f"mcp: expected the package 'mcp' to be installed, which is an extra: {hint}")
    if found.split(".")[0] != "2":
        raise ConfigurationError(f"mcp: expected version 2 of the package 'mcp', got {found}: {hint}")
