from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolnexus.errors import ConfigurationError
from toolnexus.suspension import Pending, pending
from toolnexus.tool import Tool, ToolContext, ToolResult
from toolnexus.tools import Toolkit, define_tool, tool

Execute = Callable[..., Any]


def sync_execute(kit: Toolkit, *args: Any) -> Any:
    return kit.execute(*args)


def sync_execute_in_a_loop(kit: Toolkit, *args: Any) -> Any:
    async def main() -> Any:
        return kit.execute(*args)

    return asyncio.run(main())


def async_execute(kit: Toolkit, *args: Any) -> Any:
    return asyncio.run(kit.aexecute(*args))


every_way = pytest.mark.parametrize("execute", [sync_execute, sync_execute_in_a_loop, async_execute])


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


async def later(n: int, ctx: ToolContext) -> str:
    await asyncio.sleep(0)
    return f"{ctx.name} {n}"


def wrapped(n: int) -> Awaitable[str]:
    return later(n, ToolContext(name="wrapped"))


def fail(kind: str) -> None:
    raise {"stop": StopIteration, "exit": SystemExit, "key": KeyError, "interrupt": KeyboardInterrupt}[kind]("boom")


async def afail(kind: str) -> None:
    fail(kind)


def test_functions_tools_and_toolkits_are_collected_in_order() -> None:
    kit = Toolkit(later, Toolkit(add, wrapped))
    assert [tool.name for tool in kit.tools()] == ["later", "add", "wrapped"]
    assert kit.get("add") is add
    assert kit.get("nothing") is None
    assert repr(kit) == "<Toolkit later, add, wrapped>"
    assert repr(Toolkit()) == "<Toolkit (empty)>"


@pytest.mark.case("schema-bad-tool-names")
def test_a_name_stands_for_one_tool() -> None:
    class Add:
        def __call__(self) -> None: ...

    with pytest.raises(ConfigurationError) as caught:
        Toolkit(add, define_tool(functools.partial(Add()), name="add"))
    name = __name__
    assert str(caught.value) == (
        f"two tools are named 'add': {name}.add and {name}.test_a_name_stands_for_one_tool.<locals>.Add; "
        "pass name= to one"
    )
    with pytest.raises(ConfigurationError, match="two tools are named 'add'"):
        Toolkit(Toolkit(add), Toolkit(add))


@pytest.mark.parametrize("item", [5, "add", None, [add], classmethod(lambda cls: 1)])
def test_anything_else_is_refused(item: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a Tool or a function, got .*\(.*\)"):
        Toolkit(item)


def test_tools_are_added_later() -> None:
    kit = Toolkit()
    assert kit.register(add) is add
    assert kit.register(wrapped) is kit.get("wrapped")
    with pytest.raises(ConfigurationError, match="two tools are named 'add'"):
        kit.register(add)


def test_threads_may_register_at_the_same_time() -> None:
    kit = Toolkit()
    barrier = threading.Barrier(8)
    refused: list[str] = []

    def work(number: int) -> None:
        barrier.wait()
        for index in range(50):
            kit.register(define_tool(add.function, name=f"own_{number}_{index}"))
        try:
            kit.register(add)
        except ConfigurationError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kit.tools()) == 401
    assert len(refused) == 7


@every_way
def test_a_tool_is_run(execute: Execute) -> None:
    kit = Toolkit(add, later, wrapped)
    assert execute(kit, "add", {"a": 2}) == ToolResult("3")
    assert execute(kit, "later", {"n": 1}) == ToolResult("later 1")
    assert execute(kit, "later", {"n": 1}, ToolContext(name="mine")) == ToolResult("mine 1")
    assert execute(kit, "wrapped", {"n": 1}) == ToolResult("wrapped 1")


@every_way
def test_a_suspension_is_returned(execute: Execute) -> None:
    kit = Toolkit(define_tool(lambda: pending("Sure?"), name="t"))
    assert execute(kit, "t", {}) == Pending("Sure?")


