"""Sweeps: a fault at every place there is. By default at some of them, with `TOOLNEXUS_SWEEPS=all` at all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

_figures: dict[str, Counter[str]] = {}


@pytest.fixture
def everything() -> bool:
    """Whether every place is wanted."""
    return os.environ.get("TOOLNEXUS_SWEEPS") == "all"


@pytest.fixture
def publish(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Show figures at the end of the session, summed up for all parameters of a test; a failed test publishes none."""
    counter = _figures.setdefault(request.node.nodeid.partition("[")[0], Counter())
    return lambda **figures: counter.update(figures)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    published = {test: counter for test, counter in _figures.items() if counter}
    if published:
        terminalreporter.section("sweeps")
    for test, counter in published.items():
        figures = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in counter.items())
        terminalreporter.write_line(f"{test}: {figures}")
