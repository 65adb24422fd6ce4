"""Conformance: a whole store, row by row, and its notes."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import threading
from typing import Any

from offprompt.protocols import Notes, Portable, Store, apply, run
from offprompt.records import (
    AliasesOf,
    Body,
    Event,
    GetSlot,
    GuardSlot,
    JoinUsers,
    LedgerEntry,
    Place,
    Scope,
    SessionChange,
    SessionRecord,
    Size,
)
from offprompt.records.tables import SLOT_TABLES, TABLES, Row
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import kit, memory_kit
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite
from offprompt.testing.session_suite import MESSAGE, SESSION, entry_of

OWN_BY_CHANCE = ("duration_s", "key")
"""Columns that differ though the same was done: how long it took, and keys that are drawn."""


def fill(store: Store, clock: MovedClock) -> None:
    """Something in every table: of two users, hidden, expired, merged, superseded, joined; in two scripts."""
    _fill_slots(store, clock)
    _fill_memories(store)
    _fill_sessions(store)


def _fill_slots(store: Store, clock: MovedClock) -> None:
    kit.put(store, "城市", "上海", tags=("家",), importance=0.75, ttl_s=50.0, sliding=True)
    kit.put(store, "城市", {"名": "苏州", "n": 1.5, "big": 10**25}, schema={"type": "object"}, op_key="turn-1")
    kit.put(store, "Key", "s\x00ecret", policy="never", source="model", trust="tool", scope=BOB.narrow(session="s1"))
    run(store, GuardSlot(BOB.narrow(session="s1"), "key", allow=(Place("登录", "/a/~1", "例.cn"),), locked=True))
    for number in range(4):
        kit.put(store, f"n{number}", number, Scope("other", agent=f"bot {number}"))
    kit.put(store, "gone", [1, None])
    clock.move(1.5)
    kit.get(store, "城市", touch=True)
    kit.forget(store, "gone")
    store.flush()


def _fill_memories(store: Store) -> None:
    ids = [f"m_copied{number:020d}" for number in range(1, 7)]
    for memory_id, place, at in zip(ids, ("Porto", "里斯本", "Faro"), (1.0, 3.0, 2.0), strict=False):
        memory_kit.home(store, place, at, memory_id=memory_id, metadata={"列": [1.0, None]}, tags=("家",))
    indexed = memory_kit.derived(ids[3], embedder="e\x00")
    memory_kit.add(store, "吃素", BOB, memory_id=ids[3], indexed=indexed, op_key="k/1", pinned=True, expires_at=9e9)
    memory_kit.add(store, "吃素", BOB, memory_id=ids[4], op_key="k/2")
    memory_kit.add(store, "once", Scope("other", user="u"), memory_id=ids[5], kind="episode", session="s1", order=3)
    memory_kit.update(store, ids[3], BOB, text="不吃肉", digest="x", indexed=memory_kit.derived(ids[3], version=2))
    memory_kit.forget(store, ids[5], scope=Scope("other", user="u"))
    apply(store, JoinUsers("default", "carol", "bob"))


def _fill_sessions(store: Store) -> None:
    entries = (entry_of("k1", message=MESSAGE), entry_of("k2", live=({"role": "user", "content": "名"},)))
    body = Body("b1", "long\x00长", "tool", "ls", 5.0, 8)
    ledger = LedgerEntry(1, 6.0, 1, "m", {"user": Size(4, 1)}, 7)
    event = Event(5.0, SESSION, "handle.bad", name="名", outcome="HandleError")
    record = SessionRecord(SESSION, revision=1, used_at=7.0, nonce="n\x00")
    store.commit(SessionChange(record, entries, (body,), (ledger,), (event,)))
    store.commit(SessionChange(SessionRecord(SESSION, revision=2, used_at=8.0), (entry_of("k3"),)))
    store.commit(SessionChange(SessionRecord(BOB.narrow(session="s1"), revision=1), (entry_of("k1"),)))
    store.digest_key(ALICE)


def pages(store: Portable, table: str, limit: int) -> list[list[Row]]:
    """All rows of a table, by pages."""
    found, after = list[list[Row]](), None
    while page := store.scan(table, after=after, limit=limit):
        assert len(page) <= limit
        found.append(page)
        after = TABLES[table].key_of(page[-1])
    return found


def rows_of(store: Portable, table: str) -> list[Row]:
    """All rows of a table."""
    return [row for page in pages(store, table, 1000) for row in page]


def copy_rows(source: Portable, target: Portable) -> None:
    """Put all rows of the target's tables that the source has too."""
    for table in TABLES:
        if table in target.tables() and table in source.tables():
            target.put_rows(table, rows_of(source, table))


