"""The README's code blocks, run as they stand against a scripted model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolnexus.demo.scripted import Call, Reply, ScriptedServer

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
ENDPOINT = "http://127.0.0.1:8080/v1"

WEATHER = [Reply(calls=(Call("get_weather", {"city": "Chennai"}),)), Reply("It is 31C in Chennai.")]
HELLO = [Reply("Hello.")]
DELETE = [Reply(calls=(Call("delete_file", {"path": "notes.txt"}),)), Reply("notes.txt is gone.")]


@pytest.mark.parametrize(
    ("block", "script", "shown"),
    [
        (BLOCKS[0], WEATHER, "It is 31C in Chennai."),
        (BLOCKS[1], WEATHER, "40 tokens"),
        (BLOCKS[2], DELETE, "notes.txt is gone."),
        (BLOCKS[3], HELLO, "Hello. [stop]\nUsage(prompt_tokens=12,"),
    ],
    ids=["script", "service", "human", "raw stream"],
)
def test_a_block_of_the_readme_runs(
    block: str,
    script: list[Reply],
    shown: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)  # for the file that one of them keeps
    assert ENDPOINT in block
    with ScriptedServer(script) as server:
        exec(compile(block.replace(ENDPOINT, server.base_url), "README.md", "exec"), {"__name__": "readme"})
    assert shown in capsys.readouterr().out


def test_every_block_is_run_above():
    assert len(BLOCKS) == 4


def test_the_readme_is_short_enough_to_be_read():
    assert len(README.splitlines()) < 150
