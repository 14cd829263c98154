"""A payload like one that was read is not read again: what the template says of it is what the JSON reader would."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import claude
from tests.core.scripted import chunk, feed, make_run, make_tool, sse
from toolnexus._core.payload import parse_payload
from toolnexus._core.sse import ServerSentEvent
from toolnexus._core.wire import Wire
from toolnexus._core.wire.anthropic import AnthropicWire
from toolnexus._core.wire.delta_template import DeltaTemplate, SoleDelta
from toolnexus._core.wire.openai import OpenAIWire
from toolnexus.errors import ToolnexusError
from toolnexus.events import TextEvent
from toolnexus.messages import ReasoningPart, TextPart

# Few characters, so that texts, keys and the signs between them are often the same.
STRINGS = st.text(alphabet='":,\\A{}é \n\ufffd', max_size=5)


MANY = 10**6


def payload(text: str, before: str = "b", after: str = "a", *, ensure_ascii: bool = True) -> bytes:
    members = {"before": before, "content": text, after: [before]}
    return json.dumps(members, ensure_ascii=ensure_ascii, separators=(",", ":")).encode()


def event(data: bytes, name: str = "") -> bytes:
    return (b"event: %b\n" % name.encode() if name else b"") + b"data: %b\n\n" % data


def content_of(payload: dict[str, Any]) -> SoleDelta | None:
    content = payload.get("content")
    return SoleDelta("content", content, str) if isinstance(content, str) else None


def teach(template: DeltaTemplate, data: bytes, name: str = "message") -> None:
    template.learn(ServerSentEvent(data, name), parse_payload(data), content_of)


def taught(data: bytes, name: str = "message") -> DeltaTemplate:
    template = DeltaTemplate()
    teach(template, data, name)
    return template


def read(template: DeltaTemplate, data: bytes) -> list[str]:
    """The texts of one event, if the template knows it."""
    texts, at = template.texts(data, 0, MANY)
    assert at == (len(data) if texts else 0)
    sole = template.sole_text(data, MANY)
    assert sole is None or [sole] == texts
    return texts


@given(STRINGS, STRINGS, STRINGS, STRINGS, st.booleans())
def test_it_reads_what_the_json_reader_reads(first, second, before, after, ensure_ascii):
    example = payload(first, before, after, ensure_ascii=ensure_ascii)
    data = payload(second, before, after, ensure_ascii=ensure_ascii)
    learnt = bool(json.loads(example)["content"]) and after != "content"  # which would be a second one, and no text
    assert read(taught(example), event(data)) == ([json.loads(data)["content"]] if learnt else [])


@given(STRINGS, st.binary(max_size=8) | STRINGS.map(str.encode))
def test_what_is_no_json_is_left_to_the_reader(text, inside):
    head, tail = payload("A", text, "a").split(b'"A"', 1)
    data = head + b'"' + inside + b'"' + tail
    for found in read(taught(payload("A", text, "a")), event(data)):
        assert json.loads(data)["content"] == found


def test_the_events_in_a_row_are_read_and_the_next_one_is_left():
    template = taught(payload("Hel"))
    texts = ["lo.", "", "é", 'a "quote"', "a\nline", "\\", '"}\n\n', "😀"]
    row = [event(payload(text, ensure_ascii=ascii)) for text in texts for ascii in (False, True)]
    before, other = b": hi\n\n", event(payload("a", before="other"))
    data = before + b"".join(row) + other + row[0]
    twice = [text for text in texts for _ in range(2)]
    assert template.texts(data, len(before), MANY) == (twice, len(before) + len(b"".join(row)))


@pytest.mark.parametrize("text", ["lo.", "", "é", "😀", "Hel"])
def test_an_event_by_itself_is_read_like_one_in_a_row(text):
    template = taught(payload("Hel"))
    data = event(payload(text, ensure_ascii=False))
    assert template.sole_text(data, len(data)) == text
    assert template.sole_text(data, len(data) - 1) is None


def test_what_is_more_or_less_than_one_plain_event_is_not_read_as_one():
    template = taught(payload("Hel"))
    data = event(payload("lo."))
    for other in ('a "quote"', "a\nline", "\\"):
        assert template.sole_text(event(payload(other)), MANY) is None
    assert template.sole_text(event(payload("A")).replace(b'"A"', b'"\xff"'), MANY) is None
    assert template.sole_text(data + data, MANY) is None
    for cut in range(len(data)):
        assert template.sole_text(data[:cut], MANY) is None
        assert template.sole_text(data[cut + 1 :], MANY) is None
    template.forget()
    assert template.sole_text(data, MANY) is None


def test_one_quote_is_not_taken_for_both_ends_of_the_text():
    data = event(payload("")).replace(b'""', b'"')
    assert read(taught(payload("Hel")), data) == []


def test_the_name_of_the_event_belongs_to_it():
    template = taught(payload("Hel"), "delta")
    assert read(template, event(payload("lo"), "delta")) == ["lo"]
    assert read(template, event(payload("lo"), "error")) == []
    assert read(template, event(payload("lo"))) == []


def test_an_event_that_is_too_large_is_left_to_whoever_refuses_it():
    template, data = taught(payload("Hel")), event(payload("lo"))
    assert template.texts(data, 0, len(data)) == (["lo"], len(data))
    assert template.texts(data, 0, len(data) - 1) == ([], 0)


@pytest.mark.parametrize(
    "data",
    [
        event(payload("lo", before="other")),
        event(payload("lo", after="other")),
        event(payload("\ud83d")),
        event(payload("A")).replace(b"\n", b"\r\n"),
        event(payload("A"))[:-1],
        b'data: {"before":"b","content":"',
        event(b'{"before":"b","content":"\xff","a":["b"]}'),
        event(b'{"before":"b","content":"\n","a":["b"]}'),
        event(b'{"before":"b","content":"lo","content":"","a":["b"]}'),
        event(b'{"before":"b","content":"lo\\","a":["b"]}'),
        event(b'{"before":"b","content":"\\x","a":["b"]}'),
    ],
)
def test_what_differs_in_more_than_plain_text_must_be_read(data):
    assert read(taught(payload("Hel")), data) == []


@pytest.mark.parametrize(
    "data",
    [
        b'{"content":"A","other":{"content":"A"}}',
        b'{"content":"A","content":{}}',
        b'{"content":"probe","other":{"content":"A"}}',
        b'{"content":\n"A"}',  # in two lines of data, which could be a line of something else as well
        b'{"c\\u006fntent":"A"}',
        payload(""),
    ],
)
def test_an_example_that_could_mislead_is_not_taken(data):
    assert read(taught(data), event(data)) == []


@pytest.mark.parametrize(
    "data",
    [
        payload("A", before="A"),
        payload(":"),
        b'{"content" : "\\u0041","other":"A"}',
        b'{"other":{"content":"A"},"content":"A"}',
        b'{"content":"A","content":"A"}',
        b'{"content":"A","other":"\xff"}',
    ],
)
def test_any_other_is_however_it_is_spelled(data):
    assert read(taught(data), event(data)) == [parse_payload(data)["content"]]


@pytest.mark.parametrize("text", ["x" * 200_000, '"' * 100_000])
def test_an_example_with_a_long_text_takes_little_memory(text):
    data = payload(text)
    tracemalloc.start()
    try:
        template = taught(data)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(data)
    finally:
        tracemalloc.stop()
    assert read(template, event(data)) == [text]


def test_a_server_whose_events_all_differ_is_not_tried_for_ever():
    template = DeltaTemplate()
    for number in range(100):
        teach(template, payload("A", before=f"-{number}-"))
    assert not template.may_help
    assert read(template, event(payload("A", before="-99-"))) == []


@pytest.mark.parametrize("alone", [False, True])
def test_one_that_is_used_is_learnt_as_often_as_need_be(alone):
    template = DeltaTemplate()
    for number in range(100):
        data = payload("A", before=f"-{number}-")
        template.forget()
        assert read(template, event(data)) == []
        teach(template, data)
        assert ([template.sole_text(event(data), MANY)] if alone else read(template, event(data))) == ["A"]


@pytest.mark.parametrize(("kind", "delta"), [("text", "text_delta"), ("thinking", "thinking_delta")])
def test_texts_go_on_with_the_block_that_they_are_of(kind, delta):
    run = make_run(wire=AnthropicWire())
    blocks = [claude.begin(n, kind, **{kind: ""}) for n in (0, 1)]
    pieces = [(0, "a"), (0, "b"), (0, "B"), (1, 'c "'), (0, "f"), (1, "d"), (1, "e"), (1, "E"), (0, "g"), (1, "h")]
    deltas = [claude.delta(n, delta, **{kind: text}) for n, text in pieces]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    feed(run, *(sse(part) for part in (claude.start(), *blocks, *deltas, end, {"type": "message_stop"})))
    parts = run.result().messages[-1].parts
    assert [part.text for part in parts if isinstance(part, (TextPart, ReasoningPart))] == ["abBfg", 'c "deEh']


def test_a_block_with_thinking_in_tags_stays_one_block():
    texts = ("<think>h", "m", "</think>a", "b", "c")
    payloads = [claude.start(), *claude.text(0, *texts), *claude.finish()]
    parts = []
    for between in ((), ({"type": "ping"},)):
        run = make_run(wire=AnthropicWire(), split_think_tags=True)
        feed(run, *(sse(*between, payload) for payload in payloads))
        parts.append(run.result().messages[-1].parts)
    assert parts[0] == parts[1]


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
        chunk(tool_calls=[{"index": 0, "function": {"name": "look", "arguments": "{}"}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}, {"index": 1, "function": {}}]),
        {"choices": [{"index": 1, "delta": {"content": "b"}}]},
        {"choices": [{"index": 0, "delta": {"content": "b"}}, {"index": 1, "delta": {"content": "c"}}]},
        {"choices": [{"index": 1, "delta": {"content": "c"}}, {"index": 0, "delta": {"reasoning": "hm"}}]},
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


def test_an_empty_piece_of_arguments_does_not_hide_that_they_were_whole():
    first, second = {"name": "look", "arguments": '{"a"'}, {"name": "look", "arguments": "{}"}
    pieces = [first, {"arguments": ": 1}"}, {"arguments": ""}, second]  # parallel calls that all come as index 0
    run = make_run(make_tool())
    feed(
        run, *[sse(chunk(tool_calls=[{"index": 0, "function": piece}])) for piece in pieces], sse(chunk(finish="stop"))
    )
    assert [call.args for call in run.messages[-1].tool_calls] == [{"a": 1}, {}]


PIECES = st.sampled_from(['{"a"', ": 1}", "", "{}", "\\", '"', "x\n", "\ud83d", "\ude00", "é"]) | STRINGS
ENTRIES = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({}, optional={"arguments": PIECES, "name": st.sampled_from(["", "look"])})},
    optional={
        "index": st.sampled_from([0, 0, 0, 1, None]),
        "id": st.sampled_from(["", "c1", "c2"]),
        "type": st.just("function"),
        "extra_content": st.just({"a": 1}),
    },
)
DELTAS = (
    st.fixed_dictionaries({"tool_calls": st.lists(ENTRIES, min_size=1, max_size=2) | ENTRIES})
    | st.fixed_dictionaries({}, optional={"content": PIECES, "role": st.just("assistant"), "refusal": PIECES})
    | st.fixed_dictionaries({}, optional={"reasoning": PIECES, "reasoning_content": PIECES, "content": st.none()})
)
BLOCKS = st.tuples(
    st.sampled_from([0, 1, 2]),
    st.sampled_from(
        [("text_delta", "text"), ("input_json_delta", "partial_json"), ("thinking_delta", "thinking"), ("?", "text")]
    ),
    PIECES,
)


def told(wire: Wire, payloads: list[Any], *, between: Any = None, alone: bool = False) -> Any:
    """All that a run makes of a response, with a payload that says nothing before each of the others.

    Args:
        alone: Whether each event comes with a read of its own, not all with one.
    """
    run = make_run(make_tool(), wire=wire, observed=True)
    lines = [sse(payload) for payload in payloads]
    data = b"".join(lines if between is None else [sse(between) + line for line in lines])
    try:
        events = feed(run, *(lines if alone else [data]))
    except ToolnexusError as error:
        return repr(error), run.take_news()
    return events, run.result().messages[1:], run.take_news()


@given(st.lists(st.tuples(DELTAS, st.integers(1, 3)), max_size=8))
def test_what_is_cut_out_is_what_would_be_read_in_openai_style(deltas):
    row = [chunk(**delta) for delta, times in deltas for _ in range(times)]
    payloads = [*row, chunk(finish="stop"), "[DONE]"]
    read = told(OpenAIWire(), payloads, between={"choices": []})
    assert told(OpenAIWire(), payloads) == read
    assert told(OpenAIWire(), payloads, alone=True) == read


@given(st.lists(st.tuples(BLOCKS, st.integers(1, 3)), max_size=8))
def test_what_is_cut_out_is_what_would_be_read_in_anthropic_style(deltas):
    row = [claude.delta(index, type, **{name: text}) for (index, (type, name), text), n in deltas for _ in range(n)]
    blocks = [
        claude.begin(0, "text", text=""),
        claude.begin(1, "tool_use", id="c1", name="look", input={}),
        claude.begin(2, "thinking", thinking=""),
    ]
    payloads = [claude.start(), *blocks, *row, *claude.finish()]
    read = told(AnthropicWire(), payloads, between={"type": "ping"})
    assert told(AnthropicWire(), payloads) == read
    assert told(AnthropicWire(), payloads, alone=True) == read
