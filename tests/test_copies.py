"""Copies share nothing that can change with what they were made of."""

from __future__ import annotations

import copy
import datetime
from dataclasses import dataclass, field
from typing import Any

from toolnexus import Message, Request, ToolCallPart
from toolnexus._copies import copied
from toolnexus.testing.transcripts import every_part


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
