"""The tool that runs commands: `bash`."""

from __future__ import annotations

import os
import shutil
import threading
from collections import deque
from collections.abc import Mapping
from typing import IO, Annotated

from pydantic import Field

from ...errors import ConfigurationError
from ...tool import ToolContext, ToolResult
from .child import Child
from .refusal import RefusedError, refusing
from .root import Root

_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""No key, token or address of a proxy is among them."""
_DRAIN_S = 2.0
"""How long output is waited for after the end; only a process that got away can still hold the pipe open."""


class Shell:
    """Runs commands in a root, with the rights of this process: the root is where they begin, no bound for them."""

    def __init__(self, root: Root, *, env: Mapping[str, str], seconds: float, output_bytes: int) -> None:
        """Find bash.

        Raises:
            ConfigurationError: There is none, or the platform has no process groups to end it by.
        """
        bash = shutil.which("bash") if hasattr(os, "killpg") else None
        if bash is None:
            raise ConfigurationError("builtins: 'bash' needs bash on the PATH, and a system that is not Windows")
        self._command = [bash, "--noprofile", "--norc", "-c", "--"]
        self._root = root
        self._env = {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **env}
        self._seconds = seconds
        self._output_bytes = output_bytes

    @refusing
    def bash(
        self, command: str, ctx: ToolContext, timeout: Annotated[float, Field(gt=0)] | None = None
    ) -> str | ToolResult:
        """Run a bash command in the root folder and give its output, standard error included.

        There is no input and no terminal. When the command ends, is out of time or is given up, all it started is
        ended too; nothing goes on in the background.

        Args:
            command: What bash runs.
            timeout: Seconds it may take, if less than is allowed anyway.
        """
        if "\0" in command:
            raise RefusedError("the command has NUL in it")
        seconds = self._seconds if timeout is None else min(timeout, self._seconds)
        output = _Output(self._output_bytes)
        try:
            child = Child(
                [*self._command, command], cwd=self._root.place, env=self._env, cancel=ctx.cancel, timeout=seconds
            )
        except OSError as error:
            raise RefusedError(f"bash cannot be started: {error.strerror}") from error
        reader = threading.Thread(target=output.drain, args=(child.stdout,), name="toolnexus-bash", daemon=True)
        reader.start()
        with child:
            status = child.wait()
        reader.join(_DRAIN_S)
        text = output.text()
        if child.ended_by == "timeout":
            return ToolResult(f"{text}[killed: it took longer than {seconds:g} s]", is_error=True)
        if child.ended_by == "cancel":
            return ToolResult(f"{text}[killed: the run is over]", is_error=True)
        if status:
            why = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
            return ToolResult(f"{text}[{why}]", is_error=True, metadata={"exit_status": status})
        return ToolResult(text or "[no output]", metadata={"exit_status": status})


class _Output:
    """The first and the last bytes of an output, whatever comes between."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._head_bytes = limit // 2
        self._tail_bytes = limit - self._head_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self._left_out = 0

    def drain(self, pipe: IO[bytes]) -> None:
        """Read until nobody can write any more."""
        with pipe:
            while data := os.read(pipe.fileno(), 1 << 16):
                self.add(data)

    def add(self, data: bytes) -> None:
        with self._lock:
            room = self._head_bytes - len(self._head)
            self._head += data[:room]
            if rest := data[room:]:
                self._tail.append(rest)
                self._kept += len(rest)
            # Whole pieces only, so that each byte is moved once; `text` cuts the rest.
            while self._tail and self._kept - len(self._tail[0]) >= self._tail_bytes:
                dropped = len(self._tail.popleft())
                self._kept -= dropped
                self._left_out += dropped

    def text(self) -> str:
        """What is kept, as text that ends with a newline unless it is empty."""
        with self._lock:
            head, tail = bytes(self._head), b"".join(self._tail)
            left_out = self._left_out + max(0, len(tail) - self._tail_bytes)
            tail = tail[-self._tail_bytes :]
        if left_out:
            text = f"{head.decode('utf-8', 'replace')}\n[{left_out} bytes left out]\n{tail.decode('utf-8', 'replace')}"
        else:
            text = (head + tail).decode("utf-8", "replace")
        return text if not text or text.endswith("\n") else f"{text}\n"
