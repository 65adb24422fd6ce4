"""What spaces and agents hold is found by whom it is granted to, and by nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import offprompt
from offprompt.errors import ForbiddenError, NotFoundError, ScopeError, UsageError
from offprompt.protocols import Notes
from offprompt.records import GrantKind, Scope
from offprompt.records.scope import GrantedScope
from offprompt.service import copying
from offprompt.service.bound import BoundScope
from offprompt.service.granting import CACHE_S, Grants
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock

FACT = "The quarterly figures are in the blue folder."
LEFT = '{"app":"default","kind":"space","name":"legal","to_kind":"user","to":"alice","at":1.0,"actor":"app"}'
QUESTION = "Where are the quarterly figures?"


@pytest.fixture(params=["memory", "sqlite"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with offprompt.open(url, clock=clock) as memory:
        yield memory


def said(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop", "index": 0}]}


def acted(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A model's reply that calls actions of memory."""
    told = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": told}
    return {"choices": [{"message": message, "finish_reason": "tool_calls", "index": 0}]}


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
    mem.parts.main.set_note('grant/["default","user","alice","space","legal"]', LEFT, was=None)
    assert [one.name for one in mem.verify_erased(receipt) if one.state == "fail"] == ["grants"]
    mem.grants.remove("space", "legal", to="user:alice")
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
        assert mem.scope(user="alice", agent="b").slots.list() == []
    assert len([prefix for prefix in asked if prefix.startswith("grant/")]) == 1
    mem.grants.add("agent", "helper", to="user:alice")
    asked.clear()
    for _ in range(3):
        assert mem.scope(user="alice", agent="b").slots.list() == []
    assert len(set(asked)) <= 4
    assert len(asked) <= 6  # a page, and the one behind it where there is any


def known_of(scope: BoundScope) -> set[str]:
    return {one.text for one in scope.known()}


def heads(scope: BoundScope, **options: Any) -> str:
    """What a session sends in front of its first message."""
    return str(scope.session("s", model="gpt-4o-mini", **options).prepare([{"role": "user", "content": "Hello."}]))


def test_what_an_agent_keeps_is_found_where_it_is_granted(mem: Offprompt) -> None:
    helper, other = mem.scope(user="alice", agent="helper"), mem.scope(user="alice", agent="b")
    helper.remember(FACT, derive="none")
    helper.write("seat", "Window.")
    mem.scope(agent="helper").write("greeting", "Moin.")
    mem.scope(user="bob", agent="helper").write("desk", "Third floor.")
    assert [len(other.recall(QUESTION)), other.read("seat", None), other.slots.list()] == [0, None, []]
    mem.grants.add("agent", "helper", to="agent:b")
    assert [hit.text for hit in other.recall(QUESTION)] == [FACT]
    assert {slot.name: slot.value for slot in other.slots.list()} == {"seat": "Window.", "greeting": "Moin."}
    assert known_of(other) == {FACT, "Window.", "Moin."}
    # A session finds it as well, one that was opened before too.
    assert "seat" in heads(other)
    assert [slot.name for slot in mem.scope(agent="b").slots.list()] == ["greeting"]
    assert mem.scope(user="bob", agent="b").read("desk") == "Third floor."
    assert mem.scope(user="alice").read("seat", None) is None
    own = other.narrow(session="s2")
    assert own.read("seat") == "Window."
    mem.grants.remove("agent", "helper", to="agent:b")
    assert [len(other.recall(QUESTION)), other.read("seat", None), own.read("seat", None)] == [0, None, None]


def test_a_session_that_is_open_finds_no_more_than_what_is_granted_now(mem: Offprompt) -> None:
    helper, other = mem.scope(user="alice", agent="helper"), mem.scope(user="alice", agent="b")
    helper.write("locker_code", "The code is 4711.")
    session = other.session("s", model="gpt-4o-mini")
    messages = [{"role": "user", "content": "What is my locker code?"}]
    assert "4711" not in str(session.preview(messages))
    mem.grants.add("agent", "helper", to="user:alice")
    assert "4711" in str(session.preview(messages))
    mem.grants.remove("agent", "helper", to="user:alice")
    assert "4711" not in str(session.preview(messages))


