from __future__ import annotations

import json

from toolnexus import Toolkit, from_openai, to_openai
from toolnexus.demo.weather import CITIES, EXAMPLES, FIGURES, question, weather_tool


def test_no_example_gives_the_figure_or_the_city_away():
    text = json.dumps(EXAMPLES)
    assert not [figure for figure in FIGURES if str(figure) in text]
    assert not [city for city in CITIES if city in text]


def test_the_examples_are_what_the_tool_would_have_said():
    call, result, answer = EXAMPLES[1], EXAMPLES[2], EXAMPLES[3]
    arguments = json.loads(call["tool_calls"][0]["function"]["arguments"])
    assert weather_tool(4)(arguments["city"], arguments["unit"]) == result["content"]
    assert result["content"] in answer["content"]
    assert EXAMPLES[0]["content"] == question(arguments["city"])


def test_the_examples_are_balanced_and_survive_the_neutral_transcript():
    again = to_openai(from_openai(EXAMPLES))
    assert [message["role"] for message in again] == ["user", "assistant", "tool", "assistant"] * 3
    assert [message.get("content") or None for message in again] == [message["content"] for message in EXAMPLES]


def test_the_unit_is_a_choice():
    (tool,) = Toolkit(weather_tool(7)).to_openai()
    assert tool["function"]["parameters"]["properties"]["unit"]["enum"] == ["celsius", "fahrenheit"]
