"""Skills: found in folders and data, named in the system prompt, loaded by a tool, and never anything beside them."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server import calls, says
from toolnexus import Skill, SkillEntry, Skills, Toolkit, ToolResult, tool
from toolnexus.errors import ConfigurationError

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")


def put(
    folder: Path, name: str = "pdf", description: str = "Fill in forms.", body: str = "Do it.", **files: str
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n", encoding="utf-8"
    )
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    return folder


def load(skills: Any, name: str, **more: str) -> ToolResult:
    result = Toolkit(skills=skills).execute("skill", {"name": name, **more})
    assert isinstance(result, ToolResult)
    return result


def reasons(skills: Skills) -> dict[str, str | None]:
    return {Path(entry.source).name: entry.skipped for entry in skills.inventory}


# -- what is offered


def test_the_catalogue_is_sorted_and_the_tool_loads_what_it_names(tmp_path):
    put(tmp_path / "b", "zebra", "Stripes.")
    put(tmp_path / "a", "pdf", "Fill in\n  forms.", "# Forms\n\nUse `fill.py`.")
    kit = Toolkit(skills=tmp_path)
    assert kit.skills_prompt() == (
        "Skills are instructions for certain kinds of task. Before you begin with a task that one of these fits, "
        "load it with the tool `skill`:\n"
        "- pdf: Fill in forms.\n"
        "- zebra: Stripes."
    )
    (skill_tool,) = kit.tools()
    assert skill_tool.name == "skill"
    assert skill_tool.input_schema["properties"]["name"]["enum"] == ["pdf", "zebra"]
    result = kit.execute("skill", {"name": "pdf"})
    assert result == ToolResult(
        f"# Skill: pdf\n\n# Forms\n\nUse `fill.py`.\n\nBase directory: {os.path.realpath(tmp_path / 'a')}"
    )
    assert asyncio.run(kit.aexecute("skill", {"name": "pdf"})) == result


def test_up_to_ten_files_are_listed_and_each_can_be_read(tmp_path):
    folder = put(tmp_path / "pdf", **{f"f{n:02}.md": f"file {n}" for n in range(11)}, **{".hidden": "x"})
    (folder / "scripts" / "deep").mkdir(parents=True)
    (folder / "scripts" / "deep" / "a.py").write_text("print('ü')", encoding="utf-8")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"\0")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    lines = load(tmp_path, "pdf").text.splitlines()
    listed = lines[lines.index("Files (read one with this tool's `file`):") + 1 :]
    assert listed == [*(f"- f{n:02}.md" for n in range(10)), "- and 2 more"]
    assert load(tmp_path, "pdf", file="f10.md") == ToolResult("file 10")
    assert load(tmp_path, "pdf", file="scripts/deep/a.py") == ToolResult("print('ü')")


def test_a_root_may_be_a_skill_itself_and_skills_may_lie_deeper(tmp_path):
    put(tmp_path / "one", "one")
    assert Skills(tmp_path / "one").names == ["one"]
    put(tmp_path / "group" / "two", "two")
    put(tmp_path / "group" / "more" / "three", "three")
    put(tmp_path / "one" / "inner", "inner")  # a part of the skill it lies in
    put(tmp_path / ".git" / "hidden", "hidden")
    put(tmp_path / "node_modules" / "dependency", "dependency")
    put(tmp_path / "a" / "b" / "c" / "d", "too-deep")
    (tmp_path / "e" / "f" / "g").mkdir(parents=True)  # with nothing in it to look into
    skills = Skills(tmp_path)
    assert skills.names == ["one", "three", "two"]
    assert "g" not in reasons(skills)
    assert reasons(skills)["c"] == "not looked into: more than 3 folders deep"
    assert repr(skills) == "<Skills one, three, two>"
    assert repr(Skills()) == "<Skills (none)>"


def test_skills_can_be_data():
    skill = Skill("review", "Review  a\nchange.", "Look twice.\n", {"list.md": "- names", "a.md": "A"})
    kit = Toolkit(skills=skill)
    assert kit.skills_prompt().endswith("\n- review: Review a change.")
    assert load([skill], "review").output == (
        "# Skill: review\n\nLook twice.\n\nFiles (read one with this tool's `file`):\n- a.md\n- list.md"
    )
    assert load(skill, "review", file="list.md").output == "- names"
    assert load(skill, "review", file="b.md") == ToolResult(
        "the file 'b.md' of the skill 'review': there is no such file", is_error=True
    )


def test_the_first_of_one_name_wins_with_a_warning(tmp_path, caplog):
    put(tmp_path / "mine" / "a", "pdf", "Mine.")
    put(tmp_path / "theirs" / "b", "PDF", "Theirs.")
    skills = Skills(tmp_path / "mine", tmp_path / "theirs", Skill("Pdf", "Data."))
    assert skills.prompt().splitlines()[1:] == ["- pdf: Mine."]
    first = os.path.realpath(tmp_path / "mine" / "a")
    taken = f"the name is taken by the skill in {first}"
    assert skills.inventory == (
        SkillEntry("pdf", first),
        SkillEntry("PDF", os.path.realpath(tmp_path / "theirs" / "b"), taken),
        SkillEntry("Pdf", "data", taken),
    )
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert taken in caplog.text


def test_some_can_be_allowed_and_others_denied():
    data = [Skill(name, "D.") for name in ("pdf-fill", "pdf-read", "mail", "Weather")]
    assert Skills(*data, allow=["pdf-*", "weather"]).names == ["Weather", "pdf-fill", "pdf-read"]
    assert Skills(*data, deny=["*-fill", "mail"]).names == ["Weather", "pdf-read"]
    skills = Skills(*data, allow=["pdf-*"], deny=["pdf-fill"])
    assert [(entry.name, entry.skipped) for entry in skills.inventory] == [
        ("pdf-fill", "denied"), ("pdf-read", None), ("mail", "not allowed"), ("Weather", "not allowed"),
    ]  # fmt: skip
    assert Skills(*data, allow=[]).names == []


def test_a_denied_skill_takes_no_name():
    allowed = Skills(Skill("a", "First."), Skill("A", "Second."), deny=["a"])
    assert allowed.names == []
    assert [entry.skipped for entry in allowed.inventory] == ["denied", "denied"]


def test_without_skills_there_is_no_tool_and_nothing_to_say(tmp_path):
    kit = Toolkit(skills=tmp_path)
    assert (kit.tools(), kit.skills_prompt()) == ((), "")


def test_a_toolkit_takes_over_the_skills_of_another():
    @tool
    def add(a: int) -> int:
        """Add."""
        return a

    inner = Toolkit(add, skills=Skill("pdf", "Forms."))
    outer = Toolkit(inner)
    assert [t.name for t in outer.tools()] == ["add", "skill"]
    assert outer.skills_prompt() == inner.skills_prompt() != ""
    with pytest.raises(ConfigurationError, match="two tools are named 'skill'"):
        Toolkit(inner, skills=Skill("mail", "Mail."))


def test_a_run_with_a_skill(serve, connect, tmp_path):
    put(tmp_path / "pdf", body="Say please.")
    server = serve(calls(("c1", "skill", '{"name": "pdf"}')), says("Please."))
    result = connect(server, system_prompt="Be kind.").stream("Fill it in.", Toolkit(skills=str(tmp_path)))
    assert "Say please." in result.tool_calls[0].output
    system = server.requests[0].json["messages"][0]
    assert system["role"] == "system"
    assert system["content"].startswith("Be kind.\n\nSkills are instructions")
    assert system["content"].endswith("- pdf: Fill in forms.")


def test_a_skill_is_read_anew_each_time(tmp_path):
    folder = put(tmp_path / "pdf", body="Old.")
    kit = Toolkit(skills=tmp_path)
    put(folder, body="New.")
    assert "New." in kit.execute("skill", {"name": "pdf"}).text  # type: ignore[union-attr]  # no tool suspends here
    (folder / "SKILL.md").unlink()
    assert kit.execute("skill", {"name": "pdf"}) == ToolResult(
        "the skill 'pdf': cannot be read: No such file or directory", is_error=True
    )


@pytest.mark.parametrize(
    ("name", "args"),
    [("unknown", {"name": "mail"}), ("case", {"name": "PDF"}), ("none", {}), ("climbing", {"name": "../pdf"}),
     ("absolute", {"name": "/etc"}), ("NUL", {"name": "pdf\0"}), ("more", {"name": "pdf", "path": "x"})],
)  # fmt: skip
def test_a_name_that_was_not_offered_loads_nothing(name, args):
    result = Toolkit(skills=Skill("pdf", "Forms.", "Body.")).execute("skill", args)
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert result.text.startswith("the arguments do not fit")


# -- where nothing leads out

SECRET = "do not read this"
ESCAPES = [
    "../secret.txt", "..", ".", "", "/", "x/../../secret.txt", "./notes.md", "notes.md/", "/etc/passwd", "//etc/passwd",
    "..\\secret.txt", "C:\\secret.txt", "C:secret.txt", "\\\\host\\share", "file:///etc/passwd", "~/secret.txt", "~",
    "$HOME/x", "%2e%2e/secret.txt", "..%2fsecret.txt", "../pdf-evil/secret.txt", "../pdf/notes.md", "notes.md\0",
    "notes.md\0.txt", "\0", "../secret.txt\0", "NOTES.MD", "Notes.md", "notes.md ", " notes.md", "notes.md.",
    "notes.md::$DATA", "link.txt", "folder/secret.txt", "up/secret.txt", "up/pdf/notes.md", ".env", "SKILL.md", "pipe",
    "dev", "a\ud800", "x" * 5000, "loop", "\u2025/secret.txt", "．．/secret.txt",
]  # fmt: skip


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A root with one skill, and around it what must not be read."""
    root = tmp_path / "root"
    folder = put(root / "pdf", **{"notes.md": "notes"})
    (folder / ".env").write_text(SECRET)
    (root / "secret.txt").write_text(SECRET)
    (tmp_path / "secret.txt").write_text(SECRET)
    put(root / "pdf-evil", "evil", body=SECRET)  # whose path begins like the skill's
    (root / "pdf-evil" / "secret.txt").write_text(SECRET)
    if sys.platform != "win32":
        (folder / "link.txt").symlink_to(root / "secret.txt")
        (folder / "folder").symlink_to(root / "pdf-evil")
        (folder / "up").symlink_to("..")
        (folder / "dev").symlink_to("/dev/zero")
        (folder / "loop").symlink_to("loop")
        os.mkfifo(folder / "pipe")
    return root


