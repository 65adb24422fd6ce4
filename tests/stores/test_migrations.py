"""Files of older formats: brought forward whole, or left as they are."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest

from offprompt.errors import BackendError
from offprompt.protocols import run
from offprompt.records import GuardSlot, Place, Scope, SlotVersion
from offprompt.stores._sqlite_schema import APPLICATION_ID, FORMAT, MIGRATIONS
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE, get, history, put, restore, value_of

# Format 1 as it was released; never changed, whatever the program writes today.
FORMAT_1 = """
CREATE TABLE slots (
    app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, folded TEXT NOT NULL,
    name TEXT NOT NULL, version INTEGER NOT NULL, created_at REAL NOT NULL,
    expires_at REAL, ttl_s REAL, sliding INTEGER NOT NULL, tags TEXT NOT NULL, importance REAL NOT NULL,
    uses INTEGER NOT NULL, used_at REAL, schema TEXT, parts INTEGER NOT NULL, forgotten_at REAL,
    PRIMARY KEY (app, user, agent, session, folded)
) WITHOUT ROWID;
CREATE INDEX slots_agent ON slots (app, agent) WHERE agent <> '';
CREATE INDEX slots_session ON slots (app, session) WHERE session <> '';
CREATE INDEX slots_expiry ON slots (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX slots_hidden ON slots (forgotten_at) WHERE forgotten_at IS NOT NULL;
CREATE TABLE versions (
    app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, folded TEXT NOT NULL,
    version INTEGER NOT NULL, value TEXT NOT NULL, policy TEXT NOT NULL, trust TEXT NOT NULL,
    source TEXT NOT NULL, actor TEXT NOT NULL, written_at REAL NOT NULL, bytes INTEGER NOT NULL,
    outcome TEXT NOT NULL, op_key TEXT,
    PRIMARY KEY (app, user, agent, session, folded, version)
) WITHOUT ROWID;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL,
    app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    op TEXT NOT NULL, actor TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, bytes INTEGER NOT NULL,
    outcome TEXT NOT NULL, why TEXT NOT NULL, duration_s REAL NOT NULL
);
CREATE INDEX events_scope ON events (app, user, agent, session);
CREATE TABLE sessions (
    app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    revision INTEGER NOT NULL, used_at REAL NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (app, user, agent, session)
) WITHOUT ROWID;
CREATE TABLE journal (
    app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    seq INTEGER NOT NULL, key TEXT NOT NULL, entry TEXT NOT NULL,
    PRIMARY KEY (app, user, agent, session, seq), UNIQUE (app, user, agent, session, key)
);
CREATE TABLE bodies (
    app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    seq INTEGER NOT NULL, body_id TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (app, user, agent, session, seq), UNIQUE (app, user, agent, session, body_id)
);
CREATE TABLE ledger (
    app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    seq INTEGER NOT NULL, entry TEXT NOT NULL,
    PRIMARY KEY (app, user, agent, session, seq)
);
CREATE TABLE digest_keys (
    app TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, key BLOB NOT NULL,
    PRIMARY KEY (app, kind, id)
) WITHOUT ROWID;
"""
ROWS_1 = """
INSERT INTO slots VALUES ('default', 'alice@example.com', '', '', 'key', 'Key', 2, 10.0, NULL, NULL, 0, '["t"]', 0.75,
    3, 12.5, NULL, 0, NULL);
INSERT INTO versions VALUES ('default', 'alice@example.com', '', '', 'key', 1, '"k-1"', 'never', 'tool', 'model',
    'model', 10.0, 3, 'written', 'turn-1');
INSERT INTO versions VALUES ('default', 'alice@example.com', '', '', 'key', 2, '{"密钥":"k-2"}', 'never', 'user',
    'app', 'app', 11.0, 17, 'written', NULL);
INSERT INTO slots VALUES ('default', 'alice@example.com', '', '', '城市', '城市', 1, 10.0, 5000000000.0, 64.0, 1,
    '[]', 0.5, 0, NULL, '{"type":"string"}', 0, 1000000000.0);
INSERT INTO versions VALUES ('default', 'alice@example.com', '', '', '城市', 1, '"上海"', 'when_asked', 'user', 'user',
    'user', 10.0, 6, 'forgotten', NULL);
INSERT INTO events (at, app, user, agent, session, op, actor, name, version, bytes, outcome, why, duration_s)
    VALUES (10.0, 'default', 'alice@example.com', '', '', 'slot.write', 'app', 'Key', 1, 3, 'ok', 'given', 0.0);
INSERT INTO sessions VALUES ('default', 'alice@example.com', '', 's', 1, 10.0,
    '{"scope":{"app":"default","user":"alice@example.com","session":"s"},"revision":1,"model":"gpt-4o-mini"}');
