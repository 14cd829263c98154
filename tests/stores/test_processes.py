"""Several processes on one conversation, and processes that are killed while they save."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolnexus import SQLiteStore

ROOT = Path(__file__).parents[2]
TURNS = 100

TALK = """
import sys
from toolnexus import ConversationConflictError, Message, SQLiteStore
path, name, way = sys.argv[1:]
with SQLiteStore(path) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(100):
        new = [Message("user", f"{name} {turn}"), Message("assistant", "Yes.")]
        try:
            if way == "commit":
                base = store.load("talk")
                store.commit("talk", base, [*(base.messages or ()), *new])
            else:
                store.save("talk", [*(store.get("talk") or ()), *new])
            print("kept", turn)
        except ConversationConflictError as conflict:
            print(conflict)
"""


def test_of_four_processes_on_one_conversation_every_turn_is_kept_or_refused(tmp_path: Path):
    path = tmp_path / "talk.db"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ways = ("commit", "save", "commit", "save")
    talkers = [
        subprocess.Popen(
            [sys.executable, "-c", TALK, str(path), str(name), way],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, way in enumerate(ways)
    ]
    for talker in talkers:  # all are there before any begins, so they opened a new file at once
        assert talker.stdout is not None
        assert talker.stdout.readline() == "ready\n"
    for talker in talkers:
        assert talker.stdin is not None
        talker.stdin.write("go\n")
        talker.stdin.flush()
    said = [talker.communicate(timeout=120)[0].splitlines() for talker in talkers]
    assert [talker.returncode for talker in talkers] == [0] * 4

    kept = [[int(line.split()[1]) for line in lines if line.startswith("kept")] for lines in said]
    refused = [line for lines in said for line in lines if not line.startswith("kept")]
    assert set(refused) <= {
        "conversation 'talk' was saved or deleted by somebody else since it was read",
        "conversation 'talk' is there already, and was not read before: get() it, then save()",
    }
    assert sum(map(len, kept)) + len(refused) == 4 * TURNS
    assert sum(map(len, kept)) >= TURNS
    with SQLiteStore(path) as store:
        messages = store.get("talk")
    assert messages is not None
    texts = [message.text for message in messages if message.role == "user"]
    assert len(messages) == 2 * len(texts)
    for name, turns in enumerate(kept):
        assert [text for text in texts if text.startswith(f"{name} ")] == [f"{name} {turn}" for turn in turns]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_what_was_saved_survives_a_kill(tmp_path: Path):
    rounds = os.environ.get("TOOLNEXUS_KILLS", "100")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.stores.saver", str(tmp_path / "talk.db"), rounds]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    last, files = re.fullmatch(r"(\d+) (.*)\n", done.stdout).groups()  # type: ignore[union-attr]  # no match fails the test
    assert int(last) > int(rounds)
    assert files == "['talk.db']"