@pytest.mark.parametrize("file", ESCAPES, ids=lambda f: ascii(f)[:40])
def test_no_file_but_the_skills_own_is_read(trapped, file):
    result = load(Skills(trapped, deny=["evil"]), "pdf", file=file)
    assert result.is_error
    assert SECRET not in result.text
    assert "there is no such file" in result.text


def test_its_own_file_is_read_all_the_same(trapped):
    skills = Skills(trapped, deny=["evil"])
    assert load(skills, "pdf", file="notes.md").output == "notes"
    assert load(skills, "pdf").text.splitlines()[-1:] == ["- notes.md"]


@needs_links
def test_a_link_that_stays_inside_is_followed(tmp_path):
    folder = put(tmp_path / "pdf", **{"notes.md": "notes"})
    (folder / "alias.md").symlink_to("notes.md")
    (tmp_path / "alias").symlink_to("pdf")
    skills = Skills(tmp_path)
    assert load(skills, "pdf", file="alias.md").output == "notes"
    assert len(skills.inventory) == 1  # the same folder is no second skill


@needs_links
def test_a_root_may_be_a_link(tmp_path):
    put(tmp_path / "real" / "pdf")
    (tmp_path / "root").symlink_to("real")
    assert Skills(tmp_path / "root").names == ["pdf"]


