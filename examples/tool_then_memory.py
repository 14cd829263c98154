"""A tool call, and a second turn that remembers it: the conversation has an id.

With `id=` the transcript is loaded before the run and saved at its end, tool calls and results included. The tool
is async and gets its arguments as one dict, as its explicit schema describes them.
"""

import asyncio
from typing import Any

from toolnexus import AsyncClient, Toolkit, define_tool
from toolnexus.demo.scripted import Call, Reply, ScriptedServer, Step

SCRIPT: list[Step] = [
    Reply(calls=(Call("get_weather", {"city": "Chennai"}),)),
    lambda request: Reply(f"{request.tool_results[-1]}."),
    lambda request: Reply(f"You asked about Chennai, and I said: {request.tool_results[-1]}."),
]


async def weather(args: dict[str, Any]) -> str:
    return f"31C in {args['city']}"


get_weather = define_tool(
    name="get_weather",
    description="Weather for a city",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    run=weather,
)


async def main() -> None:
    toolkit = Toolkit(get_weather)
    with ScriptedServer(SCRIPT) as server:
        async with AsyncClient(base_url=server.base_url, model="scripted") as client:
            for prompt in ("Weather in Chennai?", "What did I ask?"):
                print("you:  ", prompt)
                async with client.stream(prompt, toolkit, id="conv-1") as events:
                    async for event in events:
                        if event.type == "tool_call":
                            print("call: ", event.name, event.args)
                print("model:", events.result.text)
            print("kept: ", [message.role for message in events.result.messages])


asyncio.run(main())
