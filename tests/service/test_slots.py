"""Slots of a scope, through `offprompt.open`, in process and on SQLite."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import (
    ConflictError,
    LimitError,
    NameInvalidError,
    NotFoundError,
    OffpromptError,
    SchemaError,
    UsageError,
)
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.ranking import rank_score
from offprompt.testing import MovedClock

DAY = 86400.0
LONG = "".join(chr(0x4E00 + number % 3000) if number % 3 else f"{number} " for number in range(6000))


@pytest.fixture
def scope(mem: Offprompt) -> BoundScope:
    return mem.scope(user="alice@example.com")


def test_write_read_forget_undo(scope: BoundScope) -> None:
    slot = scope.write("city", "Ulm", tags=["Home"], importance=0.9)
    assert (slot.version, slot.value, slot.tags, slot.importance, slot.bytes) == (1, "Ulm", ("home",), 0.9, 3)
    assert scope.write("city", "北京").version == 2
    assert scope.read("CITY") == "北京"
    assert scope.slots.get("city") == replace(slot, version=2, value="北京", bytes=6, uses=2, used_at=slot.created_at)
    assert scope.forget("City") == "city"
    with pytest.raises(NotFoundError, match="city"):
        scope.read("city")
    assert scope.read("city", None) is None
    assert scope.slots.list(forgotten=True)[0].value is None
    assert scope.slots.undo("city").value == "北京"
    assert [version.value for version in scope.slots.history("city")] == ["Ulm", "北京"]


def test_undo_is_over_after_seven_days(scope: BoundScope, clock: MovedClock) -> None:
    scope.write("a", 1)
    scope.forget("a")
    clock.move(7 * DAY)
    with pytest.raises(NotFoundError, match="7 days"):
        scope.slots.undo("a")
    assert scope.write("a", 2).version == 1


@pytest.mark.parametrize(
    ("name", "value", "options", "kind", "says"),
    [
        ("a b", 1, {}, NameInvalidError, ["'a b'", "' '", "letters"]),
        (".a", 1, {}, NameInvalidError, ["'.a'", "position 1"]),
        ("", 1, {}, NameInvalidError, ["0 characters", "1 to 64"]),
        ("x" * 65, 1, {}, NameInvalidError, ["65", "64"]),
        ("m_x", 1, {}, NameInvalidError, ["m_", "memory ids"]),
        ("THERE", 1, {}, NameInvalidError, ["'THERE'", "'there'"]),
        ("ｔhere", 1, {}, NameInvalidError, ["'there'"]),
        ("a", "好" * 1366, {}, LimitError, ["'a'", "1,366 characters", "4,098 bytes", "4,096", "split=True"]),
        ("there", 1, {"if_version": 7}, ConflictError, ["'there'", "version 1", "if_version=7"]),
        ("there", 1, {"if_version": 0}, ConflictError, ["version 1"]),
        ("new", 1, {"if_version": 1}, ConflictError, ["not there"]),
        ("typed", "x", {}, SchemaError, ["'typed'", "integer"]),
        ("a", 1, {"schema": {"type": "nonsense"}}, UsageError, ["'a'", "schema"]),
        ("a", {1, 2}, {}, UsageError, ["'a'", "set", "JSON"]),
        ("a", (1, 2), {}, UsageError, ["'a'", "JSON"]),
        ("a", float("nan"), {}, UsageError, ["'a'"]),
        ("a", "\ud800", {}, UsageError, ["surrogate", "position 0"]),
        ("a", 1, {"ttl_s": 0}, UsageError, ["ttl_s=0", "None for ever"]),
        ("a", 1, {"ttl_s": math.inf}, UsageError, ["ttl_s"]),
        ("a", 1, {"importance": 2}, UsageError, ["importance=2", "0 to 1"]),
        ("a", 1, {"policy": "loud"}, UsageError, ["loud", "never, by_handle, when_asked, card"]),
        ("a", 1, {"tags": "one"}, UsageError, ["tags='one'", "list"]),
        ("a", 1, {"tags": [str(number) for number in range(17)]}, UsageError, ["17 tags", "16"]),
        ("a", "word " * 70, {"policy": "when_asked"}, LimitError, ["when_asked", "64", "by_handle"]),
        ("a", "word " * 110, {"policy": "card"}, LimitError, ["card", "100"]),
    ],
)
def test_a_refused_write_says_why_and_changes_nothing(
    scope: BoundScope, name: str, value: Any, options: dict[str, Any], kind: type[OffpromptError], says: list[str]
) -> None:
    scope.write("there", "as it was")
    scope.write("typed", 3, schema={"type": "integer"})
    before = scope.slots.list()
    with pytest.raises(kind) as caught:
        scope.write(name, value, **options)
    assert all(word in str(caught.value) for word in says), str(caught.value)
    assert "as it was" not in str(caught.value)
    assert scope.slots.list() == before
    assert scope.events(op="slot.write")[-1].outcome == "ok" or isinstance(caught.value, UsageError)


def test_the_65th_slot(scope: BoundScope) -> None:
    for number in range(64):
        scope.write(f"n{number}", number)
    with pytest.raises(LimitError, match="65 slots, the limit is 64"):
        scope.write("more", 1)
    assert scope.write("n1", "changed").version == 2
    scope.forget("n2")
    scope.write("more", 1)
    with pytest.raises(LimitError):
        scope.slots.undo("n2")
    assert scope.events(op="slot.write")[-1].outcome == "ok"


@pytest.mark.parametrize("value", [LONG, {"text": LONG, "list": list(range(500))}])
def test_split(scope: BoundScope, value: Any) -> None:
    slot = scope.write("doc", value, split=True)
    assert slot.parts >= 4
    assert slot.value == value
    assert scope.read("doc") == value
    assert [each.name for each in scope.slots.list()] == ["doc"]
    assert scope.slots.snapshot() == {"doc": value}
    assert scope.slots.list("doc.*", within="exact")
    scope.forget("doc")
    assert scope.slots.snapshot() == {}
    assert scope.slots.undo("doc").value == value
    assert scope.write("doc", "short").parts == 0
    assert scope.slots.snapshot() == {"doc": "short"}
    assert len(scope.slots.list(within="exact")) == 1


def test_parts_count_as_slots(scope: BoundScope) -> None:
    for number in range(60):
        scope.write(f"n{number}", number)
    with pytest.raises(LimitError):
        scope.write("doc", LONG, split=True)
    assert len(scope.slots.list()) == 60


def test_parts_do_not_overwrite_another_slot(scope: BoundScope) -> None:
    scope.write("doc.1", "mine")
    with pytest.raises(NameInvalidError, match=r"doc\.1"):
        scope.write("doc", LONG, split=True)
    assert scope.slots.snapshot() == {"doc.1": "mine"}


def test_a_part_is_not_written_or_forgotten_by_itself(scope: BoundScope) -> None:
    scope.write("doc", LONG, split=True)
    with pytest.raises(NameInvalidError, match="part"):
        scope.write("doc.1", "x")
    with pytest.raises(NameInvalidError, match="part"):
        scope.forget("doc.2")
    with pytest.raises(NameInvalidError, match="part"):
        scope.slots.erase("doc.1")
    assert scope.read("doc") == LONG


def test_an_undo_is_whole_or_not_at_all(scope: BoundScope) -> None:
    scope.write("doc", LONG, split=True)
    parts = scope.slots.get("doc")
    assert parts is not None
    scope.forget("doc")
    for number in range(63):
        scope.write(f"n{number}", number)
    with pytest.raises(LimitError):
        scope.slots.undo("doc")
    assert len(scope.slots.list()) == 63
    for number in range(parts.parts):
        scope.forget(f"n{number}")
    assert scope.slots.undo("doc").value == LONG


def test_a_sliding_life_keeps_all_parts(mem: Offprompt, clock: MovedClock) -> None:
    task = mem.scope(user="alice", session="task")
    task.write("doc", LONG, split=True)
    for _ in range(5):
        clock.move(DAY * 0.8)
        assert task.read("doc") == LONG
    clock.move(DAY)
    assert task.read("doc", None) is None
    assert task.slots.list() == []


def test_life(mem: Offprompt, clock: MovedClock) -> None:
    scope, task = mem.scope(user="alice"), mem.scope(user="alice", session="task")
    assert scope.write("a", 1).ttl_s is None
    assert scope.write("b", 1, ttl_s=10).expires_at == clock.now() + 10
    assert scope.write("b", 2).ttl_s == 10
    assert scope.write("b", 2, ttl_s=None).expires_at is None
    assert (task.write("t", 1).ttl_s, task.write("t", 1).sliding) == (DAY, True)
    scope.write("c", 1, ttl_s=10)
    clock.move(9.5)
    assert scope.read("c") == 1
    clock.move(0.5)
    assert scope.read("c", None) is None
    assert scope.write("c", 2).version == 1


def test_filters(scope: BoundScope, clock: MovedClock) -> None:
    start = clock.now()
    scope.write("home_city", "Ulm", tags=["Place", "now"])
    clock.move(10)
    scope.write("work_city", "Rome", tags=["place"])
    scope.write("住址", "某地", tags=["地点"])
    slots = scope.slots
    assert [slot.name for slot in slots.list("*_CITY")] == ["home_city", "work_city"]
    assert [slot.name for slot in slots.list("住?")] == ["住址"]
    assert [slot.name for slot in slots.list(tags=["PLACE"])] == ["home_city", "work_city"]
    assert [slot.name for slot in slots.list(tags=["place", "now"])] == ["home_city"]
    assert [slot.name for slot in slots.list(since=start + 10)] == ["work_city", "住址"]
    assert [slot.name for slot in slots.list(until=start + 10)] == ["home_city"]


def test_inheritance(mem: Offprompt) -> None:
    user, both = mem.scope(user="alice"), mem.scope(user="alice", agent="helper", session="s")
    mem.scope(shared=True).write("a", "shared")
    mem.scope(agent="helper").write("a", "agent")
    assert both.read("a") == "agent"
    user.write("a", "user")
    both.write("b", 1)
    assert both.slots.snapshot()["a"] in ("user", "agent")
    assert user.slots.list("b") == []
    assert [slot.name for slot in user.slots.list(within="subtree")] == ["a", "b"]
    assert mem.scope(user="alicia").slots.snapshot() == {"a": "shared"}
    with pytest.raises(offprompt.ScopeError, match="--user"):
        mem.scope()


def test_a_tasks_scope_is_cleared_whole(mem: Offprompt) -> None:
    task, user = mem.scope(user="alice", session="task"), mem.scope(user="alice")
    task.write("step", 1)
    task.write("doc", LONG, split=True)
    task.forget("step")
    user.write("name", "Alice")
    session = user.session("task", model="gpt-4o-mini")
    session.prepare([{"role": "user", "content": "hello"}])
    cleared = task.clear()
    assert cleared["sessions"] == 1
    assert cleared["slots"] >= 2
    assert session.record is None
    assert task.slots.snapshot() == {"name": "Alice"}
    with pytest.raises(NotFoundError):
        task.slots.undo("step")


@pytest.mark.parametrize(
    ("name", "value", "policy"),
    [
        ("user_name", "Alice", "when_asked"),
        ("reply_style", "brief", "card"),
        ("回复风格", "简短", "card"),
        ("api_key", "x", "never"),
        ("note", "sk-proj-abcdefghijklmnop1234", "never"),
        ("密码", "你好", "never"),
        ("report", "word " * 100, "by_handle"),
        ("style", "word " * 100, "by_handle"),
    ],
)
def test_the_policy_is_chosen_and_the_event_says_why(scope: BoundScope, name: str, value: str, policy: str) -> None:
    assert scope.write(name, value).policy == policy
    event = scope.events(op="slot.write")[-1]
    assert event.why
    assert value[:9] not in event.why


def test_policies_stay_and_the_setting_is_strict(scope: BoundScope, tmp_path: Path) -> None:
    scope.write("a", "short", policy="by_handle")
    assert scope.write("a", "shorter").policy == "by_handle"
    scope.write("b", "short")
    assert scope.write("b", "word " * 100).policy == "by_handle"
    with offprompt.open(tmp_path / "strict.db", policy="by_handle") as strict:
        mine = strict.scope(user="alice")
        assert mine.write("user_name", "Alice").policy == "by_handle"
        assert mine.write("api_key", "x").policy == "never"


def test_ranking(scope: BoundScope, clock: MovedClock) -> None:
    for name in ("often", "never", "weighty"):
        scope.write(name, name, importance=1.0 if name == "weighty" else None)
    for _ in range(20):
        scope.read("often")
    clock.move(3 * DAY)
    scores = {slot.name: score for slot, score in scope.slots.rank()}
    assert list(scores)[-1] == "never"
    assert scores["weighty"] > scores["never"]
    slot = scope.slots.get("often", touch=False)
    assert slot is not None
    uses, hours = 21, 72.0
    activation = math.log(uses / 0.5) - 0.5 * math.log(hours)
    assert rank_score(slot, clock.now()) == pytest.approx((0.5 + 1 / (1 + math.exp(-activation))) / 2)
    assert len(scope.slots.rank(limit=1)) == 1


def test_errors_name_what_is_spelled_alike(scope: BoundScope) -> None:
    scope.write("home_city", "Ulm")
    with pytest.raises(NotFoundError, match="home_city"):
        scope.read("home_cty")
    with pytest.raises(NotFoundError):
        scope.slots.history("nothing")


def test_values_are_the_callers_own(scope: BoundScope) -> None:
    value: dict[str, Any] = {"list": [1, 2]}
    scope.write("a", value)
    value["list"].append(3)
    read = scope.read("a")
    assert read == {"list": [1, 2]}
    read["list"].clear()
    assert scope.read("a") == {"list": [1, 2]}


def test_the_default_file_is_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with offprompt.open() as opened:
        opened.scope(user="a").write("x", 1)
    assert (tmp_path / "data" / "offprompt" / "offprompt.db").is_file()
