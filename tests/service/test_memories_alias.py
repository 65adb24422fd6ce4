"""`mem.alias(old, new)`: two ids of one person become one, in both engines and after reopening."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt import BackendError, ConflictError, ScopeError, UsageError
from offprompt.records.alias import Joined
from offprompt.service.aliasing import resolved
from offprompt.service.offprompt import Offprompt
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock


def fill(mem: Offprompt) -> None:
    old, new = mem.scope(user="bob@old"), mem.scope(user="bob")
    old.remember("the dentist is on Oak Street", derive="none")
    old.narrow(agent="helper").remember("牙医在橡树街", derive="none")
    old.write("city", "Lisbon")
    old.write("diet", "no nuts")
    new.write("city", "Faro")


def test_a_preview_tells_what_would_move_and_what_conflicts(mem: Offprompt) -> None:
    fill(mem)
    assert mem.alias("bob@old", "bob", preview=True) == Joined("bob", 2, ("diet",), ("city",), preview=True)
    assert mem.scope(user="bob@old").scope.user == "bob@old"
    assert mem.scope(user="bob@old").slots.snapshot() == {"city": "Lisbon", "diet": "no nuts"}


def test_the_old_id_is_the_new_one_from_then_on(mem: Offprompt) -> None:
    fill(mem)
    assert mem.alias("bob@old", "bob") == Joined("bob", 2, ("diet",), ("city",), preview=False)
    old = mem.scope(user="bob@old")
    assert str(old.scope) == "user=bob"
    assert old.slots.snapshot() == {"city": "Faro", "diet": "no nuts"}
    assert [hit.text for hit in old.recall("where is the dentist")] == ["the dentist is on Oak Street"]
    old.remember("the bank is on Elm Street", derive="none")
    assert len(mem.scope(user="bob").memories.list()) == 2
    narrowed = mem.scope(agent="helper").narrow(user="bob@old")
    assert [one.text for one in narrowed.memories.list(within="exact")] == ["牙医在橡树街"]
    assert old.session("s1").scope.user == "bob"


def test_a_conflict_moves_when_its_name_is_free(mem: Offprompt) -> None:
    fill(mem)
    mem.alias("bob@old", "bob")
    bob = mem.scope(user="bob")
    bob.slots.erase("city")
    assert mem.alias("bob@old", "bob").slots == ("city",)
    assert bob.read("city") == "Lisbon"


def test_clear_reaches_what_stayed_under_the_old_id(mem: Offprompt) -> None:
    fill(mem)
    session = mem.scope(user="bob@old").session("s1")
    session.prepare([{"role": "user", "content": "hi"}])
    mem.alias("bob@old", "bob")
    assert mem.scope(user="bob").clear() == {"slots": 3, "memories": 2, "sessions": 1}
    assert mem.alias("bob@old", "bob", preview=True) == Joined("bob", 0, (), (), preview=True)


def test_other_apps_are_not_touched(mem: Offprompt) -> None:
    mem.scope(user="bob@old", app="other").write("city", "Lisbon")
    mem.alias("bob@old", "bob")
    assert mem.scope(user="bob@old", app="other").read("city") == "Lisbon"
    assert mem.alias("bob@old", "bob", app="other").slots == ("city",)


def test_it_holds_after_reopening_and_in_a_backup(tmp_path: Path, clock: MovedClock) -> None:
    path = tmp_path / "agent.db"
    with offprompt.open(path, clock=clock) as mem:
        fill(mem)
        mem.alias("bob@old", "bob")
    with offprompt.open(path, clock=clock) as mem:
        assert mem.scope(user="bob@old").read("diet") == "no nuts"


@pytest.mark.parametrize(("old", "new"), [("", "bob"), ("bob", "a\nb"), ("x" * 300, "bob")])
def test_what_is_no_id_is_refused(mem: Offprompt, old: str, new: str) -> None:
    with pytest.raises(ScopeError):
        mem.alias(old, new)


def test_what_cannot_be_joined_moves_nothing(mem: Offprompt) -> None:
    fill(mem)
    with pytest.raises(UsageError, match="the same id"):
        mem.alias("bob", "bob")
    mem.alias("ann@old", "ann")
    with pytest.raises(UsageError, match="already"):
        mem.alias("ann", "ann@old")
    mem.scope(user="ann").write("city", "Porto")
    with pytest.raises(ConflictError, match="'ann' already"):
        mem.alias("ann@old", "bob")
    assert mem.scope(user="ann@old").slots.snapshot() == {"city": "Porto"}
    assert mem.scope(user="bob").slots.snapshot() == {"city": "Faro"}


def test_a_store_that_fails_is_told_by_the_work_not_by_the_scope(clock: MovedClock) -> None:
    class Failing(InProcessStore):
        def apply(self, ops: object) -> list[object]:
            raise BackendError(f"no store for {ops}")

    scope = offprompt.Scope(user="bob")
    assert resolved(Failing(clock), scope) == scope
