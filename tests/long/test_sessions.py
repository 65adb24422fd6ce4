"""Sessions of 40 and of 500 turns: what holds at each request, and what the answers must be."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

import offprompt
from offprompt.service.accounting import digester
from offprompt.service.ledger_check import verify_ledger
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from offprompt.testing.log_turns import SYSTEM
from offprompt.testing.mangler import Mangler
from offprompt.testing.stand_ins import Caller, Reader
from offprompt.testing.strict import StrictUpstream
from offprompt.wire.prices import builtin_sheets, sheet_for
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Wire
from tests.long.hands import OtherHand, OwnHand
from tests.long.plan import Language, Planned, planned, stated_before
from tests.long.play import TOKEN, Model, Play
from tests.long.watch import Watch
from tests.service.canary import STORED, forms, plant
from tests.service.talk import MODELS, tool

CONTEXT = {"openai": 128_000, "anthropic": 200_000, "responses": 400_000}
THINKING: dict[Wire, dict[str, Any]] = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    "responses": {"include": ["reasoning.encrypted_content"]},
}
STAND_INS = {"reader": Reader, "caller": Caller, "mangler": Mangler}


@dataclass(frozen=True)
class Run:
    """Which session."""

    wire: Wire
    stand_in: Literal["reader", "caller", "mangler"]
    language: Language
    policy: str = "auto"
    binding: bool = False
    processes: bool = False

    def __str__(self) -> str:
        more = [word for word, on in (("binding", self.binding), ("processes", self.processes)) if on]
        return "-".join([self.wire, self.stand_in, self.language, self.policy, *more])


# The quick tests leave out the first, the long ones the last.
RUNS = (
    Run("openai", "reader", "en", "window"),
    Run("openai", "mangler", "zh", "stubs+window"),
    Run("anthropic", "reader", "zh", "after_use+window"),
    Run("anthropic", "caller", "zh", "auto"),
    Run("anthropic", "mangler", "en", "after_use+window"),
    Run("anthropic", "caller", "en", "auto", binding=True),
    Run("responses", "mangler", "en", "stubs+window"),
    Run("responses", "caller", "zh", "after_use+window"),
    Run("openai", "caller", "zh", "after_use+window", processes=True),
    Run("openai", "caller", "en", "auto"),
)


@pytest.mark.data
@pytest.mark.parametrize("run", RUNS[1:], ids=str)
def test_sessions_of_40_turns(run: Run, data: Path, tmp_path: Path) -> None:
    play(run, data, tmp_path / "a.db", turns=40)


@pytest.mark.data
@pytest.mark.long
@pytest.mark.parametrize("run", RUNS[:-1], ids=str)
def test_sessions_of_500_turns(run: Run, data: Path, tmp_path: Path) -> None:
    play(run, data, tmp_path / "a.db", turns=500)


def play(run: Run, data: Path, path: Path, *, turns: int) -> Play:
    """All of a session."""
    with played(run, data, path, turns=turns) as (one, plan):
        for turn in plan:
            one.turn(turn)
        check_end(one)
    return one


@contextmanager
def played(run: Run, data: Path, path: Path, *, turns: int) -> Generator[tuple[Play, list[Planned]]]:
    """A session that has not begun, with its turns."""
    secrets = [text for kind in STORED for text in forms(kind)]
    plan = planned(data, run.language, turns=turns, seed=len(str(run)), secrets=secrets)
    names = {call.name for turn in plan for step in turn.steps for call in step.said.calls}
    with memory_of(run, path) as (memory, clock):
        scope = memory.scope(user="ann")
        plant(scope)
        scope.write("desk_token", TOKEN, policy="never")
        scope.slots.allow("desk_token", "sign_in", "token")
        tools = sorted({*names, "send_note", "sign_in", "open_file"})
        earlier = started(replace(run, stand_in="caller", processes=False), memory, clock, path, tools, "s0")
        for turn in stated_before(run.language):
            earlier.turn(turn)
        one = started(run, memory, clock, path, tools)
        one.known.update(earlier.known)
        one.watch.values.update(earlier.known)
        try:
            yield one, plan
        finally:
            for hand in one.hands:
                if isinstance(hand, OtherHand):
                    hand.close()


@contextmanager
def memory_of(run: Run, path: Path) -> Generator[tuple[Offprompt, MovedClock | None]]:
    """Opened on a file where processes share it, with a clock of its own else."""
    clock = None if run.processes else MovedClock()
    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    if run.processes:
        options["writes_per_minute"] = 0
    with offprompt.open(path if run.processes else ":memory:", **options) as memory:
        yield memory, clock


def started(
    run: Run, memory: Offprompt, clock: MovedClock | None, path: Path, names: list[str], session_id: str = "s1"
) -> Play:
    model = MODELS[run.wire]
    options: dict[str, Any] = {
        "model": model,
        "wire": run.wire,
        "policy": run.policy,
        "system": SYSTEM[run.language],
        "tools": [tool(name, run.wire) for name in names],
    }
    scope = memory.scope(user="ann")
    session = scope.session(session_id, **options)
    thinks = run.binding or run.wire == "responses"
    speaker = Model(STAND_INS[run.stand_in](run.wire), thinks=thinks)
    sheet = sheet_for(model, builtin_sheets())
    thinking = THINKING[run.wire] if thinks else {}
    return Play(
        run.wire,
        memory,
        scope,
        [OwnHand(session), OtherHand(path, "ann", session_id, options)] if run.processes else [OwnHand(session)],
        StrictUpstream(run.wire, speaker, sheet=sheet, binding=run.binding),
        speaker,
        Watch(run.wire, model, window=8000 if "window" in run.policy else None, context=CONTEXT[run.wire]),
        lambda: session.record,
        clock,
        thinking,
        run.language == "zh",
    )


def check_end(one: Play) -> None:
    """Nothing is lost, and the ledger is whole."""
    hand = one.hands[0]
    assert isinstance(hand, OwnHand)
    session, record = hand.session, hand.session.record
    assert record is not None
    journal, ledger = session.journal(), session.ledger()
    kept = {entry.text for entry in journal}
    kept |= {text for entry in journal for text in results_of(one.wire, dict(entry.message))}
    assert [text for text in one.noted if text and text not in kept] == []
    sessions = one.memory.parts.sessions
    bodies = {f"@{body.body_id}": body.text for body in sessions.bodies(session.scope)}
    assert {name for name in one.watch.bodies if bodies.get(name) not in one.noted} == set()
    assert verify_ledger(record, ledger, digester(sessions.digest_key(session.scope))) is None
    assert [entry.sent.tokens for entry in ledger] == one.watch.figures.sent
    cut = sum(damage.name == "truncated" for damage in getattr(one.model.stand_in, "done", ()))
    assert [entry.outcome for entry in ledger if entry.outcome != "ok"] == ["cut"] * cut
    counted = {at: entry.usage.input for at, entry in enumerate(ledger) if at in one.counted}
    assert counted == one.counted
    assert one.upstream.faults == []


def results_of(wire: Wire, message: dict[str, Any]) -> list[str]:
    return [result.text for result in SHAPES[wire].results(message)]
