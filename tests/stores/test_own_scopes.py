"""Records that somebody stored who is of one user only are in the same scope as everybody's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import offprompt
from offprompt.records import Actor
from offprompt.service.offprompt import Offprompt

BOUNDED = Actor("key:k1", bounded=True, of_user=True)


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Offprompt]:
    with offprompt.open(":memory:" if request.param == "memory" else tmp_path / "agent.db") as opened:
        yield opened


@pytest.mark.parametrize("said", ["I live in Porto.", "我住在上海。"])
def test_what_a_bounded_actor_stored_is_found_hidden_and_erased_by_others(memory: Offprompt, said: str) -> None:
    theirs, ours = memory.scope(user="alice", actor=BOUNDED), memory.scope(user="alice")
    ids = [theirs.remember(f"{said} {at}")[0].name for at in range(3)]
    own = ours.remember("likes tea")[0].name
    assert len(ours.memories.list(within="exact").memories) == len(theirs.memories.list(within="exact").memories)
    assert ours.memories.forget(ids[0]) == 1
    assert ours.memories.undo(ids[0]) == 1
    assert ours.memories.erase(ids[1]) == 1
    assert theirs.memories.forget(own, ids[2]) == 2
    assert ours.memories.erase(within="exact") >= 2
    assert theirs.memories.list().memories == ()


def test_slots_too(memory: Offprompt) -> None:
    theirs, ours = memory.scope(user="alice", actor=BOUNDED), memory.scope(user="alice")
    theirs.write("city", "Porto")
    assert ours.read("city") == "Porto"
    assert [slot.name for slot in ours.slots.list(within="exact")] == ["city"]
    assert ours.slots.erase("city") == 1