class SlotPortableSuite(Suite):
    """What `protocols.Portable` promises of an engine that keeps slots; give it a `store` fixture."""

    def test_what_was_put_comes_back_in_pages_of_any_size(self, store: Portable, clock: MovedClock) -> None:
        source = InProcessStore(clock)
        fill(source, clock)
        copy_rows(source, store)
        for table in store.tables():
            wanted = rows_of(source, table)
            assert wanted, table
            assert rows_of(store, table) == wanted
            for limit in (1, 2, 3):
                assert [row for page in pages(store, table, limit) for row in page] == wanted

    def test_rows_that_are_put_again_change_nothing(self, store: Portable, clock: MovedClock) -> None:
        source = InProcessStore(clock)
        fill(source, clock)
        for _ in range(2):
            copy_rows(source, store)
        assert [rows_of(store, table) for table in store.tables()] == [
            rows_of(source, table) for table in store.tables()
        ]

    def test_a_slot_that_was_put_is_read_and_written(self, store: Any, clock: MovedClock) -> None:
        source = InProcessStore(clock)
        fill(source, clock)
        copy_rows(source, store)
        for name in ("城市", "n1"):
            scope = ALICE if name == "城市" else Scope("other", agent="bot 1")
            assert run(store, GetSlot(scope, name)) == run(source, GetSlot(scope, name))
            assert kit.history(store, name, scope) == kit.history(source, name, scope)
        assert kit.put(store, "城市", "杭州", op_key="turn-2").version == 3
        assert kit.put(store, "城市", "杭州", op_key="turn-1").version == 3
        assert kit.restore(store, "gone").value == [1, None]

    def test_a_cleared_table_is_empty(self, store: Portable, clock: MovedClock) -> None:
        source = InProcessStore(clock)
        fill(source, clock)
        copy_rows(source, store)
        for table in reversed(store.tables()):
            store.clear_rows(table)
        assert [table for table in store.tables() if store.scan(table)] == []
        copy_rows(source, store)
        assert all(rows_of(store, table) == rows_of(source, table) for table in store.tables())

    def test_rows_mean_the_same_whoever_wrote_them(self, store: Any, clock: MovedClock) -> None:
        source, began = InProcessStore(clock), clock.now()
        _fill_slots(source, clock)
        clock.move(began - clock.now())
        _fill_slots(store, clock)
        for table in SLOT_TABLES:
            assert rows_of(store, table) == rows_of(source, table)


