"""The suite for stores: ours pass it, and for each rule there is a store that is caught by it."""

from __future__ import annotations

import itertools
import os
import threading
import time
import unittest
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolnexus import ConversationConflictError, MemoryStore, Message, Snapshot, SQLiteStore
from toolnexus.messages import TextPart
from toolnexus.testing import StoreSuite
from toolnexus.testing.transcripts import IDS

RULES = sorted(name for name in vars(StoreSuite) if name.startswith("test_"))


class TestMemoryStore(StoreSuite):
    def make_store(self) -> MemoryStore:
        return MemoryStore()

    def make_second(self, store: Any) -> Second:
        return Second(store)


class TestSQLiteStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "conversations.db"

    def make_store(self) -> SQLiteStore:
        return SQLiteStore(self.path)

    def make_second(self, store: object) -> SQLiteStore:
        return SQLiteStore(self.path)


class AsyncStore:
    """A store whose every method is a coroutine, and which must be closed."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.closed = False

    async def get(self, id: str, /) -> list[Message] | None:
        return self._store.get(id)

    async def save(self, id: str, messages: Sequence[Message], /) -> None:
        self._store.save(id, messages)

    async def load(self, id: str, /) -> Snapshot:
        return self._store.load(id)

    async def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        return self._store.commit(id, base, messages)

    async def ids(self) -> list[str]:
        return self._store.ids()

    async def delete(self, id: str, /) -> None:
        self._store.delete(id)

    async def aclose(self) -> None:
        self.closed = True


class TestAnAsyncStore(StoreSuite):
    def make_store(self) -> AsyncStore:
        return AsyncStore()

    def make_second(self, store: Any) -> Any:
        async def make() -> Any:
            return Second(store._store)

        return make()


class Plain:
    """A store that offers `get` and `save` only."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    def get(self, id: str, /) -> list[Message] | None:
        return self._store.get(id)

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        self._store.save(id, messages)


class Second:
    """A second object on a MemoryStore; it too checks a save against what it last read or wrote."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._seen: dict[str, Snapshot] = {}

    def get(self, id: str, /) -> list[Message] | None:
        return self.load(id).messages

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        self._seen[id] = self._store.commit(id, self._seen.get(id, Snapshot(None, 0)), messages)

    def load(self, id: str, /) -> Snapshot:
        self._seen[id] = self._store.load(id)
        return self._store.load(id)

    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        return self._store.commit(id, base, messages)


def ran(suite: type[StoreSuite]) -> dict[str, list[str]]:
    """The rules of a suite by what came of them, as the standard library's runner sees it."""
    case = type("Case", (suite, unittest.TestCase), {})
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    came = {
        "failed": [test.id() for test, _ in result.failures + result.errors],
        "skipped": [test.id() for test, _ in result.skipped],
    }
    return {kind: sorted(id.rpartition(".")[2] for id in ids) for kind, ids in came.items()} | {
        "reasons": sorted({reason for _, reason in result.skipped})
    }


def test_a_store_without_further_methods_is_tested_for_what_it_has():
    class Suite(StoreSuite):
        def make_store(self) -> Plain:
            return Plain()

    came = ran(Suite)
    assert came["failed"] == []
    assert came["reasons"] == [
        "make_second() gives none",
        "the store has no ids() and delete()",
        "the store has no load() and commit()",
    ]
    assert len(RULES) - len(came["skipped"]) == 12


def test_a_suite_without_a_store_says_what_to_do():
    with pytest.raises(NotImplementedError, match="make_store"):
        StoreSuite().test_what_was_never_saved_is_not_there()


def test_stores_are_closed_after_each_rule():
    stores: list[AsyncStore] = []

    class Suite(StoreSuite):
        def make_store(self) -> AsyncStore:
            stores.append(AsyncStore())
            return stores[-1]

    Suite().test_what_was_never_saved_is_not_there()
    assert [store.closed for store in stores] == [True]


# A store for each rule that breaks it. `MemoryStore` is right, as the suite says; what is overridden is wrong.


class Bad(MemoryStore):
    def kept(self, id: str) -> Any:
        return self._kept.get(id)


class EmptyForNothing(Bad):
    def get(self, id: str, /) -> Any:
        return super().get(id) or []


class Tuples(Bad):
    def get(self, id: str, /) -> Any:
        found = super().get(id)
        return None if found is None else tuple(found)


class Flattening(Bad):
    def get(self, id: str, /) -> Any:
        found = super().get(id)
        return None if found is None else [Message(m.role, m.parts or [TextPart("")]) for m in found]


class ListsOnly(Bad):
    def save(self, id: str, messages: Any, /) -> None:
        super().save(id, messages.copy())


class NothingForEmpty(Bad):
    def get(self, id: str, /) -> Any:
        return super().get(id) or None


class Appending(Bad):
    """Takes what is given for what is new."""

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        super().save(id, [*(super().get(id) or []), *messages])


