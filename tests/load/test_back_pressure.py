"""A consumer that takes its time slows the server down: nothing is lost, and nothing piles up."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest

from tests.clients.harness import CLIENTS
from tests.load.child import FULL, IN_FLIGHT_MIB, ROOT, command, figure, has_peak
from tests.server import Flood, Request, Response, Server, done, finish, reply, says, sse

MIB = 1024 * 1024
BLOCK = 500
"""Events in one write of the server."""

pytestmark = pytest.mark.skipif(not has_peak(), reason="needs /proc/self/clear_refs of Linux to measure memory")


def numbered(count: int) -> bytes:
    """An event as long as those of real services."""
    delta = {"index": 0, "delta": {"content": f"{count % 1000:03d} "}, "logprobs": None, "finish_reason": None}
    return sse({"id": "chatcmpl-" + "x" * 29, "object": "chat.completion.chunk", "model": "m" * 60, "choices": [delta]})


EVENTS = 1_000_000 if FULL else BLOCK * int(1.5 * IN_FLIGHT_MIB * MIB / len(numbered(0)) / BLOCK)
"""So many that the network cannot take those that the consumer has not asked for."""


def settled(flood: Flood) -> int:
    """The bytes that the server got rid of, once that does not change any more."""
    before = -1
    while before != flood.sent:
        before = flood.sent
        threading.Event().wait(0.1)  # too short a wait would only make the test milder
    return before


@pytest.mark.case("api-slow-callback-backpressure", "other-slow-consumer")
@pytest.mark.parametrize("kind", list(CLIENTS))
def test_a_slow_consumer_loses_nothing_and_the_reader_waits_for_it(request, kind):
    flood = Flood(lambda n: b"".join(map(numbered, range(n * BLOCK, (n + 1) * BLOCK))), EVENTS // BLOCK)
    size = len(numbered(0))

    def answer(asked: Request) -> Response:
        is_warm_up = asked.json["messages"][-1]["content"] == "warm up"
        return says("Fine.") if is_warm_up else reply(flood, finish(), done())

    holds = [EVENTS // 20, EVENTS // 5]
    with Server(answer) as server:
        child = subprocess.Popen(
            command("slow", kind, server.url, *map(str, holds)),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        with child, child.stdin, child.stdout:
            for held in holds:
                assert child.stdout.readline() == f"held {held}\n"
                ahead = (settled(flood) - held * size) / MIB
                assert ahead <= IN_FLIGHT_MIB
                assert flood.sent < EVENTS * size
                child.stdin.write("go\n")
                child.stdin.flush()
            told = json.loads(child.stdout.readline())
        assert child.returncode == 0
    figure(request, f"{told['events']:,} events, {told['mib']:.1f} MiB more, at most {ahead:.1f} MiB on the way")
    assert told["events"] == EVENTS
    assert told["mib"] <= 16
