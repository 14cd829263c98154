"""`docs/reliability.md` names tests that exist, one or more in each row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCUMENT = TESTS.parent / "docs" / "reliability.md"

pytestmark = pytest.mark.skipif(not DOCUMENT.is_file(), reason="the documentation is not beside these tests")


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row, without the heads of the tables."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| fault |"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


@cache
def names(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def missing(cell: str) -> list[str]:
    """The tests of a cell that are not there."""
    found = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", cell)
    gone = [path for path, _ in found if not (TESTS / path).is_file()]
    gone += [f"{path}::{name}" for path, name in found if path not in gone and name and name not in names(path)]
    return gone if found else [cell]


def test_each_row_names_tests_that_exist() -> None:
    table = list(rows(DOCUMENT.read_text("utf-8")))
    assert len(table) > 40
    last = ""
    for cells in table:
        assert len(cells) == 4, cells
        fault, what, test, _ = cells
        assert fault
        assert what
        last = last if test == "the same" else test
        assert missing(last) == [], fault


def test_a_test_that_is_not_there_is_missed() -> None:
    here = "test_reliability.py"
    assert missing(f"`{here}`, `{here}::test_each_row_names_tests_that_exist`") == []
    assert missing(f"`{here}::test_nothing`") == [f"{here}::test_nothing"]
    assert missing("`no/test_file.py::test_x`") == ["no/test_file.py"]
    assert missing("no test") == ["no test"]
