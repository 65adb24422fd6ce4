"""Records go when their category's time is over, and nothing of a held scope does."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt.errors import UsageError
from offprompt.records import Scope
from offprompt.records.retention import retentions
from offprompt.service import maintenance
from offprompt.service.offprompt import Offprompt
from offprompt.service.retaining import Retaining, would_sweep
from offprompt.service.worker import Worker
from offprompt.testing import MovedClock
from tests.service.test_erasing import mem as mem  # noqa: PLC0414 - the same engines
from tests.service.test_erasing import reply

DAY = 86400.0
RULES = "episode 365d, fact:health 30d, fact 400d, session 90d, tag:support 180d, slot 500d"


def with_rules(mem: Offprompt, rules: str) -> None:
    object.__setattr__(mem.parts.settings, "retention", rules)


def fill(mem: Offprompt, user: str) -> None:
    own = mem.scope(user=user)
    own.remember([{"role": "user", "content": f"It rained on {user}."}], derive="none")
    own.memories.upsert_fact("user", "health", "a cold")
    own.remember(f"{user} likes tea.", tags=["other"], derive="none")
    own.remember(f"{user} pinned it.", pinned=True, derive="none")
    own.remember(f"{user} asked for help.", tags=["support"], derive="none")
    own.write("ticket", "4711", tags=["support"])
    own.write("town", "Porto")
    session = own.session("s1", model="gpt-4o-mini", capture="off")
    session.prepare([{"role": "user", "content": "hello"}])
    session.absorb(reply("Hi."))


def test_each_category_goes_when_its_time_is_over(mem: Offprompt, clock: MovedClock) -> None:
    with_rules(mem, RULES)
    fill(mem, "alice")
    fill(mem, "held")
    mem.holds.add(Scope(user="held"), "case 7")
    told, began = dict[int, dict[str, int]](), clock.now()
    for days in (29, 31, 91, 181, 366, 401, 501):
        clock.move(days * DAY - (clock.now() - began))
        due = {name: count for name, count in Retaining(mem.parts).due().counts.items() if count}
        assert {name: count for name, count in Retaining(mem.parts).remove().items() if count} == due
        told[days] = due
        assert not any(Retaining(mem.parts).due().counts.values())
    assert told == {
        29: {},
        31: {"fact:health": 1},
        91: {"session": 1},
        181: {"tag:support": 2},
        366: {"episode": 1},
        401: {"fact": 1},
        501: {"slot": 1},
    }
    assert [one.text for one in mem.scope(user="alice").memories.list()] == ["alice pinned it."]
    assert mem.scope(user="alice").slots.list() == []
    assert len(mem.scope(user="held").memories.list().memories) == 5
    assert mem.scope(user="held").slots.snapshot() == {"ticket": "4711", "town": "Porto"}
    assert [event.why for event in mem.parts.main.events(op="retention.sweep")] == [
        "fact:health 1",
        "session 1",
        "tag:support 2",
        "episode 1",
        "fact 1",
        "slot 1",
    ]


def test_a_fact_that_goes_leaves_the_profile_too(mem: Offprompt, clock: MovedClock) -> None:
    alice = mem.scope(user="alice")
    alice.remember([{"role": "user", "content": "I live in Porto."}])
    assert alice.read("home") == "Porto"
    with_rules(mem, "fact 10d")
    clock.move(11 * DAY)
    Retaining(mem.parts).remove()
    assert alice.read("home", None) is None
    assert [one.kind for one in alice.memories.list()] == ["episode"]


def test_the_worker_does_it_and_one_app_alone_is_asked_for(tmp_path: Path, clock: MovedClock) -> None:
    with offprompt.open(tmp_path / "m.db", clock=clock, embedder="none", retention="slot 1d") as memory:
        for app in ("one", "two", "three"):
            memory.scope(user="alice", app=app).write("town", "Porto")
        clock.move(2 * DAY)
        assert dict(Retaining(memory.parts, app="two").remove()) == {"slot": 1}
        assert Retaining(memory.parts).due().counts["slot"] == 2
        assert [one.done for one in Worker(memory.parts).run() if one.job == "sweep"] == [2]


def test_a_dry_run_says_what_a_sweep_does(mem: Offprompt, clock: MovedClock) -> None:
    object.__setattr__(mem.parts.settings, "user_idle_days", 60)
    for user in ("alice", "held"):
        fill(mem, user)
        own = mem.scope(user=user)
        own.write("short", "x", ttl_s=5)
        own.write("gone", "x")
        own.forget("gone")
        own.remember("It ends.", expires_at=clock.now() + 5, derive="none")
        own.forget(own.remember("I take it back.", derive="none")[0].name)
    mem.holds.add(Scope(user="held"), "case 7")
    parts, settings = mem.parts, mem.parts.settings
    for days in (8, 61):
        clock.move(days * DAY)
        would = would_sweep(parts)
        done = maintenance.sweep(
            parts.slots,
            parts.memories.store,
            parts.sessions,
            clock,
            undo_s=settings.undo_s,
            session_idle_s=settings.session_idle_s,
            user_idle_days=settings.user_idle_days,
            holds=parts.holds.list(),
        )
        assert would == done
        assert would_sweep(parts) == maintenance.Swept(0, 0, 0)
        assert done.memories > 1


def test_a_held_scope_keeps_every_version(mem: Offprompt, clock: MovedClock) -> None:
    held, free = mem.scope(user="held"), mem.scope(user="free")
    for own in (held, free):
        own.write("long", "第一" * 3000, split=True)
        own.write("short", "first", ttl_s=5)
        own.write("many", "0", consent="c-1")
    mem.holds.add(Scope(user="held"), "case 7")
    clock.move(10)
    for own in (held, free):
        for number in range(1, 15):
            own.write("many", str(number), consent=f"c-{number}")
        own.write("long", "now short")
        own.write("short", "second")
    assert [one.value for one in held.slots.history("many")] == [str(number) for number in range(15)]
    assert [one.value for one in free.slots.history("many")] == ["14"]
    assert [one.value for one in held.slots.history("short")] == ["first", "second"]
    assert [one.value for one in free.slots.history("short")] == ["second"]
    assert [slot.name for slot in held.slots.list(forgotten=True)][:1] == ["long.1"]
    assert free.slots.list(forgotten=True) == []
    assert held.read("long") == "now short"
    mem.holds.lift(Scope(user="held"))
    for number in range(15, 27):
        held.write("many", str(number))
    assert len(held.slots.history("many")) == mem.parts.settings.keep_versions


def test_rules_say_what_is_wrong_with_them(tmp_path: Path) -> None:
    assert [(one.category, one.max_age_s) for one in retentions("fact:Health 2d,session 12h")] == [
        ("fact:health", 2 * DAY),
        ("session", DAY / 2),
    ]
    for wrong in ("episode", "body 7d", "fact 0d", "fact 3w", "tag 3d", "session:x 3d", "fact 3d, fact 4d"):
        with pytest.raises(UsageError, match="retention: "):
            offprompt.open(tmp_path / "m.db", retention=wrong)
    (tmp_path / "offprompt.toml").write_text('[retention]\nepisode = "365d"\n"fact:health" = "30d"\n')
    with offprompt.open(tmp_path / "m.db", config=tmp_path / "offprompt.toml") as memory:
        assert memory.parts.settings.retention == "episode 365d, fact:health 30d"
