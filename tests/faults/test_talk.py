"""A conversation under faults, on every engine: nothing absorbed is lost or there twice, and it goes on."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.models.clocks import SystemClock
from offprompt.service.accounting import digester
from offprompt.service.checkup import checkup
from offprompt.service.ledger_check import verify_ledger
from offprompt.service.offprompt import Offprompt
from offprompt.service.session import Session
from offprompt.service.session_lock import LEASE_S
from offprompt.testing import MovedClock
from tests.faults.places import ENGINES, SERVED, Place, drop
from tests.faults.proxy import SIDES, Proxy

TALKER = Path(__file__).parents[1] / "service" / "talker.py"


def session_of(memory: Offprompt) -> Session:
    return memory.scope(user="ann").session("s1", model="gpt-4o-mini")


def turn(session: Session, messages: list[Any], number: int) -> list[str]:
    """One turn, in which the model writes a slot; the messages go on, and its warnings are returned."""
    messages.append({"role": "user", "content": f"I like tea number {number}. 我喜欢茶 {number}。"})
    session.prepare(messages)
    arguments = f'{{"slot":"progress","value":"turn {number} is done"}}'
    call = {"id": f"c{number}", "type": "function", "function": {"name": "mem_write", "arguments": arguments}}
    first = session.absorb({"role": "assistant", "content": None, "tool_calls": [call]})
    session.prepare([*messages, *first.messages])
    last = session.absorb({"role": "assistant", "content": f"Done {number}"})
    messages += last.messages
    return [*first.warnings, *last.warnings]


def check(memory: Offprompt, turns: int, most: int) -> None:
    """From `turns` to `most` turns were absorbed, each once; ledger and store are sound."""
    session = session_of(memory)
    record, ledger = session.record, session.ledger()
    assert record is not None
    done = [entry.text for entry in session.journal() if entry.text.startswith("Done")]
    assert done in [[f"Done {number}" for number in range(count)] for count in range(turns, most + 1)]
    assert len(ledger) >= 2 * turns
    assert verify_ledger(record, ledger, digester(memory.parts.sessions.digest_key(session.scope))) is None
    assert memory.scope(user="ann").read("progress") in [
        f"turn {count - 1} is done" for count in range(turns, most + 1)
    ]
    assert checkup(memory.parts).is_sound


def talk_and_kill(url: str, lines: int, spin: int) -> int:
    """How many turns were said to be absorbed before the kill, some instructions after `lines` of them."""
    process = subprocess.Popen([sys.executable, str(TALKER), url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(lines)]
    sum(range(spin))
    process.kill()
    said += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    return len([line for line in said if line.endswith("\n")])


def play_kills(place: Place, rounds: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - when to kill, seeded
    for number in range(rounds):
        own = replace(place, folder=place.folder / str(number), name=f"{place.name}_{number}")
        turns = talk_and_kill(own.url(), chance.randrange(1, 6), chance.randrange(0, 1_000_000))
        # Where processes agree on sessions the killed one still seems to be at work for a while.
        with offprompt.open(own.url(), clock=MovedClock(SystemClock().now() + LEASE_S + 1)) as memory:
            check(memory, turns, turns + 1)
            session = session_of(memory)
            session.prepare(
                [dict(entry.message) for entry in session.journal()] + [{"role": "user", "content": "Go on"}]
            )
            assert session.absorb({"role": "assistant", "content": "Yes."}).done
        drop(own)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_absorbed_is_lost_in_2_kills(place: Place) -> None:
    play_kills(place, 2, seed=5)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_absorbed_is_lost_in_50_kills(place: Place) -> None:
    play_kills(place, 50, seed=15)


def play_cuts(place: Place, proxies: dict[str, Proxy], turns: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - where to cut, seeded
    memory = offprompt.open(place.url(**{name: proxy.port for name, proxy in proxies.items()}), writes_per_minute=0)
    session, messages = session_of(memory), list[Any]()
    assert turn(session, messages, 0) == []
    before = {name: dict(proxy.passed) for name, proxy in proxies.items()}
    assert turn(session, messages, 1) == []
    for number in range(2, turns):
        name = chance.choice([*proxies])
        side, proxy = chance.choice(SIDES), proxies[name]
        proxy.cut_after(chance.randrange(max(1, (proxy.passed[side] - before[name][side]) // (number - 1))), side)
        assert turn(session, messages, number) == []
        proxy.mend()
    memory.close()
    with offprompt.open(place.url()) as again:
        check(again, turns, turns)
    assert sum(proxy.cuts for proxy in proxies.values()) > turns / 4


@pytest.mark.parametrize("engine", SERVED)
def test_a_talk_whose_connections_break_goes_on_with_its_memory(place: Place, proxies: dict[str, Proxy]) -> None:
    play_cuts(place, proxies, 15, seed=21)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", SERVED)
def test_a_long_talk_whose_connections_break_goes_on_with_its_memory(place: Place, proxies: dict[str, Proxy]) -> None:
    play_cuts(place, proxies, 150, seed=22)


@pytest.mark.parametrize("engine", ENGINES)
def test_turns_that_come_again_in_another_process_change_nothing(place: Place) -> None:
    with offprompt.open(place.url()) as memory:
        messages: list[Any] = []
        for number in range(3):
            turn(session_of(memory), messages, number)
        scope = memory.scope(user="ann")
        told = (scope.slots.history("progress"), [one.text for one in scope.memories.list(limit=100)])
    with offprompt.open(place.url()) as again:
        messages = []
        for number in range(3):
            turn(session_of(again), messages, number)
        check(again, 3, 3)
        scope = again.scope(user="ann")
        assert (scope.slots.history("progress"), [one.text for one in scope.memories.list(limit=100)]) == told


@pytest.mark.parametrize("engine", SERVED)
def test_a_talk_goes_on_without_memory_and_says_so(place: Place, proxies: dict[str, Proxy]) -> None:
    url = place.url(**{name: proxy.port for name, proxy in proxies.items()})
    memory = offprompt.open(url, busy_timeout_s=0.3)
    session, messages = session_of(memory), list[Any]()
    assert turn(session, messages, 0) == []
    for proxy in proxies.values():
        proxy.refuse()
    warnings = turn(session, messages, 1)
    assert warnings
    assert all(str(proxy.port) in " ".join(warnings) for proxy in list(proxies.values())[:1])
    for proxy in proxies.values():
        proxy.mend()
    assert turn(session, messages, 2) == []
    with offprompt.open(place.url()) as again:
        assert again.scope(user="ann").read("progress") == "turn 2 is done"
        assert checkup(again.parts).is_sound
    memory.close()
