"""The package's layers: imports point downwards only, and the core is pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "toolnexus"

LAYERS: dict[str, int] = {
    **dict.fromkeys(
        (
            "errors",
            "events",
            "messages",
            "tool",
            "results",
            "run_result",
            "suspension",
            "limits",
            "cancel",
            "chunks",
            "_copies",
            "_version",
        ),
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
IMPURE = {"asyncio", "threading", "time", "random", "os", "socket", "httpx", "httpcore", "tenacity", "uuid", "secrets"}
HTTPX_ALLOWED = {"_io"}
# What a tool source or a store needs, and the one module that imports it, when first used.
LIBRARIES: dict[str, str] = {
    "httpx": "tools/exchange.py",
    "h11": "tools/exchange.py",
    "yaml": "tools/yaml_data.py",
}
LAZY = {"tools/exchange.py"}
"""Modules that are imported themselves when first used, and so may import their library at the top."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def unit(module: Path) -> str:
    """The part of the package that has a layer: a top-level module or folder."""
    first = module.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(module: Path) -> Iterator[str]:
    """Absolute names of what a module imports, anywhere in it."""
    yield from names_in(ast.parse(module.read_text(encoding="utf-8")), module)


def names_in(tree: ast.Module, module: Path) -> Iterator[str]:
    """Absolute names of what `tree`, of `module` or a part of it, imports."""
    package = ["toolnexus", *module.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join((*base, *([node.module] if node.module else [])))
            if name == "toolnexus":  # a module of the package is not the package itself
                modules = [alias.name for alias in node.names if alias.name in LAYERS]
                yield from (f"{name}.{module}" for module in modules)
                if len(modules) == len(node.names):
                    continue
            yield name


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


def at_import(module: Path) -> ast.Module:
    """A module without the bodies of its functions: what runs when it is imported."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.body = []
            case ast.If(test=test) if "TYPE_CHECKING" in ast.unparse(test):
                node.body = []
    return tree


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_httpx_stays_where_the_waiting_is(module: Path):
    if unit(module) in HTTPX_ALLOWED | {"sync_client", "async_client"}:  # the clients check the type of http_client
        return
    own = module.relative_to(PACKAGE).as_posix()
    libraries = {name.split(".")[0] for name in imports(module)} & {"httpx", "httpcore", "tenacity", *LIBRARIES}
    assert {name for name in libraries if LIBRARIES.get(name) != own} <= ({"tenacity"} if own == "retry.py" else set())


@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_a_tool_source_imports_its_library_when_it_is_first_used(name: str):
    own = LIBRARIES[name]
    assert name in {imported.split(".")[0] for imported in imports(PACKAGE / own)}
    if own not in LAZY:
        assert name not in {imported.split(".")[0] for imported in names_in(at_import(PACKAGE / own), PACKAGE / own)}


@pytest.mark.parametrize("own", sorted(LAZY))
def test_a_lazy_module_is_imported_inside_functions_only(own: str):
    lazy = "toolnexus." + own.removesuffix(".py").replace("/", ".")
    for module in MODULES:
        assert lazy not in set(names_in(at_import(module), module)), module
