"""The rules for conversation stores, as tests that any store can run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from unittest import SkipTest

from ..errors import ConversationConflictError
from ..messages import Message, ToolCallPart
from ..stores import ConversationStore
from .subject import Subject, in_threads, require, require_equal, settle
from .transcripts import IDS, every_part, turn

_WRITERS = 4
_TURNS = 8


def _rule(body: Callable[[StoreSuite, Subject], Coroutine[Any, Any, None]]) -> Callable[[StoreSuite], None]:
    """A test method of `body`; pytest shall not take its second argument for a fixture."""

    def test(self: StoreSuite) -> None:
        asyncio.run(self.run_rule(body))

    test.__name__, test.__qualname__, test.__doc__ = body.__name__, body.__qualname__, body.__doc__
    return test


class StoreSuite:
    """Tests for a conversation store, sync or async: derive from it, and give a store.

        class TestMyStore(StoreSuite):
            def make_store(self):
                return MyStore(tempfile.mkdtemp())

    pytest finds the tests of a class so named; with `unittest.TestCase` as a second base, unittest does. Rules about
    `load` and `commit`, or `ids` and `delete`, are skipped for a store that has no such methods.
    """

    def make_store(self) -> ConversationStore | Awaitable[ConversationStore]:
        """A new store with nothing in it."""
        raise NotImplementedError("make_store: give a new store with nothing in it")

    def make_second(self, store: ConversationStore) -> ConversationStore | Awaitable[ConversationStore] | None:
        """A second object on the data of `store`, as another process has it. `None`: rules about two are skipped."""
        return None

    def close_store(self, store: ConversationStore) -> object:
        """Close a store that one of the above gave: here with its `aclose` or `close`, if it has one."""
        close = getattr(store, "aclose", None) or getattr(store, "close", None)
        return close() if close is not None else None

    async def run_rule(self, rule: Callable[[StoreSuite, Subject], Coroutine[Any, Any, None]]) -> None:
        """Run a rule on a new store, and close what was opened for it."""
        subject = Subject(await settle(self.make_store()))
        try:
            await rule(self, subject)
        finally:
            await settle(self.close_store(subject.store))

    async def run_on_two(self, one: Subject, rule: Callable[[Subject], Coroutine[Any, Any, None]]) -> None:
        """Run a rule on the second object."""
        store = await settle(self.make_second(one.store))
        if store is None:
            raise SkipTest("make_second() gives none")
        try:
            await rule(Subject(store))
        finally:
            await settle(self.close_store(store))

    # What every store does.

    @_rule
    async def test_what_was_never_saved_is_not_there(self, it: Subject) -> None:
        await it.expect("talk", None, "of a new store")

    @_rule
    async def test_what_was_saved_comes_back(self, it: Subject) -> None:
        messages = turn(1)
        await it.save("talk", messages)
        await it.expect("talk", turn(1), "after save()")
        require_equal("the list given to save()", messages, turn(1))

    @_rule
    async def test_every_part_comes_back_whole(self, it: Subject) -> None:
        await it.save("talk", every_part())
        await it.expect("talk", every_part(), "after save()")

    @_rule
    async def test_any_sequence_can_be_saved(self, it: Subject) -> None:
        await it.save("talk", tuple(turn(1)))
        await it.expect("talk", turn(1), "after save() of a tuple")

    @_rule
    async def test_an_empty_transcript_is_there(self, it: Subject) -> None:
        await it.save("talk", [])
        await it.expect("talk", [], "after save() of []")

    @_rule
    async def test_a_conversation_grows_turn_by_turn(self, it: Subject) -> None:
        messages: list[Message] = []
        for number in range(5):
            messages = [*(await it.get("talk") or ()), *turn(number)]
            await it.save("talk", messages)
        await it.expect("talk", [message for n in range(5) for message in turn(n)], "after five turns")

    @_rule
    async def test_a_save_takes_the_place_of_the_one_before(self, it: Subject) -> None:
        for messages in (
            turn(1) + turn(2),
            turn(1),
            [*turn(1)[:2], *turn(3)],
            turn(3),
            [],
            turn(1)[:1] * 3,
            turn(2)[2:],
        ):
            await it.save("talk", messages)
            await it.expect("talk", messages, "after save() of other messages")

    @_rule
    async def test_what_is_done_to_messages_that_were_read_changes_nothing(self, it: Subject) -> None:
        await it.save("talk", turn(1))
        read = await it.got("talk")
        _spoil(read)
        await it.expect("talk", turn(1), "after a caller edited what get() had given")

    @_rule
    async def test_what_is_done_to_messages_after_they_were_saved_changes_nothing(self, it: Subject) -> None:
        messages = turn(1)
        await it.save("talk", messages)
        _spoil(messages)
        await it.expect("talk", turn(1), "after a caller edited what he had saved")

    @_rule
    async def test_an_edited_message_is_saved_as_it_is(self, it: Subject) -> None:
        await it.save("talk", turn(1))
        read = await it.got("talk")
        _call(read).args["at"]["number"] = 2
        await it.save("talk", read)
        expected = turn(1)
        _call(expected).args["at"]["number"] = 2
        await it.expect("talk", expected, "after save() of a message that was edited in place")
        _call(read).args["at"]["number"] = 3  # and once more, without reading again
        await it.save("talk", read)
        _call(expected).args["at"]["number"] = 3
        await it.expect("talk", expected, "after a second such save()")

    @_rule
    async def test_different_ids_are_different_conversations(self, it: Subject) -> None:
        for number, id in enumerate(IDS):
            await it.save(id, turn(number))
        for number, id in enumerate(IDS):
            await it.expect(id, turn(number), f"with {len(IDS)} conversations in the store")

    @_rule
    async def test_calls_at_once_do_not_disturb_each_other(self, it: Subject) -> None:
        async def talk(id: str) -> None:
            messages: list[Message] = []
            for number in range(_TURNS):
                messages = [*messages, *turn(number)]
                await it.save(id, messages)
                await it.expect(id, messages, "while other conversations are saved")

        async def run(number: int) -> None:
            await talk(f"talk {number}")

        if await _is_async(it):
            await asyncio.gather(*map(run, range(_WRITERS)))
        else:
            in_threads(_WRITERS, lambda number: asyncio.run(run(number)))  # clients call from any thread

    @_rule
    async def test_a_second_object_has_the_same_conversations(self, it: Subject) -> None:
        async def rule(second: Subject) -> None:
            await it.save("talk", turn(1))
            await second.expect("talk", turn(1), "of a second object after the first has saved")
            await second.save("talk", turn(1) + turn(2))
            await it.expect("talk", turn(1) + turn(2), "after a second object has saved")

        await self.run_on_two(it, rule)

    # Of stores with `load` and `commit`.

    @_rule
    async def test_a_conversation_that_is_not_there_has_revision_0(self, it: Subject) -> None:
        nothing = await it.load("talk")
        require(nothing.messages is None, f"load() of a new store: expected messages None, got {nothing.messages!r}")
        require(nothing.revision == 0, f"load() of a new store: expected revision 0, got {nothing.revision!r}")
        await it.save("talk", [])
        require((await it.load("talk")).revision != 0, "load() of an empty transcript: expected a revision, got 0")

    @_rule
    async def test_commits_follow_on_each_other(self, it: Subject) -> None:
        snapshot = await it.load("talk")
        for number in range(4):
            new = [*(snapshot.messages or ()), *turn(number)]
            revision, snapshot = snapshot.revision, await it.commit("talk", snapshot, new)
            require(snapshot.revision != revision, "commit(): expected another revision than that of the base")
            given = snapshot.messages or []
            same = len(given) == len(new) and all(one is other for one, other in zip(given, new, strict=True))
            require(same, "commit(): expected a snapshot with the messages that were given, the very objects")
            await it.expect("talk", new, "after commit()")
            require(
                (await it.load("talk")).revision == snapshot.revision, "load(): expected the revision of the commit"
            )

    @_rule
    async def test_every_part_can_be_committed(self, it: Subject) -> None:
        await it.commit("talk", await it.load("talk"), every_part())
        await it.expect("talk", every_part(), "after commit()")

    @_rule
    async def test_a_commit_may_replace_and_shorten(self, it: Subject) -> None:
        snapshot = await it.commit("talk", await it.load("talk"), turn(1) + turn(2))
        for kept, more in ((5, turn(3)), (9, []), (2, []), (2, turn(1)[1:2]), (0, turn(4)), (0, [])):
            new = [*(snapshot.messages or [])[:kept], *more]
            snapshot = await it.commit("talk", snapshot, new)
            await it.expect("talk", new, f"after a commit that keeps {kept} messages and adds {len(more)}")

    @_rule
    async def test_a_commit_on_an_old_base_is_refused(self, it: Subject) -> None:
        nothing = await it.load("talk")
        first = await it.commit("talk", nothing, turn(1))
        await it.expect_conflict("talk", nothing, turn(2), "of a conversation that somebody else has begun")
        second = await it.commit("talk", first, [*(first.messages or ()), *turn(2)])
        await it.expect_conflict("talk", first, [*(first.messages or ()), *turn(3)], "on a base that is old")
        await it.commit("talk", second, turn(1))
        await it.expect_conflict("talk", first, turn(3), "on an old base with the messages of now")

    @_rule
    async def test_a_save_makes_an_old_base_of_what_was_loaded(self, it: Subject) -> None:
        await it.save("talk", turn(1))
        base = await it.load("talk")
        await it.save("talk", turn(1))
        await it.expect_conflict("talk", base, turn(2), "after save() of the same messages")

    @_rule
    async def test_the_base_of_one_conversation_is_none_of_another(self, it: Subject) -> None:
        one = await it.commit("one", await it.load("one"), turn(1))
        await it.commit("other", await it.load("other"), turn(1))
        await it.expect_conflict("other", one, turn(2), "on the base of another conversation")

    @_rule
    async def test_what_is_done_to_messages_after_a_commit_changes_nothing(self, it: Subject) -> None:
        snapshot = await it.commit("talk", await it.load("talk"), turn(1))
        _spoil(list(snapshot.messages or ()))
        await it.expect("talk", turn(1), "after a caller edited what he had committed")
        _spoil(list((await it.load("talk")).messages or ()))
        await it.expect("talk", turn(1), "after a caller edited what load() had given")

    @_rule
    async def test_of_many_commits_at_once_none_is_lost(self, it: Subject) -> None:
        async def run(number: int) -> None:
            for count in range(_TURNS):
                while True:
                    base = await it.load("talk")
                    new = [*(base.messages or ()), Message("user", f"{number}/{count}")]
                    try:
                        await it.commit("talk", base, new)
                        break
                    except ConversationConflictError:
                        continue

        it.revisioned  # noqa: B018  # or skipped
        if await _is_async(it):
            await asyncio.gather(*map(run, range(_WRITERS)))
        else:
            in_threads(_WRITERS, lambda number: asyncio.run(run(number)))
        texts = [message.text for message in await it.got("talk")]
        for number in range(_WRITERS):
            own = [text for text in texts if text.startswith(f"{number}/")]
            expected = [f"{number}/{count}" for count in range(_TURNS)]
            require(own == expected, f"expected the commits {expected}, each once and in order, got {own}")

    @_rule
    async def test_a_second_object_that_saved_meanwhile_is_noticed(self, it: Subject) -> None:
        it.revisioned  # noqa: B018  # or skipped

        async def rule(second: Subject) -> None:
            base = await it.commit("talk", await it.load("talk"), turn(1))
            await second.get("talk")
            await second.save("talk", turn(1) + turn(2))
            await it.expect_conflict("talk", base, turn(3), "after a second object has saved")
            await it.get("talk")
            await it.save("talk", turn(1))
            try:
                await second.save("talk", turn(3))
            except ConversationConflictError:
                pass
            else:
                require(False, "save() over what another object saved meanwhile: expected ConversationConflictError")
            await it.expect("talk", turn(1), "after a save() that was refused")
            await second.get("talk")
            await second.save("talk", turn(3))
            await it.expect("talk", turn(3), "after a save() of somebody who had read")

        await self.run_on_two(it, rule)

    # Of stores with `ids` and `delete`.

    @_rule
    async def test_the_ids_are_those_of_all_conversations(self, it: Subject) -> None:
        require(await it.ids() == [], "ids() of a new store: expected []")
        for id in reversed(IDS):
            await it.save(id, [])
            await it.save(id, turn(1))
        ids = await it.ids()
        require(ids == sorted(IDS), f"ids(): expected {len(IDS)} ids, sorted, got {ids!r:.500}")

    @_rule
    async def test_a_conversation_that_was_deleted_is_not_there(self, it: Subject) -> None:
        await it.delete("talk")  # it is no error that it is not there
        for id in ("talk", "other"):
            await it.save(id, turn(1))
        await it.delete("talk")
        await it.expect("talk", None, "after delete()")
        await it.expect("other", turn(1), "after delete() of another conversation")
        require(await it.ids() == ["other"], f"ids() after delete(): expected ['other'], got {await it.ids()!r:.500}")
        await it.save("talk", turn(2))
        await it.expect("talk", turn(2), "begun anew after delete()")
        await it.delete("talk")
        await it.save("talk", turn(3))  # who deleted it knows that it is not there
        await it.expect("talk", turn(3), "begun anew right after delete()")

    @_rule
    async def test_no_base_outlives_a_delete(self, it: Subject) -> None:
        first = await it.commit("talk", await it.load("talk"), turn(1))
        await it.delete("talk")
        await it.expect_conflict("talk", first, turn(2), "on a base from before delete()")
        await it.commit("talk", await it.load("talk"), turn(1))
        await it.expect_conflict("talk", first, turn(2), "on a base from before delete(), the conversation begun anew")


async def _is_async(it: Subject) -> bool:
    given = it.store.get("talk")
    if inspect.isawaitable(given):
        await given
        return True
    return False


def _call(messages: list[Message]) -> ToolCallPart:
    return next(call for message in messages for call in message.tool_calls)


def _spoil(messages: list[Message]) -> None:
    """Change all of it that can be changed."""
    for message in messages:
        for part in message.parts:
            getattr(part, "extra", {})["spoiled"] = True
    _call(messages).args["at"]["number"] = "spoiled"
    _call(messages).args["spoiled"] = True
    messages.clear()
