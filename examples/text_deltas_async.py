"""The smallest useful call under asyncio: events in an `async for`, as they happen.

Leaving the `async with` block, even in the middle, ends the run and closes its connection.
"""

import asyncio

from toolnexus import AsyncClient
from toolnexus.demo.scripted import Reply, ScriptedServer


async def main() -> None:
    with ScriptedServer([Reply("Hello from a model.")]) as server:
        async with (
            AsyncClient(base_url=server.base_url, model="scripted") as client,
            client.stream("Say hello") as events,
        ):
            async for event in events:
                if event.type == "text":
                    print(repr(event.delta))
            print("text:", events.result.text)
            print("tokens:", events.result.usage.total_tokens)


asyncio.run(main())
