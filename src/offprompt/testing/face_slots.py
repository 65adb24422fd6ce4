"""What slots promise to whoever opens a memory, here or by its server."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offprompt.errors import ConflictError, LimitError, NotFoundError, SchemaError
from offprompt.records import DEFAULT, Place
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing.clock import MovedClock
from offprompt.testing.face_kit import DAY, FaceKit, told, unique

LONG = "".join(chr(0x4E00 + number % 3000) if number % 3 else f"{number} " for number in range(6000))

VALUES: list[Any] = [
    "Ulm",
    "",
    "上海，中国",
    "a\nb\t\u0001 \u2028 🜁",
    0,
    -1,
    2**53 + 1,
    10**30,
    1.5,
    1e300,
    True,
    None,
    [],
    {},
    [1, [2, {"b": None, "a": "x"}]],
    {"城市": {"since": [2019, None]}, "": 0},
]

MISUSED: list[Callable[[BoundScope], Any]] = [
    lambda scope: scope.write("a b", 1),
    lambda scope: scope.write("", 1),
    lambda scope: scope.write("x" * 65, 1),
    lambda scope: scope.write("m_x", 1),
    lambda scope: scope.write("TYPED", 1),
    lambda scope: scope.write(7, 1),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.write("a", "好" * 1366),
    lambda scope: scope.write("a", {1, 2}),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.write("a", (1, 2)),
    lambda scope: scope.write("a", {1: 2}),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.write("a", float("nan")),
    lambda scope: scope.write("a", "\ud800"),
    lambda scope: scope.write("a", 1, ttl_s=0),
    lambda scope: scope.write("a", 1, ttl_s=-1),
    lambda scope: scope.write("a", 1, ttl_s=float("inf")),
    lambda scope: scope.write("a", 1, tags="food"),
    lambda scope: scope.write("a", 1, tags=[str(number) for number in range(17)]),
    lambda scope: scope.write("a", 1, importance=1.5),
    lambda scope: scope.write("a", 1, policy="sometimes"),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.write("a", 1, if_version=-1),
    lambda scope: scope.write("a", 1, if_version=1),
    lambda scope: scope.write("typed", 1, if_version=0),
    lambda scope: scope.write("typed", 1, if_version=7),
    lambda scope: scope.write("typed", "x"),
    lambda scope: scope.write("a", 1, schema={"type": "nonsense"}),
    lambda scope: scope.write("a", 1, schema="int"),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.read("nothing"),
    lambda scope: scope.read("typd"),
    lambda scope: scope.read("a b"),
    lambda scope: scope.forget("nothing"),
    lambda scope: scope.forget("typed", if_version=9),
    lambda scope: scope.forget("typed", if_version=0),
    lambda scope: scope.forget("typed", if_version=-1),
    lambda scope: scope.forget("nothing", if_version=-1),
    lambda scope: scope.forget("typed", if_version=1.0),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.forget("typed", if_version="一"),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.forget("m_nothing", if_version=1),
    lambda scope: scope.memories.update("m_nothing", text="x", if_version=-1),
    lambda scope: scope.memories.update("m_nothing", text="x", if_version=True),
    lambda scope: scope.slots.undo("nothing"),
    lambda scope: scope.slots.history("nothing"),
    lambda scope: scope.slots.list(5),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.slots.list(within="below"),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.slots.list(since="monday"),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.slots.list(tags="food"),
    lambda scope: scope.slots.rank(limit=-1),
    lambda scope: scope.slots.get_many("typed"),
    lambda scope: scope.slots.erase(within="inherit"),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.slots.allow("typed", "send", "token"),
    lambda scope: scope.slots.allow("nothing", "send", "token"),
    lambda scope: scope.slots.allowed("nothing"),
    lambda scope: scope.slots.lock("nothing"),
    lambda scope: scope.events(op=5),  # pyright: ignore[reportArgumentType]
    lambda scope: scope.events(after=-1),
    lambda scope: scope.events(limit=1.5),  # pyright: ignore[reportArgumentType]
]


class FaceSlots(FaceKit):
    """Slots: every verb, its conditions, and what misuse is told."""

    def test_write_read_forget_undo(self, alice: BoundScope) -> None:
        slot = alice.write("city", "Ulm", tags=["Home"], importance=0.9)
        assert (slot.version, slot.value, slot.tags, slot.importance, slot.bytes) == (1, "Ulm", ("home",), 0.9, 3)
        assert slot.scope == alice.scope
        assert alice.write("city", "北京").version == 2
        assert alice.read("CITY") == "北京"
        assert alice.forget("City") == "city"
        with pytest.raises(NotFoundError):
            alice.read("city")
        assert alice.read("city", None) is None
        assert alice.read("city", "") == ""
        (hidden,) = alice.slots.list(forgotten=True)
        assert (hidden.name, hidden.value) == ("city", None)
        assert alice.slots.undo("city").value == "北京"
        assert [one.value for one in alice.slots.history("city")] == ["Ulm", "北京"]

    @pytest.mark.parametrize("at", range(len(VALUES)))
    def test_a_value_comes_back_as_it_was_given(self, alice: BoundScope, at: int) -> None:
        value = VALUES[at]
        assert alice.write("value", value).value == value
        found = alice.read("value")
        assert (found, type(found)) == (value, type(value))
        assert alice.slots.snapshot() == {"value": value}
        assert [one.value for one in alice.slots.list()] == [value]
        assert [one.value for one in alice.slots.history("value")] == [value]

    def test_a_slot_is_the_same_whoever_is_asked(self, alice: BoundScope, here: Offprompt) -> None:
        local = here.scope(user=alice.scope.user)
        options: dict[str, Any] = {
            "ttl_s": 60,
            "tags": ["家", "home"],
            "importance": 0.25,
        }
        for scope in (alice, local):
            scope.write("profile", {"city": "上海"}, schema={"type": "object"}, **options)
            scope.write("key", "s3cret", policy="never")
            scope.slots.allow("key", "send", "/headers/token", host="api.example.com")
            scope.slots.lock("key")
            assert scope.read("profile") == {"city": "上海"}
        for name in ("profile", "key"):
            assert alice.slots.get(name, touch=False) == local.slots.get(name, touch=False)
        assert alice.slots.history("profile") == local.slots.history("profile")
        assert alice.slots.rank() == local.slots.rank()

    def test_a_look_counts_unless_it_is_told_not_to(self, alice: BoundScope) -> None:
        alice.write("a", 1)
        alice.read("a")
        for touch in (True, False):
            found = alice.slots.get("a", touch=touch)
            assert found is not None
            assert found.uses == 2
        assert alice.slots.get("b") is None
        assert {name: one.value for name, one in alice.slots.get_many(["A", "b"]).items()} == {"A": 1}

    def test_lists_fit_all_their_conditions(self, alice: BoundScope, clock: MovedClock) -> None:
        start = clock.now()
        alice.write("trip_rome", 1, tags=["travel", "旅行"])
        clock.move(10)
        alice.write("trip_oslo", 2, tags=["travel"])
        alice.write("diet", 3, tags=["food"])

        def names(*given: Any, **conditions: Any) -> list[str]:
            return [slot.name for slot in alice.slots.list(*given, **conditions)]

        assert names() == ["diet", "trip_oslo", "trip_rome"]
        assert names("trip*") == names("TRIP_????") == ["trip_oslo", "trip_rome"]
        assert names("trip%") == []
        assert names(tags=["travel"]) == ["trip_oslo", "trip_rome"]
        assert names(tags=["travel", "旅行"]) == ["trip_rome"]
        assert names(since=start + 10) == ["diet", "trip_oslo"]
        assert names(until=start + 10) == ["trip_rome"]
        narrow = alice.narrow(session="s1")
        narrow.write("diet", 4)
        assert [slot.value for slot in narrow.slots.list("diet")] == [4]
        assert [slot.name for slot in narrow.slots.list(within="exact")] == ["diet"]
        assert names("diet", within="subtree") == ["diet", "diet"]

    def test_a_write_may_depend_on_the_version(self, alice: BoundScope) -> None:
        assert alice.write("a", 1, if_version=0).version == 1
        with pytest.raises(ConflictError):
            alice.write("a", 2, if_version=0)
        assert alice.write("a", 2, if_version=1).version == 2
        with pytest.raises(ConflictError):
            alice.forget("a", if_version=1)
        assert alice.read("a") == 2
        assert alice.forget("a", if_version=2) == "a"

    def test_a_life_is_kept_unless_it_is_said_anew(self, alice: BoundScope, clock: MovedClock) -> None:
        assert alice.write("a", 1, ttl_s=60).ttl_s == 60
        assert alice.write("a", 2, ttl_s=DEFAULT).ttl_s == 60
        assert alice.write("a", 3).ttl_s == 60
        assert alice.write("a", 4, ttl_s=None).expires_at is None
        alice.write("b", 1, ttl_s=60)
        clock.move(60)
        assert alice.slots.snapshot() == {"a": 4}
        session = alice.narrow(session="s1")
        assert session.write("c", 1).ttl_s == DAY
        clock.move(DAY - 1)
        assert session.read("c") == 1
        clock.move(DAY - 1)
        assert session.read("c") == 1

    def test_a_long_value_is_split_and_whole(self, alice: BoundScope) -> None:
        with pytest.raises(LimitError):
            alice.write("notes", LONG)
        slot = alice.write("notes", LONG, split=True)
        assert slot.parts > 1
        assert alice.read("notes") == LONG
        assert [one.name for one in alice.slots.list()] == ["notes"]
        assert alice.forget("notes") == "notes"
        assert alice.slots.undo("notes").value == LONG
        assert alice.slots.erase("notes") == slot.parts + 1

    def test_a_schema_is_kept_with_the_value(self, alice: BoundScope) -> None:
        alice.write("age", 5, schema={"type": "integer"})
        with pytest.raises(SchemaError):
            alice.write("age", "five")
        assert alice.write("age", 6).schema == {"type": "integer"}

    def test_rank_is_by_use_and_importance(self, alice: BoundScope) -> None:
        alice.write("low", 1, importance=0.1)
        alice.write("high", 2, importance=0.9)
        ranked = alice.slots.rank()
        assert [slot.name for slot, _ in ranked] == ["high", "low"]
        assert ranked[0][1] > ranked[1][1]
        assert [slot.name for slot, _ in alice.slots.rank(limit=1)] == ["high"]
        assert alice.slots.rank(limit=0) == []

    def test_erase_takes_versions_too(self, alice: BoundScope) -> None:
        for name in ("a", "b", "c", "d"):
            alice.write(name, 1)
        alice.forget("d")
        alice.narrow(session="s1").write("e", 1)
        assert alice.slots.erase("a", "d", "gone") == 2
        with pytest.raises(NotFoundError):
            alice.slots.history("a")
        assert alice.slots.erase() == 2
        assert alice.slots.erase(within="subtree") == 1
        assert alice.slots.list(within="subtree") == []

    def test_what_models_may_do_is_the_applications_to_say(self, alice: BoundScope) -> None:
        alice.write("key", "s3cret", policy="never")
        assert alice.slots.allow("key", "send", "token").allow == (Place("send", "/token"),)
        assert alice.slots.allow("key", "send", "token", host="api.example.com").allow == alice.slots.allowed("key")
        assert alice.slots.disallow("key", "send", "token").allow == (Place("send", "/token", "api.example.com"),)
        assert alice.slots.lock("key").locked
        assert not alice.slots.unlock("key").locked
        assert alice.write("key", "other").allow == (Place("send", "/token", "api.example.com"),)

    @pytest.mark.parametrize("at", range(len(MISUSED)))
    def test_misuse_is_told_in_the_same_words(self, opened: Offprompt, here: Offprompt, at: int) -> None:
        name = unique("misuser")
        answers: list[tuple[str, str]] = []
        for scope in (opened.scope(user=name), here.scope(user=name)):
            scope.write("typed", 5, schema={"type": "integer"})
            before = scope.slots.list()
            answers.append(told(lambda own=scope: MISUSED[at](own)))
            assert scope.slots.list() == before
        assert answers[0] == answers[1]
        assert answers[0] != ("", "")
