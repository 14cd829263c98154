"""Toolkits with servers that run as programs, and a look at what they leave behind."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolnexus import Toolkit

HERE = Path(__file__).parent


def scripted(script: dict[str, Any] | None = None, **entry: Any) -> dict[str, Any]:
    """The configuration of a scripted server."""
    # -I and -S: it needs nothing but the standard library, and starts in no time.
    return {"command": sys.executable, "args": ["-IS", str(HERE / "scripted.py"), json.dumps(script or {})], **entry}


def official(**entry: Any) -> dict[str, Any]:
    """The configuration of the official SDK's server."""
    return {"command": sys.executable, "args": [str(HERE / "official.py")], **entry}


at_length = pytest.mark.skipif(
    "TOOLNEXUS_MCP" not in os.environ, reason="takes seconds; the nox session `mcp` runs it, with TOOLNEXUS_MCP=1"
)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True, scope="session")
def _sdk() -> None:
    pytest.importorskip("mcp", reason="needs the extra `mcp`")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith(("toolnexus-mcp", "waitpid")):  # the second: asyncio's, up to Python 3.11
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def start() -> Iterator[Callable[..., Toolkit]]:
    """Make toolkits: `start(server)` with one server named `s`, or `start(a=..., b=...)`."""
    kits: list[Toolkit] = []

    def start(server: dict[str, Any] | None = None, **servers: dict[str, Any]) -> Toolkit:
        kits.append(Toolkit(mcp={"mcpServers": servers if server is None else {"s": server}}))
        return kits[-1]

    yield start
    for kit in kits:
        kit.close()
