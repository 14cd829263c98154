"""`MemoryStore`, where it is more than the suite asks for; and how stores see what is new."""

from __future__ import annotations

from typing import Any

import pytest

from toolnexus import ConfigurationError, MemoryStore, Message, Snapshot
from toolnexus._copies import copied
from toolnexus.stores.changes import unchanged
from toolnexus.testing.transcripts import turn


def test_what_is_no_message_is_refused_and_changes_nothing():
    store = MemoryStore()
    store.save("talk", turn(1))
    base = store.load("talk")
    dicts: Any = [{"role": "user", "content": "Hi."}]
    expected = r"messages: expected Message objects, got a dict among them; from_openai\(\) and from_anthropic\(\)"
    for save in (lambda: store.save("talk", dicts), lambda: store.commit("talk", base, [*turn(1), *dicts])):
        with pytest.raises(ConfigurationError, match=expected):
            save()
    assert store.load("talk") == base


def test_a_base_whose_list_was_changed_is_refused():
    store = MemoryStore()
    store.save("talk", turn(1))
    base = store.load("talk")
    assert base.messages is not None
    base.messages.append(Message("user", "More."))
    with pytest.raises(ConfigurationError, match="expected the 4 messages that the store gave, got 5"):
        store.commit("talk", base, base.messages)
    assert store.get("talk") == turn(1)


def test_the_lists_of_store_and_snapshots_are_different_ones():
    store = MemoryStore()
    given = turn(1)
    snapshot = store.commit("talk", Snapshot(None, 0), given)
    given.clear()
    assert snapshot.messages == turn(1)
    assert store.commit("talk", snapshot, turn(1) + turn(2)).messages == turn(1) + turn(2)


def test_one_store_has_no_revision_of_another():
    one, other = MemoryStore(), MemoryStore()
    one.save("talk", turn(1))
    other.save("talk", turn(1))
    assert one.load("talk").revision != other.load("talk").revision


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 600])
def test_leading_messages_are_compared_up_to_the_first_that_differs(length: int):
    old = [Message("user", str(n)) for n in range(length)]
    other = Message("user", "other")
    assert unchanged(old, old) == length
    assert unchanged(old, copied(old)) == length
    assert unchanged(old, [*old, other, other]) == length
    assert unchanged(old, []) == 0
    for at in {0, 1, 254, 255, 256, 257, 511, 512, length - 1} & set(range(length)):
        assert unchanged(old, [*old[:at], other, *old[at + 1 :]]) == at
        assert unchanged(old, old[:at]) == at
