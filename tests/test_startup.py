"""What a fresh process imports, and when: most of the time until its first event goes by with that."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import typing

import pytest

import toolnexus
from tests.server import calls, says

SHOW = """
import sys
def show(*names):
    print(*[name for name in names if name in sys.modules])
"""


def run_fresh(code: str, *arguments: str) -> list[str]:
    """The lines that `code` prints in a process of its own."""
    command = [sys.executable, "-W", "error", "-c", SHOW + textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_importing_the_package_imports_neither_an_http_stack_nor_pydantic():
    names = "'httpx', 'httpcore', 'h11', 'asyncio', 'ssl', 'tenacity', 'pydantic', 'toolnexus.run_result'"
    assert run_fresh(f"import toolnexus; show({names})") == [""]


def test_a_sync_run_imports_what_few_need_when_it_is_needed(serve):
    server = serve(says("Hel", "lo"), says("Hi."))
    code = """
        import toolnexus
        with toolnexus.SyncClient(base_url=sys.argv[1], model="m") as client:
            with client.iter_events("Hi?") as events:
                print(next(events).delta)
            show("pydantic", "asyncio", "importlib.metadata", "httpcore", "h11")
            client.stream("Hi?")
            show("pydantic", "asyncio", "httpcore", "h11")
    """
    assert run_fresh(code, server.url) == ["Hel", "h11", "pydantic h11"]


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="the system may name a proxy, which httpx finds out")
def test_httpx_is_imported_for_a_proxy_and_for_certificates(serve, monkeypatch):
    code = """
        import toolnexus
        client = toolnexus.SyncClient(base_url=sys.argv[1], model="m", retries=0)
        try:
            print(client.run("Hi?").text)
        except toolnexus.APIConnectionError:
            pass
        show("httpx")
    """
    assert run_fresh(code, serve(says("Hi.")).url) == ["Hi.", ""]
    assert run_fresh(code, "https://127.0.0.1:1") == ["httpx"]
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert run_fresh(code, "http://127.0.0.1:1") == ["httpx"]


def test_a_sync_client_imports_asyncio_when_a_tool_needs_it(serve):
    server = serve(calls(("c1", "plain", "{}")), says("Ok."), calls(("c2", "waiting", "{}")), says("Ok."))
    code = """
        import toolnexus

        @toolnexus.tool
        def plain() -> str:
            return "sync"

        @toolnexus.tool
        async def waiting() -> str:
            return "async"

        with toolnexus.SyncClient(base_url=sys.argv[1], model="m", store=toolnexus.MemoryStore()) as client:
            for tool in plain, waiting:
                print(client.stream("Go.", toolnexus.Toolkit(tool), id="talk").tool_calls[-1].output)
                show("asyncio")
    """
    assert run_fresh(code, server.url) == ["sync", "", "async", "asyncio"]


def test_no_stream_of_an_async_client_waits_for_an_import_that_another_needs(serve):
    code = """
        import asyncio, toolnexus

        async def main():
            async with toolnexus.AsyncClient(base_url=sys.argv[1], model="m") as client:
                async with client.stream("Hi?") as events:
                    await anext(events)
                    before = set(sys.modules)
                    async for event in events:
                        pass
                    print(event.type, *{name.partition(".")[0] for name in set(sys.modules) - before})

        asyncio.run(main())
    """
    assert run_fresh(code, serve(says("Hel", "lo")).url) == ["done"]


def test_the_result_is_to_be_had_before_any_run():
    code = """
        import toolnexus
        assert toolnexus.results.RunResult is toolnexus.RunResult
        assert toolnexus.results.RunResult().usage == toolnexus.results.Usage()
        print(toolnexus.RunResult.__name__)
    """
    assert run_fresh(code) == ["RunResult"]
    with pytest.raises(AttributeError, match="no attribute 'RunResults'"):
        toolnexus.results.RunResults  # noqa: B018  # it is asked for


@pytest.mark.parametrize(
    "function",
    [toolnexus.SyncClient.run, toolnexus.AsyncClient.resume, toolnexus.Conversation.send, toolnexus.DoneEvent],
    ids=lambda function: function.__qualname__,
)
def test_hints_that_name_the_result_can_be_resolved(function: typing.Any):
    assert toolnexus.RunResult in typing.get_type_hints(function).values()


def test_a_transcript_is_saved_without_pydantic():
    code = """
        import toolnexus
        message = toolnexus.Message("user", "Hi?")
        assert toolnexus.messages_from_json(toolnexus.messages_to_json([message])) == [message]
        show("pydantic")
    """
    assert run_fresh(code) == [""]
