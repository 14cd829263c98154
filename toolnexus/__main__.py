"""`python -m toolnexus`: the demo."""

from __future__ import annotations

import argparse
import io
import os
import random
import sys
from collections.abc import Sequence

from toolnexus import SyncClient, Toolkit, ToolnexusError

from .demo.engine import EngineMissing, LocalEngine
from .demo.scripted import Call, Reply, ScriptedRequest, ScriptedServer
from .demo.show import Show
from .demo.weather import CITIES, EXAMPLES, FIGURES, question, weather_tool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status, 0 if the run was a good one."""
    parser = argparse.ArgumentParser(prog="python -m toolnexus", description="Stream a language model with tools.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="ask a model about the weather, and see the run live",
        description="Ask a model about the weather, with a tool, and see the run live. By default the model is a small "
        "one that runs in this process.",
    )
    demo.add_argument("--base-url", metavar="URL", help="ask the endpoint at this address instead")
    demo.add_argument("--model", metavar="M", help="the model there")
    demo.add_argument("--style", metavar="S", default="openai", help="the API to speak (default: openai)")
    demo.add_argument("--prompt", metavar="P", default=question(CITIES[0]), help="what to ask (default: %(default)s)")
    demo.add_argument("--require-real", action="store_true", help="fail rather than play a script without the model")
    options = parser.parse_args(arguments)
    if (options.base_url is None) != (options.model is None):
        demo.error("--base-url and --model go together")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a model may write what this terminal cannot
    try:
        return _demo(options, Show(sys.stdout))
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells have it


def _demo(options: argparse.Namespace, show: Show) -> int:
    """Choose who answers: the endpoint named, the model in this process, or a script."""
    if options.base_url is not None:
        return _ask(options, show, base_url=options.base_url, model=options.model)

    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"  # no proxy of the environment comes between
    try:
        with LocalEngine() as engine:
            show.line("demo", f"{engine.model} in llama.cpp, in this process; three worked examples come first")
            return _ask(options, show, base_url=engine.base_url, model=engine.model, at_home=True)
    except EngineMissing as error:
        show.line("demo", str(error))
        if options.require_real:
            return 1
    show.line("SCRIPTED", "no model answers, but a server that plays what one would say")
    with ScriptedServer([_scripted_call, _scripted_answer], pause_s=0.04) as server:
        return _ask(options, show, base_url=server.base_url, model="scripted", at_home=True)


def _ask(options: argparse.Namespace, show: Show, *, base_url: str, model: str, at_home: bool = False) -> int:
    """Ask and show the run; `at_home` on a server of ours, which needs the worked examples and must quote the tool."""
    show.line("you", options.prompt)
    figure = random.choice(FIGURES)
    toolkit = Toolkit(weather_tool(figure))
    try:
        if at_home:
            with SyncClient(base_url=base_url, style=options.style, model=model, api_key="none") as client:
                result = client.stream(
                    options.prompt, toolkit, show, history=EXAMPLES, request_params={"temperature": 0}
                )
        else:
            with SyncClient(base_url=base_url, style=options.style, model=model) as client:
                result = client.stream(options.prompt, toolkit, show)
    except ToolnexusError as error:
        show.line("error", f"{type(error).__name__}: {error}")
        return 1
    if at_home and options.prompt == question(CITIES[0]) and str(figure) not in result.text:
        show.line("error", f"the tool said {figure}, the answer does not")
        return 1
    return 0 if result.status == "done" else 1


def _scripted_call(request: ScriptedRequest) -> Reply:
    city = (request.prompt.split() or [CITIES[0]])[-1].strip("?!.")  # "What is the weather in Chennai?"
    return Reply(calls=(Call("get_weather", {"city": city, "unit": "celsius"}),))


def _scripted_answer(request: ScriptedRequest) -> Reply:
    return Reply(f"It is {request.tool_results[-1]}.")


if __name__ == "__main__":
    sys.exit(main())
