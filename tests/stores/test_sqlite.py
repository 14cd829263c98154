"""`SQLiteStore`: the file, its damage and its limits. What holds for any store is in `test_store_suite`."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.clients.harness import MODEL
from tests.server import says
from toolnexus import (
    AsyncClient,
    ConfigurationError,
    ConversationConflictError,
    Message,
    Snapshot,
    SQLiteStore,
    StoreError,
    ToolCallPart,
)
from toolnexus.stores import sqlite as module
from toolnexus.stores import sqlite_file as file_module
from toolnexus.testing.transcripts import IDS, turn

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    with SQLiteStore(path) as store:
        yield store


def sql(path: Path, *statements: str) -> list[Any]:
    """What the last statement gives, run by somebody else."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            rows = db.execute(statement).fetchall()
        return rows


def script(code: str, *arguments: str) -> str:
    """Run Python in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# The file


def test_a_store_is_found_again(path: Path):
    with SQLiteStore(path) as store:
        store.save("talk", turn(1))
    with SQLiteStore(str(path)) as again:
        assert again.get("talk") == turn(1)
        assert repr(again) == f"SQLiteStore({str(path)!r})"


def test_a_turn_is_appended_and_what_was_there_is_not_written_again(store: SQLiteStore, path: Path):
    store.save("talk", turn(1))
    sql(path, "CREATE TABLE log (what, position)")
    for event, row in (("INSERT", "NEW"), ("DELETE", "OLD"), ("UPDATE", "NEW")):
        note = f"INSERT INTO log VALUES ('{event}', {row}.position)"
        sql(path, f"CREATE TRIGGER on_{event} AFTER {event} ON messages BEGIN {note}; END")
    messages = store.get("talk")
    assert messages is not None
    store.save("talk", [*messages, *turn(2)])
    store.save("talk", [*messages, *turn(2), *turn(3)])
    base = store.load("talk")
    assert base.messages is not None
    base = store.commit("talk", base, [*base.messages, *turn(4)])
    assert base.messages is not None
    store.commit("talk", base, [*base.messages[:-1], Message("user", "Instead.")])
    appended = [("INSERT", position) for position in range(4, 16)]
    assert sql(path, "SELECT * FROM log") == [*appended, ("DELETE", 15), ("INSERT", 15)]


def test_only_its_user_may_read_the_files(store: SQLiteStore, path: Path):
    store.save("talk", turn(1))
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == [path.name, f"{path.name}-shm", f"{path.name}-wal"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3


def test_where_a_link_leads_only_its_user_may_read_either(path: Path):
    (path.parent / "link").symlink_to(path)
    with SQLiteStore(path.parent / "link") as store:
        store.save("talk", turn(1))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_closed_store_leaves_one_file(path: Path):
    with SQLiteStore(path) as store:
        store.save("talk", turn(1))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_store_that_nobody_closed_warns_of_nothing(path: Path):
    code = (
        "import sys, toolnexus; path = sys.argv[1]; toolnexus.SQLiteStore(path).save('talk', []);"
        "store = toolnexus.SQLiteStore(path); print(store.ids())"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("['talk']\n", "")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_it_writes_ahead_and_waits_for_the_disk(store: SQLiteStore, path: Path):
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]
    with store._file.reading() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_the_path_is_that_of_the_folder_of_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with SQLiteStore("talk.db") as store:
        monkeypatch.chdir(tmp_path.parent)
        store.save("talk", turn(1))
        file_module._before_fork()  # it closes its connection, and opens another
        assert store._file._idle == []
        file_module._after_fork()
        assert store.get("talk") == turn(1)
    assert (tmp_path / "talk.db").is_file()


def test_ids_are_kept_as_bytes(store: SQLiteStore, path: Path):
    for id in IDS:
        store.save(id, [])
    stored = {row[0] for row in sql(path, "SELECT id FROM conversations")}
    assert stored == {id.encode("utf-8", "surrogatepass") for id in IDS}


def test_importing_the_store_does_not_import_sqlite3_and_the_package_not_the_store():
    seen = "print('toolnexus.stores.sqlite' in sys.modules, 'sqlite3' in sys.modules)"
    assert script(f"import sys, toolnexus; {seen}; toolnexus.SQLiteStore; {seen}") == "False False\nTrue False\n"


@pytest.mark.parametrize("wrong", [None, b"x.db", 5, "", "a\0b", ":memory:"])
def test_what_is_no_path_is_refused(wrong: Any):
    with pytest.raises(ConfigurationError, match="path: expected the path of a file"):
        SQLiteStore(wrong)


@pytest.mark.parametrize("wrong", [-1, None, "5", True, float("nan"), float("inf")])
def test_what_is_no_timeout_is_refused(path: Path, wrong: Any):
    with pytest.raises(ConfigurationError, match="timeout: expected seconds"):
        SQLiteStore(path, timeout=wrong)
    assert not path.exists()


def test_what_is_no_id_is_refused(store: SQLiteStore):
    wrong: Any = 5
    for use in (store.get, store.load, store.delete, lambda id: store.save(id, [])):
        with pytest.raises(ConfigurationError, match="id: expected a conversation id, a str, got 5"):
            use(wrong)


def test_what_cannot_be_opened_says_why(tmp_path: Path):
    with pytest.raises(StoreError, match=r"no-folder/x\.db: cannot be made: No such file or directory"):
        SQLiteStore(tmp_path / "no-folder" / "x.db")
    with pytest.raises(StoreError, match="expected a file, got a folder"):
        SQLiteStore(tmp_path)
    (tmp_path / "hosts").write_text("a text that is longer than the head of a database " * 20)
    with pytest.raises(StoreError, match="hosts: not a SQLite database"):
        SQLiteStore(tmp_path / "hosts")
    assert (tmp_path / "hosts").read_text().startswith("a text")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreError, match=r"loop: cannot be opened \(unable to open database file\)"):
        SQLiteStore(tmp_path / "loop")


def test_an_empty_file_is_a_new_store(path: Path):
    path.touch()
    with SQLiteStore(path) as store:
        assert store.ids() == []


def test_a_newer_file_is_refused_and_left_as_it_is(path: Path):
    with SQLiteStore(path) as store:
        store.save("talk", turn(1))
    sql(path, "PRAGMA user_version = 2")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="expected version 1 of a conversation store, got 2; a newer toolnexus"):
        SQLiteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE theirs (x)", "PRAGMA user_version = 7", "PRAGMA application_id = 7"]
)
def test_the_database_of_another_program_is_refused_and_left_as_it_is(path: Path, statement: str):
    sql(path, statement)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="the database of another program; give the store a file of its own"):
        SQLiteStore(path)
    assert path.read_bytes() == before


def test_a_closed_store_says_so(path: Path):
    store = SQLiteStore(path)
    store.close()
    store.close()
    for use in (store.ids, lambda: store.get("talk"), lambda: store.save("talk", [])):
        with pytest.raises(StoreError, match="the store is closed"):
            use()


def test_a_call_under_way_ends_well_when_the_store_is_closed(path: Path):
    store = SQLiteStore(path)
    with store._file.writing() as db:
        store.close()
        db.execute("CREATE TABLE more (x)")
    assert sql(path, "SELECT count(*) FROM more") == [(0,)]
    with pytest.raises(sqlite3.ProgrammingError):  # it was closed when it came back
        db.execute("SELECT 1")


# Revisions


def test_a_save_over_what_was_never_read_is_a_conflict(store: SQLiteStore, path: Path):
    store.save("talk", turn(1))
    with SQLiteStore(path) as other:
        with pytest.raises(ConversationConflictError) as caught:
            other.save("talk", turn(2))
        assert str(caught.value) == (
            "conversation 'talk' is there already, and was not read before: get() it, then save()"
        )
        assert other.get("talk") == turn(1)
        other.save("talk", turn(2))
        with pytest.raises(ConversationConflictError) as caught:
            store.save("talk", turn(3))
        assert str(caught.value) == "conversation 'talk' was saved or deleted by somebody else since it was read"
        other.delete("talk")
        with pytest.raises(ConversationConflictError):
            store.save("talk", turn(3))
        assert store.get("talk") is None
        store.save("talk", turn(3))


def test_what_load_saw_save_may_replace(store: SQLiteStore, path: Path):
    with SQLiteStore(path) as other:
        other.save("talk", turn(1))
    store.load("talk")
    store.save("talk", turn(2))
    snapshot = store.commit("talk", store.load("talk"), turn(3))
    store.save("talk", turn(4))
    with pytest.raises(ConversationConflictError):
        store.commit("talk", snapshot, turn(5))
    assert store.get("talk") == turn(4)


def test_only_so_many_conversations_are_remembered(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MAX_SEEN", 3)
    for number in range(4):
        store.save(str(number), turn(number))
    with pytest.raises(ConversationConflictError, match="get\\(\\) it, then save"):
        store.save("0", turn(9))
    for number in range(1, 4):
        store.save(str(number), turn(9))
    assert store.get("0") == turn(0)
    store.save("0", turn(9))


def test_conversations_too_large_to_be_remembered_are_saved_all_the_same(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "_MAX_RECENT_CHARS", 1000)
    small, large = [Message("user", "x" * 400)], [Message("user", "x" * 4000)]
    for id, messages in (("a", small), ("b", small), ("c", small), ("d", large)):
        store.save(id, messages)
        assert store._recent_chars == sum(sum(recent.chars) for recent in store._recent.values()) <= 1000
    assert list(store._recent) == []
    for id, messages in (("a", small), ("b", small), ("c", small), ("d", large)):
        store.save(id, [*messages, *turn(1)])
        assert store.get(id) == [*messages, *turn(1)]
        store.delete("a")
        assert store._recent_chars == sum(sum(recent.chars) for recent in store._recent.values())
    assert store.get("a") is None


def test_a_base_whose_list_was_changed_is_refused(store: SQLiteStore):
    base = store.commit("talk", Snapshot(None, 0), turn(1))
    assert base.messages is not None
    base.messages.extend(turn(2))
    with pytest.raises(ConfigurationError, match="expected the 4 messages that the store gave, got 8"):
        store.commit("talk", base, base.messages)
    assert store.get("talk") == turn(1)


def test_what_json_cannot_say_is_refused_and_changes_nothing(store: SQLiteStore):
    base = store.commit("talk", Snapshot(None, 0), turn(1))
    bad = Message("assistant", [ToolCallPart("c", "look", {"at": {object()}})])
    for save in (lambda: store.save("talk", [*turn(1), bad]), lambda: store.commit("talk", base, [*turn(1), bad])):
        with pytest.raises(StoreError) as caught:
            save()
        assert str(caught.value) == (
            "conversation 'talk': message 4 cannot be written as JSON: parts[0].args['at']: expected a JSON value,"
            " got a set"
        )
    assert store.get("talk") == turn(1)
    dicts: Any = [{"role": "user"}]
    with pytest.raises(ConfigurationError, match="expected Message objects, got a dict"):
        store.save("talk", dicts)


# Damage


@pytest.mark.parametrize(
    ("statement", "index", "said"),
    [
        ("UPDATE messages SET body = substr(body, 1, 20) WHERE position = 2", 2, "expected JSON"),
        ("UPDATE messages SET body = '{}' WHERE position = 0", 0, "Message needs 'role'"),
        ("UPDATE messages SET body = '7' WHERE position = 0", 0, "expected a dict, got an int"),
        ("UPDATE messages SET body = CAST(x'FF' AS TEXT) WHERE position = 3", 3, "expected JSON: 'utf-8'"),
        ("UPDATE messages SET body = x'00' WHERE position = 3", 3, "expected JSON"),
        (
            """UPDATE messages SET body = replace(body, '"text":"An', '"sound":1,"text":"An') WHERE position = 3""",
            3,
            "parts[0]: TextPart has no 'sound'",
        ),
        ("DELETE FROM messages WHERE position = 1", 1, "expected 4 messages in a row, got [0, 2, 3]"),
        ("DELETE FROM messages WHERE position = 3", 3, "expected 4 messages in a row, got [0, 1, 2]"),
        ("UPDATE messages SET position = 9 WHERE position = 3", 3, "expected 4 messages in a row, got [0, 1, 2, 9]"),
        ("UPDATE conversations SET length = 3 WHERE length = 4", 4, "expected 3 messages in a row, got [0, 1, 2, 3]"),
        ("UPDATE conversations SET length = 'x' WHERE length = 4", 4, "expected b'x' messages in a row"),
    ],
)
def test_a_damaged_conversation_is_named_and_nothing_is_put_in_its_place(
    path: Path, statement: str, index: int, said: str
):
    with SQLiteStore(path) as store:
        store.save("talk", turn(1))
        store.save("other", turn(2))
    column = "key" if "conversations SET" in statement else "conversation"
    sql(path, f"{statement} AND {column} = (SELECT key FROM conversations WHERE id = x'74616c6b')")
    everything = "SELECT conversation, position, CAST(body AS BLOB) FROM messages"
    rows = sql(path, everything)
    with SQLiteStore(path) as store:
        for read in (store.get, store.load):
            with pytest.raises(StoreError) as caught:
                read("talk")
            where = f"conversation 'talk', message {index} in {path}"
            assert str(caught.value).startswith(f"{where}: damaged, or from a newer version: {said}")
            with pytest.raises(ConversationConflictError, match="was not read before"):
                store.save("talk", turn(3))
        assert sql(path, everything) == rows
        assert store.get("other") == turn(2)
        assert store.ids() == ["other", "talk"]
        store.delete("talk")
        store.save("talk", turn(3))
        assert store.get("talk") == turn(3)


def test_damage_found_later_ends_saving_over_it(store: SQLiteStore, path: Path):
    store.save("talk", turn(1))
    sql(path, "UPDATE messages SET body = 'x' WHERE position = 0")
    with pytest.raises(StoreError, match="message 0"):
        store.load("talk")
    with pytest.raises(ConversationConflictError):
        store.save("talk", turn(2))


def test_a_damaged_file_is_named_with_the_conversation(path: Path):
    with SQLiteStore(path) as store:
        store.save("talk", [Message("user", f"{n}" * 3000) for n in range(100)])
    data = bytearray(path.read_bytes())
    noise = random.Random(1)
    for start in range(len(data) // 2, len(data) * 3 // 4):
        data[start] = noise.randrange(256)
    path.write_bytes(data)
    with SQLiteStore(path) as store:
        with pytest.raises(StoreError, match=r"conversation 'talk'(: .*: damaged \(|, message \d+ in)"):
            store.get("talk")
        with pytest.raises(StoreError):
            store.save("talk", turn(1))
    assert path.read_bytes() == bytes(data)


@pytest.mark.parametrize("kept", [1, 50, 99, 100, 4095, 4096, 8192, 20_000])
def test_a_file_that_was_cut_is_refused_or_its_loss_is_named(path: Path, kept: int):
    with SQLiteStore(path) as store:
        store.save("talk", [Message("user", f"{n}" * 3000) for n in range(30)])
    path.write_bytes(path.read_bytes()[:kept])

    def use() -> None:
        with SQLiteStore(path) as store:
            assert store.get("talk") is not None

    with pytest.raises(StoreError, match=r"damaged|missing"):
        use()


# Others


def test_a_lock_that_somebody_holds_too_long_is_named(path: Path):
    with SQLiteStore(path, timeout=0.05) as store:
        store.save("talk", turn(1))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError) as caught:
                store.save("talk", turn(2))
            assert str(caught.value) == f"conversation 'talk': {path}: locked by somebody else for more than 0.05 s"
            assert not isinstance(caught.value, ConversationConflictError)
            assert store.get("talk") == turn(1)  # reading needs no lock
            other.execute("ROLLBACK")
        store.save("talk", turn(2))
        assert store.get("talk") == turn(2)


def test_opening_waits_for_others_and_not_for_ever(path: Path):
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"locked by somebody else for more than 0\.05 s"):
            SQLiteStore(path, timeout=0.05)
        opened: list[SQLiteStore] = []
        thread = threading.Thread(target=lambda: opened.append(SQLiteStore(path)))
        thread.start()
        thread.join(0.05)
        other.execute("ROLLBACK")
        thread.join()
        opened[0].save("talk", turn(1))
        opened[0].close()


def test_a_read_that_failed_forgets_nothing(store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch):
    store.save("talk", turn(1))
    monkeypatch.setattr(store._file, "_take", unavailable)
    with pytest.raises(StoreError, match=r"^conversation 'talk': .*OperationalError: no disk, after 0 messages$"):
        store.get("talk")
    monkeypatch.undo()
    store.save("talk", turn(2))


def unavailable() -> None:
    raise sqlite3.OperationalError("no disk")


def test_the_change_to_wal_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if other.in_transaction:
                other.execute("ROLLBACK")

        monkeypatch.setattr("toolnexus.stores.sqlite_file.time.sleep", sleep)
        with SQLiteStore(path) as store:
            assert slept
            store.save("talk", turn(1))
            assert sql(path, "PRAGMA journal_mode") == [("wal",)]


def test_two_may_open_a_new_file_at_once(path: Path, monkeypatch: pytest.MonkeyPatch):
    use_wal = file_module.SQLiteFile._use_wal
    others: list[SQLiteStore] = []

    def after_another(self: Any, db: sqlite3.Connection) -> None:
        monkeypatch.undo()
        others.append(SQLiteStore(path))  # between our look at the empty file and our making of tables
        others[0].save("talk", turn(1))
        use_wal(self, db)

    monkeypatch.setattr(file_module.SQLiteFile, "_use_wal", after_another)
    with SQLiteStore(path) as store:
        assert store.get("talk") == turn(1)
    others[0].close()


def test_a_store_that_is_let_go_of_is_closed(path: Path):
    store = SQLiteStore(path)
    (connection,) = store._file._idle
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_an_interrupt_in_a_transaction_leaves_nothing_of_it(store: SQLiteStore):
    store.save("talk", turn(1))

    def interrupted() -> None:
        with store._file.writing() as db:
            db.execute("DELETE FROM messages")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store.get("talk") == turn(1)
    store.save("talk", turn(2))


def test_a_connection_that_cannot_roll_back_is_given_up(store: SQLiteStore):
    store.save("talk", turn(1))

    def broken() -> None:
        with store._file.writing() as db:
            db.execute("DELETE FROM messages")
            db.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)  # no statement any more, a rollback neither
            db.execute("COMMIT")

    with pytest.raises(StoreError, match="not authorized"):
        broken()
    assert store.get("talk") == turn(1)


def test_many_threads_use_one_store_and_few_connections_stay(store: SQLiteStore):
    together = threading.Barrier(12)
    errors: list[BaseException] = []

    def talk(number: int) -> None:
        try:
            with store._file.reading():
                together.wait(30)  # twelve connections at once
            messages: list[Message] = []
            for count in range(4):
                messages = [*messages, *turn(count)]
                store.save(f"talk {number}", messages)
                assert store.get(f"talk {number}") == messages
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.ids()) == 12
    assert 1 <= len(store._file._idle) <= 4


def test_the_async_client_keeps_a_conversation_in_it(store: SQLiteStore, serve: Callable[..., Any]):
    async def main() -> None:
        async with AsyncClient(base_url=server.url, model=MODEL, store=store) as client:
            await asyncio.gather(client.ask("One?", id="a"), client.ask("Two?", id="b"))
            await client.ask("Three?", id="a")

    server = serve(says("Yes."), says("Yes."), says("Yes."))
    asyncio.run(main())
    assert [len(store.get(id) or ()) for id in "ab"] == [4, 2]


# Full and read-only disks, and forks, each in a process of its own


FULL = """
import resource, sys
from toolnexus import Message, SQLiteStore, StoreError
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
with SQLiteStore(sys.argv[1]) as store:
    messages = [Message("user", "x" * 5000)]
    store.save("talk", messages)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))  # no file may grow beyond this
    while True:
        try:
            store.save("talk", [*messages, Message("user", "y" * 20_000)])
        except StoreError as error:
            print(error)
            break
        messages = store.get("talk")
    assert store.get("talk") == messages and len(messages) > 3
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.save("talk", [*messages, Message("user", "z")])
    messages = store.get("talk")