INSERT INTO digest_keys VALUES ('default', 'user', 'alice@example.com', x'00ff');
"""
CLOCK = MovedClock(1_000_000_100.0)


def stored(path: Path) -> Path:
    """A file of format 1 with something in each kind of row."""
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript(FORMAT_1 + ROWS_1)
        made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        made.execute("PRAGMA user_version = 1")
        made.commit()
    return path


def columns(path: Path) -> list[tuple[str, str, str]]:
    """All tables and indexes of a file, with their columns."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        names = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")]
        return sorted((name, row[1], row[2]) for name in names for row in file.execute(f"PRAGMA table_xinfo({name})"))


def format_of(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return int(file.execute("PRAGMA user_version").fetchone()[0])


def test_a_file_of_format_1_is_brought_forward(tmp_path: Path) -> None:
    path = stored(tmp_path / "agent.db")
    store = SqliteStore(path, clock=CLOCK)
    slot = get(store, "key")
    assert slot is not None
    assert (slot.name, slot.value, slot.version, slot.policy, slot.trust) == (
        "Key",
        {"密钥": "k-2"},
        2,
        "never",
        "user",
    )
    assert (slot.tags, slot.importance, slot.uses, slot.used_at) == (("t",), 0.75, 3, 12.5)
    assert (slot.allow, slot.locked, slot.recent) == ((), False, ())
    assert history(store, "key")[0] == SlotVersion(1, "k-1", "never", "tool", "model", "model", 10.0, 3)
    hidden = restore(store, "城市")
    assert (hidden.value, hidden.schema, hidden.ttl_s, hidden.sliding) == ("上海", {"type": "string"}, 64.0, True)
    assert [event.op for event in store.events()][:1] == ["slot.write"]
    session = store.load(ALICE.narrow(session="s"))
    assert session is not None
    assert (session.model, session.revision) == ("gpt-4o-mini", 1)
    assert store.digest_key(ALICE) == b"\x00\xff"
    place = Place("send", "/to", "api.example.com")
    assert run(store, GuardSlot(ALICE, "key", (place,), locked=True)).allow == (place,)
    assert put(store, "Key", "k-3", policy="never", source="model", op_key="turn-1").value == {"密钥": "k-2"}
    assert all(
        finding.state == "ok" for finding in store.check() if finding.name in ("format", "integrity", "versions")
    )
    store.close()
    assert format_of(path) == FORMAT == 5
    again = SqliteStore(path, clock=CLOCK)
    slot = get(again, "key")
    assert slot is not None
    assert (slot.allow, slot.locked) == ((place,), True)
    again.close()


def test_a_file_brought_forward_is_like_a_new_one(tmp_path: Path) -> None:
    path = stored(tmp_path / "old.db")
    for each in (path, tmp_path / "new.db"):
        SqliteStore(each, clock=CLOCK).close()
    assert columns(path) == columns(tmp_path / "new.db")


def test_many_open_it_at_once(tmp_path: Path) -> None:
    path, errors = stored(tmp_path / "agent.db"), list[BaseException]()
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        try:
            store = SqliteStore(path, clock=CLOCK)
            put(store, "v", number, Scope(user=f"u{number}"))
            store.close()
        except BaseException as exc:  # noqa: BLE001 - handed to the test's own thread
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    store = SqliteStore(path, clock=CLOCK)
    assert [value_of(store, "v", Scope(user=f"u{number}")) for number in range(8)] == list(range(8))
    assert value_of(store, "key") == {"密钥": "k-2"}
    store.close()


def test_a_step_that_fails_leaves_format_1_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(tmp_path / "agent.db")
    before = columns(path)
    broken = (MIGRATIONS[0], (*MIGRATIONS[1], "CREATE TABLE slots (x)"))
    monkeypatch.setattr("offprompt.stores._sqlite_schema.MIGRATIONS", broken)
    with pytest.raises(BackendError, match="slots"):
        SqliteStore(path, clock=CLOCK)
    assert (format_of(path), columns(path)) == (1, before)
    monkeypatch.undo()
    store = SqliteStore(path, clock=CLOCK)
    assert value_of(store, "key") == {"密钥": "k-2"}
    store.close()


def test_a_backup_of_format_1_is_restored_and_brought_forward(tmp_path: Path) -> None:
    backup = stored(tmp_path / "backup.db")
    store = SqliteStore(tmp_path / "agent.db", clock=CLOCK)
    store.restore(str(backup))
    assert value_of(store, "key") == {"密钥": "k-2"}
    assert put(store, "Key", "k-3", policy="never").version == 3
    store.close()
    assert (format_of(tmp_path / "agent.db"), format_of(backup)) == (FORMAT, 1)


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path = stored(tmp_path / "agent.db")
    SqliteStore(path, clock=CLOCK).close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {FORMAT + 1}")
    content = path.read_bytes()
    with pytest.raises(BackendError, match=f"format {FORMAT + 1}, and this program knows formats up to {FORMAT}"):
        SqliteStore(path, clock=CLOCK)
    assert path.read_bytes() == content


def test_released_formats_never_change() -> None:
    released = [" ".join(part.split()) for part in FORMAT_1.split(";") if part.strip()]
    assert [" ".join(statement.split()) for statement in MIGRATIONS[0]] == released
