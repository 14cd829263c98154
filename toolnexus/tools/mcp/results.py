"""What a server gives back for a call, as the result that the model gets."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, assert_never

from ...messages import ImagePart, TextPart
from ...tool import ToolResult

if TYPE_CHECKING:
    from mcp import types


def to_tool_result(result: types.CallToolResult) -> ToolResult:
    """Turn a call's result into ours.

    Text and images are carried as they are; structured content is on `metadata["structured_content"]`, and is the
    text where the server sends none. What a model cannot be given, such as audio, is named in words.
    """
    parts = [_part(block) for block in result.content]
    metadata = {}
    if result.structured_content is not None:
        metadata["structured_content"] = result.structured_content
        if not any(isinstance(part, TextPart) and part.text for part in parts):
            text = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
            parts = [TextPart(text), *(part for part in parts if isinstance(part, ImagePart))]
    return ToolResult(_joined(parts), is_error=result.is_error, metadata=metadata)


def _joined(parts: list[TextPart | ImagePart]) -> tuple[TextPart | ImagePart, ...]:
    """The parts, with a line's end between texts that stand side by side."""
    joined: list[TextPart | ImagePart] = []
    for part in parts:
        if joined and isinstance(part, TextPart) and isinstance(last := joined[-1], TextPart):
            joined[-1] = TextPart(f"{last.text}\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)


def _part(block: types.ContentBlock) -> TextPart | ImagePart:
    match block.type:
        case "text":
            return TextPart(block.text)
        case "image":
            return _image(block.data, block.mime_type) or TextPart(
                f"[an image ({block.mime_type}) that cannot be read]"
            )
        case "audio":
            return TextPart(f"[audio ({block.mime_type}) was left out: a model is given text and images only]")
        case "resource_link":
            details = ", ".join(text for text in (block.mime_type, block.description) if text)
            return TextPart(f"[resource {block.title or block.name}: {block.uri}{f' ({details})' if details else ''}]")
        case "resource":
            return _resource(block.resource)
        case _ as unreachable:
            assert_never(unreachable)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> TextPart | ImagePart:
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return TextPart(text)
    kind = resource.mime_type or "application/octet-stream"
    blob: str = getattr(resource, "blob", "")
    image = _image(blob, kind) if kind.startswith("image/") else None
    return image or TextPart(f"[resource {resource.uri} ({kind}) was left out: a model is given text and images only]")


def _image(data: str, media_type: str) -> ImagePart | None:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return ImagePart(data=content, media_type=media_type) if content and media_type else None
