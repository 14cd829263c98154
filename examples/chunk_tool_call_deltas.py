"""A hook on tool-call deltas: the arguments as they are written, long before the tool can run.

A decorated function is a hook, too. Each piece has the id, the name and the index of its call.
"""

from toolnexus import ChunkType, SyncClient, ToolCallDeltaChunk, Toolkit, tool
from toolnexus.demo.scripted import Call, Reply, ScriptedServer

SCRIPT = [Reply(calls=(Call("get_weather", {"city": "Chennai"}),)), Reply("Sunny.")]


@tool
def get_weather(city: str) -> str:
    """Current weather for a city."""
    print("runs with", city)
    return f"sunny in {city}"


with ScriptedServer(SCRIPT) as server, SyncClient(base_url=server.base_url, model="scripted") as client:
    chat = client.conversation(Toolkit(get_weather))

    @chat.chunks.hook(ChunkType.TOOL_CALL_DELTA)
    def show(chunk: ToolCallDeltaChunk) -> None:
        print(f"{chunk.name} #{chunk.index}: {chunk.text!r}")

    print(chat.send("Weather in Chennai?").text)
