"""Conversation memory by id, and the tokens that a run used.

Two calls with one id are one conversation. The store in use is a dictionary in memory unless `store=` says otherwise.
"""

from toolnexus import StreamEvent, SyncClient
from toolnexus.demo.scripted import Reply, ScriptedServer


def show(event: StreamEvent) -> None:
    match event.type:
        case "usage":
            print("  tokens so far:", event.usage.total_tokens)
        case "done":
            print("  answer:", event.result.text)


with (
    ScriptedServer([Reply("Hi there.", usage=(3, 2)), Reply("Still here.", usage=(9, 2))]) as server,
    SyncClient(base_url=server.base_url, model="scripted") as client,
):
    for prompt in ("Hello", "Still there?"):
        print(prompt)
        result = client.stream(prompt, on_event=show, id="session-1")

    assert client.conversation_store().get("session-1") == result.messages
    for message in result.messages:
        print(f"{message.role:>9}: {message.text}")
