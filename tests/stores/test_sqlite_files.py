"""The SQLite engine's file: private, known, never another's, waited for when busy."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from offprompt.errors import BackendError
from offprompt.protocols import run
from offprompt.records import EraseSlots, Scope, SessionChange, SessionRecord
from offprompt.stores._sqlite_files import network_drive
from offprompt.stores._sqlite_schema import APPLICATION_ID, FORMAT, MIGRATIONS
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE, get, put, value_of


def opened(path: Path, **options: float) -> SqliteStore:
    return SqliteStore(path, clock=MovedClock(), **options)  # type: ignore[arg-type]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_made_folders_are_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    mask = os.umask(0)
    try:
        store = opened(tmp_path / "a" / "b" / "agent.db")
        put(store, "v", 1)
    finally:
        os.umask(mask)
    assert [mode_of(tmp_path / "a"), mode_of(tmp_path / "a" / "b")] == [0o700, 0o700]
    assert mode_of(tmp_path) == 0o755
    files = sorted((tmp_path / "a" / "b").iterdir())
    assert [file.name for file in files] == ["agent.db", "agent.db-shm", "agent.db-wal"]
    assert [mode_of(file) for file in files] == [0o600] * 3
    store.close()


def test_durability_is_what_was_asked_for(tmp_path: Path) -> None:
    for durability, level in (("full", 2), ("process", 1)):
        store = SqliteStore(tmp_path / durability, clock=MovedClock(), durability=durability)  # type: ignore[arg-type]
        pragmas = ("synchronous", "journal_mode", "secure_delete", "application_id", "user_version")
        with store._db._lent() as connection:  # pyright: ignore[reportPrivateUsage]
            found = [connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas]
        assert found == [level, "wal", 1, APPLICATION_ID, FORMAT]
        store.close()


def test_what_was_written_is_there_when_opened_again(tmp_path: Path) -> None:
    store = opened(tmp_path / "agent.db")
    put(store, "名", {"城": "上海"}, tags=("t",))
    key = store.digest_key(ALICE)
    store.close()
    again = opened(tmp_path / "agent.db")
    assert value_of(again, "名") == {"城": "上海"}
    assert again.digest_key(ALICE) == key
    again.close()


@pytest.mark.parametrize("content", [b"x", b"# notes\n" * 40, b"SQLite format 3\x00", b"SQLite format 3"], ids=len)
def test_a_file_that_is_no_sqlite_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(BackendError, match=r"notes.txt is not an Offprompt store"):
        opened(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_another_programs_sqlite_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE slots (x)")
        other.execute("PRAGMA application_id = 4711")
    content, made = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(BackendError, match=r"theirs.db is the SQLite file of another program"):
        opened(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, made)
    assert list(tmp_path.iterdir()) == [path]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    opened(path).close()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {FORMAT + 1}")
    content = path.read_bytes()
    with pytest.raises(BackendError, match=f"format {FORMAT + 1}.*install a newer offprompt"):
        opened(path)
    assert path.read_bytes() == content


def test_a_folder_and_a_place_without_rights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="not a plain file"):
        opened(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BackendError, match="cannot be opened"):
        opened(tmp_path / "file" / "agent.db")


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "agent.db").touch()
    store = opened(tmp_path / "agent.db")
    put(store, "v", 1)
    assert value_of(store, "v") == 1
    store.close()


def test_a_damaged_file_is_a_backend_error(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    store = opened(path)
    for number in range(60):
        put(store, f"s{number}", "x" * 3000)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with (
        pytest.raises(BackendError, match=r"agent.db failed: .*; .*(restore a backup|doctor)"),
        contextlib.closing(opened(path)) as again,
    ):
        get(again, "s1")


def test_a_removed_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    store = opened(path)
    put(store, "v", 1)
    path.rename(tmp_path / "moved.db")
    with pytest.raises(BackendError, match="removed or replaced"):
        put(store, "v", 2)
    opened(path).close()
    with pytest.raises(BackendError, match="removed or replaced"):
        get(store, "v")
    store.close()


def test_a_busy_store_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, waits = tmp_path / "agent.db", threading.Event()

    def pause(shortest: float, longest: float) -> float:
        waits.set()
        return (shortest + longest) / 2

    monkeypatch.setattr("offprompt.stores._sqlite_connection.random.uniform", pause)
    store = opened(path)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    thread = threading.Thread(target=lambda: put(store, "v", "written"))
    thread.start()
    assert waits.wait(30)
    assert get(store, "v") is None
    other.execute("COMMIT")
    thread.join()
    other.close()
    assert value_of(store, "v") == "written"
    store.close()


def test_a_store_that_stays_busy_is_a_backend_error_in_our_words(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    store = opened(path, busy_timeout_s=0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BackendError, match=r"busy .* 0\.1 s.*busy_timeout_s") as caught:
        put(store, "v", 1)
    assert "locked" not in str(caught.value)
    other.close()
    assert put(store, "v", 1).version == 1
    store.close()


def test_opening_a_file_that_others_make_is_waited_for(tmp_path: Path) -> None:
    path, errors = tmp_path / "agent.db", list[BaseException]()
    start = threading.Barrier(12)

    def work(number: int) -> None:
        start.wait()
        try:
            store = opened(path)
            put(store, "v", number, Scope(user=f"u{number}"))
            store.close()
        except BaseException as exc:  # noqa: BLE001 - handed to the test's own thread
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    store = opened(path)
    assert [value_of(store, "v", Scope(user=f"u{number}")) for number in range(12)] == list(range(12))
    store.close()


def test_a_failed_commit_leaves_no_transaction_open(tmp_path: Path) -> None:
    store = opened(tmp_path / "agent.db")

    class Interrupt(BaseException):
        pass

    class Clock(MovedClock):
        def now(self) -> float:
            raise Interrupt

    clock, store._clock = store._clock, Clock()  # pyright: ignore[reportPrivateUsage]
    for _ in range(3):
        with pytest.raises(Interrupt):
            put(store, "v", 1)
    store._clock = clock  # pyright: ignore[reportPrivateUsage]
    assert get(store, "v") is None
    assert put(store, "v", 2).version == 1
    store.close()


def test_what_is_erased_is_in_no_file(tmp_path: Path) -> None:
    store = opened(tmp_path / "agent.db")
    for version in range(3):
        put(store, "secret", f"opensesame{version} " * 200)
    put(store, "kept", "visible")
    run(store, EraseSlots(ALICE, ("secret",)))
    session = ALICE.narrow(session="s")
    store.commit(SessionChange(SessionRecord(session, model="opensesame", revision=1)))
    store.drop_sessions()
    everything = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"opensesame" not in everything
    assert b"visible" in everything
    store.close()


MOUNTS = (
    "/dev/vda / ext4 rw 0 0\n"
    "server:/home /home nfs4 rw 0 0\n"
    "/dev/vdb /home/local\\040disk ext4 rw 0 0\n"
    "//nas/x /mnt/nas cifs rw 0 0\n"
    "me@host: /mnt/nas/far fuse.sshfs rw 0 0\n"
    "tmpfs /mnt/nas/far tmpfs rw 0 0\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/agent.db", ""),
        ("/home/me/agent.db", "nfs4"),
        ("/home/local disk/agent.db", ""),
        ("/homes/agent.db", ""),
        ("/mnt/nas/agent.db", "cifs"),
        ("/mnt/nas/far/agent.db", ""),
    ],
)
def test_network_drives_are_known(path: str, kind: str) -> None:
    assert network_drive(Path(path), MOUNTS) == kind


def test_a_network_drive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/ {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr("offprompt.stores._sqlite_files.MOUNTS", mounts)
    with pytest.raises(BackendError, match=r"network drive \(nfs\).*local disk"):
        opened(tmp_path / "new" / "agent.db")
    assert not (tmp_path / "new").exists()


def test_a_migration_that_fails_leaves_the_old_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.db"
    store = opened(path)
    put(store, "v", 1)
    store.close()
    schema = "offprompt.stores._sqlite_schema"
    monkeypatch.setattr(f"{schema}.FORMAT", FORMAT + 1)
    monkeypatch.setattr(f"{schema}.MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE brand_new (x)", "CREATE TABLE slots (x)")))
    with pytest.raises(BackendError, match="slots"):
        opened(path)
    monkeypatch.setattr(f"{schema}.MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE brand_new (x)",)))
    store = opened(path)
    assert value_of(store, "v") == 1
    store.close()
    monkeypatch.undo()
    with pytest.raises(BackendError, match=f"format {FORMAT + 1}"):
        opened(path)
