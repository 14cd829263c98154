"""User code that must type-check, under mypy and pyright in strict mode. It is checked, never run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, assert_never, assert_type

import httpx

from toolnexus import (
    AfterLLM,
    AfterTool,
    Answer,
    AsyncClient,
    AsyncConversation,
    AsyncEventStream,
    BeforeLLM,
    BeforeTool,
    Cancel,
    Chunk,
    ChunkStream,
    ChunkType,
    ContentChunk,
    Conversation,
    ConversationStore,
    DoneEvent,
    EventStream,
    FinishChunk,
    Hook,
    Hooks,
    HTTPReply,
    ImagePart,
    Limits,
    MemoryStore,
    Message,
    Pending,
    PendingEvent,
    ReasoningChunk,
    ReasoningEvent,
    Request,
    RetryInfo,
    RunResult,
    Skill,
    SkillEntry,
    Skills,
    StreamEvent,
    StreamSummary,
    SyncClient,
    TextEvent,
    TextPart,
    Tool,
    ToolCallDeltaChunk,
    ToolCallEvent,
    ToolContext,
    Toolkit,
    ToolResult,
    ToolResultEvent,
    Usage,
    UsageChunk,
    UsageEvent,
    define_tool,
    http_tool,
    http_tools_from_openapi,
    pending,
    tool,
)

# -- tools


@tool
def get_weather(city: str) -> str:
    """Weather for a city."""
    return f"31C in {city}"


@tool(name="sum", description="Add.", parallel=False, timeout=5, approval=lambda args: args["a"] > 9, idempotent=True)
async def add(a: int, b: int = 1) -> int:
    return a + b


@tool
def sign(amount: float, ctx: ToolContext) -> str | Pending:
    """Ask for a signature."""
    if ctx.answer is None:
        return pending(f"Sign {amount}?", kind="approval", data={"amount": amount}, expires_at=1.0)
    ctx.metadata["signed"] = True
    return f"signed by {ctx.answer.data}"


@tool
def picture() -> list[TextPart | ImagePart]:
    """A picture."""
    return [TextPart("Here:"), ImagePart(data=b"...", media_type="image/png")]


def raw(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
    return ToolResult(f"{args} {ctx.call_key}", is_error=ctx.cancel.cancelled, metadata={"left": ctx.deadline})


from_seed = define_tool(name="raw", description="Raw.", input_schema={"type": "object"}, run=raw)

assert_type(get_weather, Tool)
assert_type(add, Tool)
assert_type(from_seed, Tool)

toolkit = Toolkit(get_weather, add, sign, from_seed, picture, raw, Toolkit(), lambda: 1)
assert_type(toolkit.get("sum"), Tool | None)
assert_type(toolkit.tools(), tuple[Tool, ...])


# -- events


def by_type(event: StreamEvent) -> str:
    if event.type == "text" or event.type == "reasoning":
        assert_type(event, TextEvent | ReasoningEvent)
        return event.delta
    if event.type == "tool_call":
        assert_type(event, ToolCallEvent)
        return f"{event.id} {event.name} {event.args} {event.error}"
    if event.type == "tool_result":
        assert_type(event, ToolResultEvent)
        return f"{event.output} {event.is_error}"
    if event.type == "usage":
        assert_type(event.usage, Usage)
        return str(event.usage.total_tokens)
    if event.type == "pending":
        assert_type(event.request, Request)
        return event.request.prompt
    assert_type(event, DoneEvent)
    return event.result.text


def by_class(event: StreamEvent) -> str:
    match event:
        case TextEvent(delta) | ReasoningEvent(delta):
            return delta
        case ToolCallEvent(id, name, args):
            return f"{id} {name} {args}"
        case ToolResultEvent(_, _, output):
            return output
        case UsageEvent(usage):
            return str(usage.prompt_tokens)
        case PendingEvent(request):
            return request.id
        case DoneEvent(result):
            return result.status
        case _ as unreachable:
            assert_never(unreachable)


# -- the sync client


def answer(request: Request) -> Answer:
    return Answer(request.id, ok=request.kind != "approval", data={"yes": True}, reason=None)


class OwnStore:
    def get(self, id: str, /) -> list[Message] | None:
        return None

    def save(self, id: str, messages: Sequence[Message], /) -> None: ...


store: ConversationStore = OwnStore()


def sync_code(cancel: Cancel, on_event: Callable[[StreamEvent], None]) -> None:
    with SyncClient(
        model="m",
        base_url="http://127.0.0.1:8080/v1",
        style="openai",
        api_key=None,
        headers={"x": "y"},
        query={"a": "b"},
        timeout=httpx.Timeout(5),
        progress_timeout=60,
        http_client=httpx.Client(),
        store=store,
        wait_for=answer,
        limits=Limits(parallel_tools=2),
        request_params={"top_p": 0.5},
        body_transform=lambda body: {**body, "seed": 1},
    ) as client:
        assert_type(client, SyncClient)
        assert_type(client.stream("Hi?"), RunResult)
        assert_type(client.stream("Hi?", toolkit, on_event, "talk", cancel=cancel, deadline=5), RunResult)
        assert_type(client.stream([TextPart("Hi?"), ImagePart(url="http://x")], on_event=print), RunResult)
        assert_type(client.iter_events("Hi?", toolkit, id="talk", max_turns=3), EventStream)
        with client.iter_events("Hi?", history=[Message("user", "a")], model="other") as events:
            for event in events:
                assert_type(event, StreamEvent)
            assert_type(events.result, RunResult)
        assert_type(client.run("Hi?", history=[{"role": "user", "content": "a"}], system_prompt="Be kind."), RunResult)
        assert_type(client.ask("Hi?", id="talk", on_text=lambda delta: delta.upper()), RunResult)
        assert_type(client.conversation_store(), ConversationStore)


# -- the async client


class AsyncStore:
    async def get(self, id: str, /) -> list[Message] | None:
        return None

    async def save(self, id: str, messages: Sequence[Message], /) -> None: ...


async def answer_later(request: Request) -> Answer:
    return Answer(request.id)


async def show(delta: str) -> None: ...


async def async_code() -> None:
    AsyncClient(model="m", wait_for=answer, store=MemoryStore())
    async with AsyncClient(
        model="m", http_client=httpx.AsyncClient(), wait_for=answer_later, store=AsyncStore()
    ) as client:
        assert_type(client, AsyncClient)
        assert_type(client.stream("Hi?", toolkit, "talk"), AsyncEventStream)
        async with client.stream("Hi?", toolkit, request_params={"seed": 1}) as events:
            async for event in events:
                assert_type(event, StreamEvent)
            assert_type(events.result, RunResult)
        async for event in client.stream("Hi?"):
            assert_type(by_type(event) + by_class(event), str)
        assert_type(await client.run("Hi?", toolkit), RunResult)
        assert_type(await client.ask("Hi?", id="talk", on_text=show), RunResult)
        assert_type(await client.ask("Hi?", on_text=print), RunResult)


# -- conversations and their raw stream


def see_content(chunk: ContentChunk) -> None: ...


def see_both(chunk: ContentChunk | ReasoningChunk) -> int:
    return len(chunk.text)


def see_all(chunk: Chunk) -> None: ...


def see_anything(value: object) -> None: ...


async def see_later(chunk: FinishChunk) -> None: ...


def by_chunk(chunk: Chunk) -> str | None:
    match chunk:
        case ContentChunk(text=text) | ReasoningChunk(text=text):
            return text
        case ToolCallDeltaChunk(text, index, id, name):
            return f"{id} {name} {index} {text}"
        case UsageChunk(usage):
            return str(usage.total_tokens)
        case FinishChunk(reason, artificial):
            return None if artificial else reason
        case _ as unreachable:
            assert_never(unreachable)


def by_chunk_type(chunk: Chunk) -> None:
    if chunk.type == "usage":
        assert_type(chunk, UsageChunk)
    elif chunk.type == "content":
        assert_type(chunk.text, str)
    assert_type((chunk.seq, chunk.batch, chunk.round, chunk.timestamp), tuple[int, int, int, float])


def watch(chunks: ChunkStream) -> None:
    assert_type(chunks.hook(ChunkType.CONTENT).do(see_content), Hook)
    chunks.hook(ChunkType.CONTENT).do(lambda chunk: chunk.text.upper())
    chunks.hook(ChunkType.REASONING).do(lambda chunk: chunk.text.upper())
    chunks.hook(ChunkType.TOOL_CALL_DELTA).do(lambda chunk: chunk.name + chunk.id)
    chunks.hook(ChunkType.USAGE).do(lambda chunk: chunk.usage.total_tokens)
    chunks.hook(ChunkType.FINISH).do(lambda chunk: chunk.finish_reason)
    chunks.hook(ChunkType.FINISH).do(see_later)
    chunks.hook(ChunkType.CONTENT).do(see_both)
    chunks.hook(ChunkType.CONTENT).do(see_all)
    chunks.hook(ChunkType.CONTENT).do(see_anything)
    chunks.hook(ChunkType.CONTENT, ChunkType.REASONING).do(see_both)
    chunks.hook(ChunkType.CONTENT, ChunkType.REASONING).do(lambda chunk: chunk.text.upper())
    chunks.hook(ChunkType.CONTENT, ChunkType.REASONING, ChunkType.FINISH).do(see_all)
    chunks.hook(ChunkType.CONTENT, ChunkType.REASONING, ChunkType.FINISH, ChunkType.USAGE).do(lambda chunk: chunk.seq)
    chunks.hook().do(see_all)
    chunks.hook().do(lambda chunk: chunk.batch)

    @chunks.hook(ChunkType.USAGE)
    def see_usage(chunk: UsageChunk) -> int | None:
        return chunk.usage.total_tokens

    @chunks.hook()
    def see(chunk: Chunk) -> None: ...

    assert_type(chunks.all(), list[Chunk])
    assert_type(chunks.finish_reason(), str | None)
    assert_type(chunks.summary(), list[StreamSummary])
    assert_type(chunks.summary()[-1].usage, Usage | None)
    chunks.clear_summaries()
    chunks.clear()


def sync_conversation(client: SyncClient, on_event: Callable[[StreamEvent], None]) -> None:
    chat = client.conversation(toolkit, id="talk", keep_chunks=100)
    assert_type(chat, Conversation)
    assert_type(chat.chunks, ChunkStream)
    assert_type(chat.send("Hi?", deadline=5), RunResult)
    assert_type(chat.stream("Hi?", on_event), RunResult)
    assert_type(chat.iter_events("Hi?"), EventStream)
    assert_type(chat.messages, list[Message])
    assert_type(chat.on_message(lambda message: message.text.upper()), Hook)
    chat.interrupt()
    chat.reset()
    chat.clear()


async def async_conversation(client: AsyncClient) -> None:
    chat = client.conversation(toolkit, "talk")
    assert_type(chat, AsyncConversation)
    assert_type(await chat.send("Hi?"), RunResult)
    async with chat.stream("Hi?") as events:
        async for event in events:
            assert_type(event, StreamEvent)
    assert_type(chat.messages, list[Message])
    await chat.reset()
    await chat.clear()


# -- hooks


def shorten(given: BeforeLLM) -> BeforeLLM:
    return replace(given, messages=given.messages[-2:], tools=given.tools[:1])


def guard(given: BeforeTool) -> dict[str, Any] | ToolResult | Pending | None:
    return ToolResult("no", is_error=True) if given.name == "sign" else given.args if given.turn else None


async def guard_later(given: BeforeTool) -> ToolResult | None:
    return None


def redact(given: AfterTool) -> ToolResult | None:
    return replace(given.result, output="") if given.args else None


def see_response(given: AfterLLM) -> None:
    assert_type(given.usage, Usage | None)


def see_retry(info: RetryInfo) -> None:
    assert_type(info.wait, float)


everything = Hooks(
    before_llm=shorten,
    after_llm=see_response,
    before_tool=guard,
    after_tool=redact,
    on_chunk=see_all,
    on_message=lambda message: message.text,
    on_retry=see_retry,
)
SyncClient(model="m", hooks=everything)
AsyncClient(model="m", hooks=[everything, Hooks(before_tool=guard_later)])


# -- results


def read(result: RunResult) -> None:
    assert_type(result.text, str)
    assert_type(result.messages, list[Message])
    assert_type(result.usage.total_tokens, int | None)
    assert_type(result.pending, Request | None)
    assert_type(result.tool_calls[0].metadata, dict[str, Any])
    assert_type(result.status, Literal["done", "pending", "incomplete", "error"])
    assert_type(result.limit, Literal["max_turns", "max_tokens"] | None)


# -- tools from elsewhere


def first_item(reply: HTTPReply) -> object:
    assert_type(reply.text, str)
    return reply.json()["items"][0]


fetch = http_tool(
    "fetch",
    "Fetch.",
    "GET",
    "https://api.example.com/{id}",
    headers={"Authorization": "Bearer ${TOKEN}"},
    query={"tags": ["{a}", 1]},
    result=first_item,
    addresses=["10.0.0.0/8"],
    approval=lambda args: bool(args),
)
assert_type(fetch, Tool)
assert_type(http_tools_from_openapi({"openapi": "3.1.0"}, addresses="public", result="json"), list[Tool])
skill = Skill("review", "Review a change.", files={"list.md": "names"})
skills = Skills("./skills", Path("more"), skill, allow=["pdf-*"])
assert_type(skills.inventory, tuple[SkillEntry, ...])
Toolkit(fetch, skills=skills)
Toolkit(skills="./skills")
Toolkit(skills=[Path("./skills"), skill])


# -- what must be refused: an unused `type: ignore` is an error of its own


def refused(client: SyncClient) -> None:
    client.stream(5)  # type: ignore[arg-type]  # a checker must refuse it
    Toolkit(skills=5)  # type: ignore[arg-type]  # a checker must refuse it
    http_tool("fetch", "Fetch.", "GET", "https://x.example", addresses=5)  # type: ignore[arg-type]  # a checker must refuse it
    client.stream("Hi?", temprature=1)  # type: ignore[call-arg]  # a checker must refuse it
    client.stream("Hi?", max_turns="3")  # type: ignore[arg-type]  # a checker must refuse it
    SyncClient()  # type: ignore[call-arg]  # a checker must refuse it
    SyncClient(model="m", style="cohere")  # type: ignore[arg-type]  # a checker must refuse it
