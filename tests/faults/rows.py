"""Everything that a server, or the way to it, was ever seen to do wrong on the wire, and what has to come of it.

Each row plays with one retry, quick ones, and a client that waits 0.25 s for bytes. The bounds are small here, so that
what has no end is quickly too long; `tests/load` has them in their real sizes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests import claude
from tests.server import (
    Accept,
    Flood,
    Response,
    delta,
    done,
    failure,
    finish,
    reply,
    says,
    sse,
    text,
    tool_call,
    usage,
    whole,
)
from toolnexus import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    DeadlineExceededError,
    InternalServerError,
    Limits,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    StreamInterruptedError,
    ToolnexusError,
)

LIMITS = Limits(line_bytes=100_000, event_bytes=200_000, tool_args_bytes=100_000, error_body_bytes=10_000)
HELLO = ["Hel", "lo!"]
PAID = {"to": "acct-77", "amount": 1200.0}
"""The arguments of the one call that may run."""

Script = Callable[[], Sequence[Response]]
"""Makes the responses; called once for each run, since gates and floods are used up."""


@dataclass(frozen=True)
class Row:
    """One fault."""

    id: str
    title: str
    script: Script
    end: type[ToolnexusError] | tuple[type[ToolnexusError], ...] | Literal["done", "incomplete"]
    """The class of the error, the classes of which it is one or another, or how the run ends well."""
    requests: int = 1
    text: str = ""
    """Of the answer, or what was shown before the error."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """What the tool `transfer` really ran with."""
    style: Literal["openai", "anthropic"] = "openai"
    accept: Sequence[Accept] = ()
    address: str | None = None
    """Where the client looks for the server, if not where it is; `{port}` is its port."""
    options: dict[str, Any] = field(default_factory=dict)


def row(id: str, title: str, *script: Response | Script, **expected: Any) -> Row:
    """A row whose responses are ready, or are made anew for each run by the function given."""
    first = script[0] if script else None
    make = (lambda: script) if first is None or isinstance(first, Response) else first
    return Row(id, title, make, **expected)  # type: ignore[arg-type]  # a script is one or the other


# -- pieces of answers

FINE = says(*HELLO)
BODY = b"".join([*text(*HELLO), finish(), usage(3, 2, 5), done()])
PIECES = ('{"to": "acct-77",', ' "amount": 1200}')


def raw(*writes: bytes, **options: Any) -> Response:
    """Bytes instead of a response."""
    return Response(writes, framing="none", **options)


def pays(*pieces: str, name: str = "transfer", id: str = "c1") -> Response:
    """The model asks for `transfer`."""
    return reply(tool_call(id, name, pieces), finish("tool_calls"), done())


def said(*payloads: claude.Payload | list[claude.Payload], **options: Any) -> Response:
    """A stream in Anthropic's words."""
    flat = [p for item in payloads for p in (item if isinstance(item, list) else [item])]
    return reply([f"event: {p['type']}\n".encode() + sse(p) for p in flat], **options)


def bytewise(body: bytes) -> Response:
    return reply([body[i : i + 1] for i in range(len(body))])


def zipped(data: bytes, cut: int | None = None) -> Response:
    return Response([gzip.compress(data)[:cut]], headers={"content-encoding": "gzip"})


def bomb() -> Iterator[bytes]:
    pack = zlib.compressobj(wbits=31)
    yield pack.compress(b"data: ")
    while True:
        yield pack.compress(b"x" * 1_000_000) + pack.flush(zlib.Z_SYNC_FLUSH)


def exploding() -> list[Response]:
    pieces = bomb()
    return [reply(Flood(lambda _: next(pieces)), headers={"content-encoding": "gzip"})]


def endless_arguments() -> list[Response]:
    more = delta(tool_calls=[{"index": 0, "function": {"arguments": "y" * 9000}}])
    return [reply(tool_call("c1", "transfer", ['{"to":"']), Flood(more))]


def calls_for_ever() -> list[Response]:
    return [pays(*PIECES, id=f"c{number}") for number in range(10)]


def end_of_half(title: str, id: str, end: Any, **options: Any) -> Row:
    script = reply(text(*HELLO), end=end, **options)
    return row(id, title, script, end=StreamInterruptedError, text="Hello!")


