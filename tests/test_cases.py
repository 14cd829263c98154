"""Every case that is known of has a test that names it, and no test names one that is not known.

What other clients got wrong is written down once, beside this project, for its developers; `tests/data/cases.json`
has the names. Where that collection is there, the names are compared with it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.test_wire_cases import LEFT_OUT
from tests.faults.rows import ROWS
from tests.tables import DATA, wire_cases

TESTS = Path(__file__).parent
SHARED = TESTS.parents[1] / "shared"
TABLE = json.loads((DATA / "cases.json").read_text("utf-8"))
KINDS = ["api", "wire", "faults"]


def marked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The cases that tests name, each with its test."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "case":
                    yield from ((ast.literal_eval(name), node.name) for name in mark.args)


def named() -> set[str]:
    texts = [path.read_text("utf-8") for path in TESTS.rglob("test_*.py")]
    found = {name for text in texts if "mark.case(" in text for name, _ in marked(ast.parse(text))}
    played = {case["id"] for style in ("openai", "anthropic") for case in wire_cases(style)} - LEFT_OUT.keys()
    return found | played | {row.id for row in ROWS}


def test_every_case_has_a_test_and_every_test_a_case() -> None:
    known = [name for kind in KINDS for name in TABLE[kind]]
    assert len(set(known)) == len(known)
    assert sorted(set(known) - named()) == [], "these cases have no test"
    assert sorted(named() - set(known)) == [], "tests name these cases, which are not in tests/data/cases.json"


def test_a_name_is_found_where_a_test_bears_it() -> None:
    tree = ast.parse('@pytest.mark.case("a", "b")\ndef test_x(): ...\n\n@pytest.mark.case("c")\ndef helper(): ...\n')
    assert list(marked(tree)) == [("a", "test_x"), ("b", "test_x")]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared collection of cases is not beside this checkout")
def test_the_names_are_those_of_the_collection() -> None:
    cases = [json.loads(path.read_text("utf-8"))["id"] for path in (SHARED / "corpus" / "cases").glob("*.json")]
    ideas = re.findall(r"^### (\S+)", (SHARED / "corpus" / "api-cases.md").read_text("utf-8"), re.MULTILINE)
    faults = json.loads((SHARED / "kit" / "fault_scenarios.json").read_text("utf-8"))["rows"]
    assert sorted(TABLE["wire"]) == sorted(cases)
    assert sorted(TABLE["api"]) == sorted(ideas)
    assert sorted(TABLE["faults"]) == sorted(row["id"] for row in faults)
