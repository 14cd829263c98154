"""Whole tool loops with a real model behind a real server, through both clients, streamed and not.

They need the model's packages and are skipped without them, unless `TOOLNEXUS_REQUIRE_REAL=1` says that they must run.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from toolnexus import AsyncClient, RunResult, StreamEvent, SyncClient, Toolkit, from_openai
from toolnexus.demo.engine import EngineMissing, LocalEngine
from toolnexus.demo.weather import CITIES, EXAMPLES, FIGURES, question, weather_tool

streamed_or_not = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "not streamed"])


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with ExitStack() as stack:
        try:
            running = stack.enter_context(LocalEngine())
        except EngineMissing as missing:
            if os.environ.get("TOOLNEXUS_REQUIRE_REAL") == "1":
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        yield running


Draw = tuple[str, int]


@pytest.fixture
def draws() -> list[Draw]:
    """Two cities to ask about and what their thermometers show: drawn anew, and in no example."""
    return list(zip(random.sample(CITIES, 2), random.sample(FIGURES, 2), strict=True))


@streamed_or_not
def test_a_sync_conversation_is_grounded_twice(engine: LocalEngine, draws: list[Draw], streamed: bool):
    with SyncClient(base_url=engine.base_url, model=engine.model, request_params={"temperature": 0}) as client:
        client.conversation_store().save("weather", from_openai(EXAMPLES))
        for turn, (city, figure) in enumerate(draws):
            prompt, toolkit, events = question(city), Toolkit(weather_tool(figure)), list[StreamEvent]()
            if streamed:
                result = client.stream(prompt, toolkit, events.append, id="weather")
                assert_events_tell(result, events)
            else:
                result = client.ask(prompt, toolkit, id="weather")
            assert_grounded(result, city, figure, turn)
        assert client.conversation_store().get("weather") == result.messages


@streamed_or_not
def test_an_async_conversation_is_grounded_twice(engine: LocalEngine, draws: list[Draw], streamed: bool):
    async def converse() -> None:
        params = {"temperature": 0}
        async with AsyncClient(base_url=engine.base_url, model=engine.model, request_params=params) as client:
            client.conversation_store().save("weather", from_openai(EXAMPLES))
            for turn, (city, figure) in enumerate(draws):
                prompt, toolkit = question(city), Toolkit(weather_tool(figure))
                if streamed:
                    async with client.stream(prompt, toolkit, id="weather") as stream:
                        events = [event async for event in stream]
                    result = stream.result
                    assert_events_tell(result, events)
                else:
                    result = await client.ask(prompt, toolkit, id="weather")
                assert_grounded(result, city, figure, turn)
            assert client.conversation_store().get("weather") == result.messages

    asyncio.run(converse())


def test_the_answer_comes_piece_by_piece(engine: LocalEngine, draws: list[Draw]):
    (city, figure), _ = draws
    with (
        SyncClient(base_url=engine.base_url, model=engine.model) as client,
        client.iter_events(
            question(city), Toolkit(weather_tool(figure)), history=EXAMPLES, request_params={"temperature": 0}
        ) as events,
    ):
        before_the_end = [event.delta for event in events if event.type == "text"]
    assert len(before_the_end) > 3
    assert str(figure) in "".join(before_the_end)


def test_a_stream_left_early_does_not_hold_the_engine_up(engine: LocalEngine):
    with SyncClient(base_url=engine.base_url, model=engine.model) as client:
        with client.iter_events("Tell me a long story about the sea.", request_params={"max_tokens": 4000}) as events:
            assert next(events).type == "text"
        assert client.run("Hello!", request_params={"max_tokens": 8}).text


def assert_grounded(result: RunResult, city: str, figure: int, turn: int) -> None:
    """One call with the right arguments, its result in the answer, and all of it on record."""
    (call,) = result.tool_calls
    assert (call.name, call.args, call.is_error) == ("get_weather", {"city": city, "unit": "celsius"}, False)
    assert call.output == f"{figure} degrees celsius in {city}"
    assert (result.status, result.finish_reason, result.turns) == ("done", "stop", 2)
    assert str(figure) in result.text
    assert city in result.text
    roles = [message.role for message in result.messages]
    assert roles == ["user", "assistant", "tool", "assistant"] * (len(EXAMPLES) // 4 + turn + 1)
    usage = result.usage
    assert (usage.prompt_tokens or 0) + (usage.completion_tokens or 0) == usage.total_tokens
    assert (usage.total_tokens or 0) > 0
    assert len(usage.raw) == result.turns


def assert_events_tell(result: RunResult, events: list[StreamEvent]) -> None:
    """The events of a streamed run: the call, its result, the answer, and the usage of each turn; then the end."""
    kinds = [event.type for event in events]
    told = [kind for kind in kinds if kind != "usage"]
    assert told == ["tool_call", "tool_result", *["text"] * kinds.count("text"), "done"]
    assert "".join(event.delta for event in events if event.type == "text") == result.text
    totals = [event.usage.total_tokens or 0 for event in events if event.type == "usage"]
    assert len(totals) == result.turns
    assert 0 < totals[0] < totals[1] == result.usage.total_tokens
    assert [event.result for event in events if event.type == "done"] == [result]
