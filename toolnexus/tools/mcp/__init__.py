"""MCP servers as sources of tools: `Toolkit(mcp="mcp.json")`.

The official SDK (extra `mcp`) speaks the protocol; this package decides what is started, what is believed, and how
calls, questions and failures become results of tools. `servers` is what `Toolkit` uses:

    servers ── loop (one thread) ── server (reconnects) ── session (owner task) ── transport (SDK)
       │                               └── definitions          └── call, questions
       └── config, names, status
"""

from __future__ import annotations

from .config import MCPConfig
from .servers import MCPServers
from .status import MCPChange, MCPStatus

__all__ = ["MCPChange", "MCPConfig", "MCPServers", "MCPStatus"]
