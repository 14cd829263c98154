"""The escape table: each way out of the root that a path can try, by every tool, and what it is told."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from toolnexus import Builtins, Toolkit
from toolnexus.tools.builtin import root as root_module
from toolnexus.tools.builtin.refusal import RefusedError
from toolnexus.tools.builtin.root import Root, is_gits_own

SECRET = "the secret\n"

UP = "'..' in it"
ABSOLUTE = "absolute and outside of the root"
LINK = "is a link; links are not followed"
STRANGE = "no regular file, but a device, a pipe or a socket"
MISSING = "does not exist"
NO_FOLDER = "is no folder"

# (path, what is said); {top} is the folder above the root, which is called `desk`.
ESCAPES = {
    "parent": ("..", UP),
    "parent's file": ("../secret.txt", UP),
    "down and up": ("src/../../secret.txt", UP),
    "down and up, inside": ("src/../a.txt", UP),
    "far up": ("../" * 40 + "etc/passwd", UP),
    "dots and slashes": ("src/./..//../secret.txt", UP),
    "up at the end": ("src/..", UP),
    "absolute": ("/etc/passwd", ABSOLUTE),
    "absolute, outside": ("{top}/secret.txt", ABSOLUTE),
    "absolute, the parent": ("{top}", ABSOLUTE),
    "two slashes": ("//etc/passwd", ABSOLUTE),
    "two slashes, inside": ("/{top}/desk/a.txt", ABSOLUTE),
    "the file system's root": ("/", ABSOLUTE),
    "sibling with the same prefix": ("{top}/desk2/secret.txt", ABSOLUTE),
    "sibling, relative": ("../desk2/secret.txt", UP),
    "absolute, inside and up": ("{top}/desk/../secret.txt", UP),
    "the root in another case": ("{TOP}/WORK/a.txt", ABSOLUTE),
    "home": ("~/secret.txt", "begins with '~'"),
    "a user's home": ("~root/secret.txt", "begins with '~'"),
    "NUL": ("a.txt\0.png", "NUL in it"),
    "NUL first": ("\0", "NUL in it"),
    "NUL and up": ("\0/../secret.txt", "NUL in it"),
    "empty": ("", "the path is empty"),
    "half a character": ("\ud83d/secret.txt", "surrogates not allowed"),
    "surrogates for dots": ("\udc2e\udc2e/secret.txt", "surrogates not allowed"),
    "link to a file": ("link", LINK),
    "link to a file inside": ("inner-link", LINK),
    "link to a folder": ("way/secret.txt", LINK),
    "link to a folder, itself": ("way", LINK),
    "link to a folder, below": ("way/deep/secret.txt", LINK),
    "link upwards": ("src/up/secret.txt", LINK),
    "link to the root": ("src/home/a.txt", LINK),
    "link to a link": ("twice", LINK),
    "link to itself": ("loop", LINK),
    "link to nothing": ("dangling", LINK),
    "link to an absolute path": ("passwd", LINK),
    "link into /proc": ("proc/self/environ", LINK),
    "link in a missing place": ("way/../secret.txt", UP),
    "a FIFO": ("fifo", STRANGE),
    "a socket": ("socket", STRANGE),
    "a file as a folder": ("a.txt/x", NO_FOLDER),
    "a file as a folder, with a dot": ("a.txt/./x", NO_FOLDER),
    "too deep": ("d/" * 60 + "x", "deeper than 48 folders"),
}
# Other spellings of what is not there, or has another meaning elsewhere: names like any other.
NAMES = {
    "backslashes": "..\\..\\secret.txt",
    "encoded dots": "%2e%2e/secret.txt",
    "encoded slash": "..%2fsecret.txt",
    "full-width dots": "．．/secret.txt",
    "a dot leader": "‥/secret.txt",
    "a fraction slash": "..⁄secret.txt",
    "three dots": ".../secret.txt",
    "dot and space": ".. /secret.txt",
    "a variable": "$HOME/secret.txt",
    "a drive": "C:/secret.txt",
    "a URL": "file:///etc/passwd",
    "another case": "A.TXT",
}


def ways(path: str) -> dict[str, dict[str, Any]]:
    """The same path in every tool's hands."""
    patch = "*** Begin Patch\n{}\n*** End Patch"
    return {
        "read": {"path": path},
        "write": {"path": path, "content": "overwritten"},
        "edit": {"path": path, "old_string": "secret", "new_string": "changed"},
        "grep": {"path": path, "pattern": "secret"},
        "glob": {"path": path, "pattern": "*"},
        "apply_patch add": {"patch": patch.format(f"*** Add File: {path}\n+x")},
        "apply_patch delete": {"patch": patch.format(f"*** Delete File: {path}")},
        "apply_patch update": {"patch": patch.format(f"*** Update File: {path}\n-the secret\n+changed")},
        "apply_patch move": {"patch": patch.format(f"*** Update File: a.txt\n*** Move to: {path}")},
    }