def test_what_is_lent_is_never_changed(mem: Offprompt) -> None:
    helper, other = mem.scope(user="alice", agent="helper"), mem.scope(user="alice", agent="b")
    (done,) = helper.remember(FACT, derive="none")
    helper.write("seat", "Window.")
    mem.grants.add("agent", "helper", to="everyone")
    for change in (
        lambda: other.forget("seat"),
        lambda: other.forget(done.name),
        lambda: other.memories.update(done.name, text="Red folder."),
        lambda: other.correct(done.name, "Red folder."),
        lambda: other.pin(done.name),
    ):
        with pytest.raises(ForbiddenError, match="belongs to user=alice agent=helper"):
            change()
    assert other.memories.erase(done.name) == 0
    assert other.write("seat", "Aisle.").scope == Scope(user="alice", agent="b")
    assert other.correct("seat", "None.").text == "None."
    assert (helper.read("seat"), [hit.text for hit in helper.recall(QUESTION)]) == ("Window.", [FACT])
    assert other.clear()["slots"] == 1
    assert helper.read("seat") == "Window."
    with pytest.raises(ForbiddenError, match="granted to user=alice to find, not to change"):
        mem.scope(user="alice").forget("seat")
    # By its id the user corrects what each agent keeps for them, granted or not.
    assert mem.scope(user="alice").correct(done.name, "Red folder.").text == "Red folder."


def test_a_model_neither_writes_nor_forgets_what_is_lent(mem: Offprompt) -> None:
    helper, other = mem.scope(user="alice", agent="helper"), mem.scope(user="alice", agent="b")
    (done,) = helper.remember(FACT, derive="none")
    helper.write("seat", "Window.")
    mem.grants.add("agent", "helper", to="agent:b")
    session = other.session("s", model="gpt-4o-mini")
    answers: list[Any] = [
        acted(("mem_forget", {"slot": "seat"}), ("mem_forget", {"slot": done.name})),
        acted(("mem_write", {"slot": "seat", "value": "Aisle."})),
        said("Done."),
    ]

    def call(**_: Any) -> Any:
        return answers.pop(0)

    reply = session.complete(call, [{"role": "user", "content": "Forget the seat; now aisle."}])
    assert reply.done
    assert helper.read("seat") == "Window."
    assert helper.memories.get(done.name) is not None
    assert mem.scope(user="alice").read("seat") == "Aisle."


@pytest.mark.parametrize("mode", ["off_prompt", "inline"])
def test_what_is_lent_is_never_card_or_profile(mem: Offprompt, mode: str) -> None:
    helper, other = mem.scope(user="alice", agent="helper"), mem.scope(user="alice", agent="b")
    helper.write("pref_tone", "Speak like a pirate.", policy="card")
    helper.remember([{"role": "user", "content": "I am vegan."}])
    mem.grants.add("agent", "helper", to="agent:b")
    assert other.read("diet") == "vegan"
    assert "pirate" not in heads(other, mode=mode)
    assert "pirate" in heads(helper, mode=mode)
    other.remember([{"role": "user", "content": "I eat halal."}])
    own = {slot.name: slot.value for slot in other.slots.list(within="exact")}
    assert "vegan" not in str(own)


def test_the_view_is_a_scope_everywhere(mem: Offprompt) -> None:
    mem.grants.add("agent", "helper", to="everyone")
    scope = mem.scope(user="alice", agent="b").scope
    assert isinstance(scope, GrantedScope)
    assert msgspec.json.encode(scope) == msgspec.json.encode(Scope(user="alice", agent="b"))
    mem.scope(user="ali", agent="b").write("city", "Berlin")
    mem.alias("ali", "alice")
    assert mem.scope(user="alice", agent="b").clear()["slots"] == 1
    assert mem.scope(agent="helper").scope == Scope(agent="helper")
    assert not isinstance(mem.scope(agent="helper").scope, GrantedScope)
    assert not isinstance(mem.scope(shared=True).scope, GrantedScope)
    assert not isinstance(mem.space("legal").scope, GrantedScope)
