"""One SQLite file: its connections, its transactions, and its errors in our words.

A connection is used by one thread at a time and kept for the next. None of them lives through a fork: SQLite forbids
to use or even to close one in the child, so idle ones are closed before, and the child opens its own.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Generator
from typing import TYPE_CHECKING

from ..errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x746E7873  # "tnxs": tells our files from those of others
VERSION = 1
"""Of tables and messages; a file with a higher one is left alone."""

_TABLES = (
    "CREATE TABLE conversations (key INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, revision INTEGER NOT NULL,"
    " length INTEGER NOT NULL)",
    "CREATE TABLE messages (conversation INTEGER NOT NULL, position INTEGER NOT NULL, body TEXT NOT NULL,"
    " PRIMARY KEY (conversation, position))",
)
_HEAD_BYTES = 100  # SQLite, "Database File Format", section 1.3
_MAX_IDLE = 4
_PAUSE_S = 0.01


class SQLiteFile:
    """A database file that is ours, made if need be; any thread may use it.

    Args:
        path: Where it is; its folder must be there.
        timeout: Seconds to wait for others who have it locked.

    Raises:
        ConfigurationError: `path` cannot be that of a file.
        StoreError: It cannot be opened, is no database, or is not ours.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self.path = _absolute(path)
        self._timeout = timeout
        self.lock = threading.RLock()
        """For short work in memory, that of the store too: it is free in a forked child."""
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        # Not left to the collector: since Python 3.13 that warns of each connection which nobody closed.
        self._finalizer = weakref.finalize(self, _close_all, self._idle)
        _FILES.add(self)
        with self.reading():
            pass

    @contextlib.contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """A connection that sees one state of the file, whatever others write meanwhile."""
        with self._transaction("BEGIN") as db:
            yield db

    @contextlib.contextmanager
    def writing(self) -> Generator[sqlite3.Connection, None, None]:
        """A connection that alone may write; what it did is on the disk after this, or nothing of it if this raises."""
        with self._transaction("BEGIN IMMEDIATE") as db:
            yield db

    def close(self) -> None:
        """Close all connections; those in use, when they are given back."""
        with self.lock:
            self._closed = True
            _close_all(self._idle)

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection, None, None]:
        import sqlite3

        try:
            db = self._take()
            try:
                db.execute(begin)
                yield db
                db.execute("COMMIT")
            finally:
                self._give_back(db)
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {self._what(error)}") from error

    def _what(self, error: sqlite3.Error) -> str:
        import sqlite3

        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the others the detail
        if code == sqlite3.SQLITE_BUSY:
            return f"locked by somebody else for more than {self._timeout:g} s"
        kinds = {
            sqlite3.SQLITE_NOTADB: "not a SQLite database, or damaged",
            sqlite3.SQLITE_CORRUPT: "damaged",
            sqlite3.SQLITE_FULL: "the disk is full",
            sqlite3.SQLITE_READONLY: "may not be written",
            sqlite3.SQLITE_CANTOPEN: "cannot be opened",
            sqlite3.SQLITE_IOERR: "the disk failed",
        }
        return f"{kinds[code]} ({error})" if code in kinds else f"{type(error).__name__}: {error}"

    def _take(self) -> sqlite3.Connection:
        with self.lock:
            if self._closed:
                raise StoreError(f"{self.path}: the store is closed")
            if self._idle:
                return self._idle.pop()
        return self._open()

    def _give_back(self, db: sqlite3.Connection) -> None:
        import sqlite3

        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:  # it goes with the connection
            db.close()
            return
        with self.lock:
            if self._closed or len(self._idle) >= _MAX_IDLE:
                db.close()
            else:
                self._idle.append(db)

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        self._create()
        # Rows and ids come as bytes: what is not UTF-8 in a damaged file is then ours to name.
        db = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            db.text_factory = bytes
            new = self._is_new(db)
            self._use_wal(db)
            # In WAL mode a less careful setting may lose the last transactions when the machine goes down.
            db.execute("PRAGMA synchronous = FULL")
            if new:
                self._fill(db)
        except BaseException:
            db.close()
            raise
        return db

    def _create(self) -> None:
        """Make the file, for nobody else to read; SQLite gives its other files the same mode."""
        if os.path.isdir(self.path):
            raise StoreError(f"{self.path}: expected a file, got a folder")
        # Only if it is not there: to close a file ends all locks that this process has on it, those of SQLite too.
        # Where a link leads to nothing, SQLite would make that file, and for all to read.
        try:
            os.close(os.open(os.path.realpath(self.path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            # SQLite takes a file of one byte for an empty one, and nobody would miss what was in it.
            with contextlib.suppress(OSError):
                if 0 < os.path.getsize(self.path) < _HEAD_BYTES:
                    raise StoreError(f"{self.path}: not a SQLite database, or damaged") from None
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be made: {error.strerror}") from error

    def _is_new(self, db: sqlite3.Connection) -> bool:
        """Whether the file is still empty. Changes nothing, so that a file which is not ours stays as it is."""
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        if application == APPLICATION_ID:
            if version > VERSION:
                raise StoreError(
                    f"{self.path}: expected version {VERSION} of a conversation store, got {version}; a newer toolnexus"
                    " has written it, use that one"
                )
            return False
        if version or application or db.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise StoreError(f"{self.path}: the database of another program; give the store a file of its own")
        return True

    def _use_wal(self, db: sqlite3.Connection) -> None:
        """Let readers and a writer not wait for each other. Where the file system cannot do that, it works too."""
        import sqlite3

        until = time.monotonic() + self._timeout
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError:
                # Two who open a new file at once: SQLite does not wait by itself here.
                if time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_S)

    def _fill(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        if self._is_new(db):  # nobody else has done it since we looked
            for table in _TABLES:
                db.execute(table)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")

    def before_fork(self) -> None:
        """Close what must not be in a child, and let nobody put more there until `after_fork`."""
        self.lock.acquire()
        _close_all(self._idle)

    def after_fork(self) -> None:
        """In parent and child: go on."""
        self.lock.release()


def _absolute(path: str | os.PathLike[str]) -> str:
    """Of the folder that is the current one now, not of a later one."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigurationError(f"path: expected the path of a file, a str or a Path, got {path!r}")
    if text == ":memory:":
        raise ConfigurationError("path: expected the path of a file, got ':memory:'; MemoryStore() needs none")
    return os.path.abspath(text)


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


_FILES: weakref.WeakSet[SQLiteFile] = weakref.WeakSet()
_FORK = threading.Lock()
_forking: list[SQLiteFile] = []


def _before_fork() -> None:
    _FORK.acquire()  # two threads may fork at once
    _forking[:] = _FILES
    for file in _forking:
        file.before_fork()


def _after_fork() -> None:
    for file in _forking:
        file.after_fork()
    _forking.clear()
    _FORK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
