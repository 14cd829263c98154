"""What is fuzzed: a function of bytes each, which raises for bytes that do what no bytes should."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.core import test_anthropic_fuzz as anthropic_replies
from tests.core import test_fuzz as openai_replies
from tests.core.scripted import make_run, sse
from tests.core.test_sse import decode, oracle
from tests.fuzz import anthropic, machine, openai
from tests.fuzz.source import Source
from toolnexus.errors import ToolnexusError

FRAGMENTS = "data|event|id|retry|:|: | |\n|\n\n|\r|\r\n|\r\n\r\n|\r\r|data: x\n\n|data:\n|\ufeff|\u2028|é☕|\0|12|:c"
PIECES = [*(text.encode() for text in FRAGMENTS.split("|")), b"\xff", b"\xef\xbb", b"\xed\xa0\xbd"]
JSON_PIECES = [
    *(b"data: ", b"data:", b"\n", b"\n\n", b"\r", b"\r\n", b"event: error\n", b"{", b"}", b"[", b'"', b":", b"<", b" "),
    *(b"\xef\xbb\xbf", b"[DONE]", b"data: [DONE]\n\n", b'{"choices":[', b'"delta":{"content":"', b'"}}]}', b"null"),
    *(b'{"error":{"message":"', b'{"error":"', b"\\ud83d", b"\xed\xa0\xbd", b"data: {}\n\n"),
]


def _bytes_of(source: Source, pieces: list[bytes], most: int) -> bytes:
    return b"".join(source.raw(8) if not source.below(6) else source.pick(pieces) for _ in range(source.below(most)))


def server_sent_events(data: bytes) -> None:
    """Any stream, cut anywhere, is what a plain reader of the whole makes of it."""
    source = Source(data)
    body = _bytes_of(source, PIECES, 40)
    assert decode(source.cut(body)) == decode([body]) == oracle(body)


def any_bytes(data: bytes) -> None:
    """Any bytes as a reply of any status."""
    source = Source(data)
    status = source.pick([200, 200, 200, 204, 301, 400, 401, 429, 500, 529])
    reset, cuts = bool(source.below(2)), source.below(2)
    body = _bytes_of(source, JSON_PIECES, 30)
    openai_replies.play(source.cut(body) if cuts else [body], status, reset=reset)


def openai_stream(data: bytes) -> None:
    """Payloads in OpenAI's style."""
    source = Source(data)
    done, reset = source.below(2), bool(source.below(2))
    body = sse(*source.many(openai.payload, 6), *(["[DONE]"] if done else []))
    openai_replies.play(source.cut(body), reset=reset)


def openai_whole(data: bytes) -> None:
    """A reply that is not streamed, in OpenAI's style."""
    openai_replies.play([json.dumps(openai.payload(Source(data))).encode()], stream=False)


def openai_error(data: bytes) -> None:
    """The body of an error reply."""
    source = Source(data)
    run = make_run()
    run.response_opened(source.pick([300, 400, 404, 418, 429, 500, 503]), {"retry-after": source.text()}, 0.0)
    try:
        run.receive(json.dumps(openai.payload(source)).encode())
        run.response_ended()
    except ToolnexusError:
        return
    raise AssertionError("an error reply was taken for an answer")


def anthropic_stream(data: bytes) -> None:
    """Payloads in Anthropic's style."""
    source = Source(data)
    stop, reset = source.below(2), bool(source.below(2))
    body = sse(*anthropic.stream(source), *([anthropic.STOP] if stop else []))
    anthropic_replies.play(source.cut(body), reset=reset)


def anthropic_whole(data: bytes) -> None:
    """A reply that is not streamed, in Anthropic's style."""
    anthropic_replies.play([json.dumps(anthropic.whole(Source(data))).encode()], stream=False)


TARGETS: dict[str, tuple[Callable[[bytes], None], int]] = {
    "server-sent events": (server_sent_events, 100),
    "any bytes": (any_bytes, 100),
    "openai stream": (openai_stream, 400),
    "openai whole": (openai_whole, 150),
    "openai error": (openai_error, 100),
    "anthropic stream": (anthropic_stream, 400),
    "anthropic whole": (anthropic_whole, 150),
    "whole runs": (machine.drive, 400),
}
"""By name, each with the number of bytes that it makes use of."""
