"""Many runs at once, forks, loops one after the other, and the end of the process: nothing crosses, nothing is left."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from tests.clients.harness import MODEL
from tests.load.child import FULL, figure, run_child
from tests.server import Gate, Request, Response, Server, calls, done, finish, reply, says, text
from toolnexus import AsyncClient

PIECES = 5

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc of Linux to count files")


def echo(request: Request, *between: Gate) -> Response:
    """The prompt as the marker of each event; a gate may hold back all but the first."""
    marker = request.json["messages"][-1]["content"]
    return reply(text(marker), *between, text(*[marker] * (PIECES - 1)), finish(), done())


def test_threads_share_one_client(request):
    requests = 2000 if FULL else 320
    with Server(echo) as server:
        told = run_child("many", "sync", server.url, "64", str(requests))
        server.wait_all_closed()
        assert len(server.requests) == requests
        assert server.connections <= 64
    figure(request, f"{told}, {server.connections} connections")
    assert told["events"] == requests * PIECES
    assert (told["crossed"], told["files"], told["threads"]) == (0, 0, 0)


def test_streams_of_one_client_are_open_at_once(request):
    count = 1000 if FULL else 300
    gate = Gate()

    def hold(asked: Request) -> Response:
        if len(server.requests) == count:
            gate.open()  # the last one came: all are open
        return echo(asked, gate)

    with Server(hold) as server:
        told = run_child("many", "async", server.url, str(count), "0")
        server.wait_all_closed()
        assert server.connections == count
    figure(request, str(told))
    assert told["events"] == count * PIECES
    assert (told["crossed"], told["files"], told["tasks"], told["threads"]) == (0, 0, 0, 0)


def test_loops_one_after_the_other_leave_nothing_even_of_a_stream_that_is_open(serve):
    gate = Gate()
    server = serve(
        lambda request: echo(request, gate) if "left" in request.json["messages"][0]["content"] else echo(request)
    )
    client = AsyncClient(base_url=server.url, model=MODEL)
    noise: list[Any] = []
    kept: list[Any] = []

    async def main(number: int) -> str:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        left = client.stream(f"left {number}")
        assert (await anext(left)).type == "text"
        kept.append(left)
        return (await client.run(f"run {number}")).text

    for number in range(3):
        assert asyncio.run(main(number)) == f"run {number}" * PIECES
        server.wait_all_closed()
    kept.clear()
    gc.collect()
    assert noise == []


def in_a_process(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    # A fork of a process with threads is what is tested; Python 3.12 warns of it.
    flags = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    return subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code), *args], capture_output=True, text=True, timeout=60
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_in_the_middle_of_everything_crosses_nothing():
    """The parent has idle connections, tool threads, a loop thread and a stream that is half read."""
    gate = Gate()

    def script(request: Request) -> Response:
        prompt, last = request.json["messages"][0]["content"], request.json["messages"][-1]
        if prompt == "half":
            return echo(request, gate)
        if last["role"] == "tool":
            return says(*[prompt] * PIECES)
        if prompt == "child":
            gate.open()  # it goes on while the child runs
        return calls(("c1", "here", "{}"), ("c2", "there", "{}"))

    code = """
        import os, sys, toolnexus
        async def here(): return "here"
        toolkit = toolnexus.Toolkit(toolnexus.define_tool(here), toolnexus.define_tool(lambda: "there", name="there"))
        client = toolnexus.SyncClient(base_url=sys.argv[1], model="m")
        def run(name):
            seen = []
            client.stream(name, toolkit, lambda e: seen.append(e.delta) if e.type == "text" else None)
            return seen == [name] * 5
        assert run("first")
        half = client.iter_events("half")
        assert next(half).delta == "half"
        child = os.fork()
        if child == 0:
            good = run("child") and run("child again")
            client.close()
            os._exit(0 if good else 1)
        if (other := os.fork()) == 0:
            client.close()
            os._exit(0)
        assert os.waitpid(other, 0)[1] == 0
        assert os.waitpid(child, 0)[1] == 0
        assert [e.delta for e in half if e.type == "text"] == ["half"] * 4
        assert run("last")
        client.close()
        print("good")
    """
    with Server(script) as server:
        run = in_a_process(code, server.url)
        server.wait_all_closed()
    assert (run.stdout, run.stderr, run.returncode) == ("good\n", "", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_between_two_event_loops_leaves_the_child_without_the_parents_threads():
    code = """
        import asyncio, os, sys, toolnexus
        toolkit = toolnexus.Toolkit(toolnexus.define_tool(lambda: "here", name="here"))
        client = toolnexus.AsyncClient(base_url=sys.argv[1], model="m")
        async def run(prompt):
            async with asyncio.timeout(10):
                return (await client.run(prompt, toolkit)).text
        assert asyncio.run(run("parent")) == "here"
        child = os.fork()
        if child == 0:
            os._exit(0 if asyncio.run(run("child")) == "here" else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert asyncio.run(run("parent again")) == "here"
        asyncio.run(client.aclose())
        print("good")
    """

    def script(request: Request) -> Response:
        last = request.json["messages"][-1]
        return says(last["content"]) if last["role"] == "tool" else calls(("c1", "here", "{}"))

    with Server(script) as server:
        run = in_a_process(code, server.url)
        server.wait_all_closed()
    assert (run.stdout, run.stderr, run.returncode) == ("good\n", "", 0)


EXITS = {
    "sync": """
        streams = []
        client = toolnexus.SyncClient(base_url=url, model="m")
        for number in range(20):
            streams.append(client.iter_events(f"stream {number}"))
            next(streams[-1])
    """,
    "sync, in threads that read": """
        client = toolnexus.SyncClient(base_url=url, model="m")
        came = threading.Barrier(21)
        def work(number):
            for event in client.iter_events(f"stream {number}"):
                came.wait()
        for number in range(20):
            threading.Thread(target=work, args=(number,), daemon=True).start()
        came.wait()
    """,
    "async": """
        client = toolnexus.AsyncClient(base_url=url, model="m")
        streams = []
        async def main():
            for number in range(20):
                streams.append(client.stream(f"stream {number}"))
                await anext(streams[-1])
        asyncio.run(main())
    """,
    "async, in tasks that read": """
        client = toolnexus.AsyncClient(base_url=url, model="m")
        tasks = []
        async def main():
            came = asyncio.Semaphore(0)
            async def work(number):
                async for event in client.stream(f"stream {number}"):
                    came.release()
            for number in range(20):
                tasks.append(asyncio.create_task(work(number)))
            for _ in tasks:
                await came.acquire()
        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("code", EXITS.values(), ids=EXITS)
def test_a_process_ends_at_once_although_streams_are_open(request, code):
    gate = Gate()
    begin = "import asyncio, sys, threading, time, toolnexus\nurl = sys.argv[1]\n"
    with Server(lambda asked: echo(asked, gate)) as server:
        run = in_a_process(begin + textwrap.dedent(code) + "\nprint(time.monotonic())", server.url)
        took = time.monotonic() - float(run.stdout)
        server.wait_all_closed()
    figure(request, f"{took:.2f} s")
    assert (run.stderr, run.returncode) == ("", 0)
    assert len(server.requests) == 20
    assert took < 2
