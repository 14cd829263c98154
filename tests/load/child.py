"""Runs a client in a process of its own and says what that cost: `python -m tests.load.child KIND URL [ARGUMENT ...]`.

The server stays in the process of the tests, so that its memory is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import queue
import resource
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.harness import MODEL, Client, new_client
from toolnexus import AsyncClient, StreamEvent, SyncClient, Toolkit, ToolnexusError, define_tool

ROOT = Path(__file__).parents[2]
FULL = bool(os.environ.get("TOOLNEXUS_LOAD"))
"""Whether to take the numbers that we publish, and not a sample of them."""


def _in_flight_mib() -> float:
    """What the network takes although nobody reads it: the buffers of two sockets, as large as they may grow here."""
    limits = (Path("/proc/sys/net/ipv4", name) for name in ("tcp_rmem", "tcp_wmem"))
    return 2 + sum(int(limit.read_text().split()[2]) for limit in limits if limit.exists()) / 2**20


IN_FLIGHT_MIB = _in_flight_mib()


def figure(request: pytest.FixtureRequest, text: str) -> None:
    """What a test measured, for who asks for it: `pytest -rP`."""
    print(f"{request.node.name}: {text}")  # noqa: T201 # that is what it is for


def has_peak() -> bool:
    """Whether this system tells, and forgets, how much memory a process had at most."""
    return Path("/proc/self/clear_refs").exists()


class Peak:
    """How far the resident memory grows beyond what it is now. Source: Linux, proc(5), `clear_refs` and `VmHWM`."""

    def __init__(self) -> None:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._highest()

    def growth(self) -> float:
        """MiB."""
        return (self._highest() - self._before) / 1024

    def _highest(self) -> int:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def play(client: Client, prompt: str) -> str:
    """One run; says how it ended."""
    shown: list[StreamEvent] = []
    try:
        client.stream(prompt, Toolkit(define_tool(lambda: "seen", name="look")), shown.append)
    except ToolnexusError as error:
        body = len(getattr(error, "body", ""))
        return f"{type(error).__name__}: {error} [{body}]"[-300:]
    return "done"


def limits(kind: str, url: str, *prompts: str) -> dict[str, Any]:
    """What each prompt came to, and how far the memory grew meanwhile."""
    with new_client(kind, base_url=url) as client:
        client.stream("warm up")
    return {prompt: apart(lambda prompt=prompt: limit(kind, url, prompt)) for prompt in prompts}  # type: ignore[misc]  # a default binds the name


def limit(kind: str, url: str, prompt: str) -> dict[str, Any]:
    with new_client(kind, base_url=url, retries=0) as client:
        peak = Peak()
        return {"outcome": play(client, prompt), "mib": peak.growth()}


def apart(work: Callable[[], Any]) -> Any:
    """Do something in a fork: what one scenario leaves in memory is not the next one's."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as told:
        said = told.read()
    os.waitpid(pid, 0)
    return json.loads(said)


# -- a consumer that takes its time


def slow(kind: str, url: str, *holds: str) -> dict[str, Any]:
    """Read numbered events, and wait for a word from the parent after so many of them."""
    told = (slow_sync if kind == "sync" else lambda *args: asyncio.run(slow_async(*args)))(url, [int(n) for n in holds])
    return {"events": told[0], "mib": told[1]}


def hold(count: int) -> None:
    print(f"held {count}", flush=True)  # noqa: T201 # what the parent waits for
    sys.stdin.readline()


def check_number(delta: str, count: int) -> None:
    assert int(delta) == count % 1000, f"expected event {count}, got {delta!r}"


def slow_sync(url: str, holds: list[int]) -> tuple[int, float]:
    with SyncClient(base_url=url, model=MODEL) as client:
        client.stream("warm up")
        peak, count = Peak(), 0
        with client.iter_events("numbers") as events:
            for event in events:
                if event.type == "text":
                    check_number(event.delta, count)
                    count += 1
                    if count in holds:
                        hold(count)
        return count, peak.growth()


async def slow_async(url: str, holds: list[int]) -> tuple[int, float]:
    async with AsyncClient(base_url=url, model=MODEL) as client:
        await client.run("warm up")
        async with client.stream("warm up") as events:
            async for _ in events:
                pass
        peak, count = Peak(), 0
        async with client.stream("numbers") as events:
            async for event in events:
                if event.type == "text":
                    check_number(event.delta, count)
                    count += 1
                    if count in holds:  # the loop runs on: whoever wants to read ahead can
                        await asyncio.to_thread(hold, count)
        return count, peak.growth()


# -- many at once


def many(kind: str, url: str, workers: str, requests: str) -> dict[str, Any]:
    """Streams side by side, each with a marker of its own in every event."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 8192), hard))
    before, began = files(), time.monotonic()
    if kind == "sync":
        events, crossed = many_threads(url, int(workers), int(requests))
        tasks = 0
    else:
        events, crossed, tasks = asyncio.run(many_tasks(url, int(workers)))
    took = time.monotonic() - began
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("toolnexus"):
            thread.join(10)
    return {
        "events": events,
        "crossed": crossed,
        "files": files() - before,
        "threads": threading.active_count() - 1,
        "tasks": tasks,
        "seconds": took,
    }


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def many_threads(url: str, workers: int, requests: int) -> tuple[int, int]:
    left = queue.SimpleQueue[int]()
    for number in range(requests):
        left.put(number)
    seen: list[bool] = []

    def work(client: SyncClient) -> None:
        while True:
            try:
                number = left.get_nowait()
            except queue.Empty:
                return
            marker = f"stream {number};"
            with client.iter_events(marker) as events:
                seen.extend(event.delta == marker for event in events if event.type == "text")

    with SyncClient(base_url=url, model=MODEL) as client:
        threads = [threading.Thread(target=work, args=(client,)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return len(seen), seen.count(False)


async def many_tasks(url: str, workers: int) -> tuple[int, int, int]:
    seen: list[bool] = []

    async def work(client: AsyncClient, number: int) -> None:
        marker = f"stream {number};"
        async with client.stream(marker) as events:
            async for event in events:
                if event.type == "text":
                    seen.append(event.delta == marker)

    async with AsyncClient(base_url=url, model=MODEL) as client:
        await asyncio.gather(*(work(client, number) for number in range(workers)))
    return len(seen), seen.count(False), len(asyncio.all_tasks()) - 1


PARTS: dict[str, Callable[..., Any]] = {"limits": limits, "slow": slow, "many": many}


def command(part: str, *args: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "tests.load.child", part, *args]


def run_child(part: str, *args: str, timeout: float = 120) -> Any:
    """What a part tells, run in a process of its own."""
    ran = subprocess.run(
        command(part, *args),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return json.loads(ran.stdout)


if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](*sys.argv[2:])))  # noqa: T201 # what the parent reads
