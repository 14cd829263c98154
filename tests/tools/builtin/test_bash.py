"""Commands: their output, their bounds, and that nothing of them is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server import PATIENCE_S
from toolnexus import Builtins, Cancel, ConfigurationError, ToolContext, Toolkit
from toolnexus.tools.builtin import child, shell

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="this platform has no process groups")

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="strays are found through /proc")


def running(pid: int) -> bool:
    """Whether `ps` knows it, a zombie that only its adopter can reap aside."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


def gone(pid: int) -> bool:
    """Whether it ends; one that was killed may take a moment."""
    until = time.monotonic() + PATIENCE_S
    while running(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def written(place: Path, count: int = 1) -> list[int]:
    """The numbers that a command writes, once they are all there."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if place.exists() and len(pids := place.read_text().split()) >= count:
            return [int(pid) for pid in pids]
        time.sleep(0.005)
    raise AssertionError(f"the command did not write {place}")


def test_output_and_errors_come_in_order_from_the_root(run, root):
    result = run("bash", command="pwd; echo one; echo two >&2; echo three")
    assert result.text == f"{root}\none\ntwo\nthree\n"
    assert (result.is_error, result.metadata) == (False, {"exit_status": 0})
    assert run("bash", command="true").text == "[no output]"
    assert run("bash", command="printf x").text == "x\n"
    assert run("bash", command="printf '\\xff'").text == "\ufffd\n"


def test_a_failed_command_says_how_it_ended(run):
    result = run("bash", command="echo out; exit 3")
    assert (result.text, result.is_error, result.metadata) == ("out\n[exit status 3]", True, {"exit_status": 3})
    assert run("bash", command="kill -SEGV $$").text == "[ended by signal 11]"
    assert "NUL" in run("bash", command="echo \0").text
    assert run("bash", command="-x").text.endswith("[exit status 127]"), "a command is never an option"
    assert "bash cannot be started: Argument list too long" in run("bash", command="#" * 3_000_000).text


def test_there_is_no_input_and_no_terminal(run):
    assert run("bash", command="read line; echo $?; cat; test -t 0 || echo none; : </dev/tty").text.startswith(
        "1\nnone\n"
    )


def test_the_environment_is_small(run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    names = run("bash", command="env", bounds={"env": {"MINE": "1"}}).text
    found = {line.partition("=")[0] for line in names.splitlines()}
    assert {"PATH", "LANG", "MINE"} <= found
    assert found <= {*shell._INHERITED, "MINE", "TOOLNEXUS_CALL", "PWD", "OLDPWD", "SHLVL", "_"}
    assert "sk-secret" not in names


def test_settings_of_the_user_are_not_read(run, root, monkeypatch):
    (root / ".bashrc").write_text("echo from bashrc\n")
    (root / ".bash_profile").write_text("echo from profile\n")
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("BASH_ENV", str(root / ".bashrc"))
    assert run("bash", command="echo $HOME").text == f"{root}\n"


def test_output_is_bounded_and_keeps_its_ends(run):
    text = run("bash", command="seq 100000", bounds={"output_bytes": 40}).text
    assert text == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n[588855 bytes left out]\n\n99998\n99999\n100000\n"
    assert run("bash", command="seq 9", bounds={"output_bytes": 18}).text == "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    flood = run("bash", command="head -c 50000000 /dev/zero", bounds={"output_bytes": 1000}).text
    assert "[49999000 bytes left out]" in flood
    assert len(flood) < 1100


@pytest.mark.parametrize("asked", [None, 60])
def test_a_command_is_killed_at_its_time_with_all_it_started(run, root, asked):
    began = time.monotonic()
    args = {} if asked is None else {"timeout": asked}
    command = "trap '' TERM INT HUP; echo before; sleep 100 & (trap '' TERM; echo $$ $! $BASHPID > pids; sleep 100)"
    result = run("bash", command=command, bounds={"bash_timeout": 0.7}, **args)
    assert time.monotonic() - began < 5
    assert result.is_error
    assert result.text == "before\n[killed: it took longer than 0.7 s]"
    assert all(map(gone, written(root / "pids", 3)))


def test_a_model_may_ask_for_less_time(run):
    assert "longer than 0.2 s" in run("bash", command="sleep 100", timeout=0.2).text


def test_what_runs_in_the_background_ends_with_the_command(run, root):
    result = run("bash", command="sleep 100 & echo $! > pids; echo done")
    assert result.text == "done\n"
    assert all(map(gone, written(root / "pids")))


@needs_proc
@pytest.mark.parametrize(
    "command",
    [
        "setsid sleep 100 & echo $! > pids",
        "setsid bash -c 'echo $$ > pids; exec sleep 100' > /dev/null 2>&1 < /dev/null &",
        "(setsid bash -c 'setsid sleep 100 & echo $! > pids' &) ; sleep 0.1",
        "nohup setsid bash -c 'trap \"\" HUP TERM; echo $$ > pids; while :; do sleep 1; done' > /dev/null 2>&1 &",
    ],
)
def test_what_leaves_the_process_group_is_found(run, root, command):
    assert not run("bash", command=f"{command}\nuntil test -s pids; do sleep 0.01; done; echo done").is_error
    assert all(map(gone, written(root / "pids")))


@needs_proc
def test_what_gets_away_does_not_hold_the_call_up(run, root, monkeypatch):
    monkeypatch.setattr(shell, "_DRAIN_S", 0.05)
    command = (
        "setsid env -i sleep 100 & echo $! > pids; until ps -o args= -p $! | grep -q '^sleep'; do :; done; echo done"
    )
    result = run("bash", command=command)
    pid = written(root / "pids")[0]
    try:
        assert not result.is_error
        assert running(pid), "a process without our mark is not found; should it be, say so in Child"
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_call_inside_a_call_is_found_by_both(monkeypatch):
    monkeypatch.setenv("TOOLNEXUS_CALL", ":outer")
    with child.Child(["env"], cwd=None, env={}, cancel=Cancel(), timeout=60) as started, started.stdout:
        assert started.stdout.read().startswith(b"TOOLNEXUS_CALL=:outer:")


def given_up(run: Callable[..., object], root: Path, ctx: ToolContext) -> tuple[object, list[int]]:
    told: list[object] = []
    command = "sleep 100 & echo $$ $! > pids; sleep 100"
    thread = threading.Thread(target=lambda: told.append(run("bash", ctx=ctx, command=command)))
    thread.start()
    pids = written(root / "pids", 2)
    ctx.cancel.cancel()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    return told[0], pids


def test_a_call_that_is_given_up_leaves_nothing(run, root):
    result, pids = given_up(run, root, ToolContext())
    assert all(map(gone, pids))
    assert "[killed: the run is over]" in getattr(result, "text", "")


def test_a_call_that_was_given_up_before_it_began_is_killed_at_once(run, root):
    ctx = ToolContext()
    ctx.cancel.cancel()
    assert "[killed: the run is over]" in run("bash", ctx=ctx, command="sleep 100").text


def test_no_thread_and_no_file_is_left(run, root, open_files):
    before, files = threading.active_count(), open_files()
    for command in ("echo x", "sleep 100 & echo x", "exit 1"):
        run("bash", command=command)
    run("bash", command="sleep 100", timeout=0.05)
    assert threading.active_count() <= before  # those of earlier tests may end meanwhile
    assert open_files() == files


def test_a_kill_after_the_end_hits_nobody(monkeypatch):
    killed: list[int] = []
    with child.Child(["true"], cwd=None, env=dict(os.environ), cancel=Cancel(), timeout=60) as started, started.stdout:
        assert started.wait() == 0
        monkeypatch.setattr(os, "killpg", lambda pid, _: killed.append(pid))
        started._end("timeout")
        assert started.wait() == 0
    assert killed == []
    assert started.ended_by is None


def test_without_bash_the_toolkit_says_so(root, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    builtins = Builtins(root, ["bash"])
    with pytest.raises(ConfigurationError, match="needs bash on the PATH"):
        Toolkit(builtins=builtins)
