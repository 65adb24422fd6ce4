"""Backup, restore, doctor and sweep."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from offprompt.errors import BackendError, UnsupportedError, UsageError
from offprompt.records import PutSlot, Scope, SessionChange, SessionRecord
from offprompt.service.maintenance import Swept, backup, doctor, restore, sweep
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE, forget, get, history, names_of, put, value_of


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(tmp_path: Path, clock: MovedClock) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "live" / "agent.db", clock=clock)
    yield store
    store.close()


def state_of(store: SqliteStore, name: str, *, fix: bool = False) -> list[tuple[str, str]]:
    findings = doctor(store, fix=fix).findings
    return [(finding.state, finding.what) for finding in findings if finding.name == name]


def test_a_backup_is_a_private_single_file_with_everything(store: SqliteStore, tmp_path: Path) -> None:
    put(store, "名", "上海")
    put(store, "名", "北京")
    get(store, "名", touch=True)
    target = tmp_path / "copies" / "b.db"
    assert backup(store, target) == target.stat().st_size
    assert [file.name for file in target.parent.iterdir()] == ["b.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    put(store, "名", "later")
    copy = SqliteStore(target, clock=MovedClock())
    assert [version.value for version in history(copy, "名")] == ["上海", "北京"]
    slot = get(copy, "名")
    assert slot is not None
    assert slot.uses == 1
    assert doctor(copy).is_sound
    copy.close()


def test_a_backup_does_not_overwrite(store: SqliteStore, tmp_path: Path) -> None:
    target = tmp_path / "b.db"
    target.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        backup(store, target)
    assert target.read_text() == "mine"
    with pytest.raises(UsageError, match="store itself"):
        backup(store, store.path, overwrite=True)
    with pytest.raises(UsageError, match="is a folder"):
        backup(store, tmp_path, overwrite=True)
    assert backup(store, target, overwrite=True) > 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["b.db", "live"]


def test_a_backup_that_cannot_be_written_leaves_nothing(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BackendError, match="cannot be written"):
        backup(store, tmp_path / "file" / "b.db")


def test_a_backup_of_a_damaged_store_is_refused(tmp_path: Path, clock: MovedClock) -> None:
    path = tmp_path / "agent.db"
    store = SqliteStore(path, clock=clock)
    put(store, "a", 1)
    store.close()
    content = path.read_bytes()
    path.write_bytes(content[:39] + b"\x07" + content[40:])
    store = SqliteStore(path, clock=clock)
    with pytest.raises(BackendError, match="not sound"):
        backup(store, tmp_path / "b.db")
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["agent.db"]


def test_backups_while_others_write(store: SqliteStore, tmp_path: Path) -> None:
    over = threading.Event()

    def work() -> None:
        number = 0
        while not over.is_set():
            number += 1
            store.batch([PutSlot(ALICE, "a", number, "by_handle"), PutSlot(ALICE, "b", number, "by_handle")])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for number in range(5):
            backup(store, tmp_path / f"{number}.db")
    finally:
        over.set()
        thread.join()
    for number in range(5):
        copy = SqliteStore(tmp_path / f"{number}.db", clock=MovedClock())
        assert doctor(copy).is_sound
        assert value_of(copy, "a") == value_of(copy, "b")
        copy.close()


def test_restore_brings_back_all_of_it_to_everyone(store: SqliteStore, tmp_path: Path, clock: MovedClock) -> None:
    put(store, "a", 1)
    store.commit(SessionChange(SessionRecord(ALICE.narrow(session="s"), revision=1, model="m")))
    key = store.digest_key(ALICE)
    backup(store, tmp_path / "b.db")
    put(store, "a", 2)
    put(store, "later", 1)
    other = SqliteStore(store.path, clock=clock)
    assert value_of(other, "later") == 1
    with pytest.raises(UsageError, match=r"not empty \(slots.*--force"):
        restore(store, tmp_path / "b.db")
    assert value_of(store, "a") == 2
    restore(store, tmp_path / "b.db", force=True)
    for opened in (store, other):
        assert names_of(opened) == ["a"]
        assert value_of(opened, "a") == 1
        assert [record.model for record in opened.sessions()] == ["m"]
        assert opened.digest_key(ALICE) == key
    assert put(other, "a", 3).version == 2
    assert value_of(store, "a") == 3
    assert doctor(store).is_sound
    other.close()


def test_restore_into_a_new_store(store: SqliteStore, tmp_path: Path, clock: MovedClock) -> None:
    put(store, "a", "值")
    backup(store, tmp_path / "b.db")
    fresh = SqliteStore(tmp_path / "fresh.db", clock=clock)
    restore(fresh, tmp_path / "b.db")
    assert value_of(fresh, "a") == "值"
    fresh.close()


def test_a_bad_backup_changes_nothing(store: SqliteStore, tmp_path: Path) -> None:
    for number in range(60):
        put(store, f"s{number}", "x" * 3000)
    good = tmp_path / "good.db"
    backup(store, good)
    content = good.read_bytes()
    (tmp_path / "cut.db").write_bytes(content[: len(content) // 2])
    (tmp_path / "torn.db").write_bytes(content[:8192] + b"\xaa" * 8192 + content[16384:])
    (tmp_path / "list.db").write_bytes(content[:39] + b"\x07" + content[40:])
    (tmp_path / "text.db").write_text("not a backup " * 20)
    (tmp_path / "empty.db").touch()
    (tmp_path / "newer.db").write_bytes(content)
    with contextlib.closing(sqlite3.connect(tmp_path / "newer.db")) as newer:
        newer.execute("PRAGMA user_version = 99")
    for name in ("cut", "torn", "list", "text", "empty", "newer", "missing"):
        with pytest.raises(BackendError, match=f"{name}.db"):
            restore(store, tmp_path / f"{name}.db", force=True)
    with pytest.raises(UsageError, match="store itself"):
        restore(store, store.path, force=True)
    assert len(names_of(store)) == 60
    assert doctor(store).is_sound


def test_a_store_without_files(clock: MovedClock, tmp_path: Path) -> None:
    store = InProcessStore(clock)
    with pytest.raises(UnsupportedError, match="no backup"):
        backup(store, tmp_path / "b.db")
    with pytest.raises(UnsupportedError, match="no restore"):
        restore(store, tmp_path / "b.db")
    assert doctor(store).is_sound


def test_doctor_of_a_sound_store(store: SqliteStore) -> None:
    put(store, "a", 1)
    report = doctor(store)
    assert {finding.name for finding in report.findings} == {
        *("integrity", "versions", "memories", "format", "application", "rights", "clock", "disk", "sweep", "sqlite")
    }
    assert {finding.state for finding in report.findings} <= {"ok", "warn"}
    assert report.is_sound


def test_doctor_sees_and_mends_rights(store: SqliteStore) -> None:
    put(store, "a", 1)
    files = [store.path, Path(f"{store.path}-wal"), Path(f"{store.path}-shm")]
    for file in files:
        file.chmod(0o644)
    store.path.parent.chmod(0o755)
    found = state_of(store, "rights")
    assert [state for state, _ in found] == ["fail", "fail", "fail", "warn"]
    assert not doctor(store).is_sound
    assert [state for state, _ in state_of(store, "rights", fix=True)] == ["ok"] * 4
    assert [stat.S_IMODE(file.stat().st_mode) for file in (*files, store.path.parent)] == [0o600] * 3 + [0o700]
    assert state_of(store, "rights") == [("ok", "only the owner can read the files")]


def test_doctor_leaves_a_folder_with_other_files_as_it_is(store: SqliteStore) -> None:
    folder = store.path.parent
    (folder / "other.txt").touch()
    folder.chmod(0o777)
    assert [state for state, _ in state_of(store, "rights", fix=True)] == ["fail"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777


def test_doctor_sees_a_clock_turned_back(store: SqliteStore, clock: MovedClock) -> None:
    put(store, "a", 1)
    clock.move(-7200)
    assert state_of(store, "clock") == [("warn", "the newest event is 2.0 h later than now")]
    clock.move(1e12)
    assert state_of(store, "clock")[0][0] == "warn"


def test_doctor_sees_a_disk_that_is_nearly_full(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_of(store, "disk")[0][0] == "ok"
    used = shutil.disk_usage("/")

    def nearly_full(_: Path) -> object:
        return used._replace(free=1_000_000)

    monkeypatch.setattr(shutil, "disk_usage", nearly_full)
    ((state, what),) = state_of(store, "disk")
    assert state == "warn"
    assert what.startswith("1 MiB free")


def test_doctor_sees_what_waits_for_a_sweep(store: SqliteStore, clock: MovedClock) -> None:
    put(store, "a", 1, ttl_s=60)
    put(store, "b", 1)
    forget(store, "b")
    clock.move(60)
    assert state_of(store, "sweep")[0][1].startswith("1 slots")
    clock.move(7 * 86400)
    assert state_of(store, "sweep")[0] == ("warn", "2 slots expired or forgotten long ago are still stored")
    assert sweep(store, store, store, clock) == Swept(2, 0, 0)
    assert state_of(store, "sweep")[0][0] == "ok"


def test_doctor_sees_another_programs_mark_and_format(store: SqliteStore) -> None:
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("PRAGMA application_id = 7")
        other.execute("PRAGMA user_version = 0")
    assert (state_of(store, "application")[0][0], state_of(store, "format")[0][0]) == ("fail", "fail")


def test_doctor_sees_a_slot_without_its_version(store: SqliteStore) -> None:
    put(store, "a", 1)
    put(store, "b", 1)
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("DELETE FROM versions WHERE folded = 'a'")
        other.execute("DELETE FROM slots WHERE folded = 'b'")
    assert state_of(store, "versions") == [("fail", "1 slots without their version, 1 versions without their slot")]


def test_doctor_sees_a_damaged_file(tmp_path: Path, clock: MovedClock) -> None:
    path = tmp_path / "agent.db"
    store = SqliteStore(path, clock=clock)
    for number in range(60):
        put(store, f"s{number}", "x" * 3000)
    store.close()
    content = bytearray(path.read_bytes())
    content[20 * 4096 : 21 * 4096] = b"\xaa" * 4096
    path.write_bytes(content)
    store = SqliteStore(path, clock=clock)
    assert not doctor(store).is_sound
    assert state_of(store, "integrity")[0][0] == "fail"
    store.close()


def test_sweep_of_slots_and_idle_sessions(store: SqliteStore, clock: MovedClock) -> None:
    start = clock.now()
    for app in ("default", "app2"):
        put(store, "a", 1, ttl_s=60, scope=Scope(app, user="u"))
        put(store, "b", 1, scope=Scope(app, user="u"))
        scope = Scope(app, user="u", session="s")
        store.commit(SessionChange(SessionRecord(scope, revision=1, used_at=start)))
    clock.move(30 * 86400)
    assert sweep(store, store, store, clock, app="app2") == Swept(1, 0, 0)
    clock.move(1)
    assert sweep(store, store, store, clock, app="app2") == Swept(0, 0, 1)
    assert sweep(store, store, store, clock, session_idle_s=1e9) == Swept(1, 0, 0)
    assert sweep(store, store, store, clock) == Swept(0, 0, 1)
    assert len(names_of(store, Scope("app2", shared=True), within="subtree")) == 1
