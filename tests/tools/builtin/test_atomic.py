"""A file is written whole or not at all: killed at each step, out of space, or changed by somebody else meanwhile."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from toolnexus import Builtins, Toolkit

ROOT = Path(__file__).parents[3]
OLD, NEW = "old\n" * 20_000, "new\n" * 30_000

# Writes, and stops for ever right before one system call.
WRITER = """
import os, sys
from toolnexus import Builtins, Toolkit
from toolnexus.tools.builtin import folder

step, number = sys.argv[2], int(sys.argv[3])
original, calls = getattr(os, step), 0

def stop(*args, **options):
    global calls
    calls += 1
    if calls == number:
        print("there", flush=True)
        sys.stdin.read()
    return original(*args, **options)

kit = Toolkit(builtins=Builtins(sys.argv[1], ["write"]))
setattr(folder.os, step, stop)
print(kit.execute("write", {"path": "file.txt", "content": "new\\n" * 30_000}).text, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this platform has no SIGKILL")
@pytest.mark.parametrize(
    ("step", "number", "holds"),
    [("fchmod", 1, OLD), ("fsync", 1, OLD), ("replace", 1, OLD), ("fsync", 2, NEW)],
    ids=["written", "with permissions", "on the disk", "in its place"],
)
def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new_one(run, root, step, number, holds):
    (root / "file.txt").write_text(OLD)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), step, str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "there\n"
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    assert (root / "file.txt").read_text() == holds
    left = sorted(os.listdir(root))
    assert left[-3:] == ["a.txt", "file.txt", "src"]
    assert [name for name in left[:-3] if not name.startswith(".toolnexus-")] == []
    assert ".toolnexus" not in run("glob", pattern="**").text, "what a kill leaves behind is hidden"


def test_readers_see_the_old_file_or_the_new_one(run, root):
    (root / "file.txt").write_text(OLD)
    over, seen = threading.Event(), set()

    def look() -> None:
        while not over.is_set():
            seen.add((root / "file.txt").read_text())

    reader = threading.Thread(target=look)
    reader.start()
    for content in (NEW, OLD) * 40:
        assert not run("write", path="file.txt", content=content).is_error
    over.set()
    reader.join()
    assert seen <= {OLD, NEW}


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(run, root, by, monkeypatch, step):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    result = run("write", path="a.txt", content="x")
    assert result.text == "'a.txt' cannot be used: No space left on device"
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert sorted(os.listdir(root)) == ["a.txt", "src"]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("write", {"path": "a.txt", "content": "mine"}),
        ("write", {"path": "new.txt", "content": "mine"}),
        ("edit", {"path": "a.txt", "old_string": "one", "new_string": "1"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** End Patch"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: new.txt\n+1\n*** End Patch"}),
    ],
)
def test_what_somebody_else_wrote_meanwhile_is_not_lost(run, root, by, monkeypatch, name, args):
    original = os.fsync

    def fsync(fd: int) -> None:
        (root / "a.txt").write_text("theirs")
        (root / "new.txt").write_text("theirs")
        original(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    assert "changed by somebody else meanwhile" in run(name, **args).text
    assert (root / "a.txt").read_text() == (root / "new.txt").read_text() == "theirs"


def test_two_edits_of_one_file_at_the_same_time_are_both_done(run, root):
    (root / "count").write_text("".join(f"<{n}>\n" for n in range(40)))
    kit = Toolkit(builtins=Builtins(root, ["edit"]))
    barrier = threading.Barrier(8)

    def edit(first: int) -> None:
        barrier.wait()
        for n in range(first, 40, 8):
            assert not run("edit", within=kit, path="count", old_string=f"<{n}>", new_string=f"{n}").is_error

    threads = [threading.Thread(target=edit, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (root / "count").read_text() == "".join(f"{n}\n" for n in range(40))
