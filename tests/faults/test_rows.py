"""Every fault of the table ends as it should: nothing is shown that was not said, and no tool runs by mistake."""

from __future__ import annotations

from tests.faults.playing import WARNED, Played
from tests.faults.rows import ROWS
from toolnexus import ToolnexusError


def test_a_fault_has_the_end_that_it_should(played: Played) -> None:
    row, outcome = played.row, played.outcome
    shown = "".join(event.delta for event in outcome.events if event.type == "text")
    if isinstance(row.end, str):
        result = outcome.ended()
        assert (result.status, result.text) == (row.end, row.text)
        assert outcome.types.count("done") == 1
        assert outcome.types[-1] == "done"
    else:
        ends = row.end if isinstance(row.end, tuple) else (row.end,)
        assert isinstance(outcome.error, ToolnexusError)
        assert type(outcome.error) in ends, outcome.error
        assert outcome.error.result is not None
        assert (shown, outcome.error.result.text) == (row.text, row.text)
        assert "done" not in outcome.types
    assert len(played.requests) == row.requests
    assert played.paid == row.tools
    assert played.others == []
    assert played.warned == [WARNED] * played.warned.count(WARNED)


def test_every_row_has_a_number_of_its_own() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS) == 84
