"""Reading, writing and editing one file."""

from __future__ import annotations

import io
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus import Cancel, ToolContext
from toolnexus.tools.builtin import folder
from toolnexus.tools.builtin.text import Text


def test_lines_come_with_their_numbers(run):
    assert run("read", path="a.txt").text == "     1\tone\n     2\ttwo\n     3\tthree"


def test_a_part_of_a_file_says_how_to_go_on(run, root):
    (root / "long").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert run("read", path="long", offset=4, limit=2).text == (
        "     4\tline 4\n     5\tline 5\n[lines 4 to 5 of 10; go on with offset=6]"
    )
    assert run("read", path="long", offset=9, limit=2).text == "     9\tline 9\n    10\tline 10"
    assert "the file has 10 lines" in run("read", path="long", offset=11).text


def test_what_is_shown_is_bounded_by_bytes_and_each_line_by_characters(run, root):
    (root / "wide").write_text("x" * 5000 + "\n" + "y" * 90 + "\n" + "z\n")
    shown = run("read", path="wide", bounds={"output_bytes": 100}).text
    assert shown.startswith("     1\t" + "x" * 2000 + " [3000 characters of this line left out]\n[lines 1 to 1 of 3; ")
    shown = run("read", path="wide", offset=2, bounds={"output_bytes": 100}).text
    assert shown.endswith("y\n[lines 2 to 2 of 3; go on with offset=3]")
    assert "[lines" not in run("read", path="wide", offset=2, bounds={"output_bytes": 150}).text


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfea", b"\x89PNG", "é".encode("latin-1")])
def test_what_is_no_text_is_not_read_or_edited(run, root, data):
    (root / "data").write_bytes(data)
    assert "no text in UTF-8" in run("read", path="data").text
    assert "no text in UTF-8" in run("edit", path="data", old_string="a", new_string="b").text
    assert (root / "data").read_bytes() == data


def test_an_empty_file_and_a_folder_are_named_as_such(run, root):
    (root / "empty").touch()
    assert run("read", path="empty").text == "[the file is empty]"
    assert "is a folder" in run("read", path="src").text
    assert "the root itself" in run("read", path=".").text
    assert "the root itself" in run("write", path="./", content="x").text
    assert "is a folder" in run("write", path="src", content="x").text


@pytest.mark.parametrize(("size", "fits"), [(100, True), (101, False)])
def test_files_are_read_and_written_up_to_a_size(run, root, size, fits):
    (root / "big").write_text("x" * size)
    bounds = {"file_bytes": 100}
    assert run("read", path="big", bounds=bounds).is_error is not fits
    assert run("write", path="new", content="é" * (size // 2) + "x" * (size % 2), bounds=bounds).is_error is not fits
    assert (root / "new").exists() is fits
    (root / "edited").write_text("x" * (size - 2) + "a")
    assert run("edit", path="edited", old_string="a", new_string="bb", bounds=bounds).is_error is not fits


def test_a_file_that_grows_while_it_is_read_is_bounded_too(run, root, monkeypatch):
    original, sizes = os.fstat, []

    class Watched(io.FileIO):
        def readall(self) -> bytes:
            raise AssertionError("all of it is read, however much that is")

        def read(self, size: int | None = -1) -> bytes:
            sizes.append(size)
            return super().read(size)

    monkeypatch.setattr(folder, "open", Watched, raising=False)

    def fstat(fd: int) -> os.stat_result:
        state = original(fd)
        (root / "a.txt").write_text("x" * 1000)
        return state

    monkeypatch.setattr(os, "fstat", fstat)
    assert "larger than 100 bytes" in run("read", path="a.txt", bounds={"file_bytes": 100}).text
    assert sizes == [101]


def test_writing_makes_a_file_and_its_folders_or_replaces_it(run, root, by):
    assert run("write", path="new/deep/b.txt", content="é\n").text == "made 'new/deep/b.txt': 3 bytes"
    assert (root / "new" / "deep" / "b.txt").read_bytes() == "é\n".encode()
    assert run("write", path="new/deep/b.txt", content="").text == "replaced 'new/deep/b.txt': 0 bytes"
    assert (root / "new" / "deep" / "b.txt").read_bytes() == b""
    assert sorted(os.listdir(root / "new" / "deep")) == ["b.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755, 0o2711, 0o200 | 0o444])
def test_permissions_are_kept_but_nothing_runs_as_another_user(run, root, mode):
    (root / "a.txt").chmod(mode)
    for name, args in (("write", {"content": "x"}), ("edit", {"old_string": "x", "new_string": "y"})):
        assert not run(name, path="a.txt", **args).is_error
        assert stat.S_IMODE((root / "a.txt").stat().st_mode) == mode & 0o777


def test_a_new_file_has_the_usual_permissions(run, root):
    (root / "reference").touch()
    run("write", path="new", content="x")
    assert (root / "new").stat().st_mode == (root / "reference").stat().st_mode


def test_the_owner_is_kept(run, root):
    try:
        os.chown(root / "a.txt", 12345, 54321)
    except PermissionError:
        pytest.skip("only the superuser may give files away")
    run("write", path="a.txt", content="x")
    assert ((root / "a.txt").stat().st_uid, (root / "a.txt").stat().st_gid) == (12345, 54321)


def test_an_owner_that_cannot_be_kept_is_no_failure(run, root, monkeypatch):
    def fchown(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", fchown)
    assert not run("write", path="a.txt", content="x").is_error


def test_a_read_only_file_is_not_replaced(run, root):
    (root / "a.txt").chmod(0o444)
    assert "read-only" in run("write", path="a.txt", content="x").text
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert sorted(os.listdir(root)) == ["a.txt", "src"]


def test_text_that_is_there_once_is_replaced(run, root):
    assert run("edit", path="a.txt", old_string="two\n", new_string="2\n").text == "edited 'a.txt': 1 place"
    assert (root / "a.txt").read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"old_string": "four", "new_string": "4"}, "old_string is not in 'a.txt'; it must match exactly"),
        ({"old_string": "e", "new_string": "E"}, "old_string is 3 times in 'a.txt' (lines 1, 3, 3)"),
        ({"old_string": "", "new_string": "x"}, "old_string is empty"),
        ({"old_string": "two", "new_string": "two"}, "the same"),
        ({"old_string": " two", "new_string": "x"}, "is not in"),
    ],
)
def test_an_edit_that_is_not_clear_is_refused(run, root, args, said):
    result = run("edit", path="a.txt", **args)
    assert result.is_error
    assert said in result.text
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_every_occurrence_is_replaced_on_demand(run, root):
    assert run("edit", path="a.txt", old_string="e", new_string="E", replace_all=True).text.endswith("3 places")
    assert (root / "a.txt").read_text() == "onE\ntwo\nthrEE\n"


