"""The names by which a model calls the tools of MCP servers: `server_tool`, as providers accept them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container

_MAX = 64
_DIGEST = 6


class Names:
    """Gives each tool of each server a name that stays its own, the same in every process with the same listing."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._tools: dict[str, tuple[str, str]] = {}

    def give(self, server: str, tool: str, taken: Container[str]) -> str:
        """The name of a server's tool: `server_tool` if that can be, else one that ends in a digest of both.

        Args:
            server: The server's name in the configuration.
            tool: What the server calls it.
            taken: Names of tools from elsewhere.
        """
        key = (server, tool)
        if (known := self._names.get(key)) is not None and known not in taken:
            return known
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")
        if len(name) > _MAX or name in taken or self._tools.get(name, key) != key:
            digest = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
            name = f"{name[: _MAX - _DIGEST - 1]}_{digest}"
        self._names[key] = name
        self._tools[name] = key
        return name

    def find(self, name: str) -> tuple[str, str] | None:
        """The server and the tool of that name."""
        return self._tools.get(name)
