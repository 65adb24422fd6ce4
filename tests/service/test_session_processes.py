"""Several hands on one session: other objects, other processes, failures in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import BackendError, ConflictError
from offprompt.records import PutSlot, SessionChange, SlotOp
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from tests.service.parts import parts_of
from tests.service.talk import MODELS, Say, Talk, Wire, as_reply, call, calls, flat, messages_of, result, tool

OTHER = """
import json, sys
import offprompt
path, wire, model, given = sys.argv[1:5]
with offprompt.open(path) as opened:
    session = opened.scope(user="u").session("s", model=model, wire=wire)
    if given == "prepare":
        print(json.dumps(session.prepare(json.load(sys.stdin))))
    else:
        reply = session.absorb(json.load(sys.stdin))
        print(json.dumps([reply.done, reply.text, list(reply.messages)]))
"""


def in_another_process(path: Path, wire: Wire, what: str, given: Any) -> Any:
    import json  # noqa: PLC0415 - beside its only use

    command = [sys.executable, "-c", OTHER, str(path), wire, MODELS[wire], what]
    ran = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_processes_take_turns(tmp_path: Path, wire: Wire) -> None:
    path = tmp_path / "a.db"
    with offprompt.open(path) as opened:
        scope = opened.scope(user="u")
        one = Talk(scope.session("s", model=MODELS[wire], wire=wire), wire)
        one.turn(
            "My city is Reykjavik, by the sea", call("mem_write", slot="city", value="Reykjavik, by the sea"), "ok"
        )
        messages = [*one.messages, {"role": "user", "content": "And then?"}]
        theirs = in_another_process(path, wire, "prepare", messages)
        said = as_reply(call("mem_read", "m1", slot="city"), wire)
        done, _, added = in_another_process(path, wire, "absorb", said)
        assert not done
        again = in_another_process(path, wire, "absorb", said)
        assert again[2] == added
        one.provider.take(theirs)
        request = one.session.prepare([*messages, *added])
        assert one.provider.take(request) >= one.provider.take(theirs), "the provider's cache holds the other's request"
        assert messages_of(request)[: len(messages_of(theirs))] == messages_of(theirs)
        assert request.get("system") == theirs.get("system")
        one.session.absorb(as_reply("Reykjavik.", wire))
        assert [entry.seq for entry in one.session.ledger()] == [1, 2, 3, 4]


def test_two_objects_take_turns(mem: Offprompt, wire: Wire) -> None:
    scope = mem.scope(user="u")
    left = Talk(scope.session("s", model=MODELS[wire], wire=wire), wire)
    right = Talk(scope.session("s", model=MODELS[wire], wire=wire), wire, left.messages, left.requests)
    for number in range(4):
        right.turn_seen = left.turn_seen
        left.turn(f"Left {number}", call("mem_write", slot=f"l{number}", value="x" * 30), "ok")
        right.messages, right.turn_seen = left.messages, left.turn_seen
        right.turn(f"Right {number}", call("mem_read", slot=f"l{number}"), "ok")
        left.messages, left.turn_seen = right.messages, right.turn_seen
    assert len(left.session.journal()) == 32
    assert left.session.record == right.session.record


class Held(InProcessStore):
    """A store that lets another go first, or fails, at a chosen commit; or fails for one kind of op."""

    before_commit: list[Any]
    broken = False

    def __init__(self, clock: MovedClock) -> None:
        super().__init__(clock)
        self.before_commit = []

    def commit(self, change: SessionChange) -> None:
        if self.before_commit:
            self.before_commit.pop(0)()
        super().commit(change)

    def batch(self, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        if self.broken and any(isinstance(op, PutSlot) for op in ops):
            raise BackendError("the disk is full")
        return super().batch(ops)


@pytest.fixture
def held() -> tuple[Held, BoundScope]:
    clock = MovedClock()
    store = Held(clock)
    return store, Offprompt(parts_of(store, clock)).scope(user="u")


def test_two_at_once_are_a_conflict_and_lose_nothing(held: tuple[Held, BoundScope], wire: Wire) -> None:
    store, scope = held
    one, other = (Talk(scope.session("s", model=MODELS[wire], wire=wire), wire) for _ in range(2))
    one.turn("Hello", "Hello.")
    other.messages = [*one.messages, {"role": "user", "content": "mine"}]
    one.messages.append({"role": "user", "content": "ours"})
    store.before_commit.append(other.prepare)
    with pytest.raises(ConflictError, match="load the session again"):
        one.session.prepare(one.messages)
    other.absorb("Theirs.")
    one.requests.clear()
    one.go("Ours.")
    texts = [flat(dict(entry.message)) for entry in one.session.journal()]
    assert sum("mine" in text for text in texts) == 1
    assert sum("ours" in text for text in texts) == 1
    assert sum("Theirs." in text for text in texts) == 1
    assert [entry.outcome for entry in one.session.ledger()] == ["ok", "ok", "ok"]


@pytest.mark.parametrize("answered", [False, True], ids=["before its answer", "after its answer"])
def test_a_reply_never_stands_behind_a_message_that_it_does_not_answer(
    mem: Offprompt, wire: Wire, answered: bool
) -> None:
    scope = mem.scope(user="u")
    one, other = (Talk(scope.session("s", model=MODELS[wire], wire=wire), wire) for _ in range(2))
    one.messages.append({"role": "user", "content": "mine"})
    other.messages.append({"role": "user", "content": "theirs"})
    one.prepare()
    other.prepare()
    if answered:
        other.absorb("To theirs.")
    with pytest.raises(ConflictError, match="another call sent a newer request"):
        one.session.absorb(as_reply(call("mem_write", "m1", slot="a", value="1"), wire))
    assert scope.slots.list() == []
    if not answered:
        other.absorb("To theirs.")
    assert sum(entry.kind == "assistant" for entry in one.session.journal()) == 1
    assert [entry.outcome for entry in one.session.ledger()] == ["no reply", "ok"]
    one.requests.clear()
    one.go("To mine.")
    assert [entry.outcome for entry in one.session.ledger()] == ["no reply", "ok", "ok"]


def test_a_process_that_dies_between_write_and_commit(held: tuple[Held, BoundScope], wire: Wire) -> None:
    store, scope = held
    one = Talk(scope.session("s", model=MODELS[wire], wire=wire), wire)
    one.messages.append({"role": "user", "content": "Save"})
    one.prepare()
    said = as_reply(call("mem_write", "m1", slot="a", value="1"), wire)

    def die() -> None:
        raise KeyboardInterrupt

    store.before_commit.append(die)
    with pytest.raises(KeyboardInterrupt):
        one.session.absorb(said)
    assert scope.read("a") == "1"
    scope.write("a", "2")
    reply = scope.session("s", model=MODELS[wire], wire=wire).absorb(said)
    assert scope.read("a") == "2"
    assert reply.receipts[0].ok
    assert [version.value for version in scope.slots.history("a")] == ["1", "2"]


@pytest.mark.parametrize(("hello", "says"), [("Save", "memory is not available now"), ("请保存", "记忆暂时不可用")])
def test_a_store_that_fails_inside_an_action(held: tuple[Held, BoundScope], wire: Wire, hello: str, says: str) -> None:
    store, scope = held
    one = Talk(scope.session("s", model=MODELS[wire], wire=wire, tools=[tool("look", wire)]), wire)
    store.broken = True
    reply = one.turn(hello, calls(call("mem_write", slot="a", value="1"), call("look", "c1", text="x")))
    assert [receipt.text for receipt in reply.receipts] == [says]
    assert any("disk is full" in warning for warning in reply.warnings)
    one.messages += result(wire, ("c1", "seen"))
    one.go("Seen.")
    store.broken = False
    one.turn("Again", call("mem_write", slot="a", value="1"), "Saved.")
    assert scope.read("a") == "1"


def test_a_write_that_is_answered_twice_in_one_turn(held: tuple[Held, BoundScope], wire: Wire) -> None:
    """A regenerated reply is a branch of its own; the same reply again is the same."""
    _, scope = held
    one = Talk(scope.session("s", model=MODELS[wire], wire=wire), wire)
    one.messages.append({"role": "user", "content": "Save"})
    one.prepare()
    one.absorb(call("mem_write", "m1", slot="a", value="1"))
    one.prepare()
    one.absorb(call("mem_write", "m1", slot="a", value="1"))
    assert [version.version for version in scope.slots.history("a")] == [1]
    one.prepare()
    reply = one.absorb(call("mem_write", "m2", slot="a", value="2"))
    assert scope.read("a") == "2"
    assert len(one.session.ledger()) == 3
    one.prepare([*one.messages, *reply.messages])
    one.absorb(Say("Saved."))
