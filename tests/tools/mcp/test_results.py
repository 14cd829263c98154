"""What a server gives back, as the result that a model gets."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.tools.mcp.conftest import official
from tests.tools.mcp.test_servers import Start, text
from toolnexus import ImagePart, TextPart, ToolResult
from toolnexus.tools.mcp.results import to_tool_result

types = pytest.importorskip("mcp", reason="needs the extra `mcp`").types

UNREADABLE = TextPart("[an image (image/png) that cannot be read]")
LEFT_OUT = "was left out: a model is given text and images only"
DATA = base64.b64encode(b"\x89PNG").decode()


def converted(*blocks: dict[str, Any], **more: Any) -> ToolResult:
    return to_tool_result(types.CallToolResult.model_validate({"content": list(blocks), **more}))


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "x"}, TextPart("x")),
        ({"type": "image", "data": DATA, "mimeType": "image/png"}, ImagePart(data=b"\x89PNG", media_type="image/png")),
        ({"type": "image", "data": "?", "mimeType": "image/png"}, UNREADABLE),
        ({"type": "image", "data": "", "mimeType": "image/png"}, UNREADABLE),
        ({"type": "audio", "data": DATA, "mimeType": "audio/wav"},
         TextPart(f"[audio (audio/wav) {LEFT_OUT}]")),
        ({"type": "resource_link", "uri": "file:///a", "name": "a"}, TextPart("[resource a: file:///a]")),
        ({"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "mimeType": "text/plain",
          "description": "d"},
         TextPart("[resource A: file:///a (text/plain, d)]")),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}, TextPart("inside")),
        ({"type": "resource", "resource": {"uri": "file:///a", "blob": DATA, "mimeType": "image/png"}},
         ImagePart(data=b"\x89PNG", media_type="image/png")),
        ({"type": "resource", "resource": {"uri": "file:///a", "blob": DATA}},
         TextPart(f"[resource file:///a (application/octet-stream) {LEFT_OUT}]")),
    ],
)  # fmt: skip
def test_each_kind_of_content_is_carried_or_named(block: dict[str, Any], part: Any) -> None:
    assert converted(block).parts == (part,)


def test_texts_side_by_side_are_lines_and_images_stay_where_they_are() -> None:
    one, image = {"type": "text", "text": "1"}, {"type": "image", "data": DATA, "mimeType": "image/png"}
    parts = converted(one, one, image, one).parts
    assert parts == (TextPart("1\n1"), ImagePart(data=b"\x89PNG", media_type="image/png"), TextPart("1"))


def test_structured_content_is_the_text_where_there_is_none() -> None:
    both = converted({"type": "text", "text": "x"}, structuredContent={"a": 1})
    assert (both.text, both.metadata) == ("x", {"structured_content": {"a": 1}})
    image = {"type": "image", "data": DATA, "mimeType": "image/png"}
    alone = converted({"type": "text", "text": ""}, image, structuredContent={"a": "ü"})
    assert alone.parts == (TextPart('{"a":"ü"}'), ImagePart(data=b"\x89PNG", media_type="image/png"))
    assert converted().parts == ()


def test_an_error_is_an_error() -> None:
    assert converted({"type": "text", "text": "x"}, isError=True).is_error


def test_results_of_the_official_server(start: Start) -> None:
    kit = start(official())
    added = kit.execute("s_add", {"a": 1, "b": 2})
    assert isinstance(added, ToolResult)
    assert added.metadata == {"structured_content": {"total": 3}}
    picture = kit.execute("s_picture", {})
    assert isinstance(picture, ToolResult)
    assert [getattr(part, "media_type", None) for part in picture.parts] == ["image/png"]
    assert "no luck" in text(kit.execute("s_fail", {"why": "no luck"}))
    assert "a: expected integer" in text(kit.execute("s_add", {"a": "x", "b": 2}))
