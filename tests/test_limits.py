from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from toolnexus.errors import ConfigurationError
from toolnexus.limits import Limits

NAMES = [field.name for field in fields(Limits)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "8", None])
def test_a_limit_that_is_no_positive_int_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"Limits\.{name}: expected a positive int, got"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_of_one_is_allowed(name: str) -> None:
    assert getattr(Limits(**{name: 1}), name) == 1


def test_the_defaults_are_those_of_the_documentation() -> None:
    mib = 1024 * 1024
    assert Limits() == Limits(
        line_bytes=8 * mib,
        event_bytes=16 * mib,
        tool_args_bytes=4 * mib,
        tool_calls_per_turn=128,
        tool_output_bytes=mib,
        error_body_bytes=64 * 1024,
        parallel_tools=8,
        suspensions_per_call=8,
    )


def test_limits_do_not_change() -> None:
    limits: Any = Limits()
    with pytest.raises(FrozenInstanceError):
        limits.line_bytes = 1
