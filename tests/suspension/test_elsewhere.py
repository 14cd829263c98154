"""A run that waits goes on anywhere, and the transcript is the same byte for byte: in this process or in another one,
from a store or from JSON, with one style or the other, and as if somebody had been there to answer at once.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from tests.clients.harness import transcript
from tests.suspension.harness import RAN, TOOLS, resume_all, resume_elsewhere, written, yes
from tests.suspension.model import Call, model
from tests.suspension.processes import ROOT, Processes
from toolnexus import Message, Request, RunResult, SQLiteStore
from toolnexus.demo.scripted import ScriptedRequest

ROUNDS = int(os.environ.get("TOOLNEXUS_SUSPENSION_ROUNDS", "40"))
"""Scenarios in this process; a tenth of them in others as well."""
STYLES = ("openai", "anthropic")
Order = Callable[[list[Request]], list[list[Request]]]


def scenario(number: int) -> tuple[list[Call], Order, str]:
    """The calls of a turn, in which order its questions are answered, and the style."""
    dice = random.Random(number)
    wanted: list[tuple[str, dict[str, Any]]] = [
        ("ask", {"what": "name"}),
        ("ask", {"what": "età ☕"}),
        ("look", {"what": "cat"}),
        ("insist", {"what": "please", "times": dice.randint(1, 3)}),
        ("delete", {"path": "a\u2028b"}),
        ("pay", {"amount": dice.choice([5, 500, 5000])}),
    ]
    chosen = [*dice.sample(wanted, dice.randint(1, 5)), ("ask", {"what": "last"})]

    def order(requests: list[Request]) -> list[list[Request]]:
        requests = dice.sample(requests, len(requests))
        cut = dice.randint(0, len(requests))
        return [[request] for request in requests[:cut]] + ([requests[cut:]] if requests[cut:] else [])

    return [(f"c{n}", name, args) for n, (name, args) in enumerate(chosen)], order, dice.choice(STYLES)


def elsewhere_until_done(elsewhere: Processes, result: RunResult, order: Order, **where: Any) -> list[Message]:
    """Answer each question in a process of its own."""
    while result.status == "pending":
        for together in order(result.requests):
            given = where if "id" in where else {**where, "result": result.model_dump_json()}
            out = elsewhere.run(resume_elsewhere, answers=[asdict(yes(request)) for request in together], **given)
            result = RunResult.model_validate_json(out["result"])
            assert written(result.messages) == out["messages"]
    return result.messages


def test_a_run_that_waited_ends_as_one_that_was_answered_at_once(connect, kind, serve, elsewhere, tmp_path):
    plans = [scenario(number) for number in range(ROUNDS)]
    models = [model(wanted, "Done.") for wanted, _, _ in plans]
    server = serve(lambda request: models[int(ScriptedRequest("", request.json).prompt)](request))
    inline = {style: connect(server, style=style, wait_for=yes) for style in STYLES}
    waits = {style: connect(server, style=style) for style in STYLES}
    same = 0
    for number, (_, order, style) in enumerate(plans):
        prompt, client = str(number), waits[style]
        expected = written(inline[style].stream(prompt, TOOLS).messages)
        ran = sorted(RAN, key=repr)
        RAN.clear()
        kept = resume_all(client, client.stream(prompt, TOOLS, id=prompt), order, id=prompt)
        assert sorted(RAN, key=repr) == ran
        begun = client.run(prompt, TOOLS)
        got = [kept.messages, resume_all(client, begun, order).messages, client.conversation_store().get(prompt)]
        if number % 10 == 0:
            path = tmp_path / f"{number}.db"
            where = {"kind": kind, "url": server.url, "style": style}
            got.append(elsewhere_until_done(elsewhere, begun, order, **where))
            begun = connect(server, style=style, store=SQLiteStore(path)).stream(prompt, TOOLS, id="t")
            got.append(elsewhere_until_done(elsewhere, begun, order, **where, path=str(path), id="t"))
            got.append(SQLiteStore(path).get("t"))
        RAN.clear()
        assert [written(messages) for messages in got] == [expected] * len(got)
        same += 1
    assert same == ROUNDS


@pytest.mark.parametrize(("first", "then"), [STYLES, STYLES[::-1]])
def test_a_run_goes_on_with_the_other_style(connect, kind, serve, elsewhere, tmp_path, first, then):
    for number in range(6):
        wanted, order, _ = scenario(number)
        server = serve(model(wanted, "Done."))
        path = tmp_path / f"{number}.db"
        inline = connect(server, style=first, wait_for=yes).stream("Go.", TOOLS)
        begun = connect(server, style=first, store=SQLiteStore(path)).stream("Go.", TOOLS, id="t")
        other = connect(server, style=then)
        here = resume_all(other, begun, order)  # from JSON, and into the other client's own store
        where = {"kind": kind, "url": server.url, "style": then, "path": str(path), "id": "t"}
        there = elsewhere_until_done(elsewhere, begun, order, **where)
        assert written(there) == written(here.messages)
        assert transcript(here.messages) == transcript(inline.messages)
        origins = {call.origin for message in here.messages for call in message.tool_calls}
        assert origins == {f"{first}:127.0.0.1:{server.port}"}


def test_a_freshly_started_python_carries_on(connect, kind, serve, tmp_path):
    server = serve(model([("c0", "ask", {"what": "name"})], "Done."))
    path = tmp_path / "t.db"
    expected = connect(server, wait_for=yes).stream("Go.", TOOLS)
    result = connect(server, store=SQLiteStore(path)).stream("Go.", TOOLS, id="t")
    answers = [asdict(yes(request)) for request in result.requests]
    job = {"kind": kind, "url": server.url, "style": "openai", "path": str(path), "id": "t", "answers": answers}
    code = (
        "import json, sys; from tests.suspension.harness import resume_elsewhere;"
        "print(json.dumps(resume_elsewhere(**json.loads(sys.argv[1]))))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, json.dumps(job)], capture_output=True, text=True, cwd=ROOT
    )
    assert run.stderr == ""
    out = json.loads(run.stdout)
    assert out["messages"] == written(expected.messages)
    assert out["ran"] == [["ask", "name", "yes to name?"]]


def test_the_events_of_a_resumed_run_are_those_of_the_rest(connect, serve):
    server = serve(model([("c0", "ask", {"what": "name"}), ("c1", "ask", {"what": "age"})], "Done."))
    client = connect(server)
    waits = client.stream("Go.", TOOLS)
    seen: list[Any] = []
    again = client.resume(yes(waits.requests[1]), TOOLS, result=waits, on_event=seen.append)
    assert [event.type for event in seen] == ["tool_result", "done"]
    assert (again.status, again.turns, [record.id for record in again.tool_calls]) == ("pending", 0, ["c1"])
    assert again.pending == waits.pending
    with client.resume_stream([yes(waits.requests[0])], TOOLS, result=again) as events:
        assert [event.type for event in events] == ["tool_result", "text", "done"]
        assert events.result.text == "Done."
    assert [bool(request.json.get("stream")) for request in server.requests] == [True, True]


def test_a_resume_that_nobody_watches_asks_for_a_whole_response(connect, serve):
    server = serve(model([("c0", "ask", {"what": "name"})], "Done."))
    client = connect(server)
    waits = client.run("Go.", TOOLS)
    assert client.resume(yes(waits.requests[0]), TOOLS, result=waits, max_turns=1, model="other").text == "Done."
    assert "stream" not in server.requests[1].json
    assert server.requests[1].json["model"] == "other"
