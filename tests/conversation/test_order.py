"""One send at a time: the next one waits its turn, and says so when it would wait for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tests.clients.harness import MODEL, later
from tests.queues import standing
from tests.server import PATIENCE_S, Gate, calls, failure, says
from toolnexus import (
    AsyncClient,
    AsyncConversation,
    Cancel,
    ChunkType,
    ConfigurationError,
    Conversation,
    DeadlineExceededError,
    MemoryStore,
    Message,
    RunCancelledError,
    StoreError,
    SyncClient,
    Toolkit,
    define_tool,
)


@pytest.fixture
def client(serve):
    """A sync client for a script: `client(response, ...)` gives it with its server."""
    clients: list[SyncClient] = []

    def make(*script) -> tuple[SyncClient, Any]:
        server = serve(*script)
        clients.append(SyncClient(base_url=server.url, model=MODEL))
        return clients[-1], server

    yield make
    for one in clients:
        one.close()


def waiting() -> int:
    """How many sends wait their turn, behind the one in flight."""
    return standing() - 1


# -- threads


def in_threads(*works) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def test_sends_of_several_threads_go_out_one_after_the_other_in_their_order(client, queue):
    gate = Gate()
    one, server = client(says("1", before=gate), says("2"), says("3"))
    chat = one.conversation()
    answers: list[tuple[str, str]] = []

    def send(prompt: str) -> None:
        answers.append((prompt, chat.send(prompt).text))

    threads = in_threads(lambda: send("a"))
    gate.wait_reached()
    threads += in_threads(lambda: send("b"))
    queue.wait_for(2)
    threads += in_threads(lambda: send("c"))
    queue.wait_for(3)
    assert len(server.requests) == 1
    gate.open()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(answers) == [("a", "1"), ("b", "2"), ("c", "3")]
    assert [message.text for message in chat.messages] == ["a", "1", "b", "2", "c", "3"]


def test_a_second_send_of_a_thread_with_half_read_events_is_refused(client):
    one, server = client(says("1"), says("2"))
    chat = one.conversation()
    with chat.iter_events("a") as events:
        next(events)
        with pytest.raises(ConfigurationError, match="read its events to the end, or close it"):
            chat.send("b")
        assert [event.type for event in events][-1] == "done"
    assert chat.send("b").text == "2"
    assert len(server.requests) == 2


def test_events_that_were_never_read_hold_up_nobody(client):
    one, _ = client(says("1"))
    chat = one.conversation()
    chat.iter_events("never")
    assert chat.send("a").text == "1"


def test_a_send_from_within_a_hook_is_refused_and_logged_and_the_outer_one_goes_on(client, caplog):
    one, _ = client(says("1"))
    chat = one.conversation()
    chat.chunks.hook(ChunkType.FINISH).do(lambda chunk: chat.send("b"))
    assert chat.send("a").text == "1"
    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ConfigurationError)


def test_a_waiting_send_of_a_thread_can_be_cancelled_and_has_a_deadline(client, queue):
    gate = Gate()
    one, server = client(says("1", before=gate), says("2"))
    chat = one.conversation()
    threads = in_threads(lambda: chat.send("a"))
    gate.wait_reached()
    with pytest.raises(DeadlineExceededError):
        chat.send("b", deadline=0.01)
    cancel = Cancel()
    cancel.cancel()
    with pytest.raises(RunCancelledError):
        chat.send("c", cancel=cancel)
    cancel = Cancel()
    threads.append(later(cancel, lambda: queue.wait_for(2)))
    with pytest.raises(RunCancelledError):
        chat.send("d", cancel=cancel)
    gate.open()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert chat.send("e").text == "2"
    assert [message.text for message in chat.messages] == ["a", "1", "e", "2"]
    assert len(server.requests) == 2


def test_interrupt_ends_the_send_in_flight_and_lets_the_next_thread_go(client, queue):
    gate = Gate()
    one, _ = client(says("1", before=gate), says("2"))
    chat = one.conversation()
    ended: list[object] = []

    def send(prompt: str) -> None:
        try:
            ended.append(chat.send(prompt).text)
        except RunCancelledError as error:
            ended.append(type(error))

    threads = in_threads(lambda: send("a"))
    gate.wait_reached()
    threads += in_threads(lambda: send("b"))
    queue.wait_for(2)
    chat.interrupt()
    for thread in threads:
        thread.join(PATIENCE_S)
    gate.open()
    assert ended == [RunCancelledError, "2"]


@pytest.mark.parametrize("forget", [Conversation.reset, Conversation.clear])
def test_forgetting_waits_for_the_send_in_flight_and_the_next_send_for_it(client, queue, forget):
    gate = Gate()
    one, server = client(says("1", before=gate), says("2"))
    chat = one.conversation()
    threads = in_threads(lambda: chat.send("a"))
    gate.wait_reached()
    threads += in_threads(lambda: forget(chat))
    queue.wait_for(2)
    threads += in_threads(lambda: chat.send("b"))
    queue.wait_for(3)
    gate.open()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [m["content"] for m in server.requests[1].json["messages"]] == ["b"]
    assert [message.text for message in chat.messages] == ["b", "2"]
    assert {chunk.batch for chunk in chat.chunks.all()} == {2}


@pytest.mark.parametrize("forget", [Conversation.reset, Conversation.clear])
def test_forgetting_while_events_are_half_read_is_refused_and_changes_nothing(client, forget):
    one, _ = client(says("1"), says("2"))
    chat = one.conversation(id="talk")
    chat.send("a")
    with chat.iter_events("b") as events:
        next(events)
        with pytest.raises(ConfigurationError, match="'talk' is at work on a run of this thread or task"):
            forget(chat)
        assert chat.chunks.all() != []
        assert [event.type for event in events][-1] == "done"
    assert [message.text for message in chat.messages] == ["a", "1", "b", "2"]
    forget(chat)
    assert chat.messages == []


def test_forgetting_from_a_tool_of_the_send_is_refused(client):
    one, _ = client(calls(("c1", "wipe", "{}")), says("2"))
    refused: list[ConfigurationError] = []

    def wipe() -> None:
        with pytest.raises(ConfigurationError, match="this conversation is at work on a run that waits") as caught:
            chat.reset()
        refused.append(caught.value)

    chat = one.conversation(Toolkit(define_tool(wipe)))
    assert chat.send("a").text == "2"
    assert len(refused) == 1
    assert len(chat.messages) == 4


class Full:
    """A store without a place for anything."""

    def get(self, id: str) -> None:
        return None

    def save(self, id: str, messages: Sequence[Message]) -> None:
        raise OSError("disk full")


def test_a_transcript_that_cannot_be_forgotten_is_an_error_of_the_store_and_holds_up_nobody():
    with SyncClient(base_url="http://127.0.0.1:1", model=MODEL, store=Full()) as client:
        with pytest.raises(StoreError, match="'talk' could not be saved: OSError: disk full") as caught:
            client.conversation(id="talk").reset()
        assert (standing(), caught.value.result) == (0, None)  # also while the error and its frames are alive

    async def main() -> None:
        async with AsyncClient(base_url="http://127.0.0.1:1", model=MODEL, store=Full()) as client:
            with pytest.raises(StoreError, match="'talk' could not be saved: OSError: disk full") as caught:
                await client.conversation(id="talk").reset()
            assert (standing(), caught.value.result) == (0, None)

    asyncio.run(main())


def test_an_interrupt_after_the_end_of_a_send_is_none_of_the_next_ones(client):
    one, _ = client(says("1"), says("2"))
    chat = one.conversation()
    with chat.iter_events("a") as events:
        for event in events:
            if event.type == "done":
                chat.interrupt()
    assert chat.send("b").text == "2"


def test_a_failed_send_of_a_thread_lets_the_next_one_go(client):
    one, _ = client(failure(401), says("2"))
    chat = one.conversation()
    with pytest.raises(Exception, match="no luck"):
        chat.send("a")
    assert chat.send("b").text == "2"


# -- tasks


async def steps(condition) -> None:
    """Let other tasks run until `condition` holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)


