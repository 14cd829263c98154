"""Sweeps: a fault at every place there is. By default at some of them, with `TOOLNEXUS_SWEEPS=all` at all."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

_figures: dict[str, dict[str, float]] = {}


@pytest.fixture
def everything() -> bool:
    """Whether every place is wanted."""
    return os.environ.get("TOOLNEXUS_SWEEPS") == "all"


@pytest.fixture
def publish(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Show figures at the end of the session: the sum over all parameters of a test, of `slowest_ms` the most.

    A failed test publishes none.
    """
    known = _figures.setdefault(request.node.nodeid.partition("[")[0], {})

    def publish(**figures: float) -> None:
        for name, figure in figures.items():
            known[name] = max(known.get(name, 0), figure) if name == "slowest_ms" else known.get(name, 0) + figure

    return publish


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    published = {test: figures for test, figures in _figures.items() if figures}
    if published:
        terminalreporter.section("sweeps")
    for test, figures in published.items():
        line = ", ".join(f"{name.replace('_', ' ')} {figure:,.0f}" for name, figure in figures.items())
        terminalreporter.write_line(f"{test}: {line}")
