"""`doctor` on memories: whether they, their versions, keys, index and scopes fit each other."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from offprompt.protocols import apply
from offprompt.records import Finding, IndexMemories, JoinUsers, Unindexed
from offprompt.service.maintenance import doctor, sweep
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE
from offprompt.testing.memory_kit import add, added, derived, erase, forget, home, update


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(tmp_path: Path, clock: MovedClock) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "agent.db", clock=clock)
    yield store
    store.close()


def findings(store: SqliteStore) -> list[Finding]:
    return [finding for finding in doctor(store).findings if finding.name == "memories"]


@pytest.mark.parametrize(
    ("damage", "state", "what", "way_out"),
    [
        ("DELETE FROM memory_versions WHERE memory_id = 'm_1'", "fail", "1 memories without their versions", "backup"),
        ("DELETE FROM memories", "fail", "2 memories of which only versions are left", "backup"),
        ("DELETE FROM memories", "fail", "2 entries of the index without their memory", "backup"),
        ("DELETE FROM memories", "warn", "2 keys of writes that lead to no memory", "backup"),
        ("UPDATE memory_index SET version = 2", "warn", "2 memories whose entry in the index is of another", "reindex"),
        ("DELETE FROM memory_scopes", "fail", "2 memories of a later revision than their scope's", "backup"),
        ("UPDATE memory_scopes SET revision = 1", "fail", "1 memories of a later revision", "backup"),
        ("UPDATE memory_scopes SET whole_before = 9", "fail", "1 scopes that are loaded whole for each", "backup"),
        ("DROP TABLE memory_keys", "fail", "memories cannot be read: no such table", "backup"),
    ],
)
def test_doctor_sees_memories_that_do_not_fit(
    store: SqliteStore, damage: str, state: str, what: str, way_out: str
) -> None:
    for name in ("m_1", "m_2"):
        add(store, f"{name} 的自行车", memory_id=name, indexed=derived(name), op_key=name)
    assert [one.state for one in findings(store)] == ["ok"]
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute(damage)
    (found,) = [one for one in findings(store) if one.what.startswith(what)]
    assert found.state == state
    assert way_out in found.way_out


def test_memories_that_changed_in_all_ways_are_sound(store: SqliteStore, clock: MovedClock) -> None:
    names = [added(store, text, indexed=None, op_key=text).memory_id for text in ("one", "two", "three", "四")]
    for name in names:
        apply(store, IndexMemories(ALICE, (derived(name),)))
    update(store, names[0], text="uno", digest="uno")
    update(store, names[1], metadata={"a": 1})
    add(store, "three", metadata={"b": 2}, op_key="again")
    forget(store, names[2])
    erase(store, names[3])
    home(store, "Porto", at=1.0, indexed=None)
    home(store, "Lisbon", at=2.0, indexed=None)
    clock.move(8 * 86400)
    assert sweep(store, store, store, clock).memories == 1
    apply(store, JoinUsers("default", ALICE.user or "", "bob"))
    assert [one.state for one in findings(store)] == ["ok"]


def test_a_reindex_mends_an_entry_of_another_version(store: SqliteStore) -> None:
    name = added(store, "one", indexed=None).memory_id
    apply(store, IndexMemories(ALICE, (derived(name),)))
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("UPDATE memory_index SET version = 2")
    assert [memory.memory_id for memory in apply(store, Unindexed("e"))] == [name]
    apply(store, IndexMemories(ALICE, (derived(name),)))
    assert ([one.state for one in findings(store)], apply(store, Unindexed("e"))) == (["ok"], [])
