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
                pieces = [base64.b64decode(c) for c in turn.get("chunks_b64", ())] or [c.encode() for c in turn["chunks"]]
                body = b"".join(pieces)
                if turn["status"] == 200 and not body.lstrip().startswith((b"{", b"[", b"<")):
                    yield Stream(f"{case['id']}/{number}", style, body)  # type: ignore[arg-type]  # the keys of WIRES
    for path in sorted((SHARED / "corpus" / "recorded").glob("*.json")):
        about = json.loads(path.read_text("utf-8"))
        # Some were recorded one after the other.
        body = path.with_suffix(".sse").read_bytes()
        ended = re.compile(rb".*?\ndata: \{\"type\":\"message_stop\"\}\n\n", re.DOTALL)
        for number, response in enumerate(ended.findall(body) or [body], 1):
            yield Stream(f"{about['id']}/{number}", about["style"], response)


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
        anthropic.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ) as stream,
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
    theirs.calls = [(id or own[0], name, args) for (id, name, args), own in zip(theirs.calls, mine.calls, strict=False)]
    return ("agrees", "") if theirs == mine else ("differs", f"theirs {theirs}, ours {mine}")


EXCEPTIONS: dict[str, tuple[str, str]] = {}


@pytest.mark.parametrize("id", COMPLETE)
def test_the_sdk_makes_the_same_of_a_complete_stream(id: str) -> None:
    found, details = verdict(STREAMS[id])
    expected, _ = EXCEPTIONS.get(id, ("agrees", ""))
    assert found == expected, details
