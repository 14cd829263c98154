"""Ending a run from outside: `Cancel` from another thread, a deadline, a cancelled task.

What is ended here would wait for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL, later, soon
from tests.server import PATIENCE_S, Gate, Response, calls, done, failure, finish, reply, says, text
from toolnexus import (
    APITimeoutError,
    AsyncClient,
    BadRequestError,
    Cancel,
    DeadlineExceededError,
    Request,
    RunCancelledError,
    StreamEvent,
    ToolContext,
    Toolkit,
    define_tool,
    pending,
    tool,
)


def hangs_before_the_head() -> tuple[Response, Gate]:
    gate = Gate()
    return Response(before=gate), gate


def hangs_in_mid_stream(**options: Any) -> tuple[Response, Gate]:
    gate = Gate()
    return reply(text("Hel"), gate, text("lo!"), finish(), done(), **options), gate


def hangs_in_a_reply_that_is_not_a_stream() -> tuple[Response, Gate]:
    gate = Gate()
    return reply(b'{"choices": [', gate, headers={"content-type": "application/json"}), gate


def hangs_in_an_error_body() -> tuple[Response, Gate]:
    gate = Gate()
    return reply(b'{"error": ', gate, status=400), gate


WAITS = {
    "for the head": hangs_before_the_head,
    "for the next chunk": hangs_in_mid_stream,
    "for more of a body with a length": lambda: hangs_in_mid_stream(framing="length"),
    "for more of a body without a length": lambda: hangs_in_mid_stream(framing="close"),
    "for the rest of a whole reply": hangs_in_a_reply_that_is_not_a_stream,
    "for the rest of an error": hangs_in_an_error_body,
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_cancel_ends_a_run_that_waits(play, serve, wait):
    response, gate = wait()
    server = serve(response, says("Next."))
    cancel = Cancel()
    thread = later(cancel, gate.wait_reached)
    with soon():
        played = play(server, "Go.", call={"cancel": cancel})
    thread.join()
    assert isinstance(played.error, RunCancelledError)
    assert str(played.error) == "the run was cancelled"
    assert played.error.result is not None
    assert played.error.result.finish_reason == "aborted"
    server.requests[0].wait_left()
    assert play(server, "Next?").ended().text == "Next."


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_deadline_ends_a_run_that_waits(play, serve, wait):
    response, _ = wait()
    server = serve(response, says("Next."))
    with soon():
        played = play(server, "Go.", call={"deadline": 0.15})
    assert isinstance(played.error, DeadlineExceededError)
    assert str(played.error) == "the run took longer than its deadline of 0.15 s"
    assert len(server.requests) == 1
    server.requests[0].wait_left()
    assert play(server, "Next?").ended().text == "Next."


@pytest.mark.case("api-timeout-forms", "timeout-no-first-byte", "timeout-stall-in-mid-answer")
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_silence_for_longer_than_the_timeout_ends_a_run(play, serve, wait):
    response, _ = wait()
    server = serve(response)
    with soon():
        played = play(server, "Go.", timeout=0.1, retries=0)
    # Of an error reply the status says enough, however little there is of its body.
    assert isinstance(played.error, APITimeoutError if response.status == 200 else BadRequestError)
    server.requests[0].wait_left()


@pytest.mark.case("timeout-no-first-byte")
def test_a_silence_before_anything_was_shown_is_tried_again(play, serve):
    server = serve(Response(before=Gate()), Response([], end="stall"), says("Here."))
    with soon():
        assert play(server, "Go.", timeout=0.1).ended().text == "Here."
    assert len(server.requests) == 3


@pytest.mark.case("api-timeout-forms", "timeout-is-idle-not-total", "timeout-comments-reset-idle-timer")
def test_comments_count_as_life(play, serve):
    gates = [Gate() for _ in range(6)]
    server = serve(reply([[gate, b": still here\n\n"] for gate in gates], text("Done."), finish(), done()))

    def open_slowly() -> None:
        for gate in gates:
            gate.wait_reached()
            threading.Event().wait(0.1)  # silence, but never as long as the timeout
            gate.open()

    thread = threading.Thread(target=open_slowly)
    thread.start()
    assert play(server, "Go.", timeout=0.5).ended().text == "Done."
    thread.join()


@pytest.mark.case("api-slow-callback-backpressure", "other-slow-consumer")
def test_time_that_the_consumer_takes_is_no_silence(connect, serve):
    server = serve(reply(text(*"abc"), finish(), done()))
    pause = threading.Event()
    seen = []

    def on_event(event: StreamEvent) -> None:
        seen.append(event.type)
        pause.wait(0.15)

    connect(server, timeout=0.1, retries=0).stream("Go.", on_event=on_event)
    assert seen == ["text", "text", "text", "done"]


def stuck(entered: threading.Event, over: threading.Event, *, is_async: bool) -> Any:
    def stay() -> str:
        entered.set()
        over.wait(PATIENCE_S)
        return "too late"

    async def stay_in_loop() -> str:
        entered.set()
        await asyncio.Event().wait()
        return "never"

    return define_tool(stay_in_loop if is_async else stay, name="stay")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync tool", "async tool"])
def test_a_cancel_ends_a_run_whose_tool_runs(play, serve, is_async):
    server = serve(calls(("c1", "stay", "{}")), says("Next."))
    cancel, entered, over = Cancel(), threading.Event(), threading.Event()
    thread = later(cancel, entered.wait)
    with soon():
        played = play(server, "Go.", stuck(entered, over, is_async=is_async), call={"cancel": cancel, "id": "talk"})
    over.set()
    thread.join()
    assert isinstance(played.error, RunCancelledError)
    assert played.error.result is not None
    assert [record.is_error for record in played.error.result.tool_calls] == [True]
    assert play(server, "Next?", call={"id": "talk"}).ended().text == "Next."
    assert [m["role"] for m in server.requests[1].json["messages"]] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync tool", "async tool"])
def test_a_deadline_ends_a_run_whose_tool_runs(play, serve, is_async):
    server = serve(calls(("c1", "stay", "{}")))
    entered, over = threading.Event(), threading.Event()
    began = time.monotonic()
    played = play(server, "Go.", stuck(entered, over, is_async=is_async), call={"deadline": 0.2})
    took = time.monotonic() - began
    over.set()
    assert isinstance(played.error, DeadlineExceededError)
    assert 0.2 <= took < 1.2


def test_a_tool_hears_of_the_cancel(play, serve):
    cancel, entered, told = Cancel(), threading.Event(), threading.Event()

    @tool
    def listen(ctx: ToolContext) -> str:
        """Wait for the cancel."""
        ctx.cancel.add_callback(told.set)
        entered.set()
        assert told.wait(PATIENCE_S)
        return "heard"

    thread = later(cancel, entered.wait)
    played = play(serve(calls(("c1", "listen", "{}"))), "Go.", listen, call={"cancel": cancel})
    thread.join()
    assert isinstance(played.error, RunCancelledError)
    assert told.wait(PATIENCE_S)


def test_an_async_tool_is_cancelled_with_the_run(play, serve):
    cancel, entered, cleaned = Cancel(), threading.Event(), threading.Event()

    @tool
    async def stay() -> str:
        """Wait for ever."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return "never"

    thread = later(cancel, entered.wait)
    played = play(serve(calls(("c1", "stay", "{}"))), "Go.", stay, call={"cancel": cancel})
    thread.join()
    assert isinstance(played.error, RunCancelledError)
    assert cleaned.wait(PATIENCE_S)


