"""A key is sent, and shows nowhere else, whatever goes wrong.

It is looked for in everything that a program, its logs, its files and its crash reports could show of a run.
"""

from __future__ import annotations

import copy
import faulthandler
import os
import pickle
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.harness import CLIENTS
from tests.faults.playing import KEY, TOKEN, WARNED, Played, locals_of, play
from tests.faults.rows import ROWS, Row
from toolnexus import RunResult, event_to_json

Sink = Callable[[Played], Iterator[str]]


def owner(played: Played) -> Any:
    """The client itself, not what the tests put around it."""
    return getattr(played.client, "client", played.client)


def in_repr(played: Played) -> Iterator[str]:
    yield repr(owner(played))


def in_str(played: Played) -> Iterator[str]:
    yield str(owner(played))
    yield f"{owner(played)}"


def in_vars(played: Played) -> Iterator[str]:
    yield str(vars(owner(played)))


def in_logs(played: Played) -> Iterator[str]:
    yield from played.logged


def chain(played: Played) -> list[BaseException]:
    """The error of the run and everything behind it."""
    found: list[BaseException] = []
    queue: list[BaseException | None] = [played.outcome.error]
    while queue:
        error = queue.pop()
        if error is not None and error not in found:
            found.append(error)
            queue += [error.__cause__, error.__context__]
    return found


def in_errors(played: Played) -> Iterator[str]:
    for error in chain(played):
        yield f"{error} {error!r} {error.args} {vars(error)} {getattr(error, '__notes__', ())}"


def in_locals(played: Played) -> Iterator[str]:
    for error in chain(played):
        trace = error.__traceback__
        while trace is not None:
            yield from locals_of(trace.tb_frame, trace.tb_lineno)
            trace = trace.tb_next


def in_pickles(played: Played) -> Iterator[str]:
    try:
        yield repr(pickle.dumps(owner(played)))
    except Exception as refusal:
        yield f"{refusal!r} {refusal.__context__!r}"
    for value in [result(played), *played.outcome.events]:
        yield repr(pickle.dumps(value))


def in_copies(played: Played) -> Iterator[str]:
    for how in (copy.copy, copy.deepcopy):
        try:
            yield str(vars(how(owner(played))))
        except Exception as refusal:
            yield f"{refusal!r} {refusal.__context__!r}"


def in_events(played: Played) -> Iterator[str]:
    for event in played.outcome.events:
        yield f"{event!r} {event_to_json(event)}"


def result(played: Played) -> RunResult | None:
    found = played.outcome.result or getattr(played.outcome.error, "result", None)
    return found if isinstance(found, RunResult) else None


def in_transcript(played: Played) -> Iterator[str]:
    if (found := result(played)) is not None:
        yield f"{found!r} {found.model_dump_json()}"


def in_store(played: Played) -> Iterator[str]:
    yield from (file.decode("latin-1") for file in played.stored)


def in_tool_context(played: Played) -> Iterator[str]:
    for ctx in played.contexts:
        names = [name for kind in type(ctx).__mro__ for name in getattr(kind, "__slots__", ())]
        yield f"{ctx!r} {[(name, getattr(ctx, name)) for name in names]}"


def in_hooks(played: Played) -> Iterator[str]:
    yield from map(repr, played.hooked)


def in_summaries(played: Played) -> Iterator[str]:
    if (found := result(played)) is not None:
        yield from map(repr, found.summaries)


def in_crash_dump(played: Played) -> Iterator[str]:
    yield from played.frames
    if played.outcome.error is not None:
        yield "".join(traceback.format_exception(played.outcome.error))
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        yield file.read().decode()


def in_warnings(played: Played) -> Iterator[str]:
    yield from played.warned


def in_what_another_server_sees(played: Played) -> Iterator[str]:
    yield from (f"{request.target} {request.headers} {request.body!r}" for request in played.others)


def in_bodies(played: Played) -> Iterator[str]:
    yield from (request.body.decode("latin-1") for request in played.requests)


