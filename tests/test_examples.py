"""Every file of `examples/` runs offline, without a warning, and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))

BEFORE = {"approve.py": "ask.py"}
"""What must have run in the same folder."""

EXPECTED = {
    "approve.py": """\
ada: Allow transfer to run? {'to': 'Ada', 'amount': 250}
     yes -> 250 euros sent to Ada.
bob: Allow transfer to run? {'to': 'Bob', 'amount': 9000}
     no  -> The call did not go on: declined: too much.
""",
    "ask.py": """\
ada: Allow transfer to run? pending
bob: Allow transfer to run? pending
""",
    "builtin_tools.py": """\
call:   grep {'pattern': 'helo'}
result: greet.txt:1: helo world
call:   edit {'path': 'greet.txt', 'old_string': 'helo', 'new_string': 'hello'}
asked:  Allow edit to run?
result: edited 'greet.txt': 1 place
call:   read {'path': '../elsewhere.txt'}
result: '../elsewhere.txt' has '..' in it; give a path relative to the root, without '..'
answer: The greeting is spelled right now.
file:   hello world
""",
    "chunk_content.py": """\
Hello| from| a| model.|
Nobody sees this live.
""",
    "chunk_identity.py": """\
tool_call_delta 0 1 1
usage           1 1 1
finish          2 1 1
content         3 1 2
usage           4 1 2
finish          5 1 2
content         0 2 1
content         1 2 1
usage           2 2 1
finish          3 2 1
""",
    "chunk_reasoning.py": """\
thinks: 'Six'
thinks: ' times'
thinks: ' seven.'
says:   It is 42.
""",
    "chunk_tool_call_deltas.py": """\
get_weather #0: '{"city'
get_weather #0: '": "Ch'
get_weather #0: 'ennai"'
get_weather #0: '}'
runs with Chennai
Sunny.
""",
    "chunk_usage_and_finish.py": """\
message:  user 'Say hello'
tokens:   5
finished: stop
message:  assistant 'Hello.'
""",
    "http_tool.py": """\
call:   get_weather({'city': '../admin'})
result: 'The call was not run: city: \\'.\\' and \\'..\\' would lead to another path, got "../admin"' (an error)
call:   get_weather({'city': 'Chennai'})
result: '{"sky": "sunny", "degrees": 31}'
answer: It is sunny in Chennai.
""",
    "memory.py": """\
Hello
  tokens so far: 5
  answer: Hi there.
Still there?
  tokens so far: 11
  answer: Still here.
     user: Hello
assistant: Hi there.
     user: Still there?
assistant: Still here.
""",
    "skills.py": """\
offered: ['greetings', 'invoices']
skipped: [('draft-mail', 'denied')]
- invoices: Write an invoice.
loaded: ['# Skill: invoices', '- terms.md']
file:   14 days
answer: Invoice 43, payable within 14 days.
""",
    "stream_state.py": """\
hook: 'One.'
['content', 'usage', 'finish'] stop
hook: 'One,'
hook: ' two.'
['content', 'content', 'usage', 'finish'] stop
[] None
""",
    "stream_summaries.py": """\
'Let me look.': 1 calls, tool_calls
'Noon.': 0 calls, stop
last round: Noon.
all rounds: 57 tokens
""",
    "suspension.py": """\
usage
tool_call
pending:     Approve 250 euros?
tool_result: signed off: yes
text:        'Approved'
text:        ' and'
text:        ' done.'
usage
done
status:      done
""",
    "text_deltas.py": """\
'Hello'
' from'
' a'
' model.'
text: Hello from a model.
tokens: 20
""",
    "text_deltas_async.py": """\
'Hello'
' from'
' a'
' model.'
text: Hello from a model.
tokens: 20
""",
    "tool_call.py": """\
call:   get_weather({'city': 'Chennai'})
result: sunny in Chennai
answer: It is sunny in Chennai.
turns:  2
""",
    "tool_then_memory.py": """\
you:   Weather in Chennai?
call:  get_weather {'city': 'Chennai'}
model: 31C in Chennai.
you:   What did I ask?
model: You asked about Chennai, and I said: 31C in Chennai.
kept:  ['user', 'assistant', 'tool', 'assistant', 'user', 'assistant']
""",
}


def test_every_example_has_an_expected_output():
    assert sorted(EXPECTED) == EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_prints_what_it_promises(name, tmp_path):
    for script in filter(None, (BEFORE.get(name), name)):
        run = subprocess.run(
            [sys.executable, "-W", "error", str(ROOT / "examples" / script)],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        )
        assert run.stderr == ""
        assert run.stdout == EXPECTED.get(script)
        assert run.returncode == 0
