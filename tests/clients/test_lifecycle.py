"""Clients in the wild: shared by threads and tasks, in several event loops, closed, copied."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from tests.clients.harness import MODEL, Blocking, new_client
from tests.server import PATIENCE_S, Gate, Request, Response, calls, reply, says, text
from toolnexus import (
    AsyncClient,
    Cancel,
    Chunk,
    Hooks,
    RunCancelledError,
    StreamEvent,
    SyncClient,
    Toolkit,
    define_tool,
    tool,
)


def echo(request: Request) -> Response:
    """Answer with the prompt, in two pieces."""
    prompt = request.json["messages"][-1]["content"]
    return says(prompt[:3], prompt[3:])


@pytest.mark.case("api-one-client-many-threads")
def test_threads_share_a_client(serve):
    server = serve(echo)
    wrong: list[Any] = []

    def work(client: SyncClient, name: str) -> None:
        for n in range(20):
            prompt = f"{name}-{n}"
            seen: list[StreamEvent] = []
            result = client.stream(prompt, on_event=seen.append)
            if result.text != prompt or "".join(e.delta for e in seen if e.type == "text") != prompt:
                wrong.append((prompt, result.text, seen))

    with SyncClient(base_url=server.url, model=MODEL) as client:
        threads = [threading.Thread(target=work, args=(client, f"thread{n}")) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(server.requests) == 160
    assert server.connections <= 8


def test_tasks_share_a_client(serve):
    server = serve(echo)

    async def one(client: AsyncClient, prompt: str) -> str:
        seen = ""
        async with client.stream(prompt) as events:
            async for event in events:
                if event.type == "text":
                    seen += event.delta
            assert events.result.text == seen
        return seen

    async def main() -> list[str]:
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            return await asyncio.gather(*(one(client, f"prompt-{n}") for n in range(50)))

    assert asyncio.run(main()) == [f"prompt-{n}" for n in range(50)]


@pytest.mark.case("api-event-loop-closed-second-asyncio-run")
def test_an_async_client_works_in_several_event_loops_one_after_the_other(serve):
    server = serve(echo)
    noise: list[Any] = []
    client = AsyncClient(base_url=server.url, model=MODEL)

    async def main(prompt: str) -> str:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        return (await client.run(prompt)).text

    async def last() -> str:
        async with client:
            return await main("three")

    assert [asyncio.run(main("one")), asyncio.run(main("two")), asyncio.run(last())] == ["one", "two", "three"]
    gc.collect()
    assert noise == []


def test_an_async_client_is_closed_in_another_loop_than_it_was_used_in(serve):
    server = serve(echo)
    client = AsyncClient(base_url=server.url, model=MODEL)
    asyncio.run(client.run("one"))  # the connection ends with its loop
    server.wait_all_closed()
    asyncio.run(client.aclose())


@pytest.mark.case("api-cancel-scope-other-task")
def test_an_async_stream_may_be_stepped_from_different_tasks(serve):
    server = serve(calls(("c1", "look", "{}")), says("Se", "en."))

    async def main() -> list[str]:
        look = define_tool(lambda: "seen", name="look")
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            events = client.stream("Go.", Toolkit(look))
            seen = []

            async def step() -> Any:
                return await anext(events, None)

            while (event := await asyncio.create_task(step())) is not None:
                seen.append(event.type)
            await asyncio.create_task(events.aclose())
            return seen

    assert asyncio.run(main()) == ["tool_call", "tool_result", "text", "text", "done"]


@pytest.mark.case("api-cancel-scope-other-task")
def test_an_async_stream_may_be_stepped_with_a_time_limit(serve):
    gate = Gate()
    server = serve(reply(text("Hel"), gate))

    async def main() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            events = client.stream("Go.")
            assert (await asyncio.wait_for(anext(events), 5)).type == "text"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(events), 0.05)
            # The step was cancelled, and with it the run.
            assert await anext(events, None) is None
            await asyncio.to_thread(server.requests[0].wait_left)

    asyncio.run(main())


def test_the_sync_client_works_inside_a_running_event_loop(serve):
    server = serve(calls(("c1", "shout", "{}")), says("HEY."))

    async def shout() -> str:
        await asyncio.sleep(0)
        return "HEY"

    async def main() -> str:
        with SyncClient(base_url=server.url, model=MODEL) as client:
            return client.stream("Go.", Toolkit(define_tool(shout, name="shout"))).text

    assert asyncio.run(main()) == "HEY."


@pytest.mark.case("api-sync-call-with-closed-current-loop")
def test_the_sync_client_does_not_mind_a_closed_current_event_loop(serve):
    server = serve(calls(("c1", "shout", "{}")), says("HEY."))

    async def shout() -> str:
        return "HEY"

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.close()
    try:
        with SyncClient(base_url=server.url, model=MODEL) as client:
            assert client.stream("Go.", Toolkit(define_tool(shout, name="shout"))).text == "HEY."
    finally:
        asyncio.set_event_loop(None)


def test_a_closed_client_refuses_new_runs_and_may_be_closed_again(connect, serve):
    server = serve(says("Hi."))
    client = connect(server)
    client.stream("Hi?")
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.stream("Hi?")
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.run("Hi?")
    assert len(server.requests) == 1


def test_a_client_that_was_never_used_can_be_closed(connect):
    connect(base_url="http://127.0.0.1:1").close()


def test_closing_a_sync_client_ends_the_runs_of_other_threads(serve):
    gate = Gate()
    server = serve(reply(text("Hel"), gate))
    client = new_client("sync", server)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            client.stream("Go.")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    gate.wait_reached()
    client.close()
    thread.join()
    assert [str(error) for error in errors] == ["the client was closed"]
    assert isinstance(errors[0], RunCancelledError)
    server.requests[0].wait_left()


def test_closing_an_async_client_ends_the_runs_of_other_tasks(serve):
    gate = Gate()
    server = serve(reply(text("Hel"), gate))

    async def main() -> None:
        client = AsyncClient(base_url=server.url, model=MODEL)
        run = asyncio.create_task(client.run("Go."))
        await asyncio.to_thread(gate.wait_reached)
        await client.aclose()
        with pytest.raises(RunCancelledError, match="the client was closed"):
            await run

    asyncio.run(main())


def test_closing_a_sync_client_cancels_its_async_tools(serve):
    entered, cleaned = threading.Event(), threading.Event()

    @tool
    async def stay() -> str:
        """Wait for ever."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return "never"

    server = serve(calls(("c1", "stay", "{}")))
    client = new_client("sync", server)
    cancel = Cancel()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            client.stream("Go.", Toolkit(stay), cancel=cancel)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(PATIENCE_S)
    client.close()
    assert cleaned.wait(PATIENCE_S)
    thread.join()
    cancel.cancel()  # late: there is nobody left to hear it
    assert isinstance(errors[0], RunCancelledError)