def cut_in_arguments() -> tuple[Response, Response]:
    return reply(tool_call("c1", "transfer", PIECES[:1]), framing="close", end="close"), FINE


BLOCK = [claude.begin(0, "text", text=""), {"type": "ping"}, *claude.text(0, *HELLO)[1:]]
MESSAGE = [claude.start(input_tokens=3, output_tokens=1), *BLOCK]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
DEEP = '{"to":' + "[" * 5000 + "]" * 5000 + "}"

ROWS = [
    # the way to the server
    row("F01", "connection refused", end=APIConnectionError, requests=0, address="http://127.0.0.1:1"),
    row(
        "F02",
        "TLS asked of a plain-text port",
        end=APIConnectionError,
        requests=0,
        address="https://127.0.0.1:{port}",
        accept=["hang_up"] * 5,
    ),
    row("F03", "a name that nobody knows", end=APIConnectionError, requests=0, address="http://nobody.invalid"),
    row(
        "F04",
        "every connection reset",
        FINE,
        end=(APIConnectionError, StreamInterruptedError),  # how early the client hears of it is chance
        requests=0,
        accept=["reset"] * 5,
    ),
    row("F05", "the first connection reset, then fine", FINE, end="done", text="Hello!", accept=["reset"]),
    row("F06", "every connection silent", FINE, end=APITimeoutError, requests=0, accept=["stall"] * 5),
    # before the answer
    row("F07", "reset before the status line", *[raw(end="reset")] * 2, end=StreamInterruptedError, requests=2),
    row("F08", "closed before the status line", *[raw(end="close")] * 2, end=StreamInterruptedError, requests=2),
    row("F09", "closed once, then fine", raw(end="close"), FINE, end="done", requests=2, text="Hello!"),
    row("F10", "silent before the status line", *[raw(end="stall")] * 2, end=APITimeoutError, requests=2),
    row(
        "F11", "cut in the status line", *[raw(b"HTTP/1.1 20", end="close")] * 2, end=StreamInterruptedError, requests=2
    ),
    row(
        "F14",
        "no number as status",
        *[raw(b"HTTP/1.1 2X0 OK\r\n\r\n", end="close")] * 2,
        end=StreamInterruptedError,
        requests=2,
    ),
    row(
        "F15",
        "a header of 200 kB",
        *[says(*HELLO, headers={"x-big": "x" * 200_000})] * 2,
        end=StreamInterruptedError,
        requests=2,
    ),
    row(
        "F16",
        "five hundred headers",
        says(*HELLO, headers={f"x-{n}": "y" for n in range(500)}),
        end="done",
        text="Hello!",
    ),
    row(
        "F17",
        "ten hints before the answer",
        raw(
            b"HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\n" * 10,
            b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
            BODY,
            end="close",
        ),
        end="done",
        text="Hello!",
    ),
    # the end of the body
    end_of_half("chunks that end early", "F18", "close"),
    end_of_half("chunks that end early, and a connection that stays half open", "F20", "half_close"),
    end_of_half("less than the content length", "F21", "close", framing="length", headers={"content-length": "9999"}),
    end_of_half("a body that ends with the connection, too early", "F22", "close", framing="close"),
    row(
        "F23",
        "the same inside of an event",
        reply(text(*HELLO)[0], text(*HELLO)[1][:-9], framing="close"),
        end=StreamInterruptedError,
        text="Hel",
    ),
    row("F25", "a finish reason and no end mark", reply(text(*HELLO), finish()), end="done", text="Hello!"),
    row("F26", "an end mark and no finish reason", reply(text(*HELLO), done()), end="done", text="Hello!"),
    row(
        "F29",
        "Anthropic's style without an end",
        said(*MESSAGE),
        end=StreamInterruptedError,
        text="Hello!",
        style="anthropic",
    ),
    row(
        "F30",
        "a stop reason and no end",
        said(*MESSAGE, claude.finish()[0]),
        end=StreamInterruptedError,
        text="Hello!",
        style="anthropic",
    ),
    row(
        "F31",
        "nothing wrong in Anthropic's style",
        said(*MESSAGE, claude.finish()),
        end="done",
        text="Hello!",
        style="anthropic",
    ),
    row(
        "F32",
        "a piece of a block that never began",
        said(MESSAGE[0], claude.delta(3, "text_delta", text="x")),
        end=StreamInterruptedError,
        text="x",
        style="anthropic",
    ),
    row("F33", "silence in the middle", reply(text(*HELLO), end="stall"), end=APITimeoutError, text="Hello!"),
    row(
        "F34",
        "comments for ever",
        lambda: [reply(text(*HELLO), Flood(b": on\n\n"))],
        end=DeadlineExceededError,
        text="Hello!",
        options={"deadline": 0.3},
    ),
    row("F38", "silence after the end mark", reply(BODY, end="stall"), end="done", text="Hello!"),
    row("F39", "text after the end mark", reply(BODY, text("More")), end="done", text="Hello!"),
    # what the body is
    row("F40", "gzip", zipped(BODY), end="done", text="Hello!"),
    row("F41", "gzip without its trailer", zipped(BODY, -8), end="done", text="Hello!"),
    row("F42", "gzip cut in the data", *[zipped(BODY, 50)] * 2, end=StreamInterruptedError, requests=2),
    row("F43", "gzip that is none", reply(BODY, headers={"content-encoding": "gzip"}), end=ProtocolError),
    row(
        "F44", "a page of HTML", reply(b"<html>Hello!</html>", headers={"content-type": "text/html"}), end=ProtocolError
    ),
    row("F45", "an error with status 200", whole({"error": {"message": "no credit"}}), end=APIStatusError),
    row(
        "F46",
        "a whole reply instead of a stream",
        whole({"choices": [{"message": {"content": "Hello!"}, "finish_reason": "stop"}]}),
        end="done",
        text="Hello!",
    ),
    row("F47", "204", *[Response(status=204, framing="length")] * 2, end=StreamInterruptedError, requests=2),
    row("F48", "304", Response(status=304, framing="length"), end=APIStatusError),
    *[
        row(
            id,
            f"redirect {status}",
            Response(status=status, headers={"location": "{other}/v1"}, framing="length"),
            end=APIStatusError,
        )
        for id, status in (("F49", 301), ("F51", 303), ("F52", 307), ("F53", 308))
    ],
    # error replies
    row("F56", "401", failure(401), end=AuthenticationError),
    row("F58", "403", failure(403), end=PermissionDeniedError),
    row("F59", "404", failure(404), end=NotFoundError),
    row("F61", "422", failure(422), end=BadRequestError),
    *[
        row(id, f"{status}, then fine", failure(status), FINE, end="done", requests=2, text="Hello!")
        for id, status in (("F62", 429), ("F65", 503), ("F66", 504))
    ],
    row("F68", "500 always", *[failure(500)] * 2, end=InternalServerError, requests=2),
    row(
        "F69",
        "429 that may be tried again at once",
        failure(429, retry_after="0"),
        FINE,
        end="done",
        requests=2,
        text="Hello!",
    ),
    row("F70", "429 that wants an hour", failure(429, retry_after="3600"), FINE, end=RateLimitError),
    row(
        "F71",
        "429 that wants more than the deadline leaves",
        failure(429, retry_after="10"),
        FINE,
        end=RateLimitError,
        options={"deadline": 1},
    ),
    row(
        "F72", "an error body without an end", lambda: [reply(Flood(b"x" * 9000), status=401)], end=AuthenticationError
    ),
    row(
        "F75",
        "an error in the stream, and an end mark",
        reply(text("Hel"), sse({"error": {"message": "overloaded"}}), done()),
        end=APIStatusError,
        text="Hel",
    ),
    row(
        "F76",
        "an error event in the middle",
        said(*MESSAGE[:4], OVERLOADED),
        end=OverloadedError,
        text="Hel",
        style="anthropic",
    ),
    row(
        "F77",
        "an error event first, then fine",
        said(OVERLOADED),
        said(*MESSAGE, claude.finish()),
        end="done",
        requests=2,
        text="Hello!",
        style="anthropic",
    ),
    # payloads
    row(
        "F78",
        "an event that is not JSON",
        reply(text("Hel"), b'data: {"choices": [{"del\n\n', text("lo!"), done()),
        end=ProtocolError,
        text="Hel",
    ),
    row(
        "F80",
        "fields, events and comments that nobody knows",
        reply(b": hi\n\nevent: weird\n", sse({"choices": [], "x": 1}), BODY),
        end="done",
        text="Hello!",
    ),
    row("F82", "wrong types", reply(delta(content=5), delta(content=["x"]), done()), end=ProtocolError),
    row("F83", "CRLF, byte by byte", bytewise(BODY.replace(b"\n", b"\r\n")), end="done", text="Hello!"),
    row("F84", "CR, byte by byte", bytewise(BODY.replace(b"\n", b"\r")), end="done", text="Hello!"),
    row("F85", "a line without an end", lambda: [reply(b"data: ", Flood(b"x" * 9000))], end=ProtocolError),
    row("F86", "a gzip bomb", exploding, end=ProtocolError),
    # calls
    row(
        "F87",
        "nothing wrong, with a call",
        pays(*PIECES),
        says("Done."),
        end="done",
        requests=2,
        text="Done.",
        tools=[PAID],
    ),
    row(
        "F88",
        "nothing wrong, with a call, in Anthropic's style",
        said(MESSAGE[0], claude.call(0, "c1", *PIECES, name="transfer"), claude.finish("tool_use")),
        said(MESSAGE[0], claude.text(0, "Done."), claude.finish()),
        end="done",
        requests=2,
        text="Done.",
        tools=[PAID],
        style="anthropic",
    ),
    row("F89", "cut in the arguments", *cut_in_arguments(), end="done", requests=2, text="Hello!"),
    row(
        "F90",
        "cut in the arguments, in Anthropic's style",
        said(MESSAGE[0], claude.call(0, "c1", PIECES[0], name="transfer")[:-1], framing="close"),
        said(*MESSAGE, claude.finish()),
        end="done",
        requests=2,
        text="Hello!",
        style="anthropic",
    ),
    *[
        row(id, title, pays(*args), says("Done."), end="done", requests=2, text="Done.")
        for id, title, args in (
            ("F91", "half a JSON object as arguments", ('{"to":"acct-77', '","amount":12')),
            ("F92", "NaN in the arguments", ('{"to":"a","amount":NaN}',)),
            ("F93", "the same key twice in the arguments", ('{"to":"a","to":"b","amount":1}',)),
            ("F94", "a list as arguments", ('["a",1]',)),
            ("F95", "arguments nested 5,000 deep", (DEEP,)),
            ("F97", "an argument is missing", ('{"to":"a"}',)),
        )
    ],
    row(
        "F98",
        "a tool that was not offered",
        pays("{}", name="rm_rf"),
        says("Done."),
        end="done",
        requests=2,
        text="Done.",
    ),
    row(
        "F99",
        "a path as the name of a tool",
        pays(*PIECES, name="../../transfer"),
        says("Done."),
        end="done",
        requests=2,
        text="Done.",
    ),
    row(
        "F100",
        "two calls with one id",
        reply(
            tool_call("c1", "transfer", PIECES),
            tool_call("c1", "transfer", PIECES, index=1),
            finish("tool_calls"),
            done(),
        ),
        says("Done."),
        end="done",
        requests=2,
        text="Done.",
        tools=[PAID, PAID],
    ),
    row(
        "F101",
        "a call without an id",
        pays(*PIECES, id=""),
        says("Done."),
        end="done",
        requests=2,
        text="Done.",
        tools=[PAID],
    ),
    row(
        "F102",
        "call number one billion",
        reply(tool_call("c1", "transfer", PIECES, index=1_000_000_000), finish("tool_calls"), done()),
        says("Done."),
        end="done",
        requests=2,
        text="Done.",
        tools=[PAID],
    ),
    row("F103", "a call in every turn, for ever", calls_for_ever, end="incomplete", requests=10, tools=[PAID] * 10),
    row("F104", "arguments without an end", endless_arguments, end=ProtocolError),
    row(
        "F105",
        "half a character, then a call",
        reply(
            b'data: {"choices":[{"delta":{"content":"a\\ud800b"}}]}\n\n',
            tool_call("c1", "transfer", PIECES),
            finish("tool_calls"),
            done(),
        ),
        says("Done."),
        end="done",
        requests=2,
        text="Done.",
        tools=[PAID],
    ),
    row("F106", "NUL in the text", says("a\0b"), end="done", text="a\0b"),
]
"""The numbers leave gaps: what differed in nothing but the count was taken out."""
