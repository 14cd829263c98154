"""The store that a rule is about, whatever kind it is: its methods, sync or async, are awaited here."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast
from unittest import SkipTest

from ..errors import ConversationConflictError
from ..messages import Message
from ..stores import ConversationStore, ManagedStore, RevisionedStore, Snapshot
from ..stores.codec import messages_to_json

T = TypeVar("T")


async def settle(value: T | Awaitable[T]) -> T:
    """What a method gave, awaited if need be."""
    if isinstance(value, Awaitable):
        return await value
    return value


class Subject:
    """One store object, and what a rule does with it."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store

    @property
    def is_revisioned(self) -> bool:
        """Whether the store offers `load` and `commit`."""
        return all(callable(getattr(self.store, name, None)) for name in ("load", "commit"))

    @property
    def revisioned(self) -> RevisionedStore:
        """The store as one with revisions; a rule about them is skipped for others."""
        if not self.is_revisioned:
            raise SkipTest("the store has no load() and commit()")
        return cast("RevisionedStore", self.store)  # as far as can be seen

    @property
    def managed(self) -> ManagedStore:
        """The store as one that lists and deletes; a rule about that is skipped for others."""
        if not all(callable(getattr(self.store, name, None)) for name in ("ids", "delete")):
            raise SkipTest("the store has no ids() and delete()")
        return cast("ManagedStore", self.store)  # as far as can be seen

    async def get(self, id: str) -> list[Message] | None:
        return await settle(self.store.get(id))

    async def got(self, id: str) -> list[Message]:
        """What `get` gives for a conversation that must be there."""
        messages = await self.get(id)
        require(messages is not None, f"get({id!r:.60}): expected what was saved, got None")
        return messages or []

    async def save(self, id: str, messages: Sequence[Message]) -> None:
        await settle(self.store.save(id, messages))

    async def load(self, id: str) -> Snapshot:
        return await settle(self.revisioned.load(id))

    async def commit(self, id: str, base: Snapshot, messages: Sequence[Message]) -> Snapshot:
        return await settle(self.revisioned.commit(id, base, messages))

    async def ids(self) -> list[str]:
        return await settle(self.managed.ids())

    async def delete(self, id: str) -> None:
        await settle(self.managed.delete(id))

    async def expect(self, id: str, messages: Sequence[Message] | None, when: str) -> None:
        """Require that this is what the store has, by all ways of reading."""
        require_equal(f"get({id!r:.60}) {when}", await self.get(id), messages)
        if self.is_revisioned:
            require_equal(f"load({id!r:.60}) {when}", (await self.load(id)).messages, messages)

    async def expect_conflict(self, id: str, base: Snapshot, messages: Sequence[Message], when: str) -> None:
        """Require that the commit is refused and nothing changes."""
        before = await self.load(id)
        try:
            await self.commit(id, base, messages)
        except ConversationConflictError:
            pass
        else:
            require(False, f"commit() {when}: expected ConversationConflictError, got no error")
        after = await self.load(id)
        require_equal(f"load() after a commit that was refused {when}", after.messages, before.messages)
        require(after.revision == before.revision, f"commit() {when}: it was refused, and the revision is another")


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Run `work(0)`, `work(1)`, ... at once, and raise the first error."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def require(condition: bool, problem: str) -> None:
    """Not `assert`: that is silent under `-O`, and says nothing outside of pytest's own files."""
    if not condition:
        raise AssertionError(problem)


def require_equal(what: str, got: Sequence[Message] | None, expected: Sequence[Message] | None) -> None:
    """Require the same messages, down to 1 being no True, in a list."""
    require(got is None or isinstance(got, list), f"{what}: expected a list or None, got {type(got).__name__}")
    if got is None or expected is None:
        require(got is expected, f"{what}: expected {_short(expected)}, got {_short(got)}")
        return
    for index, (one, other) in enumerate(zip(got, expected, strict=False)):
        same = one == other and messages_to_json([one]) == messages_to_json([other])
        require(same, f"{what}: expected message {index} to be {other!r:.500}, got {one!r:.500}")
    require(len(got) == len(expected), f"{what}: expected {len(expected)} messages, got {len(got)}")


def _short(messages: Sequence[Message] | None) -> str:
    return "None" if messages is None else f"{len(messages)} messages"
