"""What `auto` counts on is what the ledger counts: what a request repeats of the one before, shown values among it."""

from __future__ import annotations

from typing import Any

import pytest

import offprompt
from offprompt.testing import MovedClock
from offprompt.wire.prices import builtin_sheets, request_price, sheet_for
from tests.service.talk import MODELS, WIRES, Talk, Wire, call, result, tool

VALUE = "walk to the blue lantern, then rest, then walk back along the river " * 6


def sums(one: Talk) -> dict[str, float]:
    record = one.session.record
    assert record is not None
    return dict(record.account)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("rule", ["replace", "keep"])
def test_what_was_taken_out_of_the_last_turn_is_not_read_from_the_cache(wire: Wire, rule: Any) -> None:
    sheet = sheet_for(MODELS[wire], builtin_sheets())
    assert sheet is not None
    with offprompt.open(":memory:", clock=MovedClock(), shown_after_turn=rule) as opened:
        scope = opened.scope(user="u")
        scope.write("plan", VALUE, policy="by_handle")
        options: dict[str, Any] = {"system": "Be kind. " * 600, "tools": [tool("look", wire)]}
        one = Talk(scope.session("s", model=MODELS[wire], wire=wire, **options), wire)
        one.turn("Hello", "Hello. " * 50)
        for number in range(3):
            one.messages.append({"role": "user", "content": f"Look at my plan {number}"})
            one.go(call("look", f"c{number}", text="x"), show=["plan"])
            one.messages += result(wire, (f"c{number}", "seen " * 400))
            one.go("It is a walk. " * 40)
            one.turn(f"And {number}?", "Fine. " * 40)
        entries = one.session.ledger()
        assert [entry.cut + entry.stubbed for entry in entries] == [0] * len(entries)
        counted = sum(request_price(sheet, prefix=entry.prefix, total=entry.sent.tokens) for entry in entries)
        assert sums(one)["spent"] == pytest.approx(counted, rel=0.01)
        assert sums(one)["everything"] == pytest.approx(counted, rel=0.01)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("left", [12, 11, 5])
def test_an_edited_message_is_written_anew(wire: Wire, left: int) -> None:
    sheet = sheet_for(MODELS[wire], builtin_sheets())
    assert sheet is not None
    with offprompt.open(":memory:", clock=MovedClock()) as opened:
        session = opened.scope(user="u").session("s", model=MODELS[wire], wire=wire, system="Be kind. " * 600)
        one = Talk(session, wire)
        for number in range(6):
            one.turn(f"Tell me of {number}", "words " * 300)
        one.messages[4] = {"role": "user", "content": "Tell me of something else"}
        del one.messages[left:]
        one.requests.clear()
        one.turn("Go on", "words")
        assert one.session.ledger()[-1].prefix < one.session.ledger()[-2].prefix
        entries = session.ledger()
        counted = sum(request_price(sheet, prefix=entry.prefix, total=entry.sent.tokens) for entry in entries)
        assert sums(one)["spent"] == pytest.approx(counted, rel=0.01)
        assert sums(one)["everything"] == pytest.approx(counted, rel=0.01)
