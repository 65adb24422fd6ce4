"""Somebody who is erased is gone from every engine, a receipt proves it, and nothing older brings it back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import offprompt
from offprompt.errors import ConflictError, HeldError, NotFoundError, ScopeError, UsageError
from offprompt.protocols import apply, run
from offprompt.records import ErasureReceipt, LoadIndex, PutSlot, Scope, ScopeRevisions, SweepMemories
from offprompt.records.tables import SLOT_TABLES, TABLES
from offprompt.service import copying
from offprompt.service.bound import BoundScope
from offprompt.service.erasing import print_of
from offprompt.service.extracting import Extractor
from offprompt.service.maintenance import sweep
from offprompt.service.offprompt import Offprompt
from offprompt.service.slot_writer import Writer
from offprompt.service.spooled_writes import SpooledWrites, spooled_slot
from offprompt.testing import MovedClock
from tests.indexes.edge_server import edge_server
from tests.servers import of_run, postgres_url, redis_url
from tests.service.read import FakeReader, Request, answer, decision

SECRET = "swordfish-7731"  # noqa: S105 - what tests look for
SAID = "我的代号是剑鱼，别告诉别人。"
USER = "alice@example.com"


@pytest.fixture(params=["memory", "sqlite", "postgres+redis+qdrant"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    with ExitStack() as stack:
        url = {"memory": ":memory:", "sqlite": str(tmp_path / "agent.db")}.get(request.param)
        if url is None:
            own = uuid.uuid4().hex
            qdrant = stack.enter_context(edge_server(tmp_path / "shards"))
            url = (
                f"memories={postgres_url(of_run(request, 'postgres'))}?schema=t{own} "
                f"slots={redis_url(of_run(request, 'redis'))}?prefix=t{own} vectors=qdrant://127.0.0.1:{qdrant.port}"
            )
        yield stack.enter_context(offprompt.open(url, clock=clock))


def reply(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message, "finish_reason": "stop", "index": 0}]}


def live(mem: Offprompt, user: str) -> BoundScope:
    """Something of a user in every table: slots, hidden ones, facts, a session with a body, events."""
    scope = mem.scope(user=user)
    scope.write("code", f"{SECRET} of {user}")
    scope.write("old", f"{SECRET} of {user}, hidden")
    scope.forget("old")
    scope.remember(f"{SAID} {SECRET} {user}")
    session = mem.scope(user=user, agent="helper").session("s1", model="gpt-4o-mini")
    session.prepare([{"role": "user", "content": f"Keep {SECRET} of {user} in mind."}])
    session.absorb(reply("Sure."))
    return scope


def cells(mem: Offprompt) -> Iterator[tuple[str, str]]:
    """Every text in every row, with its table."""
    for name in TABLES:
        engine: Any = mem.parts.slots if name in SLOT_TABLES else mem.parts.main
        for row in engine.scan(name):
            yield from ((name, cell) for cell in row if isinstance(cell, str))


def left(mem: Offprompt, receipt: ErasureReceipt, *texts: str) -> dict[str, str]:
    """What a check finds wrong, by its name."""
    return {one.name: one.what for one in mem.verify_erased(receipt, texts=texts) if one.state == "fail"}


def test_nothing_of_who_is_erased_is_left_in_any_row(mem: Offprompt) -> None:
    live(mem, USER)
    live(mem, "bob")
    mem.alias("al", USER)
    mem.keys.create("hers", users=[USER])
    shared = mem.keys.create("both", users=[USER, "bob"]).key
    receipt = mem.erase(user=USER)
    assert [table for table, cell in cells(mem) if USER in cell or cell == "al"] == []
    counts = {name: receipt.counts[name] for name in ("slots", "memories", "sessions", "keys")}
    assert counts == {"slots": 2, "memories": 3, "sessions": 1, "keys": 1}
    assert receipt.counts["events"] > 5
    assert any(shared.key_id in what for what in receipt.not_reached)
    assert left(mem, receipt, f"{SECRET} of {USER}") == {}
    assert mem.scope(user="bob").read("code") == f"{SECRET} of bob"
    assert [hit.text for hit in mem.scope(user="bob").recall("剑鱼")][:1] == [f"{SAID} {SECRET} bob"]
    assert {str(one.scope) for one in mem.users()} == {"user=bob", "user=bob agent=helper"}
    assert [event.scope.user for event in mem.parts.main.events(op="erase")] == [receipt.pseudonym]


def test_an_erased_space_is_gone_and_nobody_elses_hold_keeps_it(mem: Offprompt) -> None:
    live(mem, "bob")
    mem.holds.add(Scope(user="bob"), "case 7")
    for name in ("legal", "legal2"):
        mem.space(name).write("code", f"{SECRET} of {name}")
        mem.space(name).remember(f"{SAID} {SECRET} {name}")
    mem.holds.add(Scope(space="legal"), "case 8")
    with pytest.raises(HeldError, match="case 8"):
        mem.erase(space="Legal")
    mem.holds.lift(Scope(space="legal"))
    with pytest.raises(ScopeError, match="stands alone"):
        mem.erase(space="legal", user="bob")
    receipt = mem.erase(space="Legal")
    assert (receipt.scopes, receipt.counts["slots"]) == ((Scope(space="legal"),), 1)
    assert left(mem, receipt, f"{SECRET} of legal ") == {}
    assert [table for table, cell in cells(mem) if cell.endswith("legal")] == []
    assert {str(one.scope) for one in mem.users()} == {"space=legal2", "user=bob", "user=bob agent=helper"}
    assert [event.scope for event in mem.parts.main.events(op="erase")] == [Scope(space=receipt.pseudonym)]
    assert mem.space("legal2").read("code") == f"{SECRET} of legal2"
    assert mem.scope(user="bob").read("code") == f"{SECRET} of bob"


def test_the_check_sees_each_thing_that_is_left(mem: Offprompt) -> None:
    scope = live(mem, USER)
    bob = live(mem, "bob")
    receipt = mem.erase(user=USER)
    run(mem.parts.slots, PutSlot(scope.scope, "late", "x", "by_handle"))
    assert left(mem, replace(receipt, at=0.0)) != {}
    forged = replace(receipt, counts={"slots": 0})
    assert set(left(mem, forged)) == {"receipt", "slots", "versions", "events"}
    assert "versions" in left(mem, receipt, f"{SECRET} of bob")
    key = mem.parts.main.digest_key(scope.scope)
    assert "digest_keys" not in left(mem, receipt)
    assert "digest_keys" in left(mem, replace(receipt, key_prints=(print_of(key),)))
    assert bob.read("code")


def test_who_comes_back_is_told_from_what_is_left(mem: Offprompt, clock: MovedClock) -> None:
    live(mem, USER)
    receipt = mem.erase(user=USER)
    clock.move(5)
    mem.scope(user=USER).write("code", "new")
    mem.scope(user=USER).remember("I am back.")
    assert left(mem, receipt) == {}
    newer = [one.name for one in mem.verify_erased(receipt) if "newer" in one.what]
    assert {"slots", "versions", "memories", "events"} <= set(newer)


def test_another_process_forgets_what_it_had_loaded(mem: Offprompt) -> None:
    """Its copy of the scope is of a revision that the scope of who comes back must not reach again."""
    scope = mem.scope(user=USER)
    scope.remember("I live in Porto.")
    before = apply(mem.parts.main, LoadIndex(scope.scope))
    mem.erase(user=USER)
    for _ in range(before.revision + 2):
        scope.remember(f"note {uuid.uuid4().hex}")
        page = apply(mem.parts.main, LoadIndex(scope.scope, before.revision))
        assert page.whole
        assert apply(mem.parts.main, ScopeRevisions((scope.scope,)))[0] > before.revision


def test_erasing_once_more_is_no_error_and_keeps_the_pseudonym(mem: Offprompt) -> None:
    live(mem, USER)
    first, second = mem.erase(user=USER), mem.erase(user=USER)
    assert first.pseudonym == second.pseudonym
    assert (second.counts["slots"], second.counts["memories"], second.counts["sessions"]) == (0, 0, 0)
    assert left(mem, first) == left(mem, second) == {}


def test_whom_nobody_knows_is_not_erased(mem: Offprompt) -> None:
    live(mem, USER)
    assert mem.parts.slots.events(limit=1)  # those of another engine are moved when they are read
    rows = list(cells(mem))
    for ids in ({"user": "alic@example.com"}, {"agent": "hlper"}, {"session": "s2"}):
        with pytest.raises(NotFoundError, match="nothing is stored of"):
            mem.erase(**ids)
    assert list(cells(mem)) == rows
    assert mem.parts.main.notes("erased/") == []
    mem.keys.create("hers", users=["carol"])
    assert mem.erase(user="carol").counts["keys"] == 1


def test_an_agent_and_a_session_are_erased_whole_too(mem: Offprompt) -> None:
    live(mem, USER)
    assert left(mem, mem.erase(agent="helper")) == {}
    assert mem.scope(user=USER).read("code")
    mem.scope(session="web-1").write("cart", "three pears")
    assert left(mem, mem.erase(session="web-1"), "three pears") == {}
    with pytest.raises(UsageError, match="not one user, agent, session or space"):
        mem.erase(user=USER, agent="helper")


def test_a_hold_refuses_every_way_of_erasing(mem: Offprompt, clock: MovedClock) -> None:
    scope = live(mem, USER)
    scope.write("short", "x", ttl_s=10)
    hold = mem.holds.add(scope.scope, "case 7")
    ways = (
        lambda: mem.erase(user=USER),
        lambda: scope.slots.erase("code"),
        scope.slots.erase,
        scope.memories.erase,
        scope.clear,
        lambda: mem.erase(agent="helper"),
        mem.scope(user=USER, agent="helper").clear,
        lambda: mem.scope(shared=True).slots.erase(within="subtree"),
    )
    rows = list(cells(mem))
    for way in ways:
        with pytest.raises(HeldError, match="case 7"):
            way()
    assert list(cells(mem)) == rows
    clock.move(40 * 86400)
    stores = (mem.parts.slots, mem.parts.memories.store, mem.parts.sessions, clock)
    assert sweep(*stores, holds=mem.holds.list()) == sweep(*stores, holds=[hold])
    assert scope.slots.history("old")
    assert mem.parts.sessions.sessions(scope.scope)
    with pytest.raises(ConflictError, match="held already"):
        mem.holds.add(scope.scope, "case 8")
    mem.holds.lift(scope.scope)
    with pytest.raises(NotFoundError, match="not held"):
        mem.holds.lift(scope.scope)
    assert left(mem, mem.erase(user=USER)) == {}


def test_a_hold_spares_one_user_and_no_other_in_a_sweep(mem: Offprompt, clock: MovedClock) -> None:
    for user in (USER, "bob"):
        mem.scope(user=user).write("short", "x", ttl_s=10)
        mem.scope(user=user).remember("x y z", expires_at=clock.now() + 10)
    mem.holds.add(Scope(user=USER), "case 7")
    clock.move(60)
    stores = (mem.parts.slots, mem.parts.memories.store, mem.parts.sessions, clock)
    swept = sweep(*stores, holds=mem.holds.list())
    assert (swept.slots, swept.memories) == (1, 1)
    mem.holds.lift(Scope(user=USER))
    swept = sweep(*stores)
    assert (swept.slots, swept.memories) == (1, 1)


def test_an_export_from_before_brings_nothing_back(mem: Offprompt, clock: MovedClock, tmp_path: Path) -> None:
    scope = live(mem, USER)
    scope.memories.export(tmp_path / "all.jsonl", within="subtree", secrets=True)
    clock.move(5)
    mem.erase(user=USER)
    done = scope.memories.import_file(tmp_path / "all.jsonl")
    assert done.added == 0
    assert done.refused
    assert all("older than the erasure" in problem.why for problem in done.refused)
    assert mem.scope(user="bob").memories.import_file(tmp_path / "all.jsonl", rescope=True).added > 0


def test_a_turn_in_flight_is_not_absorbed(mem: Offprompt) -> None:
    session = mem.scope(user=USER).session("s1", model="gpt-4o-mini")
    session.prepare([{"role": "user", "content": SECRET}])
    receipt = mem.erase(user=USER)
    with pytest.raises(UsageError, match="prepare"):
        session.absorb(reply("Sure."))
    assert left(mem, receipt, SECRET) == {}


def test_a_model_that_reads_turns_meanwhile_stores_nothing(mem: Offprompt) -> None:
    scope = mem.scope(user=USER)
    scope.narrow(session="s1").remember([{"role": "user", "content": "I only drink oolong."}], derive="none")
    done: list[ErasureReceipt] = []

    def erased(request: Request) -> dict[str, Any]:
        done.append(mem.erase(user=USER))
        return answer(decision("ADD", request.turns[0]["turn"], "drink oolong", "The user drinks oolong."))

    Extractor(mem.parts.memories.kit, scope.scope, FakeReader([erased])).run()
    assert left(mem, done[0], "oolong") == {}


def test_a_write_that_waited_is_dropped(mem: Offprompt, clock: MovedClock) -> None:
    scope = mem.scope(user=USER)
    scope.write("code", "old")
    old = spooled_slot("k1", clock.now(), scope.scope, "code", SECRET, {}, Writer())
    clock.move(1)
    mem.erase(user=USER)
    clock.move(1)
    new = spooled_slot("k2", clock.now(), scope.scope, "city", "Porto", {}, Writer())
    kit = mem.parts.memories.kit.slots
    for one in (old, new):
        SpooledWrites(kit, mem.parts.memories).perform(one)
    assert mem.scope(user=USER).slots.snapshot() == {"city": "Porto"}


def test_a_sweep_meanwhile_harms_nothing(mem: Offprompt) -> None:
    live(mem, USER)
    receipt = mem.erase(user=USER)
    assert apply(mem.parts.memories.store, SweepMemories()) == 0
    assert left(mem, receipt) == {}


def test_a_receipt_is_plain_data(mem: Offprompt) -> None:
    live(mem, USER)
    receipt = mem.erase(user=USER)
    text = msgspec.json.encode(receipt)
    assert SECRET.encode() not in text
    assert json.loads(text)["pseudonym"] == receipt.pseudonym
    assert msgspec.json.decode(text, type=ErasureReceipt) == receipt
    for store in receipt.stores:
        assert store.done


def test_a_copy_takes_tombstones_and_holds_along(mem: Offprompt, tmp_path: Path, clock: MovedClock) -> None:
    scope = live(mem, USER)
    scope.memories.export(tmp_path / "all.jsonl", secrets=True)
    clock.move(5)
    mem.erase(user=USER)
    mem.holds.add(live(mem, "bob").scope, "case 7")
    with offprompt.open(str(tmp_path / "copy.db"), clock=clock) as copy:
        copying.copy(copying.Whole.of(mem.parts), copying.Whole.of(copy.parts))
        assert copy.scope(user=USER).memories.import_file(tmp_path / "all.jsonl").added == 0
        with pytest.raises(HeldError, match="case 7"):
            copy.erase(user="bob")
