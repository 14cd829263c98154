"""The benchmarks run and do the work that they time; how long it takes is nobody's promise here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.figures import FIGURES
from benchmarks.scenarios import Scenario, response
from benchmarks.timing import cpu_time

ROOT = Path(__file__).parents[1]


def test_every_figure_is_taken_and_written(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "benchmarks", "--tiny", "--out", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    figures = json.loads((tmp_path / "results.json").read_text())
    assert len(figures) > 2 * len(FIGURES)
    for figure in figures:
        assert any("toolnexus" in name or name == "plain" for name in figure["values"]), figure["title"]
        assert all(figure["values"].values()), figure["title"]
    table = (tmp_path / "results.md").read_text()
    assert all(figure["title"] in table for figure in figures)
    picture = ElementTree.parse(tmp_path / "results.svg")
    assert len(picture.findall(".//{*}rect")) > 2 * len([figure for figure in figures if figure["baseline"]])


def test_work_that_was_not_done_makes_no_figure():
    with pytest.raises(RuntimeError, match="text-10: 9 of 10"):
        cpu_time(lambda: 9, Scenario.parse("text-10"))


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_a_run_of_the_mock_server_calls_a_tool_in_each_turn_and_then_answers(style):
    scenario = Scenario.parse("tools-2")
    bodies = [b"".join(response(scenario, style, results)) for results in range(3)]
    assert [b'"get_weather"' in body for body in bodies] == [True, True, False]
    assert [b"31C" in body for body in bodies] == [False, False, True]