@pytest.mark.parametrize("awaited_before", [True, False])
def test_what_an_observer_would_have_awaited_is_closed_with_the_client(serve, caplog, awaited_before):
    heard: list[Any] = []
    told = threading.Event()

    async def later(chunk: Chunk) -> None:
        heard.append(chunk.type)
        told.set()

    def observer(chunk: Chunk) -> object:
        return later(chunk) if awaited_before or chunk.type == "finish" else None

    server = serve(reply(text("Hel"), Gate()))
    client = new_client("sync", server, hooks=Hooks(on_chunk=observer))
    events = client.iter_events("Hi?")
    next(events)
    assert not awaited_before or told.wait(PATIENCE_S)
    client.close()
    with pytest.raises(RunCancelledError):
        list(events)
    gc.collect()  # a coroutine that was forgotten says so, and a warning is an error
    assert heard == (["content"] if awaited_before else [])
    assert "RuntimeError: the client is closed" in caplog.text


def test_a_client_closed_between_two_turns_sends_nothing_more(connect, serve):
    server = serve(calls(("c1", "look", "{}")), says("Never."))
    client = connect(server)
    events = client.iter_events("Go.", Toolkit(define_tool(lambda: "seen", name="look")))
    assert [next(events).type, next(events).type] == ["tool_call", "tool_result"]
    client.close()
    with pytest.raises(RunCancelledError, match="the client was closed"):
        list(events)
    assert len(server.requests) == 1


@pytest.mark.case("api-pickle-copy-client")
@pytest.mark.parametrize("copies", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_cannot_be_copied(connect, copies):
    with pytest.raises(TypeError, match="make a new one instead of copying or pickling it"):
        copies(connect(base_url="http://127.0.0.1:1", api_key="sk-secret"))


@pytest.mark.case("api-pickle-copy-client")
def test_results_and_events_can_be_copied(play, serve):
    played = play(serve(calls(("c1", "look", "{}")), says("Seen.")), "Go.", define_tool(lambda: "seen", name="look"))
    result = played.ended()
    assert pickle.loads(pickle.dumps(result)) == result
    assert pickle.loads(pickle.dumps(played.events)) == played.events
    assert copy.deepcopy(result) == result
    assert type(result).model_validate_json(result.model_dump_json()) == result


def test_no_thread_or_task_is_left_after_the_last_client_is_closed(serve):
    @tool
    async def here() -> str:
        """Be on the loop."""
        return "here"

    before = set(threading.enumerate())
    server = serve(*[calls(("c1", "here", "{}"), ("c2", "there", "{}")), says("Ok.")] * 2)
    toolkit = Toolkit(here, define_tool(lambda: "there", name="there"))
    with SyncClient(base_url=server.url, model=MODEL) as client:
        client.stream("Go.", toolkit)
    with Blocking(base_url=server.url, model=MODEL) as other:
        other.stream("Go.", toolkit)
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("toolnexus")]
    for thread in left:
        thread.join(10)
    assert not any(thread.is_alive() for thread in left)


def in_a_process(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *args], capture_output=True, text=True, timeout=60
    )


@pytest.mark.case("api-tool-timeout")
def test_a_tool_that_never_returns_does_not_keep_the_process_alive(serve):
    server = serve(*[calls(("c1", "stay", "{}")), says("Ok.")] * 2)
    code = """
        import asyncio, sys, threading, toolnexus
        stay = toolnexus.define_tool(lambda: threading.Event().wait(), name="stay", timeout=0.05)
        with toolnexus.SyncClient(base_url=sys.argv[1], model="m") as client:
            print(client.stream("Go.", toolnexus.Toolkit(stay)).text)
        async def main():
            async with toolnexus.AsyncClient(base_url=sys.argv[1], model="m") as client:
                print((await client.run("Go.", toolnexus.Toolkit(stay))).text)
        asyncio.run(main())
    """
    run = in_a_process(code, server.url)
    assert (run.stdout.split(), run.stderr, run.returncode) == (["Ok.", "Ok."], "", 0)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork on this system")
def test_a_sync_client_works_in_a_forked_child(serve):
    server = serve(echo)
    code = """
        import os, sys, toolnexus
        client = toolnexus.SyncClient(base_url=sys.argv[1], model="m")
        child = os.fork()
        text = client.stream("child." if child == 0 else "parent.").text
        os.write(1, f"{text}\\n".encode())  # in one piece: both write to one pipe
        client.close()
        if child:
            os.waitpid(child, 0)
    """
    run = in_a_process(code, server.url)
    assert (sorted(run.stdout.split()), run.stderr) == (["child.", "parent."], "")
