"""Looking through a tree: patterns for paths, regular expressions for lines, and what bounds them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server import PATIENCE_S
from toolnexus import ToolContext
from toolnexus.tools.builtin import matcher, matching, search
from toolnexus.tools.builtin.child import Child
from toolnexus.tools.builtin.folder import Folder
from toolnexus.tools.builtin.globs import Glob
from toolnexus.tools.builtin.refusal import RefusedError

CATASTROPHE = "(a+)+$"
BAIT = "a" * 40 + "!"


def matches(pattern: str, path: str) -> bool:
    glob = Glob(pattern)
    places = glob.start
    for name in path.split("/"):
        places = glob.step(places, name)
    return glob.accepts(places)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "src/deep/a.py", True),
        ("src/**", "src/a.py", True),
        ("src/**", "src", False),
        ("src/**/a.py", "src/a.py", True),
        ("src/**/a.py", "src/x/y/a.py", True),
        ("**", "a/b", True),
        ("**/b/**/d", "a/b/c/d", True),
        ("**/**/d", "d", True),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.js", False),
        ("{a,b/{c,d}}/x", "b/d/x", True),
        ("{a}", "{a}", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("A.txt", "a.txt", False),
        ("*", ".hidden", False),
        ("?hidden", ".hidden", False),
        (".*", ".hidden", True),
        ("**", ".git/config", False),
        ("**/x", ".hidden/x", False),
        (".hidden/*", ".hidden/x", True),
        ("./a//b/", "a/b", True),
        ("a*b*c", "a" + "b" * 200, False),
        ("a.b", "axb", False),
    ],
)
def test_a_pattern_stands_for_paths(pattern, path, expected):
    assert matches(pattern, path) is expected


names = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))


@given(
    st.lists(st.sampled_from(["**", "*", "a*", "?b", "a", ".*"]), min_size=1, max_size=5), st.lists(names, max_size=5)
)
def test_patterns_agree_with_a_search_by_hand(segments, path):
    def found(segments: list[str], path: list[str]) -> bool:
        if not segments:
            return not path
        first, *rest = segments
        if first == "**" and rest:
            return found(rest, path) or (bool(path) and path[0][0] != "." and found(segments, path[1:]))
        if first == "**":
            return found(["**", "*"], path)
        if not path or (path[0][0] == "." and first[0] != "."):
            return False
        regex = re.escape(first).replace(r"\*", ".*").replace(r"\?", ".")
        return bool(re.fullmatch(regex, path[0])) and found(rest, path[1:])

    if path:
        assert matches("/".join(segments), "/".join(path)) == found(segments, path)


@pytest.mark.parametrize("pattern", ["", "/", "/etc/*", "../*", "a/../b", ".", "a\0b", "{../a,b}", "x" * 1001])
def test_a_pattern_that_leads_elsewhere_is_refused(run, pattern):
    assert run("glob", pattern=pattern).is_error
    if len(pattern) > 1:
        assert run("grep", pattern="x", glob=pattern).is_error or "/" not in pattern


def test_braces_are_bounded():
    with pytest.raises(RefusedError, match="more than 64 alternatives"):
        Glob("{a,b}" * 30)


def test_many_stars_take_no_time(root, run):
    (root / ("a" * 250)).touch()
    began = time.monotonic()
    assert run("glob", pattern="*a" * 100 + "b").text == "no path matches"
    assert run("glob", pattern="**/" * 300 + "b").text == "no path matches"
    assert time.monotonic() - began < 5


def test_paths_are_listed_by_name_from_the_root(run, root, by):
    (root / ".hidden").touch()
    (root / ".git").mkdir()
    (root / ".git" / "config").touch()
    assert run("glob", pattern="**").text.split("\n") == ["a.txt", "src/", "src/app.py"]
    assert run("glob", pattern="*.py", path="src").text == "src/app.py"
    assert run("glob", pattern="{.*,*}").text.split("\n") == [".git/", ".hidden", "a.txt", "src/"]
    assert run("glob", pattern=".git/*").text == "no path matches"
    assert run("glob", pattern="*.rs").text == "no path matches"


def test_a_listing_is_bounded(run, root, monkeypatch):
    for n in range(6):
        (root / f"f{n}").touch()
    listed = run("glob", pattern="f*", bounds={"results": 3}).text.split("\n")
    assert listed == ["f0", "f1", "f2", "[stopped: there are more than 3; use a narrower pattern]"]
    assert "stopped" not in run("glob", pattern="f*", bounds={"results": 6}).text
    monkeypatch.setattr(search, "_ENTRIES", 4)
    assert "[stopped: looked at 4 names" in run("glob", pattern="**").text
    assert "[stopped: looked at 4 names" in run("grep", pattern="x").text


def test_a_search_ends_at_its_time_and_when_it_is_given_up(run, root):
    assert "took longer than 1e-09 s" in run("glob", pattern="**", bounds={"search_timeout": 1e-9}).text
    ctx = ToolContext()
    ctx.cancel.cancel()
    assert "[stopped: the run is over]" in run("glob", pattern="**", ctx=ctx).text
    assert "[stopped: the run is over]" in run("grep", pattern="x", ctx=ctx).text


def test_depth_is_bounded_and_what_is_left_out_is_said(run, root):
    deep = root
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert run("glob", pattern="**/d").text.split("\n")[-1].endswith("is deeper than 48 folders]")


def test_what_cannot_be_read_is_left_out_and_named(run, root, monkeypatch):
    for n in range(8):
        (root / f"big{n}").write_text("x" * 2000)
    lines = run("grep", pattern="one", bounds={"file_bytes": 1000}).text.split("\n")
    assert lines[0] == "a.txt:1: one"
    assert lines[1] == "[left out: 'big0' is larger than 1000 bytes]"
    assert lines[-1] == "[left out: more of that kind]"
    assert len(lines) == 7


def test_a_folder_that_vanishes_is_left_out(run, root, by, monkeypatch):
    def gone(*_: object) -> object:
        raise RefusedError("'src' does not exist")

    monkeypatch.setattr(Folder, "folder", gone)
    assert run("glob", pattern="**").text.split("\n") == ["a.txt", "src/", "[left out: 'src' does not exist]"]


def test_lines_that_match_are_shown_with_file_and_number(run, root):
    (root / "b.bin").write_bytes(b"\0one")
    (root / "late.bin").write_bytes(b"x" * 9000 + b"\0 one more\n")
    (root / "crlf.txt").write_bytes(b"zero\r\none\r\n")
    (root / "latin.txt").write_bytes(b"\xe9 one\n")
    (root / ".hidden").write_text("one")
    lines = run("grep", pattern=r"^.?\s?one$|return").text.split("\n")
    assert lines == ["a.txt:1: one", "crlf.txt:2: one", "latin.txt:1: \ufffd one", "src/app.py:2:     return 1"]
    assert run("grep", pattern="ONE", path="a.txt", ignore_case=True).text == "a.txt:1: one"
    assert run("grep", pattern="ONE").text == "no line matches"
    assert run("grep", pattern="one", path=".hidden").text == ".hidden:1: one"


def test_files_are_chosen_by_a_pattern(run):
    assert run("grep", pattern=".", glob="*.py").text.split("\n")[0] == "src/app.py:1: def run():"
    assert run("grep", pattern="def", glob="src/*.py").text == "src/app.py:1: def run():"
    assert run("grep", pattern="def", path="src", glob="*.py").text == "src/app.py:1: def run():"
    assert run("grep", pattern="def", glob="*.txt").text == "no line matches"


def test_matches_are_bounded(run, root):
    (root / "many").write_text("x\n" * 10)
    lines = run("grep", pattern="x", path="many", bounds={"results": 4}).text.split("\n")
    assert lines[3:] == ["many:4: x", "[stopped: there are more than 4; use a narrower pattern, path or glob]"]
    assert len(run("grep", pattern="x", path="many", bounds={"results": 10}).text.split("\n")) == 10


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300 + "…"),
        ("." * 500 + "x", "…" + "." * 100 + "x"),
        ("." * 500 + "x" + "." * 500, "…" + "." * 100 + "x" + "." * 199 + "…"),
    ],
)
def test_a_long_line_is_shown_round_its_match(line, shown):
    assert matching.matches(re.compile("x"), line, 5) == [(1, shown)]


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "[z-a]", "(?P<n>a)(?P<n>b)", "*"])
def test_a_pattern_that_is_none_is_refused(run, pattern):
    result = run("grep", pattern=pattern)
    assert result.is_error
    assert "no regular expression of Python's" in result.text


def children() -> set[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return {int(line) for line in listed.stdout.split()}


def running(pid: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(listed.stdout.strip())


@pytest.fixture
def pids(monkeypatch):
    """The children that a test starts."""
    found: list[int] = []
    original = Child.__init__

    def init(self, *args, **options):
        original(self, *args, **options)
        found.append(self._process.pid)

    monkeypatch.setattr(Child, "__init__", init)
    return found


def test_a_catastrophic_pattern_is_stopped_at_the_time_bound(run, root, pids):
    (root / "a.txt").write_text(f"first a\n{BAIT}\n")
    began = time.monotonic()
    text = run("grep", pattern=CATASTROPHE, bounds={"search_timeout": 0.5}).text
    assert 0.5 <= time.monotonic() - began < 5
    assert "it took longer than 0.5 s, and was at 'a.txt'; use a simpler pattern" in text
    assert pids
    assert not any(map(running, pids))


def test_a_catastrophic_pattern_holds_up_nobody_and_ends_with_the_run(run, root, pids):
    (root / "a.txt").write_text(f"{BAIT}\n")
    ctx, told = ToolContext(), []
    thread = threading.Thread(target=lambda: told.append(run("grep", pattern=CATASTROPHE, ctx=ctx).text))
    thread.start()
    while not pids:  # this thread gets its turn: the interpreter's lock is free
        time.sleep(0.001)
    ctx.cancel.cancel()
    thread.join(PATIENCE_S)
    assert told
    assert "the run is over" in told[0]
    assert not any(map(running, pids))


def test_the_matcher_is_gone_after_an_ordinary_search(run, pids):
    assert run("grep", pattern="one").text == "a.txt:1: one"
    assert run("grep", pattern="(").is_error
    assert len(pids) == 2
    assert not any(map(running, pids))


def test_a_matcher_that_dies_is_an_answer(run, root, monkeypatch, tmp_path):
    (root / "a.txt").write_text("x" * 1_000_000)  # more than a pipe holds
    program = tmp_path / "dies.py"
    program.write_text("import sys; sys.exit(3)")
    monkeypatch.setattr(matcher, "_PROGRAM", program)
    assert "needs too much time or memory, at the pattern" in run("grep", pattern="x").text
    program.write_text("import sys; sys.stdin.readline(); print('null', flush=True); sys.exit(3)")
    assert "needs too much time or memory, at 'a.txt'" in run("grep", pattern="x").text


def test_without_an_interpreter_grep_says_so(run, monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    assert "this program has none" in run("grep", pattern="x").text


def test_the_matcher_takes_no_environment_but_what_an_interpreter_needs(run, monkeypatch):
    seen: list[object] = []
    original = Child.__init__

    def init(self, command, *, env, **options):
        seen.extend([dict(env), command[1:3]])
        original(self, command, env=env, **options)

    monkeypatch.setattr(Child, "__init__", init)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    run("grep", pattern="x")
    assert seen == [{"LD_LIBRARY_PATH": ""}, ["-I", "-S"]], "nor modules from the program's own folder"


def test_the_program_answers_on_its_own(tmp_path: Path, monkeypatch):
    """What `grep` talks to, run in this process so that its lines are seen to be used."""
    source, target = tmp_path / "in", tmp_path / "out"
    text = b"a\nb\nb\n"
    head = len(text).to_bytes(4, "big") + (1).to_bytes(4, "big")
    wanted = b'{"pattern": "b", "ignore_case": false, "seconds": 1}\n'
    bounds: list[float] = []
    monkeypatch.setattr(matching, "_bound", bounds.append)
    for message, answer in (
        (wanted + head + text, b'null\n[[2, "b"]]\n'),
        (wanted.replace(b'"b"', b'"("'), b'"missing ), unterminated subpattern at position 0"\n'),
    ):
        source.write_bytes(message)
        with source.open("rb") as reading, target.open("wb") as writing:
            matching.serve(reading, writing)
        assert target.read_bytes() == answer
    assert bounds == [1, 1]


def test_the_program_bounds_itself(monkeypatch):
    resource = pytest.importorskip("resource")
    hard = {resource.RLIMIT_CPU: resource.RLIM_INFINITY, resource.RLIMIT_AS: 1000}
    told: list[object] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (hard[which], hard[which]))
    monkeypatch.setattr(resource, "setrlimit", lambda *bounds: told.append(bounds))
    matching._bound(7.5)
    assert told == [(resource.RLIMIT_CPU, (9, resource.RLIM_INFINITY))], "a narrower bound is left alone"
    monkeypatch.setitem(sys.modules, "resource", None)
    matching._bound(7.5)
    assert len(told) == 1
