"""Patches: their text, the places they name, and all or nothing."""

from __future__ import annotations

import os
import stat

import pytest


def patch(*lines: str) -> dict[str, str]:
    return {"patch": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def test_files_are_made_changed_moved_and_removed(run, root, by):
    (root / "old.txt").write_text("old")
    (root / "src" / "app.py").chmod(0o750)
    result = run(
        "apply_patch",
        **patch(
            "",
            "*** Add File: notes/new.txt",
            "+one",
            "+",
            "+three",
            "*** Update File: a.txt",
            "@@",
            " one",
            "-two",
            "+2",
            "+2.5",
            "*** Update File: src/app.py",
            "*** Move to: lib/main.py",
            "@@ def run():",
            "-    return 1",
            "+    return 2",
            "*** Delete File: old.txt",
        ),
    )
    assert result.text.split("\n") == [
        "made 'notes/new.txt'",
        "changed 'a.txt'",
        "changed 'src/app.py', now 'lib/main.py'",
        "removed 'old.txt'",
    ]
    assert (root / "notes" / "new.txt").read_text() == "one\n\nthree\n"
    assert (root / "a.txt").read_text() == "one\n2\n2.5\nthree\n"
    assert (root / "lib" / "main.py").read_text() == "def run():\n    return 2\n"
    assert stat.S_IMODE((root / "lib" / "main.py").stat().st_mode) == 0o750
    assert sorted(os.listdir(root)) == ["a.txt", "lib", "notes", "src"]
    assert os.listdir(root / "src") == []


@pytest.mark.parametrize(
    ("before", "hunks", "after"),
    [
        ("a\nb\nc\n", ["-b", "+B"], "a\nB\nc\n"),
        ("a\nb\nc", ["-c", "+C"], "a\nb\nC"),
        ("a\nb\n", ["-a", "-b"], ""),
        ("", ["+a"], "a\n"),
        ("a\n", ["+b"], "a\nb\n"),
        ("x\na\ny\na\n", ["@@ x", "-a", "+A", "@@ y", "-a", "+B"], "x\nA\ny\nB\n"),
        ("x\na\nx\na\n", ["@@ x", "-a", "+A"], None),
        ("  x()\na\n", ["@@ x()", "+new"], "  x()\nnew\na\n"),
        ("x\na\n", ["@@ x", "+last", "*** End of File"], "x\na\nlast\n"),
        ("a\nb\na\n", [" a", "+z", "*** End of File"], "a\nb\na\nz\n"),
        ("a\nb\na\nc\n", ["-b", "+B", "*** End of File", "-c", "+C"], None),
        ("a\n\nb\n", [" a", "", "-b", "+B"], "a\n\nB\n"),
        ("a\r\nb\r\n", ["-b", "+B", "+C"], "a\r\nB\r\nC\r\n"),
        ("a\nb\n", ["@@", "@@ a", "-b", "+B"], "a\nB\n"),
    ],
)
def test_lines_are_changed_at_the_place_that_is_meant(run, root, before, hunks, after):
    (root / "f").write_bytes(before.encode())
    result = run("apply_patch", **patch("*** Update File: f", *hunks))
    assert result.is_error is (after is None)
    assert (root / "f").read_bytes() == (before if after is None else after).encode()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "a patch begins with the line '*** Begin Patch'"),
        (["rubbish"], "line 2 of the patch: expected '*** Add File: '"),
        (["*** Add File: new", "+x", "", "+y"], "line 4 of the patch: expected a line that begins with '+', got ''"),
        (["*** Update File: a.txt"], "nothing is changed in 'a.txt'"),
        (["*** Update File: a.txt", "@@"], "nothing is changed in 'a.txt'"),
        (["*** Update File: a.txt", "rubbish"], "expected a line that begins with ' ', '-', '+' or '@@'"),
        (["*** Update File: a.txt", "-four", "+4"], "'a.txt' does not have these lines, from line 1 on: 'four'"),
        (["*** Update File: a.txt", "-three", "+3", "@@", "-one", "+1"], "from line 4 on: 'one'"),
        (["*** Update File: a.txt", "@@ four", "-two"], "has no line 'four', from line 1 on, for '@@'"),
        (["*** Update File: twice", "-x", "+y"], "has these lines in 3 places (1, 2, 3): 'x'; give more context"),
        (["*** Update File: none", "-x"], "'none' does not exist"),
        (["*** Update File: no/folder", "-x"], "'no' does not exist"),
        (["*** Update File: src", "-x"], "'src' is a folder"),
        (["*** Add File: a.txt", "+x"], "'a.txt' is there already"),
        (["*** Add File: src", "+x"], "'src' is a folder"),
        (["*** Delete File: none"], "'none' does not exist"),
        (["*** Update File: a.txt", "*** Move to: src/app.py"], "'src/app.py' is there already"),
        (["*** Update File: a.txt", "-one", "*** Update File: ./a.txt", "-two"], "'./a.txt' twice"),
        (["*** Add File: big", "+" + "x" * 200], "'big' would be 201 bytes; at most 200 are written"),
        ([f"*** Add File: f{n}" for n in range(101)], "changes 101 files; at most 100"),
    ],
)
def test_a_patch_that_is_not_clear_changes_nothing(run, root, by, lines, said):
    (root / "twice").write_text("x\nx\nx\n")
    before = sorted(os.listdir(root))
    for given in (lines, ["*** Add File: new/first.txt", "+x", *lines]):
        if len(lines) > 100 or not lines:
            given = lines
        result = run("apply_patch", bounds={"file_bytes": 200}, **patch(*given))
        assert result.is_error
        assert said in result.text or (given is not lines and "expected" in said)
        assert sorted(os.listdir(root)) == before
        assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("text", ["", "*** Begin Patch", "*** End Patch", "*** Begin Patch\n*** End Patch", "--- a"])
