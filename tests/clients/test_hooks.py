"""Lifecycle hooks over real sockets: plain ones under both clients, async ones under the async client."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.harness import Client, new_client, soon, transcript
from tests.server import (
    Gate,
    Request,
    Response,
    Server,
    calls,
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
    AfterLLM,
    AfterTool,
    Answer,
    AsyncClient,
    BeforeLLM,
    BeforeTool,
    Cancel,
    Chunk,
    ConfigurationError,
    DeadlineExceededError,
    FinishChunk,
    Hooks,
    InternalServerError,
    MemoryStore,
    Message,
    RateLimitError,
    RetryInfo,
    RunCancelledError,
    StreamInterruptedError,
    SyncClient,
    ToolContext,
    Toolkit,
    ToolResult,
    UsageChunk,
    pending,
    tool,
)

ADDS = calls(("c1", "add", '{"a": 1, "b": 2}'))
KEY = "sk-very-secret"

WORLDS = {
    "sync": ("sync", False),
    "async, plain hooks": ("async", False),
    "async, async hooks": ("async", True),
}


class Mishap(Exception):
    """Raised by a hook."""


def as_async(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same hook as an async function that lets others go first."""

    @functools.wraps(function)
    async def hook(given: Any) -> Any:
        await asyncio.sleep(0)
        return function(given)

    return hook


@pytest.fixture(params=WORLDS)
def hooked(request: pytest.FixtureRequest, serve: Callable[..., Server]) -> Iterator[Callable[..., Client]]:
    """Make clients with hooks: `hooked(server, {"before_llm": function, ...}, {...}, client_option=...)`.

    Observers stay plain functions, so that what they saw is known when the run is over.
    """
    kind, is_async = WORLDS[request.param]
    clients: list[Client] = []

    def hooked(server: Server, *given: dict[str, Callable[[Any], Any]], **options: Any) -> Client:
        hooks = [
            Hooks(**{n: as_async(f) if is_async and not n.startswith("on_") else f for n, f in one.items()})
            for one in given
        ]
        clients.append(new_client(kind, server, hooks=hooks[0] if len(hooks) == 1 else hooks, **options))
        return clients[-1]

    yield hooked
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def ran() -> list[Any]:
    """Arguments of the calls that really ran."""
    return []


@pytest.fixture
def kit(ran: list[Any]) -> Toolkit:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        ran.append((a, b))
        return a + b

    @tool(approval=True)
    def launch(site: str) -> str:
        """Launch."""
        ran.append(site)
        return f"launched from {site}"

    @tool
    def sign(ctx: ToolContext) -> object:
        """Ask for a signature."""
        ran.append(ctx.answer)
        return "signed" if ctx.answer else pending("Sign?")

    return Toolkit(add, launch, sign)


def raises(error: Exception) -> Callable[[Any], Any]:
    def hook(given: Any) -> Any:
        raise error

    return hook


def told(client: Client, prompt: str = "Go.", toolkit: Toolkit | None = None, **options: Any) -> list[Any]:
    """The transcript of a streamed run behind the prompt."""
    return transcript(client.stream(prompt, toolkit, **options).messages[1:])


# -- before_llm


def test_before_llm_sees_what_is_about_to_be_sent(hooked, serve, kit) -> None:
    seen: list[BeforeLLM] = []
    server = serve(ADDS, says("3."))
    client = hooked(server, {"before_llm": seen.append})
    client.stream("Go.", kit)
    assert [(given.turn, given.model, [t.name for t in given.tools]) for given in seen] == [
        (1, "test-model", ["add", "launch", "sign"]),
        (2, "test-model", ["add", "launch", "sign"]),
    ]
    assert transcript(list(seen[0].messages)) == [("user", "Go.")]
    assert [message.role for message in seen[1].messages] == ["user", "assistant", "tool"]


def test_before_llm_changes_what_is_sent_and_not_the_transcript(hooked, serve, kit) -> None:
    def hook(given: BeforeLLM) -> BeforeLLM:
        hint = Message("user", "Be brief.")
        return dataclasses.replace(given, messages=[hint, *given.messages], tools=given.tools[:1])

    server = serve(ADDS, says("3."))
    result = hooked(server, {"before_llm": hook}).stream("Go.", kit)
    first, second = (request.json for request in server.requests)
    assert str(first["messages"]).count("Be brief.") == str(second["messages"]).count("Be brief.") == 1
    assert [t["function"]["name"] for t in first["tools"]] == ["add"]
    assert "Be brief." not in str(result.messages)
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]


def test_before_llm_may_take_all_tools_away(hooked, serve, kit) -> None:
    server = serve(says("No."))
    hooked(server, {"before_llm": lambda given: dataclasses.replace(given, tools=())}).stream("Go.", kit)
    assert "tools" not in server.requests[0].json


