"""Whatever a server sends, a run goes on, ends, or fails with an error of ours."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.core.scripted import DONE, make_run, make_tool, sse
from tests.tables import wire_cases
from toolnexus._core.commands import Finish, RunTools, SendRequest
from toolnexus._core.run import AgentRun
from toolnexus.errors import StreamInterruptedError, ToolnexusError
from toolnexus.events import ReasoningEvent, StreamEvent, TextEvent, event_from_json, event_to_json

TOOL_NAMES = sorted({tool["name"] for case in wire_cases() for tool in case["tools"]})
TOOLS = [make_tool(name) for name in ["look", *TOOL_NAMES]]


def play(pieces: list[bytes], status: int = 200, *, reset: bool = False, stream: bool = True) -> AgentRun:
    """One reply, and the checks that hold for every reply."""
    run = make_run(*TOOLS, stream=stream)
    events: list[StreamEvent] = []
    failed: ToolnexusError | None = None
    run.response_opened(status, {}, 0.0)
    try:
        for piece in pieces:
            events += run.receive(piece)
        events += run.response_failed(StreamInterruptedError("reset")) if reset else run.response_ended()
    except ToolnexusError as error:
        failed = error
        run.next_command()
        result = run.abandon()
    else:
        command = run.next_command()
        assert isinstance(command, RunTools | SendRequest | Finish)
        result = run.result()
    assert failed is None or (result.status == "error" and len(str(failed).encode()) < 3000)
    for event in events:
        if isinstance(event, TextEvent | ReasoningEvent):
            assert event.delta
            event.delta.encode()
        assert event_from_json(event_to_json(event)) == event
    shown = "".join(e.delta for e in events if isinstance(e, TextEvent))
    assert shown == result.text or (failed is not None and not shown)
    # What was said can be stored, and sent on.
    result.model_dump_json()
    json.dumps(run.body(_request(run)), ensure_ascii=False, allow_nan=False).encode()
    return run


def _request(run: AgentRun) -> Any:
    # The request that would follow, whatever the run waits for now.
    return make_run(history=run.messages).next_command().request  # type: ignore[union-attr]  # a new run asks first


pieces_of_bytes = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from(
            [b"data: ", b"data:", b"\n", b"\n\n", b"\r", b"\r\n", b"event: error\n", b"{", b"}", b"[", b'"', b":", b"<"]
        ),
        st.sampled_from(
            [b"\xef\xbb\xbf", b"[DONE]", DONE, b'{"choices":[', b'"delta":{"content":"', b'"}}]}', b"null"]
        ),
        st.sampled_from([b'{"error":{"message":"', b'{"error":"', b"\\ud83d", b"\xed\xa0\xbd", b" ", b"data: {}\n\n"]),
    ),
    max_size=20,
)


@given(pieces_of_bytes, st.sampled_from([200, 200, 200, 204, 301, 400, 401, 429, 500, 529]), st.booleans())
@settings(deadline=None, max_examples=1000)
def test_any_bytes_become_events_or_an_error_of_ours(pieces: list[bytes], status: int, reset: bool) -> None:
    play(pieces, status, reset=reset)


odd_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)  # surrogates too
scalar = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), odd_text, st.sampled_from(["", "{}", "error"])
)
MEMBERS = (
    "choices delta message index finish_reason content tool_calls function name arguments id type usage error text "
    "x_groq reasoning reasoning_content reasoning_details thinking summary code status prompt_tokens extra"
)
members = st.sampled_from(MEMBERS.split())
anything = st.recursive(
    scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members | odd_text, inner, max_size=4),
    max_leaves=12,
)
wild: st.SearchStrategy[Any] = anything | st.just({}) | st.just([])


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A member as it should be, nearly always."""
    return st.integers(0, 11).flatmap(lambda n: wild if n == 0 else usual)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: mostly(value) for name, value in fields.items()})


