"""A payload like one that was read is not read again: what the template says of it is what the JSON reader would."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.scripted import chunk, feed, make_run, sse
from toolnexus._core.wire.text_template import TextTemplate
from toolnexus.events import TextEvent

# Few characters, so that texts, keys and the signs between them are often the same.
STRINGS = st.text(alphabet='":,\\A{}é \n\ufffd', max_size=5)


def payload(text: str, before: str = "b", after: str = "a", *, ensure_ascii: bool = True) -> bytes:
    members = {"before": before, "content": text, after: [before]}
    return json.dumps(members, ensure_ascii=ensure_ascii, separators=(",", ":")).encode()


def taught(data: bytes, text: str) -> TextTemplate:
    template = TextTemplate()
    template.learn(data, text)
    return template


@given(STRINGS, STRINGS, STRINGS, STRINGS, st.booleans())
def test_it_reads_what_the_json_reader_reads(first, second, before, after, ensure_ascii):
    template = taught(payload(first, before, after, ensure_ascii=ensure_ascii), first)
    data = payload(second, before, after, ensure_ascii=ensure_ascii)
    assert template.text(data) in (None, json.loads(data)["content"])


@given(STRINGS, st.binary(max_size=8) | STRINGS.map(str.encode))
def test_what_is_no_json_is_left_to_the_reader(text, inside):
    head, tail = payload("A", text, "a").split(b'"A"', 1)
    data = head + b'"' + inside + b'"' + tail
    found = taught(payload("A", text, "a"), "A").text(data)
    if found is not None:
        assert json.loads(data)["content"] == found


def test_a_text_is_read_without_its_payload():
    template = taught(payload("Hel"), "Hel")
    assert template.text(payload("lo.")) == "lo."
    assert template.text(payload("")) == ""
    assert template.text(payload("é", ensure_ascii=False)) == "é"


@pytest.mark.parametrize(
    "data",
    [
        payload("lo", before="other"),
        payload("lo", after="other"),
        payload('a "quote"'),
        payload("a\nline"),
        payload("é"),  # as an escape
        payload("A")[:-1],
        b'{"before":"b","content":"',
        b'{"before":"b","content":"\xff","a":["b"]}',
        b'{"before":"b","content":"\n","a":["b"]}',
    ],
)
def test_what_differs_in_more_than_plain_text_must_be_read(data):
    assert taught(payload("Hel"), "Hel").text(data) is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (payload("A", before="A"), "A"),  # which of them is it?
        (payload(":"), ":"),
        (payload(","), ","),
        (b'{"content":"\\u0041","other":"A"}', "A"),
        (b'{"content":"\xff","other":"\xef\xbf\xbd"}', "\ufffd"),
        (payload("\ud83d"), "\ud83d"),
    ],
)
def test_an_example_that_could_mislead_is_not_taken(data, text):
    template = taught(data, text)
    assert template.text(data) is None


def test_a_server_whose_payloads_all_differ_is_not_tried_for_ever():
    template = TextTemplate()
    for number in range(100):
        template.learn(payload("A", before=str(number)), "A")
    assert template.text(payload("A", before="99")) is None


def test_one_that_is_used_is_learnt_as_often_as_need_be():
    template = TextTemplate()
    for number in range(100):
        data = payload("A", before=f"-{number}-")
        template.forget()
        assert template.text(data) is None
        template.learn(data, "A")
        assert template.text(data) == "A"


@pytest.mark.parametrize(
    "other",
    [
        chunk("b", finish="stop"),
        chunk("b", usage={"prompt_tokens": 1, "completion_tokens": 1}),
        chunk("b", reasoning_content="hm"),
        {"choices": [{"index": 1, "delta": {"content": "b"}}]},
        {"choices": [{"index": 0, "delta": {"content": "b"}}, {"index": 1, "delta": {"content": "c"}}]},
    ],
)
def test_no_example_is_taken_from_a_payload_that_says_more(other):
    lines = [sse(chunk("a")), sse(other), sse(other), sse(chunk("d", finish="stop"))]
    forgetful = [piece for line in lines for piece in (sse({"choices": []}), line)]
    runs = [(make_run(), lines), (make_run(), forgetful)]
    told = []
    for run, pieces in runs:
        told.append(feed(run, *pieces))
    assert told[0] == told[1]
    assert TextEvent("a") in told[0]
    assert [run.result().messages for run, _ in runs] == [[*runs[0][0].result().messages]] * 2
