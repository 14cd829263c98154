"""The official SDKs as oracles: from the same bytes they must have put together the same answer.

They are no dependency of the tests: the `oracles` session installs them, and without them these tests are skipped.
No socket is opened; the bytes come through the mock transport of whichever httpx an SDK uses.
"""

from __future__ import annotations

import base64
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.core.scripted import make_run
from tests.core.wire_cases import WIRES
from tests.tables import wire_cases
from toolnexus.errors import ToolnexusError
from toolnexus.messages import ReasoningPart

SHARED = Path(__file__).parents[3] / "shared"
"""Recorded streams, for those who have them."""


@dataclass(frozen=True)
class Stream:
    id: str
    style: Literal["openai", "anthropic"]
    body: bytes


@dataclass
class Answer:
    """What a reader made of a stream."""

    text: str
    calls: list[tuple[str, str, Any]]
    """Id, name, and the arguments: an object, or their text where it is no object."""
    usage: dict[str, int | None]
    """By our names; only what the SDK has a field for."""
    thinking: list[tuple[str, str]]
    """Text and signature of each block; Anthropic only."""


def streams() -> Iterator[Stream]:
    for style in WIRES:
        for case in wire_cases(style):
            for number, turn in enumerate(case["turns"], 1):
                pieces = [base64.b64decode(c) for c in turn.get("chunks_b64", ())] or [
                    c.encode() for c in turn["chunks"]
                ]
                body = b"".join(pieces)
                if turn["status"] == 200 and not body.lstrip().startswith((b"{", b"[", b"<")):
                    yield Stream(f"{case['id']}/{number}", style, body)  # type: ignore[arg-type]  # the keys of WIRES
    for path in sorted((SHARED / "corpus" / "recorded").glob("*.json")):
        about = json.loads(path.read_text("utf-8"))
        # Some were recorded one after the other.
        body, end = path.with_suffix(".sse").read_bytes(), b'data: {"type":"message_stop"}\n\n'
        for number, response in enumerate([r + end for r in body.split(end)[:-1]] or [body], 1):
            yield Stream(f"{about['id']}/{number}", about["style"], response)
    for path in sorted((SHARED / "real" / "captures").glob("*/*.sse")):
        found = re.fullmatch(r"(?:loop_)?(openai|anthropic)_.*", path.stem)
        if found and path.read_bytes().startswith((b"data:", b"event:", b":")):
            yield Stream(f"{path.parent.name}/{path.stem}", found[1], path.read_bytes())  # type: ignore[arg-type]  # by the pattern


def ours(stream: Stream) -> Answer | None:
    """What we make of a stream; `None` if it is no complete answer."""
    run = make_run(wire=WIRES[stream.style], origin=f"{stream.style}:api.example")
    run.response_opened(200, {}, 0.0)
    try:
        run.receive(stream.body)
        run.response_ended()
    except ToolnexusError:
        return None
    result = run.result()
    message = run.messages[1] if len(run.messages) > 1 else None
    usage = result.usage
    counts = {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens, "cached": usage.cached_tokens}
    return Answer(
        result.text,
        [(c.id, c.name, c.raw if c.error else c.args) for c in (message.tool_calls if message else ())],
        counts if stream.style == "anthropic" else {**counts, "total": usage.total_tokens},
        [
            (part.text, part.extra["signature"])
            for part in (message.parts if message else ())
            if isinstance(part, ReasoningPart) and "signature" in part.extra
        ],
    )


STREAMS = {stream.id: stream for stream in streams()}
COMPLETE = {id: answer for id, stream in STREAMS.items() if (answer := ours(stream)) is not None}


# -- the oracles


def sdk(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as missing:
        if os.environ.get("TOOLNEXUS_REQUIRE_SDKS") == "1":
            pytest.fail(str(missing))
        pytest.skip(f"{missing}; the session `oracles` installs it")


def client(package: Any, name: str, body: bytes) -> Any:
    """The SDK's client, with a server that answers with `body`."""
    base = package._base_client
    httpx = getattr(base, "httpx2", None) or base.httpx  # they changed from the one to the other in 2026
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    )
    return getattr(package, name)(
        api_key="k", base_url="http://sdk.example", http_client=httpx.Client(transport=transport), max_retries=0
    )


