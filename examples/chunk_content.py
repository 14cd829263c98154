"""A hook on content: the answer, piece by piece as the model writes it."""

from toolnexus import ChunkType, SyncClient
from toolnexus.demo.scripted import Reply, ScriptedServer

with (
    ScriptedServer([Reply("Hello from a model."), Reply("Nobody sees this live.")]) as server,
    SyncClient(base_url=server.base_url, model="scripted") as client,
):
    chat = client.conversation()
    hook = chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: print(chunk.text, end="|"))
    chat.send("Say hello")
    print()

    hook.dispose()  # unsubscribe
    print(chat.send("Again").text)