@pytest.fixture
def around(root: Path) -> Path:
    """The folder above the root, with secrets in it, and the root full of traps."""
    top = root.parent
    (top / "desk2").mkdir()
    (top / "outside" / "deep").mkdir(parents=True)
    for place in (top, top / "desk2", top / "outside", top / "outside" / "deep"):
        (place / "secret.txt").write_text(SECRET)
    (root / "link").symlink_to("../secret.txt")
    (root / "inner-link").symlink_to("a.txt")
    (root / "way").symlink_to("../outside", target_is_directory=True)
    (root / "src" / "up").symlink_to("../..")
    (root / "src" / "home").symlink_to(root)
    (root / "twice").symlink_to("link")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("../new.txt")
    (root / "passwd").symlink_to("/etc/passwd")
    (root / "proc").symlink_to("/proc")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        here = os.getcwd()
        os.chdir(root)  # the address of a socket is short
        try:
            sock.bind("socket")
        finally:
            os.chdir(here)
    return top


def state(top: Path) -> dict[str, Any]:
    """Everything below, without following links."""
    found: dict[str, Any] = {}
    for place, folders, files in os.walk(top):
        for name in folders + files:
            path = Path(place) / name
            if path.is_symlink():
                found[str(path)] = os.readlink(path)
            else:
                found[str(path)] = path.read_bytes() if path.is_file() else path.stat().st_mode
    return found


@pytest.mark.parametrize(("path", "said"), ESCAPES.values(), ids=ESCAPES)
def test_no_path_leads_out_of_the_root(run, around, by, path, said):
    path = path.replace("{top}", str(around)).replace("{TOP}", str(around).upper())
    before = state(around)
    for way, args in ways(path).items():
        result = run(way.partition(" ")[0], **args)
        assert result.is_error, way
        # `glob` looks for folders only.
        assert (NO_FOLDER if way == "glob" and said == STRANGE else said) in result.text, way
        assert SECRET not in result.text, way
        assert state(around) == before, way


@pytest.mark.parametrize("path", NAMES.values(), ids=NAMES)
def test_other_spellings_are_names_like_any_other(run, around, by, path):
    result = run("read", path=path)
    assert result.is_error
    assert MISSING in result.text
    before = state(around)
    assert not run("write", path=path, content="mine").is_error
    after = state(around)
    new = [name for name in after if name not in before]
    assert new
    assert all(name.startswith(f"{around}/desk/") for name in new)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", ".//a.txt", "{top}/desk/a.txt", "{top}/./desk//a.txt"])
def test_paths_to_what_is_inside_are_taken(run, around, by, path):
    result = run("read", path=path.replace("{top}", str(around)))
    assert not result.is_error
    assert "three" in result.text


def test_the_message_does_not_say_where_the_root_is(run, around, by):
    for path in ("nothing", "link", "src", "fifo"):
        assert str(around) not in run("read", path=path).text


