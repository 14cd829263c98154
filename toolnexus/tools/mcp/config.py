"""What the configuration says of MCP servers: the files that other programs read, too, as data of ours.

Three shapes are known: `{"mcpServers": {...}}` (Claude, Cursor and most others), `{"servers": {...}}` (VS Code) and
`{"mcp": {...}}` (OpenCode); a dict of servers by name will do as well. Nothing is started and no variable looked up.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeGuard
from urllib.parse import urlsplit

from ...errors import ConfigurationError
from ..misfits import clip
from .variables import has_variable

_log = logging.getLogger("toolnexus.mcp")

MCPConfig = str | os.PathLike[str] | Mapping[str, Any]  # Any: JSON
"""A path of a JSON file, or what would be in it."""

_WRAPPERS = ("mcpServers", "servers", "mcp")
_OURS = ("allow", "approval", "timeout", "accept_changes", "protocol")
_KNOWN = {
    *_OURS,
    *("command", "args", "env", "environment", "cwd", "url", "serverUrl", "headers", "type", "transport", "tools"),
    *("enabled", "disabled"),
}
_FOREIGN = {"alwaysAllow", "autoApprove", "trust", "description", "name", "icon", "gallery", "version", "dev"}
"""What other programs keep there for themselves; it says nothing about how to reach the server."""

_HTTP = {"http", "streamable-http", "streamableHttp", "streamable_http", "remote"}
_STDIO = {"stdio", "local"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds that each phase may take."""

    connect: float = 30.0
    """Starting the server and agreeing on the protocol."""
    list: float = 30.0
    """Listing the tools, all pages."""
    call: float = 300.0
    """One call; the time in which somebody is asked does not count."""
    answer: float = 600.0
    """How long a server that asked something is kept waiting for the answer of a suspended call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server; values that may be secret are not in its `repr`."""

    name: str
    command: tuple[str, ...] = field(default=(), repr=False)
    """The program and its arguments; empty for HTTP."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow: tuple[str, ...] | None = None
    """Names of the server's tools, or patterns such as `read_*`; `None` allows all."""
    approval: bool | tuple[str, ...] = False
    """Whether a human must agree to each call, or to those of which tools (names or patterns)."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    accept_changes: bool = False
    """Whether definitions may change after they were first seen."""
    protocol: Literal["auto", "legacy"] = "auto"
    """`"legacy"`: begin with the `initialize` handshake, without asking for protocol 2026-07-28 first."""
    enabled: bool = True
    problem: str | None = None
    """Why it cannot be used, where that is no mistake in the configuration."""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """How it is reached."""
        return "http" if self.url is not None else "stdio"

    def allows(self, tool: str) -> bool:
        """Whether the server's tool of that name may be used."""
        return self.allow is None or _is_among(tool, self.allow)

    def needs_approval(self, tool: str) -> bool:
        """Whether a human must agree to each call of that tool."""
        return self.approval if isinstance(self.approval, bool) else _is_among(tool, self.approval)


def read_config(given: MCPConfig) -> tuple[ServerConfig, ...]:
    """The servers that `given` names, in its order.

    Raises:
        ConfigurationError: It cannot be read, or does not say how to reach a server; the message names the place.
    """
    where, servers = _servers(*(("mcp", given) if isinstance(given, Mapping) else _read_file(given)))
    return tuple(_server(f"{where}.{name}", name, entry) for name, entry in servers.items())


def _read_file(path: object) -> tuple[str, object]:
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigurationError(f"mcp: expected the path of a JSON file or a dict, got {clip(repr(path))}")
    try:
        with open(path, encoding="utf-8-sig") as file:
            return os.fspath(path), json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"mcp: expected a JSON file of MCP servers at {os.fspath(path)!r}: {error}") from None


def _servers(where: str, data: object) -> tuple[str, dict[str, object]]:
    """The servers by name, whichever shape they come in, and where they stand."""
    if not _is_object(data):
        raise ConfigurationError(f"{where}: expected an object of MCP servers, got {clip(repr(data))}")
    found = [key for key in _WRAPPERS if _is_object(data.get(key)) and not _is_server(data[key])]
    if len(found) > 1:
        raise ConfigurationError(f"{where}: expected one of {', '.join(_WRAPPERS)}, got {' and '.join(found)}")
    if found:
        servers: dict[str, Any] = data[found[0]]  # Any: JSON; an object, as just found
        if found == ["mcp"] and _is_object(inner := servers.get("servers")) and not _is_server(inner):
            return f"{where}.mcp.servers", inner
        return f"{where}.{found[0]}", servers
    if not all(_is_server(entry) for entry in data.values()):
        raise ConfigurationError(
            f"{where}: expected {', '.join(_WRAPPERS)} or servers by name, got the keys {clip(', '.join(data))}"
        )
    return where, data


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:  # Any: JSON
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_server(entry: object) -> bool:
    return _is_object(entry) and any(isinstance(entry.get(key), (str, list)) for key in ("command", "url", "serverUrl"))


