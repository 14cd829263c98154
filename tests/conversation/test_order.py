"""One send at a time: the next one waits its turn, and says so when it would wait for ever."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.clients.harness import MODEL, later
from tests.queues import standing
from tests.server import PATIENCE_S, Gate, failure, says
from toolnexus import (
    AsyncClient,
    AsyncConversation,
    Cancel,
    ChunkType,
    ConfigurationError,
    DeadlineExceededError,
    RunCancelledError,
    SyncClient,
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