def test_what_is_no_patch_is_refused(run, text):
    assert "a patch begins with the line" in run("apply_patch", patch=text).text


def test_newlines_round_a_patch_and_windows_newlines_do_not_matter(run, root):
    text = "\n\r\n*** Begin Patch\r\n*** Update File: a.txt\r\n-one\r\n+1\r\n*** End Patch\r\n\n"
    assert run("apply_patch", patch=text.replace("\n\r\n", "\n", 1)).text == "changed 'a.txt'"
    assert (root / "a.txt").read_text() == "1\ntwo\nthree\n"


CHANGES = [
    "*** Add File: new/made.txt",
    "+x",
    "*** Update File: src/app.py",
    "*** Move to: main.py",
    "*** Delete File: gone.txt",
    "*** Update File: a.txt",
    "-one",
    "+1",
]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_patch_that_fails_half_way_is_undone(run, root, monkeypatch, at):
    (root / "gone.txt").write_text("here")
    (root / "gone.txt").chmod(0o640)
    original, count = os.replace, 0

    def replace(*args: object, **options: object) -> None:
        nonlocal count
        count += 1
        if count == at:
            raise OSError(28, "No space left on device")
        original(*args, **options)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(os, "replace", replace)
    result = run("apply_patch", **patch(*CHANGES))
    assert result.is_error
    assert "No space left on device" in result.text
    assert "could not be undone" not in result.text
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert (root / "gone.txt").read_text() == "here"
    assert stat.S_IMODE((root / "gone.txt").stat().st_mode) == 0o640
    assert (root / "src" / "app.py").exists()
    assert {*os.listdir(root)} - {"new"} == {"a.txt", "gone.txt", "src"}
    assert not (root / "new").exists() or not os.listdir(root / "new")


def test_what_cannot_be_undone_is_said(run, root, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", fail)
    (root / "gone.txt").write_text("here")
    result = run("apply_patch", **patch("*** Delete File: gone.txt", "*** Add File: b", "+x"))
    assert "Input/output error; what was written before could not be undone: gone.txt" in result.text


def test_a_file_that_changes_before_it_is_removed_stays(run, root, monkeypatch):
    original = os.replace

    def replace(*args: object, **options: object) -> None:
        original(*args, **options)  # type: ignore[arg-type]  # passed on as they came
        (root / "a.txt").write_text("theirs")

    monkeypatch.setattr(os, "replace", replace)
    result = run("apply_patch", **patch("*** Add File: b", "+x", "*** Delete File: a.txt"))
    assert "changed by somebody else" in result.text
    assert (root / "a.txt").read_text() == "theirs"
    assert sorted(os.listdir(root)) == ["a.txt", "src"]
