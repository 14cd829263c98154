"""A REST endpoint as a tool: a URL with a placeholder, and a key that only the endpoint sees.

The model fills in `{city}`, which stays within its segment of the path; `${WEATHER_KEY}` is read from the environment
at each call. A reply that is not 2xx is an error result, and the model can say so.
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from toolnexus import StreamEvent, SyncClient, Toolkit, http_tool
from toolnexus.demo.scripted import Call, Reply, ScriptedServer, Step


class Weather(BaseHTTPRequestHandler):
    """The endpoint."""

    def do_GET(self) -> None:
        known = self.path == "/weather/Chennai?unit=C" and self.headers["Authorization"] == "Bearer s3cret-key"
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"sky": "sunny", "degrees": 31}' if known else b'{"error": "no such city"}')

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def show(event: StreamEvent) -> None:
    match event.type:
        case "tool_call":
            print(f"call:   {event.name}({event.args})")
        case "tool_result":
            print(f"result: {event.output!r}{' (an error)' if event.is_error else ''}")


SCRIPT: list[Step] = [
    Reply(calls=(Call("get_weather", {"city": "../admin"}),)),
    Reply(calls=(Call("get_weather", {"city": "Chennai"}),)),
    Reply("It is sunny in Chennai."),
]

os.environ["WEATHER_KEY"] = "s3cret-key"
with ThreadingHTTPServer(("127.0.0.1", 0), Weather) as endpoint:
    Thread(target=endpoint.serve_forever).start()
    get_weather = http_tool(
        "get_weather",
        "Current weather for a city.",
        "GET",
        f"http://127.0.0.1:{endpoint.server_port}/weather/{{city}}",
        headers={"Authorization": "Bearer ${WEATHER_KEY}"},
        query={"unit": "C"},
    )
    with ScriptedServer(SCRIPT) as server, SyncClient(base_url=server.base_url, model="scripted") as client:
        print("answer:", client.stream("Weather in Chennai?", Toolkit(get_weather), on_event=show).text)
    endpoint.shutdown()
