"""Links that come while a path is walked: by chance in a race, and at each moment on purpose."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolnexus.tools.builtin import folder

SECRET = "the secret"
SWAPS = 400

pytestmark = pytest.mark.skipif(not folder.HAS_DIR_FD, reason="this platform cannot hold a folder open")


@pytest.fixture
def outside(root: Path) -> Path:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file.txt").write_text(SECRET)
    (root / "sub").mkdir()
    (root / "sub" / "file.txt").write_text("inside")
    (root / "file.txt").write_text("inside")
    return outside


def swap_folder(root: Path) -> None:
    """Put a link in the place of `sub`, and the folder back; a writer may make a folder wherever there is a gap."""
    place, aside = root / "sub", root / ".aside"
    place.rename(aside)
    insist(lambda: place.symlink_to("../outside"), place)
    place.unlink()
    insist(lambda: aside.rename(place), place)


def swap_file(root: Path) -> None:
    """Put a link in the place of `file.txt`, and a file back, each at one stroke."""
    (root / ".link").symlink_to("../outside/file.txt")
    (root / ".link").replace(root / "file.txt")
    (root / ".file").write_text("inside")
    (root / ".file").replace(root / "file.txt")


def insist(act: Callable[[], object], place: Path) -> None:
    while True:
        try:
            act()
            return
        except OSError:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def swapping(swap: Callable[[Path], None], root: Path) -> Iterator[Callable[[], bool]]:
    """Another thread swaps all the time; gives whether it has not done so often enough yet."""
    over, count, began = threading.Event(), 0, time.monotonic()

    def work() -> None:
        nonlocal count
        while not over.is_set():
            swap(root)
            count += 1

    def goes_on() -> bool:
        assert time.monotonic() - began < 30, f"only {count} swaps, or only one outcome"
        return count < SWAPS

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield goes_on
    finally:
        over.set()
        thread.join()


RACES = {"folder": (swap_folder, "sub/file.txt"), "file": (swap_file, "file.txt")}


@pytest.mark.parametrize(("swap", "path"), RACES.values(), ids=RACES)
def test_a_reader_never_sees_behind_a_link_that_comes_and_goes(run, root, outside, swap, path):
    seen: set[str] = set()
    with swapping(swap, root) as goes_on:
        while goes_on() or seen != {"inside", "refused"}:
            result = run("read", path=path)
            assert SECRET not in result.text
            seen.add("refused" if result.is_error else "inside")


@pytest.mark.parametrize(("swap", "path"), RACES.values(), ids=RACES)
def test_a_writer_never_writes_behind_a_link_that_comes_and_goes(run, root, outside, swap, path):
    seen: set[bool] = set()
    with swapping(swap, root) as goes_on:
        while goes_on() or seen != {True, False}:
            seen.add(run("write", path=path, content="mine").is_error)
            assert os.listdir(outside) == ["file.txt"]
            assert (outside / "file.txt").read_text() == SECRET


def between(monkeypatch: pytest.MonkeyPatch, name: str, number: int, happens: Callable[[], object]) -> None:
    """Let something happen right before the `number`-th call of `os.<name>` that the folders make."""
    original, calls = getattr(os, name), 0

    def call(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            happens()
        return original(*args, **options)

    monkeypatch.setattr(os, name, call)


def replace_by_link(place: Path, target: str) -> None:
    place.rename(place.with_name("was-here"))
    place.symlink_to(target)


# Opened one after the other: the root (also when it is found), `sub`, and the file.
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_folder_swapped_before_any_opening_is_not_followed(run, root, outside, monkeypatch, number):
    between(monkeypatch, "open", number, lambda: replace_by_link(root / "sub", "../outside"))
    result = run("read", path="sub/file.txt")
    assert result.is_error
    assert "links are not followed" in result.text


def test_a_folder_swapped_once_it_is_open_changes_nothing(run, root, outside, monkeypatch):
    between(monkeypatch, "open", 4, lambda: replace_by_link(root / "sub", "../outside"))
    assert run("read", path="sub/file.txt").text == "     1\tinside"


def test_a_file_swapped_before_it_is_opened_is_not_followed(run, root, outside, monkeypatch):
    between(monkeypatch, "open", 3, lambda: replace_by_link(root / "file.txt", "../outside/file.txt"))
    assert "links are not followed" in run("read", path="file.txt").text


@pytest.mark.parametrize("by", ["paths"], indirect=True)
def test_a_file_that_another_one_replaces_before_it_is_opened_is_not_read(by, run, root, outside, monkeypatch):
    between(monkeypatch, "open", 1, lambda: replace_by_link(root / "file.txt", "../outside/file.txt"))
    monkeypatch.setattr(folder, "_CAREFULLY", 0)  # as where there is no O_NOFOLLOW
    result = run("read", path="file.txt")
    assert "was replaced while it was opened" in result.text


@pytest.mark.parametrize("target", ["../outside/file.txt", "../outside/new.txt"])
def test_a_link_in_the_place_of_a_file_to_write_is_not_followed(run, root, outside, monkeypatch, target):
    between(monkeypatch, "fsync", 1, lambda: replace_by_link(root / "file.txt", target))
    result = run("write", path="file.txt", content="mine")
    assert "links are not followed" in result.text
    assert os.listdir(outside) == ["file.txt"]
    assert (outside / "file.txt").read_text() == SECRET


@pytest.mark.parametrize("target", ["../../outside/file.txt", "../../outside/new.txt"])
def test_a_link_in_the_place_of_a_file_at_the_last_moment_is_written_over(run, root, outside, monkeypatch, target):
    between(monkeypatch, "replace", 1, lambda: replace_by_link(root / "sub" / "file.txt", target))
    assert not run("write", path="sub/file.txt", content="mine").is_error
    assert (root / "sub" / "file.txt").read_text() == "mine"
    assert not (root / "sub" / "file.txt").is_symlink()
    assert os.listdir(outside) == ["file.txt"]
    assert (outside / "file.txt").read_text() == SECRET


def test_a_fifo_in_the_place_of_a_file_does_not_hold_the_reader_up(run, root, outside, monkeypatch):
    def swap() -> None:
        (root / "file.txt").unlink()
        os.mkfifo(root / "file.txt")

    between(monkeypatch, "open", 3, swap)
    assert "no regular file" in run("read", path="file.txt").text