def test_a_search_passes_links_by(run, around, by):
    assert run("grep", pattern="the secret").text.startswith("no line matches\n[left out: 'fifo' is no regular file")
    listed = run("glob", pattern="**").text.split("\n")
    assert {"link@", "way@", "src/up@", "src/home@", "loop@", "dangling@", "proc@", "src/", "a.txt"} <= {*listed}
    assert not [line for line in listed if "secret" in line]


@pytest.mark.parametrize("name", ["null", "zero", "tty", "random"])
def test_devices_are_not_read(run, name):
    assert STRANGE in run("read", within="/dev", path=name).text


@pytest.mark.parametrize("way", ["read", "edit", "apply_patch update", "apply_patch delete", "grep"])
def test_a_hard_link_is_not_read_unless_that_is_allowed(run, around, by, way):
    os.link(around / "secret.txt", around / "desk" / "hard")
    name, args = way.partition(" ")[0], ways("hard")[way]
    result = run(name, **args)
    assert result.is_error
    assert "is a hard link; its other name may be outside" in result.text
    assert not run(name, bounds={"hard_links": True}, **args).is_error
    assert (around / "secret.txt").read_text() == SECRET, "a change must cut the link off"


def test_writing_to_a_hard_link_leaves_its_other_name_alone(run, around, by):
    os.link(around / "secret.txt", around / "desk" / "hard")
    assert not run("write", path="hard", content="mine").is_error
    assert (around / "desk" / "hard").read_text() == "mine"
    assert (around / "secret.txt").read_text() == SECRET


GIT = [".git", ".GIT", ".Git", ".g\u200cit", ".git ", ".git.", "git~1", "GIT~1", "．git"]


@pytest.mark.parametrize("name", GIT)
@pytest.mark.parametrize("path", ["{}/hooks/pre-commit", "src/{}/config", "{}"])
def test_what_git_runs_is_not_written(run, root, by, name, path):
    before = state(root)
    for way, args in ways(path.format(name)).items():
        if way in ("write", "apply_patch add", "apply_patch move"):
            result = run(way.partition(" ")[0], **args)
            assert result.is_error
            assert "is git's own" in result.text or way.startswith("apply_patch"), "a patch strips spaces"
    assert not [new for new in state(root) if new not in before and is_gits_own(Path(new).name)]


@pytest.mark.parametrize("name", [".github", ".gitignore", "git", "x.git", ".gitmodules"])
def test_what_only_looks_like_gits_own_is_written(run, root, name):
    assert not run("write", path=f"{name}/x", content="x").is_error


@pytest.mark.parametrize(
    "name",
    [
        "CON",
        "nul",
        "com1",
        "LPT9.txt",
        "aux .txt",
        "a.txt.",
        "a.txt ",
        "a.txt:stream",
        "a?",
        "a*",
        "a|b",
        'a"',
        "a\x01",
    ],
)
def test_names_that_windows_takes_for_something_else_are_refused_there(root, monkeypatch, name):
    assert Root(root).parts(name) == (name,)
    monkeypatch.setattr(root_module, "_ON_WINDOWS", True)
    with pytest.raises(RefusedError, match="Windows takes for something else"):
        Root(root).parts(f"src/{name}")
    assert Root(root).parts("console/comma.txt") == ("console", "comma.txt")


def test_the_root_is_found_once(run, tmp_path, root, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text(SECRET)
    (tmp_path / "link").symlink_to("desk")
    monkeypatch.chdir(tmp_path)
    kits = [Toolkit(builtins=Builtins(path, ["read"])) for path in ("link", "desk", "./desk/src/..")]
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("other")
    monkeypatch.chdir(other)
    for kit in kits:
        assert "three" in run("read", within=kit, path="a.txt").text


def test_a_root_that_was_replaced_by_a_link_is_not_followed(run, tmp_path, root, by):
    kit = Toolkit(builtins=Builtins(root, ["read"]))
    root.rename(tmp_path / "moved")
    root.symlink_to("moved")
    result = run("read", within=kit, path="a.txt")
    assert result.is_error
    assert "the root cannot be opened any more" in result.text
