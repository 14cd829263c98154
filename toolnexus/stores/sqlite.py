"""Conversations in a SQLite file, for threads, for processes, and for what comes after a crash.

One row for each message, so that saving a turn writes that turn; a revision for each conversation, so that nobody
saves over what he has not seen.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from .._copies import copied
from ..errors import ConfigurationError, ConversationConflictError, StoreError
from ..messages import Message
from .changes import check_base, unchanged
from .codec import read_message, write_message
from .protocols import Snapshot
from .records import Misfit
from .sqlite_file import SQLiteFile

_MAX_SEEN = 10_000  # conversations whose revision is remembered for save()
_MAX_RECENT_CHARS = 8 * 2**20  # of JSON: the conversations that are remembered themselves

_FIND = "SELECT key, revision, length FROM conversations WHERE id = ?"


@dataclass(frozen=True, slots=True)
class _Stored:
    """A conversation as the file has it; revision 0 for one that it does not have."""

    revision: int = 0
    length: int = 0
    rows: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Recent:
    """A conversation as `get` or `save` had it, for the next `save` to compare with."""

    revision: int = 0
    messages: list[Message] = field(default_factory=list)
    """Nobody else has these objects, so that a caller's edit is seen."""
    chars: list[int] = field(default_factory=list)
    """Of each message's JSON."""


