"""Conversations by id: loaded before the first request, saved before the run says that it is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tests.clients.harness import MODEL, new_client, transcript
from tests.server import calls, done, finish, reply, says, text
from toolnexus import (
    AsyncClient,
    ConfigurationError,
    MemoryStore,
    Message,
    Snapshot,
    StoreError,
    StreamEvent,
    Toolkit,
    pending,
    tool,
)


@tool
def look() -> str:
    """Look."""
    return "seen"


class Recorder:
    """A store of a user's own, which waits for nothing and fails when told to."""

    def __init__(self, *, fails: str = "", on_save: int = 1) -> None:
        self.saved: list[list[Message]] = []
        self.threads: set[str] = set()
        self._fails = fails
        self._on_save = on_save

    def get(self, id: str) -> list[Message] | None:
        self.threads.add(threading.current_thread().name)
        if self._fails == "get":
            raise OSError("disk on fire")
        return self.saved[-1] if self.saved else None

    def save(self, id: str, messages: Sequence[Message]) -> None:
        if self._fails == "save" and len(self.saved) + 1 >= self._on_save:
            raise OSError("disk full")
        self.saved.append(list(messages))


def test_calls_with_one_id_are_one_conversation(play, serve):
    server = serve(calls(("c1", "look", "{}")), says("A cat."), says("As I said."))
    first = play(server, "What is there?", look, call={"id": "talk"}).ended()
    second = play(server, "Sure?", look, call={"id": "talk"}).ended()
    assert second.messages[: len(first.messages)] == first.messages
    assert second.id == "talk"
    assert [m["role"] for m in server.requests[2].json["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


def test_other_ids_and_no_id_are_other_conversations(play, serve):
    server = serve(says("One."), says("Two."), says("Three."))
    play(server, "One?", call={"id": "a"}).ended()
    play(server, "Two?", call={"id": "b"}).ended()
    play(server, "Three?").ended()
    assert [len(request.json["messages"]) for request in server.requests] == [1, 1, 1]


def test_ask_has_memory_with_and_without_a_callback(connect, serve):
    server = serve(says("One."), says("Two."))
    client = connect(server)
    client.ask("One?", id="talk")
    shown: list[str] = []
    client.ask("Two?", id="talk", on_text=shown.append)
    assert shown == ["Two."]
    assert "stream" not in server.requests[0].json
    assert server.requests[1].json["stream"] is True
    assert [m["content"] for m in server.requests[1].json["messages"]] == ["One?", "One.", "Two?"]


def test_ask_of_the_async_client_awaits_its_callback(serve):
    server = serve(says("Hel", "lo."))
    shown: list[str] = []

    async def on_text(delta: str) -> None:
        await asyncio.sleep(0)
        shown.append(delta)

    async def main() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            await client.ask("Hi.", on_text=on_text)

    asyncio.run(main())
    assert shown == ["Hel", "lo."]


def test_the_system_prompt_is_sent_with_each_run_and_kept_in_none(play, serve):
    server = serve(says("One."), says("Two."))
    for prompt, system in (("One?", None), ("Two?", "Be rude.")):
        call = {"id": "talk", "system_prompt": system}
        messages = play(server, prompt, system_prompt="Be kind.", call=call).ended().messages
        assert all(message.role != "system" for message in messages)
    assert [m["content"] for m in server.requests[0].json["messages"]] == ["Be kind.", "One?"]
    assert [m["content"] for m in server.requests[1].json["messages"]] == ["Be rude.", "One?", "One.", "Two?"]


def test_the_conversation_is_saved_before_the_done_event(connect, serve):
    store = MemoryStore()
    seen: list[Any] = []

    def on_event(event: StreamEvent) -> None:
        if event.type == "done":
            seen.append(store.get("talk"))

    result = connect(serve(says("Hi.")), store=store).stream("Hi?", None, on_event, "talk")
    assert seen == [result.messages]


def test_the_conversation_is_saved_after_each_batch_of_tools(play, serve):
    store = Recorder()
    server = serve(calls(("c1", "look", "{}")), says("A cat."))
    result = play(server, "Go.", look, store=store, call={"id": "talk"}).ended()
    stories = [transcript(saved) for saved in store.saved]
    assert ("tool", ("c1", "seen", False)) in stories[-2]
    assert store.saved[-1] == result.messages


def test_a_run_without_id_touches_no_store(play, serve):
    store = Recorder(fails="get")
    play(serve(says("Hi.")), "Hi?", store=store).ended()
    assert store.saved == []


def test_a_load_that_fails_sends_no_request(play, serve):
    server = serve(says("Never."))
    played = play(server, "Hi?", store=Recorder(fails="get"), call={"id": "talk"})
    assert isinstance(played.error, StoreError)
    assert str(played.error) == "conversation 'talk' could not be loaded: OSError: disk on fire"
    assert isinstance(played.error.__cause__, OSError)
    assert server.requests == []


def test_a_save_that_fails_ends_the_run_with_all_that_was_done(play, serve):
    store = Recorder(fails="save", on_save=1)
    played = play(serve(calls(("c1", "look", "{}")), says("A cat.")), "Hi?", look, store=store, call={"id": "talk"})
    assert isinstance(played.error, StoreError)
    assert "could not be saved: OSError: disk full" in str(played.error)
    assert played.error.result is not None
    assert played.error.result.status == "error"
    assert played.events[-1].type != "done"


class Careless(MemoryStore):
    """A store of a user's own, one of whose methods gives what it should not."""

    def __init__(self, method: str, given: Any) -> None:
        super().__init__()
        self._method = method
        self._given = given

    def load(self, id: str, /) -> Any:
        return self._given if self._method == "load" else super().load(id)

    def commit(self, id: str, base: Any, messages: Sequence[Message], /) -> Any:
        committed = super().commit(id, base, messages)
        return self._given if self._method == "commit" else committed


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([{"role": "user", "content": "Hi."}], "get() gave a list with dict at 0, not a Message"),
        ([Message("user", "Hi."), None], "get() gave a list with NoneType at 1, not a Message"),
        ("[]", "get() gave str, not a list of Message"),
        ({"version": 1, "messages": []}, "get() gave dict, not a list of Message"),
    ],
)
def test_a_store_that_gives_no_transcript_is_named(play, serve, given, what):
    store = Recorder()
    store.saved.append(given)
    server = serve(says("Never."))
    played = play(server, "Hi?", store=store, call={"id": "talk"})
    assert isinstance(played.error, StoreError)
    assert str(played.error) == f"conversation 'talk' could not be loaded: TypeError: {what}"
    assert server.requests == []
    assert store.saved == [given]