def test_several_hooks_are_asked_in_their_order_and_each_sees_what_the_one_before_made(hooked, serve) -> None:
    def adds(word: str) -> dict[str, Callable[[BeforeLLM], BeforeLLM]]:
        def hook(given: BeforeLLM) -> BeforeLLM:
            last = given.messages[-1]
            return dataclasses.replace(given, messages=[*given.messages[:-1], Message("user", f"{last.text} {word}")])

        return {"before_llm": hook}

    server = serve(says("Yes."))
    hooked(server, adds("one"), {"after_llm": lambda given: None}, adds("two")).stream("Go.")
    assert server.requests[0].json["messages"] == [{"role": "user", "content": "Go. one two"}]


def test_what_before_llm_raises_ends_the_run_and_nothing_is_sent(hooked, serve) -> None:
    server, error = serve(says("Never.")), Mishap("no")
    later: list[BeforeLLM] = []
    store = MemoryStore()
    client = hooked(server, {"before_llm": raises(error)}, {"before_llm": later.append}, store=store)
    with pytest.raises(Mishap) as caught:
        client.stream("Go.", id="c")
    assert caught.value is error
    assert (server.requests, later) == ([], [])
    assert transcript(store.get("c") or []) == [("user", "Go.")]


@pytest.mark.parametrize(
    "returned",
    [
        "words",
        {"messages": []},
        True,
        lambda given: dataclasses.replace(given, messages="words"),
        lambda given: dataclasses.replace(given, messages=[{"role": "user", "content": "Hi."}]),
        lambda given: dataclasses.replace(given, messages=None),
        lambda given: dataclasses.replace(given, tools=["add"]),
    ],
    ids=["text", "a dict", "True", "messages as text", "messages as dicts", "no messages", "tools as names"],
)
def test_nonsense_from_before_llm_is_a_configuration_error_and_nothing_is_sent(hooked, serve, returned) -> None:
    server = serve(says("Never."))
    client = hooked(server, {"before_llm": returned if callable(returned) else lambda given: returned})
    with pytest.raises(ConfigurationError, match=r"hooks\.before_llm: expected"):
        client.stream("Go.")
    assert server.requests == []


def test_before_llm_is_asked_once_for_a_request_that_is_tried_again(hooked, serve) -> None:
    seen: list[BeforeLLM] = []
    server = serve(failure(503), failure(503), says("Here."))
    assert hooked(server, {"before_llm": seen.append}).stream("Go.").text == "Here."
    assert len(seen) == 1


def test_a_run_that_a_hook_cancels_sends_nothing(hooked, serve) -> None:
    server, cancel = serve(says("Never.")), Cancel()
    client = hooked(server, {"before_llm": lambda given: cancel.cancel()})
    with soon(), pytest.raises(RunCancelledError):
        client.stream("Go.", cancel=cancel)
    assert server.requests == []


# -- after_llm


def test_after_llm_sees_each_response_with_its_own_usage_before_its_tools_run(hooked, serve, kit, ran) -> None:
    seen: list[tuple[AfterLLM, int]] = []
    server = serve(
        reply(tool_call("c1", "add", ['{"a": 1, "b": 2}']), finish("tool_calls"), usage(3, 2, 5), done()),
        says("3."),
    )
    client = hooked(server, {"after_llm": lambda given: seen.append((given, len(ran)))})
    result = client.stream("Go.", kit)
    (first, ran_before), (second, ran_then) = seen
    assert (ran_before, ran_then) == (0, 1)
    assert [(given.turn, given.model) for given in (first, second)] == [(1, "test-model"), (2, "test-model")]
    assert [call.name for call in first.response.tool_calls] == ["add"]
    assert first.usage is not None
    assert (first.usage.total_tokens, second.usage) == (5, None)
    assert second.response == result.messages[-1]


def test_after_llm_is_told_the_model_that_was_asked(hooked, serve) -> None:
    seen: list[str] = []
    server = serve(says("Hi."))
    hooks = {
        "before_llm": lambda given: dataclasses.replace(given, model="other"),
        "after_llm": lambda given: seen.append(given.model),
    }
    hooked(server, hooks).stream("Go.")
    assert (server.requests[0].json["model"], seen) == ("other", ["other"])


def test_what_after_llm_raises_is_logged_and_the_others_and_the_run_go_on(hooked, serve, caplog) -> None:
    seen: list[AfterLLM] = []
    client = hooked(serve(says("Hi.")), {"after_llm": raises(Mishap("no"))}, {"after_llm": seen.append})
    assert client.stream("Go.").text == "Hi."
    assert len(seen) == 1
    (record,) = [record for record in caplog.records if record.name == "toolnexus"]
    assert "after_llm" in record.message
    assert record.exc_info is not None
    assert record.exc_info[0] is Mishap


