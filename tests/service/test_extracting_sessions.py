"""Sessions with `derive="model"`, over a real client: the conversation goes on, and its turns are read beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import offprompt
from offprompt import UnsupportedError
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.records import PENDING, Scope
from offprompt.service import consolidating
from offprompt.service.bound import BoundScope
from offprompt.service.checkup import checkup
from offprompt.service.consolidating import consolidate, waits
from offprompt.service.extracting import Extracted
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.offprompt import Offprompt
from offprompt.service.stored_session import read_session
from offprompt.service.trace import Tracer
from offprompt.service.worker import Worker
from offprompt.testing.clock import MovedClock
from offprompt.testing.strict_server import StrictServer, Trouble
from tests.service.read import answer, decision
from tests.service.talk import MODELS, Talk

TEA = "I only drink oolong in the afternoon."
FACT = "The user drinks oolong in the afternoon."


class Upstream:
    """What the endpoint answers: facts about tea, in whatever form a test sets."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.finish = "stop"
        self.bad: list[str] = []

    def __call__(self, **payload: Any) -> dict[str, Any]:
        given = [json.loads(line) for line in str(payload["messages"][1]["content"]).splitlines()]
        turns = [line for line in given if "turn" in line]
        told = [
            decision("ADD", line["turn"], "drink oolong in the afternoon", FACT)
            if "oolong" in line["text"]
            else decision("NONE", line["turn"])
            for line in turns
        ]
        text = self.bad.pop(0) if self.bad else json.dumps(answer(*told))
        message = {"role": "assistant", "content": text, **self.message}
        if "think" in self.message:
            message["content"] = f"<think>{message.pop('think')}</think>\n{text}"
        usage = {"prompt_tokens": 500, "completion_tokens": 50, "total_tokens": 550}
        return {"choices": [{"message": message, "finish_reason": self.finish}], "usage": usage}


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
def server(upstream: Upstream) -> Iterator[StrictServer]:
    with StrictServer(upstream) as running:
        yield running


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(1_800_000_000.0)


@pytest.fixture
def mem(server: StrictServer, clock: MovedClock, request: pytest.FixtureRequest) -> Iterator[Offprompt]:
    settings: dict[str, Any] = getattr(request, "param", {})
    retries = Retries(2, base_s=0.01)
    model = OpenAIChatModel("deepseek-chat", base_url=f"{server.url}/v1", key="k", retries=retries, timeout_s=20)
    options: dict[str, Any] = {"derive": "model", "extract_turns": 2, **settings}
    with offprompt.open(":memory:", clock=clock, models={"extract": model}, **options) as opened:
        yield opened


@pytest.fixture
def ann(mem: Offprompt) -> BoundScope:
    return mem.scope(user="ann")


def talk(scope: BoundScope, session: str = "s1") -> Talk:
    return Talk(scope.session(session, model=MODELS["openai"], wire="openai"), "openai")


def done(mem: Offprompt) -> None:
    assert mem.parts.memories.background.wait(30)


def facts(scope: BoundScope) -> list[str]:
    return [one.text for one in scope.memories.list(kinds=["fact"]) if one.source == "model"]


def run(mem: Offprompt, **options: Any) -> list[Extracted]:
    return list(consolidate(mem.parts.memories.kit, **options))


def test_turns_are_read_after_so_many(mem: Offprompt, ann: BoundScope, server: StrictServer) -> None:
    one = talk(ann)
    one.turn("Hello.", "Hello!")
    done(mem)
    assert server.requests == []
    one.turn(TEA, "Noted.")
    done(mem)
    assert facts(ann) == [FACT]
    assert len(server.requests) == 1
    (place,) = [each.scope for each in mem.parts.sessions.sessions() if str(each.scope.session).startswith("@models/")]
    (entry,) = mem.parts.sessions.ledger(place)
    assert (entry.usage.input, entry.usage.output, list(entry.parts)) == (500, 50, ["extract"])