def openai_reads(body: bytes) -> Answer:
    with (
        client(sdk("openai"), "OpenAI", body) as openai,
        openai.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream_options={"include_usage": True}
        ) as stream,
    ):
        completion = stream.get_final_completion()
    message, usage = completion.choices[0].message, completion.usage
    details = getattr(usage, "prompt_tokens_details", None)
    return Answer(
        (message.content or "") + (message.refusal or ""),
        [(c.id, c.function.name, read(c.function.arguments)) for c in message.tool_calls or ()],
        {
            "prompt": getattr(usage, "prompt_tokens", None),
            "completion": getattr(usage, "completion_tokens", None),
            "total": getattr(usage, "total_tokens", None),
            "cached": getattr(details, "cached_tokens", None),
        },
        [],
    )


def anthropic_reads(body: bytes) -> Answer:
    with (
        client(sdk("anthropic"), "Anthropic", body) as anthropic,
        anthropic.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]) as stream,
    ):
        message = stream.get_final_message()
    usage, blocks = message.usage, message.content
    cached = usage.cache_read_input_tokens
    return Answer(
        "".join(b.text for b in blocks if b.type == "text"),
        [(b.id, b.name, b.input) for b in blocks if b.type == "tool_use"],
        {
            "prompt": usage.input_tokens + (cached or 0) + (usage.cache_creation_input_tokens or 0),
            "completion": usage.output_tokens,
            "cached": cached,
        },
        [(b.thinking, b.signature) for b in blocks if b.type == "thinking"],
    )


def read(arguments: str) -> Any:
    """Arguments as an object; as they are if they are none."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


ORACLES: dict[str, Callable[[bytes], Answer]] = {"openai": openai_reads, "anthropic": anthropic_reads}


def verdict(stream: Stream) -> tuple[str, str]:
    """`"agrees"`, `"differs"` or `"refuses"`, and the details."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of their own models, where a member has another type than they thought
            theirs = ORACLES[stream.style](stream.body)
    except Exception as error:  # an SDK raises whatever the bytes led it to
        return "refuses", f"{type(error).__name__}: {error}"[:300]
    mine = COMPLETE[stream.id]
    # An id that the server left out is made up by us.
    if len(theirs.calls) == len(mine.calls):
        theirs.calls = [(c[0] or own[0], *c[1:]) for c, own in zip(theirs.calls, mine.calls, strict=True)]
    return ("agrees", "") if theirs == mine else ("differs", f"theirs {theirs}, ours {mine}")


NULL_DELTA = "the delta of a chunk is null"
NOT_JSON = "it reads an event without data as JSON"
APPENDED = "it appends names and ids of later pieces to those of the first"
MERGED = "it merges calls that come under one index"
LENGTH = "its way to report the finish reason `length` is an exception"
TWICE = "a key of the arguments comes twice, and the last one counts"
NO_INDEX = "a call has no index"