class NeverShorter(Bad):
    def save(self, id: str, messages: Sequence[Message], /) -> None:
        super().save(id, [*messages, *(super().get(id) or [])[len(messages) :]])


class GivesItsOwn(Bad):
    def get(self, id: str, /) -> Any:
        kept = self.kept(id)
        return kept and kept.messages


class KeepsWhatItWasGiven(Bad):
    def save(self, id: str, messages: Sequence[Message], /) -> None:
        super().save(id, messages)
        self._kept[id] = Snapshot(list(messages), self._kept[id].revision)


class WritesWhatIsLonger(Bad):
    """Looks at the length alone to see whether there is something to do."""

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        if len(super().get(id) or ()) != len(messages):
            super().save(id, messages)


class Renaming(Bad):
    rename: Callable[[str], str] = staticmethod(str.lower)

    def get(self, id: str, /) -> Any:
        return super().get(self.rename(id))

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        super().save(self.rename(id), messages)

    def load(self, id: str, /) -> Snapshot:
        return super().load(self.rename(id))


class CutsAtNul(Renaming):
    rename = staticmethod(lambda id: id.partition("\0")[0])


class CutsLongIds(Renaming):
    rename = staticmethod(lambda id: id[:10_000])


class IgnoresHalfCharacters(Renaming):
    rename = staticmethod(lambda id: id.encode("utf-8", "replace").decode())


class CleansPaths(Renaming):
    rename = staticmethod(lambda id: os.path.basename(os.path.normpath(id)))


class OneSlot(Bad):
    """Keeps between two lines what belongs to one call."""

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        self.slot = id
        time.sleep(0.001)
        super().save(self.slot, messages)


class OneThread(Bad):
    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        assert self.thread == threading.get_ident(), "made in another thread"
        super().save(id, messages)


class StartsAtOne(Bad):
    def load(self, id: str, /) -> Snapshot:
        found = super().load(id)
        return Snapshot(found.messages, found.revision or 1)


class GivesCopies(Bad):
    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        done = super().commit(id, base, messages)
        return Snapshot(super().get(id), done.revision)


class SameRevision(Bad):
    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        done = super().commit(id, base, messages)
        if base.revision:
            self._kept[id] = Snapshot(self._kept[id].messages, base.revision)
        return Snapshot(done.messages, base.revision or done.revision)


class CommitsText(Bad):
    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        done = super().commit(id, base, messages)
        super().save(id, [Message(m.role, m.text) for m in messages])
        return Snapshot(done.messages, self._kept[id].revision)


class CommitAppends(Bad):
    """Takes the base for a part of the messages, always."""

    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        old = base.messages or []
        done = super().commit(id, base, [*old, *messages[len(old) :]])
        return Snapshot(list(messages), done.revision)


class LastWins(Bad):
    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        return super().commit(id, super().load(id), messages)


class FirstWinsOnly(Bad):
    """Refuses what was begun by somebody else, and nothing more."""

    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        return super().commit(id, super().load(id) if base.revision else base, messages)


class SavesBeforeItLooks(Bad):
    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        stale = base.revision != super().load(id).revision
        done = super().commit(id, super().load(id), messages)
        if stale:
            raise ConversationConflictError("too late")
        return done


class QuietSave(Bad):
    """Gives a save of equal messages no revision of its own."""

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        if super().get(id) != list(messages):
            super().save(id, messages)


