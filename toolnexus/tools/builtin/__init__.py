"""The built-in tools: files below a folder, searching them, running commands, the web, a human, a plan.

None is on unless it is named. `builtins.py` says which there are and with which bounds; `root.py` and `folder.py` are
the fence round the files, `child.py` the one round processes. Each tool is a plain function that runs in a thread of
either client, but for `webfetch`, whose waiting is done by `toolnexus.tools.exchange`.
"""

from __future__ import annotations

from .builtins import Builtins

__all__ = ["Builtins"]
