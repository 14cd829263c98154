"""The machine alone, fed with every beginning of an answer in several deliveries, and told of an end in every way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.core.scripted import make_run, make_tool, reading
from tests.core.wire_cases import WIRES
from tests.sweeps.answers import ARGS, CALL_ID, STREAMED, TEXT, TOOL, WHOLE, Answer, Style
from toolnexus._core.commands import RunTools, SendRequest
from toolnexus._core.run import AgentRun
from toolnexus.errors import APITimeoutError, StreamInterruptedError, ToolnexusError
from toolnexus.events import StreamEvent
from toolnexus.messages import Message

RESET = StreamInterruptedError("the connection was reset")
SILENCE = APITimeoutError("the server was silent")

End = Callable[[AgentRun], Sequence[StreamEvent]]
ENDS: dict[str, End] = {
    "a clean end": lambda run: run.response_ended(),
    "a reset": lambda run: run.response_failed(RESET),
    "silence": lambda run: run.response_failed(SILENCE),
}


def deliveries(body: bytes, everything: bool) -> Iterator[list[bytes]]:
    """Ways for these bytes to arrive that differ in how they are cut into reads; by default two of four, by turns."""
    ways = (
        lambda: [body],
        lambda: [body[:-1], body[-1:]],
        lambda: [body[at : at + 7] for at in range(0, len(body), 7)],
        lambda: [body[:-3], body[-3:]],
    )
    for number, way in enumerate(ways):
        if everything or number % 2 == len(body) % 2:
            yield way()


def play(
    answer: Answer, pieces: Sequence[bytes], end: Callable[[AgentRun], Sequence[StreamEvent]], stream: bool
) -> str:
    """One cut; returns how it ended, after everything about it was compared with the oracle."""
    run = make_run(make_tool(TOOL), wire=WIRES[answer.style], stream=stream, keeps=True)
    assert isinstance(run.next_command(), SendRequest)
    run.response_opened(200, {}, 0.0)
    events: list[StreamEvent] = []
    size = sum(map(len, pieces))
    error: ToolnexusError | None = None
    try:
        for piece in pieces:
            if not reading(run).wants_bytes:
                break
            events += run.receive(piece)
            assert reading(run).shown == bool(events)
        events += end(run)
    except ToolnexusError as raised:
        error = raised
    shown = "".join(event.delta for event in events if event.type == "text")
    assert shown == (answer.text_of(size) if stream or error is None else "")
    # Nothing but its end says that a reply which is no stream is whole.
    if size >= answer.complete_at and (stream or end is ENDS["a clean end"]):
        assert error is None
        saved = run.next_command()
        run.saved()
        command = run.next_command()
        assert isinstance(command, RunTools)
        assert [(call.id, call.tool.name, call.args) for call in command.calls] == [(CALL_ID, TOOL, ARGS)]
        assert saved.messages[-1].tool_calls[0].state == "started"  # type: ignore[union-attr]  # there is one
        return "complete"
    assert error is (RESET if end is ENDS["a reset"] else SILENCE if end is ENDS["silence"] else error)
    assert type(error) in (StreamInterruptedError, APITimeoutError)
    assert not any(event.type == "tool_call" for event in events)
    run.abandon()
    result = run.result()
    assert (result.status, result.text, result.tool_calls) == ("error", shown, [])
    assert result.messages == [Message("user", "Hello?")]
    return "error"


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("style", STREAMED)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_cut_answer_is_never_taken_for_a_whole_one(style: Style, end, stream, everything, publish):
    answer = (STREAMED if stream else WHOLE)[style]
    outcomes = [
        play(answer, pieces, end, stream)
        for cut in answer.points
        for pieces in deliveries(answer.body[:cut], everything)
    ]
    assert outcomes.count("error") >= 2 * answer.complete_at
    publish(cuts=len(outcomes), errors=outcomes.count("error"), complete=outcomes.count("complete"))


@pytest.mark.parametrize("style", STREAMED)
def test_where_a_cut_answer_was_split_makes_no_difference(style: Style, everything, publish):
    """Every beginning, in two reads: split at every seventh offset, the seven by turns; by default at one of them."""
    answer = STREAMED[style]
    ends = list(ENDS.values())
    count = 0
    for cut in answer.points:
        for at in range(1 + cut % 7, cut, 7) if everything else {cut * 37 % 101}:
            play(answer, [answer.body[:at], answer.body[at:cut]], ends[(cut + at) % 3], True)
            count += 1
    publish(cuts=count)


@pytest.mark.parametrize("style", STREAMED)
def test_the_oracle_knows_the_answer(style: Style):
    answer = STREAMED[style]
    assert answer.text_of(len(answer.body)) == "".join(TEXT)
    assert 0 < answer.complete_at <= len(answer.body)
    assert len(answer.points) > 1000
    assert set(answer.sample(10_000)) >= {answer.complete_at - 1, answer.complete_at}
