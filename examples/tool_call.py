"""A tool that the model calls: a plain function, described by its hints and its docstring.

The tool runs between two model responses; its result goes back to the model, which answers in text.
"""

from toolnexus import StreamEvent, SyncClient, Toolkit, tool
from toolnexus.demo.scripted import Call, Reply, ScriptedServer, Step

SCRIPT: list[Step] = [
    Reply(calls=(Call("get_weather", {"city": "Chennai"}),)),
    lambda request: Reply(f"It is {request.tool_results[-1]}."),
]


@tool
def get_weather(city: str) -> str:
    """Current weather for a city."""
    return f"sunny in {city}"


def show(event: StreamEvent) -> None:
    match event.type:
        case "tool_call":
            print(f"call:   {event.name}({event.args})")
        case "tool_result":
            print(f"result: {event.output}")


with ScriptedServer(SCRIPT) as server, SyncClient(base_url=server.base_url, model="scripted") as client:
    result = client.stream("Weather in Chennai?", Toolkit(get_weather), on_event=show)
    print(f"answer: {result.text}")
    print(f"turns:  {result.turns}")
