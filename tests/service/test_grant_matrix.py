"""Every pair of what is granted and to whom: the right one finds it, another of its kind as little as anybody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

import offprompt
from offprompt.records import Actor, GranteeKind, GrantKind, Recalled, Scope
from offprompt.records.grant import GRANT_KINDS, GRANTEE_KINDS
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt

FACT: Final = "The blue folder holds the quarterly figures."
QUESTION: Final = "Which folder holds the quarterly figures?"
ASKERS: Final[dict[str, tuple[GranteeKind | None, dict[str, Any], str]]] = {
    "the user": ("user", {"user": "alice"}, ""),
    "the user with some agent": ("user", {"user": "alice", "agent": "c"}, ""),
    "another user": (None, {"user": "bob"}, ""),
    "the agent": ("agent", {"user": "bob", "agent": "b"}, ""),
    "another agent": (None, {"user": "bob", "agent": "c"}, ""),
    "the key": ("key", {"user": "bob"}, "one"),
    "another key": (None, {"user": "bob"}, "two"),
    "somebody's session": (None, {"session": "s1"}, ""),
}
"""Who asks: to whom of them a grant would be, their ids, the name of their key."""


@pytest.fixture(scope="module")
def mem() -> Iterator[Offprompt]:
    """What an agent keeps for all its users, and a space, with the same in them; grants come and go."""
    with offprompt.open(":memory:") as memory:
        for scope in (memory.scope(agent="legal"), memory.space("legal")):
            scope.remember(FACT, derive="none")
        yield memory


def asker(mem: Offprompt, name: str, keys: dict[str, str]) -> BoundScope:
    _, ids, key = ASKERS[name]
    return mem.bound(Scope(**ids), Actor("key", bounded=True, key=keys.get(key, "")))


def asked(scope: BoundScope, kind: GrantKind, name: str) -> Recalled:
    return scope.recall(QUESTION, spaces=[name]) if kind == "space" else scope.recall(QUESTION)


@pytest.mark.parametrize("to_kind", GRANTEE_KINDS)
@pytest.mark.parametrize("kind", GRANT_KINDS)
def test_who_is_granted_it_finds_it_and_nobody_else(mem: Offprompt, kind: GrantKind, to_kind: GranteeKind) -> None:
    keys = {name: mem.keys.create(name).key.key_id for name in ("one", "two")}
    to = {"everyone": "everyone", "user": "user:alice", "agent": "agent:b", "key": f"key:{keys['one']}"}[to_kind]
    scopes = {name: asker(mem, name, keys) for name in ASKERS}
    assert {name: len(asked(scope, kind, "legal")) for name, scope in scopes.items()} == dict.fromkeys(ASKERS, 0)
    mem.grants.add(kind, "legal", to=to)
    try:
        found = {name: [hit.text for hit in asked(scope, kind, "legal")] for name, scope in scopes.items()}
    finally:
        mem.grants.remove(kind, "legal", to=to)
    right = {name for name, (its, _, _) in ASKERS.items() if to_kind in ("everyone", its)}
    assert found == {name: [FACT] if name in right else [] for name in ASKERS}
    assert {name: len(asked(scope, kind, "legal")) for name, scope in scopes.items()} == dict.fromkeys(ASKERS, 0)


@pytest.mark.parametrize("name", ASKERS)
def test_what_is_not_granted_is_answered_as_what_is_not_there(mem: Offprompt, name: str) -> None:
    scope = asker(mem, name, {})
    there, nowhere = asked(scope, "space", "legal"), asked(scope, "space", "nosuch")
    assert len(there) == len(nowhere) == 0
    assert there.degraded.replace("legal", "nosuch") == nowhere.degraded != ""
    assert replace(there, degraded="") == replace(nowhere, degraded="")
    assert asked(scope, "agent", "legal") == replace(nowhere, degraded="")


def test_another_app_finds_nothing_whatever_is_granted(mem: Offprompt) -> None:
    for kind in GRANT_KINDS:
        mem.grants.add(kind, "legal", to="everyone", app="other")
        for scope in (mem.scope(user="alice"), mem.scope(user="alice", app="other")):
            assert len(asked(scope, kind, "legal")) == 0