@every_way
def test_what_goes_wrong_is_an_error_result(execute: Execute, caplog: pytest.LogCaptureFixture) -> None:
    kit = Toolkit(add, fail, afail)
    assert execute(kit, "sub", {}) == ToolResult("no tool is named 'sub'; there are: add, fail, afail", True)
    assert execute(Toolkit(), "sub", {}) == ToolResult("no tool is named 'sub'; there are: none", True)
    assert execute(kit, "add", {}) == ToolResult("the arguments do not fit:\na: required, but missing", True)
    assert caplog.records == []
    assert execute(kit, "fail", {"kind": "key"}) == ToolResult("fail failed: KeyError: 'boom'", True)
    assert execute(kit, "afail", {"kind": "key"}) == ToolResult("afail failed: KeyError: 'boom'", True)
    assert execute(kit, "fail", {"kind": "stop"}) == ToolResult("fail failed: StopIteration: boom", True)
    assert [(record.levelno, bool(record.exc_info)) for record in caplog.records] == [(logging.WARNING, True)] * 3


@every_way
def test_a_source_that_fails_to_bind_is_an_error_result(execute: Execute) -> None:
    def bind(args: dict[str, Any], ctx: ToolContext) -> Callable[[], Any]:
        raise OSError("gone")

    foreign = Tool(name="t", description="", input_schema={}, function=lambda: None, bind=bind)
    assert execute(Toolkit(foreign), "t", {}) == ToolResult("t failed: OSError: gone", True)


@pytest.mark.case("api-tool-raises-baseexception")
@every_way
@pytest.mark.parametrize("name", ["fail", "afail"])
def test_exit_and_interrupt_pass(execute: Execute, name: str) -> None:
    kit = Toolkit(fail, afail)
    with pytest.raises(SystemExit):
        execute(kit, name, {"kind": "exit"})
    with pytest.raises(KeyboardInterrupt):
        execute(kit, name, {"kind": "interrupt"})


VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


@pytest.mark.case("api-contextvars-in-sync-tools")
@every_way
def test_context_variables_reach_the_tool(execute: Execute) -> None:
    async def aread() -> int:
        return VARIABLE.get()

    kit = Toolkit(define_tool(lambda: VARIABLE.get(), name="read"), aread)
    token = VARIABLE.set(7)
    assert execute(kit, "read", {}) == execute(kit, "aread", {}) == ToolResult("7")
    VARIABLE.reset(token)


def test_a_sync_tool_does_not_block_the_loop() -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        seen = threading.Event()

        def wait() -> bool:
            loop.call_soon_threadsafe(seen.set)  # done only if the loop runs beside the tool
            return seen.wait(10)

        return await Toolkit(wait).aexecute("wait", {})

    assert asyncio.run(main()) == ToolResult("true")


def test_a_cancelled_call_leaves_its_thread_alone() -> None:
    release, ended = threading.Event(), threading.Event()

    async def main() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hang() -> None:
            loop.call_soon_threadsafe(started.set)
            release.wait(10)
            ended.set()

        task = asyncio.create_task(Toolkit(hang).aexecute("hang", {}))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    release.set()  # after the loop is closed: the late result is dropped without a word
    assert ended.wait(10)


@every_way
def test_an_awaitable_of_another_kind_is_awaited(execute: Execute) -> None:
    class Soon:
        def __await__(self) -> Any:
            return asyncio.sleep(0, "soon").__await__()

    def soon() -> Soon:
        return Soon()

    assert execute(Toolkit(soon), "soon", {}) == ToolResult("soon")


def test_definitions_in_both_styles_are_copies() -> None:
    kit = Toolkit(add)
    schema = dict(add.input_schema)
    openai, anthropic = kit.to_openai(), kit.to_anthropic()
    assert openai == [{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": schema}}]
    assert anthropic == [{"name": "add", "description": "Add.", "input_schema": schema}]
    openai[0]["function"]["parameters"]["properties"].clear()
    anthropic[0]["input_schema"]["properties"].clear()
    assert list(add.input_schema["properties"]) == ["a", "b"]


def test_without_skills_the_system_prompt_is_left_alone() -> None:
    assert Toolkit(add).skills_prompt() == ""


def test_closing_may_be_repeated() -> None:
    async def main(kit: Toolkit) -> None:
        async with kit as same:
            assert same is kit
        await kit.aclose()

    with Toolkit(add) as kit:
        assert isinstance(kit, Toolkit)
    kit.close()
    asyncio.run(main(kit))
