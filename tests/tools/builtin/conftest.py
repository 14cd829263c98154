"""A root with files to work on, and what lies around it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolnexus import Builtins, ToolContext, Toolkit, ToolResult
from toolnexus.tools.builtin import folder

Run = Callable[..., ToolResult]


@pytest.fixture(params=["open folders", "paths"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How folders are held: as here, and as on a platform without `dir_fd`."""
    if request.param == "paths":
        monkeypatch.setattr(folder, "HAS_DIR_FD", False)
    elif not folder.HAS_DIR_FD:
        pytest.skip("this platform has no dir_fd")
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "desk"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "src" / "app.py").write_text("def run():\n    return 1\n")
    return root


@pytest.fixture
def run(root: Path) -> Run:
    """Run a tool by hand: `run(name, ctx=..., bounds={of Builtins}, within=another root, **arguments)`."""

    def run(
        name: str,
        /,
        ctx: ToolContext | None = None,
        bounds: dict[str, Any] | None = None,
        within: str | Path | Toolkit = root,
        **args: Any,
    ) -> ToolResult:
        kit = within if isinstance(within, Toolkit) else Toolkit(builtins=Builtins(within, [name], **bounds or {}))
        result = kit.execute(name, args, ctx)
        assert isinstance(result, ToolResult)
        return result

    return run


@pytest.fixture
def open_files() -> Callable[[], list[str]]:
    """What this process has open, but for standard streams and pipes of other tests."""

    def listed() -> list[str]:
        found = []
        for name in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:  # the one that lists
                continue
        return sorted(found)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this platform does not tell what is open")
    return listed
