"""Names of tools: what providers accept, each its own, the same every time."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from toolnexus.tools.mcp.names import Names


def test_a_name_is_made_of_the_server_and_the_tool() -> None:
    names = Names()
    assert names.give("files", "read", ()) == "files_read"
    assert names.give("my server", "get.it/now", ()) == "my_server_get_it_now"
    assert names.give("files", "read", ()) == "files_read"
    assert names.find("files_read") == ("files", "read")
    assert names.find("nothing") is None


def test_names_that_would_be_the_same_differ_by_a_digest_of_their_own() -> None:
    names = Names()
    assert names.give("a", "b.c", ()) == "a_b_c"
    second = names.give("a", "b/c", ())
    third = names.give("a_b", "c", ())
    assert len({"a_b_c", second, third}) == 3
    assert re.fullmatch(r"a_b_c_[0-9a-f]{6}", second)
    other = Names()
    other.give("a", "b.c", ())
    assert (other.give("a_b", "c", ()), other.give("a", "b/c", ())) == (third, second)


def test_the_tools_of_others_come_first_also_later() -> None:
    names = Names()
    assert names.give("a", "b", {"a_b"}).startswith("a_b_")
    other = Names()
    assert other.give("a", "b", ()) == "a_b"
    assert other.give("a", "b", {"a_b"}).startswith("a_b_")


@given(st.lists(st.tuples(st.text(min_size=1, max_size=80), st.text(max_size=80)), unique=True, max_size=30))
def test_every_name_is_valid_and_stands_for_one_tool(keys: list[tuple[str, str]]) -> None:
    names = Names()
    given = [names.give(server, tool, {"x_y"}) for server, tool in keys]
    assert len(set(given)) == len(given)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) and name != "x_y" for name in given)
    assert [names.give(server, tool, {"x_y"}) for server, tool in keys] == given
