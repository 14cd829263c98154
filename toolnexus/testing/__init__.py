"""For the tests of users: `StoreSuite` tests a conversation store. Imports no test framework."""

from __future__ import annotations

from .store_suite import StoreSuite

__all__ = ["StoreSuite"]