def test_after_llm_is_not_told_of_a_response_that_broke_off(hooked, serve) -> None:
    seen: list[AfterLLM] = []
    client = hooked(serve(reply(text("Hal"), end="close")), {"after_llm": seen.append})
    with pytest.raises(StreamInterruptedError):
        client.stream("Go.")
    assert seen == []


# -- before_tool


def test_before_tool_sees_the_call_and_may_let_it_run(hooked, serve, kit, ran) -> None:
    seen: list[BeforeTool] = []
    hooked(serve(ADDS, says("3.")), {"before_tool": seen.append}).stream("Go.", kit)
    assert seen == [BeforeTool("add", {"a": 1, "b": 2}, "c1", 1)]
    assert ran == [(1, 2)]


def test_new_arguments_are_what_the_tool_gets_and_the_transcript_keeps_those_of_the_model(
    hooked, serve, kit, ran
) -> None:
    seen: list[dict[str, Any]] = []
    client = hooked(
        serve(ADDS, says("7.")),
        {"before_tool": lambda given: {**given.args, "b": 6}},
        {"before_tool": lambda given: seen.append(given.args)},
    )
    assert told(client, "Go.", kit) == [
        ("assistant", ("c1", "add", {"a": 1, "b": 2}, "finished")),
        ("tool", ("c1", "7", False)),
        ("assistant", "7."),
    ]
    assert (ran, seen) == ([(1, 6)], [{"a": 1, "b": 6}])


def test_new_arguments_are_validated_again(hooked, serve, kit, ran) -> None:
    server = serve(ADDS, says("Oh."))
    result = hooked(server, {"before_tool": lambda given: {"a": "many"}}).stream("Go.", kit)
    (record,) = result.tool_calls
    assert record.is_error
    assert "a" in record.output
    assert "b" in record.output
    assert ran == []


def test_arguments_that_do_not_fit_may_be_mended_by_a_hook(hooked, serve, kit, ran) -> None:
    server = serve(calls(("c1", "add", '{"a": 1}')), says("3."))
    hooked(server, {"before_tool": lambda given: {**given.args, "b": 2}}).stream("Go.", kit)
    assert ran == [(1, 2)]


def test_a_result_stands_in_for_the_tool_and_later_hooks_are_not_asked(hooked, serve, kit, ran) -> None:
    later: list[BeforeTool] = []
    client = hooked(
        serve(ADDS, says("Oh.")),
        {"before_tool": lambda given: ToolResult("not today", is_error=True, metadata={"why": 1})},
        {"before_tool": later.append},
    )
    result = client.stream("Go.", kit)
    assert transcript(result.messages[1:]) == [
        ("assistant", ("c1", "add", {"a": 1, "b": 2}, "finished")),
        ("tool", ("c1", "not today", True)),
        ("assistant", "Oh."),
    ]
    assert result.tool_calls[0].metadata == {"why": 1}
    assert (ran, later) == ([], [])
    assert result.summaries[0].tool_call_count == 1  # vetoed, and counted


def test_one_call_of_a_turn_is_stood_in_for_and_the_others_run(hooked, serve, kit, ran) -> None:
    server = serve(calls(("c1", "add", '{"a": 1, "b": 2}'), ("c2", "add", '{"a": 3, "b": 4}')), says("7."))
    client = hooked(server, {"before_tool": lambda given: ToolResult("no") if given.id == "c1" else None})
    assert told(client, "Go.", kit)[1:3] == [("tool", ("c1", "no", False)), ("tool", ("c2", "7", False))]
    assert ran == [(3, 4)]


def test_a_question_of_a_hook_ends_the_run_pending_where_nobody_can_answer(hooked, serve, kit, ran) -> None:
    client = hooked(serve(ADDS), {"before_tool": lambda given: pending("Add, really?", kind="policy", data={"n": 1})})
    result = client.stream("Go.", kit)
    assert result.status == "pending"
    (request,) = result.requests
    assert (request.prompt, request.kind, request.data) == ("Add, really?", "policy", {"n": 1})
    assert request.call is not None
    assert (request.call.id, request.call.name, request.call.args) == ("c1", "add", {"a": 1, "b": 2})
    assert ran == []


def test_a_question_of_a_hook_that_is_answered_lets_the_tool_run_without_the_answer(hooked, serve, kit, ran) -> None:
    asked: list[str] = []

    def wait_for(request: Any) -> Answer:
        asked.append(request.prompt)
        return Answer(request.id, data="for the hook")

    server = serve(calls(("c1", "sign", "{}")), says("Signed."))
    client = hooked(server, {"before_tool": lambda given: pending("May it?")}, wait_for=wait_for)
    client.stream("Go.", kit)
    assert asked == ["May it?", "Sign?"]
    assert [answer and answer.data for answer in ran] == [None, "for the hook"]  # the second answers its own question