with SQLiteStore(sys.argv[1]) as store:
    assert store.get("talk") == messages and messages[-1].text == "z"
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs setrlimit")
def test_a_full_disk_is_named_and_what_was_saved_stays(path: Path):
    said = script(FULL, str(path))
    assert said.startswith(f"conversation 'talk': {path}: the disk f"), said  # "is full" or "failed", as SQLite sees it


READ_ONLY = """
import os, sqlite3, sys
from toolnexus import SQLiteStore, StoreError, Message
if os.geteuid() == 0:  # who may do everything
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with SQLiteStore(sys.argv[1]) as store:
        store.save("new", [Message("user", "Hi.")])
except StoreError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
@pytest.mark.parametrize("folder_mode", [0o555, 0o777], ids=["folder and file", "file"])
def test_a_file_that_may_not_be_written_is_named_and_stays_as_it_is(path: Path, folder_mode: int):
    with SQLiteStore(path) as store:
        store.save("talk", turn(1))
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to others
        copy = Path(folder) / "talk.db"
        shutil.copy(path, copy)
        copy.chmod(0o444)
        os.chmod(folder, folder_mode)
        try:
            said = script(READ_ONLY, str(copy))
            assert str(copy) in said
            assert "may not be written" in said or "cannot be opened" in said
            assert copy.read_bytes() == path.read_bytes()
        finally:
            os.chmod(folder, 0o777)


FORK = """
import os, sys, threading
from toolnexus import Message, SQLiteStore, StoreError

