"""A deadline ends whatever we wait for, at most 0.2 s late.

What is waited for here would last for ever. The lateness of a run is that of our own waits plus that of the machine,
which may be busy with something else: so the best of three runs counts.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL
from tests.server import Flood, Gate, Response, calls, failure, reply, says, text
from toolnexus import (
    Answer,
    AsyncClient,
    Cancel,
    DeadlineExceededError,
    Hooks,
    Message,
    Request,
    SyncClient,
    Toolkit,
    ToolnexusError,
    define_tool,
    pending,
)

DEADLINE_S = 0.1
LATE_S = 0.2

over = threading.Event()
"""Lets what the test left behind end."""


@pytest.fixture(autouse=True)
def _begin() -> None:
    over.clear()


def check_in_time(run: Callable[[], object], expected: type[ToolnexusError] = DeadlineExceededError) -> None:
    late = []
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(expected):
            run()
        late.append(time.monotonic() - began - DEADLINE_S)
        if late[-1] <= LATE_S:
            break
    over.set()
    if min(late) > LATE_S:
        pytest.fail(f"the runs ended {', '.join(f'{s:.3f}' for s in late)} s after their deadline")


READS = {
    "for the head": lambda: Response(before=Gate()),
    "while informational heads come": lambda: Response(
        [Flood(b"HTTP/1.1 102 Processing\r\n\r\n" * 5000, times=40)], framing="none"
    ),
    "for the first chunk": lambda: reply(Gate()),
    "for the next chunk": lambda: reply(text("Hel"), Gate()),
    "while comments come": lambda: reply(Flood(b": still here\n\n")),
    "while text comes": lambda: reply(Flood(text("la ")[0])),
    "for an error body": lambda: reply(b"{", Gate(), status=400),
}


@pytest.mark.parametrize("response", READS.values(), ids=READS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "not streamed"])
def test_a_read(connect, serve, response, streamed):
    client = connect(serve(*[response() for _ in range(3)]))
    check_in_time(lambda: (client.stream if streamed else client.run)("Go.", deadline=DEADLINE_S))


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("response", [READS["for the head"], READS["for the next chunk"]], ids=["head", "body"])
def test_a_read_over_a_callers_client(serve, kind, response):
    server = serve(*[response() for _ in range(3)])

    def run() -> None:
        with (
            httpx.Client() as http_client,
            SyncClient(base_url=server.url, model=MODEL, http_client=http_client) as client,
        ):
            client.stream("Go.", deadline=DEADLINE_S)

    async def run_in_loop() -> None:
        async with (
            httpx.AsyncClient() as http_client,
            AsyncClient(base_url=server.url, model=MODEL, http_client=http_client) as client,
        ):
            async for _ in client.stream("Go.", deadline=DEADLINE_S):
                pass

    check_in_time(run if kind == "sync" else lambda: asyncio.run(run_in_loop()))


@pytest.mark.parametrize("ends", ["deadline", "cancel"])
def test_what_ends_after_the_run_does_not_touch_the_connection_of_a_callers_client(serve, ends):
    server = serve(says("One."), says("Two."))
    cancel = Cancel()
    options: dict[str, Any] = {"deadline": DEADLINE_S} if ends == "deadline" else {"cancel": cancel}
    with (
        httpx.Client() as http_client,
        SyncClient(base_url=server.url, model=MODEL, http_client=http_client) as client,
    ):
        assert client.stream("Go.", **options).text == "One."
        threading.Event().wait(2 * DEADLINE_S)
        cancel.cancel()
        assert client.stream("Go.").text == "Two."
    assert server.connections == 1


def test_a_request_that_nobody_takes(connect):
    with socket.socket() as deaf:
        deaf.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 4096
        )  # more than a few megabytes fit into no sender's buffer
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        client = connect(base_url=f"http://127.0.0.1:{deaf.getsockname()[1]}")
        check_in_time(lambda: client.stream("x" * 8_000_000, deadline=DEADLINE_S))


def test_retries_that_would_go_on(connect, serve):
    """The wait before a retry either fits, or is not begun; then the error is the one that was to be retried."""
    server = serve(lambda request: failure(503, retry_after="0.03"))
    client = connect(server, retries=1000)
    check_in_time(lambda: client.stream("Go.", deadline=DEADLINE_S), ToolnexusError)
    client = connect(server, retries=1000, retry_base=0.01)
    server = serve(Response(framing="close", end="reset"))
    check_in_time(lambda: client.stream("Go.", deadline=DEADLINE_S), ToolnexusError)


# -- tools


def block() -> str:
    """Block its thread."""
    over.wait(60)
    return "too late"


async def wait() -> str:
    """Wait in the loop."""
    await asyncio.Event().wait()
    return "never"


async def hold_on() -> str:
    """Take no notice of being cancelled."""
    while not over.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue
    return "too late"


TOOLS = {
    "a sync tool that blocks": define_tool(block, name="stay"),
    "an async tool": define_tool(wait, name="stay"),
    "an async tool that does not let itself be cancelled": define_tool(hold_on, name="stay"),
    "a tool whose own timeout is longer": define_tool(block, name="stay", timeout=50),
    "a tool that wants to be alone": define_tool(block, name="stay", parallel=False),
    "a tool that blocks when it is asked for the second time": define_tool(
        lambda ctx: block() if ctx.id == "c2" else pending("Well?"), name="stay"
    ),
}


@pytest.mark.parametrize("stay", TOOLS.values(), ids=TOOLS)
def test_a_tool(connect, serve, stay):
    client = connect(
        serve(lambda request: calls(*[(f"c{n}", "stay", "{}") for n in range(12)])),
        wait_for=lambda request: Answer(request.id, ok=True),
    )
    check_in_time(lambda: client.stream("Go.", Toolkit(stay), deadline=DEADLINE_S))


# -- what the user's own code waits for


async def never(*args: Any) -> Any:
    await asyncio.Event().wait()


async def stubborn(*args: Any) -> Any:
    await hold_on()


def scripted(request: Any) -> Response:
    return says("Ok.") if request.json["messages"][-1]["role"] == "tool" else calls(("c1", "look", "{}"))


@pytest.mark.parametrize("waits", [never, stubborn])
@pytest.mark.parametrize("name", ["before_llm", "after_llm", "before_tool", "after_tool"])
def test_an_async_hook(serve, name, waits):
    server = serve(scripted)

    async def main() -> None:
        hooks = Hooks(**{name: waits})
        async with AsyncClient(base_url=server.url, model=MODEL, hooks=hooks) as client:
            await client.run("Go.", Toolkit(define_tool(lambda: "seen", name="look")), deadline=DEADLINE_S)

    with asyncio.Runner() as runner:  # it waits for what is left, which is no affair of the run's
        check_in_time(lambda: runner.run(main()))


@pytest.mark.parametrize("waits", [never, stubborn])
def test_an_async_wait_for(serve, waits):
    server = serve(scripted)

    async def main() -> None:
        look = define_tool(lambda: pending("Well?"), name="look")
        async with AsyncClient(base_url=server.url, model=MODEL, wait_for=waits) as client:
            await client.run("Go.", Toolkit(look), deadline=DEADLINE_S)

    with asyncio.Runner() as runner:  # it waits for what is left, which is no affair of the run's
        check_in_time(lambda: runner.run(main()))


class Store:
    """An async store that never finds anything."""

    async def get(self, id: str) -> list[Message] | None:
        await never()
        return None

    async def save(self, id: str, messages: list[Message]) -> None: ...


class BlockingStore:
    """A sync one; it is called in a thread."""

    def get(self, id: str) -> list[Message] | None:
        block()
        return None

    def save(self, id: str, messages: list[Message]) -> None: ...


@pytest.mark.parametrize("store", [Store, BlockingStore])
def test_a_store_that_does_not_find_the_conversation(serve, store):
    server = serve(scripted)

    async def main() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL, store=store()) as client:
            await client.ask("Go.", id="talk", deadline=DEADLINE_S)

    with asyncio.Runner() as runner:
        check_in_time(lambda: runner.run(main()))
    assert server.requests == []


def test_what_runs_in_the_callers_own_thread_is_looked_at_when_it_returns(serve):
    server = serve(scripted, scripted)

    def slow(request: Request) -> Answer:
        threading.Event().wait(2 * DEADLINE_S)
        return Answer(request.id, ok=True)

    look = define_tool(lambda ctx: "seen" if ctx.answer else pending("Well?"), name="look")
    with (
        SyncClient(base_url=server.url, model=MODEL, wait_for=slow) as client,
        pytest.raises(DeadlineExceededError) as failed,
    ):
        client.stream("Go.", Toolkit(look), deadline=DEADLINE_S)
    assert failed.value.result is not None
    assert len(server.requests) == 1