def test_a_question_of_a_hook_that_is_declined_never_lets_the_tool_run(hooked, serve, kit, ran) -> None:
    client = hooked(
        serve(ADDS, says("Oh.")),
        {"before_tool": lambda given: pending("Add, really?")},
        wait_for=lambda request: Answer(request.id, ok=False, reason="no"),
    )
    assert told(client, "Go.", kit)[1] == ("tool", ("c1", "The call did not go on: declined: no.", True))
    assert ran == []


def test_each_hook_that_asks_is_answered_for_itself(hooked, serve, kit, ran) -> None:
    asked: list[str] = []

    def wait_for(request: Any) -> Answer:
        asked.append(request.prompt)
        return Answer(request.id, ok=request.prompt == "First?")

    client = hooked(
        serve(ADDS, says("Oh.")),
        {"before_tool": lambda given: pending("First?")},
        {"before_tool": lambda given: pending("Second?")},
        wait_for=wait_for,
    )
    client.stream("Go.", kit)
    assert asked == ["First?", "Second?"]
    assert ran == []


def test_a_tool_that_wants_approval_asks_for_it_behind_the_question_of_a_hook(hooked, serve, kit, ran) -> None:
    asked: list[tuple[str, Any]] = []

    def wait_for(request: Any) -> Answer:
        asked.append((request.prompt, request.data))
        return Answer(request.id)

    def hook(given: BeforeTool) -> Any:
        return {"site": "Kourou"} if given.args["site"] == "here" else None

    server = serve(calls(("c1", "launch", '{"site": "here"}')), says("Up."))
    client = hooked(server, {"before_tool": hook}, {"before_tool": lambda given: pending("Now?")}, wait_for=wait_for)
    client.stream("Go.", kit)
    assert asked == [
        ("Now?", None),
        ("Allow launch to run?", {"name": "launch", "args": {"site": "Kourou"}}),
    ]
    assert ran == ["Kourou"]


def test_what_before_tool_raises_ends_the_run_and_no_tool_of_the_turn_runs(hooked, serve, kit, ran) -> None:
    error, store = Mishap("no"), MemoryStore()

    def hook(given: BeforeTool) -> None:
        if given.id == "c2":
            raise error

    server = serve(calls(("c1", "add", '{"a": 1, "b": 2}'), ("c2", "add", '{"a": 3, "b": 4}')))
    with pytest.raises(Mishap) as caught:
        hooked(server, {"before_tool": hook}, store=store).stream("Go.", kit, id="c")
    assert caught.value is error
    assert ran == []
    assert [message.role for message in store.get("c") or []] == ["user", "assistant", "tool", "tool"]


def test_nonsense_from_before_tool_is_a_configuration_error_and_the_tool_never_runs(hooked, serve, kit, ran) -> None:
    client = hooked(serve(ADDS), {"before_tool": lambda given: "yes"})
    with pytest.raises(ConfigurationError, match=r"hooks\.before_tool: expected .* got str"):
        client.stream("Go.", kit)
    assert ran == []


def test_no_tool_starts_after_a_hook_cancelled_the_run(hooked, serve, kit, ran) -> None:
    cancel = Cancel()
    client = hooked(serve(ADDS), {"before_tool": lambda given: cancel.cancel()})
    with soon(), pytest.raises(RunCancelledError):
        client.stream("Go.", kit, cancel=cancel)
    assert ran == []


def test_calls_that_must_not_run_are_not_shown_to_before_tool(hooked, serve, kit) -> None:
    seen: list[BeforeTool] = []
    server = serve(calls(("c1", "add", "{"), ("c2", "unknown", "{}")), says("Oh."))
    hooked(server, {"before_tool": seen.append}).stream("Go.", kit)
    assert seen == []


# -- after_tool


def test_after_tool_redacts_what_the_model_and_everybody_else_sees(hooked, serve, kit) -> None:
    seen: list[AfterTool] = []

    def hook(given: AfterTool) -> ToolResult:
        seen.append(given)
        return dataclasses.replace(given.result, output="[hidden]")

    server = serve(ADDS, says("Oh."))
    events: list[Any] = []
    result = hooked(server, {"after_tool": hook}).stream("Go.", kit, events.append)
    (given,) = seen
    assert (given.name, given.args, given.id, given.turn) == ("add", {"a": 1, "b": 2}, "c1", 1)
    assert (given.result.output, given.result.is_error) == ("3", False)
    assert server.requests[1].json["messages"][-1]["content"] == "[hidden]"
    assert [event.output for event in events if event.type == "tool_result"] == ["[hidden]"]
    assert result.tool_calls[0].output == "[hidden]"


