"""Conformance: what every word index promises."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from typing import Any, Final, Protocol

import pytest

from offprompt.protocols import MemoryStore, WordIndex
from offprompt.recall.analysis import search_terms
from offprompt.recall.docs import analyse
from offprompt.recall.packing import pack
from offprompt.records import Indexed, Memory, Scope, Sought
from offprompt.records.scope import GrantedScope
from offprompt.testing.clock import MovedClock
from offprompt.testing.exact_words import ExactWords
from offprompt.testing.kit import ALICE, BOB, Suite
from offprompt.testing.memory_kit import add, erase, forget, memory_of, update

WORDS: Final = ("green tea", "绿茶 很 好喝", "tea time", "the cat", "上海 下雨", "rain in Shanghai", "cats and dogs")


class WordStore(MemoryStore, WordIndex, Protocol):
    """A store of memories that is a word index as well."""


def put(store: MemoryStore, text: str, scope: Scope = ALICE, **fields: Any) -> Memory:
    """A memory with its terms."""
    memory = memory_of(text, scope, **fields)
    done = add(store, text, scope, memory_id=memory.memory_id, indexed=terms_of(memory), **fields).memory
    assert done is not None
    return done


def terms_of(memory: Memory, version: int = 1) -> Indexed:
    """What is derived from a memory."""
    return Indexed(memory.memory_id, version, pack(analyse(memory.text)))


def filled(store: MemoryStore) -> None:
    """Texts over several scopes, kinds and times, each different."""
    agent, space = Scope(user="alice@example.com", agent="a"), Scope(space="bob")
    scopes = (ALICE, BOB, agent, Scope(shared=True), Scope("other", user="bob"), space)
    kinds = ("fact", "episode", "passage")
    for at in range(140):
        text = f"{WORDS[at % 7]} {WORDS[at // 7 % 7]} {at} {'tea ' * (at % 4)}"
        put(store, text, scopes[at % 6], kind=kinds[at // 3 % 3], event_at=1.7e9 + at, order=at)


class WordIndexSuite(Suite):
    """All that `protocols.WordIndex` promises; give it a fixture `store`: a MemoryStore that is a WordIndex too."""

    @pytest.mark.parametrize("within", ["exact", "inherit", "subtree"])
    @pytest.mark.parametrize("question", ["green tea", "绿茶", "上海 rain 17", "the", "nothing of it", ""])
    def test_it_finds_what_holds_the_words_with_the_statistics_of_the_scopes(
        self, store: WordStore, question: str, within: Any
    ) -> None:
        filled(store)
        exact, terms = ExactWords(store), tuple(sorted(search_terms(question)))
        granted = GrantedScope.of(ALICE, [Scope(space="bob")])
        for scope in (granted, ALICE, Scope(user="alice@example.com", agent="a"), Scope(shared=True), Scope(user="no")):
            sought = Sought(scope, within)
            for limit in (3, 1000):
                assert store.words(terms, sought, limit=limit) == exact.words(terms, sought, limit=limit)

    @pytest.mark.parametrize(
        "conditions",
        [
            {"kinds": frozenset({"episode"})},
            {"since": 1.7e9 + 50},
            {"until": 1.7e9 + 50},
            {"kinds": frozenset({"fact", "passage"}), "since": 1.7e9 + 20, "until": 1.7e9 + 90},
        ],
    )
    def test_conditions_narrow_the_hits_and_no_statistic(self, store: WordStore, conditions: dict[str, Any]) -> None:
        filled(store)
        terms = tuple(sorted(search_terms("green tea in 上海")))
        found = store.words(terms, Sought(ALICE, "subtree", **conditions), limit=4)
        assert found == ExactWords(store).words(terms, Sought(ALICE, "subtree", **conditions), limit=4)
        every = store.words(terms, Sought(ALICE, "subtree"), limit=4)
        assert (found.texts, found.terms, found.holders) == (every.texts, every.terms, every.holders)
        some = frozenset(every.ids[:2])
        assert store.words(terms, Sought(ALICE, "subtree", ids=some), limit=4).ids == every.ids[:2]

    def test_only_what_is_live_counts(self, store: WordStore, clock: MovedClock) -> None:
        names = ("one", "two", "three", "five", "six")
        kept, hidden, archived, gone, changed = (put(store, f"tea {name}") for name in names)
        put(store, "tea four", expires_at=clock.now() + 10)
        put(store, "tea seven", BOB)
        forget(store, hidden.memory_id)
        update(store, archived.memory_id, archived=True)
        erase(store, gone.memory_id)
        update(store, changed.memory_id, text="milk", digest="milk")  # its terms are not known any more
        assert store.words(("tea",), Sought(ALICE), limit=9).texts == 2
        clock.move(10)
        found = store.words(("tea",), Sought(ALICE), limit=9)
        assert (found.ids, found.texts, found.terms, found.holders) == ((kept.memory_id,), 1, 2, {"tea": 1})
        update(store, archived.memory_id, archived=False)
        assert set(store.words(("tea",), Sought(ALICE), limit=9).ids) == {kept.memory_id, archived.memory_id}

    def test_words_are_those_of_the_text_as_it_is_now(self, store: WordStore) -> None:
        memory = put(store, "green tea")
        anew = Indexed(memory.memory_id, 2, pack(analyse("black coffee")))
        update(store, memory.memory_id, text="black coffee", digest="c", indexed=anew)
        assert store.words(("tea",), Sought(ALICE), limit=9).ids == ()
        assert store.words(("coffe",), Sought(ALICE), limit=9).holders == {"coffe": 1}

    def test_of_very_many_terms_the_rarest_count(self, store: WordStore) -> None:
        common = put(store, "common " + " ".join(f"x{at}" for at in range(200)))
        put(store, "common")
        terms = ("common", *(f"x{at}" for at in range(200)))
        found = store.words(terms, Sought(ALICE), limit=9)
        assert (found.ids, found.holders["common"]) == ((common.memory_id,), 2)

    def test_beside_are_the_neighbours_in_the_log(self, store: WordStore, clock: MovedClock) -> None:
        ends = [None, None, None, None, None, clock.now() + 5, None, None, None, None]
        log = [
            put(store, f"turn {at}", kind="episode", session="s", order=at // 2, expires_at=end)
            for at, end in enumerate(ends)
        ]
        names = [turn.memory_id for turn in log]
        put(store, "elsewhere", kind="episode", session="t", order=1)
        put(store, "no turn", session="s", order=1)
        lone = put(store, "no session", kind="episode")
        assert store.beside("default", [names[2]]) == (names[1], names[3])
        assert store.beside("default", [names[0], names[1], lone.memory_id, "m_unknown"]) == (names[2],)
        assert store.beside("default", names) == ()
        assert store.beside("other", names) == ()
        forget(store, names[3])
        assert store.beside("default", [names[2]]) == (names[1], names[4])
        clock.move(5)
        assert store.beside("default", [names[4]]) == (names[2], names[6])
        assert store.beside("default", [names[3], names[5]]) == ()