def test_a_cancel_ends_the_wait_before_a_retry(play, serve):
    server = serve(failure(503, retry_after="50"), says("Next."))
    cancel = Cancel()
    thread = later(cancel, lambda: server.wait_for_requests(1))
    with soon():
        played = play(server, "Go.", call={"cancel": cancel})
    thread.join()
    assert isinstance(played.error, RunCancelledError)
    assert len(server.requests) == 1


def test_a_wait_that_does_not_fit_into_the_deadline_is_not_begun(play, serve):
    server = serve(failure(503, retry_after="50"))
    with soon():
        played = play(server, "Go.", call={"deadline": 20})
    assert type(played.error).__name__ == "InternalServerError"
    assert len(server.requests) == 1


def test_a_run_that_was_cancelled_before_sends_nothing(play, serve):
    server = serve(says("Never."))
    cancel = Cancel()
    cancel.cancel()
    assert isinstance(play(server, "Go.", call={"cancel": cancel}).error, RunCancelledError)
    assert server.requests == []


def test_a_cancel_between_events_ends_the_run(connect, serve):
    server = serve(reply(text("a"), Gate(), text("b")))
    cancel = Cancel()

    def on_event(event: StreamEvent) -> None:
        cancel.cancel()

    with pytest.raises(RunCancelledError) as caught:
        connect(server).stream("Go.", on_event=on_event, cancel=cancel)
    assert caught.value.result is not None
    assert caught.value.result.text == "a"
    server.requests[0].wait_left()


