"""The text of a web page, for a model: without markup, scripts and styles.

It is no parser: it goes through the page once, in time that grows with its length whatever is in it (`html.parser` can
take its square). What a broken page shows may differ from what a browser shows.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

_UNSEEN = frozenset(("script", "style", "noscript", "template", "svg"))
_INLINE = re.compile(
    "/?(a|abbr|b|bdi|bdo|cite|code|em|font|i|kbd|mark|q|s|small|span|strong|sub|sup|time|tt|u|var|wbr)"
)
_MARKUP = re.compile(r"<(!--|[!?]|/?[a-z][a-z0-9:-]*)", re.IGNORECASE | re.ASCII)
_LOWER = str.maketrans({chr(n): chr(n + 32) for n in range(ord("A"), ord("Z") + 1)})  # `lower` can change the length


def page_text(page: str) -> str:
    """Read the text of a page, a line for each block."""
    lines = html.unescape("".join(_pieces(page))).split("\n")
    return "\n".join(line for line in (" ".join(line.split()) for line in lines) if line)


def _pieces(page: str) -> Iterator[str]:
    lower = page.translate(_LOWER)
    at = 0
    while (markup := _MARKUP.search(lower, at)) is not None:
        yield page[at : markup.start()].replace("\n", " ")
        name = markup[1]
        end = "-->" if name == "!--" else ">"
        at = _after(lower, end, markup.end())
        if name in _UNSEEN:
            at = _after(lower, f"</{name}", at)
            at = _after(lower, ">", at)
        elif name[0] not in "!?" and not _INLINE.fullmatch(name):
            yield "\n"
    yield page[at:].replace("\n", " ")


def _after(text: str, end: str, at: int) -> int:
    """Where `end` ends; what never ends reaches to the end of the page."""
    found = text.find(end, at)
    return len(text) if found < 0 else found + len(end)
