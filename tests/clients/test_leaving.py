"""Leaving a stream where it is, and going on: no noise, no slot of a pool lost, a history that can be sent."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL, new_client
from tests.server import (
    Gate,
    Response,
    Server,
    calls,
    delta,
    done,
    failure,
    finish,
    reply,
    says,
    text,
    usage,
)
from tests.validators import anthropic, openai
from toolnexus import AsyncClient, RateLimitError, SyncClient, Toolkit, define_tool, from_openai

Serve = Callable[..., Server]


def quietly(work: Callable[[list[Any]], Any]) -> list[Any]:
    """Run it; what it returns is what the event loop had to complain of."""
    noise: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        await work(noise)
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(main())
    gc.collect()
    return noise


WAITS: dict[str, Callable[[Gate], Response]] = {
    "the status line": lambda gate: Response(before=gate),
    "the first event": lambda gate: reply(gate),
    "the next event": lambda gate: reply(text("Hel"), gate),
    "a tool": lambda gate: calls(("c1", "look", "{}")),
    "another try": lambda gate: failure(503, retry_after="30"),
    "the end mark": lambda gate: reply(text("Hello."), finish(), gate),
}


@pytest.mark.case("api-aclose-while-suspended-in-finally")
@pytest.mark.parametrize("wait", WAITS)
def test_a_stream_is_closed_twice_while_it_waits_for_anything(serve: Serve, wait: str) -> None:
    gate = Gate()
    server = serve(WAITS[wait](gate), says("Next."))
    begun = asyncio.Event()

    async def look() -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    async def work(noise: list[Any]) -> None:
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            events = client.stream("Go.", Toolkit(define_tool(look)))

            async def read() -> None:
                async for _ in events:
                    pass

            reading = asyncio.create_task(read())
            if wait == "a tool":
                await begun.wait()
            elif wait == "another try":
                await asyncio.to_thread(server.wait_for_requests, 1)
            else:
                await asyncio.to_thread(gate.wait_reached)
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            await events.aclose()
            await events.aclose()
            assert [event async for event in events] == []
            assert (await client.run("Next?")).text == "Next."

    assert quietly(work) == []


@pytest.mark.case("api-aclose-while-suspended-in-finally")
def test_a_stream_that_was_never_read_or_is_over_is_closed_twice(serve: Serve) -> None:
    server = serve(says("Hi."))

    async def work(noise: list[Any]) -> None:
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            unread, read = client.stream("Never."), client.stream("Go.")
            assert [event.type async for event in read] == ["text", "done"]
            for events in (unread, read):
                await events.aclose()
                await events.aclose()

    assert quietly(work) == []
    assert len(server.requests) == 1


@pytest.mark.case("api-nested-generators-closed-in-order")
def test_fifty_streams_broken_out_of_and_collected_make_no_noise(serve: Serve) -> None:
    server = serve(*[reply(text("Hel"), Gate())] * 50, says("Next."))

    async def work(noise: list[Any]) -> None:
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            for _ in range(50):
                async for _ in client.stream("Go."):
                    break
            gc.collect()
            for request in server.requests:
                await asyncio.to_thread(request.wait_left)
            assert (await client.run("Next?")).text == "Next."

    assert quietly(work) == []


@pytest.mark.case("api-error-response-releases-connection")
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
def test_error_replies_use_up_no_connection_of_a_callers_pool(
    serve: Serve, kind_of_client: str, streamed: bool
) -> None:
    server = serve(*[failure(429)] * 10, says("Here."))
    limits = httpx.Limits(max_connections=2)
    http_client: Any = (httpx.Client if kind_of_client == "sync" else httpx.AsyncClient)(limits=limits, timeout=5)
    with new_client(kind_of_client, server, http_client=http_client, retries=0) as client:
        ask = client.stream if streamed else client.run
        for _ in range(10):
            with pytest.raises(RateLimitError):
                ask("Go.")
        assert ask("Go.").text == "Here."
        if isinstance(client, SyncClient):
            http_client.close()
        else:
            client.runner.run(http_client.aclose())


@pytest.fixture(params=["sync", "async"])
def kind_of_client(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.mark.case("retry-usage-of-failed-attempt-not-counted-twice")
def test_the_usage_of_a_try_that_broke_off_does_not_count(connect: Any, serve: Serve) -> None:
    broken = reply(delta(role="assistant"), usage(7, 1, 8), end="reset")
    server = serve(broken, reply(text("Yes."), finish(), usage(10, 2, 12), done()))
    result = connect(server).stream("Go.")
    assert (result.usage.prompt_tokens, result.usage.completion_tokens, result.usage.total_tokens) == (10, 2, 12)
    assert len(result.usage.raw) == 1


ONE_ROUND: list[dict[str, Any]] = [
    {"role": "user", "content": "Look."},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}} for id in ("c1", "c2")
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    {"role": "tool", "tool_call_id": "c2", "content": "seen, too"},
    {"role": "assistant", "content": "Seen."},
]


@pytest.mark.case("api-history-trim-keeps-pairs")
@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_a_history_that_was_cut_anywhere_is_one_that_the_api_takes(connect: Any, serve: Serve, style: str) -> None:
    """Of four rounds the last n messages, for every n: no result without its call, no call without its result."""
    whole = from_openai(ONE_ROUND * 4)
    answer = says("Ok.") if style == "openai" else failure(401)  # only what is sent counts
    server = serve(*[answer] * len(whole))
    client = connect(server, style=style, retries=0)
    for keep in range(1, len(whole) + 1):
        with contextlib.suppress(Exception):
            client.run("And?", history=whole[-keep:])
        body = server.requests[-1].json
        assert len(server.requests) == keep
        (openai if style == "openai" else anthropic).check(body)
        assert "And?" in str(body["messages"][-1])
