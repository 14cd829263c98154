"""Which of the built-in tools a toolkit has, and what they may do."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from ...errors import ConfigurationError
from ...tool import Tool
from ..addresses import Addresses, address_policy
from ..function import define_tool
from ..misfits import clip
from .files import Files
from .patches import Patches
from .questions import question
from .root import Root
from .search import Search
from .shell import Shell
from .todos import todowrite
from .web import Web

Need = Literal["read", "write", "run", "fetch"]
"""What a tool needs the machine for; each can require approval."""

_NEEDS: dict[str, Need | None] = {
    "read": "read",
    "grep": "read",
    "glob": "read",
    "write": "write",
    "edit": "write",
    "apply_patch": "write",
    "bash": "run",
    "webfetch": "fetch",
    "question": None,
    "todowrite": None,
}
_KIB, _MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Builtins:
    """The built-in tools for `Toolkit(builtins=...)`: those that `allow` names, and no other.

    `read`, `grep`, `glob`, `write`, `edit` and `apply_patch` see what is below `root` and nothing else; no link is
    followed on the way. `bash` only begins in `root`: it can do whatever this process can, so name it where that is
    meant, and best with `approve={"run"}`. `webfetch` reads pages at public addresses, unless `addresses` allows more;
    beside tools that read files, a URL can carry away what they read, so that `approve={"fetch"}` is best. `question`
    asks a human, as a tool that returns `pending(...)` does; `todowrite` keeps a plan in the transcript.

        Toolkit(builtins=Builtins("./work", allow=["read", "grep", "edit"], approve={"write"}))

    Raises:
        ConfigurationError: `root` is no folder, or missing where a tool needs it; a name or a bound cannot work.
    """

    root: str | os.PathLike[str] | None = None
    """The folder of the files; found once, when this is made."""
    allow: Collection[str] = ()
    """The tools by name: `read`, `grep`, `glob`, `write`, `edit`, `apply_patch`, `bash`, `webfetch`, `question`,
    `todowrite`."""
    _: KW_ONLY
    approve: Collection[Need] = ()
    """What a human must agree to each time: `"read"` (read, grep, glob), `"write"` (write, edit, apply_patch),
    `"run"` (bash), `"fetch"` (webfetch)."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """More of an environment for `bash`, which else has PATH, HOME, the user's name, language and time zone."""
    bash_timeout: float = 120
    """Seconds that a command may run; a model may ask for less."""
    search_timeout: float = 10
    """Seconds that `grep` and `glob` may search."""
    fetch_timeout: float = 30
    """Seconds that `webfetch` waits for a whole page."""
    addresses: Addresses = "public"
    """Where `webfetch` may connect to: `"public"`, `"any"`, or a list of networks allowed besides the public ones."""
    page_bytes: int = 1 * _MIB
    """How much of a page `webfetch` reads; it shows `output_bytes` of its text."""
    file_bytes: int = 10 * _MIB
    """The largest file that is read or written."""
    output_bytes: int = 64 * _KIB
    """How much of a file or of a command's output one call shows."""
    results: int = 500
    """Lines or paths that `grep` and `glob` show."""
    hard_links: bool = False
    """Whether files are read that have other names too; those may be outside of `root`."""
    _root: Root | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_names("allow", self.allow, _NEEDS)
        _check_names("approve", self.approve, {need for need in _NEEDS.values() if need})
        for name, value, kinds in (
            ("bash_timeout", self.bash_timeout, (int, float)),
            ("search_timeout", self.search_timeout, (int, float)),
            ("fetch_timeout", self.fetch_timeout, (int, float)),
            ("page_bytes", self.page_bytes, int),
            ("file_bytes", self.file_bytes, int),
            ("output_bytes", self.output_bytes, int),
            ("results", self.results, int),
        ):
            if not isinstance(value, kinds) or isinstance(value, bool) or not value > 0:
                raise ConfigurationError(f"Builtins.{name}: expected a number above 0, got {clip(repr(value))}")
        address_policy(self.addresses)
        rooted = [name for name in self.allow if _NEEDS[name] in ("read", "write", "run")]
        if rooted:
            if self.root is None:
                raise ConfigurationError(f"Builtins: {rooted[0]!r} needs root=, the folder that it works in")
            object.__setattr__(self, "_root", Root(self.root))

    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order of `allow`.

        Raises:
            ConfigurationError: The platform lacks what one of them needs.
        """
        functions = self._functions()
        return tuple(self._tool(name, functions[name]()) for name in dict.fromkeys(self.allow))

    def _tool(self, name: str, function: Callable[..., object]) -> Tool:
        need = _NEEDS[name]
        changes = need in ("write", "run")
        return define_tool(
            function,
            name=name,
            approval=need in self.approve,
            parallel=not changes,  # in the model's order: what it writes first it may read, run or change then
            idempotent=not changes,
        )

    def _functions(self) -> dict[str, Callable[[], Callable[..., object]]]:
        """How to make each: only what is named looks for what it needs."""
        functions: dict[str, Callable[[], Callable[..., object]]] = {
            "question": lambda: question,
            "todowrite": lambda: todowrite,
            "webfetch": lambda: (
                Web(
                    address_policy(self.addresses),
                    seconds=self.fetch_timeout,
                    page_bytes=self.page_bytes,
                    output_bytes=self.output_bytes,
                ).webfetch
            ),
        }
        if self._root is not None:
            root, file_bytes, hard_links = self._root, self.file_bytes, self.hard_links
            files = Files(root, file_bytes=file_bytes, output_bytes=self.output_bytes, hard_links=hard_links)
            search = Search(
                root, file_bytes=file_bytes, results=self.results, seconds=self.search_timeout, hard_links=hard_links
            )
            patches = Patches(root, files, file_bytes=file_bytes)
            functions |= {
                "read": lambda: files.read,
                "write": lambda: files.write,
                "edit": lambda: files.edit,
                "grep": lambda: search.grep,
                "glob": lambda: search.glob,
                "apply_patch": lambda: patches.apply_patch,
                "bash": lambda: (
                    Shell(root, env=self.env, seconds=self.bash_timeout, output_bytes=self.output_bytes).bash
                ),
            }
        return functions


def _check_names(what: str, given: object, known: Collection[str]) -> None:
    expected = f"Builtins.{what}: expected a list of some of {', '.join(sorted(known))}"
    if isinstance(given, str) or not isinstance(given, Collection):
        raise ConfigurationError(f"{expected}, got {clip(repr(given))}")
    for name in given:
        if name not in known:
            raise ConfigurationError(f"{expected}; {clip(repr(name))} is none of them")
