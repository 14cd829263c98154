"""A server of the official SDK over streamable HTTP, on loopback."""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.server import Server, failure
from tests.tools.mcp.conftest import HERE, at_length
from tests.tools.mcp.test_questions import resumed, suspended
from tests.tools.mcp.test_servers import Start, text
from toolnexus import Answer, Cancel, ToolContext, Toolkit, ToolResult
from toolnexus.tools.mcp import session


class Process:
    """The server, which can be stopped and started on the same port."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        command = [sys.executable, str(HERE / "official.py"), str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("the server did not start")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    process = Process()
    yield process
    process.stop()


@pytest.fixture(params=["legacy", "auto"])
def web(request: pytest.FixtureRequest, process: Process, start: Start) -> Callable[..., Toolkit]:
    """Make toolkits with the server over HTTP, in both protocols."""
    return lambda **entry: start({"url": process.url, "protocol": request.param, **entry})


def ok(result: Any) -> str:
    assert isinstance(result, ToolResult)
    assert not result.is_error, result.text
    return result.text


def test_tools_are_listed_and_called(web: Callable[..., Toolkit]) -> None:
    kit = web()
    assert {"s_add", "s_picture"} <= {tool.name for tool in kit.tools()}
    assert '"total": 3' in ok(kit.execute("s_add", {"a": 1, "b": 2}))
    assert "no luck" in text(kit.execute("s_fail", {"why": "no luck"}))
    status = kit.status()["s"]
    assert (status.transport, status.state, status.server) == ("http", "connected", "official 1.2")
    assert status.protocol in ("2025-11-25", "2026-07-28")


def test_a_call_is_cancelled_at_the_server(web: Callable[..., Toolkit]) -> None:
    kit = web(timeout={"call": 1})
    before = ok(kit.execute("s_were_cancelled", {}))
    assert "timeout.call" in text(kit.execute("s_slow", {}))
    until = time.monotonic() + 10
    while ok(kit.execute("s_were_cancelled", {})) == before:
        assert time.monotonic() < until
    cancel = Cancel()
    cancel.cancel()
    assert "was cancelled" in text(kit.execute("s_slow", {}, ToolContext(cancel=cancel)))


def test_questions_belong_to_their_calls(process: Process, start: Start) -> None:
    """Over HTTP a question comes on its call's own stream, so that others may go on beside it."""
    kit = start({"url": process.url, "protocol": "legacy"})
    first, second = suspended(kit.execute("s_ask", {})), suspended(kit.execute("s_ask", {}))
    assert "may_belong_to_another_call" not in first.data | second.data
    assert ok(kit.execute("s_ask", {}, resumed(second, Answer("x", data="red")))) == "accept red"
    assert ok(kit.execute("s_ask", {}, resumed(first, Answer("x", ok=False)))) == "decline "


@at_length
def test_a_server_that_was_started_anew_is_met_anew(start: Start) -> None:
    process = Process()
    try:
        kit = start({"url": process.url, "protocol": "legacy"})
        assert ok(kit.execute("s_structured", {})) == '{"ü":[1,2]}'
        process.stop()
        process.start()
        assert ok(kit.execute("s_structured", {})) == '{"ü":[1,2]}'  # it does not know the session: nothing was done
        process.stop()
        assert "it was lost while it worked at the call" in text(kit.execute("s_structured", {}))
        assert kit.status()["s"].state == "failed"
        assert "ConnectError" in text(kit.execute("s_structured", {}))
        process.start()
        kit.connect()
        assert ok(kit.execute("s_structured", {})) == '{"ü":[1,2]}'
    finally:
        process.stop()


def test_a_key_is_sent_and_never_shown(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MCP_KEY", "s3cret-key")
    server = Server(*[failure(401, "what is s3cret-key?")] * 4)
    try:
        kit = start({"url": f"{server.url}/mcp", "headers": {"Authorization": "Bearer ${MCP_KEY}"}})
        assert kit.tools() == ()
        assert "HTTP status 401" in str(kit.status()["s"].error)
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer s3cret-key"}
        assert "s3cret" not in str(kit.status())
        assert not [record for record in caplog.records if "s3cret" in record.getMessage()]
    finally:
        kit.close()
        server.close()


def test_nobody_there_is_an_error_of_that_server(start: Start) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        kit = start({"url": f"http://127.0.0.1:{probe.getsockname()[1]}/mcp"})
        kit.connect()
    assert "ConnectError" in str(kit.status()["s"].error)


def test_a_server_that_accepts_and_says_nothing_is_given_up(start: Start) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        kit = start({"url": f"http://127.0.0.1:{mute.getsockname()[1]}/mcp", "timeout": {"connect": 0.3}})
        kit.connect()
        assert kit.status()["s"].error == "there was no answer within 0.3 s (timeout.connect)"


def test_close_does_not_wait_for_a_server_that_hangs(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins a session well, and never answers when it is to end."""
    monkeypatch.setattr(session, "_GOODBYE_S", 0.2)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            results = {
                "initialize": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "hanging", "version": "1"},
                },
                "tools/list": {"tools": []},
            }
            body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": results.get(message["method"])})
            self.send_response(200 if "id" in message else 202)
            self.send_header("content-type", "application/json")
            self.send_header("mcp-session-id", "1")
            self.send_header("content-length", str(len(body) if "id" in message else 0))
            self.end_headers()
            if "id" in message:
                self.wfile.write(body.encode())

        def do_GET(self) -> None:
            self.send_error(405)

        def do_DELETE(self) -> None:
            asked.set()
            answered.append(over.wait(30))
            self.send_error(500)

        def log_message(self, *_: object) -> None:
            pass

    asked, over = threading.Event(), threading.Event()
    answered: list[bool] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as hanging:
        thread = threading.Thread(target=hanging.serve_forever)
        thread.start()
        try:
            kit = start({"url": f"http://127.0.0.1:{hanging.server_port}/mcp", "protocol": "legacy"})
            kit.connect()
            assert kit.status()["s"].state == "connected"
            kit.close()
            assert asked.is_set()
            assert answered == []
        finally:
            over.set()
            hanging.shutdown()
            thread.join()
