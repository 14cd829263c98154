"""Other processes, and a clean record of what ran."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.suspension.harness import RAN
from tests.suspension.processes import Processes


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Processes]:
    """Runs functions in other processes."""
    if not hasattr(os, "fork"):
        pytest.skip("needs os.fork")
    processes = Processes()
    yield processes
    processes.close()