SINKS: dict[str, tuple[Sink, str]] = {
    "repr": (in_repr, "Client style="),
    "str": (in_str, "Client style="),
    "vars": (in_vars, "_config"),
    "logs": (in_logs, "connect_tcp.started"),
    "errors": (in_errors, "no luck"),
    "locals of a traceback": (in_locals, "prompt = "),
    "pickles": (in_pickles, "holds a key"),
    "copies": (in_copies, "holds a key"),
    "events": (in_events, "Hello!"),
    "transcript": (in_transcript, "Hi?"),
    "store": (in_store, "Hi?"),
    "tool context": (in_tool_context, "transfer"),
    "hooks": (in_hooks, "BeforeLLM("),
    "summaries": (in_summaries, "Hello!"),
    "crash dump": (in_crash_dump, "self = "),
    "warnings": (in_warnings, WARNED),
    "what another server sees": (in_what_another_server_sees, ""),
    "bodies": (in_bodies, "Hi?"),
}
"""Where it is looked for, each with what is certainly found there in one row or another."""


def found(played: Played) -> list[str]:
    """Where the key or the token shows."""
    return [
        f"{name}: {text[:300]}"
        for name, (sink, _) in SINKS.items()
        for text in sink(played)
        if any(secret in text for secret in (KEY, TOKEN))
    ]


def check_sent(played: Played) -> None:
    """It is where it must be, so that it could be found elsewhere."""
    for request in played.requests:
        sent = request.headers.get("authorization", request.headers.get("x-api-key", ""))
        assert sent.endswith(KEY)
        assert f"token={TOKEN}" in request.target


@pytest.mark.case("security-key-not-in-debug-output")
def test_a_key_is_sent_and_shows_nowhere(played: Played) -> None:
    check_sent(played)
    assert found(played) == []


EVERYTHING = os.environ.get("TOOLNEXUS_SWEEPS") == "all"
OTHERWISE = [
    (row, kind, how)
    for row in ROWS
    for kind in CLIENTS
    for how in ("in the other style", "over a caller's httpx")
    if EVERYTHING or (int(row.id[1:]) + len(kind) + len(how)) % 6 == 0
]


@pytest.mark.parametrize(
    ("row", "kind", "how"), OTHERWISE, ids=[f"{row.id}-{kind}-{how}" for row, kind, how in OTHERWISE]
)
def test_nor_does_it_show(row: Row, kind: str, how: str, tmp_path: Path) -> None:
    """With `TOOLNEXUS_SWEEPS=all` in all rows, both ways and with both clients; else in a sixth of them."""
    other = {"openai": "anthropic", "anthropic": "openai"}[row.style]
    options: dict[str, Any] = {"style": other} if how == "in the other style" else {"given": True}
    played = play(row, kind, tmp_path, **options)
    check_sent(played)
    assert found(played) == []


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Played]:
    """A run that went well, with a call, and runs that failed."""
    rows = [row for row in ROWS if row.id in ("F56", "F87", "F05", "F33")]
    return [play(row, kind, tmp_path_factory.mktemp("sample")) for row in rows for kind in CLIENTS]


@pytest.mark.parametrize("name", SINKS)
def test_each_place_is_really_looked_at(name: str, samples: list[Played]) -> None:
    sink, known = SINKS[name]
    texts = [text for played in samples for text in sink(played)]
    if known:
        assert any(known in text for text in texts)
    else:
        assert not texts
        samples[0].others.append(samples[0].requests[0])
        assert KEY in "".join(sink(samples[0]))
        samples[0].others.clear()


def test_a_key_that_does_show_is_found(samples: list[Played]) -> None:
    samples[0].logged.append(f"Bearer {KEY}")
    samples[0].stored.append(TOKEN.encode())
    assert [where.partition(":")[0] for where in found(samples[0])] == ["logs", "store"]
    samples[0].logged.pop()
    samples[0].stored.pop()
