"""What a broken or hostile server can do to us: no memory beyond `Limits`, and nothing read that is of no more use."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.harness import CLIENTS
from tests.load.child import IN_FLIGHT_MIB, figure, has_peak, run_child
from tests.server import Flood, Request, Response, Server, delta, done, finish, reply, says, tool_call

KIB, MIB = 1024, 1024 * 1024

pytestmark = pytest.mark.skipif(not has_peak(), reason="needs /proc/self/clear_refs of Linux to measure memory")


def gzip_bomb() -> tuple[bytes, Flood]:
    """A gzip stream without end: each kilobyte of it is a megabyte of blanks."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    head = packer.compress(b": ") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * (64 * MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head, Flood(block)  # the flush makes each block fit after any other


def arguments(piece: str) -> bytes:
    return delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}])


def nested(depth: int) -> str:
    return "[" * depth


Scenario = tuple[Callable[[Flood], Response], Flood, str, float]
BOMB_HEAD, BOMB = gzip_bomb()
GZIP = {"content-encoding": "gzip"}
BLOCK = b"x" * (64 * KIB)

SCENARIOS: dict[str, Scenario] = {
    # what is sent, how the run ends, how many MiB the server gets rid of at most
    "an endless line": (
        lambda flood: reply(b"data: ", flood),
        Flood(BLOCK),
        "one line of the stream exceeds 8388608 bytes (Limits.line_bytes)",
        8,
    ),
    "an endless event": (
        lambda flood: reply(flood),
        Flood(b"data: " + BLOCK + b"\n"),
        "one event of the stream exceeds 16777216 bytes (Limits.event_bytes)",
        16,
    ),
    "an endless whole reply": (
        lambda flood: reply(b'{"choices": [', flood),
        Flood(BLOCK),
        "the reply exceeds 16777216 bytes (Limits.event_bytes)",
        16,
    ),
    "endless blanks": (
        lambda flood: reply(flood),
        Flood(b" " * (64 * KIB)),
        "the reply exceeds 16777216 bytes (Limits.event_bytes)",
        16,
    ),
    "a gzip bomb": (
        lambda flood: reply(BOMB_HEAD, flood, headers=GZIP),
        BOMB,
        "one line of the stream exceeds 8388608 bytes (Limits.line_bytes)",
        0,
    ),
    "a gzip bomb as an error": (
        lambda flood: reply(BOMB_HEAD, flood, headers=GZIP, status=400),
        Flood(BOMB.data),
        "BadRequestError",
        0,
    ),
    "endless arguments": (
        lambda flood: reply(tool_call("c1", "look", ['{"a": "']), flood),
        Flood(arguments("x" * (64 * KIB))),
        "exceed 4194304 bytes (Limits.tool_args_bytes)",
        4,
    ),
    "a call with the index of a billion": (
        lambda flood: reply(tool_call("c1", "look", index=10**9), finish("tool_calls"), done()),
        Flood(b"", 0),
        "done",
        0,
    ),
    "four thousand calls": (
        lambda flood: reply(flood, finish("tool_calls"), done()),
        Flood(lambda n: b"".join(tool_call(f"c{n}", "look", index=n)), 4000),
        "more than 128 tool calls in one response (Limits.tool_calls_per_turn)",
        0.8,
    ),
    "an error body of 50 MB": (
        lambda flood: reply(flood, status=500, framing="close"),
        Flood(b"x" * 50_000, 1000),
        "[65536]",
        0.0625,
    ),
    "deep JSON": (
        lambda flood: reply(b'data: {"choices": ', nested(7 * MIB).encode(), b"\n\n"),
        Flood(b"", 0),
        "nested deeper than 256 levels",
        0,
    ),
    "deep arguments": (
        lambda flood: reply(
            tool_call("c1", "look", ['{"a": ', *[nested(64 * KIB)] * 60]), finish("tool_calls"), done()
        ),
        Flood(b"", 0),
        "done",
        0,
    ),
}


@pytest.fixture(scope="module", params=list(CLIENTS))
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What came of each scenario, all of them with one kind of client."""
    floods: dict[str, Flood] = {}

    def answer(asked: Request) -> Response:
        message = asked.json["messages"][-1]
        scenario = SCENARIOS.get(message["content"]) if message["role"] == "user" else None
        if scenario is None:
            return says("Fine.")
        flood = floods[message["content"]] = Flood(scenario[1].data, scenario[1].times)
        return scenario[0](flood)

    with Server(answer) as server:
        told = run_child("limits", request.param, server.url, *SCENARIOS)
        server.wait_all_closed()
    return {name: {**figures, "sent": floods[name].sent if name in floods else 0} for name, figures in told.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_memory_is_bounded_and_the_server_is_not_drained(request, told, name):
    _, _, outcome, most = SCENARIOS[name]
    figure(request, f"{told[name]['mib']:.1f} MiB more, {told[name]['sent'] / MIB:.1f} MiB sent")
    assert outcome in told[name]["outcome"]
    assert told[name]["mib"] <= 32
    assert told[name]["sent"] / MIB <= most + IN_FLIGHT_MIB
