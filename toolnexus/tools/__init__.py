"""Tools: functions a model may call, described by their hints or by an explicit schema.

This layer makes `toolnexus.Tool` objects and turns what tools return into results. It runs no loop and knows no
provider; the runs of `toolnexus.SyncClient` and `AsyncClient` use it, and so may you, through `Toolkit.execute`.
"""

from __future__ import annotations

from .function import define_tool, tool
from .output import failure, to_result
from .toolkit import Toolkit

__all__ = ["Toolkit", "define_tool", "failure", "to_result", "tool"]