def test_several_hooks_after_a_tool_see_what_the_one_before_made_and_none_changes_nothing(hooked, serve, kit) -> None:
    def adds(word: str) -> dict[str, Callable[[AfterTool], ToolResult]]:
        return {"after_tool": lambda given: ToolResult(f"{given.result.output} {word}")}

    client = hooked(serve(ADDS, says("Oh.")), adds("one"), {"after_tool": lambda given: None}, adds("two"))
    assert told(client, "Go.", kit)[1] == ("tool", ("c1", "3 one two", False))


def test_after_tool_sees_the_arguments_that_were_used_also_of_a_stand_in(hooked, serve, kit) -> None:
    seen: list[tuple[dict[str, Any], Any]] = []
    client = hooked(
        serve(ADDS, says("Oh.")),
        {"before_tool": lambda given: {"a": 5, "b": 5}},
        {
            "before_tool": lambda given: ToolResult("ten"),
            "after_tool": lambda given: seen.append((given.args, given.result.output)),
        },
    )
    client.stream("Go.", kit)
    assert seen == [({"a": 5, "b": 5}, "ten")]


def test_after_tool_is_not_called_for_a_suspension(hooked, serve, kit) -> None:
    seen: list[Any] = []
    client = hooked(
        serve(calls(("c1", "sign", "{}")), says("Signed.")),
        {"after_tool": lambda given: seen.append(given.result.output)},
        wait_for=lambda request: Answer(request.id),
    )
    client.stream("Go.", kit)
    assert seen == ["signed"]


def test_what_after_tool_raises_ends_the_run(hooked, serve, kit, ran) -> None:
    error, server = Mishap("no"), serve(ADDS)
    with pytest.raises(Mishap) as caught:
        hooked(server, {"after_tool": raises(error)}).stream("Go.", kit)
    assert caught.value is error
    assert ran == [(1, 2)]
    assert len(server.requests) == 1


def test_nonsense_from_after_tool_is_a_configuration_error(hooked, serve, kit) -> None:
    client = hooked(serve(ADDS), {"after_tool": lambda given: "[hidden]"})
    with pytest.raises(ConfigurationError, match=r"hooks\.after_tool: expected .* got str"):
        client.stream("Go.", kit)


# -- observers


def test_everything_comes_in_order(hooked, serve) -> None:
    log: list[Any] = []

    @tool
    def look() -> str:
        """Look."""
        log.append("the tool")
        return "rain"

    def name(chunk: Chunk) -> str:
        return f"{chunk.type} of round {chunk.round}"

    server = serve(
        reply(text("I look."), tool_call("c1", "look"), finish("tool_calls"), usage(3, 2, 5), done()), says("Rain.")
    )
    client = hooked(
        server,
        {
            "before_llm": lambda given: log.append("before_llm"),
            "after_llm": lambda given: log.append("after_llm"),
            "before_tool": lambda given: log.append("before_tool"),
            "after_tool": lambda given: log.append("after_tool"),
            "on_chunk": lambda chunk: log.append(name(chunk)),
            "on_message": lambda message: log.append(message.role),
        },
    )
    client.stream("Go.", Toolkit(look))
    assert log == [
        "user",
        "before_llm",
        "content of round 1",
        "tool_call_delta of round 1",
        "usage of round 1",
        "finish of round 1",
        "assistant",
        "after_llm",
        "before_tool",
        "the tool",
        "after_tool",
        "tool",
        "before_llm",
        "content of round 2",
        "finish of round 2",
        "assistant",
        "after_llm",
    ]


def test_on_chunk_sees_the_raw_stream_before_anybody_sees_its_events(hooked, serve) -> None:
    chunks: list[Chunk] = []
    known: list[int] = []
    server = serve(reply(text("Hel", "lo!"), finish(), usage(3, 2, 5), done()))
    client = hooked(server, {"on_chunk": chunks.append})
    client.stream("Go.", on_event=lambda event: known.append(len(chunks)))
    assert [(c.type, c.seq, c.batch, c.round) for c in chunks] == [
        ("content", 0, 1, 1),
        ("content", 1, 1, 1),
        ("usage", 2, 1, 1),
        ("finish", 3, 1, 1),
    ]
    assert all(count >= position + 1 for position, count in enumerate(known[:2]))
    assert all(earlier.timestamp <= later.timestamp for earlier, later in itertools.pairwise(chunks))
    assert chunks[0].timestamp > 1.6e9
    assert isinstance(chunks[2], UsageChunk)
    assert isinstance(chunks[3], FinishChunk)
    assert (chunks[3].finish_reason, chunks[3].artificial) == ("stop", False)