@needs_links
def test_what_leads_out_of_the_root_is_no_skill(tmp_path):
    outside = put(tmp_path / "outside", "outside", body=SECRET)
    put(tmp_path / "root-evil" / "evil", "evil", body=SECRET)
    root = tmp_path / "root"
    put(root / "good", "good")
    (root / "link").symlink_to(outside)
    (root / "relative").symlink_to("../root-evil/evil")
    (root / "up").symlink_to("..")
    (root / "self").symlink_to(".")
    (root / "broken").symlink_to("nowhere")
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(outside / "SKILL.md")
    put(root / "pre-evil", "pre-evil", body=SECRET)  # whose path begins like that of the next
    (root / "pre").mkdir()
    (root / "pre" / "SKILL.md").symlink_to(root / "pre-evil" / "SKILL.md")
    (root / "passwd").mkdir()
    (root / "passwd" / "SKILL.md").symlink_to("/etc/passwd")
    (root / "loop").mkdir()
    (root / "loop" / "SKILL.md").symlink_to("SKILL.md")
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "SKILL.md")
    (root / "folder" / "SKILL.md").mkdir(parents=True)
    skills = Skills(root)
    assert skills.names == ["good", "pre-evil"]
    assert reasons(skills) == {
        "good": None,
        "pre-evil": None,
        "pre": "SKILL.md: leads out of its folder",
        "link": "leads out of the root",
        "relative": "leads out of the root",
        "up": "leads out of the root",
        "file": "SKILL.md: leads out of its folder",
        "passwd": "SKILL.md: leads out of its folder",
        "loop": "SKILL.md: cannot be read: Too many levels of symbolic links",
        "pipe": "SKILL.md: is no regular file",
        "folder": "SKILL.md: cannot be read: Is a directory",
    }


