"""New processes that cost little: one Python imports everything, and each job runs in a fork of it.

The fork happens where there is neither a thread nor a socket nor a file of ours; what a job knows it was told.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_IMPORTED_LATE = (
    *("tests.suspension.harness", "tests.suspension.crash"),
    *("toolnexus._io.sync_driver", "toolnexus._io.async_driver", "tenacity", "sqlite3"),
)


class Processes:
    """Runs each job in a process of its own: `run(function, name=value, ...)`, all of it JSON."""

    def __init__(self) -> None:
        self._master = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.suspension.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def close(self) -> None:
        self._master.communicate()

    def run(self, function: Callable[..., Any], **args: Any) -> Any:
        """What `function` gives in another process.

        Raises:
            AssertionError: It failed there; the traceback is on stderr.
        """
        status, value = self.try_to(function, **args)
        assert status == 0, f"{function.__name__} ended with status {status} in its process"
        return value

    def try_to(self, function: Callable[..., Any], **args: Any) -> tuple[int, Any]:
        """The exit status of the process, and what `function` gave if it came to its end."""
        assert self._master.stdin is not None
        assert self._master.stdout is not None
        job = {"module": function.__module__, "function": function.__name__, "args": args}
        self._master.stdin.write(json.dumps(job) + "\n")
        self._master.stdin.flush()
        value = None
        while (line := self._master.stdout.readline()).startswith("value "):
            value = json.loads(line.removeprefix("value "))
        return int(line), value


def main() -> None:
    for name in _IMPORTED_LATE:
        importlib.import_module(name)
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            _work(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201  # the protocol


def _work(job: dict[str, Any]) -> None:
    status = 1
    try:
        function = getattr(importlib.import_module(job["module"]), job["function"])
        print("value", json.dumps(function(**job["args"])), flush=True)  # noqa: T201  # the protocol
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
