"""Whole runs against what real servers were seen to send, read whole, byte by byte and cut at random.

Cases of this kind that are about the transport (compression, redaction of the key, waiting times) are tested where
the transport is.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

from tests.core.wire_cases import Case, Cut, run_case
from tests.core.wire_judge import judge
from tests.tables import wire_cases

LEFT_OUT = {
    "framing-gzip-encoded-stream": "the transport decodes the content encoding; the core sees plain bytes",
}


def as_given(writes: Sequence[bytes]) -> Iterable[bytes]:
    return writes


def in_one_piece(writes: Sequence[bytes]) -> Iterable[bytes]:
    return [b"".join(writes)]


def byte_by_byte(writes: Sequence[bytes]) -> Iterable[bytes]:
    return (bytes((byte,)) for byte in b"".join(writes))


def at_random(seed: int) -> Cut:
    def cut(writes: Sequence[bytes]) -> Iterable[bytes]:
        body = b"".join(writes)
        rng = random.Random(f"{seed}/{len(body)}")
        ends = sorted(rng.choices(range(len(body) + 1), k=rng.randint(1, 40)))
        return [body[start:end] for start, end in zip([0, *ends], [*ends, len(body)], strict=True)]

    return cut


CUTS = {
    "as given": as_given,
    "in one piece": in_one_piece,
    "byte by byte": byte_by_byte,
    **{f"cut by {seed}": at_random(seed) for seed in range(5)},
}
CASES = [*wire_cases("openai"), *wire_cases("anthropic")]


@pytest.mark.case("api-done-always-last-once", "api-random-rechunking")
@pytest.mark.parametrize("ending", ["given", "reset"])
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_run_becomes_what_the_case_says(case: Case, cut: Cut, ending: str) -> None:
    judge(case, run_case(case, cut, ending))


def test_the_cases_are_there_and_have_an_origin() -> None:
    assert (len(wire_cases("openai")), len(wire_cases("anthropic"))) == (120, 24)
    assert all(case["origin"] for case in CASES)
    assert not LEFT_OUT.keys() & {case["id"] for case in CASES}


@pytest.mark.parametrize(
    "expect",
    [
        {"text": "Something else."},
        {"nonsense": True},
        {"any_of": [{"status": "error"}]},
        {"any_of": [{"nonsense": True}]},
        {"events": [["text", "Something else."]]},
        {"requests": 7},
        {"next_request_contains": [{"request": 1, "path": "model", "equals": "other"}]},
        {"next_request_contains": [{"request": 1, "path": "model", "nonsense": 1}]},
        {"usage": {"input_tokens": 12345}},
    ],
)
def test_the_judge_refuses_what_is_not_so(expect: dict[str, object]) -> None:
    (case,) = (case for case in CASES if case["id"] == "framing-crlf-split-across-writes")
    with pytest.raises(AssertionError):
        judge({**case, "expect": expect}, run_case(case, as_given, "given"))


@pytest.mark.parametrize(
    "expect",
    [
        {"next_request_contains": [{"request": 2, "path": "messages[-1].content[*].tool_use_id", "equals": ["x"]}]},
        {"next_request_contains": [{"request": 2, "path": "messages[-2].content[*].input", "is_object": True}]},
        {"second_prompt": "Sure?"},
        {"tool_runs": 2},
    ],
)
def test_the_judge_refuses_what_is_not_so_in_the_other_style(expect: dict[str, object]) -> None:
    (case,) = (case for case in CASES if case["id"] == "anthropic-all-results-in-one-user-message")
    with pytest.raises(AssertionError):
        judge({**case, "expect": expect}, run_case(case, as_given, "given"))
