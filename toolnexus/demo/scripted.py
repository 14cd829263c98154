"""A model server on loopback that plays a script: OpenAI style and Anthropic style, streamed and not.

It stands in for a model where a run has to be the same each time: in the demo, the examples and tests. The standard
library is all it needs, and it shares no code with the clients, so that one can be held against the other. It is no
emulation: what a script does not say (sampling, limits, the errors of a provider) does not happen.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]  # Any: a JSON object of either wire format

_WORDS = re.compile(r"\s*\S+|\s+")  # the pieces of a streamed text
_FRAGMENTS = re.compile(r".{1,6}")  # and of streamed arguments


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the scripted model makes."""

    name: str
    args: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the scripted model: text, tool calls, or text and then tool calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: tuple[int, int] = (12, 8)
    """Tokens that went in and tokens that came out, as the server reports them."""
    reasoning: str = ""
    """What the model thinks before it answers."""


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """A request that the server got."""

    path: str
    body: Json

    @property
    def prompt(self) -> str:
        """What the user said last."""
        return next((text for role, text in reversed(self._said()) if role == "user"), "")

    @property
    def tool_results(self) -> list[str]:
        """The text of each tool result, in the order of the messages."""
        return [text for role, text in self._said() if role == "tool"]

    def _said(self) -> list[tuple[str, str]]:
        """Role and text of all that was said; Anthropic's tool results are blocks of a user's message."""
        said: list[tuple[str, str]] = []
        for message in self.body["messages"]:
            for block in _blocks(message.get("content")):
                if block.get("type") == "tool_result":
                    said.append(("tool", "".join(part.get("text", "") for part in _blocks(block.get("content")))))
                elif "text" in block:
                    said.append((message["role"], block["text"]))
        return said


Step = Reply | Callable[[ScriptedRequest], Reply]


class ScriptedServer:
    """The server, running while the `with` block runs. Each request takes the next step of the script.

        script = [Reply(calls=(Call("add", {"a": 1, "b": 2}),)), lambda request: Reply(request.tool_results[-1])]
        with ScriptedServer(script) as server:
            client = SyncClient(base_url=server.base_url, model="scripted")

    A request beyond the end of the script, or one whose step raises, is answered with status 400 and the reason.

    Args:
        script: The replies, in order; a function makes its reply from the request.
        pause_s: Seconds between two pieces of a streamed reply.
    """

    def __init__(self, script: Iterable[Step], *, pause_s: float = 0) -> None:
        self.base_url = ""
        """The root of the endpoint, such as `http://127.0.0.1:49152/v1`; both wire styles are there."""
        self.requests: list[ScriptedRequest] = []
        """What was asked so far."""
        self._script = iter(script)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._rest = lambda: self._closed.wait(pause_s)

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._answer, self._rest))
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self._http.server_port}/v1"
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._http.shutdown()
        self._http.server_close()

    def _answer(self, request: ScriptedRequest) -> tuple[str, Reply]:
        """An id and the next reply; requests that come at once take turns."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            step = next(self._script, None)
            if step is None:
                raise LookupError(f"the script has ended before request {number}")
            return f"scripted-{number}", step if isinstance(step, Reply) else step(request)


def _handler(
    answer: Callable[[ScriptedRequest], tuple[str, Reply]], rest: Callable[[], bool]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # the client may leave at any time
                super().handle()

        def do_POST(self) -> None:
            body: Json = json.loads(self.rfile.read(int(self.headers["content-length"])))
            request = ScriptedRequest(self.path.partition("?")[0], body)
            wire = next((wire for end, wire in _WIRES.items() if request.path.endswith(end)), None)
            try:
                if wire is None:
                    raise LookupError(f"nothing is at {request.path}")
                id, reply = answer(request)
            except Exception as error:  # whatever a step may raise
                self._send_json(400, {"type": "error", "error": {"type": "script_error", "message": repr(error)}})
            else:
                whole, stream = wire
                if body.get("stream"):
                    self._send_stream(stream(id, reply, body))
                else:
                    self._send_json(200, whole(id, reply, body))

        def _send_json(self, status: int, value: Json) -> None:
            data = json.dumps(value).encode()
            self._send_head(status, "application/json", "content-length", str(len(data)))
            self.wfile.write(data)

        def _send_stream(self, pieces: Iterator[str]) -> None:
            self._send_head(200, "text/event-stream", "transfer-encoding", "chunked")
            for data in map(str.encode, pieces):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                if rest():
                    return  # without the last chunk: a client must see that this was cut
            self.wfile.write(b"0\r\n\r\n")

        def _send_head(self, status: int, kind: str, *framing: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header(*framing)
            self.send_header("connection", "close")  # no idle connection outlives the server
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


def _blocks(content: str | list[Json] | None) -> list[Json]:
    return [{"text": content}] if isinstance(content, str) else content or []


def _openai_whole(id: str, reply: Reply, body: Json) -> Json:
    """A `chat.completion` of OpenAI's "Chat Completions"."""
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning  # as DeepSeek, vLLM and llama.cpp name it
    for n, call in enumerate(reply.calls):
        function = {"name": call.name, "arguments": json.dumps(call.args)}
        message.setdefault("tool_calls", []).append({"id": f"{id}-{n}", "type": "function", "function": function})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.calls else "stop"}
    prompt, completion = reply.usage
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"id": id, "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}


