"""Programs that end, or fork, without having closed their toolkits."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.tools.mcp.conftest import at_length, is_running, scripted
from tests.tools.mcp.test_servers import Start, value
from toolnexus import Toolkit

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from toolnexus import Toolkit
kit = Toolkit(mcp={config!r})
print(kit.execute("s_pid", {{}}).text, flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "stays"),
    [
        ("", False),
        pytest.param("", True, marks=at_length),
        pytest.param("raise SystemExit(3)", False, marks=at_length),
        pytest.param("1 / 0", False, marks=at_length),
    ],
)
def test_no_child_outlives_the_interpreter(end: str, stays: bool) -> None:
    program = PROGRAM.format(config={"s": scripted({"stays": stays})}, end=end)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert not is_running(int(done.stdout))
    assert done.returncode == {"": 0, "1 / 0": 1}.get(end, 3)
    assert done.stderr == "" or end == "1 / 0"


def test_a_toolkit_that_is_let_go_of_ends_its_servers() -> None:
    kit = Toolkit(mcp={"s": scripted()})
    pid = value(kit.execute("s_pid", {}))
    found = kit.get("s_pid")
    del kit
    gc.collect()
    assert is_running(pid)  # the tool keeps them
    del found
    gc.collect()
    until = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


@at_length
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_has_servers_of_its_own(start: Start) -> None:
    program = f"""
import os, sys
from toolnexus import Toolkit
kit = Toolkit(mcp={ {"s": scripted()}!r})
mine = kit.execute("s_pid", {{}}).text
child = os.fork()
if child == 0:
    print(kit.execute("s_pid", {{}}).text, flush=True)
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert kit.execute("s_pid", {{}}).text == mine
kit.close()
print(mine)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True, text=True, cwd=ROOT, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    theirs, mine = map(int, done.stdout.split())
    assert theirs != mine
    assert not is_running(theirs)
    assert not is_running(mine)


def test_threads_may_use_a_toolkit_at_the_same_time(start: Start) -> None:
    kit = start(scripted())
    barrier = threading.Barrier(8)
    pids: list[int] = []

    def work() -> None:
        barrier.wait()
        pids.extend(value(kit.execute("s_pid", {})) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 40
    assert len(set(pids)) == 1


def test_importing_the_package_imports_no_sdk() -> None:
    sdk = "{'mcp', 'anyio', 'httpx2'}"
    code = f"import sys, toolnexus; toolnexus.Toolkit(mcp={{}}); print({sdk} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "set()"


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from toolnexus import ConfigurationError

    def version(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(
        ConfigurationError, match=r"expected the package 'mcp' to be installed, .*: pip install 'toolnexus\[mcp\]'"
    ):
        Toolkit(mcp={"s": scripted()})
    monkeypatch.setattr(metadata, "version", lambda _: "1.26.0")
    with pytest.raises(ConfigurationError, match=r"expected version 2 of the package 'mcp', got 1\.26\.0: pip install"):
        Toolkit(mcp={"s": scripted()})