def _server(where: str, name: str, entry: object) -> ServerConfig:
    if not name or not _is_object(entry):
        raise ConfigurationError(f"{where}: expected an object with 'command' or 'url', got {clip(repr(type(entry)))}")
    if unknown := sorted(entry.keys() - _KNOWN - _FOREIGN):
        _log.warning("%s: ignored what is not known here: %s", where, ", ".join(unknown))
    kind = entry.get("type", entry.get("transport"))
    url = entry.get("url", entry.get("serverUrl"))
    command = _command(where, entry)
    if kind is None:
        kind = "http" if url is not None and not command else "stdio"
    problem = None
    if kind == "sse":
        problem = "its type 'sse' was replaced by streamable HTTP in protocol 2025-03-26, and is not supported"
    elif kind not in _HTTP | _STDIO:
        raise ConfigurationError(f"{where}.type: expected 'stdio' or 'http', got {clip(repr(kind))}")
    if kind in _STDIO:
        url = None
        if not command:
            raise ConfigurationError(f"{where}.command: expected the program to start, got none")
    else:
        command = ()
        url = _url(where, url)
    for place, text in [(f"args[{i}]", text) for i, text in enumerate(command[1:])] + [("url", url or "")]:
        if has_variable(text):
            _log.warning("%s.%s: ${...} is filled in in headers and env only; it is passed on as it is", where, place)
    env = entry.get("env", entry.get("environment"))
    return ServerConfig(
        name=name,
        command=command,
        env=_texts(f"{where}.env", env),
        cwd=_optional_text(f"{where}.cwd", entry.get("cwd")),
        url=url,
        headers=_headers(f"{where}.headers", entry.get("headers")),
        allow=_allow(where, entry),
        approval=_approval(f"{where}.approval", entry.get("approval", False)),
        timeouts=_timeouts(f"{where}.timeout", entry.get("timeout"), is_ms=kind in ("local", "remote")),
        accept_changes=_flag(f"{where}.accept_changes", entry.get("accept_changes", False)),
        protocol=_protocol(f"{where}.protocol", entry.get("protocol", "auto")),
        enabled=_flag(f"{where}.enabled", entry.get("enabled", True))
        and not _flag(f"{where}.disabled", entry.get("disabled", False)),
        problem=problem,
    )


def _command(where: str, entry: Mapping[str, object]) -> tuple[str, ...]:
    command = entry.get("command", [])
    words = [command] if isinstance(command, str) else command
    parts = [*_names(f"{where}.command", words), *_names(f"{where}.args", entry.get("args", []))]
    if any("\0" in part for part in parts) or (parts and not parts[0]):
        raise ConfigurationError(f"{where}.command: expected a program and its arguments, without NUL")
    return tuple(parts)


def _url(where: str, url: object) -> str:
    parts = urlsplit(url) if isinstance(url, str) and url.isprintable() else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        # Not shown: there may be a key in it.
        raise ConfigurationError(f"{where}.url: expected an address such as 'https://host/mcp'")
    return str(url)


def _headers(where: str, value: object) -> dict[str, str]:
    headers = _texts(where, value)
    for name, text in headers.items():
        if (
            not name.isascii()
            or not name.isprintable()
            or any(c in name for c in " :")
            or any(c in text for c in "\r\n\0")
        ):
            raise ConfigurationError(f"{where}: expected names and values without line breaks, see {clip(repr(name))}")
    return headers


def _texts(where: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not _is_object(value) or not all(isinstance(text, (str, int, float)) for text in value.values()):
        raise ConfigurationError(f"{where}: expected an object of texts")  # without the values: they may be secret
    return {name: text if isinstance(text, str) else json.dumps(text) for name, text in value.items()}


def _optional_text(where: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ConfigurationError(f"{where}: expected a text, got {clip(repr(value))}")


def _names(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(f"{where}: expected a list of texts, got {type(value).__name__}")
    return tuple(value)


def _allow(where: str, entry: Mapping[str, object]) -> tuple[str, ...] | None:
    """The allow list; `tools` is what GitHub Copilot calls it."""
    lists = [_names(f"{where}.{key}", entry[key]) for key in ("allow", "tools") if entry.get(key) is not None]
    if len(lists) > 1:
        raise ConfigurationError(f"{where}: expected one list of the tools that are allowed, got 'allow' and 'tools'")
    return lists[0] if lists else None


def _approval(where: str, value: object) -> bool | tuple[str, ...]:
    return value if isinstance(value, bool) else _names(where, value)


def _flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{where}: expected true or false, got {clip(repr(value))}")
    return value


def _protocol(where: str, value: object) -> Literal["auto", "legacy"]:
    if value == "auto" or value == "legacy":
        return "auto" if value == "auto" else "legacy"
    raise ConfigurationError(f"{where}: expected 'auto' or 'legacy', got {clip(repr(value))}")


def _timeouts(where: str, value: object, *, is_ms: bool) -> Timeouts:
    """Seconds for every phase, or by phase. OpenCode's entries, of type `local` or `remote`, count milliseconds."""
    if value is None:
        return Timeouts()
    phases = [phase.name for phase in fields(Timeouts)]
    if not _is_object(value):
        seconds = _seconds(where, value, is_ms)
        return Timeouts(connect=seconds, list=seconds, call=seconds)
    if unknown := sorted(value.keys() - set(phases)):
        raise ConfigurationError(f"{where}: expected some of {', '.join(phases)}, got {clip(', '.join(unknown))}")
    return Timeouts(**{phase: _seconds(f"{where}.{phase}", given, is_ms) for phase, given in value.items()})


def _seconds(where: str, value: object, is_ms: bool) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e9:
        raise ConfigurationError(f"{where}: expected seconds above 0, got {clip(repr(value))}")
    return value / 1000 if is_ms else float(value)


def _is_among(tool: str, patterns: tuple[str, ...]) -> bool:
    return any(tool == pattern or fnmatchcase(tool, pattern) for pattern in patterns)
