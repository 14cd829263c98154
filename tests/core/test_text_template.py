"""A payload like one that was read is not read again: what the template says of it is what the JSON reader would."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import claude
from tests.core.scripted import chunk, feed, make_run, sse
from toolnexus._core.sse import ServerSentEvent
from toolnexus._core.wire.anthropic import AnthropicWire
from toolnexus._core.wire.text_template import TextTemplate
from toolnexus.events import TextEvent
from toolnexus.messages import TextPart

# Few characters, so that texts, keys and the signs between them are often the same.
STRINGS = st.text(alphabet='":,\\A{}é \n\ufffd', max_size=5)


MANY = 10**6


def payload(text: str, before: str = "b", after: str = "a", *, ensure_ascii: bool = True) -> bytes:
    members = {"before": before, "content": text, after: [before]}
    return json.dumps(members, ensure_ascii=ensure_ascii, separators=(",", ":")).encode()


def event(data: bytes, name: str = "") -> bytes:
    return (b"event: %b\n" % name.encode() if name else b"") + b"data: %b\n\n" % data


def taught(data: bytes, text: str, name: str = "message") -> TextTemplate:
    template = TextTemplate()
    template.learn(ServerSentEvent(data, name), text)
    return template


def read(template: TextTemplate, data: bytes) -> list[str]:
    """The texts of one event, if the template knows it."""
    texts, at = template.texts(data, 0, MANY)
    assert at == (len(data) if texts else 0)
    return texts


@given(STRINGS, STRINGS, STRINGS, STRINGS, st.booleans())
def test_it_reads_what_the_json_reader_reads(first, second, before, after, ensure_ascii):
    template = taught(payload(first, before, after, ensure_ascii=ensure_ascii), first)
    data = payload(second, before, after, ensure_ascii=ensure_ascii)
    assert read(template, event(data)) in ([], [json.loads(data)["content"]])


@given(STRINGS, st.binary(max_size=8) | STRINGS.map(str.encode))
def test_what_is_no_json_is_left_to_the_reader(text, inside):
    head, tail = payload("A", text, "a").split(b'"A"', 1)
    data = head + b'"' + inside + b'"' + tail
    for found in read(taught(payload("A", text, "a"), "A"), event(data)):
        assert json.loads(data)["content"] == found


def test_the_events_in_a_row_are_read_and_the_next_one_is_left():
    template = taught(payload("Hel"), "Hel")
    row = [event(payload(text, ensure_ascii=False)) for text in ("lo.", "", "é")]
    before, other = b": hi\n\n", event(payload("a\nb"))
    data = before + b"".join(row) + other + row[0]
    assert template.texts(data, len(before), MANY) == (["lo.", "", "é"], len(before) + len(b"".join(row)))


def test_the_name_of_the_event_belongs_to_it():
    template = taught(payload("Hel"), "Hel", "delta")
    assert read(template, event(payload("lo"), "delta")) == ["lo"]
    assert read(template, event(payload("lo"), "error")) == []
    assert read(template, event(payload("lo"))) == []


def test_an_event_that_is_too_large_is_left_to_whoever_refuses_it():
    template, data = taught(payload("Hel"), "Hel"), event(payload("lo"))
    assert template.texts(data, 0, len(data)) == (["lo"], len(data))
    assert template.texts(data, 0, len(data) - 1) == ([], 0)


@pytest.mark.parametrize(
    "data",
    [
        event(payload("lo", before="other")),
        event(payload("lo", after="other")),
        event(payload('a "quote"')),
        event(payload("a\nline")),
        event(payload("é")),  # as an escape
        event(payload("A")).replace(b"\n", b"\r\n"),
        event(payload("A"))[:-1],
        b'data: {"before":"b","content":"',
        event(b'{"before":"b","content":"\xff","a":["b"]}'),
        event(b'{"before":"b","content":"\n","a":["b"]}'),
    ],
)
def test_what_differs_in_more_than_plain_text_must_be_read(data):
    assert read(taught(payload("Hel"), "Hel"), data) == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (payload("A", before="A"), "A"),  # which of them is it?
        (payload(":"), ":"),
        (payload(","), ","),
        (b'{"content":"\\u0041","other":"A"}', "A"),
        (b'{"content":"\xff","other":"\xef\xbf\xbd"}', "\ufffd"),
        (payload("\ud83d"), "\ud83d"),
        (payload(""), ""),
    ],
)
def test_an_example_that_could_mislead_is_not_taken(data, text):
    assert not taught(data, text).is_known


def test_a_server_whose_events_all_differ_is_not_tried_for_ever():
    template = TextTemplate()
    for number in range(100):
        template.learn(ServerSentEvent(payload("A", before=f"-{number}-")), "A")
    assert read(template, event(payload("A", before="-99-"))) == []


def test_one_that_is_used_is_learnt_as_often_as_need_be():
    template = TextTemplate()
    for number in range(100):
        data = payload("A", before=f"-{number}-")
        template.forget()
        assert read(template, event(data)) == []
        template.learn(ServerSentEvent(data), "A")
        assert read(template, event(data)) == ["A"]


def test_texts_go_on_with_the_block_that_they_are_of():
    run = make_run(wire=AnthropicWire())
    blocks = [claude.begin(n, "text", text="") for n in (0, 1)]
    pieces = [(0, "a"), (0, "b"), (1, 'c "'), (0, "f"), (1, "d"), (1, "e"), (0, "g"), (1, "h")]
    deltas = [claude.delta(n, "text_delta", text=text) for n, text in pieces]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    feed(run, *(sse(part) for part in (claude.start(), *blocks, *deltas, end, {"type": "message_stop"})))
    assert run.result().messages[-1].parts == (TextPart("abfg"), TextPart('c "deh'))


def test_a_block_that_begins_anew_under_the_same_index_gets_its_own_text():
    run = make_run(wire=AnthropicWire())
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    payloads = [claude.start(), *claude.text(0, "a", "b"), *claude.text(0, "c", "d"), end, {"type": "message_stop"}]
    feed(run, *map(sse, payloads))
    assert run.result().messages[-1].parts == (TextPart("ab"), TextPart("cd"))


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