EXCEPTIONS: dict[str, tuple[str, str]] = {
    "finish-azure-content-filter-mid-answer/1": ("refuses", NULL_DELTA),
    "finish-choice-index-always-one/1": ("refuses", "the only choice has index 1"),
    "finish-length-plain-text/1": ("refuses", LENGTH),
    "framing-comment-rewrapped-as-data/1": ("refuses", "a comment came as data"),
    "framing-empty-data-heartbeat/1": ("refuses", NOT_JSON),
    "framing-retry-field-only-event/1": ("refuses", NOT_JSON),
    "framing-leading-bom/1": ("differs", "it loses the first event behind a byte order mark"),
    "framing-lone-surrogate-in-delta/1": ("differs", "it keeps text that cannot be encoded"),
    "framing-surrogate-pair-split-over-deltas/1": ("differs", "it keeps text that cannot be encoded"),
    "reasoning-content-as-list-of-parts/1": ("differs", "content in parts is lost"),
    "tools-all-index-zero-different-ids/1": ("differs", MERGED),
    "tools-all-index-zero-no-ids/1": ("differs", MERGED),
    "tools-same-tool-same-args-two-ids/1": ("differs", MERGED),
    "tools-arguments-as-object/1": ("refuses", "the arguments are an object"),
    "tools-calls-as-single-object/1": ("refuses", "`tool_calls` is a single object"),
    "tools-delta-null-on-finish-chunk/1": ("refuses", NULL_DELTA),
    "tools-empty-object-placeholder-first/1": ("differs", "it keeps the placeholder before the arguments"),
    "tools-finish-chunk-carries-last-arguments/1": ("differs", APPENDED),
    "tools-id-repeated-on-every-chunk/1": ("differs", APPENDED),
    "tools-new-random-id-on-each-continuation/1": ("differs", APPENDED),
    "tools-name-repeated-on-every-chunk/1": ("refuses", "the type of the call is repeated"),
    "tools-nulls-on-continuation/1": ("refuses", "later pieces have nulls"),
    "tools-gemini-one-frame-everything/1": ("refuses", NO_INDEX),
    "tools-index-missing-single/1": ("refuses", NO_INDEX),
    "tools-index-on-some-deltas-only/1": ("refuses", NO_INDEX),
    "usage-choices-null/1": ("refuses", "`choices` is null"),
    "anthropic-delta-without-block-start/1": ("refuses", "a block was never started"),
    "anthropic-done-marker-at-end/1": ("refuses", "`[DONE]` at the end"),
    "anthropic-invalid-partial-json/1": ("refuses", "the input of a call is no JSON"),
    "anthropic-second-message-start-mid-stream/1": ("differs", "it goes on with the half call of the first message"),
}
"""Streams that an SDK refuses, or of which it makes something else, and why; anything else must agree."""

SHARED_EXCEPTIONS: dict[str, tuple[str, str]] = {
    "rec-anthropic-spliced-message-start/1": ("differs", "it goes on with the half call of the first message"),
    "rec-cerebras-tools/1": ("differs", "two responses were recorded as one"),
    "rec-groq-compound-web-search/1": ("differs", "usage under `x_groq` only"),
    "rec-mistral-tool-call/1": ("refuses", NO_INDEX),
    "rec-moonshot-stream/1": ("refuses", "the chunks lack `object`"),
    "rec-openrouter-web-search-annotations/1": ("refuses", "an annotation has no index"),
    "aimock/openai_length": ("refuses", LENGTH),
    "llamacpp/openai_bad_role": ("refuses", LENGTH),
    "llamacpp/openai_longprompt_ping": ("refuses", LENGTH),
    "llamacpp/openai_tools": ("refuses", LENGTH),
    "llamacpp/openai_tools_parallel": ("refuses", LENGTH),
    "vllm/openai_json_schema": ("refuses", LENGTH),
    "llamacpp/openai_n2_logprobs": ("refuses", "two choices, the second one first"),
    "llamacpp/anthropic_tools": ("differs", "it guesses the rest of an input that was cut"),
    "vllm/anthropic_tools": ("differs", TWICE),
    "vllm/openai_tools": ("differs", TWICE),
    "vllm/openai_tools_named": ("differs", TWICE),
}
"""The same for those that only some have."""


@pytest.mark.parametrize("id", COMPLETE)
def test_the_sdk_makes_the_same_of_a_complete_stream(id: str) -> None:
    found, details = verdict(STREAMS[id])
    expected, reason = {**EXCEPTIONS, **SHARED_EXCEPTIONS}.get(id, ("agrees", "no exception is known"))
    assert found == expected, f"{reason}; {details}"


def test_the_exceptions_are_about_streams_that_are_there() -> None:
    assert not EXCEPTIONS.keys() - COMPLETE.keys()
    if SHARED.is_dir():
        assert not SHARED_EXCEPTIONS.keys() - COMPLETE.keys()


def test_there_are_streams_to_compare() -> None:
    agreeing = [STREAMS[id].style for id in COMPLETE if id not in EXCEPTIONS and id not in SHARED_EXCEPTIONS]
    assert agreeing.count("openai") > 100
    assert agreeing.count("anthropic") > 25
