"""An MCP server of a few lines, which can misbehave in every phase; it is started as a program, with a script.

The script is JSON: `hang` and `die` name methods that are never answered, or end the process; `lists` is how often
tools are listed before that is never answered; `runs` is a file where each start leaves a line; `definitions` are the
tools that the first, second ... start lists, in the place of all; with `asks_early` it asks as soon as it may; with
`listen` it speaks protocol 2026-07-28, and a subscription `ends` at once or is refused. Else it speaks 2025-11-25.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any

SCRIPT: dict[str, Any] = json.loads(sys.argv[1])
LOCK = threading.Lock()
ANSWERS: dict[str, queue.SimpleQueue[Any]] = {}
CANCELLED: list[Any] = []
EARLY: queue.SimpleQueue[Any] = queue.SimpleQueue()
LISTENS: queue.SimpleQueue[Any] = queue.SimpleQueue()
GO, THERE = threading.Event(), threading.Event()
COLOR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if "listen" in SCRIPT else {}
NAMES = """echo pid env ask asks meet open_gate wait hang die cancelled page page_first sample change grow fail refuse
odd answer_late asked_early listens"""


def definition(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"It is {name}.", "inputSchema": {"type": "object"}, **more}


TOOLS = [definition(name) for name in NAMES.split()]


class RefusedError(Exception):
    pass


def send(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method: str, **params: Any) -> Any:
    with LOCK:
        id = f"q{len(ANSWERS)}"
        ANSWERS[id] = queue.SimpleQueue()
    send({"id": id, "method": method, "params": params})
    return ANSWERS[id].get()


def elicit(message: str) -> Any:
    return ask("elicitation/create", mode="form", message=message, requestedSchema=COLOR)


def call(name: str, args: dict[str, Any]) -> Any:
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
            if THERE.is_set():
                GO.set()
                return elicit("Which?")
            THERE.set()
            GO.wait()
            return "met"
        case "wait":
            GO.wait()
            return "waited"
        case "open_gate":
            GO.set()
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
            if not THERE.is_set():
                THERE.set()
                page = {"mode": "url", "message": "Sign in", "url": args["url"], "elicitationId": "e1"}
                raise RefusedError(-32042, "sign in first", {"elicitations": [page]})
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
            raise RefusedError(-32602, "not like that", None)
        case "answer_late":  # goes on without the answer
            threading.Thread(target=lambda: EARLY.put(elicit("?")), daemon=True).start()
            GO.wait()
            return "went on"
        case "asked_early":
            return EARLY.get()
        case "listens":
            return LISTENS.get()
    return None


def work(id: Any, name: str, args: dict[str, Any]) -> None:
    try:
        text = json.dumps(call(name, args))
        content = {"type": "text", "text": text} if name != "odd" else {"type": "smell"}
        send({"id": id, "result": {"content": [content], **COMPLETE}})
    except RefusedError as error:
        code, message, data = error.args
        send({"id": id, "error": {"code": code, "message": message, **({"data": data} if data else {})}})
    except Exception as error:
        send({"id": id, "result": {"content": [{"type": "text", "text": str(error)}], "isError": True}})


def listed(cursor: str) -> dict[str, Any]:
    defined = SCRIPT.get("definitions", [TOOLS])
    tools = defined[min(max(STARTS, 1), len(defined)) - 1]
    begin = int(cursor)
    end = begin + SCRIPT.get("page", 1000)
    return {"tools": tools[begin:end], **({"nextCursor": str(end)} if end < len(tools) else {}), **COMPLETE}


def handle(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method in SCRIPT.get("die", ()):
        os._exit(4)
    if method in SCRIPT.get("hang", ()):
        return
    if method is None:
        assert isinstance(id, str)
        ANSWERS[id].put(message.get("result", message.get("error")))
    elif method == "initialize":
        info = {"name": "scripted", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        send({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}})
    elif method == "server/discover" and "listen" in SCRIPT:
        modern = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}, **COMPLETE}
        send({"id": id, "result": modern})
    elif method == "subscriptions/listen" and SCRIPT["listen"] == "ends":
        LISTENS.put("listen")
        send({"id": id, "result": {**COMPLETE}})
    elif method == "notifications/initialized" and SCRIPT.get("asks_early"):
        threading.Thread(target=lambda: EARLY.put(elicit("Too early?")), daemon=True).start()
    elif method == "notifications/cancelled":
        CANCELLED.append(params["requestId"])
    elif method == "tools/list":
        SCRIPT["lists"] = SCRIPT.get("lists", -1) - 1
        if SCRIPT["lists"] != -1:
            send({"id": id, "result": listed(params.get("cursor", "0"))})
    elif method == "tools/call":
        threading.Thread(target=work, args=(id, params["name"], params.get("arguments", {})), daemon=True).start()
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
