"""The smallest useful call: text that appears piece by piece.

`stream` runs to the end and returns the result; meanwhile `on_event` sees each event as it happens.
"""

from toolnexus import StreamEvent, SyncClient
from toolnexus.demo.scripted import Reply, ScriptedServer


def show(event: StreamEvent) -> None:
    if event.type == "text":
        print(repr(event.delta))


with (
    ScriptedServer([Reply("Hello from a model.")]) as server,
    SyncClient(base_url=server.base_url, model="scripted") as client,
):
    result = client.stream("Say hello", on_event=show)
    print("text:", result.text)
    print("tokens:", result.usage.total_tokens)
