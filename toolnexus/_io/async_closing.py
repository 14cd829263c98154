"""Async generators inside of each other, closed from the outside in."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class aclosing(Generic[T]):  # named like the one it stands in for
    """`contextlib.aclosing` for a generator that another one iterates, and that the event loop must not know.

    A loop that shuts down closes all async generators that it knows, side by side. Of two that stand inside each other
    it would close the inner one while the outer one does so too, and report an error for one of them ("asynchronous
    generator is already running"). So only the outermost one may be known to the loop; it closes the others.

    Source: Python's `loop.shutdown_asyncgens`, and PEP 525, "Asynchronous generator finalization". A generator that is
    collected is still closed by the loop.
    """

    def __init__(self, generator: AsyncGenerator[T, None]) -> None:
        self._generator = generator
        self._has_begun = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._generator.aclose()

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[T]:
        if self._has_begun:
            return self._generator.__anext__()
        self._has_begun = True
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None)
        try:
            return self._generator.__anext__()
        finally:
            sys.set_asyncgen_hooks(firstiter=hooks.firstiter)
