"""Work that a human must allow: this script asks and ends, and the questions wait in a file for `approve.py`."""

from toolnexus import SQLiteStore, SyncClient, Toolkit, tool
from toolnexus.demo.scripted import Call, Reply, ScriptedServer

SCRIPT = [
    Reply(calls=(Call("transfer", {"to": "Ada", "amount": 250}),)),
    Reply(calls=(Call("transfer", {"to": "Bob", "amount": 9000}),)),
]


@tool(approval=True)
def transfer(to: str, amount: int) -> str:
    """Send euros to somebody."""
    return f"{amount} euros sent to {to}."


with (
    ScriptedServer(SCRIPT) as server,
    SQLiteStore("transfers.db") as store,
    SyncClient(base_url=server.base_url, model="scripted", store=store) as client,
):
    for id, prompt in (("ada", "Send Ada 250 euros."), ("bob", "Send Bob 9000 euros.")):
        result = client.ask(prompt, Toolkit(transfer), id=id)
        for request in result.requests:
            print(f"{id}: {request.prompt} {result.status}")
