"""How it stands with a toolkit's MCP servers, for whoever runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

MCPState = Literal["idle", "connected", "failed", "disabled", "closed"]


@dataclass(frozen=True, slots=True)
class MCPChange:
    """A tool whose definition changed after it was first seen; it is refused until `Toolkit.accept(name)`."""

    name: str
    """As the model calls it."""
    first: dict[str, Any]
    """The definition that was first seen: name, description, input_schema, output_schema, annotations."""
    now: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MCPStatus:
    """One MCP server of a toolkit."""

    name: str
    transport: Literal["stdio", "http"]
    state: MCPState
    """`"idle"` before the first connection; `"failed"` where it could not be made, or was lost: `error` says why."""
    error: str | None = None
    """Without secrets; stays until the server answers again."""
    tools: tuple[str, ...] = ()
    """The tools that can be called, by the names that the model knows."""
    changed: tuple[MCPChange, ...] = field(default=(), repr=False)
    """The tools that are refused."""
    protocol: str | None = None
    """The protocol version in use."""
    server: str | None = None
    """How the server calls itself; its own word."""
