"""Figures of a whole process: its imports, its start up to the first event, and the memory of a long answer."""

from __future__ import annotations

import os
import subprocess
import sys
from string import Template

_IMPORT = Template("""
import time
start = time.process_time()
import $module
print((time.process_time() - start) * 1e3)
""")

_FIRST_EVENT = {
    "floor": """
import httpx, json
with httpx.Client() as client, client.stream("POST", "$url/chat/completions", json={}) as response:
    for piece in response.iter_raw():
        json.loads(piece[6:])
        break
""",
    "toolnexus": """
import toolnexus
with toolnexus.SyncClient(base_url="$url", model="mock-1", api_key="k") as client:
    for event in client.iter_events("Hi?"):
        break
""",
    "openai-python": """
import openai
client = openai.OpenAI(base_url="$url", api_key="k")
for chunk in client.chat.completions.create(model="mock-1", messages=[{"role": "user", "content": "Hi?"}], stream=True):
    break
""",
}

_MEMORY = {
    "floor": """
import httpx, json
client = httpx.Client()
def run(url):
    with client.stream("POST", url + "/chat/completions", json={}) as response:
        rest = b""
        for piece in response.iter_raw():
            *events, rest = (rest + piece).split(b"\\n\\n")
            for event in events:
                if event != b"data: [DONE]":
                    json.loads(event[6:])
""",
    "toolnexus": """
import toolnexus
def run(url):
    with toolnexus.SyncClient(base_url=url, model="mock-1", api_key="k") as client:
        for event in client.iter_events("Hi?"):
            pass
""",
    "openai-python": """
import openai
def run(url):
    texts = []
    with openai.OpenAI(base_url=url, api_key="k") as client:
        messages = [{"role": "user", "content": "Hi?"}]
        for chunk in client.chat.completions.create(model="mock-1", messages=messages, stream=True):
            texts += [choice.delta.content for choice in chunk.choices if choice.delta.content]
    return "".join(texts)
""",
}

_GROWTH = """
import os, resource, sys
def memory():
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
run("$short")
before = memory()
run("$long")
print((memory() - before) / 1e6)
"""

_CPU = "\nimport time\nprint(time.process_time() * 1e3)\n"


def import_time(module: str) -> float:
    """CPU milliseconds of `import module` in a fresh process."""
    return _run(_IMPORT.substitute(module=module))


def time_to_first_event(subject: str, base_url: str) -> float:
    """CPU milliseconds from the start of the process to the first event."""
    return _run(Template(_FIRST_EVENT[subject] + _CPU).substitute(url=base_url))


def memory_growth(subject: str, short: str, long: str) -> float:
    """MB by which the process is larger after the long answer than after the short one (its peak, if not on Linux)."""
    return _run(Template(_MEMORY[subject] + _GROWTH).substitute(short=short, long=long))


def _run(code: str) -> float:
    command = [sys.executable, "-c", code]
    # What is installed was compiled by the installer; a module that is imported from its source is by the first run.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)