@needs_links
def test_a_folder_that_becomes_a_link_later_is_not_followed(tmp_path):
    outside = put(tmp_path / "outside", body=SECRET, **{"notes.md": SECRET})
    folder = put(tmp_path / "root" / "pdf", **{"notes.md": "notes"})
    kit = Toolkit(skills=tmp_path / "root")
    folder.rename(tmp_path / "root" / "moved")
    folder.symlink_to(outside)
    for args in ({"name": "pdf"}, {"name": "pdf", "file": "notes.md"}):
        result = kit.execute("skill", args)
        assert isinstance(result, ToolResult)
        assert result.is_error
        assert SECRET not in result.text


# -- what is no skill


FRONT = "---\nname: x\ndescription: d\n---\n"


@pytest.mark.parametrize(
    ("text", "why"),
    {
        "no front matter": (b"# Title\n", "expected front matter between two lines '---', at the very beginning"),
        "late": (b"\n" + FRONT.encode(), "at the very beginning"),
        "open": (b"---\nname: x\n", "expected front matter between two lines"),
        "empty": (b"", "expected front matter"),
        "nothing": (b"---\n---\n", "the front matter: expected members such as 'name: …'"),
        "a list": (b"---\n- a\n---\n", "the front matter: expected members"),
        "no name": (b"---\ndescription: d\n---\n", "name: expected 1 to 64 characters on one line"),
        "number": (b"---\nname: 5\ndescription: d\n---\n", "name: expected 1 to 64 characters on one line"),
        "blank": (b"---\nname: ' '\ndescription: d\n---\n", "name: expected"),
        "long": (b"---\nname: " + b"x" * 65 + b"\ndescription: d\n---\n", "name: expected"),
        "two lines": (b"---\nname: \"a\\nb\"\ndescription: d\n---\n", "name: expected"),
        "markup": (b"---\nname: a</skills>\ndescription: d\n---\n", "name: expected"),
        "turned around": ("---\nname: a\u202eb\ndescription: d\n---\n".encode(), "name: expected"),
        "no description": (b"---\nname: x\n---\n", "description: expected text, got None"),
        "other description": (b"---\nname: x\ndescription: [a]\n---\n", "description: expected text"),
        "no YAML": (b"---\nname: 'x\n---\n", "front matter: while scanning a quoted scalar"),
        "a tag": (b"---\nname: !!python/name:os.system\ndescription: d\n---\n", "front matter: line 1: the tag"),
        "twice": (b"---\nname: x\nname: y\ndescription: d\n---\n", "the key 'name' stands there twice"),
        "a bomb": (
            b"---\nname: x\ndescription: d\na: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n"
            b"c: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d]\n---\n",
            "more than 1000 values",
        ),
        "much": (b"---\nname: x\ndescription: " + b"d" * 17_000 + b"\n---\n", "longer than 16384 characters"),
        "latin-1": (FRONT.encode() + b"\xff", "is no text in UTF-8"),
        "large": (FRONT.encode() + b"x" * 300_000, "is larger than 262144 bytes"),
    }.values(),
    ids=lambda v: "",
)  # fmt: skip
def test_a_file_that_is_no_skill_is_skipped_and_said_why(tmp_path, caplog, text, why):
    put(tmp_path / "good", "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_bytes(text)
    skills = Skills(tmp_path)
    assert skills.names == ["good"]
    reason = reasons(skills)["bad"]
    assert reason is not None
    assert reason.startswith("SKILL.md")
    assert why in reason
    assert reason in caplog.text


def test_a_file_with_another_name_is_pointed_out(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "skill.md").write_text(FRONT)
    skills = Skills(tmp_path)
    if skills.names:  # pragma: no cover  # on some systems' disks
        pytest.skip("this disk takes both names for one")
    assert reasons(skills) == {"a": "has 'skill.md'; expected 'SKILL.md'"}


def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path):
    (tmp_path / "SKILL.md").write_bytes(
        "\ufeff".encode() + FRONT.replace("\n", "\r\n").encode() + "a\u2028b\r\nc".encode()
    )
    assert load(tmp_path, "x").text.startswith("# Skill: x\n\na\u2028b\nc\n\nBase directory")


