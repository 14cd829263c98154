"""The conversation of the demo: a weather tool, and three worked examples of its use.

A model of 135 million parameters does not call tools when told to; it imitates. With the examples before the
question and temperature 0 it calls the tool and repeats what the tool said. The figure the tool gives is drawn for
each run and stands in no example, so an answer that contains it was grounded and not made up.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Literal

Unit = Literal["celsius", "fahrenheit"]

CITIES: Final = (
    "Chennai",
    "Pune",
    "Lisbon",
    "Lima",
    "Toronto",
    "Sydney",
    "Hanoi",
    "Prague",
    "Warsaw",
    "Dakar",
    "Bogota",
    "Dublin",
)
"""Cities to ask about. The model respells some others: a weather report for Brussels becomes one for Belgium."""

FIGURES: Final = (7, 12, 16, 21, 23, 27, 29, 31)
"""Temperatures to draw from; none of them stands in an example."""


def question(city: str) -> str:
    """The prompt about one city, in the words of the examples."""
    return f"What is the weather in {city}?"


def weather_tool(figure: int) -> Callable[[str, Unit], str]:
    """Make a `get_weather` tool whose thermometer shows `figure`, in whatever unit it is asked for."""

    def get_weather(city: str, unit: Unit) -> str:
        """Tell the weather in a city right now.

        Args:
            city: Name of the city, as the user wrote it.
            unit: Unit of the temperature.
        """
        return f"{figure} degrees {unit} in {city}"

    return get_weather


def _example(number: int, city: str, figure: int) -> list[dict[str, Any]]:  # Any: OpenAI's own message shape
    arguments = json.dumps({"city": city, "unit": "celsius"})
    call = {"id": f"example-{number}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    return [
        {"role": "user", "content": question(city)},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"example-{number}", "content": f"{figure} degrees celsius in {city}"},
        {"role": "assistant", "content": f"It is {figure} degrees celsius in {city}."},
    ]


EXAMPLES: Final[list[dict[str, Any]]] = [  # Any: as above
    *_example(1, "Bergen", 4),
    *_example(2, "Quito", 18),
    *_example(3, "Nagoya", 35),
]
"""The worked examples as OpenAI-shaped messages, for `history=` or a conversation store."""
