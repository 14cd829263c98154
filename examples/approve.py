"""The other half of `ask.py`: a human decides, and each run goes on where it was. The file is all that they share."""

from toolnexus import Answer, SQLiteStore, SyncClient, Toolkit, tool
from toolnexus.demo.scripted import Reply, ScriptedRequest, ScriptedServer


@tool(approval=True)
def transfer(to: str, amount: int) -> str:
    """Send euros to somebody."""
    return f"{amount} euros sent to {to}."


def model(request: ScriptedRequest) -> Reply:
    return Reply(request.tool_results[-1])


with (
    ScriptedServer([model, model]) as server,
    SQLiteStore("transfers.db") as store,
    SyncClient(base_url=server.base_url, model="scripted", store=store) as client,
):
    for id in store.ids():
        requests = [call.request for message in store.get(id) or () for call in message.tool_calls]
        for request in filter(None, requests):
            print(f"{id}: {request.prompt} {request.data['args']}")
            ok = request.data["args"]["amount"] < 1000  # here the human decides
            answer = Answer(request.id, ok=ok, reason=None if ok else "too much")
            print(f"     {'yes' if ok else 'no '} -> {client.resume(answer, Toolkit(transfer), id=id).text}")