near_detail = some(
    type=st.sampled_from(["reasoning.text", "reasoning.encrypted"]),
    index=st.integers(0, 2),
    text=odd_text,
    summary=odd_text,
    data=odd_text,
)
near_call = some(
    index=st.integers(0, 2),
    id=st.sampled_from(["", "c1", "c2"]) | odd_text,
    type=st.just("function"),
    function=some(
        name=st.sampled_from(["look", "", "other"]) | odd_text,
        arguments=st.sampled_from(["", "{}", '{"a":', "1}", '{"a":1}', "null", "[1]"]) | odd_text,
    ),
    extra=anything,
)
near_part = some(type=st.sampled_from(["text", "thinking"]), text=odd_text, thinking=odd_text | anything)
near_delta = some(
    role=st.just("assistant"),
    content=odd_text | st.none() | st.lists(near_part, max_size=2),
    refusal=odd_text,
    reasoning=odd_text,
    reasoning_content=odd_text,
    reasoning_details=st.lists(mostly(near_detail), max_size=2),
    tool_calls=st.lists(mostly(near_call), max_size=3),
)
near_choice = some(
    index=st.integers(0, 1),
    delta=near_delta,
    message=near_delta,
    finish_reason=st.sampled_from([None, "stop", "length", "tool_calls", "content_filter", "error"]) | odd_text,
)
near_usage = some(
    prompt_tokens=st.integers(0, 9),
    completion_tokens=st.integers(0, 9),
    total_tokens=st.integers(0, 9),
    prompt_tokens_details=some(cached_tokens=st.integers(0, 9)),
)
near_chunk = some(
    choices=st.lists(mostly(near_choice), max_size=2),
    usage=near_usage,
    x_groq=some(usage=near_usage),
    error=some(message=odd_text, type=odd_text | st.just("overloaded_error"), code=anything | st.just("²")),
)
payloads = st.lists(near_chunk | near_chunk | anything | st.sampled_from(["[DONE]", ""]), max_size=5)


@given(payloads, st.booleans(), st.booleans())
@settings(deadline=None, max_examples=1500)
@example([{"choices": [{"delta": {"reasoning_details": [{"index": [0], "text": "a"}]}}]}], True, False)
@example([{"choices": [{"delta": {"content": [{"type": "thinking", "thinking": 5}]}}]}], True, False)
@example([{"error": {"message": "no", "code": "²"}}], True, False)
def test_any_objects_as_payloads_become_events_or_an_error_of_ours(
    payloads: list[Any], done: bool, reset: bool
) -> None:
    play([sse(*payloads), DONE if done else b""], reset=reset)


@given(near_chunk | anything)
@settings(deadline=None, max_examples=800)
def test_any_object_as_a_whole_reply_becomes_an_answer_or_an_error_of_ours(payload: Any) -> None:
    play([json.dumps(payload).encode()], stream=False)


@given(anything, st.sampled_from([300, 400, 404, 418, 429, 500, 503]))
@settings(deadline=None, max_examples=400)
def test_any_object_as_an_error_body_becomes_an_error_of_ours(payload: Any, status: int) -> None:
    run = make_run()
    run.response_opened(status, {}, 0.0)
    run.receive(json.dumps(payload).encode())
    with pytest.raises(ToolnexusError):
        run.response_ended()


# -- every sub-value of every chunk of the wire cases, replaced by a value of every other kind

REPLACEMENTS: list[Any] = [None, True, 7, -1.5, "odd", "", [], [7], {}, {"odd": [7]}, ["odd"], [{"odd": None}]]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    out = copy.copy(value)
    out[path[0]] = replaced(value[path[0]], path[1:], new)
    return out


def streams() -> Iterator[tuple[str, list[Any]]]:
    seen = set()
    for case in wire_cases():
        for turn in case["turns"]:
            text = "".join(turn.get("chunks", ()))
            found = re.findall(r"^data: (\{.*\})$", text, re.MULTILINE)
            try:
                chunks = [json.loads(line) for line in found]
            except ValueError:
                continue
            for chunk in chunks:
                for member in ("id", "object", "created", "model"):  # nobody looks at them
                    chunk.pop(member, None)
            key = json.dumps(chunks)
            if chunks and key not in seen and len(chunks) < 20:
                seen.add(key)
                yield case["id"], chunks


STREAMS = list(streams())


@pytest.mark.parametrize("chunks", [chunks for _, chunks in STREAMS], ids=[id for id, _ in STREAMS])
def test_a_wrong_type_anywhere_in_a_stream_becomes_events_or_an_error_of_ours(chunks: list[Any]) -> None:
    lines = [sse(chunk) for chunk in chunks]
    for i, chunk in enumerate(chunks):
        for path in paths(chunk):
            for new in REPLACEMENTS:
                changed = sse(replaced(chunk, path, new))
                play([*lines[:i], changed, *lines[i + 1 :], DONE])


@pytest.mark.parametrize("chunks", [chunks for _, chunks in STREAMS], ids=[id for id, _ in STREAMS])
def test_no_call_of_a_stream_that_is_cut_runs(chunks: list[Any]) -> None:
    body = sse(*chunks)
    ends = [m.end() for m in re.finditer(rb"\n\n", body)]
    for end in ends:
        run = make_run(*TOOLS)
        run.response_opened(200, {}, 0.0)
        run.receive(body[: end - 1])  # the last event lacks its blank line
        complete = run.patience is not None
        try:
            run.response_failed(StreamInterruptedError("reset"))
        except ToolnexusError:
            assert isinstance(run.next_command(), SendRequest)
            assert not run.abandon().tool_calls
        else:
            assert complete
