"""Events say whose doing it was, and who is bounded changes and sees no more than that."""

from __future__ import annotations

from typing import Any

import pytest

import offprompt
from offprompt.errors import ForbiddenError, NotFoundError
from offprompt.records import Actor, Identity, Role
from offprompt.service.access import actor_for
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.service.talk import MODELS, Talk, call

KEY = "key:k1"
BOUNDED = Actor(KEY, bounded=True)


def told(scope: BoundScope) -> set[tuple[str, str]]:
    scope._parts.slots.flush()  # pyright: ignore[reportPrivateUsage]
    return {(event.op, event.actor) for event in scope.events()}


def test_each_verb_on_slots_names_the_actor(mem: Offprompt) -> None:
    alice = mem.scope(user="alice", actor=KEY)
    assert alice.write("city", "上海").actor == KEY
    alice.read("city")
    alice.write("token", "Zx9-hunter2", policy="never")
    alice.slots.allow("token", "send", "auth")
    alice.slots.lock("token")
    alice.forget("city")
    alice.slots.undo("city")
    alice.slots.erase("city")
    with pytest.raises(offprompt.LimitError):
        alice.write("long", "x" * 5000)
    ops = {"slot.write", "slot.read", "slot.guard", "slot.forget", "slot.restore", "slot.erase"}
    assert told(alice) == {(op, KEY) for op in ops}


def test_each_verb_on_memories_names_the_actor(mem: Offprompt) -> None:
    alice = mem.scope(user="alice", actor=KEY)
    (stored, *_) = alice.remember("The blue crate stands in hall 3.")
    memory = alice.memories.get(stored.name)
    assert memory is not None
    assert memory.actor == KEY
    alice.memories.update(memory.memory_id, text="The blue crate stands in hall 4.")
    alice.forget(memory.memory_id)
    alice.memories.undo(memory.memory_id)
    assert {version.actor for version in alice.memories.history(memory.memory_id)} == {KEY}
    alice.memories.erase(memory.memory_id)
    ops = {"memory.add", "memory.update", "memory.forget", "memory.restore", "memory.erase"}
    assert {(op, actor) for op, actor in told(alice) if op.startswith("memory.")} == {(op, KEY) for op in ops}


def test_clear_narrow_and_alias_name_the_actor(mem: Offprompt) -> None:
    mem.scope(user="old").write("city", "Oslo")
    assert mem.alias("old", "alice", actor=KEY).slots == ("city",)
    alice = mem.scope(user="alice", actor=KEY)
    alice.narrow(agent="a").write("n", "1")
    alice.clear()
    found = told(alice)
    assert {("slot.move", KEY), ("slot.write", KEY), ("slot.erase", KEY)} <= found
    assert {actor for op, actor in found if op != "slot.write"} == {KEY}


def test_what_a_session_does_is_said_to_be_done_on_behalf_of_the_actor(mem: Offprompt) -> None:
    alice = mem.scope(user="alice", actor=KEY)
    alice.write("name", "Lin")
    one = Talk(alice.session("s1", model=MODELS["openai"], wire="openai"), "openai")
    one.turn("Please keep that my flat is on Elm Street. What is my name?", call("mem_write", slot="flat", value="Elm"))
    one.go("Lin; I will keep it.")
    found = told(alice)
    assert ("slot.write", f"model {KEY}") in found
    assert ("memory.add", f"session {KEY}") in found
    assert {actor for _, actor in found} <= {KEY, f"model {KEY}", f"session {KEY}", "rules"}
    assert {actor for _, actor in told(mem.scope(user="bob"))} == set()


def test_a_write_that_waited_on_this_machine_keeps_its_actor(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, clock: MovedClock
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with offprompt.open(str(tmp_path / "a.db"), clock=clock, write_deadline_s=0.2) as memory:
        spool, batch = memory.parts.spool, memory.parts.slots.batch
        assert spool is not None

        def fails(_: Any) -> Any:
            raise offprompt.BackendError("the store is away")

        monkeypatch.setattr(memory.parts.slots, "batch", fails)
        slot = memory.scope(user="alice", actor=KEY).write("city", "Oslo")
        assert (slot.spooled, slot.actor) == (True, KEY)
        monkeypatch.setattr(memory.parts.slots, "batch", batch)
        spool.make_way()
        found = memory.scope(user="alice").slots.get("city")
        assert found is not None
        assert found.actor == KEY


def test_only_an_admin_of_the_whole_app_is_not_bounded() -> None:
    admin: frozenset[Role] = frozenset({"admin"})
    assert not actor_for(Identity(roles=admin), None).bounded
    for identity in (Identity(), Identity(users=("a",), roles=admin), Identity(agents=("a",), roles=admin)):
        assert actor_for(identity, None).bounded
    assert actor_for(Identity(key="k", users=("a",)), "a").name == "key:k for:a"


def test_who_is_bounded_hides_nothing_that_others_share(mem: Offprompt) -> None:
    mem.scope(shared=True).write("motd", "hello")
    mem.scope(agent="a").write("rules", "be kind")
    (stored, *_) = mem.scope(agent="a").remember("Hall 3 is closed.")
    (common, *_) = mem.scope(shared=True).remember("Hall 4 is open.")
    alice = mem.scope(user="alice", agent="a", actor=BOUNDED)
    assert (alice.read("motd"), alice.read("rules")) == ("hello", "be kind")
    for name in ("motd", "rules"):
        with pytest.raises(ForbiddenError, match=name):
            alice.forget(name)
    with pytest.raises(ForbiddenError):
        alice.memories.update(stored.name, text="x")
    assert alice.memories.forget(stored.name, common.name) == 0
    assert alice.memories.erase(stored.name) == 0
    assert mem.scope(agent="a").memories.get(stored.name) is not None
    mem.scope(user="alice").write("own", "1")
    assert alice.forget("own") == "own"


def test_who_is_bounded_sees_nothing_below_the_shared_scope(mem: Offprompt) -> None:
    bob = mem.scope(user="bob")
    bob.write("city", "Oslo")
    (stored, *_) = bob.remember("I live in Oslo.")
    shared = mem.scope(shared=True, actor=BOUNDED)
    memories: list[Any] = [
        lambda: shared.slots.list(within="subtree"),
        lambda: shared.memories.list(within="subtree"),
        lambda: shared.recall("Oslo", within="subtree"),
        lambda: shared.memories.export("/nowhere/x"),
        lambda: shared.slots.erase(within="subtree"),
        lambda: shared.memories.erase(within="subtree"),
        shared.events,
        shared.clear,
    ]
    for ask in memories:
        with pytest.raises(ForbiddenError, match="whole app"):
            ask()
    assert shared.memories.get(stored.name) is None
    with pytest.raises(NotFoundError):
        shared.memories.history(stored.name)
    assert shared.memories.forget(stored.name) == 0
    assert bob.read("city") == "Oslo"
    assert mem.scope(shared=True).slots.list(within="subtree") != []
