"""Those who watch the raw stream cannot disturb it, nor each other."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from tests.conversation.harness import Chat, wait
from tests.server import PATIENCE_S, Gate, delta, done, finish, reply, says, sse, text
from toolnexus import ChunkType, ConfigurationError, ContentChunk, Hook, Hooks, SyncClient


def test_a_hook_added_during_dispatch_fires_from_the_next_chunk(serve, converse):
    chat = converse(serve(says("One,", " two,", " three.")))
    late: list[str] = []

    def add(chunk: ContentChunk) -> None:
        if chunk.seq == 0:
            chat.chunks.hook(ChunkType.CONTENT).do(lambda c: late.append(c.text))

    chat.chunks.hook(ChunkType.CONTENT).do(add)
    chat.send("Count.")
    assert late == [" two,", " three."]


def test_a_hook_disposed_during_dispatch_fires_no_more_and_the_others_do(serve, converse):
    chat = converse(serve(says("One,", " two.")))
    seen: list[str] = []
    hooks: list[Hook] = []
    chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: hooks[0].dispose())
    hooks.append(chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: seen.append("disposed")))
    chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: seen.append(chunk.text))
    chat.send("Count.")
    assert seen == ["One,", " two."]


def test_a_hook_that_disposes_itself_fires_once(serve, converse):
    chat = converse(serve(says("One,", " two.")))
    seen: list[str] = []

    def once(chunk: ContentChunk) -> None:
        seen.append(chunk.text)
        hook.dispose()

    hook = chat.chunks.hook(ChunkType.CONTENT).do(once)
    chat.send("Count.")
    assert seen == ["One,"]


def test_the_same_function_may_be_hooked_twice_and_each_hook_is_its_own(serve, converse):
    chat = converse(serve(says("One."), says("Two.")))
    seen: list[str] = []

    def see(chunk: ContentChunk) -> None:
        seen.append(chunk.text)

    first = chat.chunks.hook(ChunkType.CONTENT).do(see)
    chat.chunks.hook(ChunkType.CONTENT).do(see)
    chat.send("1?")
    first.dispose()
    first.dispose()  # again: nothing happens, not to the other either
    chat.send("2?")
    assert seen == ["One.", "One.", "Two."]


def test_hooks_fire_in_the_order_in_which_they_were_added(serve, converse):
    chat = converse(serve(says("One.")))
    seen: list[int] = []
    for number in range(4):
        chat.chunks.hook(ChunkType.FINISH).do(lambda chunk, number=number: seen.append(number))
    chat.send("1?")
    assert seen == [0, 1, 2, 3]


def test_a_decorated_function_is_hooked_and_stays_itself(serve, converse):
    chat: Chat = converse(serve(says("One.")))
    seen: list[str] = []

    @chat.chunks.hook(ChunkType.CONTENT)
    def see(chunk: ContentChunk) -> str:
        seen.append(chunk.text)
        return chunk.text

    chat.send("1?")
    assert seen == ["One."]
    assert see(ContentChunk("x", seq=0, batch=1, round=1, timestamp=0.0)) == "x"


def test_a_hook_that_raises_is_logged_by_its_name_and_the_others_and_the_send_go_on(serve, converse, caplog):
    chat = converse(serve(says("One,", " two.")))
    seen: list[str] = []

    def broken(chunk: object) -> None:
        raise ValueError("no pen")

    chat.chunks.hook(ChunkType.CONTENT).do(broken)
    chat.on_message(broken)
    chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: seen.append(chunk.text))
    assert chat.send("Count.").text == "One, two."
    assert seen == ["One,", " two."]
    assert len(caplog.records) == 4  # two chunks, two messages
    assert all(record.exc_info and "broken" in record.getMessage() for record in caplog.records)


def test_a_slow_hook_holds_up_the_stream_and_loses_nothing(serve, converse):
    gate, reached = Gate(), threading.Event()
    chat = converse(serve(reply(text("One,"), gate, text(" two."), finish(), done())))

    def slow(chunk: ContentChunk) -> None:
        if chunk.seq == 0:
            gate.open()  # the server goes on while this hook does not
            assert reached.wait(PATIENCE_S)

    chat.chunks.hook(ChunkType.CONTENT).do(slow)

    def tell() -> None:
        gate.wait_reached()
        reached.set()

    opener = threading.Thread(target=tell)
    opener.start()
    assert chat.send("Count.").text == "One, two."
    opener.join()
    assert [chunk.seq for chunk in chat.chunks.all()] == [0, 1, 2]


def test_an_async_hook_is_not_awaited_by_the_send(serve, converse):
    chat = converse(serve(says("One.")))
    may_end, ended = threading.Event(), threading.Event()

    async def see(chunk: ContentChunk) -> None:
        await asyncio.to_thread(may_end.wait, PATIENCE_S)
        ended.set()

    chat.chunks.hook(ChunkType.CONTENT).do(see)
    assert chat.send("1?").text == "One."
    assert not ended.is_set()
    may_end.set()
    wait(chat, ended)


def test_what_an_async_hook_raises_is_logged_and_never_unhandled(serve, converse, caplog):
    chat = converse(serve(says("One.")))
    ended = threading.Event()

    async def reject(chunk: object) -> None:
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(ended.set)
        raise ValueError("no pen")

    chat.chunks.hook(ChunkType.FINISH).do(reject)
    assert chat.send("1?").text == "One."
    wait(chat, ended)
    (record,) = caplog.records
    assert "reject" in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "no pen"


def test_an_async_hook_that_never_ends_is_let_go_with_the_client(serve, converse):
    chat = converse(serve(says("One.")))
    started = threading.Event()

    async def hang(chunk: object) -> None:
        started.set()
        await asyncio.Event().wait()

    chat.chunks.hook(ChunkType.FINISH).do(hang)
    chat.on_message(hang)
    assert chat.send("1?").text == "One."
    wait(chat, started)


def test_an_async_hook_that_had_no_time_to_begin_is_let_go_in_silence(serve):
    held, hold = threading.Event(), threading.Event()

    async def block(_: object) -> None:
        held.set()
        hold.wait(PATIENCE_S)  # the whole loop

    async def never_begun(_: object) -> None: ...

    with SyncClient(base_url=serve(says("One.")).url, model="m") as client:
        chat = client.conversation()
        chat.chunks.hook(ChunkType.FINISH).do(block)
        chat.chunks.hook(ChunkType.FINISH).do(lambda chunk: held.wait(PATIENCE_S))
        chat.on_message(lambda message: never_begun(message) if message.role == "assistant" else None)
        chat.send("1?")
        (loop,) = (thread for thread in threading.enumerate() if thread.name == "toolnexus-loop")
    hold.set()
    loop.join(PATIENCE_S)
    gc.collect()  # a coroutine that was never awaited would show now


def test_clear_in_mid_stream_forgets_chunks_and_hooks_and_numbers_stay_unique(serve, converse):
    chat = converse(serve(says("One,", " two,", " three."), says("Four.")))
    names: list[tuple[int, int]] = []

    def see(chunk: ContentChunk) -> None:
        names.append((chunk.batch, chunk.seq))
        if chunk.text == " two,":
            chat.chunks.clear()
            chat.chunks.hook().do(see_all)

    def see_all(chunk) -> None:
        names.append((chunk.batch, chunk.seq))

    chat.chunks.hook().do(see)
    assert chat.send("Count.").text == "One, two, three."
    assert names == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert [chunk.seq for chunk in chat.chunks.all()] == [2, 3]
    assert [summary.content for summary in chat.chunks.summary()] == ["One, two, three."]
    chat.send("Go on.")
    assert names[4:] == [(2, 0), (2, 1)]


def test_threads_that_hook_in_at_once_lose_no_hook(serve, converse):
    chat = converse(serve(says("One.")))
    seen: list[int] = []
    start = threading.Barrier(8)

    def hook_in(number: int) -> None:
        start.wait(PATIENCE_S)
        for _ in range(50):
            chat.chunks.hook(ChunkType.FINISH).do(lambda chunk: seen.append(number))

    threads = [threading.Thread(target=hook_in, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chat.send("1?")
    assert sorted(seen) == sorted(list(range(8)) * 50)


def test_keep_chunks_keeps_the_newest_and_hooks_see_all(serve, converse):
    chat = converse(serve(says("a", "b", "c")), keep_chunks=2)
    seen: list[object] = []
    chat.chunks.hook().do(seen.append)
    chat.send("Spell.")
    assert len(seen) == 4
    assert chat.chunks.all() == seen[2:]


def test_summaries_are_bounded(serve, converse, monkeypatch):
    monkeypatch.setattr("toolnexus.chunk_stream.MAX_SUMMARIES", 2)
    chat = converse(serve(says("1"), says("2"), says("3")))
    for prompt in "abc":
        chat.send(prompt)
    assert [summary.content for summary in chat.chunks.summary()] == ["2", "3"]


def test_what_is_given_out_is_a_copy(serve, converse):
    chat = converse(serve(says("One.")))
    chat.send("1?")
    chat.chunks.all().clear()
    chat.chunks.summary().clear()
    chat.messages.clear()
    assert len(chat.chunks.all()) == 2
    assert len(chat.chunks.summary()) == 1
    assert len(chat.messages) == 2


@pytest.mark.parametrize("wrong", ["text", ContentChunk, 7])
def test_only_chunk_types_can_be_hooked(serve, converse, wrong):
    chat = converse(serve(says("One.")))
    with pytest.raises(ConfigurationError, match="ChunkType"):
        chat.chunks.hook(wrong)


def test_only_functions_can_be_hooked_in(serve, converse):
    chat = converse(serve(says("One.")))
    with pytest.raises(ConfigurationError, match="function"):
        chat.chunks.hook().do("print")
    with pytest.raises(ConfigurationError, match="function"):
        chat.on_message(None)


@pytest.mark.parametrize("wrong", [-1, "all", True])
def test_a_number_of_chunks_to_keep_that_is_none_is_refused(serve, converse, wrong):
    with pytest.raises(ConfigurationError, match="keep_chunks"):
        converse(serve(says("One.")), keep_chunks=wrong)


def test_chunks_are_seen_before_the_events_of_the_same_read(serve, converse):
    chat = converse(serve(reply(text("One."), finish(), done())))
    order: list[str] = []
    chat.chunks.hook(ChunkType.CONTENT).do(lambda chunk: order.append("chunk"))
    chat.stream("1?", lambda event: order.append(event.type))
    assert order[:2] == ["chunk", "text"]
    assert order[-1] == "done"


def test_hooks_of_the_client_see_the_chunks_of_its_conversations_too(serve, converse):
    seen: list[tuple[int, str]] = []
    hooks = Hooks(on_chunk=lambda chunk: seen.append((chunk.batch, chunk.type)))
    chat = converse(serve(says("One."), says("Two.")), hooks=hooks)
    chat.send("1?")
    chat.send("2?")
    assert seen == [(1, "content"), (1, "finish"), (2, "content"), (2, "finish")]


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
FIRST = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}


def frame(counts: object = None, **choice: object) -> bytes:
    return sse({"choices": [{"index": 0, "delta": {}, **choice}], **({"usage": counts} if counts else {})})


@pytest.mark.parametrize(
    ("writes", "total"),
    [
        ([text("Hi."), frame(USAGE, finish_reason="stop"), done()], 5),
        ([text("Hi."), finish(), frame(USAGE), done()], 5),
        ([frame(FIRST, delta={"content": "Hi."}), frame(USAGE, finish_reason="stop"), done()], 5),
        ([text("Hi."), finish(), done()], None),
    ],
    ids=["on the finish frame", "after it", "on every frame", "never"],
)
def test_there_is_one_usage_chunk_before_the_finish_wherever_the_wire_has_it(serve, converse, writes, total):
    chat = converse(serve(reply(writes)))
    chat.send("Hi?")
    types = [chunk.type for chunk in chat.chunks.all()]
    assert types == ["content", *(["usage"] if total else []), "finish"]
    (summary,) = chat.chunks.summary()
    assert [chunk.usage.total_tokens for chunk in chat.chunks.all() if chunk.type == "usage"] == [total] * bool(total)
    assert (summary.usage.total_tokens if summary.usage else None) == total


def test_a_finish_without_a_reason_on_the_wire_is_artificial(serve, converse):
    chat = converse(serve(reply(text("Hi."), done()), says("Hi.")))
    finishes: list[tuple[str | None, bool]] = []
    chat.chunks.hook(ChunkType.FINISH).do(lambda c: finishes.append((c.finish_reason, c.artificial)))
    chat.send("1?")
    chat.send("2?")
    assert finishes == [(None, True), ("stop", False)]


def test_a_content_filter_is_the_reason_of_finish_summary_and_result(serve, converse):
    chat = converse(serve(reply(text("I wo"), finish("content_filter"), done())))
    result = chat.send("Be bad.")
    assert (result.status, result.finish_reason) == ("done", "content_filter")
    assert chat.chunks.finish_reason() == "content_filter"
    assert [(s.content, s.finish_reason) for s in chat.chunks.summary()] == [("I wo", "content_filter")]


def test_an_empty_delta_makes_no_chunk(serve, converse):
    chat = converse(serve(reply(delta(role="assistant", content=""), text("Hi."), finish(), done())))
    chat.send("Hi?")
    assert [chunk.type for chunk in chat.chunks.all()] == ["content", "finish"]
