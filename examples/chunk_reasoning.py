"""A hook on reasoning: what the model thinks before it answers, which is no part of the answer."""

from toolnexus import ChunkType, SyncClient
from toolnexus.demo.scripted import Reply, ScriptedServer

with (
    ScriptedServer([Reply("It is 42.", reasoning="Six times seven.")]) as server,
    SyncClient(base_url=server.base_url, model="scripted") as client,
):
    chat = client.conversation()
    chat.chunks.hook(ChunkType.REASONING).do(lambda chunk: print("thinks:", repr(chunk.text)))
    print("says:  ", chat.send("6 times 7?").text)
