"""A folder held open, and what can be done with the names in it. No name is ever a path, and no link is followed.

Where the platform can (Linux, macOS, the BSDs) a folder is a file descriptor, and each name is looked up in that very
folder: swapping a folder for a link meanwhile changes nothing, because the way to it is not walked again. Windows
has no such calls. There each name is looked at before it is opened, and compared after; whoever swaps folders for
links between the two can win.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Self

from .refusal import MissingError, RefusedError

HAS_DIR_FD = (
    hasattr(os, "O_NOFOLLOW")
    and {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
)

# O_NONBLOCK: opening a FIFO without a writer would wait for ever. O_NOCTTY: a terminal must not become ours.
_CAREFULLY = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_PERMISSIONS = 0o777  # without set-user-id and its like: what a model writes must not run as somebody else
_REASONS = {
    errno.ENOTDIR: "is no folder, or a link; links are not followed",
    errno.ELOOP: "is a link; links are not followed",
    errno.ENAMETOOLONG: "has too long a name",
    errno.EACCES: "may not be opened",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a folder."""

    name: str
    is_folder: bool = False
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """What a file held, and the file's state at that moment."""

    data: bytes
    state: os.stat_result


class Folder:
    """An open folder; close it, or use it with `with`."""

    def __init__(self, place: str, path: str, fd: int | None) -> None:
        self._place = place
        self._path = path
        self._fd = fd

    @classmethod
    def top(cls, place: str) -> Self:
        """Open the folder at an absolute path without links in it.

        Raises:
            OSError: It is none.
        """
        if HAS_DIR_FD:
            return cls(place, "", os.open(place, os.O_RDONLY | os.O_DIRECTORY | _CAREFULLY))
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)
        return cls(place, "", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it; may be called again."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def path(self, name: str) -> str:
        """The path of `name` from the root, with `/`."""
        return f"{self._path}{name}"

    def folder(self, name: str) -> Folder:
        """Open a folder in this one.

        Raises:
            RefusedError: It is none, or a link.
        """
        if not self.is_folder(name):
            raise RefusedError(f"{self.path(name)!r} is no folder")
        with self._telling(name):
            fd = None
            if self._fd is not None:  # by the flags, nothing that took the folder's place meanwhile is opened
                fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _CAREFULLY, dir_fd=self._fd)
            return Folder(os.path.join(self._place, name), f"{self.path(name)}/", fd)

    def is_folder(self, name: str) -> bool:
        """Whether something is a folder.

        Raises:
            RefusedError: There is nothing, or a link.
        """
        return stat.S_ISDIR(self._must_exist(name).st_mode)

    def make(self, name: str) -> None:
        """Make a folder in this one, unless something of that name is there."""
        with self._telling(name), suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._fd)

    def state(self, name: str) -> os.stat_result | None:
        """The state of a regular file, seen from outside; `None` where there is nothing.

        Raises:
            RefusedError: It is a link, a folder, a device or anything else but a file.
        """
        with self._telling(name):
            try:
                state = os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)
            except FileNotFoundError:
                return None
        self._must_be_a_file(name, state)
        return state

    def read(self, name: str, limit: int, *, hard_links: bool = False) -> Content:
        """Read a regular file of at most `limit` bytes.

        Raises:
            RefusedError: It is missing, larger, or no regular file; or it has a second name, which may be outside
                of the root, and `hard_links` does not allow that.
        """
        seen = self._must_exist(name)
        self._must_be_a_file(name, seen)  # looked at before opening: opening a device can do something already
        with self._telling(name), self._opened(name, os.O_RDONLY) as fd:
            state = os.fstat(fd)
            self._must_be_a_file(name, state)
            if (state.st_dev, state.st_ino) != (seen.st_dev, seen.st_ino):
                raise RefusedError(f"{self.path(name)!r} was replaced while it was opened; try again")
            if state.st_nlink > 1 and not hard_links:
                raise RefusedError(f"{self.path(name)!r} is a hard link; its other name may be outside of the root")
            with open(fd, "rb", closefd=False) as file:
                data = file.read(limit + 1)  # the size in `state` is no bound: a file can grow
        if len(data) > limit:
            raise RefusedError(f"{self.path(name)!r} is larger than {limit} bytes")
        return Content(data, state)

    def write(
        self,
        name: str,
        data: bytes,
        seen: os.stat_result | None,
        may_go_on: Callable[[], object],
        *,
        like: os.stat_result | None = None,
    ) -> None:
        """Write a file whole or not at all: a temporary file beside it takes its place when all is on the disk.

        Permissions are kept, and the owner where we may; a hard link is cut off, its other names keep what was there.
        A process that is killed meanwhile can leave the temporary file, `.toolnexus-….tmp`.

        Args:
            name: The file; there must be none, or a regular one that may be written.
            data: All it will hold.
            seen: Its `state` when the caller began; `None` for a new one.
            may_go_on: Called when all is ready; what it raises keeps the file as it was.
            like: Whose permissions and owner a new file gets, if not the usual ones.

        Raises:
            RefusedError: It changed since, is read-only, or cannot be written.
        """
        if seen is not None and not seen.st_mode & 0o222:
            raise RefusedError(f"{self.path(name)!r} is read-only")
        temporary = f".toolnexus-{secrets.token_hex(8)}.tmp"
        like = seen or like
        mode = 0o666 if like is None else 0o600  # less the umask; the one it is like hands on its own
        with self._telling(name):
            try:
                with self._opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode) as fd:
                    with open(fd, "wb", closefd=False) as file:
                        file.write(data)
                    if like is not None:
                        _hand_on(fd, like)
                    os.fsync(fd)
                may_go_on()
                if _mark(self.state(name)) != _mark(seen):
                    raise RefusedError(f"{self.path(name)!r} was changed by somebody else meanwhile; read it again")
                os.replace(self._at(temporary), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(self._at(temporary), dir_fd=self._fd)
                raise
            self._sync()

    def remove(self, name: str, seen: os.stat_result) -> None:
        """Remove a regular file that is as the caller saw it.

        Raises:
            RefusedError: It changed since, or cannot be removed.
        """
        if _mark(self.state(name)) != _mark(seen):
            raise RefusedError(f"{self.path(name)!r} was changed by somebody else meanwhile; read it again")
        with self._telling(name):
            os.unlink(self._at(name), dir_fd=self._fd)
            self._sync()

    def entries(self, limit: int) -> list[Entry]:
        """The names in it, sorted; at most `limit`, and then it is chance which.

        Raises:
            RefusedError: It cannot be read.
        """
        with self._telling("."), os.scandir(self._place if self._fd is None else self._fd) as found:
            entries = [
                Entry(entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink())
                for entry in islice(found, limit)
            ]
        return sorted(entries, key=lambda entry: entry.name)

    @contextmanager
    def _opened(self, name: str, flags: int, mode: int = 0) -> Generator[int]:
        fd = os.open(self._at(name), flags | _CAREFULLY, mode, dir_fd=self._fd)
        try:
            yield fd
        finally:
            os.close(fd)

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._place, name)

    def _must_exist(self, name: str) -> os.stat_result:
        with self._telling(name):
            state = os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)
        if _is_link(state):
            raise RefusedError(f"{self.path(name)!r} {_REASONS[errno.ELOOP]}")
        return state

    def _must_be_a_file(self, name: str, state: os.stat_result) -> None:
        if _is_link(state):
            raise RefusedError(f"{self.path(name)!r} {_REASONS[errno.ELOOP]}")
        if stat.S_ISDIR(state.st_mode):
            raise RefusedError(f"{self.path(name)!r} is a folder")
        if not stat.S_ISREG(state.st_mode):
            raise RefusedError(f"{self.path(name)!r} is no regular file, but a device, a pipe or a socket")

    def _sync(self) -> None:
        """Have the names on the disk too; where a folder cannot be synced, that is up to the platform."""
        if self._fd is not None:
            with suppress(OSError):
                os.fsync(self._fd)

    @contextmanager
    def _telling(self, name: str) -> Generator[None]:
        """Say to the model what the system said; it must not see where the root is."""
        try:
            yield
        except FileNotFoundError as error:
            raise MissingError(f"{self.path(name)!r} does not exist") from error
        except OSError as error:
            reason = _REASONS.get(error.errno or 0) or f"cannot be used: {error.strerror}"
            raise RefusedError(f"{self.path(name)!r} {reason}") from error


def _is_link(state: os.stat_result) -> bool:
    """Also Windows' junctions, which are reparse points but no symbolic links."""
    return stat.S_ISLNK(state.st_mode) or bool(getattr(state, "st_reparse_tag", 0))


def _mark(state: os.stat_result | None) -> tuple[int, ...] | None:
    return None if state is None else (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)


def _hand_on(fd: int, like: os.stat_result) -> None:
    """Give a file the owner and the permissions of another; the owner first, for that clears some permissions."""
    if hasattr(os, "fchown"):
        with suppress(OSError):  # only the superuser may give files away
            os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, stat.S_IMODE(like.st_mode) & _PERMISSIONS)