path = sys.argv[1]
store = SQLiteStore(path, timeout=0.1)
store.save("talk", [Message("user", "parent")])
inside, go = threading.Event(), threading.Event()

def hold():
    with store._file.writing() as db:
        db.execute("UPDATE conversations SET length = length")
        inside.set()
        go.wait()

holder = threading.Thread(target=hold)
holder.start()
inside.wait()
store.get("talk")  # one connection is idle, one holds the lock

def child(name):
    # No connection that was idle is here any more, and the parent's lock is.
    assert store._file._idle == []
    assert [m.text for m in store.get("talk")] == ["parent"]
    try:
        store.save(name, [])
        os._exit(1)
    except StoreError as error:
        assert "locked" in str(error), error
    sys.exit(0)  # with all that Python does at its end

for name in ("one", "two"):  # the first one's end does not end the parent's lock, as the second one sees
    pid = os.fork()
    if pid == 0:
        child(name)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, name
go.set()
holder.join()
pid = os.fork()
if pid == 0:
    store.save("talk", [*store.get("talk"), Message("user", "child")])
    store.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert [m.text for m in store.get("talk")] == ["parent", "child"]
store.save("talk", [*store.get("talk"), Message("user", "parent again")])
with store._file.reading() as db:
    assert db.execute("PRAGMA integrity_check").fetchone() == (b"ok",)
print([m.text for m in store.get("talk")], store.ids())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_connections_of_its_own_and_leaves_the_parents_alone(path: Path):
    assert script(FORK, str(path)) == "['parent', 'child', 'parent again'] ['talk']\n"
