from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.scripted import answer, chunk, make_run
from toolnexus._core.think_tags import ThinkTags
from toolnexus.events import ReasoningEvent, TextEvent
from toolnexus.messages import Message, ReasoningPart, TextPart


def split(pieces: list[str]) -> tuple[str, str]:
    """The thinking and the answer in text that comes in these pieces."""
    tags = ThinkTags()
    found = [*(tags.split(piece) for piece in pieces), tags.end()]
    return "".join(thinking for thinking, _ in found), "".join(text for _, text in found)


CASES = [
    ("", "", ""),
    ("Hello", "", "Hello"),
    ("<think>Hm.</think>Hello", "Hm.", "Hello"),
    (" \n<think>\nHm.\n</think>\r\n\n Hello\n", "\nHm.\n", " Hello\n"),
    ("<think></think>Hello", "", "Hello"),
    ("<think>Hm.", "Hm.", ""),
    ("<think>Hm.</thi", "Hm.</thi", ""),
    ("<think>a<b</think>c</think>", "a<b", "c</think>"),
    ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    ("<thin", "", "<thin"),
    ("<thinking>Hm.", "", "<thinking>Hm."),
    (" \n", "", " \n"),
    (" a", "", " a"),
    ("Say <think>", "", "Say <think>"),
    ("<think>Hm.</think>\n", "Hm.", ""),
]


@pytest.mark.parametrize(("text", "thinking", "said"), CASES)
def test_a_block_at_the_start_is_thinking_wherever_it_is_cut(text: str, thinking: str, said: str) -> None:
    assert split([text]) == split([*text]) == (thinking, said)
    for at in range(len(text)):
        assert split([text[:at], "", text[at:]]) == (thinking, said)


fragments = st.sampled_from(["<think>", "</think>", "<", ">", "</", "think", " ", "\n", "a", "<thi", "</th"])


@given(st.lists(fragments, max_size=12))
def test_any_text_in_any_pieces_is_split_like_the_whole(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = re.match(r"\s*<think>(.*?)(?:</think>[\r\n]*(.*)|\Z)", text, re.DOTALL)
    expected = (found[1], found[2] or "") if found else ("", text)
    assert split(pieces) == split([text]) == expected


def test_a_run_splits_only_where_it_was_asked_to() -> None:
    chunks = [chunk("<thi"), chunk("nk>H"), chunk("m.</think>"), chunk("\nHel"), chunk("lo"), chunk(finish="stop")]
    plain, splitting = make_run(), make_run(split_think_tags=True)
    assert all(isinstance(event, TextEvent) for event in answer(plain, *chunks))
    events = answer(splitting, *chunks)
    assert events == [ReasoningEvent("H"), ReasoningEvent("m."), TextEvent("Hel"), TextEvent("lo")]
    assert splitting.messages[1] == Message(
        "assistant", [ReasoningPart("Hm.", "openai:api.example"), TextPart("Hello")]
    )
    assert splitting.result().text == "Hello"


@pytest.mark.parametrize(("text", "thinking", "said"), [("<thin", "", "<thin"), ("<think>Hm.</th", "Hm.</th", "")])
def test_what_was_held_back_is_let_go_at_the_end(text: str, thinking: str, said: str) -> None:
    run = make_run(split_think_tags=True)
    events = answer(run, chunk(text, finish="stop"))
    assert "".join(e.delta for e in events if isinstance(e, ReasoningEvent)) == thinking
    assert "".join(e.delta for e in events if isinstance(e, TextEvent)) == said == run.result().text
