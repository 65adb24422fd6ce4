"""Scopes: spaces stand alone, and what is granted is found behind what is one's own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.errors import ScopeError
from offprompt.records import Actor, Scope
from offprompt.records.scope import SPACE_MARK, GrantedScope, clean_space

LEGAL = Scope(space="legal")
OTHERS = (
    Scope(user="legal"),
    Scope(agent="legal"),
    Scope(session="legal"),
    Scope(user="legal", agent="legal", session="legal"),
    Scope(shared=True),
    Scope(space="legal2"),
    Scope("other", space="legal"),
)


def test_a_space_stands_alone() -> None:
    assert (str(LEGAL), LEGAL.inherited(), LEGAL.without_session()) == ("space=legal", (LEGAL,), LEGAL)
    assert LEGAL.holds(LEGAL)
    assert LEGAL.narrow() is LEGAL
    for other in OTHERS:
        assert LEGAL not in other.inherited()
        assert not LEGAL.holds(other)
        assert other.holds(LEGAL) is (other == Scope(shared=True))
        assert LEGAL.key != other.key
    others: tuple[dict[str, Any], ...] = ({"user": "a"}, {"agent": "a"}, {"session": "a"}, {"shared": True})
    for given_too in others:
        with pytest.raises(ScopeError, match="stands alone"):
            Scope(space="legal", **given_too)
    with pytest.raises(ScopeError, match="space=legal stands alone"):
        LEGAL.narrow(user="alice")


@pytest.mark.parametrize("kind", ["user", "agent", "session", "app"])
def test_no_id_can_be_what_a_space_is_stored_as(kind: str) -> None:
    ids: dict[str, Any] = {"user": "u", kind: f"{SPACE_MARK}legal"}
    with pytest.raises(ScopeError, match="control characters"):
        Scope(**ids)


@pytest.mark.parametrize(
    ("one", "other"), [("Legal", "legal"), ("ｌｅｇａｌ", "LEGAL"), ("Straße", "STRASSE"), ("法务", "法务")]
)
def test_spaces_that_are_spelled_alike_are_one(one: str, other: str) -> None:
    assert Scope(space=one) == Scope(space=other)


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "*", "..", "m_1", "x" * 65, "\ud800", SPACE_MARK, 7])
def test_a_space_is_called_as_a_slot_may_be(name: str) -> None:
    with pytest.raises(ScopeError, match="the name of a space"):
        Scope(space=name)


@given(st.text(max_size=66))
def test_a_space_comes_back_from_its_key_and_from_json(name: str) -> None:
    try:
        scope = Scope(space=name)
    except ScopeError:
        return
    assert clean_space(scope.space) == scope.space
    assert Scope.from_key(scope.key) == scope
    assert msgspec.json.decode(msgspec.json.encode(scope), type=Scope) == scope


def test_what_is_granted_is_found_behind_ones_own_and_before_what_is_shared() -> None:
    alice, shared = Scope(user="alice", agent="a"), Scope(shared=True)
    seen = GrantedScope.of(alice, [LEGAL, LEGAL, Scope(user="alice"), Scope(agent="b")])
    assert seen.inherited() == (*alice.inherited()[:-1], LEGAL, Scope(agent="b"), shared)
    assert (seen, hash(seen), seen.key) == (alice, hash(alice), alice.key)
    assert seen.holds(alice)
    assert not seen.holds(LEGAL)
    assert LEGAL in seen.narrow(session="s").inherited()
    assert LEGAL in seen.narrow(session="s").without_session().inherited()
    assert msgspec.json.decode(msgspec.json.encode(seen), type=Scope) == alice
    for same in (copy.copy(seen), copy.deepcopy(seen), pickle.loads(pickle.dumps(seen))):  # noqa: S301 - our own bytes
        assert same.inherited() == seen.inherited()


def test_nothing_granted_is_the_scope_itself_and_a_grant_keeps_the_view_of_who_is_of_a_user() -> None:
    alice = Scope(user="alice")
    assert GrantedScope.of(alice, [alice, Scope(shared=True)]) is alice
    own = Actor("key:k", of_user=True).view(Scope(user="alice", session="s"))
    seen = GrantedScope.of(own, [LEGAL])
    assert Scope(session="s") not in seen.inherited()
    assert GrantedScope.of(GrantedScope.of(own, [LEGAL]), []) is own
