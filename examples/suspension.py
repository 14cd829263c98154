"""A tool that waits for a human: it returns `pending(...)`, and runs again once there is an answer.

The `pending` event comes before `wait_for` is asked, so that a question can be shown at once.
"""

import asyncio

from toolnexus import Answer, AsyncClient, Pending, Request, ToolContext, Toolkit, pending, tool
from toolnexus.demo.scripted import Call, Reply, ScriptedServer

SCRIPT = [Reply(calls=(Call("approve", {"amount": 250}),)), Reply("Approved and done.")]


@tool
def approve(amount: int, ctx: ToolContext) -> str | Pending:
    """Ask a human to sign off an amount."""
    if ctx.answer is None:
        return pending(f"Approve {amount} euros?", kind="approval")
    return f"signed off: {ctx.answer.data['decision']}"


async def ask_human(request: Request) -> Answer:
    await asyncio.sleep(0)  # a form, a chat message, a phone call
    return Answer(request.id, data={"decision": "yes"})


async def main() -> None:
    with ScriptedServer(SCRIPT) as server:
        async with (
            AsyncClient(base_url=server.base_url, model="scripted", wait_for=ask_human) as client,
            client.stream("Pay the invoice.", Toolkit(approve)) as events,
        ):
            async for event in events:
                match event.type:
                    case "pending":
                        print("pending:    ", event.request.prompt)
                    case "tool_result":
                        print("tool_result:", event.output)
                    case "text":
                        print("text:       ", repr(event.delta))
                    case other:
                        print(other)
            print("status:     ", events.result.status)


asyncio.run(main())
