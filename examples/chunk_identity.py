"""All chunks, and what names them: `seq` within a send, `batch` for the send, `round` for the model response.

`seq` begins at 0 with each send, so that `(batch, seq)` names a chunk for good.
"""

from toolnexus import SyncClient, Toolkit, tool
from toolnexus.demo.scripted import Call, Reply, ScriptedServer

SCRIPT = [Reply(calls=(Call("now"),)), Reply("Noon."), Reply("Still noon.")]


@tool
def now() -> str:
    """The time of day."""
    return "12:00"


with ScriptedServer(SCRIPT) as server, SyncClient(base_url=server.base_url, model="scripted") as client:
    chat = client.conversation(Toolkit(now))
    chat.chunks.hook().do(lambda chunk: print(f"{chunk.type:15}", chunk.seq, chunk.batch, chunk.round))
    chat.send("What time is it?")
    chat.send("And now?")
