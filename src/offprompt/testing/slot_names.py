"""Conformance: names, scope ids, patterns, and what a list finds."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import pytest

from offprompt.errors import NameInvalidError
from offprompt.protocols import SlotStore
from offprompt.records import Scope, SlotQuery
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, Suite, erase, forget, found, get, history, names_of, put, value_of

BORDERING = ("foo", "foobar", "fo_", "fo-", "fo.o", "f", "Fo0")
BORDERING_IDS = ("foo", "foobar", "FOO", "fo_", "fo%", "foo ob", "foo|bar", "foo/bar", "foo'", 'foo"', "fоо", "foo*")
HOSTILE_NAMES = (
    "",
    ".hidden",
    "a b",
    "a/b",
    "a\x00b",
    "a\nb",
    "m_1",
    "M_1",
    "ｍ＿1",
    "a" * 65,
    "fo%",
    "x'y",
    "🙂",
    "\ud800",
)
ALIKE = (
    ("name", "ｎａｍｅ"),
    ("name", "NAME"),
    ("Straße", "STRASSE"),
    ("İstanbul", "i̇stanbul"),
    ("ﬁle", "file"),
    ("姓名", "姓名"),
    ("用户２", "用户2"),
    ("café", "cafe\u0301"),
    ("ΣΊΣΥΦΟΣ", "σίσυφος"),
)
UNLIKE = (("name", "names"), ("ı", "i"), ("姓名", "名姓"), ("后", "後"), ("e", "é"))


class SlotNames(Suite):
    """Names are unique once folded, and nothing in a name or an id is a wildcard."""

    def test_bordering_names_are_apart(self, store: SlotStore) -> None:
        for name in BORDERING:
            put(store, name, name)
        assert [value_of(store, name) for name in BORDERING] == list(BORDERING)
        assert erase(store, "fo_") == 1
        assert forget(store, "foo") is True
        assert set(names_of(store)) == set(BORDERING) - {"fo_", "foo"}

    def test_bordering_ids_are_apart(self, store: SlotStore) -> None:
        for text in BORDERING_IDS:
            for scope in (Scope(user=text), Scope(agent=text), Scope(text, user="u"), Scope(user="u", session=text)):
                put(store, "v", str(scope), scope=scope)
        for text in BORDERING_IDS:
            for scope in (Scope(user=text), Scope(agent=text), Scope(text, user="u"), Scope(user="u", session=text)):
                assert value_of(store, "v", scope) == str(scope)
        assert erase(store, scope=Scope(user="fo_"), within="subtree") == 1
        assert erase(store, scope=Scope(user="fo%"), within="subtree") == 1
        assert value_of(store, "v", Scope(user="foo")) == "user=foo"

    @pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
    def test_hostile_names_are_refused_and_found_missing(self, store: SlotStore, name: str) -> None:
        with pytest.raises(NameInvalidError):
            put(store, name, 1)
        assert get(store, name) is None
        assert get(store, name, touch=True) is None
        assert history(store, name) == []
        assert forget(store, name) is False
        assert erase(store, name) == 0
        assert names_of(store) == []

    @pytest.mark.parametrize(("name", "spelling"), ALIKE)
    def test_names_that_fold_alike(self, store: SlotStore, name: str, spelling: str) -> None:
        put(store, name, 1)
        if put(store, name, 2).name != spelling and spelling != name and _differ(name, spelling):
            with pytest.raises(NameInvalidError, match="write '"):
                put(store, spelling, 3)
        assert value_of(store, spelling) == 2
        assert len(history(store, spelling)) == 2
        assert len(names_of(store)) == 1
        assert forget(store, spelling) is True
        assert get(store, name) is None

    @pytest.mark.parametrize(("name", "other"), UNLIKE)
    def test_names_that_do_not_fold_alike(self, store: SlotStore, name: str, other: str) -> None:
        put(store, name, 1)
        put(store, other, 2)
        assert (value_of(store, name), value_of(store, other)) == (1, 2)

    def test_a_forgotten_name_may_be_spelled_anew(self, store: SlotStore) -> None:
        put(store, "City", "Bern")
        forget(store, "City")
        assert put(store, "CITY", "上海").version == 2
        assert names_of(store) == ["CITY"]

    def test_patterns(self, store: SlotStore) -> None:
        for name in ("foo", "foobar", "FO_", "fo-x", "喜欢的颜色", "喜欢的城市", "a.b"):
            put(store, name, 1)
        assert names_of(store, names="foo") == ["foo"]
        assert names_of(store, names="FOO*") == ["foo", "foobar"]
        assert names_of(store, names="fo?") == ["FO_", "foo"]
        assert names_of(store, names="fo_") == ["FO_"]
        assert names_of(store, names="喜欢*") == ["喜欢的城市", "喜欢的颜色"]
        assert names_of(store, names="*的颜?") == ["喜欢的颜色"]
        assert names_of(store, names="a.b") == ["a.b"]
        for literal in ("fo%", "f[o]o", "a[.]b", "", "\\f*", "foo\x00", "'*"):
            assert names_of(store, names=literal) == []
        assert len(names_of(store, names="*")) == 7

    def test_a_pattern_of_many_stars_is_fast(self, store: SlotStore) -> None:
        put(store, "a" * 64, 1)
        assert names_of(store, names="*a" * 30 + "b") == []

    def test_lists_are_in_order_of_folded_names(self, store: SlotStore) -> None:
        for name in ("b", "A", "名", "C", "é"):
            put(store, name, 1)
        assert names_of(store) == ["A", "b", "C", "é", "名"]
        assert names_of(store, limit=2) == ["A", "b"]
        assert names_of(store, limit=0) == []

    def test_conditions(self, store: SlotStore, clock: MovedClock) -> None:
        start = clock.now()
        put(store, "a", 1, tags=("x", "食"))
        clock.move(10)
        put(store, "b", 1, tags=("x",))
        assert names_of(store, tags=("x",)) == ["a", "b"]
        assert names_of(store, tags=("食", "x")) == ["a"]
        assert names_of(store, tags=("X",)) == []
        assert names_of(store, since=start + 10) == ["b"]
        assert names_of(store, until=start + 10) == ["a"]
        assert names_of(store, since=start, until=start) == []

    def test_inherit_finds_the_most_specific(self, store: SlotStore) -> None:
        session = Scope(user="u", agent="g", session="s")
        wider = (
            (Scope(shared=True), "shared"),
            (Scope(agent="g"), "agent"),
            (Scope(user="u"), "user"),
            (Scope(user="u", agent="g"), "user and agent"),
            (Scope(session="s"), "session"),
            (session, "all"),
        )
        for other in (Scope(user="v"), Scope("b", user="u"), Scope(user="u", session="t"), Scope(agent="h")):
            put(store, "x", "not found", scope=other)
        for scope, value in wider:
            put(store, "x", value, scope=scope)
            put(store, f"only-{value.replace(' ', '-')}", value, scope=scope)
            assert [slot.value for slot in found(store, SlotQuery(session, names="x"))] == [value]
        assert len(found(store, SlotQuery(session))) == 1 + len(wider)
        forget(store, "x", session)
        assert [slot.value for slot in found(store, SlotQuery(session, names="x"))] == ["session"]
        assert names_of(store, session) == ["only-all"]

    def test_a_condition_does_not_uncover_what_is_covered(self, store: SlotStore) -> None:
        put(store, "x", "wide", scope=Scope(user="u"), tags=("t",))
        put(store, "x", "narrow", scope=Scope(user="u", session="s"))
        assert found(store, SlotQuery(Scope(user="u", session="s"), tags=("t",))) == []

    def test_subtree_finds_what_has_all_ids(self, store: SlotStore) -> None:
        inside = (Scope(user="u"), Scope(user="u", session="s"), Scope(user="u", agent="g"), Scope(user="u", agent="h"))
        outside = (Scope(shared=True), Scope(agent="g"), Scope(user="uu"), Scope("b", user="u"), Scope(session="u"))
        for scope in (*inside, *outside):
            put(store, "x", str(scope), scope=scope)
        slots = found(store, SlotQuery(Scope(user="u"), "subtree"))
        assert [slot.scope for slot in slots] == sorted(inside, key=lambda scope: scope.key)
        assert [slot.value for slot in found(store, SlotQuery(Scope(agent="g"), "subtree"))] == [
            "agent=g",
            "user=u agent=g",
        ]
        assert len(found(store, SlotQuery(Scope(shared=True), "subtree"))) == len(inside) + len(outside) - 1

    def test_erase(self, store: SlotStore) -> None:
        for scope in (ALICE, ALICE.narrow(session="s"), ALICE.narrow(agent="g"), Scope(user="bob")):
            for name in ("a", "b", "隐"):
                put(store, name, 1, scope=scope)
            forget(store, "隐", scope)
        assert erase(store, "A", "a", "missing") == 1
        assert erase(store, "b", within="subtree") == 3
        assert erase(store) == 1
        assert history(store, "隐") == []
        assert erase(store, within="subtree") == 4
        assert erase(store, within="subtree") == 0
        assert names_of(store, Scope(shared=True), within="subtree") == ["a", "b"]
        assert put(store, "b", 1).version == 1


def _differ(name: str, spelling: str) -> bool:
    """Whether two spellings are two also once composed."""
    return Scope(user=name).user != Scope(user=spelling).user
