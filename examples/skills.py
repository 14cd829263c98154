"""Skills: instructions that the model loads when a task wants them.

A skill is a folder with a `SKILL.md`, or data, as the second one here. The system prompt only names them; the tool
`skill` loads one, and reads the files beside it. Reading folders takes the extra: `pip install 'toolnexus[skills]'`.
"""

import tempfile
from pathlib import Path

from toolnexus import Skill, Skills, SyncClient, Toolkit
from toolnexus.demo.scripted import Call, Reply, ScriptedServer

SKILL = """\
---
name: invoices
description: Write an invoice.
---
Number it like the last one, plus one. The terms are in `terms.md`.
"""
SCRIPT = [
    Reply(calls=(Call("skill", {"name": "invoices"}),)),
    Reply(calls=(Call("skill", {"name": "invoices", "file": "terms.md"}),)),
    Reply("Invoice 43, payable within 14 days."),
]

with tempfile.TemporaryDirectory() as root:
    folder = Path(root, "invoices")
    folder.mkdir()
    (folder / "SKILL.md").write_text(SKILL, encoding="utf-8")
    (folder / "terms.md").write_text("14 days", encoding="utf-8")

    greetings, draft = Skill("greetings", "Greet a customer.", "Be brief."), Skill("draft-mail", "Not ready.")
    skills = Skills(root, greetings, draft, deny=["draft-*"])
    print("offered:", skills.names)
    print("skipped:", [(entry.name, entry.skipped) for entry in skills.inventory if entry.skipped])

    toolkit = Toolkit(skills=skills)
    print(toolkit.skills_prompt().splitlines()[-1])
    with ScriptedServer(SCRIPT) as server, SyncClient(base_url=server.base_url, model="scripted") as client:
        result = client.run("Write an invoice.", toolkit)
        print("loaded:", [line for line in result.tool_calls[0].output.splitlines() if line.startswith(("#", "-"))])
        print("file:  ", result.tool_calls[1].output)
        print("answer:", result.text)
