"""Hooks on usage and finish, which end each response: first its tokens, if it reported any, then why it ended.

Message hooks come later: a stream hook sees the finish before they see the message.
"""

from toolnexus import ChunkType, SyncClient
from toolnexus.demo.scripted import Reply, ScriptedServer

with (
    ScriptedServer([Reply("Hello.", usage=(3, 2))]) as server,
    SyncClient(base_url=server.base_url, model="scripted") as client,
):
    chat = client.conversation()
    chat.chunks.hook(ChunkType.USAGE).do(lambda chunk: print("tokens:  ", chunk.usage.total_tokens))
    chat.chunks.hook(ChunkType.FINISH).do(lambda chunk: print("finished:", chunk.finish_reason))
    chat.on_message(lambda message: print("message: ", message.role, repr(message.text)))
    chat.send("Say hello")
