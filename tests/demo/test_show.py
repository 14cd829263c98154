from __future__ import annotations

import io

import pytest

from toolnexus import (
    DoneEvent,
    PendingEvent,
    ReasoningEvent,
    Request,
    RunResult,
    StreamEvent,
    TextEvent,
    ToolCallEvent,
    ToolCallRecord,
    ToolResultEvent,
    Usage,
    UsageEvent,
)
from toolnexus.demo.show import Show, has_colour

RECORD = ToolCallRecord("1", "add", {"a": 1}, "3")


def shown(*events: StreamEvent, colour: bool | None = None) -> str:
    out = io.StringIO()
    show = Show(out, colour=colour)
    for event in events:
        show(event)
    return out.getvalue()


def test_a_run_reads_as_a_table_of_who_did_what():
    text = shown(
        ReasoningEvent("Hm"),
        ReasoningEvent("."),
        ToolCallEvent("1", "add", {"a": 1, "b": "x"}),
        ToolResultEvent("1", "add", "3"),
        UsageEvent(Usage(prompt_tokens=12, completion_tokens=8, total_tokens=20)),
        PendingEvent(Request("r", "approval", "May I?")),
        ToolResultEvent("2", "add", "no\nway", is_error=True),
        TextEvent("It "),
        TextEvent("is 3."),
        UsageEvent(Usage(completion_tokens=9)),
        UsageEvent(Usage()),
        DoneEvent(RunResult(turns=2, tool_calls=[RECORD])),
    )
    assert text.splitlines() == [
        "thinks     Hm.",
        "call       add(a=1, b='x')",
        "result     3",
        "usage      tokens: 12 in, 8 out, 20 in all",
        "waits      May I?",
        "failed     no",
        "           way",
        "model      It is 3.",
        "usage      tokens: 9 out",
        "usage      tokens: unknown",
        "done       2 turns, 1 tool call",
    ]


def test_text_is_written_as_it_comes():
    out = io.StringIO()
    show = Show(out)
    show(TextEvent("It "))
    assert out.getvalue() == "model      It "


def test_a_limit_is_named():
    result = RunResult(status="incomplete", limit="max_turns", turns=1)
    assert shown(DoneEvent(result)) == "incomplete 1 turn, 0 tool calls, stopped by max_turns\n"


def test_control_characters_never_reach_the_terminal():
    events = (TextEvent("\x1b[2Ja\tb\r\x9b"), ToolResultEvent("1", "add", "\x1b]0;title\x07c"))
    assert shown(*events) == "model      [2Ja\tb\nresult     ]0;titlec\n"


def test_labels_are_coloured_and_asides_are_faint():
    assert shown(TextEvent("Hi"), colour=True) == "\x1b[1;36mmodel      \x1b[0mHi"
    assert shown(ReasoningEvent("Hm"), colour=True) == "\x1b[2mthinks     \x1b[0m\x1b[2mHm\x1b[0m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "0"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colour_is_for_terminals_that_have_it_and_users_who_want_it(environ: dict[str, str], expected: bool):
    assert has_colour(Terminal(), environ) is expected
    assert not has_colour(io.StringIO(), environ)


def test_colour_is_decided_by_the_stream_unless_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    Show(out)(TextEvent("Hi"))
    assert "\x1b[" in out.getvalue()
    assert "\x1b[" not in shown(TextEvent("Hi"))