def test_numbers_of_chunks_start_anew_with_each_run(hooked, serve) -> None:
    chunks: list[Chunk] = []
    client = hooked(serve(says("One."), says("Two.")), {"on_chunk": chunks.append})
    client.stream("Go.")
    client.stream("Go on.")
    assert [(c.seq, c.batch, c.round) for c in chunks] == [(0, 1, 1), (1, 1, 1)] * 2


def test_a_run_that_is_not_streamed_tells_its_messages_and_no_chunks(hooked, serve) -> None:
    chunks: list[Chunk] = []
    messages: list[Message] = []
    answer = {"choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}]}
    client = hooked(serve(whole(answer)), {"on_chunk": chunks.append, "on_message": messages.append})
    result = client.run("Go.")
    assert (chunks, messages) == ([], result.messages)
    (summary,) = result.summaries
    assert (summary.content, summary.finish_reason) == ("Hi.", "stop")
    assert summary.timestamp > 1.6e9


def test_on_message_sees_each_message_as_it_joins_the_prompt_first(hooked, serve, kit) -> None:
    messages: list[Message] = []
    client = hooked(serve(ADDS, says("3.")), {"on_message": messages.append})
    result = client.stream("Go.", kit)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert [messages[0], *messages[2:]] == [result.messages[0], *result.messages[2:]]
    assert [call.state for call in messages[1].tool_calls] == ["open"]  # it had not run when it joined


def test_messages_of_an_earlier_run_are_not_told_again(hooked, serve) -> None:
    messages: list[Message] = []
    client = hooked(serve(says("One."), says("Two.")), {"on_message": messages.append})
    client.stream("Go.", id="c")
    client.stream("Go on.", id="c")
    assert [message.text for message in messages] == ["Go.", "One.", "Go on.", "Two."]


@pytest.mark.case("api-retry-hook-and-observability")
def test_on_retry_is_told_of_each_retry_and_its_wait(hooked, serve) -> None:
    seen: list[RetryInfo] = []
    server = serve(failure(503, "busy"), failure(429, "slow down", retry_after="0.002"), says("Here."))
    client = hooked(server, {"on_retry": seen.append}, retries=3)
    assert client.stream("Go.").text == "Here."
    assert [(info.attempt, type(info.error), info.turn) for info in seen] == [
        (1, InternalServerError, 1),
        (2, RateLimitError, 1),
    ]
    assert 0 < seen[0].wait <= 0.001
    assert seen[1].wait == 0.002


def test_on_retry_is_not_told_of_what_is_not_tried_again(hooked, serve) -> None:
    seen: list[RetryInfo] = []
    client = hooked(serve(failure(503), failure(503)), {"on_retry": seen.append}, retries=1)
    with pytest.raises(InternalServerError):
        client.stream("Go.")
    assert [info.attempt for info in seen] == [1]


def test_on_retry_never_sees_a_key_that_the_provider_echoes(hooked, serve) -> None:
    seen: list[RetryInfo] = []
    client = hooked(serve(failure(503, f"busy, {KEY}"), says("Here.")), {"on_retry": seen.append}, api_key=KEY)
    client.stream("Go.")
    (info,) = seen
    assert isinstance(info.error, InternalServerError)
    assert KEY not in f"{info!r} {info.error} {info.error.body!r} {info.error.args!r}"


def test_a_response_that_is_tried_again_tells_only_what_was_shown(hooked, serve) -> None:
    chunks: list[Chunk] = []
    broken = reply(sse({"error": {"message": "busy", "type": "overloaded_error"}}))
    client = hooked(serve(failure(503), broken, says("Here.")), {"on_chunk": chunks.append})
    client.stream("Go.")
    assert [(c.type, c.seq, c.round) for c in chunks] == [("content", 0, 1), ("finish", 1, 1)]


@pytest.mark.parametrize("name", ["on_chunk", "on_message", "on_retry"])
def test_what_an_observer_raises_is_logged_and_the_others_and_the_run_go_on(hooked, serve, caplog, name) -> None:
    seen: list[Any] = []
    client = hooked(serve(failure(503), says("Hi.")), {name: raises(Mishap("no"))}, {name: seen.append})
    assert client.stream("Go.").text == "Hi."
    assert seen
    records = [record for record in caplog.records if record.exc_info and record.exc_info[0] is Mishap]
    assert len(records) == len(seen)
    assert {record.name for record in records} == {"toolnexus"}


# -- aborts


def gated(*writes: Any) -> tuple[Response, Gate]:
    gate = Gate()
    return reply(*writes, gate, text("never")), gate


@pytest.mark.parametrize("where", ["text", "arguments"])
def test_an_abort_in_mid_stream_is_one_finish_and_one_summary_and_no_answer(hooked, serve, kit, ran, where) -> None:
    cancel = Cancel()
    chunks: list[Any] = []
    messages: list[Message] = []

    def watch(chunk: Chunk) -> None:
        chunks.append((chunk.type, getattr(chunk, "finish_reason", None)))
        cancel.cancel()

    begun = text("Hal") if where == "text" else tool_call("c1", "add", ['{"a": 1'])
    response, _ = gated(begun)
    client = hooked(serve(response), {"on_chunk": watch, "on_message": messages.append})
    with soon(), pytest.raises(RunCancelledError) as caught:
        client.stream("Go.", kit, cancel=cancel)
    assert chunks == [("content" if where == "text" else "tool_call_delta", None), ("finish", "aborted")]
    result = caught.value.result
    assert result is not None
    (summary,) = result.summaries
    said = ("Hal", 0) if where == "text" else ("", 1)
    assert (summary.content, summary.tool_call_count, summary.finish_reason) == (*said, "aborted")
    assert result.finish_reason == "aborted"
    assert [message.role for message in messages] == [message.role for message in result.messages] == ["user"]
    assert ran == []


def test_an_abort_before_the_first_byte_is_one_finish_and_one_summary(hooked, serve) -> None:
    cancel = Cancel()
    chunks: list[Chunk] = []

    def answer(request: Request) -> Response:
        cancel.cancel()
        return Response(before=Gate())

    client = hooked(serve(answer), {"on_chunk": chunks.append})
    with soon(), pytest.raises(RunCancelledError) as caught:
        client.stream("Go.", cancel=cancel)
    (finished,) = chunks
    assert isinstance(finished, FinishChunk)
    assert (finished.finish_reason, finished.artificial, finished.round) == ("aborted", True, 1)
    assert caught.value.result is not None
    assert [summary.finish_reason for summary in caught.value.result.summaries] == ["aborted"]


def test_no_tool_starts_after_an_abort_during_a_tool(hooked, serve) -> None:
    cancel = Cancel()
    chunks: list[Chunk] = []
    ran: list[str] = []

    @tool
    def wait(ctx: ToolContext) -> str:
        """Wait until the run is over."""
        over = threading.Event()
        ctx.cancel.add_callback(over.set)
        cancel.cancel()
        over.wait()
        return "late"

    @tool(parallel=False)
    def alone() -> str:
        """Run alone."""
        ran.append("alone")
        return "ran"

    server = serve(calls(("c1", "wait", "{}"), ("c2", "alone", "{}")))
    client = hooked(server, {"on_chunk": chunks.append})
    with soon(), pytest.raises(RunCancelledError) as caught:
        client.stream("Go.", Toolkit(wait, alone), cancel=cancel)
    assert ran == []
    finishes = [(chunk.finish_reason, chunk.artificial) for chunk in chunks if isinstance(chunk, FinishChunk)]
    assert finishes == [("tool_calls", False), ("aborted", True)]
    assert caught.value.result is not None
    assert [summary.finish_reason for summary in caught.value.result.summaries] == ["tool_calls"]


def test_an_error_after_some_text_is_a_finish_and_a_summary_of_what_was_said(hooked, serve) -> None:
    chunks: list[Chunk] = []
    client = hooked(serve(reply(text("Hal"), end="close")), {"on_chunk": chunks.append})
    with pytest.raises(StreamInterruptedError) as caught:
        client.stream("Go.")
    assert [(c.type, getattr(c, "artificial", None)) for c in chunks] == [("content", None), ("finish", True)]
    assert caught.value.result is not None
    assert [(s.content, s.finish_reason) for s in caught.value.result.summaries] == [("Hal", None)]


# -- async hooks


async def never(given: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("name", ["before_llm", "after_llm", "before_tool", "after_tool"])
def test_an_async_hook_that_never_ends_ends_with_the_deadline(serve, kit, name) -> None:
    server = serve(ADDS)
    client = new_client("async", server, hooks=Hooks(**{name: never}))
    with client, soon(), pytest.raises(DeadlineExceededError):
        client.stream("Go.", kit, deadline=0.2)


@pytest.mark.parametrize("name", ["before_llm", "after_llm", "before_tool", "after_tool"])
def test_an_async_hook_that_never_ends_ends_with_the_cancel(serve, kit, name) -> None:
    cancel = Cancel()

    async def hook(given: Any) -> None:
        cancel.cancel()
        await never(given)

    client = new_client("async", serve(ADDS), hooks=Hooks(**{name: hook}))
    with client, soon(), pytest.raises(RunCancelledError):
        client.stream("Go.", kit, cancel=cancel)


def test_an_async_observer_is_not_waited_for(serve) -> None:
    server = serve(says("Hi."))
    log: list[str] = []

    async def main() -> None:
        go, seen = asyncio.Event(), asyncio.Queue[str]()

        async def watch(message: Message) -> None:
            await go.wait()
            log.append(message.role)
            seen.put_nowait(message.role)

        async with AsyncClient(base_url=server.url, model="m", hooks=Hooks(on_message=watch)) as client:
            async for _ in client.stream("Go."):
                pass
            log.append("the run is over")
            go.set()
            await seen.get()
            await seen.get()

    asyncio.run(main())
    assert log[0] == "the run is over"
    assert sorted(log[1:]) == ["assistant", "user"]


def test_what_an_async_observer_raises_is_logged(serve, caplog) -> None:
    server = serve(says("Hi."))

    async def main() -> None:
        raised = asyncio.Event()

        async def watch(message: Message) -> None:
            await asyncio.sleep(0)
            if message.role == "assistant":
                raised.set()
            raise Mishap("no")

        async with AsyncClient(base_url=server.url, model="m", hooks=Hooks(on_message=watch)) as client:
            await client.run("Go.")
            await raised.wait()

    asyncio.run(main())
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [Mishap, Mishap]


# -- construction


class Promise:
    def __await__(self) -> Any:
        raise AssertionError("never awaited")


class Watcher:
    async def __call__(self, given: Any) -> None:
        raise AssertionError("never called")

    async def method(self, given: Any) -> None:
        raise AssertionError("never called")


ASYNC_HOOKS: dict[str, Any] = {
    "function": never,
    "partial": functools.partial(never),
    "method": Watcher().method,
    "object": Watcher(),
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Hooks)])
@pytest.mark.parametrize("hook", ASYNC_HOOKS.values(), ids=ASYNC_HOOKS)
def test_an_async_hook_given_to_a_sync_client_is_a_configuration_error(name: str, hook: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"hooks\.{name}: SyncClient cannot await .* use AsyncClient"):
        SyncClient(base_url="http://127.0.0.1:1", model="m", hooks=Hooks(**{name: hook}))
    AsyncClient(base_url="http://127.0.0.1:1", model="m", hooks=Hooks(**{name: hook}))


