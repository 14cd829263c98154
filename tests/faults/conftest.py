"""Each row is played once with each client; several tests look at what came of it."""

from __future__ import annotations

import pytest

from tests.clients.harness import CLIENTS
from tests.faults.playing import Played, play
from tests.faults.rows import ROWS


@pytest.fixture(
    scope="package",
    params=[(row, kind) for row in ROWS for kind in CLIENTS],
    ids=[f"{row.id}-{kind}" for row in ROWS for kind in CLIENTS],
)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    row, kind = request.param
    return play(row, kind, tmp_path_factory.mktemp(row.id))
