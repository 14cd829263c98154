from __future__ import annotations

from typing import Self

import pytest

from toolnexus import __main__ as module
from toolnexus.__main__ import main
from toolnexus.demo.engine import EngineMissing
from toolnexus.demo.scripted import Call, Reply, ScriptedRequest, ScriptedServer
from toolnexus.demo.weather import EXAMPLES, FIGURES

CALL = Reply(calls=(Call("get_weather", {"city": "Chennai", "unit": "celsius"}),))


def quote(request: ScriptedRequest) -> Reply:
    return Reply(request.tool_results[-1])


class MissingEngine:
    def __enter__(self) -> Self:
        raise EngineMissing("install this")

    def __exit__(self, *args: object) -> None: ...


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is installed here; and the demo's own change of the environment is taken back."""
    monkeypatch.setattr(module, "LocalEngine", MissingEngine)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch):
    """Put a scripted engine in the place of the local one."""

    def start(*script: Reply | object) -> ScriptedServer:
        server = ScriptedServer(script)  # type: ignore[arg-type]  # steps, as the tests know
        server.model = "small"  # type: ignore[attr-defined]  # what the engine has and a server has not
        monkeypatch.setattr(module, "LocalEngine", lambda: server)
        return server

    return start


def test_the_local_model_is_asked_with_examples_and_must_quote_the_tool(engine, capsys: pytest.CaptureFixture[str]):
    server = engine(CALL, quote)
    assert main(["demo"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    labels = [label for label, _ in lines if label != "usage"]
    assert labels == ["demo", "you", "call", "result", "model", "done"]
    body = server.requests[0].body
    assert body["temperature"] == 0
    assert len(body["messages"]) == len(EXAMPLES) + 1


def test_an_answer_that_is_not_grounded_is_a_failure(engine, capsys: pytest.CaptureFixture[str]):
    engine(CALL, Reply("It is nice."))
    assert main(["demo"]) == 1
    assert "the answer does not" in capsys.readouterr().out


def test_a_prompt_of_ones_own_is_answered_as_it_may(engine):
    engine(Reply("Hello!"))
    assert main(["demo", "--prompt", "Hi."]) == 0


def test_without_the_model_a_script_is_played_and_says_so(capsys: pytest.CaptureFixture[str]):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split(maxsplit=1) == ["demo", "install this"]
    assert "SCRIPTED" in out
    assert any(f"It is {figure} degrees celsius in Chennai." in out for figure in FIGURES)


def test_without_the_model_a_script_does_not_do_where_a_real_one_is_required(capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--require-real"]) == 1
    assert "SCRIPTED" not in capsys.readouterr().out


def test_a_named_endpoint_gets_the_question_alone(capsys: pytest.CaptureFixture[str]):
    with ScriptedServer([CALL, quote]) as server:
        assert main(["demo", "--base-url", server.base_url, "--model", "big", "--prompt", "Warm?"]) == 0
    body = server.requests[0].body
    assert body["model"] == "big"
    assert [message["content"] for message in body["messages"]] == ["Warm?"]
    assert "temperature" not in body


def test_a_run_that_fails_is_told_in_a_line(capsys: pytest.CaptureFixture[str]):
    with ScriptedServer([]) as server:
        assert main(["demo", "--base-url", server.base_url, "--model", "m"]) == 1
    assert "BadRequestError" in capsys.readouterr().out.splitlines()[-1]


def test_a_run_without_an_end_is_a_failure():
    with ScriptedServer([CALL] * 10) as server:
        assert main(["demo", "--base-url", server.base_url, "--model", "m"]) == 1


def test_an_interrupt_ends_it_quietly(monkeypatch: pytest.MonkeyPatch):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "LocalEngine", interrupted)
    assert main(["demo"]) == 130


@pytest.mark.parametrize("arguments", [[], ["demo", "--model", "m"], ["demo", "--base-url", "http://127.0.0.1:9"]])
def test_a_wrong_command_line_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err
