"""The state of the stream after a send: its chunks and why it finished. The next send begins with a clear one.

Hooks stay from send to send, until `chunks.clear()`.
"""

import asyncio

from toolnexus import AsyncClient, ChunkType
from toolnexus.demo.scripted import Reply, ScriptedServer


async def main() -> None:
    with ScriptedServer([Reply("One."), Reply("One, two."), Reply("Three.")]) as server:
        async with AsyncClient(base_url=server.base_url, model="scripted") as client:
            chat = client.conversation()
            chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: print("hook:", repr(chunk.text)))

            for prompt in ("Count to 1.", "Count to 2."):
                await chat.send(prompt)
                print([chunk.type for chunk in chat.chunks.all()], chat.chunks.finish_reason())

            chat.chunks.clear()
            print(chat.chunks.all(), chat.chunks.finish_reason())
            await chat.send("Go on.")  # no hook is left to see it


asyncio.run(main())