class StoreSuite(SlotPortableSuite):
    """What `protocols.Portable` and `Notes` promise of an engine that can keep all; give it a `store` fixture."""

    def test_it_keeps_every_table(self, store: Store) -> None:
        assert set(store.tables()) == TABLES.keys()

    def test_what_was_copied_goes_on(self, store: Store, clock: MovedClock) -> None:
        source = InProcessStore(clock)
        fill(source, clock)
        copy_rows(source, store)
        assert store.events() == source.events()
        assert store.digest_key(ALICE) == source.digest_key(ALICE)
        assert apply(store, AliasesOf("default", "bob")) == apply(source, AliasesOf("default", "bob"))
        assert memory_kit.page(store, BOB) == memory_kit.page(source, BOB)
        assert store.load(SESSION) == source.load(SESSION)
        assert store.journal(SESSION) == source.journal(SESSION)
        assert store.bodies(SESSION) == source.bodies(SESSION)
        assert store.ledger(SESSION) == source.ledger(SESSION)
        last = store.events()[-1].seq
        assert memory_kit.add(store, "吃素", BOB, op_key="k/2").outcome == "merged"
        memory_kit.home(store, "Évora", 9.0)
        assert memory_kit.texts(store) == ["lives in Évora"]
        store.commit(SessionChange(SessionRecord(SESSION, revision=3), (entry_of("k4"),)))
        assert [entry.seq for entry in store.journal(SESSION)] == [1, 2, 3, 4]
        assert all(event.seq > last for event in store.events(after=last))
        assert store.events(after=last)

    def test_a_whole_store_means_the_same_whoever_filled_it(self, store: Store, clock: MovedClock) -> None:
        source, began = InProcessStore(clock), clock.now()
        fill(source, clock)
        clock.move(began - clock.now())
        fill(store, clock)
        for table in TABLES.values():
            assert plain(store, table.name) == plain(source, table.name)

    def test_a_note_is_set_by_who_knows_the_one_before(self, store: Notes) -> None:
        assert store.note("copy 名") is None
        assert store.set_note("copy 名", "到 1", was=None)
        assert not store.set_note("copy 名", "x", was=None)
        assert not store.set_note("copy 名", "x", was="到 2")
        assert store.set_note("copy 名", "到 2", was="到 1")
        assert store.note("copy 名") == "到 2"
        assert store.note("other") is None
        assert store.set_note("copy 名", None, was="到 2")
        assert store.note("copy 名") is None
        assert not store.set_note("copy 名", None, was="到 2")

    def test_notes_are_listed_by_the_beginning_of_their_names(self, store: Notes) -> None:
        texts = {"a%b": "1", "a%bB": "2", "a%ba": "3", "a%b小": "4", "A%b": "5", "axb": "6", "a%": "7"}
        for name, text in texts.items():
            assert store.set_note(name, text, was=None)
        assert store.notes("a%b") == [("a%b", "1"), ("a%bB", "2"), ("a%ba", "3"), ("a%b小", "4")]
        assert store.notes("a%b", after="a%bB", limit=1) == [("a%ba", "3")]
        assert store.notes("none") == []

    def test_notes_are_dropped_as_they_are_known(self, store: Notes) -> None:
        for name in ("a", "b", "c"):
            assert store.set_note(name, "1", was=None)
        assert store.drop_notes([("a", "1"), ("b", "2"), ("none", "1")]) == 1
        assert [name for name, _ in store.notes("")] == ["b", "c"]
        assert store.drop_notes([]) == 0

    def test_events_come_with_a_note_or_not_at_all(self, store: Store) -> None:
        event = Event(5.0, Scope(user="u"), "slot.write", name="名")
        assert store.set_note("events", "7", was=None, events=[event])
        assert not store.set_note("events", "7", was=None, events=[event])
        assert [(one.at, one.name) for one in store.events()] == [(5.0, "名")]

    def test_of_many_who_set_a_note_at_once_one_does(self, store: Notes) -> None:
        won: list[int] = []
        start = threading.Barrier(6)

        def work(number: int) -> None:
            start.wait()
            if store.set_note("lease", str(number), was=None):
                won.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [store.note("lease")] == [str(number) for number in won]


def plain(store: Portable, name: str) -> list[Row]:
    """The rows of a table without what is its own by chance."""
    table = TABLES[name]
    drawn = [column in OWN_BY_CHANCE and name in ("events", "digest_keys") for column in table.columns]
    return [tuple(cell for cell, own in zip(row, drawn, strict=True) if not own) for row in rows_of(store, name)]
