"""What a turn showed, when it is over: replaced, kept and counted, or the cheaper of the two; decided once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.records import Shown
from offprompt.service.audit import audit
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.service.talk import MODELS, Talk, Wire, call, canonical, messages_of, newest_user
from tests.service.test_session_ledger import SLACK, counted, repeated

VALUE = {"en": "walk, then rest at the blue lantern", "zh": "先散步，再到蓝色灯笼那里休息"}
ASK = {"en": "What is my plan?", "zh": "我的 plan 是什么？"}


def opened(shown: str, path: Path | str = ":memory:", **more: Any) -> Offprompt:
    return offprompt.open(path, clock=MovedClock(), shown_after_turn=shown, **more)


def a_talk(memory: Offprompt, wire: Wire, language: str = "en", **options: Any) -> Talk:
    scope = memory.scope(user="u")
    scope.write("plan", VALUE[language], policy="when_asked")
    options.setdefault("model", MODELS[wire])
    return Talk(scope.session("s", wire=wire, **options), wire)


def kept(one: Talk) -> list[Shown]:
    record = one.session.record
    assert record is not None
    entry = record.pending or one.session.ledger()[-1]
    return [shown for shown in entry.shown if shown.why == "kept"]


def check_counts(one: Talk) -> None:
    """Parts and prefix are those of the requests, and nothing that was shown counts as leaked."""
    for at, (entry, request) in enumerate(zip(one.session.ledger(), one.requests, strict=True)):
        assert entry.leaked == ()
        assert abs(entry.sent.tokens - counted(one, request)) <= SLACK, (at, entry.parts)
        if at:
            assert abs(entry.prefix - repeated(one, one.requests[at - 1], request)) <= SLACK, at


@pytest.mark.parametrize("language", ["en", "zh"])
def test_by_default_what_was_shown_is_taken_out(wire: Wire, language: str) -> None:
    with offprompt.open(":memory:") as memory:
        one = a_talk(memory, wire, language)
        one.turn(ASK[language], "Walk.")
        assert VALUE[language] in one.sent
        one.turn("Thanks", "Welcome.")
        assert VALUE[language] not in one.sent
        assert kept(one) == []
        record = one.session.record
        assert record is not None
        assert record.kept == {}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_kept_values_stay_and_are_counted(wire: Wire, language: str) -> None:
    with opened("keep") as memory:
        one = a_talk(memory, wire, language)
        one.turn(ASK[language], "Walk.")
        shown = one.session.ledger()[-1].shown
        for _ in range(3):
            one.turn("Thanks", "Welcome.")
            assert VALUE[language] in one.sent
            assert kept(one) == [Shown("plan", "kept", shown[0].tokens)]
            last = one.session.ledger()[-1]
            assert last.parts["shown"].tokens >= shown[0].tokens
        check_counts(one)
        before, now = one.requests[-2:]
        assert canonical(messages_of(now)[: len(messages_of(before))]) == canonical(messages_of(before))
        found = audit(memory.parts, memory.scope(user="u").scope)
        assert found.totals.clean == 0
        assert [leak for session in found.sessions for leak in session.leaks] == []


@pytest.mark.parametrize("actions", ["tools", "text"])
def test_what_the_model_read_is_kept(wire: Wire, actions: Any) -> None:
    with opened("keep") as memory:
        one = a_talk(memory, wire, actions=actions)
        read = call("mem_read", slot="plan") if actions == "tools" else '{"action": "mem_read", "slot": "plan"}'
        one.turn("Hello", read, "You walk.")
        one.turn("Go on", call("mem_search", query="blue lantern") if actions == "tools" else "Well.", *TAIL[actions])
        one.turn("Thanks", "Welcome.")
        assert VALUE["en"] in one.sent
        assert "plan" in {shown.name for shown in kept(one)}
        check_counts(one)
        assert "receipts" not in one.session.ledger()[-1].parts or actions == "tools"


TAIL: dict[str, tuple[str, ...]] = {"tools": ("Found.",), "text": ()}


def chosen(model: str, turns: int, tail: str) -> bool:
    """Whether a value shown after some turns is kept, with that answer behind it."""
    with opened("cheaper") as memory:
        one = a_talk(memory, "openai", model=model, policy="off", system="Be kind. " * 600)
        for number in range(turns):
            one.turn(f"Say {number}", "Said.")
        one.turn(ASK["en"], tail)
        one.turn("Thanks", "Welcome.")
        check_counts(one)
        assert bool(kept(one)) is (VALUE["en"] in one.sent)
        return bool(kept(one))


def test_the_cheaper_is_chosen_by_the_price_sheet() -> None:
    long = "I have thought about it a lot. " * 100
    assert chosen("deepseek-v4-pro", 3, long)
    assert not chosen("gpt-4o", 60, "Walk.")
    assert not chosen("a-model-without-prices", 3, long)


def test_what_is_decided_stays_decided(tmp_path: Path, wire: Wire) -> None:
    path = tmp_path / "a.db"
    with opened("keep", path) as memory:
        one = a_talk(memory, wire)
        one.turn(ASK["en"], "Walk.")
        one.turn("Thanks", "Welcome.")
        first = list(one.messages)
    with opened("replace", path) as memory:
        again = a_talk(memory, wire)
        again = Talk(again.session, wire, first, one.requests, [], turn_seen=one.turn_seen)
        again.turn("And now?", "Nothing.")
        assert VALUE["en"] in again.sent
        again.turn("What of the plan?", "Walk.")
        again.turn("Bye", "Bye.")
        assert again.sent.count(VALUE["en"]) == 1
        last = list(again.messages)
    with opened("keep", path) as memory:
        third = Talk(a_talk(memory, wire).session, wire, last, again.requests, [], turn_seen=again.turn_seen)
        third.turn("Still there?", "Yes.")
        assert third.sent.count(VALUE["en"]) == 1


def test_what_was_replaced_is_not_kept_on_another_branch(tmp_path: Path, wire: Wire) -> None:
    path = tmp_path / "a.db"
    with opened("cheaper", path) as memory:
        one = a_talk(memory, wire, model="a-model-without-prices")
        one.turn(ASK["en"], "Walk.")
        one.turn("Thanks", "Welcome.")
        record = one.session.record
        assert record is not None
        assert list(record.kept.values()) == [False]
    with opened("keep", path) as memory:
        again = Talk(a_talk(memory, wire, model="a-model-without-prices").session, wire, one.messages[:1])
        again.go("Walk, once more.")
        assert VALUE["en"] in again.sent
        again.turn("Other words", "Fine.")
        assert VALUE["en"] not in again.sent


def test_a_turn_that_is_asked_again_goes_on_from_what_was_decided(wire: Wire) -> None:
    with opened("keep") as memory:
        one = a_talk(memory, wire)
        one.turn("Hello", "Hello.")
        one.turn(ASK["en"], call("mem_read", slot="plan"), "Walk.")
        there = len(one.messages)
        one.turn("Thanks", "Welcome.")
        one.messages = one.messages[:there]
        one.requests.clear()
        one.turn("Other words", "Fine.")
        assert VALUE["en"] in one.sent
        assert [shown.name for shown in kept(one)] == ["plan"]
        one.messages = one.messages[:3]
        one.requests.clear()
        one.go("Walk again.")
        assert VALUE["en"] in one.sent
        assert "kept" not in {shown.why for shown in one.session.ledger()[-1].shown}
        assert one.session.ledger()[-1].leaked == ()


def test_a_turn_that_is_sent_once_more_counts_what_the_model_read_in_it(wire: Wire) -> None:
    """The answers of a turn that a client returns to are live again: shown, not leaked."""
    with offprompt.open(":memory:") as memory:
        one = a_talk(memory, wire)
        one.turn("Hello", call("mem_read", slot="plan"), "Walk.")
        there = len(one.messages)
        one.turn("Thanks", "Welcome.")
        one.requests.clear()
        one.messages = one.messages[: there - 1]
        one.go("Walk then.")
        assert VALUE["en"] in one.sent
        last = one.session.ledger()[-1]
        assert [shown.name for shown in last.shown] == ["plan"]
        assert last.leaked == ()


def test_a_value_that_changed_is_shown_anew_beside_the_kept_one(wire: Wire) -> None:
    with opened("keep") as memory:
        one = a_talk(memory, wire)
        one.turn(ASK["en"], "Walk.")
        memory.scope(user="u").write("plan", "stay in bed the whole day")
        one.turn(ASK["en"], "Bed.")
        assert VALUE["en"] in one.sent
        assert "stay in bed" in one.sent
        assert {(shown.name, shown.why == "kept") for shown in one.session.ledger()[-1].shown} == {
            ("plan", False),
            ("plan", True),
        }


def test_what_left_with_a_cut_is_no_longer_counted(wire: Wire) -> None:
    with opened("keep", window_high_tokens=400, window_low_tokens=200) as memory:
        one = a_talk(memory, wire, policy="window")
        one.turn(ASK["en"], "Walk.")
        for number in range(12):
            one.turn(f"Tell me of {number}", f"words {number} " * 12)
        assert any(entry.cut for entry in one.session.ledger())
        assert VALUE["en"] not in one.sent
        assert kept(one) == []
        assert newest_user(one.last, wire) > 0