def _openai_stream(id: str, reply: Reply, body: Json) -> Iterator[str]:
    """The same in pieces, the usage only for those who ask."""

    def chunk(delta: Json, finish_reason: str | None = None) -> str:
        return event(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    def event(**fields: object) -> str:
        return f"data: {json.dumps(whole | {'object': 'chat.completion.chunk'} | fields)}\n\n"

    whole = _openai_whole(id, reply, body)
    choice, usage = whole["choices"][0], whole.pop("usage")
    yield chunk({"role": "assistant", "content": None if reply.calls else ""})
    for word in _WORDS.findall(reply.reasoning):
        yield chunk({"reasoning_content": word})
    for word in _WORDS.findall(reply.text):
        yield chunk({"content": word})
    for n, call in enumerate(choice["message"].get("tool_calls", ())):
        yield chunk({"tool_calls": [call | {"index": n, "function": call["function"] | {"arguments": ""}}]})
        for text in _FRAGMENTS.findall(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": n, "function": {"arguments": text}}]})
    yield chunk({}, choice["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event(choices=[], usage=usage)
    yield "data: [DONE]\n\n"


def _anthropic_whole(id: str, reply: Reply, body: Json) -> Json:
    """A `message` of Anthropic's "Messages"."""
    content: list[Json] = []
    if reply.reasoning:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": f"signed-{id}"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for n, call in enumerate(reply.calls):
        content.append({"type": "tool_use", "id": f"{id}-{n}", "name": call.name, "input": call.args})
    message = {"id": id, "type": "message", "role": "assistant", "model": body["model"], "content": content}
    end = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    return message | end | {"usage": {"input_tokens": reply.usage[0], "output_tokens": reply.usage[1]}}


def _anthropic_stream(id: str, reply: Reply, body: Json) -> Iterator[str]:
    """The same in the events of "Streaming Messages"."""

    def event(type: str, **fields: object) -> str:
        return f"event: {type}\ndata: {json.dumps({'type': type} | fields)}\n\n"

    whole = _anthropic_whole(id, reply, body)
    start = {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    yield event("message_start", message=whole | start)
    for n, block in enumerate(whole["content"]):
        if block["type"] == "text":
            start = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": text} for text in _WORDS.findall(block["text"])]
        elif block["type"] == "thinking":
            start = block | {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": text} for text in _WORDS.findall(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            start, arguments = block | {"input": {}}, json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": text} for text in _FRAGMENTS.findall(arguments)]
        yield event("content_block_start", index=n, content_block=start)
        for delta in deltas:
            yield event("content_block_delta", index=n, delta=delta)
        yield event("content_block_stop", index=n)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": reply.usage[1]})
    yield event("message_stop")


_WIRES = {"/chat/completions": (_openai_whole, _openai_stream), "/messages": (_anthropic_whole, _anthropic_stream)}
