"""Built-in tools in whole runs, with both clients."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.clients.harness import later, soon
from tests.server import PATIENCE_S, Response, calls, says
from tests.tools.builtin.test_bash import gone, written
from toolnexus import Answer, Builtins, Cancel, DeadlineExceededError, Request, RunCancelledError, SyncClient, Toolkit

SLEEP = "sleep 100 & echo $$ $! > pids; sleep 100"


def asks(*wanted: tuple[str, dict[str, Any]]) -> Response:
    return calls(*[(f"c{n}", name, json.dumps(args)) for n, (name, args) in enumerate(wanted)])


def test_the_tools_of_one_turn_see_each_other_in_the_models_order(connect, serve, root):
    server = serve(
        asks(
            ("write", {"path": "x.sh", "content": "echo one\n"}),
            ("read", {"path": "x.sh"}),
            ("edit", {"path": "x.sh", "old_string": "one", "new_string": "two"}),
            ("bash", {"command": "bash x.sh"}),
            ("grep", {"pattern": "t.o", "path": "x.sh"}),
        ),
        says("Done."),
    )
    toolkit = Toolkit(builtins=Builtins(root, ["write", "read", "edit", "bash", "grep"]))
    result = connect(server).run("Go.", toolkit)
    assert [record.output for record in result.tool_calls] == [
        "made 'x.sh': 9 bytes",
        "     1\techo one",
        "edited 'x.sh': 1 place",
        "two\n",
        "x.sh:1: echo two",
    ]


@pytest.mark.parametrize("ok", [True, False])
def test_what_needs_approval_waits_for_it(connect, serve, root, ok):
    asked: list[Request] = []

    def wait_for(request: Request) -> Answer:
        asked.append(request)
        assert not (root / "new.txt").exists()
        return Answer(request.id, ok=ok, reason="no")

    server = serve(asks(("write", {"path": "new.txt", "content": "x"}), ("read", {"path": "a.txt"})), says("Done."))
    toolkit = Toolkit(builtins=Builtins(root, ["write", "read"], approve={"write"}))
    result = connect(server, wait_for=wait_for).run("Go.", toolkit)
    assert [(request.kind, request.call and request.call.name) for request in asked] == [("approval", "write")]
    assert (root / "new.txt").exists() is ok
    assert [record.is_error for record in result.tool_calls] == [not ok, False]


def test_a_question_suspends_a_run_and_its_answer_carries_it_on(connect, serve):
    script = (asks(("question", {"question": "Tea?", "options": ["yes", "no"]})), says("Fine."))
    toolkit = Toolkit(builtins=Builtins(allow=["question"]))
    result = connect(serve(*script)).run("Go.", toolkit)
    assert result.status == "pending"
    assert (result.pending.kind, result.pending.prompt, result.pending.data) == (
        "input",
        "Tea?",
        {"options": ["yes", "no"]},
    )
    server = serve(*script)
    result = connect(server, wait_for=lambda request: Answer(request.id, data="yes")).run("Go.", toolkit)
    assert result.tool_calls[0].output == "yes"
    assert server.requests[1].json["messages"][-1]["content"] == "yes"


def endings(root: Path) -> dict[str, tuple[dict[str, Any], type[Exception]]]:
    cancel = Cancel()
    later(cancel, lambda: written(root / "pids", 2))
    return {"cancel": ({"cancel": cancel}, RunCancelledError), "deadline": ({"deadline": 1.0}, DeadlineExceededError)}


@pytest.mark.parametrize("ending", ["cancel", "deadline"])
def test_no_process_is_left_when_a_run_ends(connect, serve, root, ending):
    options, error = endings(root)[ending]
    server = serve(asks(("bash", {"command": SLEEP})), says("Done."))
    client = connect(server)
    with soon(), pytest.raises(error):
        client.run("Go.", Toolkit(builtins=Builtins(root, ["bash"])), **options)
    assert all(map(gone, written(root / "pids", 2)))


def test_no_process_is_left_when_the_client_closes(serve, root):
    server = serve(asks(("bash", {"command": SLEEP})), says("Done."))
    client = SyncClient(base_url=server.url, model="m")
    closing = Cancel()
    closing.add_callback(client.close)
    later(closing, lambda: written(root / "pids", 2))
    with soon(), pytest.raises(RunCancelledError):
        client.run("Go.", Toolkit(builtins=Builtins(root, ["bash"])))
    assert all(map(gone, written(root / "pids", 2)))


def test_a_command_that_takes_too_long_is_an_answer_for_the_model(connect, serve, root):
    server = serve(asks(("bash", {"command": SLEEP})), says("Done."))
    result = connect(server).run("Go.", Toolkit(builtins=Builtins(root, ["bash"], bash_timeout=0.5)))
    assert result.tool_calls[0].output == "[killed: it took longer than 0.5 s]"
    assert result.tool_calls[0].is_error
    assert all(map(gone, written(root / "pids", 2)))


def test_a_catastrophic_pattern_does_not_hold_a_cancel_up(connect, serve, root):
    (root / "a.txt").write_text("a" * 40 + "!\n")
    server = serve(asks(("grep", {"pattern": "(a+)+$"})), says("Done."))
    cancel = Cancel()
    began = time.monotonic()
    later(cancel, lambda: server.wait_for_requests(1))
    with pytest.raises(RunCancelledError):
        connect(server).run("Go.", Toolkit(builtins=Builtins(root, ["grep"], search_timeout=60)), cancel=cancel)
    assert time.monotonic() - began < PATIENCE_S
