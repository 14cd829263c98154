"""An MCP server of a few lines, which can misbehave in every phase; it is started as a program, with a script.

The script is JSON: `hang` and `die` name methods that are never answered, or end the process; `lists` is how often tools
are listed before that is never answered; `runs` is a file where each start leaves a line; `definitions` are the tools that the first, second ... start lists, in the place of all.
It speaks protocol 2025-11-25 and knows no `server/discover`.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any

SCRIPT: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
LOCK = threading.Lock()
ANSWERS: dict[str, queue.SimpleQueue[Any]] = {}
CANCELLED: list[Any] = []
GATES = {name: threading.Event() for name in ("go", "there")}
COLOR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}


def definition(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"It is {name}.", "inputSchema": {"type": "object"}, **more}


NAMES = ["echo", "pid", "env", "ask", "asks", "meet", "open_gate", "wait", "hang", "die", "cancelled", "page", "sample"]
TOOLS = [definition(name) for name in [*NAMES, "change", "grow", "fail", "refuse", "odd", "answer_late", "page_first"]]


def send(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method: str, **params: Any) -> Any:
    id = f"q{len(ANSWERS)}"
    ANSWERS[id] = queue.SimpleQueue()
    send({"id": id, "method": method, "params": params})
    return ANSWERS[id].get()


def elicit(message: str) -> Any:
    return ask("elicitation/create", mode="form", message=message, requestedSchema=COLOR)


def call(name: str, args: dict[str, Any]) -> Any:  # noqa: PLR0911
    match name:
        case "echo":
            return args
        case "pid":
            return os.getpid()
        case "env":
            return dict(os.environ)
        case "ask":
            return elicit(args.get("what", "Which?"))
        case "asks":
            return [elicit(what) for what in args["what"]]
        case "meet":  # the second to come lets both go on, and then asks
            if GATES["there"].is_set():
                GATES["go"].set()
                return elicit("Which?")
            GATES["there"].set()
            GATES["go"].wait()
            return "met"
        case "wait":
            GATES["go"].wait()
            return "waited"
        case "open_gate":
            GATES["go"].set()
            return "opened"
        case "hang":
            threading.Event().wait()
        case "die":
            sys.stderr.write("I am dying, my key is s3cret-value\n")
            sys.stderr.flush()
            os._exit(3)
        case "cancelled":
            return CANCELLED
        case "page":
            return ask("elicitation/create", mode="url", message="Sign in", url=args["url"], elicitationId="e1")
        case "page_first":
            if not GATES["there"].is_set():
                GATES["there"].set()
                page = {"mode": "url", "message": "Sign in", "url": args["url"], "elicitationId": "e1"}
                raise Refused(-32042, "sign in first", {"elicitations": [page]})
            return "signed in"
        case "sample":
            return [ask("sampling/createMessage", messages=[], maxTokens=1), ask("roots/list")]
        case "change":
            TOOLS[0] = definition("echo", description=args["description"])
            send({"method": "notifications/tools/list_changed"})
            return "changed"
        case "grow":
            TOOLS.append(definition("grown"))
            send({"method": "notifications/tools/list_changed"})
            return "grown"
        case "fail":
            raise ValueError("no luck")
        case "refuse":
            raise Refused(-32602, "not like that", None)
        case "answer_late":  # goes on without the answer
            id = "late"
            ANSWERS[id] = queue.SimpleQueue()
            send({"id": id, "method": "elicitation/create", "params": {"mode": "form", "message": "?", "requestedSchema": COLOR}})
            GATES["go"].wait()
            return "went on"


class Refused(Exception):
    pass


def work(id: Any, name: str, args: dict[str, Any]) -> None:
    try:
        value = call(name, args)
        if name == "odd":
            send({"id": id, "result": {"content": [{"type": "smell"}]}})
            return
        send({"id": id, "result": {"content": [{"type": "text", "text": json.dumps(value)}]}})
    except Refused as error:
        code, message, data = error.args
        send({"id": id, "error": {"code": code, "message": message, **({"data": data} if data else {})}})
    except Exception as error:
        send({"id": id, "result": {"content": [{"type": "text", "text": str(error)}], "isError": True}})


def handle(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method in SCRIPT.get("die", ()):
        os._exit(4)
    if method in SCRIPT.get("hang", ()):
        return
    if method is None:
        ANSWERS[id].put(message.get("result", message.get("error")))
    elif method == "initialize":
        info = {"name": "scripted", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        send({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}})
    elif method == "tools/list":
        if SCRIPT.get("lists") == 0:
            return
        SCRIPT["lists"] = SCRIPT.get("lists", 0) - 1
        listed = SCRIPT["definitions"][min(STARTS, len(SCRIPT["definitions"])) - 1] if "definitions" in SCRIPT else TOOLS
        page = SCRIPT.get("page", 1000)
        begin = int(params.get("cursor", 0))
        more = {"nextCursor": str(begin + page)} if begin + page < len(listed) else {}
        send({"id": id, "result": {"tools": listed[begin : begin + page], **more}})
    elif method == "tools/call":
        threading.Thread(target=work, args=(id, params["name"], params.get("arguments", {})), daemon=True).start()
    elif method == "notifications/cancelled":
        CANCELLED.append(params["requestId"])
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": f"no {method}"}})


STARTS = 0
if __name__ == "__main__":
    if "runs" in SCRIPT:
        with open(SCRIPT["runs"], "a+") as runs:
            runs.write(f"{os.getpid()}\n")
            runs.seek(0)
            STARTS = len(runs.readlines())
    for line in sys.stdin:
        handle(json.loads(line))
    if SCRIPT.get("stays"):
        threading.Event().wait()
