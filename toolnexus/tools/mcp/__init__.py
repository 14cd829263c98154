"""MCP servers as sources of tools: `Toolkit(mcp="mcp.json")`, with the official SDK (extra `mcp`).

    toolkit = Toolkit(mcp={"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "./work"],
                  "allow": ["read_*", "list_*"]},
        "tickets": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${TICKETS_KEY}"},
                    "approval": ["close_ticket"], "timeout": {"call": 20}},
    }})
    async with toolkit:  # or `with`; a run connects, too, but somebody must close
        print(toolkit.status())

**Configuration.** A path of a JSON file or a dict: `{"mcpServers": ...}`, `{"servers": ...}`, `{"mcp": ...}`, or
servers by name. stdio: `command` (a text, or a list with the arguments), `args`, `env`, `cwd`. Streamable HTTP:
`url`, `headers`; redirects stay on the origin. `enabled` / `disabled`. Ours:

- `allow`: names or patterns of the server's tools; nothing else is there. `tools` is another word for it.
- `approval`: `true`, or names or patterns: a human must agree to each call.
- `timeout`: seconds, or an object with `connect` (30), `list` (30), `call` (300) and `answer` (600). In entries of type
  `local` and `remote`, which are OpenCode's, milliseconds.
- `accept_changes`: `true`: definitions may change, see below.
- `protocol`: `"legacy"`: begin with `initialize`. Else 2026-07-28 is asked for first, which a server that does not
  answer what it does not know delays by 10 s.

`${NAME}`, `${env:NAME}` and `${NAME:-default}` are filled in in `headers` and `env`, when the server is connected;
the values are in no log, error or `repr` of ours. A child gets these variables and a few harmless ones, such as
`PATH` and `HOME`; none of ours else. What it writes to stderr goes to the logger `toolnexus.mcp`, as debug messages.

**Names.** `server_tool`, with `_` for what providers do not accept; a name that is too long or taken ends in a
digest.

**Failures.** A server that cannot be reached has no tools; a warning is logged and `Toolkit.status()` says why.
`connect()` tries again. One that dies in the course of a call makes an error result of it; the call is not repeated,
since nobody knows what it did. The next call starts the server anew; if that fails, or the server dies again before
it has given one result, the next attempt waits 0.5 s, then 1, 2 ... 60; calls meanwhile are error results at once.
Only where an HTTP server does not know the session any more is the call made again, once: it was refused before
anything was done.

**Questions.** An elicitation suspends the call: `Request.prompt` is the message, `data["schema"]` the form, `url` the
page to visit (http and https only). An answer with `ok` accepts, with `data` as the form's content; where it does not
fit, the question comes again. `ok=False` declines, with `reason="cancel"` it cancels. In the same process the waiting
server is answered, for up to `timeout.answer` seconds; after that, or in another process, or when the server died,
the call is made again, and answered when it asks the same. Over stdio the protocols before 2026-07-28 do not say
which call a question belongs to: it waits until there are no more calls under way than questions, and where several
are left, they go by age and `data["may_belong_to_another_call"]` is true. What servers ask of the client itself
(sampling, roots) is refused.

**Definitions that change.** A server could show a harmless tool until somebody has agreed to it, and another one
later ("rug pull"). So the first definition of each tool that a toolkit sees counts: name, description, schemas and
annotations. When the server announces a change, and when it was started anew, all are compared; a tool that differs
is left out of new runs, and calls of runs under way are error results, until `Toolkit.accept(name)`.
`status()[server].changed` has both. Tools that were not there before are taken as first seen: `allow` names those
that may come.

**Inside.** The SDK speaks the protocol; this package decides what is started, what is believed, and how calls,
questions and failures become results of tools. `servers` is what `Toolkit` uses:

    servers ── loop (one thread) ── server (reconnects) ── session (owner task) ── transport (SDK)
       │                               └── definitions          └── call, questions
       └── config, names, status

Source: Model Context Protocol, revisions 2025-11-25 and 2026-07-28.
"""

from __future__ import annotations

from .config import MCPConfig
from .servers import MCPServers
from .status import MCPChange, MCPStatus

__all__ = ["MCPChange", "MCPConfig", "MCPServers", "MCPStatus"]