def in_a_loop(server, main) -> None:
    async def run() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            await main(client.conversation())

    asyncio.run(run())


def test_sends_of_several_tasks_go_out_one_after_the_other_in_their_order(serve):
    gate = Gate()
    server = serve(says("1", before=gate), says("2"), says("3"))

    async def main(chat: AsyncConversation) -> None:
        tasks = [asyncio.create_task(chat.send(prompt)) for prompt in "abc"]
        await steps(lambda: server.requests)
        assert (waiting(), len(server.requests)) == (2, 1)
        gate.open()
        assert [result.text for result in await asyncio.gather(*tasks)] == ["1", "2", "3"]
        assert [message.text for message in chat.messages] == ["a", "1", "b", "2", "c", "3"]

    in_a_loop(server, main)


def test_a_second_send_of_a_task_with_half_read_events_is_refused(serve):
    server = serve(says("1"), says("2"))

    async def main(chat: AsyncConversation) -> None:
        async with chat.stream("a") as events:
            await anext(events)
            with pytest.raises(ConfigurationError, match="read its events to the end, or close it"):
                await chat.send("b")
        assert (await chat.send("b")).text == "2"

    in_a_loop(server, main)


def test_a_waiting_send_of_a_task_can_be_cancelled_in_every_way_and_has_a_deadline(serve):
    gate = Gate()
    server = serve(says("1", before=gate), says("2"))

    async def main(chat: AsyncConversation) -> None:
        first = asyncio.create_task(chat.send("a"))
        await steps(lambda: server.requests)
        with pytest.raises(DeadlineExceededError):
            await chat.send("b", deadline=0.01)
        cancelled = Cancel()
        cancelled.cancel()
        with pytest.raises(RunCancelledError):
            await chat.send("c", cancel=cancelled)
        cancel = Cancel()
        waits = asyncio.create_task(chat.send("d", cancel=cancel))
        await steps(lambda: waiting() > 0)
        cancel.cancel()
        with pytest.raises(RunCancelledError):
            await waits
        task = asyncio.create_task(chat.send("e"))
        await steps(lambda: waiting() > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waiting() == 0
        gate.open()
        assert (await first).text == "1"
        assert (await chat.send("f")).text == "2"
        assert [message.text for message in chat.messages] == ["a", "1", "f", "2"]

    in_a_loop(server, main)


@pytest.mark.parametrize("by", ["task.cancel()", "Cancel"])
def test_a_task_that_is_cancelled_just_as_its_turn_comes_passes_it_on(serve, by):
    server = serve(says("1"), says("2"))

    async def main(chat: AsyncConversation) -> None:
        cancel = Cancel()
        async with chat.stream("a") as events:
            await anext(events)
            second = asyncio.create_task(chat.send("b", cancel=cancel))
            third = asyncio.create_task(chat.send("c"))
            await steps(lambda: waiting() == 2)
            async for _ in events:
                pass
            assert waiting() == 1  # the turn is the second one's, who does not know it yet
            if by == "Cancel":
                cancel.cancel()
            else:
                second.cancel()
        with pytest.raises((asyncio.CancelledError, RunCancelledError)):
            await second
        assert (await third).text == "2"
        assert [message.text for message in chat.messages] == ["a", "1", "c", "2"]

    in_a_loop(server, main)


def test_interrupt_ends_the_send_in_flight_and_lets_the_next_task_go(serve):
    gate = Gate()
    server = serve(says("1", before=gate), says("2"))

    async def main(chat: AsyncConversation) -> None:
        first, second = asyncio.create_task(chat.send("a")), asyncio.create_task(chat.send("b"))
        await steps(lambda: server.requests and waiting() > 0)
        chat.interrupt()
        with pytest.raises(RunCancelledError):
            await first
        assert (await second).text == "2"
        gate.open()

    in_a_loop(server, main)


@pytest.mark.parametrize("forget", [AsyncConversation.reset, AsyncConversation.clear])
def test_forgetting_in_a_task_waits_for_the_send_in_flight_and_the_next_send_for_it(serve, forget):
    gate = Gate()
    server = serve(says("1", before=gate), says("2"))

    async def main(chat: AsyncConversation) -> None:
        first = asyncio.create_task(chat.send("a"))
        await steps(lambda: server.requests)
        forgets, second = asyncio.create_task(forget(chat)), asyncio.create_task(chat.send("b"))
        await steps(lambda: waiting() == 2)
        gate.open()
        await asyncio.gather(first, forgets, second)
        assert [m["content"] for m in server.requests[1].json["messages"]] == ["b"]
        assert [message.text for message in chat.messages] == ["b", "2"]
        assert {chunk.batch for chunk in chat.chunks.all()} == {2}

    in_a_loop(server, main)


@pytest.mark.parametrize("forget", [AsyncConversation.reset, AsyncConversation.clear])
def test_forgetting_in_a_task_that_holds_the_conversation_is_refused_and_changes_nothing(serve, forget):
    server = serve(calls(("c1", "wipe", "{}")), says("2"))

    async def main() -> None:
        async def wipe() -> None:
            with pytest.raises(ConfigurationError, match="a tool, hook or wait_for"):
                await forget(chat)

        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            chat = client.conversation(Toolkit(define_tool(wipe)))
            async with chat.stream("a") as events:
                await anext(events)
                with pytest.raises(ConfigurationError, match="of this thread or task"):
                    await forget(chat)
                assert chat.chunks.all() != []
                async for _ in events:
                    pass
            assert [call.is_error for call in events.result.tool_calls] == [False]
            assert len(chat.messages) == 4
            await forget(chat)
            assert chat.messages == []

    asyncio.run(main())


class SlowStore(MemoryStore):
    """A store of a user's own, whose empty saves take until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.goes_on = threading.Event(), threading.Event()

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        if not messages:
            self.began.set()
            assert self.goes_on.wait(PATIENCE_S)
        super().save(id, messages)


class Slow:
    """`SlowStore`, but nothing that is known to wait for no disk."""

    def __init__(self) -> None:
        self.inner = SlowStore()
        self.get, self.save = self.inner.get, self.inner.save


def test_a_sync_store_that_is_emptied_does_not_hold_up_the_event_loop_and_no_run_overtakes_it(serve):
    server, store = serve(says("1"), says("2")), Slow()

    async def main() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL, store=store) as client:
            chat = client.conversation(id="talk")
            await chat.send("a")
            resets = asyncio.create_task(chat.reset())
            await steps(store.inner.began.is_set)
            resets.cancel()
            sends = asyncio.create_task(chat.send("b"))
            await steps(lambda: standing() == 2)
            assert not resets.done()  # its thread is still at it
            store.inner.goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await resets
            await sends
            assert [message.text for message in chat.messages] == ["b", "2"]

    asyncio.run(main())


@pytest.mark.parametrize("hides", [True, False])
def test_an_async_store_is_emptied_too(serve, hides):
    class Async:
        def __init__(self) -> None:
            self.inner = MemoryStore()

        async def get(self, id: str) -> list[Message] | None:
            return self.inner.get(id)

        async def save(self, id: str, messages: Sequence[Message]) -> None:
            await asyncio.sleep(0)
            self.inner.save(id, messages)

    class Hidden:
        def __init__(self) -> None:
            self.inner = Async()

        def get(self, id: str) -> Any:
            return self.inner.get(id)

        def save(self, id: str, messages: Sequence[Message]) -> Any:
            return self.inner.save(id, messages)

    server, store = serve(says("1")), Hidden() if hides else Async()

    async def main() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL, store=store) as client:
            chat = client.conversation(id="talk")
            await chat.send("a")
            await chat.reset()
            assert await store.get("talk") == []

    asyncio.run(main())


def test_a_conversation_works_in_one_event_loop_after_the_other(serve):
    server = serve(says("1"), says("2"))
    client = AsyncClient(base_url=server.url, model=MODEL)
    chat = client.conversation()
    assert asyncio.run(chat.send("a")).text == "1"

    async def last() -> str:
        async with client:
            return (await chat.send("b")).text

    assert asyncio.run(last()) == "2"


def test_what_an_async_hook_left_running_ends_with_the_loop_without_a_word(serve):
    server = serve(says("1"))

    async def main(chat: AsyncConversation) -> None:
        async def hang(_: object) -> None:
            await asyncio.Event().wait()

        chat.chunks.hook().do(hang)
        chat.on_message(hang)
        await chat.send("a")

    in_a_loop(server, main)
