"""A half-read run that the garbage collector ends, in the middle of anything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.harness import MODEL
from tests.server import says
from toolnexus import Cancel, ChunkType, EventStream, MemoryStore, SQLiteStore, SyncClient

# Locks that the end of a run takes. The collector may run while the same thread holds one of them.
Owner = Callable[[Any, Any, Any], Any]
LOCKS: dict[str, Owner] = {
    "runs of the client": lambda client, file, cancel: client._world.runs._lock,
    "connections": lambda client, file, cancel: client._world.transport._own._lock,
    "memory": lambda client, file, cancel: client.conversation_store()._lock,
    "file": lambda client, file, cancel: file._file.lock,
    "cancel": lambda client, file, cancel: cancel._lock,
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_run_that_is_collected_ends_whatever_its_thread_is_at(serve, tmp_path, name):
    server = serve(says("Hel", "lo."), says("Hel", "lo."))
    cancel = Cancel()
    with (
        SQLiteStore(tmp_path / "conversations.db") as file,
        SyncClient(base_url=server.url, model=MODEL, store=MemoryStore()) as one,
        SyncClient(base_url=server.url, model=MODEL, store=file) as other,
    ):
        chat = one.conversation(id="talk")
        chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: None)
        streams: list[EventStream] = []
        done = threading.Event()

        def collect() -> None:
            streams.append(chat.iter_events("Hi?", cancel=cancel))
            streams.append(other.iter_events("Hi?", id="talk", cancel=cancel))
            for stream in streams:
                next(stream)
            del stream
            with LOCKS[name](one, file, cancel):
                streams.clear()
            done.set()

        threading.Thread(target=collect, daemon=True).start()
        assert done.wait(10)
        assert [message.text for message in chat.messages] == ["Hi?"]
        assert [message.text for message in file.get("talk") or ()] == ["Hi?"]
