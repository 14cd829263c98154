"""`SQLiteStore` for the developers' kill -9 loop, which saves dicts and never reads before its first save."""

from __future__ import annotations

from typing import Any

from toolnexus import Message, SQLiteStore


class KitStore:
    def __init__(self, path: str) -> None:
        self._store = SQLiteStore(path + ".db")
        self._read: set[str] = set()

    def get(self, id: str) -> list[dict[str, Any]] | None:
        self._read.add(id)
        messages = self._store.get(id)
        return None if messages is None else [{"role": m.role, "content": m.text} for m in messages]

    def save(self, id: str, messages: list[dict[str, Any]]) -> None:
        if id not in self._read:
            self.get(id)
        self._store.save(id, [Message(message["role"], message["content"]) for message in messages])

    def close(self) -> None:
        self._store.close()