def test_a_long_description_is_cut_and_kept_on_one_line():
    line = Toolkit(skills=Skill("x", "a\n- evil: b\x00" + "d" * 3000)).skills_prompt().splitlines()[1]
    assert line.startswith("- x: a - evil: b ddd")
    assert len(line) == 1024 + len("- x: ")


def test_files_that_are_no_text_are_refused(tmp_path):
    folder = put(tmp_path / "pdf")
    (folder / "a.bin").write_bytes(b"\xff\xfe")
    (folder / "b.txt").write_bytes(b"x" * 300_000)
    assert load(tmp_path, "pdf", file="a.bin").output == "the file 'a.bin' of the skill 'pdf': is no text in UTF-8"
    assert "is larger than 262144 bytes" in load(tmp_path, "pdf", file="b.txt").text


def test_counts_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("toolnexus.tools.skills._MAX_SKILLS", 2)
    monkeypatch.setattr("toolnexus.tools.skill_folders.MAX_FILES", 3)
    monkeypatch.setattr("toolnexus.tools.skill_folders._MAX_FOLDERS", 4)
    for name in "abcde":
        put(tmp_path / name, name, **{f"{n}.md": "" for n in range(5)})
    skills = Skills(tmp_path)
    assert skills.names == ["a", "b"]
    assert [entry.skipped for entry in skills.inventory] == [
        None, None, "there are more than 2 skills",
        f"not looked at: there are more than 4 folders below {os.path.realpath(tmp_path)}",
    ]  # fmt: skip
    assert load(skills, "a").text.count("\n- ") == 3


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_said_to_be_so(tmp_path):  # pragma: no cover  # not as root
    put(tmp_path / "good", "good")
    (tmp_path / "closed").mkdir(mode=0)
    assert reasons(Skills(tmp_path)) == {"good": None, "closed": "cannot be read: Permission denied"}


def test_a_folder_that_goes_while_it_is_looked_at(tmp_path, monkeypatch):
    put(tmp_path / "good", "good")
    (tmp_path / "gone").mkdir()
    listdir = os.listdir

    def listed(path: Any) -> list[str]:
        if str(path).endswith("gone"):
            raise FileNotFoundError(2, "No such file or directory")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", listed)
    assert reasons(Skills(tmp_path)) == {"gone": "cannot be read: No such file or directory", "good": None}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Toolkit(skills="/no/such/folder"), "skills: expected a folder, got '/no/such/folder', which is none"),
        (lambda: Toolkit(skills=__file__), "which is none"),
        (lambda: Toolkit(skills=5), "skills: expected a folder or a Skill, got 5"),  # type: ignore[arg-type]  # a wrong type is the point
        (lambda: Toolkit(skills=[5]), "skills: expected a folder or a Skill, got 5"),  # type: ignore[list-item]  # a wrong type is the point
        (lambda: Skills(allow="pdf"), "allow: expected a list of names, got 'pdf'"),
        (lambda: Skills(deny=[5]), "deny: expected a list of names"),  # type: ignore[list-item]  # a wrong type is the point
        (lambda: Skill("", "d"), "Skill: name: expected"),
        (lambda: Skill("x", ""), "Skill: description: expected text"),
        (lambda: Skill("x", "d", 5), "Skill 'x': body: expected a str, got int"),  # type: ignore[arg-type]  # a wrong type is the point
    ],
)
def test_arguments_that_cannot_work_are_refused(make, why):
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert why in str(caught.value)


def test_without_the_extra_folders_cannot_be_read_but_data_can(tmp_path, monkeypatch):
    put(tmp_path / "pdf")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'toolnexus\[skills\]'"):
        Toolkit(skills=tmp_path)
    assert load(Skill("x", "d", "Body."), "x").output == "# Skill: x\n\nBody."


def test_a_toolkit_without_skills_imports_none_of_it():
    code = "import sys, toolnexus; toolnexus.Toolkit(); print(*(m for m in sys.modules if 'skill' in m or 'yaml' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
