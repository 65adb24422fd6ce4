"""Model-based conformance: any run of commits does what it does in the engine that ends with the process."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import rule

from offprompt.protocols import SessionStore, SlotStore
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
from offprompt.testing.machine import SCOPES, WHOLE, Machine, mostly, scopes, words

SESSIONS: Final = (
    Scope("a", user="u", session="s"),
    Scope("a", user="u", session="会话 %"),
    Scope("a", user="u", agent="g", session="s"),
    Scope("a", session="s"),
    Scope("b", user="u", session="s"),
)
sessions: Final = mostly(SESSIONS[:2], [*SESSIONS, SCOPES[0]])
_texts: Final = st.sampled_from(["", "hi", "你好 🙂", "nul \x00", "half \ud83d", "a'b\"\\"])
_json: Final = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1.0, 10**25, -0.0]) | _texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["z", "a", "名"]), inner, max_size=2),
    max_leaves=3,
)
_messages: Final = st.dictionaries(st.sampled_from(["role", "content", "名", "a"]), _json, max_size=3)
_forms: Final = st.none() | st.lists(_messages, max_size=2).map(tuple)
_names: Final = st.lists(st.sampled_from(["a", "名字", "@b1"]), max_size=2).map(tuple)
_shown: Final = st.lists(st.builds(Shown, st.sampled_from(["a", "名"]), words, st.integers(0, 9)), max_size=1).map(
    tuple
)
_entries: Final = st.builds(
    JournalEntry,
    st.sampled_from(["k1", "k2", "k3", "键"]),
    st.sampled_from(["", "k1"]),
    st.integers(0, 2),
    st.sampled_from(["user", "assistant", "answer"]),
    st.sampled_from([0.0, 5.5]),
    _messages,
    resolved=st.none() | _messages,
    live=_forms,
    settled=_forms,
    stub=_forms,
    text=_texts,
    bodies=_names,
    shown=_shown,
    leaked=_names,
)
_bodies: Final = st.builds(
    Body, st.sampled_from(["b1", "b2", "体"]), _texts, st.just("tool"), words, st.just(1.0), st.integers(0, 2**40)
)
_ledger: Final = st.builds(
    LedgerEntry,
    mostly([1, 2, 3, 4], [10, 11]),
    st.just(5.0),
    st.integers(0, 3),
    words,
    st.dictionaries(
        st.sampled_from(["user", "head"]), st.builds(Size, st.integers(0, 9), st.integers(0, 9)), max_size=2
    ),
    usage=st.builds(Usage, st.none() | st.integers(0, 99)),
    price=st.none() | st.just(0.0012),
    shown=_shown,
    hash=_texts,
)
_events: Final = st.builds(Event, st.just(5.0), scopes, st.sampled_from(["session.prepare", "其他"]), why=words)
_records: Final = st.builds(
    SessionRecord,
    sessions,
    model=words,
    language=st.sampled_from(["en", "zh"]),
    used_at=st.sampled_from([0.0, 1.5, 1.5, 7.0]),
    head=st.none() | st.builds(Head, _texts, st.lists(_messages, max_size=1).map(tuple), _names),
    turn=st.integers(0, 3),
    issued=_names,
    shown=_shown,
    tainted=st.booleans(),
    pending=st.none() | _ledger,
    account=st.dictionaries(st.sampled_from(["sent", "省"]), st.sampled_from([0.0, 1.5]), max_size=2),
    kept=st.dictionaries(st.sampled_from(["k1", "键"]), st.booleans(), max_size=2),
    nonce=_texts,
)


def _few(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=2).map(tuple)


changes: Final = st.builds(SessionChange, _records, _few(_entries), _few(_bodies), _few(_ledger), _few(_events))


class Store(SessionStore, SlotStore, Protocol):
    """A SessionStore with the log of a SlotStore."""


class SessionMachine(Machine[Store]):
    """Commits, reads and drops."""

    @rule(change=changes, behind=mostly([0], [-1, 1]))
    def commit(self, change: SessionChange, behind: int) -> None:
        self._commit(change, behind)

    @rule(change=changes)
    def commit_more(self, change: SessionChange) -> None:
        self._commit(change, 0)

    @rule(scope=sessions, after=st.integers(0, 3))
    def read(self, scope: Scope, after: int) -> None:
        own = self.own(scope)
        self.same(lambda store: store.load(own))
        self.same(lambda store: store.journal(own, after=after))
        self.same(lambda store: (store.bodies(own), store.body(own, "b1"), store.body(own, "体")))
        self.same(lambda store: store.ledger(own))

    @rule(scope=st.none() | scopes)
    def list_sessions(self, scope: Scope | None) -> None:
        own = self.own(scope)
        self.same(lambda store: store.sessions(own))

    @rule(scope=st.none() | scopes | sessions, idle_before=st.sampled_from([0.0, 1.5, 2.0, 7.0, None]))
    def drop(self, scope: Scope | None, idle_before: float | None) -> None:
        own = self.own(scope)
        self.same(lambda store: store.drop_sessions(scope=own, idle_before=idle_before))

    @rule(first=scopes, second=scopes)
    def digest_keys(self, first: Scope, second: Scope) -> None:
        own = self.own((first, second))
        self.same(lambda store: len({store.digest_key(scope) for scope in own}))
        assert [self.store.digest_key(scope) for scope in own] == [self.store.digest_key(scope) for scope in own]

    def dump(self) -> None:
        self.list_sessions(None)
        for scope in SESSIONS:
            self.read(scope, 0)
        super().dump()

    def wipe(self) -> None:
        for scope in self.own(WHOLE):
            self.store.drop_sessions(scope=scope)

    def _commit(self, change: SessionChange, behind: int) -> None:
        own = self.own(change)
        old = self.model.load(own.record.scope)
        revision = (old.revision if old is not None else 0) + 1 + behind
        own = replace(own, record=replace(own.record, revision=revision))
        self.same(lambda store: store.commit(own))
