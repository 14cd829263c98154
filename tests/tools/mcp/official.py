"""A server of the official SDK, over stdio or, given a port, over HTTP on loopback."""

from __future__ import annotations

import asyncio
import base64
import os
import sys

from mcp import types
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("official", version="1.2")
cancelled: list[str] = []


class Color(BaseModel):
    color: str


class Sum(BaseModel):
    total: int


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def structured() -> types.CallToolResult:
    """Give structured content without any text."""
    return types.CallToolResult(content=[], structured_content={"ü": [1, 2]})


@server.tool()
def picture() -> Image:
    """Show a pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
def pid() -> str:
    """Tell the process id."""
    return str(os.getpid())


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask in mid-call."""
    answer = await ctx.elicit("Which color?", Color)
    return f"{answer.action} {answer.data.color if answer.action == 'accept' else ''}"


@server.tool()
def require(ctx: Context) -> types.InputRequiredResult | str:
    """Ask two things by ending with `input_required`."""
    if ctx.input_responses is None:
        return types.InputRequiredResult(
            input_requests={
                name: types.ElicitRequest(
                    params=types.ElicitRequestFormParams(
                        message=f"Which {name}?",
                        requested_schema={
                            "type": "object",
                            "properties": {name: {"type": "string"}},
                            "required": [name],
                        },
                    )
                )
                for name in ("color", "size")
            },
            request_state="kept",
        )
    said = {name: (r.action, r.content) for name, r in ctx.input_responses.items() if isinstance(r, types.ElicitResult)}
    return f"{sorted(said.items())} {ctx.request_state}"


@server.tool()
def sample(ctx: Context) -> types.InputRequiredResult:
    """Ask for what is not a human's to give."""
    return types.InputRequiredResult(input_requests={"r": types.ListRootsRequest()}, request_state="kept")


@server.tool()
def lure(ctx: Context) -> types.InputRequiredResult | str:
    """Want a human to open something."""
    if ctx.input_responses is None:
        page = types.ElicitRequestURLParams(message="Open this", url="javascript:alert(1)")
        return types.InputRequiredResult(input_requests={"page": types.ElicitRequest(params=page)})
    return str([r.action for r in ctx.input_responses.values() if isinstance(r, types.ElicitResult)])


@server.tool()
def later(times: int, ctx: Context) -> types.InputRequiredResult | str:
    """Want to be called again so often."""
    so_far = int(ctx.request_state or "0")
    return types.InputRequiredResult(request_state=str(so_far + 1)) if so_far < times else f"after {so_far}"


@server.tool()
async def change(ctx: Context) -> str:
    """Become another tool."""
    server.remove_tool("change")
    server.add_tool(change, description="Do something else.")
    await ctx.notify_tools_changed()
    return "changed"


@server.tool()
async def slow() -> str:
    """Never end."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled.append("slow")
        raise
    return ""


@server.tool()
def were_cancelled() -> str:
    """Tell what was cancelled."""
    return " ".join(cancelled)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