@pytest.mark.parametrize("name", ["before_llm", "before_tool", "after_tool"])
def test_a_hook_that_is_async_without_saying_so_ends_the_run_of_a_sync_client(serve, kit, ran, name) -> None:
    client = new_client("sync", serve(ADDS), hooks=Hooks(**{name: lambda given: never(given)}))
    with client, pytest.raises(ConfigurationError, match="SyncClient cannot await"):
        client.stream("Go.", kit)
    assert ran == ([(1, 2)] if name == "after_tool" else [])


def test_anything_else_to_be_awaited_ends_the_run_of_a_sync_client_too(serve) -> None:
    client = new_client("sync", serve(says("Never.")), hooks=Hooks(before_llm=lambda given: Promise()))
    with client, pytest.raises(ConfigurationError, match="SyncClient cannot await"):
        client.stream("Go.")


def test_a_hook_that_watches_and_is_async_without_saying_so_is_logged_by_a_sync_client(serve, caplog) -> None:
    with new_client("sync", serve(says("Hi.")), hooks=Hooks(after_llm=lambda given: never(given))) as client:
        assert client.stream("Go.").text == "Hi."
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ConfigurationError]


@pytest.mark.parametrize(
    "hooks",
    [5, "words", {"before_llm": print}, print, Hooks, [print], [Hooks(), None], Hooks(on_chunk=3)],  # type: ignore[arg-type]  # a wrong type is the point
    ids=["a number", "text", "a dict", "a function", "the class", "a list of functions", "a None", "no function"],
)
@pytest.mark.parametrize("client", [SyncClient, AsyncClient])
def test_what_is_no_hooks_is_a_configuration_error(client: Any, hooks: Any) -> None:
    with pytest.raises(ConfigurationError, match="hooks"):
        client(base_url="http://127.0.0.1:1", model="m", hooks=hooks)


@pytest.mark.parametrize("hooks", [None, [], (), Hooks(), [Hooks(), Hooks()]])
def test_no_hooks_are_fine(connect, serve, hooks: Any) -> None:
    client = connect(serve(says("Hi.")), hooks=hooks)
    assert transcript(client.stream("Go.").messages) == [("user", "Go."), ("assistant", "Hi.")]


def test_a_hook_that_edits_the_arguments_in_place_changes_nothing(connect, serve):
    seen = []

    @tool
    def double(x: int) -> str:
        """Double."""
        seen.append(x)
        return str(2 * x)

    def meddle(given):
        given.args["x"] = 99999

    server = serve(calls(("c1", "double", '{"x": 12}')), says("Done."))
    result = connect(server, hooks=Hooks(before_tool=meddle, after_tool=meddle)).run("Go.", Toolkit(double))
    assert (seen, result.tool_calls[0].args) == ([12], {"x": 12})
