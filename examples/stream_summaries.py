"""Summaries: what each model response added up to, over all sends, until they are cleared."""

from toolnexus import SyncClient, Toolkit, tool
from toolnexus.demo.scripted import Call, Reply, ScriptedServer

SCRIPT = [
    Reply("Hello.", usage=(3, 2)),
    Reply("Let me look.", calls=(Call("now"),), usage=(20, 5)),
    Reply("Noon.", usage=(30, 2)),
]


@tool
def now() -> str:
    """The time of day."""
    return "12:00"


with ScriptedServer(SCRIPT) as server, SyncClient(base_url=server.base_url, model="scripted") as client:
    chat = client.conversation(Toolkit(now))
    chat.send("Hello")

    chat.chunks.clear_summaries()
    chat.send("What time is it?")

    summaries = chat.chunks.summary()
    for summary in summaries:
        print(f"{summary.content!r}: {summary.tool_call_count} calls, {summary.finish_reason}")
    print("last round:", summaries[-1].content)
    print("all rounds:", sum(summary.usage.total_tokens or 0 for summary in summaries if summary.usage), "tokens")
