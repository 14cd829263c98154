"""The same tool loops through the engine's `/v1/messages`: Anthropic's format, from somebody else's hand."""

from __future__ import annotations

import asyncio

import pytest

from tests.real.test_engine import (
    Draw,
    assert_events_tell,
    assert_grounded,
    streamed_or_not,
)
from tests.real.test_engine import draws as draws
from tests.real.test_engine import engine as engine
from toolnexus import AsyncClient, MemoryStore, StreamEvent, SyncClient, Toolkit, from_openai, to_anthropic
from toolnexus.config import Style
from toolnexus.demo.engine import LocalEngine
from toolnexus.demo.weather import EXAMPLES, question, weather_tool


@streamed_or_not
def test_a_sync_conversation_is_grounded_twice(engine: LocalEngine, draws: list[Draw], streamed: bool):
    with SyncClient(base_url=engine.base_url, model=engine.model, style="anthropic") as client:
        client.conversation_store().save("weather", from_openai(EXAMPLES))
        for turn, (city, figure) in enumerate(draws):
            prompt, toolkit, events = question(city), Toolkit(weather_tool(figure)), list[StreamEvent]()
            if streamed:
                result = client.stream(prompt, toolkit, events.append, id="weather", temperature=0)
                assert_events_tell(result, events)
            else:
                result = client.ask(prompt, toolkit, id="weather", temperature=0)
            assert_grounded(result, city, figure, turn)
        assert client.conversation_store().get("weather") == result.messages


@streamed_or_not
def test_an_async_conversation_is_grounded_twice(engine: LocalEngine, draws: list[Draw], streamed: bool):
    async def converse() -> None:
        async with AsyncClient(base_url=engine.base_url, model=engine.model, style="anthropic") as client:
            client.conversation_store().save("weather", from_openai(EXAMPLES))
            for turn, (city, figure) in enumerate(draws):
                prompt, toolkit = question(city), Toolkit(weather_tool(figure))
                if streamed:
                    async with client.stream(prompt, toolkit, id="weather", temperature=0) as stream:
                        events = [event async for event in stream]
                    result = stream.result
                    assert_events_tell(result, events)
                else:
                    result = await client.ask(prompt, toolkit, id="weather", temperature=0)
                assert_grounded(result, city, figure, turn)
            assert client.conversation_store().get("weather") == result.messages

    asyncio.run(converse())


def test_a_conversation_may_change_the_style_at_every_turn(engine: LocalEngine, draws: list[Draw]):
    store = MemoryStore()
    store.save("weather", from_openai(EXAMPLES))
    for turn, (city, figure) in enumerate(draws):
        style: Style = "anthropic" if turn else "openai"
        with SyncClient(base_url=engine.base_url, model=engine.model, style=style, store=store) as client:
            result = client.stream(question(city), Toolkit(weather_tool(figure)), id="weather", temperature=0)
            assert_grounded(result, city, figure, turn)


def test_history_may_have_anthropics_shape(engine: LocalEngine, draws: list[Draw]):
    (city, figure), _ = draws
    system, history = to_anthropic(from_openai(EXAMPLES))
    assert system is None
    with SyncClient(base_url=engine.base_url, model=engine.model, style="anthropic") as client:
        result = client.run(question(city), Toolkit(weather_tool(figure)), history=history, temperature=0)
    assert_grounded(result, city, figure, 0)


@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_that_is_cut_is_incomplete(engine: LocalEngine, streamed: bool):
    with SyncClient(base_url=engine.base_url, model=engine.model, style="anthropic") as client:
        run = client.stream if streamed else client.run
        result = run("Tell me a long story about the sea.", max_tokens=5)
        assert (result.status, result.limit, result.finish_reason) == ("incomplete", "max_tokens", "length")
        assert result.text
        assert result.usage.completion_tokens == 5


def test_a_stream_left_early_does_not_hold_the_engine_up(engine: LocalEngine):
    with SyncClient(base_url=engine.base_url, model=engine.model, style="anthropic") as client:
        with client.iter_events("Tell me a long story about the sea.", max_tokens=4000) as events:
            assert next(events).type == "text"
        assert client.run("Hello!", max_tokens=8).text
