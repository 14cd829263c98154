"""A run ends when it must: whatever comes, whoever is slow, and whatever a tool does about it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Coroutine

import pytest

from tests.server import Response, calls, done, failure, reply, says, text
from toolnexus import (
    Answer,
    APIConnectionError,
    AsyncClient,
    AuthenticationError,
    Cancel,
    ConfigurationError,
    DeadlineExceededError,
    Hooks,
    NotFoundError,
    RunCancelledError,
    StoreError,
    SyncClient,
    Toolkit,
    ToolnexusError,
    define_tool,
    tool,
)

KEY = "sk-CANARY-0123456789abcdef"
LONG = 30.0


def status(failed: pytest.ExceptionInfo[ToolnexusError]) -> str | None:
    result = failed.value.result
    return None if result is None else result.status


def test_a_deadline_ends_a_run_whose_consumer_is_slow(connect, serve):
    server = serve(reply(b"".join(text("x") * 400), done()))  # one write: all of it is there at once
    client = connect(server)
    shown = 0

    def slow(event):
        nonlocal shown
        shown += 1
        time.sleep(0.01)

    with pytest.raises(DeadlineExceededError) as failed:
        client.stream("Go.", on_event=slow, deadline=0.2)
    assert 0 < shown < 400
    assert status(failed) == "error"


def test_a_deadline_ends_a_stream_that_has_no_end(connect, serve):
    server = serve(reply(*[b": alive\n\n"] * 200_000, done()))
    with pytest.raises(DeadlineExceededError):
        connect(server).run("Go.", deadline=0.2)


@pytest.mark.parametrize("how", ["timeout", "deadline", "cancel"])
def test_an_async_tool_that_clings_to_life_holds_nothing_up(serve, how):
    async def cling(x: int) -> str:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            await asyncio.sleep(LONG)
        return "late"

    server = serve(calls(("c1", "cling", '{"x": 1}')), says("Well."))
    toolkit = Toolkit(define_tool(cling, timeout=0.1 if how == "timeout" else None))
    cancel = Cancel()
    threading.Timer(0.1, cancel.cancel).start()

    async def main():
        async with AsyncClient(base_url=server.url, model="m") as client:
            return await client.run(
                "Go.", toolkit, deadline=0.1 if how == "deadline" else None, cancel=cancel if how == "cancel" else None
            )

    began = time.monotonic()
    if how == "timeout":
        result = asyncio.run(_within(main(), LONG / 2))
        assert result.tool_calls[0].is_error
        assert "longer than its timeout" in result.tool_calls[0].output
    else:
        with pytest.raises(DeadlineExceededError if how == "deadline" else RunCancelledError):
            asyncio.run(_within(main(), LONG / 2))
    assert time.monotonic() - began < LONG / 2


async def _within(awaitable, seconds):
    try:
        return await asyncio.wait_for(awaitable, seconds)
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:  # what clings is cancelled once more, so that the loop can close
            task.cancel()


def test_closing_a_client_ends_a_run_that_waits_for_a_tool(serve):
    started, release = threading.Event(), threading.Event()

    def wait() -> str:
        started.set()
        release.wait(LONG)
        return "late"

    server = serve(calls(("c1", "wait", "{}")), says("Well."))
    client = SyncClient(base_url=server.url, model="m")

    def close() -> None:
        started.wait(LONG)
        client.close()

    threading.Thread(target=close).start()
    try:
        with pytest.raises(RunCancelledError, match="the client was closed"):
            client.run("Go.", Toolkit(define_tool(wait)))
    finally:
        release.set()


def test_closing_a_client_ends_a_run_that_waits_to_try_again(serve):
    server = serve(*[failure(503, "busy", retry_after="30")] * 2)
    waiting = threading.Event()
    hooks = Hooks(on_retry=lambda info: waiting.set())  # just before the wait
    client = SyncClient(base_url=server.url, model="m", hooks=hooks)

    def close() -> None:
        waiting.wait(LONG)
        client.close()

    threading.Thread(target=close).start()
    began = time.monotonic()
    with pytest.raises(RunCancelledError, match="the client was closed"):
        client.run("Go.")
    assert time.monotonic() - began < LONG / 2


def test_closing_an_async_client_ends_a_run_that_waits_for_a_tool(serve):
    async def wait() -> str:
        await asyncio.sleep(LONG)
        return "late"

    server = serve(calls(("c1", "wait", "{}")), says("Well."))

    async def main():
        client = AsyncClient(base_url=server.url, model="m")
        events = client.stream("Go.", Toolkit(define_tool(wait)))
        assert (await anext(events)).type == "tool_call"
        last = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await client.aclose()
        with pytest.raises(RunCancelledError, match="the client was closed"):
            await asyncio.wait_for(last, LONG / 2)

    asyncio.run(main())


def test_a_closed_client_starts_no_event_loop_for_a_late_tool(serve):
    release = threading.Event()
    threads: list[threading.Thread] = []

    def late() -> object:
        threads.append(threading.current_thread())
        release.wait(LONG)

        async def value() -> str:
            return "late"

        coroutine = value()
        made.append(coroutine)
        return coroutine

    made: list[Coroutine[object, object, str]] = []
    server = serve(calls(("c1", "late", "{}")), says("Well."))
    client = SyncClient(base_url=server.url, model="m")
    with client.iter_events("Go.", Toolkit(define_tool(late))) as events:
        assert next(events).type == "tool_call"

        def close() -> None:
            _until(lambda: threads)
            client.close()

        closing = threading.Thread(target=close)
        closing.start()
        with pytest.raises(RunCancelledError):
            next(events)
        closing.join()
    before = {t for t in threading.enumerate() if t.name == "toolnexus-loop"}
    release.set()
    threads[0].join(LONG)
    assert not threads[0].is_alive()
    made[0].close()  # nobody awaits it any more
    assert {t for t in threading.enumerate() if t.name == "toolnexus-loop"} == before


def _until(condition):
    ready = threading.Event()
    while not condition():
        ready.wait(0.001)


def test_what_a_watcher_does_to_an_event_changes_nothing_that_runs(connect, serve):
    seen = []

    @tool
    def double(x: int) -> str:
        """Double."""
        seen.append(x)
        return str(2 * x)

    def meddle(event):
        if event.type == "tool_call":
            event.args["x"] = 99999

    server = serve(calls(("c1", "double", '{"x": 12}')), says("24."))
    result = connect(server).stream("Go.", Toolkit(double), meddle)
    assert (seen, result.tool_calls[0].args) == ([12], {"x": 12})


def test_what_runs_is_what_the_human_saw(connect, serve):
    seen = []

    def pay(amount: int) -> str:
        seen.append(amount)
        return "paid"

    def agree(request):
        request.call.args["amount"] = 1
        request.data["args"]["amount"] = 1
        return Answer(request.id)

    server = serve(calls(("c1", "pay", '{"amount": 500}')), says("Paid."))
    connect(server, wait_for=agree).run("Pay.", Toolkit(define_tool(pay, approval=True)))
    assert seen == [500]


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit])
def test_a_tool_that_raises_what_no_tool_should_is_an_error_result(connect, serve, error):
    def odd() -> str:
        raise error("boo")

    server = serve(calls(("c1", "odd", "{}")), says("Well."))
    result = connect(server).run("Go.", Toolkit(define_tool(odd)))
    assert result.tool_calls[0].is_error
    assert result.text == "Well."


def test_a_run_that_never_began_fails_with_a_result_too(connect, serve):
    class Broken:
        def get(self, id):
            raise OSError("no disk")

        def save(self, id, messages): ...

    cancel = Cancel()
    cancel.cancel()
    client = connect(serve(), store=Broken())
    with pytest.raises(RunCancelledError) as cancelled:
        client.run("Go.", cancel=cancel)
    with pytest.raises(StoreError) as failed:
        client.stream("Go.", id="x")
    assert [status(cancelled), status(failed)] == ["error", "error"]


@pytest.mark.parametrize(
    "response",
    [
        Response([b'{"error": {"message": "bad", "type": "key:%s"}}' % KEY.encode()], 401),
        Response([b"no"], 401, {"x-request-id": KEY}),
        Response([b"x" * 480 + KEY.encode()], 401),
        Response([b'{"error": {"message": "%s"}}' % (b"x" * 1990 + KEY.encode())], 401),
    ],
    ids=["kind", "request id", "cut body", "cut message"],
)
def test_a_key_that_is_echoed_anywhere_does_not_show(connect, serve, response):
    with pytest.raises(AuthenticationError) as failed:
        connect(serve(response), api_key=KEY, retries=0).run("Go.")
    error = failed.value
    shown = f"{error} {error!r} {error.body} {error.kind} {error.request_id} {error.__cause__!r}"
    assert KEY[:12] not in shown


def test_a_key_in_what_broke_the_connection_shows_in_no_cause(connect):
    """Whatever the HTTP stack quotes of a broken reply stands in the cause, too."""
    with raw_server(b"garbage " + KEY.encode() + b"\r\n\r\n") as url:
        client = connect(base_url=url, api_key=KEY, retries=0)
        with pytest.raises(APIConnectionError) as failed:
            client.run("Go.")
    seen: list[BaseException] = []
    queue: list[BaseException | None] = [failed.value]
    while queue:
        error = queue.pop()
        if error is not None and error not in seen:
            seen.append(error)
            queue += [error.__cause__, error.__context__]
    assert len(seen) > 1
    assert KEY not in " ".join(f"{error} {error!r} {vars(error)}" for error in seen)


@pytest.mark.parametrize("kind", [SyncClient, AsyncClient])
def test_a_refused_address_does_not_show_its_query(kind):
    with pytest.raises(ConfigurationError) as failed:
        kind(base_url=f"host/v1?key={KEY}", model="m")
    assert KEY not in str(failed.value)


@contextlib.contextmanager
def raw_server(reply: bytes):
    """A server that answers one request with these bytes and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(LONG)


def test_an_error_of_the_address_names_the_address_and_no_traceback_goes_through_the_retry_library(connect, serve):
    client = connect(serve(Response([b"no"], 404)))
    with pytest.raises(NotFoundError, match=r"are base_url .*/v1.* and model right\? POST http") as failed:
        client.run("Go.")
    files = []
    frame = failed.value.__traceback__
    while frame is not None:
        files.append(frame.tb_frame.f_code.co_filename)
        frame = frame.tb_next
    assert not [name for name in files if "tenacity" in name]
