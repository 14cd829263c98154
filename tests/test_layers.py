"""The package's layers: imports point downwards only, and the core is pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "toolnexus"

LAYERS: dict[str, int] = {
    **dict.fromkeys(
        ("errors", "events", "messages", "tool", "results", "suspension", "limits", "cancel", "chunks"),
        0,
    ),
    "_core": 1,
    **dict.fromkeys(("tools", "stores", "retry", "config", "hooks", "chunk_stream"), 2),
    "_io": 3,
    **dict.fromkeys(("sync_client", "async_client", "sync_conversation", "async_conversation"), 4),
    **dict.fromkeys(("__init__", "testing"), 5),
    **dict.fromkeys(("demo", "__main__"), 6),
}
STRANGERS = [
    ("_core", {"tools", "stores", "retry", "config", "hooks", "chunk_stream"}),
    ("sync_client", {"async_client"}),
]
IMPURE = {
    "asyncio",
    "threading",
    "time",
    "random",
    "os",
    "socket",
    "httpx",
    "httpcore",
    "h11",
    "tenacity",
    "uuid",
    "secrets",
}
HTTPX_ALLOWED = {"_io"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def unit(module: Path) -> str:
    """The part of the package that has a layer: a top-level module or folder."""
    first = module.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(module: Path, *, at_run_time_only: bool = False) -> Iterator[str]:
    """Absolute names of what a module imports, anywhere in it."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    package = ["toolnexus", *module.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if at_run_time_only and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join((*base, *([node.module] if node.module else [])))
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names if name == "toolnexus")


def imported_units(module: Path) -> set[str]:
    names = (name.split(".") for name in imports(module))
    units = {parts[1] if len(parts) > 1 else "__init__" for parts in names if parts[0] == "toolnexus"}
    return {unit for unit in units if unit in LAYERS}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_a_module_imports_downwards_only(module: Path):
    own = unit(module)
    above = {u for u in imported_units(module) - {own} if LAYERS[u] > LAYERS[own]}
    assert not above, f"{own} (layer {LAYERS[own]}) imports {above}"


@pytest.mark.parametrize(("one", "others"), STRANGERS)
def test_neighbours_do_not_know_each_other(one: str, others: set[str]):
    for module in MODULES:
        if unit(module) == one:
            assert not imported_units(module) & others
        if unit(module) in others:
            assert one not in imported_units(module)


@pytest.mark.parametrize("module", sorted((PACKAGE / "_core").rglob("*.py")), ids=lambda m: m.name)
def test_the_core_is_pure(module: Path):
    assert not {name.split(".")[0] for name in imports(module)} & IMPURE
    tree = ast.parse(module.read_text(encoding="utf-8"))
    assert not [n for n in ast.walk(tree) if isinstance(n, (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor))]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_httpx_stays_where_the_waiting_is(module: Path):
    if unit(module) in HTTPX_ALLOWED | {"sync_client", "async_client"}:  # the clients check the type of http_client
        return
    assert not {name.split(".")[0] for name in imports(module)} & {"httpx", "httpcore", "h11", "tenacity"} or (
        unit(module) == "retry"
    )
