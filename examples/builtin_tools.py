"""Built-in tools: the model looks for a line, changes it once somebody agreed, and runs what it wrote.

Only the tools that are named are there; files are those below the root, and writing waits for approval.
"""

import tempfile
from pathlib import Path

from toolnexus import Answer, Builtins, Request, SyncClient, Toolkit
from toolnexus.demo.scripted import Call, Reply, ScriptedServer

SCRIPT = [
    Reply(calls=(Call("grep", {"pattern": "helo"}),)),
    Reply(calls=(Call("edit", {"path": "greet.txt", "old_string": "helo", "new_string": "hello"}),)),
    Reply(calls=(Call("read", {"path": "../elsewhere.txt"}),)),
    Reply("The greeting is spelled right now."),
]


def ask_human(request: Request) -> Answer:
    print("asked: ", request.prompt)
    return Answer(request.id, ok=True)


with tempfile.TemporaryDirectory() as root, ScriptedServer(SCRIPT) as server:
    Path(root, "greet.txt").write_text("helo world\n")
    toolkit = Toolkit(builtins=Builtins(root, allow=["read", "grep", "edit"], approve={"write"}))
    with SyncClient(base_url=server.base_url, model="scripted", wait_for=ask_human) as client:
        for event in client.iter_events("Mend the greeting.", toolkit):
            match event.type:
                case "tool_call":
                    print("call:  ", event.name, event.args)
                case "tool_result":
                    print("result:", event.output)
                case "done":
                    print("answer:", event.result.text)
    print("file:  ", Path(root, "greet.txt").read_text().strip())