def test_one_cancel_ends_several_runs(serve):
    gates = [Gate() for _ in range(3)]
    server = serve(*[Response(before=gate) for gate in gates])
    cancel = Cancel()

    async def main() -> list[BaseException | Any]:
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            runs = [asyncio.ensure_future(client.run("Go.", cancel=cancel)) for _ in gates]
            for gate in gates:
                await asyncio.to_thread(gate.wait_reached)
            cancel.cancel()
            return await asyncio.gather(*runs, return_exceptions=True)

    assert [type(outcome) for outcome in asyncio.run(main())] == [RunCancelledError] * 3


def test_a_deadline_is_looked_at_when_the_callers_own_code_returns(connect, serve):
    server = serve(reply(text("a"), finish(), done()))
    with pytest.raises(DeadlineExceededError):
        connect(server).stream("Go.", on_event=lambda event: time.sleep(0.2), deadline=0.1)


def test_a_deadline_ends_an_async_wait_for(serve):
    server = serve(calls(("c1", "ask", "{}")))

    async def never(request: Request) -> Any:
        await asyncio.Event().wait()

    async def main() -> None:
        ask = define_tool(lambda: pending("Well?"), name="ask")
        async with AsyncClient(base_url=server.url, model=MODEL, wait_for=never) as client:
            await client.run("Go.", Toolkit(ask), deadline=0.1)

    with soon(), pytest.raises(DeadlineExceededError):
        asyncio.run(main())


@pytest.mark.parametrize("never", [1e12, float("inf")], ids=str)
def test_a_bound_of_ages_is_no_bound(play, serve, never):
    server = serve(failure(503, retry_after="0"), calls(("c1", "fine", "{}")), says("Ok."))
    fine = define_tool(lambda: "fine", name="fine")
    options = {"timeout": never, "deadline": never, "max_retry_after": never}
    assert play(server, "Go.", fine, **options).ended().text == "Ok."


@pytest.fixture
def deaf() -> Iterator[str]:
    """The URL of a host that lets nobody in: its queue of new connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                caller = stack.enter_context(socket.socket())
                caller.setblocking(False)
                caller.connect_ex(address)
            yield f"http://127.0.0.1:{address[1]}"


def test_a_deadline_ends_a_run_that_cannot_connect(play, deaf):
    with soon():
        played = play(None, "Go.", base_url=deaf, call={"deadline": 0.2})
    assert isinstance(played.error, DeadlineExceededError)


def test_a_cancel_ends_a_run_that_cannot_connect(play, deaf):
    cancel = Cancel()
    thread = later(cancel, lambda: threading.Event().wait(0.2))  # there is nothing to wait for but the connect
    with soon():
        played = play(None, "Go.", base_url=deaf, call={"cancel": cancel})
    thread.join()
    assert isinstance(played.error, RunCancelledError)


def test_a_connect_that_takes_too_long_is_a_timeout(play, deaf):
    with soon():
        played = play(None, "Go.", base_url=deaf, timeout=httpx.Timeout(30, connect=0.1), retries=0)
    assert isinstance(played.error, APITimeoutError)
    assert "could not connect in time" in str(played.error)


@pytest.mark.parametrize("times", [1, 2])
def test_a_task_cancelled_at_any_step_leaves_nothing_behind(serve, times):
    fine = define_tool(lambda: "fine", name="fine")

    def script(request: Any) -> Response:
        return says("Ok.") if request.json["messages"][-1]["role"] == "tool" else calls(("c1", "fine", "{}"))

    server = serve(script)

    async def attempt(client: AsyncClient, steps: int) -> bool:
        task = asyncio.ensure_future(client.run("Go.", Toolkit(fine)))
        for _ in range(steps):
            if task.done():
                break
            await asyncio.sleep(0)
        finished = task.done()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return finished

    async def main() -> None:
        steps = 0
        while True:
            async with AsyncClient(base_url=server.url, model=MODEL) as client:
                finished = await attempt(client, steps)
                assert (await client.run("Go.", Toolkit(fine))).text == "Ok."
            assert asyncio.all_tasks() == {asyncio.current_task()}
            if finished:
                return
            steps += 1 if steps < 40 else 37

    asyncio.run(main())


def test_a_cancel_by_the_consumer_is_obeyed_before_the_next_event_of_the_same_read(connect, serve):
    seen, cancel = [], Cancel()

    def on_event(event: StreamEvent) -> None:
        seen.append(event)
        cancel.cancel()

    server = serve(reply(b"".join([*text("one", "two", "three"), finish(), done()])))
    with pytest.raises(RunCancelledError):
        connect(server).stream("Go.", on_event=on_event, cancel=cancel)
    assert [event.type for event in seen] == ["text"]
