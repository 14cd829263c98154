"""Which tools there are, and how they look to a toolkit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolnexus import Builtins, ConfigurationError, Pending, ToolContext, Toolkit
from toolnexus.suspension import Answer

FILE_TOOLS = ["read", "grep", "glob", "write", "edit", "apply_patch"]
EVERY = [*FILE_TOOLS, "bash", "webfetch", "question", "todowrite"]


def test_nothing_is_on_unless_it_is_named(root):
    assert Toolkit().tools() == ()
    assert Toolkit(builtins=None).tools() == ()
    assert Toolkit(builtins=Builtins()).tools() == ()
    assert Toolkit(builtins=Builtins(root)).tools() == ()
    assert [tool.name for tool in Toolkit(builtins=Builtins(root, ["grep", "read", "grep"])).tools()] == [
        "grep",
        "read",
    ]
    assert [tool.name for tool in Toolkit(builtins=Builtins(root, EVERY)).tools()] == EVERY


def test_every_tool_and_argument_is_described(root):
    for tool in Toolkit(builtins=Builtins(root, EVERY)).tools():
        assert tool.description
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), f"{tool.name}.{name}"
        assert tool.input_schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("approve", "asks"),
    [
        ((), set()),
        (["read"], {"read", "grep", "glob"}),
        ({"write"}, {"write", "edit", "apply_patch"}),
        (("run",), {"bash"}),
        ({"fetch"}, {"webfetch"}),
        (["read", "write", "run", "fetch"], {*FILE_TOOLS, "bash", "webfetch"}),
    ],
)
def test_reading_writing_and_running_can_each_need_approval(root, approve, asks):
    tools = Toolkit(builtins=Builtins(root, EVERY, approve=approve)).tools()
    assert {tool.name for tool in tools if tool.approval} == asks


def test_what_changes_something_runs_alone_and_not_twice(root):
    tools = Toolkit(builtins=Builtins(root, EVERY)).tools()
    changing = {"write", "edit", "apply_patch", "bash"}
    assert {tool.name for tool in tools if not tool.parallel} == changing
    assert {tool.name for tool in tools if not tool.idempotent} == changing


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"allow": "read"}, "expected a list of some of apply_patch, bash, edit, .*, got 'read'"),
        ({"allow": ["delete"]}, "'delete' is none of them"),
        ({"allow": ["*"]}, "is none of them"),
        ({"allow": None}, "got None"),
        ({"allow": [5]}, "5 is none of them"),
        ({"approve": "write"}, "expected a list of some of fetch, read, run, write, got 'write'"),
        ({"approve": ["bash"]}, "'bash' is none of them"),
        ({"allow": ["question", "read"]}, "'read' needs root="),
        ({"allow": ["bash"]}, "'bash' needs root="),
        ({"root": "/nowhere", "allow": ["read"]}, "root: expected an existing folder, got '/nowhere'"),
        ({"root": __file__, "allow": ["read"]}, "root: expected an existing folder"),
        ({"root": "a\0b", "allow": ["read"]}, "root: expected an existing folder"),
        ({"bash_timeout": 0}, "Builtins.bash_timeout: expected a number above 0, got 0"),
        ({"search_timeout": float("nan")}, "Builtins.search_timeout"),
        ({"fetch_timeout": -1}, "Builtins.fetch_timeout"),
        ({"page_bytes": 0}, "Builtins.page_bytes"),
        ({"addresses": "private"}, "addresses: expected 'public', 'any' or a list of networks"),
        ({"results": True}, "Builtins.results"),
        ({"file_bytes": 1.5}, "Builtins.file_bytes"),
        ({"output_bytes": "1"}, "Builtins.output_bytes"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(options, said):
    with pytest.raises(ConfigurationError, match=said):
        Builtins(**options)


@pytest.mark.parametrize("by", ["paths"], indirect=True)
def test_a_file_is_no_root_without_open_folders_either(by, root):
    with pytest.raises(ConfigurationError, match="root: expected an existing folder"):
        Builtins(root / "a.txt", ["read"])


@pytest.mark.parametrize("given", [True, False, ["read"], "./work", Builtins])
def test_a_toolkit_takes_nothing_else(given):
    with pytest.raises(TypeError, match=r"builtins: expected Builtins\(root, allow=\['read', ...\]\), got"):
        Toolkit(builtins=given)


def test_a_name_that_is_taken_is_an_error(root):
    def read() -> None: ...

    with pytest.raises(ConfigurationError, match="two tools are named 'read'"):
        Toolkit(read, builtins=Builtins(root, ["read"]))


def test_the_environment_given_to_bash_is_not_shown(root):
    assert "secret" not in repr(Builtins(root, env={"TOKEN": "secret"}))


def test_a_question_waits_for_its_answer():
    kit = Toolkit(builtins=Builtins(allow=["question"]))
    asked = kit.execute("question", {"question": "Which?", "options": ["a", "b"]})
    assert asked == Pending("Which?", "input", data={"options": ["a", "b"]})
    assert kit.execute("question", {"question": "Which?"}) == Pending("Which?", "input", data={"options": []})
    for answer, output in (
        (Answer("r", data="a"), "a"),
        (Answer("r", data={"choice": "b"}), '{"choice":"b"}'),
        (Answer("r", reason="as you like"), "as you like"),
        (Answer("r"), "[the user agreed, and said nothing else]"),
    ):
        result = kit.execute("question", {"question": "Which?"}, ToolContext(answer=answer))
        assert getattr(result, "text", None) == output


def test_a_plan_is_kept_in_the_result():
    kit = Toolkit(builtins=Builtins(allow=["todowrite"]))
    todos = [{"content": word, "status": word} for word in ("pending", "in_progress", "completed", "cancelled")]
    result = kit.execute("todowrite", {"todos": todos})
    assert getattr(result, "text", None) == "[ ] pending\n[>] in_progress\n[x] completed\n[-] cancelled"
    assert getattr(result, "metadata", None) == {"todos": todos}
    assert getattr(kit.execute("todowrite", {"todos": []}), "text", None) == "[nothing to do]"
    assert getattr(kit.execute("todowrite", {"todos": [{"content": "x", "status": "odd"}]}), "is_error", None)


def test_importing_the_package_imports_no_built_in_tool():
    code = "import sys, toolnexus; toolnexus.Toolkit(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if "tools.builtin" in name or name == "subprocess"] == []
