"""Servers that nobody here wrote: the reference servers from npm, where `TOOLNEXUS_NPM` says that they are."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server import calls, says
from tests.tools.mcp.conftest import HERE, is_running
from tests.tools.mcp.test_questions import resumed, suspended
from tests.tools.mcp.test_servers import Start, every_way, text
from toolnexus import Answer, Cancel, ImagePart, ToolContext, Toolkit, ToolResult

PACKAGES = Path(os.environ.get("TOOLNEXUS_NPM", "nowhere")) / "node_modules" / "@modelcontextprotocol"
NODE = shutil.which("node")

if os.environ.get("TOOLNEXUS_REQUIRE_NPM"):
    assert NODE is not None
    assert PACKAGES.is_dir()
pytestmark = pytest.mark.skipif(
    NODE is None or not PACKAGES.is_dir(), reason="needs node, and the npm packages in the folder $TOOLNEXUS_NPM"
)


def everything(*args: str) -> list[str]:
    return [str(PACKAGES / "server-everything" / "dist" / "index.js"), *args]


@pytest.fixture(scope="module")
def _port() -> Iterator[int]:
    """The server over HTTP, on loopback alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "PORT": str(port)}
    command = [str(NODE), "--require", str(HERE / "loopback.cjs"), *everything("streamableHttp")]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "listening" not in (line := process.stderr.readline()):
            assert line, "the server did not start"
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        yield port
        process.kill()
        drain.join()


@pytest.fixture(params=["stdio", "http"])
def kit(request: pytest.FixtureRequest, start: Start) -> Toolkit:
    """A toolkit with `server-everything`."""
    if request.param == "stdio":
        return start({"command": NODE, "args": everything("stdio"), "timeout": {"call": 20}})
    return start({"url": f"http://127.0.0.1:{request.getfixturevalue('_port')}/mcp", "timeout": {"call": 20}})


def ok(result: Any) -> ToolResult:
    assert isinstance(result, ToolResult)
    assert not result.is_error, result.text
    return result


@every_way
def test_everything_is_listed_called_and_carried(kit: Toolkit, execute: Callable[..., Any]) -> None:
    names = {tool.name for tool in kit.tools()}
    assert {"s_echo", "s_get-sum", "s_trigger-elicitation-request"} <= names
    assert not {"s_trigger-sampling-request", "s_get-roots-list"} & names  # for clients that offer those
    assert ok(execute(kit, "s_echo", {"message": "hi"})).text == "Echo: hi"
    structured = ok(execute(kit, "s_get-structured-content", {"location": "Chicago"}))
    assert json.loads(structured.text) == structured.metadata["structured_content"]
    image = next(part for part in ok(execute(kit, "s_get-tiny-image", {})).parts if isinstance(part, ImagePart))
    assert (image.media_type, image.data and image.data[:4]) == ("image/png", b"\x89PNG")
    assert "[resource " in ok(execute(kit, "s_get-resource-links", {"count": 2})).text
    assert "message: required, but missing" in text(execute(kit, "s_echo", {}))
    assert text(execute(kit, "s_get-resource-reference", {"resourceType": "Text", "resourceId": -1}))


def test_everything_asks(kit: Toolkit) -> None:
    asked = suspended(kit.execute("s_trigger-elicitation-request", {}))
    assert asked.kind == "input"
    assert "name" in asked.data["schema"]["properties"]
    answered = ok(kit.execute("s_trigger-elicitation-request", {}, resumed(asked, Answer("x", data={"name": "Ada"}))))
    assert "Ada" in answered.text
    asked = suspended(kit.execute("s_trigger-elicitation-request", {}))
    declined = ok(kit.execute("s_trigger-elicitation-request", {}, resumed(asked, Answer("x", ok=False))))
    assert "declined" in declined.text


def test_everything_is_cancelled(kit: Toolkit) -> None:
    kit.connect()
    cancel = Cancel()
    began = time.monotonic()
    thread = threading.Timer(0.3, cancel.cancel)
    thread.start()
    args = {"duration": 10, "steps": 5}
    assert "was cancelled" in text(kit.execute("s_trigger-long-running-operation", args, ToolContext(cancel=cancel)))
    assert time.monotonic() - began < 5
    thread.join()
    assert ok(kit.execute("s_echo", {"message": "still here"})).text == "Echo: still here"


def test_both_clients_use_everything(connect: Any, serve: Any, kit: Toolkit) -> None:
    server = serve(calls(("c1", "s_get-sum", '{"a": 2, "b": 3}'), ("c2", "s_echo", '{"message": "x"}')), says("Done."))
    result = connect(server).stream("Go.", kit)
    assert [record.output for record in result.tool_calls] == ["The sum of 2 and 3 is 5.", "Echo: x"]


@every_way
def test_files_are_read_below_their_folder_alone(start: Start, execute: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a.txt").write_text("hello")
    (tmp_path / "secret.txt").write_text("secret")
    command = str(PACKAGES / "server-filesystem" / "dist" / "index.js")
    kit = start({"command": NODE, "args": [command, str(tmp_path / "inside")], "allow": ["read_*", "list_*"]})
    assert {"s_read_text_file", "s_list_directory"} <= {tool.name for tool in kit.tools()}
    assert "s_write_file" not in {tool.name for tool in kit.tools()}
    assert ok(execute(kit, "s_read_text_file", {"path": str(tmp_path / "inside" / "a.txt")})).text == "hello"
    refused = text(execute(kit, "s_read_text_file", {"path": str(tmp_path / "secret.txt")}))
    assert "denied" in refused
    assert "a.txt" in ok(execute(kit, "s_list_directory", {"path": str(tmp_path / "inside")})).text


def test_no_process_is_left() -> None:
    children = Path(f"/proc/{os.getpid()}/task")
    if not children.exists():
        pytest.skip("needs /proc")
    before = _children()
    with Toolkit(mcp={"s": {"command": NODE, "args": everything("stdio")}}) as kit:
        kit.tools()
        pids = _children() - before
        assert pids
    assert not [pid for pid in pids if is_running(pid)]


def _children() -> set[int]:
    found = [line.read_text() for line in Path(f"/proc/{os.getpid()}/task").glob("*/children")]
    return {int(pid) for pids in found for pid in pids.split()}
