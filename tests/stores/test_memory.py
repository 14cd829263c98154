"""`MemoryStore`, where it is more than the suite asks for; and the copies that stores make."""

from __future__ import annotations

import copy
import datetime
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolnexus import ConfigurationError, MemoryStore, Message, Request, Snapshot, ToolCallPart
from toolnexus.stores.copies import copied, unchanged
from toolnexus.testing.transcripts import every_part, turn


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


def test_a_copy_is_equal_and_shares_nothing_that_can_change():
    originals = every_part()
    copies = copied(originals)
    assert copies == copy.deepcopy(originals)

    def reach(value: Any, seen: dict[int, Any]) -> dict[int, Any]:
        if isinstance(value, (dict, list)):
            seen[id(value)] = value
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
            reach(inner, seen)
        for name in getattr(value, "__dataclass_fields__", ()):
            reach(getattr(value, name), seen)
        return seen

    there = reach(originals, {})
    assert len(there) > 250
    assert not there.keys() & reach(copies, {}).keys()


@dataclass(slots=True)
class Mutable:
    values: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Open:
    """Frozen, but it has room for more than its fields."""

    name: str


class Words(list[str]):
    pass


def test_values_that_are_no_json_are_copied_too():
    odd: Any = Open("x")
    object.__setattr__(odd, "more", [1])
    data: Any = [Mutable([1]), odd, Words(["a"]), datetime.date(2026, 1, 1), {"s"}, (Mutable([2]),)]
    message = Message("assistant", [ToolCallPart("c", "n", {}, request=Request("r", "input", "?", data=data))])
    ((part,),) = (copied([message])[0].parts,)
    assert isinstance(part, ToolCallPart)
    assert part.request is not None
    twin = part.request.data
    assert twin == data
    assert [type(value) for value in twin] == [type(value) for value in data]
    data[0].values.append(9)
    data[1].more.append(9)
    data[2].append("b")
    data[4].add("t")
    data[5][0].values.append(9)
    assert twin == [Mutable([1]), odd, ["a"], datetime.date(2026, 1, 1), {"s"}, (Mutable([2]),)]
    assert twin[1].more == [1]


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
