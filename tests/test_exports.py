"""The public names, compared with reality."""

from __future__ import annotations

import inspect
from importlib.metadata import PackageNotFoundError, version

import pytest

import toolnexus
from toolnexus._version import VERSION


def test_all_is_sorted_and_complete():
    found = {name: getattr(toolnexus, name) for name in dir(toolnexus) if not name.startswith("_")}
    public = {name for name, value in found.items() if not inspect.ismodule(value)} - {"TYPE_CHECKING", "import_module"}
    assert toolnexus.__all__ == sorted(toolnexus.__all__)
    assert public == set(toolnexus.__all__)


def test_every_public_class_and_function_has_a_docstring():
    documented = (getattr(toolnexus, name) for name in toolnexus.__all__)
    assert [v for v in documented if (inspect.isclass(v) or inspect.isfunction(v)) and not inspect.getdoc(v)] == []


def test_the_two_clients_take_the_same_arguments():
    sync = inspect.signature(toolnexus.SyncClient).parameters
    other = inspect.signature(toolnexus.AsyncClient).parameters
    assert list(sync) == list(other)
    assert [p.default for p in sync.values()] == [p.default for p in other.values()]
    assert all(p.kind is p.KEYWORD_ONLY for p in sync.values())


def test_the_methods_that_both_clients_have_take_the_same_arguments():
    for name in ("run", "ask"):
        sync, other = getattr(toolnexus.SyncClient, name), getattr(toolnexus.AsyncClient, name)
        assert str(inspect.signature(sync).parameters) == str(inspect.signature(other).parameters)
    events = inspect.signature(toolnexus.SyncClient.iter_events).parameters
    assert list(events) == list(inspect.signature(toolnexus.AsyncClient.stream).parameters)


def test_the_installed_package_has_the_version_that_it_tells():
    try:
        installed = version("toolnexus")
    except PackageNotFoundError:
        pytest.skip("toolnexus is not installed here")
    assert installed == VERSION
