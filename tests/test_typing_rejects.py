"""Code that must not type-check, under mypy and pyright in strict mode."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROLOGUE = """\
from toolnexus import ChunkStream, ChunkType, ContentChunk, Hooks, ReasoningChunk, UsageChunk

def content(chunk: ContentChunk) -> None: ...
def usage(chunk: UsageChunk) -> None: ...
def two(chunk: ContentChunk | ReasoningChunk) -> None: ...
def nothing() -> None: ...

def check(chunks: ChunkStream, content_chunk: ContentChunk) -> None:
"""
WRONG = {
    "a content chunk has no usage": "chunks.hook(ChunkType.CONTENT).do(lambda chunk: chunk.usage)",
    "a usage chunk has no text": "chunks.hook(ChunkType.USAGE).do(lambda chunk: chunk.text)",
    "a finish chunk has no text": "chunks.hook(ChunkType.FINISH).do(lambda chunk: chunk.text)",
    "reasoning has no call id": "chunks.hook(ChunkType.REASONING).do(lambda chunk: chunk.id)",
    "a delta has no reason": "chunks.hook(ChunkType.TOOL_CALL_DELTA).do(lambda chunk: chunk.finish_reason)",
    "not the type that was chosen": "chunks.hook(ChunkType.CONTENT).do(usage)",
    "one of two types only": "chunks.hook(ChunkType.CONTENT, ChunkType.USAGE).do(content)",
    "a union that is not chosen": "chunks.hook(ChunkType.CONTENT, ChunkType.USAGE).do(two)",
    "text of a union with usage": "chunks.hook(ChunkType.CONTENT, ChunkType.USAGE).do(lambda chunk: chunk.text)",
    "two types for all": "chunks.hook().do(two)",
    "two types for three": "chunks.hook(ChunkType.CONTENT, ChunkType.REASONING, ChunkType.FINISH).do(two)",
    "a function without a parameter": "chunks.hook(ChunkType.CONTENT).do(nothing)",
    "no function": "chunks.hook(ChunkType.CONTENT).do('print')",
    "a decorated function of another type": "chunks.hook(ChunkType.FINISH)(usage)",
    "no chunk type": "chunks.hook('content')",
    "a class for a chunk type": "chunks.hook(ContentChunk)",
    "a frozen chunk": "content_chunk.text = 'x'",
    "an observer of one type for all chunks": "Hooks(on_chunk=content)",
}
RIGHT = "chunks.hook(ChunkType.CONTENT, ChunkType.REASONING).do(two)"


def mypy(file: Path) -> dict[int, str]:
    options = ["--strict", "--config-file=", "--cache-dir", str(file.parent / "cache"), "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = (line.split(":", 2) for line in done.stdout.splitlines() if ": error:" in line)
    return {int(number): message for path, number, message in lines if Path(path).name == file.name}


def pyright(file: Path) -> dict[int, str]:
    config = {"include": [str(file)], "extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    (file.parent / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        ["pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(file.parent)],
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)
    found = [one for one in report["generalDiagnostics"] if one["severity"] == "error"]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in found if Path(one["file"]).name == file.name}


def checker(name: str, installed: bool, check: Callable[[Path], dict[int, str]]) -> object:
    return pytest.param(check, id=name, marks=pytest.mark.skipif(not installed, reason=f"{name} is not installed"))


@pytest.mark.parametrize(
    "check",
    [
        checker("mypy", find_spec("mypy") is not None, mypy),
        checker("pyright", shutil.which("pyright") is not None, pyright),
    ],
)
def test_wrong_hooks_are_rejected_each_at_its_line_and_right_ones_are_not(check, tmp_path):
    file = tmp_path / "snippets.py"
    lines = [RIGHT, *WRONG.values()]
    file.write_text(PROLOGUE + "".join(f"    {line}\n" for line in lines))
    first = len(PROLOGUE.splitlines()) + 1
    errors = check(file)
    missed = [why for number, why in enumerate(WRONG, first + 1) if number not in errors]
    assert missed == []
    assert sorted(errors) == list(range(first + 1, first + 1 + len(WRONG)))  # and nothing else
