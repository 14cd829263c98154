"""Other libraries on the same work, those of them that are installed; `nox -s bench -- --peers` installs the SDKs.

Each is used as its own documentation shows it, with the loop over tool calls written here where it has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import Iterator
from typing import Any

from .subjects import LIMIT, PROMPT, Job, Place, Subject, get_weather, running

_PARAMETERS = get_weather.input_schema
_OPENAI_TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Weather for a city.", "parameters": _PARAMETERS},
    }
]


def peers(style: str, *, tools: bool, is_async: bool) -> dict[str, Subject]:
    """The installed ones that can do this."""
    known: dict[str, Subject] = {}
    if style == "openai" and is_installed("openai"):
        known["openai-python"] = openai_async if is_async else openai_sync
    if style == "anthropic" and is_installed("anthropic") and not is_async:
        known["anthropic"] = anthropic_runner if tools else anthropic_raw
    return known


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


class _Answer:
    """One response of openai-python, put together by hand."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: dict[int, dict[str, Any]] = {}

    def receive(self, chunk: Any) -> None:
        for choice in chunk.choices:
            if choice.delta.content:
                self.texts.append(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                known = self.calls.setdefault(call.index, {"id": "", "name": "", "arguments": []})
                known["id"] = call.id or known["id"]
                known["name"] = call.function.name or known["name"]
                known["arguments"].append(call.function.arguments or "")

    def extend(self, messages: list[Any]) -> None:
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
            }
            for call in self.calls.values()
        ]
        messages.append({"role": "assistant", "content": "".join(self.texts) or None, "tool_calls": calls})
        for call in calls:
            json.loads(call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "31C"})


def _openai_options(place: Place, messages: list[Any]) -> dict[str, Any]:
    tools = {"tools": _OPENAI_TOOLS} if place.scenario.has_tools else {}
    return {"model": "mock-1", "messages": messages, "stream": True, "stream_options": {"include_usage": True}, **tools}


@contextlib.contextmanager
def openai_sync(place: Place) -> Iterator[Job]:
    """`chat.completions.create(stream=True)`."""
    import openai

    with openai.OpenAI(base_url=place.base_url, api_key="k") as client:

        def job() -> int:
            messages: list[Any] = [{"role": "user", "content": PROMPT}]
            for turn in range(1, LIMIT):
                answer = _Answer()
                for chunk in client.chat.completions.create(**_openai_options(place, messages)):
                    answer.receive(chunk)
                if not answer.calls:
                    return turn if place.scenario.has_tools else len(answer.texts)
                answer.extend(messages)
            raise RuntimeError("the run did not end")

        yield job


@contextlib.contextmanager
def openai_async(place: Place) -> Iterator[Job]:
    """The same with `AsyncOpenAI`."""
    import openai

    client = openai.AsyncOpenAI(base_url=place.base_url, api_key="k")
    with running(lambda: _openai_run(client, place), client.close) as run:
        yield run


def openai_many(streams: int) -> Subject:
    """So many at once."""

    @contextlib.contextmanager
    def many(place: Place) -> Iterator[Job]:
        import openai

        client = openai.AsyncOpenAI(base_url=place.base_url, api_key="k", timeout=60)

        async def job() -> int:
            return min(await asyncio.gather(*(_openai_run(client, place) for _ in range(streams))))

        with running(job, client.close) as run:
            yield run

    return many


async def _openai_run(client: Any, place: Place) -> int:
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    for turn in range(1, LIMIT):
        answer = _Answer()
        async for chunk in await client.chat.completions.create(**_openai_options(place, messages)):
            answer.receive(chunk)
        if not answer.calls:
            return turn if place.scenario.has_tools else len(answer.texts)
        answer.extend(messages)
    raise RuntimeError("the run did not end")


@contextlib.contextmanager
def anthropic_raw(place: Place) -> Iterator[Job]:
    """`messages.create(stream=True)`."""
    import anthropic

    with anthropic.Anthropic(base_url=place.base_url, api_key="k") as client:

        def job() -> int:
            count = 0
            messages: list[Any] = [{"role": "user", "content": PROMPT}]
            for event in client.messages.create(model="mock-1", max_tokens=8192, messages=messages, stream=True):
                if event.type == "content_block_delta" and event.delta.type == "text_delta":
                    count += 1
            return count

        yield job


@contextlib.contextmanager
def anthropic_runner(place: Place) -> Iterator[Job]:
    """`beta.messages.tool_runner(stream=True)`."""
    import anthropic

    @anthropic.beta_tool(name="get_weather")
    def weather(city: str, days: int = 1, unit: str = "celsius") -> str:
        """Weather for a city."""
        return "31C"

    with anthropic.Anthropic(base_url=place.base_url, api_key="k") as client:

        def job() -> int:
            turns = 0
            messages: list[Any] = [{"role": "user", "content": PROMPT}]
            runner = client.beta.messages.tool_runner(
                model="mock-1", max_tokens=8192, messages=messages, tools=[weather], stream=True
            )
            for stream in runner:
                for _ in stream:
                    pass
                turns += 1
            return turns

        yield job
