"""Whatever comes, there is a value or a documented error.

By default some thousand inputs; with `TOOLNEXUS_FUZZ=N` N of them, for all targets together, other ones each time.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.source import Source
from tests.fuzz.targets import TARGETS

WANTED = int(os.environ.get("TOOLNEXUS_FUZZ", "0"))
COUNT = WANTED // len(TARGETS) or 1500
every_target = pytest.mark.parametrize("name", TARGETS)


@every_target
def test_any_bytes_have_a_value_or_a_documented_error(name: str) -> None:
    target, size = TARGETS[name]
    rng = random.Random(None if WANTED else f"toolnexus {name}")
    for number in range(COUNT):
        data = rng.randbytes(rng.randrange(size) + 1)
        try:
            target(data)
        except BaseException as error:
            error.add_note(f"input {number} of {name!r}: bytes.fromhex({data.hex()!r})")
            raise


@every_target
def test_and_so_have_those_that_hypothesis_finds(name: str) -> None:
    """Fewer, but other ones each time, and a failure is made small."""
    target, size = TARGETS[name]

    @given(st.binary(max_size=size))
    @settings(deadline=None, max_examples=150)
    def check(data: bytes) -> None:
        target(data)

    check()


def test_the_same_bytes_make_the_same_value_and_no_bytes_the_simplest() -> None:
    data = random.Random(7).randbytes(200)
    one, two = (Source(data).anything(["a", "b"]) for _ in range(2))
    assert one == two
    assert Source(b"").anything(["a"]) is None
    assert Source(b"").some(["a"], x=Source.text) == {}
    assert Source(b"\x05abcde").raw(8) == b"abcde"
    assert Source(b"\x09ab").raw(9) == b"ab"
    assert b"".join(Source(data).cut(b"0123456789")) == b"0123456789"


def test_a_target_that_fails_says_with_which_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: bytes) -> None:
        raise LookupError("no")

    monkeypatch.setitem(TARGETS, "any bytes", (fail, 4))
    with pytest.raises(LookupError) as failed:
        test_any_bytes_have_a_value_or_a_documented_error("any bytes")
    assert "bytes.fromhex('" in failed.value.__notes__[0]
