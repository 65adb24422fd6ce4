"""What spaces and agents hold is found by whom it is granted to, and by nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import NotFoundError, ScopeError, UsageError
from offprompt.protocols import Notes
from offprompt.records import GrantKind, Scope
from offprompt.service import copying
from offprompt.service.granting import CACHE_S, Grants
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock

FACT = "The quarterly figures are in the blue folder."
QUESTION = "Where are the quarterly figures?"


@pytest.fixture(params=["memory", "sqlite"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with offprompt.open(url, clock=clock) as memory:
        yield memory


def names(mem: Offprompt, kind: GrantKind, scope: Scope, key: str = "") -> tuple[str, ...]:
    return mem.grants.granted(kind, None, scope, key)


def grantee(mem: Offprompt, kind: str) -> tuple[str, Scope, str, Scope, str]:
    """Whom it is granted to; scope and key of the right asker, and of another one of the same kind."""
    if kind == "everyone":
        return kind, Scope(user="alice"), "", Scope(app="other", user="alice"), ""
    if kind == "user":
        return "user:alice", Scope(user="alice", agent="b"), "", Scope(user="bob", agent="b"), ""
    if kind == "agent":
        return "agent:b", Scope(user="alice", agent="b"), "", Scope(user="alice", agent="c"), ""
    one, two = (mem.keys.create(name).key.key_id for name in ("one", "two"))
    return f"key:{one}", Scope(user="alice"), one, Scope(user="alice"), two


@pytest.mark.parametrize("to_kind", ["everyone", "user", "agent", "key"])
@pytest.mark.parametrize("kind", ["space", "agent"])
def test_of_each_pair_the_right_one_finds_it_and_nobody_else(mem: Offprompt, kind: GrantKind, to_kind: str) -> None:
    to, right, key, other, other_key = grantee(mem, to_kind)
    assert names(mem, kind, right, key) == ()
    grant = mem.grants.add(kind, "legal", to=to)
    assert (grant.kind, grant.name, grant.whom) == (kind, "legal", to)
    assert names(mem, kind, right, key) == ("legal",)
    assert names(mem, kind, other, other_key) == ()
    if to_kind != "everyone":
        assert names(mem, kind, Scope(session="s"), "") == ()
    assert mem.grants.granted(kind, ["hr", "legal"], right, key) == ("legal",)
    other_kind: GrantKind = "agent" if kind == "space" else "space"
    assert names(mem, other_kind, right, key) == ()
    assert mem.grants.add(kind, "legal", to=to) == grant
    assert mem.grants.list() == [grant]
    assert mem.grants.remove(kind, "legal", to=to) == grant
    assert names(mem, kind, right, key) == ()
    with pytest.raises(NotFoundError, match="not granted to"):
        mem.grants.remove(kind, "legal", to=to)


def test_a_space_is_granted_however_its_name_is_spelled(mem: Offprompt) -> None:
    mem.grants.add("space", "Ｌegal", to="user:alice")
    assert mem.grants.granted("space", ["LEGAL", "legal"], Scope(user="alice")) == ("legal",)
    mem.grants.add("agent", "Helper", to="user:alice")
    assert mem.grants.granted("agent", ["helper"], Scope(user="alice")) == ()


@pytest.mark.parametrize(
    ("kind", "name", "to", "error"),
    [
        ("slot", "legal", "everyone", UsageError),
        ("space", "", "everyone", ScopeError),
        ("space", "legal", "alice", UsageError),
        ("space", "legal", "user:", UsageError),
        ("space", "legal", "everyone:x", UsageError),
        ("space", "legal", "user: x", ScopeError),
        ("space", "legal", "key:0123456789abcdef", NotFoundError),
        ("agent", "\x1flegal", "everyone", ScopeError),
    ],
)
def test_what_is_no_grant_is_refused(mem: Offprompt, kind: Any, name: str, to: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        mem.grants.add(kind, name, to=to)
    assert mem.grants.list() == []


def test_a_key_that_is_revoked_leaves_no_grant(mem: Offprompt) -> None:
    one, two = (mem.keys.create(name).key.key_id for name in ("one", "two"))
    for key in (one, two):
        mem.grants.add("space", "legal", to=f"key:{key}")
    mem.keys.revoke("default", one)
    assert [grant.to for grant in mem.grants.list()] == [two]


def test_a_grant_goes_with_each_whom_it_names(mem: Offprompt, clock: MovedClock) -> None:
    for kind, name, to in (("space", "legal", "user:alice"), ("agent", "helper", "user:alice")):
        mem.grants.add(kind, name, to=to)  # pyright: ignore[reportArgumentType]
    mem.grants.add("agent", "helper", to="agent:other")
    mem.grants.add("agent", "other", to="everyone")
    mem.grants.add("space", "legal", to="user:bob")
    clock.move(1)
    receipt = mem.erase(user="alice")
    assert receipt.counts["grants"] == 2
    assert "alice" not in repr([mem.grants.list(), mem.parts.main.notes("grant/"), mem.parts.main.events()])
    assert not [one for one in mem.verify_erased(receipt, texts=["alice"]) if one.state == "fail"]
    receipt = mem.erase(agent="helper")
    assert receipt.counts["grants"] == 1
    assert "helper" not in repr([mem.parts.main.notes("grant/"), mem.parts.main.events()])
    assert mem.erase(agent="other").counts["grants"] == 1
    mem.space("legal").write("x", "y")
    assert mem.erase(space="legal").counts["grants"] == 1
    assert mem.grants.list() == []


def test_an_old_id_of_a_user_is_the_new_one(mem: Offprompt) -> None:
    mem.grants.add("space", "legal", to="user:ali")
    mem.scope(user="ali").write("city", "Berlin")
    mem.alias("ali", "alice")
    mem.grants.add("space", "hr", to="user:ali")
    assert names(mem, "space", mem.scope(user="ali").scope) == ("hr", "legal")
    assert {grant.whom for grant in mem.grants.list()} == {"user:alice"}
    mem.grants.remove("space", "hr", to="user:ali")
    assert mem.erase(user="alice").counts["grants"] == 1


def test_a_copy_takes_grants_along(mem: Offprompt, tmp_path: Path) -> None:
    mem.grants.add("space", "法务", to="user:小明")
    with offprompt.open(str(tmp_path / "copy.db")) as copy:
        copying.copy(copying.Whole.of(mem.parts), copying.Whole.of(copy.parts))
        assert copy.grants.list() == mem.grants.list()


def test_a_backup_does_not_bring_back_the_grant_of_whom_is_erased(tmp_path: Path, clock: MovedClock) -> None:
    with offprompt.open(str(tmp_path / "agent.db"), clock=clock) as mem:
        mem.grants.add("space", "legal", to="user:alice")
        mem.grants.add("space", "legal", to="user:bob")
        mem.parts.main.backup(tmp_path / "backup.db")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        clock.move(1)
        mem.erase(user="alice")
        mem.restore(tmp_path / "backup.db", force=True)
        assert [grant.to for grant in mem.grants.list()] == ["bob"]


def test_apps_know_nothing_of_each_others_grants(mem: Offprompt) -> None:
    mem.grants.add("space", "legal", to="everyone", app="one")
    assert mem.grants.list() == mem.grants.list("two") == []
    assert names(mem, "space", Scope("one", user="alice")) == ("legal",)
    assert names(mem, "space", Scope("two", user="alice")) == ()


def test_what_another_object_removes_ends_within_seconds(mem: Offprompt, clock: MovedClock) -> None:
    other = Grants(mem.parts.main, clock)
    alice = Scope(user="alice")
    mem.grants.add("space", "legal", to="user:alice")
    assert other.granted("space", None, alice) == ("legal",)
    mem.grants.remove("space", "legal", to="user:alice")
    assert mem.grants.granted("space", None, alice) == ()
    clock.move(CACHE_S)
    assert other.granted("space", None, alice) == ()


def test_asking_reads_nothing_twice_and_little_without_grants(mem: Offprompt, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    notes = type(mem.parts.main).notes

    def counted(self: Notes, prefix: str, **options: Any) -> list[tuple[str, str]]:
        asked.append(prefix)
        return notes(self, prefix, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(type(mem.parts.main), "notes", counted)
    for _ in range(3):
        mem.scope(user="alice", agent="b")
    assert len([prefix for prefix in asked if prefix.startswith("grant/")]) == 1
    mem.grants.add("agent", "helper", to="user:alice")
    asked.clear()
    for _ in range(3):
        mem.scope(user="alice", agent="b")
    assert len(set(asked)) <= 4
    assert len(asked) <= 6  # a page, and the one behind it where there is any