def test_many_places_are_named_up_to_ten(run, root):
    (root / "many").write_text("x\n" * 12)
    assert "(lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)" in run("edit", path="many", old_string="x", new_string="y").text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\nthree\r\n", b"1\r\n2\r\nthree\r\n"),
        (b"\xef\xbb\xbfone\ntwo\n", b"\xef\xbb\xbf1\n2\n"),
        (b"one\ntwo\nthree\r\n", b"1\n2\nthree\r\n"),
        (b"one\ntwo", b"1\n2"),
    ],
)
def test_newlines_and_the_mark_in_front_stay_as_they_are(run, root, before, after):
    (root / "a.txt").write_bytes(before)
    assert not run("edit", path="a.txt", old_string="one\ntwo", new_string="1\n2").is_error
    assert (root / "a.txt").read_bytes() == after


def test_newlines_may_be_quoted_as_the_file_has_them(run, root):
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    assert not run("edit", path="a.txt", old_string="one\r\ntwo", new_string="1\r\n2").is_error
    assert (root / "a.txt").read_bytes() == b"1\r\n2\r\n"


@given(st.lists(st.sampled_from(["a", "\n", "\r\n", "\r", "\ufeff", "é"])).map("".join))
def test_a_text_goes_back_to_the_bytes_it_was_made_of(text):
    assert Text.decode(text.encode(), "x").encode("x", 1000) == text.encode()


@pytest.mark.parametrize("name", ["write", "edit", "apply_patch"])
def test_a_call_that_was_given_up_changes_nothing(run, root, name, monkeypatch):
    args = {
        "write": {"path": "a.txt", "content": "x"},
        "edit": {"path": "a.txt", "old_string": "one", "new_string": "1"},
        "apply_patch": {
            "patch": "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** Add File: b\n+x\n*** End Patch"
        },
    }[name]
    given_up = ToolContext()
    given_up.cancel.cancel()
    assert "nothing was changed" in run(name, ctx=given_up, **args).text
    late = ToolContext(cancel=Cancel())
    original = os.fsync

    def fsync(fd: int) -> None:
        late.cancel.cancel()
        original(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    assert "nothing was changed" in run(name, ctx=late, **args).text
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert sorted(os.listdir(root)) == ["a.txt", "src"]


def test_a_patch_that_only_removes_is_given_up_too(run, root):
    late = ToolContext()
    patch = "*** Begin Patch\n*** Add File: b\n+x\n*** Delete File: a.txt\n*** End Patch"
    seen = []

    class OnceMore(Cancel):
        @property
        def cancelled(self) -> bool:
            seen.append(1)
            return len(seen) > 2  # before all, and before the first change, not yet

    late = ToolContext(cancel=OnceMore())
    assert "nothing was changed" in run("apply_patch", ctx=late, patch=patch).text
    assert sorted(os.listdir(root)) == ["a.txt", "src"]


def test_no_file_stays_open(run, root, open_files):
    before = open_files()
    run("read", path="src/app.py")
    run("read", path="src/none.py")
    run("read", path="a.txt/none.py")
    run("write", path="src/deep/new.py", content="x")
    run("edit", path="src/app.py", old_string="no", new_string="yes")
    run("glob", pattern="**", bounds={"results": 1})
    assert open_files() == before
