"""Conformance: sessions with journal, bodies, ledger and digest keys."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from offprompt.errors import ConflictError, UsageError
from offprompt.protocols import SessionStore
from offprompt.records import (
    Body,
    Event,
    Head,
    JournalEntry,
    LedgerEntry,
    Scope,
    SessionChange,
    SessionRecord,
    Shown,
    Size,
    Usage,
)
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite

SESSION = ALICE.narrow(session="s1")
MESSAGE: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "text", "text": "你好 \x00 half \ud83d"}, {"n": 1.0, "big": 10**25, "none": None, "": []}],
    "z": True,
    "a": {"nested": ["名"]},
}


def record_of(scope: Scope = SESSION, revision: int = 1, **fields: Any) -> SessionRecord:
    """A small record."""
    return SessionRecord(scope, revision=revision, **fields)


def entry_of(key: str, **fields: Any) -> JournalEntry:
    """A small journal entry."""
    return JournalEntry(key, "", 1, "user", 5.5, fields.pop("message", {"role": "user", "content": key}), **fields)


FULL_RECORD = SessionRecord(
    SESSION,
    model="gpt-4o-mini",
    wire="anthropic",
    language="zh",
    policy="window",
    created_at=1.25,
    used_at=7.0,
    revision=1,
    head=Head("头", ({"name": "mem_read", "parameters": {"type": "object"}},), ("a", "名"), ("c",), "i", "d", "k"),
    turn=3,
    turn_key="t",
    start="k2",
    left=1,
    issued=("a", "@b1"),
    shown=(Shown("名", "asked", 12),),
    spent=12,
    reads=("名",),
    tainted=True,
    pending=LedgerEntry(2, 6.0, 3, "gpt-4o-mini", {"user": Size(4, 1), "head": Size(9, 3)}, 7),
    requests=2,
    last_hash="h",
    account={"sent": 1.5, "saved": 2.0},
    nonce="n",
)
FULL_ENTRY = LedgerEntry(
    1,
    5.0,
    2,
    "m",
    {"user": Size(10, 4)},
    3,
    Size(5, 2),
    99,
    ("a",),
    (Shown("b", "read", 2),),
    ("c",),
    ("d",),
    Usage(10, 2, None, 5),
    0.0012,
    "CNY",
    1,
    ("truncated",),
    "ok",
    "p",
    "h",
)


class SessionStoreSuite(Suite):
    """All that `protocols.SessionStore` promises; give it a `store` fixture that takes the `clock` fixture."""

    def test_missing_is_none_or_empty(self, store: SessionStore) -> None:
        assert store.load(SESSION) is None
        assert store.body(SESSION, "b") is None
        assert (store.journal(SESSION), store.bodies(SESSION), store.ledger(SESSION)) == ([], [], [])
        assert store.sessions() == []
        assert store.drop_sessions() == 0

    def test_all_comes_back_as_it_went_in(self, store: SessionStore) -> None:
        entry = entry_of("k", message=MESSAGE, resolved={"r": 1}, live=({"l": []}, {}), text="文")
        body = Body("b1", "长文" * 5000, "tool", "search", 5.0, 30000)
        store.commit(SessionChange(FULL_RECORD, (entry,), (body,), (FULL_ENTRY,)))
        assert store.load(SESSION) == FULL_RECORD
        assert store.journal(SESSION) == [replace(entry, seq=1)]
        assert list(store.journal(SESSION)[0].message) == list(MESSAGE)
        assert (store.bodies(SESSION), store.body(SESSION, "b1")) == ([body], body)
        assert store.ledger(SESSION) == [FULL_ENTRY]
        assert store.sessions() == [FULL_RECORD]

    def test_no_live_objects(self, store: SessionStore) -> None:
        message: dict[str, Any] = {"content": ["a"]}
        store.commit(SessionChange(record_of(account={"x": 1.0}), (entry_of("k", message=message),)))
        message["content"].append("b")
        store.journal(SESSION)[0].message["content"].append("c")
        assert store.journal(SESSION)[0].message == {"content": ["a"]}

    def test_revisions_are_compared(self, store: SessionStore) -> None:
        with pytest.raises(ConflictError, match="revision 0"):
            store.commit(SessionChange(record_of(revision=2)))
        store.commit(SessionChange(record_of(turn=1)))
        for revision in (0, 1, 3):
            with pytest.raises(ConflictError, match="'s1' is at revision 1"):
                store.commit(SessionChange(record_of(revision=revision, turn=9)))
        store.commit(SessionChange(record_of(revision=2, turn=2)))
        loaded = store.load(SESSION)
        assert loaded is not None
        assert (loaded.revision, loaded.turn) == (2, 2)

    def test_a_refused_commit_changes_nothing(self, store: SessionStore) -> None:
        store.commit(SessionChange(record_of(), (entry_of("k"),), (), (replace(FULL_ENTRY, seq=1),)))
        before = (store.load(SESSION), store.journal(SESSION), store.ledger(SESSION))
        body, event = Body("b", "x", "tool", "", 1.0, 1), Event(1.0, SESSION, "session.prepare")
        for change in (
            SessionChange(record_of(revision=3), (entry_of("k2"),), (body,), (), (event,)),
            SessionChange(record_of(revision=2), (entry_of("k", settled=()),), (body,), (FULL_ENTRY,), (event,)),
        ):
            with pytest.raises(ConflictError):
                store.commit(change)
        assert (store.load(SESSION), store.journal(SESSION), store.ledger(SESSION)) == before
        assert store.bodies(SESSION) == []

    def test_one_writer_of_many_wins(self, store: SessionStore) -> None:
        outcomes: list[str] = []
        start = threading.Barrier(8)

        def work(number: int) -> None:
            start.wait()
            try:
                store.commit(SessionChange(record_of(turn=number), (entry_of(f"k{number}"),)))
            except ConflictError:
                outcomes.append("conflict")
            else:
                outcomes.append("stored")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["conflict"] * 7 + ["stored"]
        assert len(store.journal(SESSION)) == 1

    def test_a_scope_without_a_session_is_refused(self, store: SessionStore) -> None:
        with pytest.raises(UsageError, match="session"):
            store.commit(SessionChange(record_of(ALICE)))

    def test_the_journal_is_in_order_of_arrival(self, store: SessionStore) -> None:
        store.commit(SessionChange(record_of(), (entry_of("z"), entry_of("a"))))
        store.commit(SessionChange(record_of(revision=2), (entry_of("a"), entry_of("m"), entry_of("z"), entry_of("b"))))
        assert [(entry.key, entry.seq) for entry in store.journal(SESSION)] == [("z", 1), ("a", 2), ("m", 3), ("b", 4)]
        assert [entry.key for entry in store.journal(SESSION, after=2)] == ["m", "b"]

    def test_what_was_rendered_never_changes(self, store: SessionStore) -> None:
        one, two = {"v": 1}, {"v": 2}
        first, second = (one,), (two, one)
        store.commit(SessionChange(record_of(), (entry_of("k", live=first),)))
        late = entry_of("k", message=two, live=second, settled=first, resolved=one, text="new")
        store.commit(SessionChange(record_of(revision=2), (late,)))
        again = entry_of("k", settled=second, resolved=two)
        store.commit(SessionChange(record_of(revision=3), (again,)))
        (entry,) = store.journal(SESSION)
        assert entry.message == {"role": "user", "content": "k"}
        assert (entry.live, entry.settled, entry.resolved, entry.text) == (first, first, one, "")

    def test_bodies_are_of_exactly_their_session(self, store: SessionStore) -> None:
        body = Body("b", "text", "document", "a.md", 1.0, 4)
        store.commit(SessionChange(record_of(), (), (body, replace(body, body_id="a"))))
        store.commit(
            SessionChange(record_of(revision=2), (), (replace(body, text="other"), replace(body, body_id="c")))
        )
        assert [kept.body_id for kept in store.bodies(SESSION)] == ["b", "a", "c"]
        assert store.body(SESSION, "b") == body
        for scope in (ALICE, ALICE.narrow(session="s2"), BOB.narrow(session="s1"), Scope(session="s1")):
            assert store.body(scope, "b") is None
            assert store.bodies(scope) == []

    def test_sessions_of_a_subtree_most_recent_first(self, store: SessionStore) -> None:
        scopes = [ALICE.narrow(session="s_"), ALICE.narrow(session="s%"), ALICE.narrow(agent="g", session="sx")]
        for number, scope in enumerate(scopes):
            store.commit(SessionChange(record_of(scope, used_at=float(number))))
        store.commit(SessionChange(record_of(BOB.narrow(session="s_"), used_at=9.0)))
        assert [record.scope for record in store.sessions(ALICE)] == scopes[::-1]
        assert [record.scope for record in store.sessions(scopes[0])] == scopes[:1]
        assert len(store.sessions()) == 4
        assert store.sessions(Scope("app2", shared=True)) == []

    def test_drop_takes_all_that_is_the_sessions(self, store: SessionStore) -> None:
        old, new, other = SESSION, ALICE.narrow(session="s2"), BOB.narrow(session="s1")
        body = Body("b", "text", "tool", "", 1.0, 4)
        for scope, used_at in ((old, 10.0), (new, 20.0), (other, 5.0)):
            store.commit(SessionChange(record_of(scope, used_at=used_at), (entry_of("k"),), (body,), (FULL_ENTRY,)))
        assert store.drop_sessions(scope=ALICE, idle_before=10.0) == 0
        assert store.drop_sessions(scope=ALICE, idle_before=10.5) == 1
        assert (store.load(old), store.journal(old), store.bodies(old), store.ledger(old)) == (None, [], [], [])
        for scope in (new, other):
            assert len(store.journal(scope)) == len(store.bodies(scope)) == len(store.ledger(scope)) == 1
        store.commit(SessionChange(record_of(old), (entry_of("k"),)))
        assert store.journal(old)[0].seq == 1
        assert store.drop_sessions() == 3
        assert store.sessions() == []

    def test_digest_keys(self, store: SessionStore, clock: MovedClock) -> None:
        key = store.digest_key(ALICE)
        clock.move(1e6)
        assert (len(key), type(key)) == (32, bytes)
        assert store.digest_key(SESSION) == key
        assert store.digest_key(ALICE.narrow(agent="g")) == key
        others = [BOB, Scope("app2", user=ALICE.user), Scope(agent="bob"), Scope(session="bob"), Scope(shared=True)]
        keys = [store.digest_key(scope) for scope in others]
        assert len({key, *keys}) == 1 + len(others)
        assert [store.digest_key(scope) for scope in others] == keys