class SQLiteStore:
    """Keeps conversations in a file; of `RevisionedStore` and `ManagedStore` it has everything.

    What was saved is whole and on the disk when the call returns, in a file that others may not read. Any number of
    threads and processes may use it, each process through a store of its own; so may a forked child.

        with SQLiteStore("conversations.db") as store, SyncClient(model="qwen3", store=store) as client: ...

    `save` wants the conversation to be as this object last read or wrote it, and one that it never read (or not among
    the last 10,000) not to be there.

    Args:
        path: The file. It is made if it is not there; its folder is not.
        timeout: Seconds to wait for somebody else who is writing.

    Raises:
        ConfigurationError: An argument cannot work.
        StoreError: The file cannot be opened, is no database, is another program's or a newer version's.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout < 2_000_000:
            raise ConfigurationError(f"timeout: expected seconds, 0 or more, got {timeout!r}")
        self._file = SQLiteFile(path, timeout)
        # All three under the file's lock.
        self._seen: OrderedDict[bytes, int] = OrderedDict()
        self._recent: OrderedDict[bytes, _Recent] = OrderedDict()
        self._recent_chars = 0

    def __repr__(self) -> str:
        return f"SQLiteStore({self._file.path!r})"

    def __enter__(self) -> SQLiteStore:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; calls that are under way come to their end."""
        self._file.close()

    def get(self, id: str, /) -> list[Message] | None:
        """The transcript saved under `id`; `None` if there is none.

        Raises:
            StoreError: It cannot be read, or is damaged.
        """
        key = _key(id)
        recent = self._recall(key)
        stored = self._read(id, key, unless=recent.revision)
        if stored.revision != recent.revision:
            recent = _Recent(stored.revision, self._decode(id, key, stored), [len(body) for _, body in stored.rows])
        self._note(key, recent.revision, recent)
        return copied(recent.messages) if recent.revision else None

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        """Put `messages` in the place of what this object last read or wrote under `id`.

        Raises:
            ConfigurationError: There is something among them that is no message.
            ConversationConflictError: Somebody else has saved the conversation; nothing was changed.
            StoreError: It cannot be saved; nothing was changed.
        """
        messages, key = list(messages), _key(id)
        with self._file.lock:
            seen = self._seen.get(key, 0)
        recent = self._recall(key)
        if recent.revision != seen:
            recent = _Recent()
        same = unchanged(recent.messages, messages)
        bodies = _encode(id, messages, same)
        revision = self._write(id, key, seen, same, bodies)
        own = [*recent.messages[:same], *copied(messages[same:])]
        self._note(key, revision, _Recent(revision, own, [*recent.chars[:same], *map(len, bodies)]))

    def load(self, id: str, /) -> Snapshot:
        """The conversation as it is now, and its revision.

        Raises:
            StoreError: It cannot be read, or is damaged.
        """
        key = _key(id)
        stored = self._read(id, key)
        messages = self._decode(id, key, stored)
        self._note(key, stored.revision)
        return Snapshot(messages if stored.revision else None, stored.revision)

    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        """Save `messages` if the conversation is still at `base`; see `RevisionedStore.commit`.

        Raises:
            ConfigurationError: There is something among them that is no message, or the list of `base` was changed.
            ConversationConflictError: The conversation has changed since `base`; nothing was changed now.
            StoreError: It cannot be saved; nothing was changed.
        """
        messages, key = list(messages), _key(id)
        same = unchanged(base.messages or [], messages)
        revision = self._write(id, key, base.revision, same, _encode(id, messages, same), base)
        self._note(key, revision)
        return Snapshot(messages, revision)

    def ids(self) -> list[str]:
        """The ids of all conversations, sorted.

        Raises:
            StoreError: The file cannot be read.
        """
        with self._file.reading() as db:
            keys = [bytes(key) for (key,) in db.execute("SELECT id FROM conversations")]
        return sorted(key.decode("utf-8", "surrogatepass") for key in keys)

    def delete(self, id: str, /) -> None:
        """Forget the conversation, if it is there; also one that is damaged.

        Raises:
            StoreError: It cannot be deleted.
        """
        key = _key(id)
        with _about(id), self._file.writing() as db:
            row = db.execute(_FIND, (key,)).fetchone()
            if row is not None:
                db.execute("DELETE FROM messages WHERE conversation = ?", row[:1])
                db.execute("DELETE FROM conversations WHERE key = ?", row[:1])
        self._note(key, 0)

    def _read(self, id: str, key: bytes, *, unless: int = 0) -> _Stored:
        """What the file has under `key`; without its rows if it is at the revision `unless`."""
        rows: list[tuple[int, bytes]] = []
        try:
            with _about(id), self._file.reading() as db:
                conversation, revision, length = db.execute(_FIND, (key,)).fetchone() or (None, 0, 0)
                if revision != unless:
                    query = "SELECT position, body FROM messages WHERE conversation = ? ORDER BY position"
                    rows.extend(db.execute(query, (conversation,)))  # as far as a damaged file can be read
        except StoreError as error:
            raise StoreError(f"{error}, after {len(rows)} messages") from error.__cause__
        return _Stored(revision, length, rows)

    def _decode(self, id: str, key: bytes, stored: _Stored) -> list[Message]:
        messages: list[Message] = []
        try:
            for position, body in stored.rows:
                if position != len(messages):
                    break
                messages.append(read_message(body))
            if not len(messages) == len(stored.rows) == stored.length:
                raise Misfit(f"expected {stored.length!r} messages in a row, got {[p for p, _ in stored.rows]}")
        except Misfit as misfit:
            # Not read, so that no save() puts something else in its place.
            self._note(key, 0)
            where = f"conversation {id!r}, message {len(messages)} in {self._file.path}"
            raise StoreError(f"{where}: damaged, or from a newer version: {misfit}") from None
        return messages

    def _write(
        self, id: str, key: bytes, expected: object, same: int, bodies: list[str], base: Snapshot | None = None
    ) -> int:
        """Put `bodies` after the first `same` messages of the revision `expected`, and give the new one."""
        # By chance, not by counting: so none comes again, not even in a file that was restored from a copy.
        revision = int.from_bytes(os.urandom(8), "big") >> 1 or 1
        length = same + len(bodies)
        with _about(id), self._file.writing() as db:
            conversation, current, before = db.execute(_FIND, (key,)).fetchone() or (None, 0, 0)
            if current != expected:
                raise ConversationConflictError(
                    f"conversation {id!r} was saved or deleted by somebody else since it was read"
                    if expected
                    else f"conversation {id!r} is there already, and was not read before: get() it, then save()"
                )
            if base is not None:
                check_base(base, before)
            if conversation is None:
                query = "INSERT INTO conversations (id, revision, length) VALUES (?, ?, ?)"
                conversation = db.execute(query, (key, revision, length)).lastrowid
            else:
                query = "UPDATE conversations SET revision = ?, length = ? WHERE key = ?"
                db.execute(query, (revision, length, conversation))
            if same < before:
                db.execute("DELETE FROM messages WHERE conversation = ? AND position >= ?", (conversation, same))
            rows = ((conversation, same + index, body) for index, body in enumerate(bodies))
            db.executemany("INSERT INTO messages (conversation, position, body) VALUES (?, ?, ?)", rows)
        return revision

    def _recall(self, key: bytes) -> _Recent:
        with self._file.lock:
            return self._recent.get(key) or _Recent()

    def _note(self, key: bytes, revision: int, recent: _Recent | None = None) -> None:
        """Remember that `revision` was read or written; 0: nothing was, or nothing is there."""
        with self._file.lock:
            self._seen.pop(key, None)
            if revision:
                self._seen[key] = revision
                if len(self._seen) > _MAX_SEEN:
                    self._seen.popitem(last=False)
            old = self._recent.pop(key, None)
            self._recent_chars -= sum(old.chars) if old is not None else 0
            if recent is not None and revision:
                self._recent[key] = recent
                self._recent_chars += sum(recent.chars)
                while self._recent_chars > _MAX_RECENT_CHARS:
                    self._recent_chars -= sum(self._recent.popitem(last=False)[1].chars)


def _key(id: str) -> bytes:
    """The id for SQLite, which takes any bytes, but text neither with NUL nor with half a surrogate pair."""
    if not isinstance(id, str):
        raise ConfigurationError(f"id: expected a conversation id, a str, got {id!r}")
    return id.encode("utf-8", "surrogatepass")


def _encode(id: str, messages: list[Message], start: int) -> list[str]:
    bodies: list[str] = []
    try:
        for message in messages[start:]:
            bodies.append(write_message(message))
    except Misfit as misfit:
        where = f"message {start + len(bodies)}"
        raise StoreError(f"conversation {id!r}: {where} cannot be written as JSON: {misfit}") from None
    return bodies


@contextlib.contextmanager
def _about(id: str) -> Generator[None, None, None]:
    """Say which conversation it was that the file failed for."""
    try:
        yield
    except ConversationConflictError:
        raise
    except StoreError as error:
        raise StoreError(f"conversation {id!r}: {error}") from error.__cause__
