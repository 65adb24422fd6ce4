"""Conformance: puts, values, limits, versions, batches."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from offprompt.errors import ConflictError, LimitError, UsageError
from offprompt.protocols import SlotStore
from offprompt.records import GetSlot, ListSlots, PutSlot, Scope, SlotLimits, SlotOp, SlotQuery
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite, forget, get, history, names_of, put, value_of

VALUES: Sequence[Any] = (
    "",
    "text",
    "爱丽丝住在上海 🏮",
    "nul \x00 and \x7f",
    "'; DROP TABLE slots; --",
    0,
    -1.5,
    10**30,
    True,
    None,
    [],
    {},
    {"z": 1, "a": [{"深": None}, "x"], "": ""},
)


class SlotPuts(Suite):
    """What is written is what is read, or nothing changed."""

    def test_missing_is_none(self, store: SlotStore) -> None:
        assert get(store, "name") is None
        assert history(store, "name") == []
        assert names_of(store) == []
        assert forget(store, "name") is False

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_value_comes_back(self, store: SlotStore, value: Any) -> None:
        written = put(store, "v", value)
        read = get(store, "v")
        assert read is not None
        assert (read.value, type(read.value)) == (value, type(value))
        assert written == read

    def test_fields_come_back(self, store: SlotStore, clock: MovedClock) -> None:
        schema = {"type": "string", "标题": "城市"}
        put(store, "city", "上海", policy="card", source="user", actor="用户", tags=("a", "饮食"), importance=0.9)
        written = put(store, "city", "北京", policy="when_asked", source="model", ttl_s=60, sliding=True, schema=schema)
        now = clock.now()
        assert (written.version, written.bytes, written.policy, written.source) == (2, 6, "when_asked", "model")
        assert (written.tags, written.importance, written.schema) == (("a", "饮食"), 0.9, schema)
        assert (written.ttl_s, written.sliding, written.expires_at) == (60, True, now + 60)
        assert (written.created_at, written.updated_at, written.uses) == (now, now, 0)
        assert get(store, "city") == written

    def test_none_keeps_what_the_slot_has(self, store: SlotStore, clock: MovedClock) -> None:
        first = put(store, "n", 1, tags=("t",), importance=1.0, schema={"type": "integer"}, ttl_s=100, sliding=True)
        clock.move(50)
        second = put(store, "n", 2)
        assert (second.tags, second.importance, second.schema) == (first.tags, first.importance, first.schema)
        assert (second.created_at, second.expires_at) == (first.created_at, clock.now() + 100)
        third = put(store, "n", 3, tags=(), importance=0.0, ttl_s=None)
        assert (third.tags, third.importance, third.expires_at, third.sliding) == ((), 0.0, None, False)

    def test_no_live_objects(self, store: SlotStore) -> None:
        value: dict[str, Any] = {"list": [1]}
        schema: dict[str, Any] = {"type": "object"}
        written = put(store, "v", value, schema=schema)
        value["list"].append(2)
        schema["type"] = "string"
        for slot in (written, get(store, "v"), *store.batch([ListSlots(SlotQuery(ALICE))])[0]):
            assert slot is not None
            assert (slot.value, slot.schema) == ({"list": [1]}, {"type": "object"})
            mine: Any = slot.value
            mine["list"].append("mine")
            mine = slot.schema
            mine["title"] = "mine"
        (version,) = history(store, "v")
        mine = version.value
        assert mine == {"list": [1]}
        mine["list"].clear()
        assert value_of(store, "v") == {"list": [1]}
        assert history(store, "v")[0].value == {"list": [1]}

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object, "half \ud83d", ["\udc00"]], ids=repr)
    def test_what_is_not_json_is_refused(self, store: SlotStore, value: Any) -> None:
        put(store, "v", "before")
        with pytest.raises(UsageError, match="'v'"):
            put(store, "v", value)
        assert value_of(store, "v") == "before"

    @pytest.mark.parametrize("options", [{"ttl_s": 0}, {"ttl_s": -1}, {"ttl_s": float("nan")}, {"importance": 1.1}])
    def test_bad_options_are_refused(self, store: SlotStore, options: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match=f"{next(iter(options))}=.*'v'"):
            put(store, "v", 1, **options)
        assert get(store, "v") is None

    def test_value_at_the_limit_and_one_over(self, store: SlotStore) -> None:
        put(store, "v", "爱" * 1365 + "x")
        with pytest.raises(LimitError) as caught:
            put(store, "v", "爱" * 1366)
        assert (caught.value.used, caught.value.limit, caught.value.unit) == (4098, 4096, "bytes")
        for part in ("'v'", "1,366 characters", "4,098 bytes", "4,096", "max_value_bytes"):
            assert part in str(caught.value)
        assert "爱" not in str(caught.value)
        assert value_of(store, "v") == "爱" * 1365 + "x"

    def test_json_is_measured_as_its_text(self, store: SlotStore) -> None:
        assert put(store, "v", {"a": [1, "é"]}).bytes == len('{"a":[1,"é"]}'.encode())
        with pytest.raises(LimitError):
            put(store, "v", ["x" * 7], limits=SlotLimits(max_bytes=10))

    def test_65th_slot(self, store: SlotStore) -> None:
        for number in range(64):
            put(store, f"s{number}", number)
        put(store, "s63", "over an old one")
        put(store, "s0", "another scope's", scope=BOB)
        with pytest.raises(LimitError) as caught:
            put(store, "s64", 64)
        assert (caught.value.used, caught.value.limit) == (65, 64)
        assert "'s64'" in str(caught.value)
        assert "alice@example.com" in str(caught.value)
        assert len(names_of(store)) == 64
        forget(store, "s1")
        assert put(store, "s64", 64).version == 1

    def test_if_version(self, store: SlotStore) -> None:
        assert put(store, "v", "a", if_version=0).version == 1
        with pytest.raises(ConflictError, match=r"version 1\b.*if_version=0"):
            put(store, "v", "b", if_version=0)
        with pytest.raises(ConflictError, match=r"version 1\b.*if_version=2"):
            put(store, "v", "b", if_version=2)
        assert put(store, "v", "b", if_version=1).version == 2
        with pytest.raises(ConflictError, match=r"not there.*if_version=3"):
            put(store, "other", "b", if_version=3)
        assert value_of(store, "v") == "b"
        assert get(store, "other") is None

    def test_trust(self, store: SlotStore) -> None:
        put(store, "t", "from a tool", trust="tool")
        put(store, "t", "from another", trust="tool")
        put(store, "t", "用户说的")
        with pytest.raises(ConflictError, match=r"'t'.*trust 'tool'"):
            put(store, "t", "poison", trust="tool")
        with pytest.raises(ConflictError, match=r"'t'.*trust 'tool'"):
            forget(store, "t", trust="tool")
        assert value_of(store, "t") == "用户说的"
        put(store, "u", "from a tool", trust="tool")
        assert forget(store, "u", trust="tool") is True

    def test_versions_are_pruned_but_for_the_newest_of_each_trust(self, store: SlotStore) -> None:
        limits = SlotLimits(keep_versions=3)
        for number in range(4):
            put(store, "v", number, trust="tool", limits=limits)
        assert [version.version for version in history(store, "v")] == [2, 3, 4]
        for number in range(4, 9):
            put(store, "v", number, limits=limits)
        kept = history(store, "v")
        assert [(version.version, version.value, version.trust) for version in kept] == [
            (4, 3, "tool"),
            (7, 6, "user"),
            (8, 7, "user"),
            (9, 8, "user"),
        ]

    def test_replayed_write_changes_nothing(self, store: SlotStore) -> None:
        first = put(store, "v", "a", op_key="turn-1")
        assert put(store, "v", "a", op_key="turn-1") == first
        second = put(store, "v", "b", op_key="turn-2", if_version=1)
        assert put(store, "v", "a", op_key="turn-1") == second
        assert put(store, "v", "b", op_key="turn-2", if_version=1) == second
        assert [version.value for version in history(store, "v")] == ["a", "b"]
        assert put(store, "other", "a", op_key="turn-1").version == 1

    def test_replayed_write_does_not_bring_back_a_forgotten_slot(self, store: SlotStore) -> None:
        put(store, "v", "secret", op_key="turn-1")
        forget(store, "v")
        assert put(store, "v", "secret", op_key="turn-1").value is None
        assert get(store, "v") is None

    def test_batch_returns_in_order_and_sees_itself(self, store: SlotStore) -> None:
        written, read, again, listed, gone = store.batch(
            [
                PutSlot(ALICE, "a", 1, "by_handle"),
                GetSlot(ALICE, "a"),
                PutSlot(ALICE, "a", 2, "by_handle", if_version=1),
                ListSlots(SlotQuery(ALICE, "exact")),
                GetSlot(ALICE, "b"),
            ]
        )
        assert (written.value, read.value, again.value) == (1, 1, 2)
        assert [slot.value for slot in listed] == [2]
        assert gone is None
        assert store.batch([]) == []

    def test_failed_batch_changes_nothing(self, store: SlotStore) -> None:
        put(store, "a", "before")
        put(store, "hidden", 1)
        forget(store, "hidden")
        events = len(store.events())
        ops: list[SlotOp[Any]] = [
            PutSlot(ALICE, "a", "after", "by_handle"),
            PutSlot(ALICE, "hidden", "shown", "by_handle"),
            PutSlot(ALICE, "new", "x", "by_handle"),
            PutSlot(ALICE, "a", "conflict", "by_handle", if_version=1),
        ]
        with pytest.raises(ConflictError):
            store.batch(ops)
        assert value_of(store, "a") == "before"
        assert names_of(store) == ["a"]
        assert [version.value for version in history(store, "a")] == ["before"]
        assert history(store, "hidden")[0].value is None
        assert len(store.events()) == events

    def test_concurrent_writers(self, store: SlotStore) -> None:
        errors: list[BaseException] = []
        start = threading.Barrier(8)

        def work(number: int) -> None:
            try:
                start.wait()
                for step in range(20):
                    put(store, f"own{number}", step)
                    _count_up(store)
                    get(store, "counter", touch=True)
            except BaseException as exc:  # noqa: BLE001 - handed to the test's own thread
                errors.append(exc)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert value_of(store, "counter") == 160
        assert [value_of(store, f"own{number}") for number in range(8)] == [19] * 8
        counter = get(store, "counter")
        assert counter is not None
        assert (counter.version, counter.uses) == (160, 160)

    def test_scopes_do_not_mix(self, store: SlotStore) -> None:
        scopes = [
            Scope(user="a"),
            Scope(user="a", session="s"),
            Scope(user="a", agent="s"),
            Scope(agent="a"),
            Scope(session="a"),
            Scope(shared=True),
            Scope("other", user="a"),
        ]
        for number, scope in enumerate(scopes):
            put(store, "name", number, scope=scope)
        assert [value_of(store, "name", scope) for scope in scopes] == list(range(len(scopes)))


def _count_up(store: SlotStore) -> None:
    while True:
        slot = get(store, "counter")
        version = slot.version if slot is not None else 0
        try:
            put(store, "counter", version + 1, if_version=version)
        except ConflictError:
            continue
        return
