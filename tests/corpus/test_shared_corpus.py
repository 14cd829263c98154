"""The project's wire cases and recorded streams over real sockets, judged by their own replayer.

They lie beside the project, for its developers and for CI; a fresh clone has none of them, and what is worth
keeping is in `tests/data`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"

pytestmark = pytest.mark.skipif(
    not (CORPUS / "replay.py").is_file(), reason="the shared corpus is not beside this checkout"
)


def ids(folder: str) -> list[str]:
    return [json.loads(path.read_text(encoding="utf-8"))["id"] for path in sorted((CORPUS / folder).glob("*.json"))]


def replay(adapter: str, names: list[str], cuts: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "replay.py",
            f"--adapter=adapter_toolnexus:{adapter}",
            f"--only={','.join(names)}",
            f"--cuts={cuts}",
        ],
        cwd=CORPUS,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " 0 failed" in done.stdout


@pytest.mark.parametrize("adapter", ["SyncAdapter", "AsyncAdapter"])
def test_every_wire_case_in_every_cut(adapter: str):
    replay(adapter, ids("cases"), "given,bytes,random:1")


@pytest.mark.parametrize("adapter", ["SyncAdapter", "AsyncAdapter"])
def test_every_recorded_stream_in_every_cut(adapter: str):
    replay(adapter, ids("recorded"), "given,bytes,random:1")


def test_every_wire_case_that_has_a_whole_reply_without_streaming():
    replay("RunAdapter", ids("cases"), "given")
