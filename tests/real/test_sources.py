"""One run of a real model with tools from three places: a skill, a function, and an MCP server."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.real.test_engine import engine  # noqa: F401  # the fixture
from toolnexus import Skill, SyncClient, Toolkit, tool
from toolnexus.demo.engine import LocalEngine

if os.environ.get("TOOLNEXUS_REQUIRE_REAL") != "1":
    pytest.importorskip("mcp")

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("desk")

@server.tool()
def number(city: str) -> str:
    "The phone number of the office in a city."
    return "number {number}"

server.run()
"""
REPORT = Skill("report", "How to report.", "Say the figure and the number.")
LOADED = "# Skill: report\n\nSay the figure and the number."
# In no example. With 23 or 29 degrees the model takes the figure for the number: it has 135 million parameters.
FIGURES = (7, 16, 21, 27, 31)
NUMBERS = (8642, 3517, 7726)
CITIES = ("Dublin", "Chennai", "Hanoi", "Prague")


def example(at: int, city: str, figure: int, number: int) -> list[dict[str, Any]]:
    """A report as the model is to make it, in OpenAI's shape."""
    steps = [
        ("skill", {"name": "report"}, LOADED),
        ("get_weather", {"city": city}, f"{figure} degrees in {city}"),
        ("desk_number", {"city": city}, f"number {number}"),
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Report on {city}."}]
    for name, args, output in steps:
        id = f"{name}-{at}"
        call = {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": id, "content": output})
    return [
        *messages,
        {"role": "assistant", "content": f"It is {figure} degrees in {city}, and the number is {number}."},
    ]


EXAMPLES = [*example(1, "Oslo", 12, 4711), *example(2, "Lima", 25, 2233), *example(3, "Rome", 19, 9090)]


def test_one_run_uses_a_skill_a_function_and_an_mcp_server(engine: LocalEngine, tmp_path: Path):  # noqa: F811  # the fixture
    city, figure, number = random.choice(CITIES), random.choice(FIGURES), random.choice(NUMBERS)

    @tool
    def get_weather(city: str) -> str:
        """Weather for a city."""
        return f"{figure} degrees in {city}"

    script = tmp_path / "desk.py"
    script.write_text(SERVER.format(number=number))
    servers = {"mcpServers": {"desk": {"command": sys.executable, "args": [str(script)]}}}
    with (
        Toolkit(get_weather, skills=[REPORT], mcp=servers) as toolkit,
        SyncClient(base_url=engine.base_url, model=engine.model) as client,
    ):
        result = client.stream(f"Report on {city}.", toolkit, history=EXAMPLES, temperature=0)
    assert [(call.name, call.output, call.is_error) for call in result.tool_calls] == [
        ("skill", LOADED, False),
        ("get_weather", f"{figure} degrees in {city}", False),
        ("desk_number", f"number {number}", False),
    ]
    assert (result.status, result.turns) == ("done", 4)
    assert str(figure) in result.text
    assert str(number) in result.text