def test_the_rest_is_read_at_the_end_of_the_session(mem: Offprompt, ann: BoundScope) -> None:
    one = talk(ann)
    one.turn(TEA, "Noted.")
    done(mem)
    assert facts(ann) == []
    one.session.end()
    done(mem)
    assert facts(ann) == [FACT]


def test_what_the_application_remembers_is_read_too(mem: Offprompt, ann: BoundScope) -> None:
    ann.remember([{"role": "user", "content": TEA}, {"role": "user", "content": "And I said hello."}], derive="model")
    done(mem)
    assert facts(ann) == [FACT]


def test_without_a_model_nothing_pretends_to_read() -> None:
    with offprompt.open(":memory:") as mem:
        with pytest.raises(UnsupportedError, match=r"models\.extract"):
            mem.scope(user="ann").session("s1", derive="model")
        with pytest.raises(UnsupportedError, match=r"models\.extract"):
            mem.scope(user="ann").remember(TEA, derive="model")
        with pytest.raises(UnsupportedError):
            run(mem)
        assert mem.scope(user="ann").memories.list().memories == ()


STORM = [Trouble(status=429, headers={"Retry-After": "0"})] * 2
FAULTS: dict[str, list[Trouble]] = {
    "a storm that passes": STORM,
    "a lost connection": [Trouble(drop=True)],
    "a page in place of JSON": [Trouble(text="<html>busy</html>")],
    "an answer cut in its body": [Trouble(cut=40)],
    "a server in trouble": [Trouble(status=503), Trouble(status=500)],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_the_endpoint_loses_or_doubles_a_turn(
    mem: Offprompt, ann: BoundScope, server: StrictServer, fault: str
) -> None:
    server.troubles = list(FAULTS[fault])
    one = talk(ann)
    for said in ("Hello.", TEA):
        one.turn(said, "Yes.")
    done(mem)
    run(mem)
    assert facts(ann) == [FACT]
    assert waits(mem.parts.main).waiting == 0


def test_a_storm_that_does_not_pass_leaves_the_turns_waiting(
    mem: Offprompt, ann: BoundScope, server: StrictServer
) -> None:
    server.troubles = [Trouble(status=429)] * 3
    one = talk(ann)
    for said in ("Hello.", TEA):
        one.turn(said, "Yes.")
    done(mem)
    assert facts(ann) == []
    assert waits(mem.parts.main).waiting == 2
    assert "2 turns wait" in next(one.what for one in checkup(mem.parts).findings if one.name == "extraction")
    (event,) = ann.events(op="extract.wait")
    assert (event.outcome, event.scope.session) == ("trouble", "s1")
    (found,) = run(mem)
    assert (found.read, facts(ann)) == (2, [FACT])


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning_content": "The user drinks coffee. I should add that."},
        {"think": '{"decisions": [{"action": "ADD", "text": "The user drinks coffee."}]}'},
    ],
    ids=["reasoning_content", "think"],
)
def test_thinking_is_no_answer(mem: Offprompt, ann: BoundScope, upstream: Upstream, message: dict[str, Any]) -> None:
    upstream.message = message
    ann.remember([{"role": "user", "content": TEA}], derive="none")
    (found,) = run(mem)
    assert (found.added, found.dropped, facts(ann)) == (1, {}, [FACT])


def test_empty_content_beside_thinking_is_asked_for_once_more(
    mem: Offprompt, ann: BoundScope, upstream: Upstream
) -> None:
    upstream.message, upstream.bad = {"reasoning_content": "Hm."}, [""]
    ann.remember([{"role": "user", "content": TEA}], derive="none")
    (found,) = run(mem)
    assert (found.calls, found.added) == (2, 1)


