"""Bounds on what a server or a tool may make us hold in memory."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .errors import ConfigurationError

_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one client; beyond a stream limit a run ends with `ProtocolError`.

    The defaults are far above what providers send (a model's whole answer is below 1 MiB), and low
    enough that a broken server cannot fill the memory.
    """

    line_bytes: int = 8 * _MIB
    """One line of an event stream."""
    event_bytes: int = 16 * _MIB
    """The data of one event, and a whole reply that is not a stream."""
    tool_args_bytes: int = 4 * _MIB
    """The arguments of one tool call."""
    tool_calls_per_turn: int = 128
    """Tool calls in one model response."""
    tool_output_bytes: int = 1 * _MIB
    """The text of one tool result; longer output is cut, with a marker that says so."""
    error_body_bytes: int = 64 * _KIB
    """How much of an error reply is read."""
    parallel_tools: int = 8
    """Tools of one turn that run at the same time."""
    suspensions_per_call: int = 8
    """How often one call may ask for an answer before it becomes an error result."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigurationError(f"Limits.{field.name}: expected a positive int, got {value!r}")
