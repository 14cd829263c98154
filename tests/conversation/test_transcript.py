"""What a conversation remembers, and where."""

from __future__ import annotations

import asyncio

import pytest

from tests.conversation.harness import new_conversation
from tests.server import Response, calls, failure, says, whole
from toolnexus import (
    APIStatusError,
    AsyncClient,
    Chunk,
    ConfigurationError,
    MemoryStore,
    Message,
    RunCancelledError,
    SyncClient,
    ToolResult,
    tool,
)


def test_a_conversation_without_an_id_has_its_own_transcript(serve, connect):
    server = serve(says("1"), says("2"), says("3"))
    client = connect(server)
    one, other = new_conversation(client), new_conversation(client)
    one.send("a")
    other.send("b")
    one.send("c")
    assert [message.text for message in one.messages] == ["a", "1", "c", "3"]
    assert [message.text for message in other.messages] == ["b", "2"]
    assert [m["content"] for m in server.requests[2].json["messages"]] == ["a", "1", "c"]


@pytest.mark.parametrize("kind", [SyncClient, AsyncClient])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("talk",), "toolkit: expected a Toolkit, got str; wrap tools as Toolkit(tool, ...)"),
        ((None, 7), "id: expected a conversation id, a str that is not empty, got 7"),
        ((None, ""), "id: expected a conversation id, a str that is not empty, got ''"),
    ],
)
def test_what_cannot_be_a_conversation_is_refused_before_the_first_send(kind, arguments, message):
    with pytest.raises(ConfigurationError) as raised:
        kind(model="qwen3").conversation(*arguments)
    assert str(raised.value) == message


def test_a_conversation_with_an_id_is_the_one_of_the_clients_store(serve, connect):
    server = serve(says("1"), says("2"), says("3"))
    store = MemoryStore()
    client = connect(server, store=store)
    client.stream("a", id="talk")
    chat = new_conversation(client, id="talk")
    assert [message.text for message in chat.messages] == ["a", "1"]
    assert chat.send("b").id == "talk"
    client.stream("c", id="talk")
    assert chat.messages == store.get("talk")
    assert [message.text for message in chat.messages] == ["a", "1", "b", "2", "c", "3"]


def test_tool_calls_and_results_are_remembered(serve, converse):
    @tool
    def look() -> str:
        """Look."""
        return "a cat"

    server = serve(calls(("c1", "look", "{}")), says("A cat."), says("Yes."))
    chat = converse(server, look)
    chat.send("What is there?")
    chat.send("Really?")
    roles = ["user", "assistant", "tool", "assistant", "user"]
    assert [message["role"] for message in server.requests[2].json["messages"]] == roles
    assert [message.role for message in chat.messages] == [*roles, "assistant"]


def test_messages_is_a_copy(serve, converse):
    chat = converse(serve(says("1"), says("2")), id="talk")
    assert chat.messages == []
    chat.send("a")
    chat.messages.append(Message("user", "never said"))
    assert [message.text for message in chat.messages] == ["a", "1"]


def test_reset_forgets_the_transcript_and_leaves_chunks_summaries_and_hooks(serve, converse):
    server = serve(says("1"), says("2"))
    chat = converse(server, id="talk")
    seen: list[Chunk] = []
    chat.chunks.hook().do(seen.append)
    chat.send("a")
    chat.reset()
    assert chat.messages == []
    assert (len(chat.chunks.all()), len(chat.chunks.summary())) == (2, 1)
    chat.send("b")
    assert [m["content"] for m in server.requests[1].json["messages"]] == ["b"]
    assert [(chunk.batch, chunk.seq) for chunk in seen] == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_clear_forgets_transcript_chunks_and_hooks_and_the_batch_goes_on(serve, converse):
    chat = converse(serve(says("1"), says("2")))
    seen: list[Chunk] = []
    messages: list[Message] = []
    chat.chunks.hook().do(seen.append)
    chat.on_message(messages.append)
    chat.send("a")
    chat.clear()
    assert (chat.messages, chat.chunks.all(), len(chat.chunks.summary())) == ([], [], 1)
    chat.send("b")
    assert len(seen) == 2
    assert [message.text for message in messages] == ["a", "1", "b", "2"]  # these hooks are not the stream's
    assert {chunk.batch for chunk in chat.chunks.all()} == {2}


