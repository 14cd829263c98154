"""The developers' own kill -9 loop on `SQLiteStore`, 200 rounds; `tests/stores` has a small one for everybody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KIT = ROOT.parent / "shared" / "kit" / "kill9_store.py"


@pytest.mark.skipif(not KIT.is_file(), reason="the shared kit is not beside this checkout")
def test_nothing_is_torn_lost_or_left_behind_by_200_kills():
    # A round is mostly the start of Python, so two loops at once.
    loops = [
        subprocess.Popen(
            [sys.executable, str(KIT), "--store=tests.stores.kit_store:KitStore", "--rounds=100", f"--seed={seed}"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    for loop in loops:
        result = json.loads(loop.communicate(timeout=600)[0])
        assert result.pop("saves") >= 100
        assert result == {"rounds": 100, "torn": 0, "lost": 0, "invented": 0, "litter": 0}