def test_an_answer_without_end_sets_its_turn_aside(mem: Offprompt, ann: BoundScope, upstream: Upstream) -> None:
    upstream.finish = "length"
    one = talk(ann)
    one.turn(TEA, "Noted.")
    (found,) = run(mem)
    assert (found.pending, found.calls, facts(ann)) == (1, 2, [])
    (turn,) = [one for one in ann.memories.list(kinds=["episode"]) if one.role == "user"]
    assert turn.extracted == PENDING
    (finding,) = [one for one in checkup(mem.parts).findings if one.name == "extraction"]
    assert (finding.state, "1 are set aside" in finding.what) == ("warn", True)
    session = read_session(mem.parts.sessions, mem.parts.sessions.load(ann.scope.narrow(session="s1")))  # type: ignore[arg-type]
    traced = Tracer(mem.parts.slots, session).trace()
    assert [(event.op, event.outcome) for event in traced.extracted] == [("extract.pending", "pending")]
    assert "cut off" in traced.extracted[0].why
    upstream.finish = "stop"
    assert run(mem) == []
    (later,) = run(mem, pending=True)
    assert (later.added, facts(ann)) == (1, [FACT])


@pytest.mark.parametrize("mem", [{"budget_tokens": 1000, "extract_turns": 1}], indirect=True)
def test_a_spent_budget_stops_calls_and_not_memory(mem: Offprompt, ann: BoundScope, clock: MovedClock) -> None:
    one = talk(ann)
    for said in ("Hello.", "Hello again.", TEA):
        one.turn(said, "Yes.")
        done(mem)
    assert waits(mem.parts.main).waiting == 1
    assert "oolong" in ann.recall("oolong")[0].text
    (event,) = ann.events(op="extract.wait")
    assert event.outcome == "budget"
    bob = mem.scope(user="bob")
    bob.remember([{"role": "user", "content": TEA}], derive="none")
    assert [(found.scope.user, found.cause) for found in run(mem)] == [("ann", "budget"), ("bob", "")]
    clock.move(86_400)
    assert [found.read for found in run(mem)] == [1]
    assert facts(ann) == facts(bob) == [FACT]


def test_the_worker_reads_what_is_due(mem: Offprompt, ann: BoundScope, clock: MovedClock) -> None:
    def worked() -> int:
        return next(ran.done for ran in Worker(mem.parts).run() if ran.job == "extract")

    ann.remember([{"role": "user", "content": TEA}], derive="none")
    assert worked() == 0
    clock.move(7200)
    assert worked() == 1
    assert facts(ann) == [FACT]
    ann.remember([{"role": "user", "content": text} for text in ("one", "two")], derive="none")
    assert worked() == 2


def test_the_worker_looks_only_at_scopes_that_changed(
    mem: Offprompt, ann: BoundScope, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str | None] = []
    look = consolidating.waiting_turns

    def counted(kit: MemoryKit, scope: Scope, **options: Any) -> Any:
        looked.append(scope.user)
        return look(kit, scope, **options)

    monkeypatch.setattr(consolidating, "waiting_turns", counted)
    bob = mem.scope(user="bob")
    for each in (ann, bob):
        each.remember([{"role": "user", "content": TEA}], derive="none")
    for _ in range(3):
        assert run(mem, due=True) == []
    assert looked == ["ann", "bob"]
    bob.remember([{"role": "user", "content": "Hello."}], derive="none")
    assert [found.read for found in run(mem, due=True)] == [2]
    assert run(mem, due=True) == []
    assert looked == ["ann", "bob", "bob", "bob"]
    clock.move(7200)
    assert [found.scope.user for found in run(mem, due=True)] == ["ann"]


def test_events_and_ledger_hold_no_text_of_turns(mem: Offprompt, ann: BoundScope) -> None:
    talk(ann).turn(TEA, "Noted.")
    run(mem)
    kept = [*(repr(event) for event in mem.parts.slots.events()), *map(repr, mem.parts.sessions.sessions())]
    kept += [repr(mem.parts.sessions.ledger(each.scope)) for each in mem.parts.sessions.sessions()]
    assert not any(re.search("oolong", text) for text in kept)