@pytest.mark.parametrize(("method", "done_"), [("load", "loaded"), ("commit", "saved")])
def test_a_store_that_gives_no_snapshot_is_named(play, serve, method, done_):
    played = play(serve(says("A cat.")), "Hi?", store=Careless(method, None), call={"id": "talk"})
    assert isinstance(played.error, StoreError)
    expected = f"conversation 'talk' could not be {done_}: TypeError: {method}() gave NoneType, not a Snapshot"
    assert str(played.error) == expected


def test_a_snapshot_without_a_transcript_is_named(play, serve):
    snapshot = Snapshot(["Hi."], 1)  # type: ignore[list-item]  # as a careless store gives it
    played = play(serve(says("Never.")), "Hi?", store=Careless("load", snapshot), call={"id": "talk"})
    assert isinstance(played.error, StoreError)
    assert str(played.error).endswith("load() gave a list with str at 0, not a Message")


def test_a_save_that_fails_at_the_end_leaves_the_answer_on_the_error(play, serve):
    played = play(serve(says("A cat.")), "Hi?", store=Recorder(fails="save"), call={"id": "talk"})
    assert isinstance(played.error, StoreError)
    assert played.error.result is not None
    assert played.error.result.text == "A cat."
    assert transcript(played.error.result.messages) == [("user", "Hi?"), ("assistant", "A cat.")]


def test_a_save_that_fails_after_a_failed_run_is_logged_and_does_not_hide_the_failure(play, serve, caplog):
    played = play(serve(reply(text("Hal"), end="close")), "Hi?", store=Recorder(fails="save"), call={"id": "talk"})
    assert type(played.error).__name__ == "StreamInterruptedError"
    assert "after a failed run: conversation 'talk' could not be saved: OSError: disk full" in caplog.text


def test_a_failed_run_leaves_the_prompt_and_no_half_answer(play, serve):
    store = Recorder()
    server = serve(reply(text("Hal"), end="reset"), says("Again."))
    assert play(server, "Hi?", store=store, call={"id": "talk"}).error is not None
    assert transcript(store.saved[-1]) == [("user", "Hi?")]
    play(server, "Hi again?", store=store, call={"id": "talk"}).ended()
    assert [m["content"] for m in server.requests[1].json["messages"]] == ["Hi?", "Hi again?"]


