"""What one app may store, and how often it may ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import LimitError, RateError
from offprompt.protocols import SlotStore
from offprompt.records import Identity
from offprompt.service.offprompt import Offprompt
from offprompt.service.quotas import AGAIN_S, MEASURED_S, Quotas
from offprompt.testing import MovedClock
from tests.service.talk import MODELS, Talk, call

Open = Callable[..., Offprompt]


@pytest.fixture
def opened(tmp_path: Path, clock: MovedClock) -> Open:
    def open_memory(**settings: Any) -> Offprompt:
        return offprompt.open(str(tmp_path / "a.db"), clock=clock, **settings)

    return open_memory


def quotas_of(memory: Offprompt) -> Quotas:
    assert memory.parts.quotas is not None
    return memory.parts.quotas


def test_slots_of_an_app_are_limited_over_all_its_scopes(opened: Open) -> None:
    with opened(max_app_slots=2) as memory:
        alice, bob = memory.scope(user="alice"), memory.scope(user="bob")
        alice.write("a", "1")
        bob.write("a", "1")
        with pytest.raises(LimitError, match="max_app_slots") as full:
            bob.write("b", "1")
        assert (full.value.used, full.value.limit, full.value.unit) == (3, 2, "slots")
        assert bob.slots.get("b") is None
        assert bob.write("a", "2").version == 2
        assert memory.scope(user="bob", app="shop").write("b", "1").version == 1


def test_what_was_erased_makes_room_within_a_second(opened: Open, clock: MovedClock) -> None:
    with opened(max_app_slots=1) as memory:
        alice = memory.scope(user="alice")
        alice.write("a", "1")
        alice.slots.erase("a")
        clock.move(AGAIN_S)
        assert alice.write("b", "1").version == 1


def test_bytes_of_slots_and_memories_count_together(opened: Open, clock: MovedClock) -> None:
    with opened(max_app_bytes=3000) as memory:
        alice = memory.scope(user="alice")
        alice.write("a", "x" * 2000)
        with pytest.raises(LimitError, match="max_app_bytes") as full:
            alice.write("b", "x" * 1001)
        assert full.value.unit == "bytes"
        with pytest.raises(LimitError, match="max_app_bytes"):
            alice.remember("y" * 1001)
        alice.write("a", "x")
        clock.move(AGAIN_S)
        alice.write("b", "x" * 1001)
        assert alice.memories.list().memories == ()


def test_memories_of_an_app_are_limited(opened: Open, clock: MovedClock) -> None:
    with opened(max_app_memories=2) as memory:
        alice = memory.scope(user="alice")
        alice.remember(["The blue crate stands in hall 3.", "The red crate stands in hall 4."], derive="none")
        with pytest.raises(LimitError, match="max_app_memories"):
            alice.remember("The green crate stands in hall 5.", derive="none")
        assert len(alice.memories.list()) == 2
        alice.memories.erase(alice.memories.list()[0].memory_id)
        clock.move(AGAIN_S)
        alice.remember("The green crate stands in hall 5.", derive="none")


def test_a_full_app_goes_on_talking(opened: Open) -> None:
    with opened(max_app_slots=1, max_app_memories=1) as memory:
        alice = memory.scope(user="alice")
        alice.write("a", "1")
        alice.remember("The blue crate stands in hall 3.", derive="none")
        one = Talk(alice.session("s1", model=MODELS["openai"], wire="openai"), "openai")
        first = one.turn("Keep that my flat is on Elm Street.", call("mem_write", slot="flat", value="Elm"))
        assert not first.receipts[0].ok
        last = one.go("I could not keep it.")
        assert last.text == "I could not keep it."
        assert any("max_app_memories" in warning for warning in last.warnings)
        assert [slot.name for slot in alice.slots.list()] == ["a"]


def test_an_import_stores_as_much_as_there_is_room_for(opened: Open, tmp_path: Path) -> None:
    with opened() as memory:
        memory.scope(user="alice").remember([f"Crate {number} stands in hall 3." for number in range(5)], derive="none")
        memory.scope(user="alice").memories.export(tmp_path / "out.jsonl")
    with offprompt.open(":memory:", max_app_memories=3) as other:
        done = other.scope(user="alice").memories.import_file(tmp_path / "out.jsonl")
        assert (done.added, len(done.refused)) == (3, 2)
        assert "max_app_memories" in done.refused[0].why


def test_what_other_processes_store_is_seen_within_seconds(opened: Open, clock: MovedClock) -> None:
    with opened(max_app_slots=2) as one, opened(max_app_slots=2) as other:
        other.scope(user="bob").write("a", "1")
        one.scope(user="alice").write("a", "1")
        other.scope(user="bob").write("b", "1")
        clock.move(MEASURED_S)
        for memory in (one, other):
            with pytest.raises(LimitError):
                memory.scope(user="carol").write("c", "1")


def test_room_is_measured_now_and_then_and_without_limits_never(opened: Open, clock: MovedClock) -> None:
    class Counting:
        def __init__(self, store: SlotStore) -> None:
            self._store, self.asked = store, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        def batch(self, ops: Any) -> Any:
            self.asked += 1
            return self._store.batch(ops)

    with opened(max_app_slots=100) as memory:
        parts = memory.parts
        for limit, expected in ((100, 2), (0, 0)):
            store: Any = Counting(parts.slots)
            settings = offprompt.config.Settings(max_app_slots=limit)
            quotas = Quotas(store, parts.main, parts.coordinator, clock, settings)
            for _ in range(20):
                quotas.make_room("default", slots=1)
            clock.move(MEASURED_S)
            quotas.make_room("default", slots=1)
            assert store.asked == expected


def test_requests_of_an_app_are_counted_for_all_processes_together(opened: Open, clock: MovedClock) -> None:
    with opened(requests_per_minute=3) as one, opened(requests_per_minute=3) as other:
        who = Identity()
        for memory in (one, other, one):
            quotas_of(memory).take(who)
        with pytest.raises(RateError, match="requests_per_minute") as late:
            quotas_of(other).take(who)
        assert (late.value.limit, late.value.retry_after_s) == (3, pytest.approx(20))
        quotas_of(one).take(Identity(app="shop"))
        clock.move(late.value.retry_after_s)
        quotas_of(one).take(who)
        with pytest.raises(RateError):
            quotas_of(other).take(who)


def test_a_key_has_a_limit_of_its_own(opened: Open) -> None:
    with opened() as memory:
        made = memory.keys.create("svc", requests_per_minute=2)
        who = memory.keys.find(made.token)
        quotas = quotas_of(memory)
        assert quotas.counts_requests(who)
        assert not quotas.counts_requests(Identity())
        quotas.take(who)
        quotas.take(who)
        with pytest.raises(RateError, match=made.key.key_id):
            quotas.take(who)
        quotas.take(Identity(key="other", requests_per_minute=1))