class CountsTurns(Bad):
    """A revision is a number of saves: the same for two conversations, and again after a delete."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        super().save(id, messages)
        self.count(id)

    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        done = super().commit(id, base, messages)
        return Snapshot(done.messages, self.count(id))

    def count(self, id: str) -> int:
        self.counts[id] = self.counts.get(id, 0) + 1
        self._kept[id] = Snapshot(self._kept[id].messages, self.counts[id])
        return self.counts[id]

    def delete(self, id: str, /) -> None:
        super().delete(id)
        self.counts.pop(id, None)


class CommitKeepsWhatItWasGiven(Bad):
    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        done = super().commit(id, base, messages)
        self._kept[id] = Snapshot(list(messages), done.revision)
        return done


class LooksThenSaves(Bad):
    """Somebody else can come between the look and the save."""

    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        if super().load(id).revision != base.revision:
            raise ConversationConflictError("too late")
        time.sleep(0.001)
        super().save(id, messages)
        return Snapshot(list(messages), self._kept[id].revision)


class Careless(Second):
    """A second object that saves whatever it has seen."""

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        self._store.save(id, messages)


class Unsorted(Bad):
    def ids(self) -> list[str]:
        return list(self._kept)


class ForgetsEmptyOnes(Bad):
    def ids(self) -> list[str]:
        return sorted(id for id in self._kept if id.isprintable())


class Truncating(Bad):
    """Empties where it should delete."""

    def delete(self, id: str, /) -> None:
        self.save(id, [])


class DeletesAll(Bad):
    def delete(self, id: str, /) -> None:
        self._kept.clear()


class Complaining(Bad):
    def delete(self, id: str, /) -> None:
        del self._kept[id]


class OnlyMemorySecond(MemoryStore):
    """Asked for a second object, its suite gives a store of its own."""


CAUGHT: list[tuple[type[Any], str]] = [
    (EmptyForNothing, "test_what_was_never_saved_is_not_there"),
    (Tuples, "test_what_was_saved_comes_back"),
    (Flattening, "test_every_part_comes_back_whole"),
    (ListsOnly, "test_any_sequence_can_be_saved"),
    (NothingForEmpty, "test_an_empty_transcript_is_there"),
    (Appending, "test_a_conversation_grows_turn_by_turn"),
    (NeverShorter, "test_a_save_takes_the_place_of_the_one_before"),
    (GivesItsOwn, "test_what_is_done_to_messages_that_were_read_changes_nothing"),
    (KeepsWhatItWasGiven, "test_what_is_done_to_messages_after_they_were_saved_changes_nothing"),
    (WritesWhatIsLonger, "test_an_edited_message_is_saved_as_it_is"),
    (Renaming, "test_different_ids_are_different_conversations"),
    (CutsAtNul, "test_different_ids_are_different_conversations"),
    (CutsLongIds, "test_different_ids_are_different_conversations"),
    (IgnoresHalfCharacters, "test_different_ids_are_different_conversations"),
    (CleansPaths, "test_different_ids_are_different_conversations"),
    (OneSlot, "test_calls_at_once_do_not_disturb_each_other"),
    (OneThread, "test_calls_at_once_do_not_disturb_each_other"),
    (OnlyMemorySecond, "test_a_second_object_has_the_same_conversations"),
    (StartsAtOne, "test_a_conversation_that_is_not_there_has_revision_0"),
    (GivesCopies, "test_commits_follow_on_each_other"),
    (SameRevision, "test_commits_follow_on_each_other"),
    (CommitsText, "test_every_part_can_be_committed"),
    (CommitAppends, "test_a_commit_may_replace_and_shorten"),
    (LastWins, "test_a_commit_on_an_old_base_is_refused"),
    (FirstWinsOnly, "test_a_commit_on_an_old_base_is_refused"),
    (SavesBeforeItLooks, "test_a_commit_on_an_old_base_is_refused"),
    (QuietSave, "test_a_save_makes_an_old_base_of_what_was_loaded"),
    (CountsTurns, "test_the_base_of_one_conversation_is_none_of_another"),
    (CommitKeepsWhatItWasGiven, "test_what_is_done_to_messages_after_a_commit_changes_nothing"),
    (LooksThenSaves, "test_of_many_commits_at_once_none_is_lost"),
    (Careless, "test_a_second_object_that_saved_meanwhile_is_noticed"),
    (Unsorted, "test_the_ids_are_those_of_all_conversations"),
    (ForgetsEmptyOnes, "test_the_ids_are_those_of_all_conversations"),
    (Truncating, "test_a_conversation_that_was_deleted_is_not_there"),
    (DeletesAll, "test_a_conversation_that_was_deleted_is_not_there"),
    (Complaining, "test_a_conversation_that_was_deleted_is_not_there"),
    (CountsTurns, "test_no_base_outlives_a_delete"),
]


def suite_of(kind: type[Any]) -> type[StoreSuite]:
    class Suite(StoreSuite):
        def make_store(self) -> Any:
            return MemoryStore() if issubclass(kind, Second) else kind()

        def make_second(self, store: Any) -> Any:
            if issubclass(kind, Second):
                return kind(store)
            return kind() if kind is OnlyMemorySecond else Second(store)

    return Suite


@pytest.mark.parametrize(("kind", "rule"), CAUGHT, ids=lambda value: getattr(value, "__name__", ""))
def test_a_store_that_breaks_a_rule_is_caught_by_it(kind: type[Any], rule: str):
    with pytest.raises((AssertionError, AttributeError, KeyError)):
        getattr(suite_of(kind)(), rule)()


def test_there_is_a_bad_store_for_every_rule():
    assert sorted({rule for _, rule in CAUGHT}) == RULES


def test_a_rule_that_is_broken_says_what_was_expected():
    with pytest.raises(AssertionError) as caught:
        suite_of(NeverShorter)().test_a_save_takes_the_place_of_the_one_before()
    assert str(caught.value) == "get('talk') after save() of other messages: expected 4 messages, got 8"
    with pytest.raises(AssertionError) as caught:
        suite_of(LastWins)().test_a_commit_on_an_old_base_is_refused()
    assert str(caught.value) == (
        "commit() of a conversation that somebody else has begun: expected ConversationConflictError, got no error"
    )


def test_the_ids_of_the_suite_are_all_different():
    assert len(set(IDS)) == len(IDS)
    pairs: Iterable[tuple[str, str]] = itertools.combinations(IDS, 2)
    assert any(a.lower() == b.lower() for a, b in pairs)
