from __future__ import annotations

import asyncio
import enum
import json
import math
import types
import uuid
from collections import ChainMap
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest
from pydantic import BaseModel, model_serializer

from toolnexus.messages import ImagePart, TextPart
from toolnexus.suspension import pending
from toolnexus.tool import ToolInputError, ToolResult
from toolnexus.tools.output import failure, to_result

IMAGE = ImagePart(url="https://x/y.png")


class Color(enum.Enum):
    RED = "red"


class Name(str, enum.Enum):  # noqa: UP042  # unlike a StrEnum its str() is "Name.RED"
    RED = "red"


class Model(BaseModel):
    when: date = date(2024, 1, 2)


@dataclass
class Point:
    x: int = 1


def sent(value: object) -> Any:
    """What the model gets, and it is no error."""
    result = to_result(value)
    assert isinstance(result, ToolResult)
    assert not result.is_error, result
    return result.output


def refused(value: object) -> str:
    result = to_result(value)
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert isinstance(result.output, str)
    return result.output


def test_text_is_sent_as_it_is() -> None:
    assert sent("ä\n{}") == "ä\n{}"
    assert sent(Name.RED) == "red"
    assert sent(None) == ""


def test_lone_surrogates_are_replaced_and_halves_joined() -> None:
    assert sent("a\ud800b") == "a\ufffdb"
    assert sent("\ud83d\ude00\udc00") == "😀\ufffd"
    assert json.loads(sent({"a": "\ud800"})) == {"a": "\ufffd"}


@pytest.mark.case("api-tool-key-types")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (5, "5"),
        (2.5, "2.5"),
        ([], "[]"),
        (["ä", None, (1,)], '["ä",null,[1]]'),
        ({"a": 1}, '{"a":1}'),
        (
            {1: "a", (1, 2): "b", None: "c", False: "d"},
            '{"1":"a","1,2":"b","None":"c","false":"d"}',
        ),
        ({"a": {3}}, '{"a":[3]}'),
        (Model(), '{"when":"2024-01-02"}'),
        ([Point()], '[{"x":1}]'),
        (date(2024, 1, 2), '"2024-01-02"'),
        (datetime(2024, 1, 2, tzinfo=UTC), '"2024-01-02T00:00:00Z"'),
        (Decimal("1.50"), '"1.50"'),
        (PurePosixPath("/a"), '"/a"'),
        (Color.RED, '"red"'),
        (uuid.UUID(int=0), '"00000000-0000-0000-0000-000000000000"'),
        (types.MappingProxyType({"a": 1}), '{"a":1}'),
        (ChainMap({"a": 1}), '{"a":1}'),
        (range(2), "[0,1]"),
        ({"a": 1}.keys(), '["a"]'),
    ],
)
def test_anything_else_is_sent_as_json(value: object, text: str) -> None:
    assert sent(value) == text


def test_what_json_has_no_number_for_is_null() -> None:
    assert json.loads(sent({"a": [math.nan, math.inf, -math.inf]})) == {"a": [None, None, None]}
    assert sent(math.nan) == "null"


def test_parts_stay_parts() -> None:
    assert sent(IMAGE) == (IMAGE,)
    assert sent(TextPart("a\ud800")) == (TextPart("a\ufffd"),)
    assert sent([TextPart("a"), "b", IMAGE]) == (TextPart("a"), TextPart("b"), IMAGE)
    assert sent((IMAGE,)) == (IMAGE,)


def test_a_list_of_parts_holds_nothing_else() -> None:
    assert "int" in refused([IMAGE, 5])


def test_a_tool_result_is_kept_and_its_output_made_sendable() -> None:
    assert to_result(ToolResult("a", is_error=True, metadata={"n": 1})) == ToolResult("a", True, {"n": 1})
    assert sent(ToolResult([1])) == "[1]"  # type: ignore[arg-type]  # what users do all the same
    assert sent(ToolResult("\ud800")) == "\ufffd"
    assert to_result(ToolResult(b"a", metadata={"n": 1})) == ToolResult(  # type: ignore[arg-type]  # as above
        refused(b"a"), True, {"n": 1}
    )
    for value in ([pending("x")], (1, pending("x")), {"a": pending("x")}):
        assert "return pending(...) itself" in refused(value)
    assert "ToolResult" in refused(ToolResult(pending("x")))  # type: ignore[arg-type]  # as above


def test_a_suspension_is_passed_on() -> None:
    suspension = pending("Sure?")
    assert to_result(suspension) is suspension


@pytest.mark.parametrize("value", [b"a", bytearray(b"a"), memoryview(b"a")])
def test_bytes_are_refused(value: object) -> None:
    assert "ImagePart" in refused(value)


@pytest.mark.case("api-tool-returns-generator-or-coroutine")
def test_what_would_have_to_be_run_is_refused() -> None:
    async def coroutine() -> str:
        return "a"

    async def agen() -> AsyncIterator[str]:
        yield "a"

    def gen() -> Iterator[str]:
        yield "a"

    loop = asyncio.new_event_loop()
    for value in (gen(), (x for x in "ab"), agen(), coroutine(), loop.create_future()):
        assert "object at" not in refused(value)
    loop.close()


def test_what_is_no_data_is_refused() -> None:
    class Broken(BaseModel):
        @model_serializer
        def dump(self) -> None:
            raise KeyError("boom")

    circle: list[object] = []
    circle.append(circle)
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    for value in (object(), ValueError("x"), int, Broken(), circle, deep, [b"\xff"], 10**5000):
        assert "cannot be sent" in refused(value)


def test_a_failure_is_told_by_type_and_message() -> None:
    assert failure(ValueError("no such city"), "get") == ToolResult("get failed: ValueError: no such city", True)


def test_arguments_that_do_not_fit_are_told_in_their_own_words() -> None:
    assert failure(ToolInputError("x: required"), "get").output == "x: required"


@pytest.mark.case("api-tool-exception-str-empty-or-bad")
def test_a_failure_without_words_is_told_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert failure(Mute(), "get").output == "get failed: Mute"
    assert failure(ValueError(), "get").output == "get failed: ValueError"


def test_a_long_failure_is_cut_and_can_be_sent() -> None:
    output = failure(ValueError("\ud800" * 10_000), "get").text
    assert len(output) == 2000
    output.encode()