def test_a_pending_run_is_saved_and_a_new_prompt_closes_its_calls(play, serve):
    @tool
    def ask() -> object:
        """Ask."""
        return pending("Well?")

    store = Recorder()
    server = serve(calls(("c1", "ask", "{}")), says("Never mind."))
    result = play(server, "Go.", ask, store=store, call={"id": "talk"}).ended()
    assert result.status == "pending"
    assert result.pending is not None
    assert store.saved[-1] == result.messages
    after = play(server, "Forget it.", ask, store=store, call={"id": "talk"}).ended()
    assert transcript(after.messages)[1:3] == [
        ("assistant", ("c1", "ask", {}, "finished")),
        ("tool", ("c1", "The call waited for an answer that did not come; the conversation went on without it.", True)),
    ]


def test_a_sync_store_is_called_in_a_thread_of_its_own_by_the_async_client(serve):
    store = Recorder()

    async def main() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL, store=store) as client:
            await client.ask("Hi?", id="talk")

    server = serve(says("Hi."))
    asyncio.run(main())
    assert store.threads == {"toolnexus-tool"}


class AsyncStore:
    def __init__(self) -> None:
        self.saved: dict[str, list[Message]] = {}

    async def get(self, id: str) -> list[Message] | None:
        await asyncio.sleep(0)
        return self.saved.get(id)

    async def save(self, id: str, messages: Sequence[Message]) -> None:
        await asyncio.sleep(0)
        self.saved[id] = list(messages)


class HiddenAsyncStore:
    """Its methods are plain, and what they give must be awaited."""

    def __init__(self) -> None:
        self.inner = AsyncStore()

    def get(self, id: str) -> Any:
        return self.inner.get(id)

    def save(self, id: str, messages: Sequence[Message]) -> Any:
        return self.inner.save(id, messages)


@pytest.mark.parametrize("kind", [AsyncStore, HiddenAsyncStore])
def test_an_async_store_works_with_the_async_client(serve, kind):
    server = serve(says("One."), says("Two."))
    store = kind()

    async def main() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL, store=store) as client:
            await client.ask("One?", id="talk")
            await client.ask("Two?", id="talk")
            assert client.conversation_store() is store

    asyncio.run(main())
    assert [m["content"] for m in server.requests[1].json["messages"]] == ["One?", "One.", "Two?"]


def test_an_async_store_that_hides_it_is_refused_by_the_sync_client_when_it_shows(serve):
    server = serve(says("Never."))
    with new_client("sync", server, store=HiddenAsyncStore()) as client, pytest.raises(ConfigurationError) as caught:
        client.ask("Hi?", id="talk")
    assert str(caught.value).startswith("store: SyncClient cannot await")
    assert server.requests == []


class Promise:
    """Something to await that is no coroutine."""

    def __await__(self) -> Any:
        yield


def test_any_awaitable_of_a_store_is_refused_by_the_sync_client(serve):
    class Promising(MemoryStore):
        def get(self, id: str, /) -> Any:
            return Promise()

    client = new_client("sync", serve(says("Never.")), store=Promising())
    with client, pytest.raises(ConfigurationError, match="store: SyncClient cannot await"):
        client.ask("Hi?", id="talk")


def test_an_async_save_that_hides_it_is_refused_by_the_sync_client_when_it_shows(serve):
    class Half(HiddenAsyncStore):
        def get(self, id: str) -> Any:
            return None

    server = serve(says("Hi."))
    with new_client("sync", server, store=Half()) as client, pytest.raises(ConfigurationError) as caught:
        client.ask("Hi?", id="talk")
    assert str(caught.value).startswith("store: SyncClient cannot await")


def test_what_the_caller_does_to_a_stored_conversation_changes_nothing(play, serve):
    store = MemoryStore()
    play(serve(says("Hi.")), "Hi?", store=store, call={"id": "talk"}).ended()
    copy = store.get("talk")
    assert copy is not None
    copy.clear()
    assert len(store.get("talk") or ()) == 2
    assert repr(store) == "<MemoryStore of 1 conversations>"
    assert store.get("other") is None


def test_a_cut_answer_is_kept_and_says_so(play, serve):
    store = Recorder()
    server = serve(reply(text("Once upon"), finish("length"), done()))
    assert play(server, "Go.", store=store, call={"id": "talk"}).ended().limit == "max_tokens"
    assert transcript(store.saved[-1]) == [("user", "Go."), ("assistant", "Once upon")]


def test_a_toolkit_can_change_from_turn_to_turn_of_one_conversation(connect, serve):
    server = serve(says("One."), says("Two."))
    client = connect(server)
    client.stream("One?", Toolkit(look), id="talk")
    client.stream("Two?", id="talk")
    assert "tools" in server.requests[0].json
    assert "tools" not in server.requests[1].json
