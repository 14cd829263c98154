"""Whatever a server sends, a run goes on, ends, or fails with an error of ours.

Here what servers really sent, with every part of it replaced; `tests/fuzz` has what nobody thought of.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.core.scripted import DONE, make_run, make_tool, reading, sse
from tests.tables import wire_cases
from toolnexus._core.commands import Finish, RunTools, SendRequest
from toolnexus._core.run import AgentRun
from toolnexus.errors import StreamInterruptedError, ToolnexusError
from toolnexus.events import ReasoningEvent, StreamEvent, TextEvent, event_from_json, event_to_json

TOOL_NAMES = sorted({tool["name"] for case in wire_cases() for tool in case["tools"]})
TOOLS = [make_tool(name) for name in ["look", *TOOL_NAMES]]


def play(pieces: list[bytes], status: int = 200, *, reset: bool = False, stream: bool = True) -> AgentRun:
    """One reply, and the checks that hold for every reply."""
    run = make_run(*TOOLS, stream=stream)
    events: list[StreamEvent] = []
    failed: ToolnexusError | None = None
    run.response_opened(status, {}, 0.0)
    try:
        for piece in pieces:
            events += run.receive(piece)
        events += run.response_failed(StreamInterruptedError("reset")) if reset else run.response_ended()
    except ToolnexusError as error:
        failed = error
        run.next_command()
        run.abandon()
        result = run.result()
    else:
        command = run.next_command()
        assert isinstance(command, RunTools | SendRequest | Finish)
        result = run.result()
    assert failed is None or (result.status == "error" and len(str(failed).encode()) < 3000)
    for event in events:
        if isinstance(event, TextEvent | ReasoningEvent):
            assert event.delta
            event.delta.encode()
        assert event_from_json(event_to_json(event)) == event
    shown = "".join(e.delta for e in events if isinstance(e, TextEvent))
    assert shown == result.text or (failed is not None and not shown)
    # What was said can be stored, and sent on.
    result.model_dump_json()
    json.dumps(run.body(_request(run)), ensure_ascii=False, allow_nan=False).encode()
    return run


def _request(run: AgentRun) -> Any:
    # The request that would follow, whatever the run waits for now.
    return make_run(history=run.messages).next_command().request  # type: ignore[union-attr]  # a new run asks first


@pytest.mark.parametrize(
    "payload",
    [
        {"choices": [{"delta": {"reasoning_details": [{"index": [0], "text": "a"}]}}]},
        {"choices": [{"delta": {"content": [{"type": "thinking", "thinking": 5}]}}]},
        {"error": {"message": "no", "code": "²"}},
    ],
    ids=["an index that cannot be a key", "a thought that is a number", "a digit that is no number"],
)
def test_what_was_once_found_is_still_an_answer_or_an_error_of_ours(payload: Any) -> None:
    play([sse(payload), DONE])


# -- every sub-value of every chunk of the wire cases, replaced by a value of every other kind

REPLACEMENTS: list[Any] = [None, True, 7, -1.5, "odd", "", [], [7], {}, {"odd": [7]}, ["odd"], [{"odd": None}]]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    out = copy.copy(value)
    out[path[0]] = replaced(value[path[0]], path[1:], new)
    return out


def streams() -> Iterator[tuple[str, list[Any]]]:
    seen = set()
    for case in wire_cases():
        for turn in case["turns"]:
            text = "".join(turn.get("chunks", ()))
            found = re.findall(r"^data: (\{.*\})$", text, re.MULTILINE)
            try:
                chunks = [json.loads(line) for line in found]
            except ValueError:
                continue
            for chunk in chunks:
                for member in ("id", "object", "created", "model"):  # nobody looks at them
                    chunk.pop(member, None)
            key = json.dumps(chunks)
            if chunks and key not in seen and len(chunks) < 20:
                seen.add(key)
                yield case["id"], chunks


STREAMS = list(streams())
ALL = os.environ.get("TOOLNEXUS_SWEEPS") == "all"


def shape(value: Any, name: str = "") -> Any:
    """What there is of a payload besides its words and numbers."""
    if isinstance(value, dict):
        return tuple((key, shape(inner, key)) for key, inner in value.items())
    if isinstance(value, list):
        return tuple(shape(inner, name) for inner in value)
    return (
        value if name in ("type", "role", "finish_reason", "stop_reason") else type(value).__name__ + "?" * (not value)
    )


def changes(payloads: list[Any], seen: set[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Where to replace something: by default once for each shape of payload behind a payload of one shape."""
    before = None
    for number, payload in enumerate(payloads):
        here = shape(payload)
        for path in paths(payload):
            if ALL or (before, here, path) not in seen:
                seen.add((before, here, path))
                yield number, path
        before = here


def places(streams: list[tuple[str, list[Any]]]) -> list[Any]:
    """As parameters: a stream, and where to replace something in it."""
    seen: set[Any] = set()
    found = [(name, chunks, list(changes(chunks, seen))) for name, chunks in streams]
    return [pytest.param(chunks, where, id=name) for name, chunks, where in found if where]


@pytest.mark.parametrize(("chunks", "where"), places(STREAMS))
def test_a_wrong_type_anywhere_in_a_stream_becomes_events_or_an_error_of_ours(
    chunks: list[Any], where: list[tuple[int, tuple[Any, ...]]]
) -> None:
    lines = [sse(chunk) for chunk in chunks]
    for i, path in where:
        for new in REPLACEMENTS:
            play([*lines[:i], sse(replaced(chunks[i], path, new)), *lines[i + 1 :], DONE])


@pytest.mark.parametrize("chunks", [chunks for _, chunks in STREAMS], ids=[id for id, _ in STREAMS])
def test_no_call_of_a_stream_that_is_cut_runs(chunks: list[Any]) -> None:
    body = sse(*chunks)
    ends = [m.end() for m in re.finditer(rb"\n\n", body)]
    for end in ends:
        run = make_run(*TOOLS)
        run.response_opened(200, {}, 0.0)
        run.receive(body[: end - 1])  # the last event lacks its blank line
        complete = reading(run).turn.patience is not None
        try:
            run.response_failed(StreamInterruptedError("reset"))
        except ToolnexusError:
            assert isinstance(run.next_command(), SendRequest)
            run.abandon()
            assert not run.result().tool_calls
        else:
            assert complete