def test_message_hooks_see_each_message_as_it_joins_until_they_are_disposed(serve, converse):
    @tool
    def look() -> ToolResult:
        """Look."""
        return ToolResult("a cat")

    chat = converse(serve(calls(("c1", "look", "{}")), says("A cat."), says("Yes.")), look)
    seen: list[Message] = []
    hook = chat.on_message(seen.append)
    result = chat.send("What is there?")
    assert [message.role for message in seen] == ["user", "assistant", "tool", "assistant"]
    assert [message.text for message in seen] == [message.text for message in result.messages]
    hook.dispose()
    hook.dispose()
    chat.send("Really?")
    assert len(seen) == 4


def test_after_a_failed_send_the_users_message_is_kept_and_the_next_send_works(serve, converse):
    server = serve(failure(400), says("2"))
    chat = converse(server)
    with pytest.raises(APIStatusError):
        chat.send("a")
    assert [message.text for message in chat.messages] == ["a"]
    assert chat.send("b").text == "2"
    assert [message.text for message in chat.messages] == ["a", "b", "2"]


def test_a_history_is_refused(serve, converse):
    chat = converse(serve(says("1")))
    for way in (chat.send, chat.stream, chat.iter_events):
        with pytest.raises(ConfigurationError, match="a conversation has its own"):
            way("a", history=[Message("user", "b")])
    assert chat.send("a").text == "1"


def test_an_option_that_cannot_work_is_refused_before_anything_begins(serve, converse):
    chat = converse(serve(says("1")))
    chat.send("a")
    for way in (chat.send, chat.stream, chat.iter_events):
        with pytest.raises(ConfigurationError, match="max_turns"):
            way("b", max_turns=0)
    assert [(chunk.batch, chunk.seq) for chunk in chat.chunks.all()] == [(1, 0), (1, 1)]
    assert repr(chat).endswith("sends=1>")


def test_options_of_one_send_are_those_of_a_call(serve, converse):
    server = serve(says("1"), says("2"))
    chat = converse(server)
    chat.send("a", model="other", temperature=0.5, system_prompt="Be kind.")
    chat.send("b")
    first, second = (request.json for request in server.requests)
    assert (first["model"], first["temperature"], first["messages"][0]["content"]) == ("other", 0.5, "Be kind.")
    assert (second["model"], "temperature" in second, second["messages"][0]["content"]) == ("test-model", False, "a")


def test_a_reply_that_is_no_stream_makes_a_summary_and_no_text_is_lost(serve, converse):
    message = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}
    chat = converse(serve(whole(message)))
    assert chat.send("a").text == "Hi."
    assert [(s.content, s.finish_reason) for s in chat.chunks.summary()] == [("Hi.", "stop")]


def test_send_stream_and_iter_events_go_on_with_one_another(serve, converse):
    chat = converse(serve(says("1"), says("2"), says("3")))
    types: list[str] = []
    chat.send("a")
    chat.stream("b", lambda event: types.append(event.type))
    with chat.iter_events("c") as events:
        types += [event.type for event in events]
        assert events.result.text == "3"
    assert types == ["text", "done", "text", "done"]
    assert [message.text for message in chat.messages] == ["a", "1", "b", "2", "c", "3"]


def test_its_repr_shows_the_id_and_no_text(serve, converse):
    chat = converse(serve(says("secret")), id="talk")
    chat.send("secret")
    assert repr(chat).endswith("onversation id='talk' sends=1>")


def test_an_async_callback_for_events_is_refused_by_the_sync_conversation():
    async def show(event: object) -> None: ...

    with SyncClient(model="m") as client, pytest.raises(ConfigurationError, match="nobody would await"):
        client.conversation().stream("a", show)


def test_the_messages_of_an_async_store_are_asked_of_the_store():
    class Store:
        async def get(self, id: str, /) -> list[Message] | None:
            return None

        async def save(self, id: str, messages: object, /) -> None: ...

    chat = AsyncClient(model="m", store=Store()).conversation(id="talk")
    with pytest.raises(ConfigurationError, match="await its get"):
        _ = chat.messages


def test_reset_awaits_an_async_store():
    saved: list[tuple[str, object]] = []

    class Store:
        async def get(self, id: str, /) -> list[Message] | None:
            return None

        async def save(self, id: str, messages: object, /) -> None:
            saved.append((id, messages))

    asyncio.run(AsyncClient(model="m", store=Store()).conversation(id="talk").reset())
    assert saved == [("talk", [])]


def test_an_interrupt_from_message_hooks_works_too(serve, converse):
    server = serve(Response(), says("2"))
    chat = converse(server)
    hook = chat.on_message(lambda message: chat.interrupt())
    with pytest.raises(RunCancelledError):
        chat.send("a")
    assert server.requests == []
    hook.dispose()
