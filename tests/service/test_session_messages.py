"""A conversation taken from the store: another process goes on with it as if it had held the messages itself."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from tests.service.conftest import NewTalk
from tests.service.talk import MODELS, Talk, Wire, call, calls, result, tool

CARD = "4111 1111 1111 1111"


def opened(scope: BoundScope, wire: Wire, talk: Talk) -> Talk:
    """The talk in a process that knows only the store."""
    again = Talk(scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("look", wire)]), wire)
    again.messages = list(again.session.messages())
    again.requests, again.provider = talk.requests, talk.provider
    return again


def played(mem: Offprompt, wire: Wire) -> tuple[BoundScope, Talk]:
    alice = mem.scope(user="alice")
    alice.write("city", "Lisbon")
    talk = Talk(alice.session("s1", model=MODELS[wire], wire=wire, tools=[tool("look", wire)]), wire)
    talk.turn("Hello there.", "Good day.")
    talk.turn("Look into my city.", call("mem_read", slot="city"), calls(call("look", "c1", text="[[mem:city]]")))
    talk.messages += result(wire, ("c1", "Rain all day."))
    talk.go("It rains in [[mem:city]].")
    return alice, talk


def test_what_the_store_gives_is_what_the_application_holds(mem: Offprompt, wire: Wire) -> None:
    alice, talk = played(mem, wire)
    again = opened(alice, wire, talk)
    before = again.session.record
    assert before is not None
    again.turn("And tomorrow?", "Sun.")
    talk.messages = again.messages
    record = again.session.record
    assert record is not None
    assert (record.turn, before.turn) == (3, 2)
    assert len({entry.parent for entry in again.session.journal()}) == len(again.session.journal()), "a branch"
    assert again.replies[-1].warnings == ()
    assert again.session.last_entry == again.session.ledger()[-1]


def test_marks_in_place_of_numbers_are_no_edit(mem: Offprompt, wire: Wire) -> None:
    alice = mem.scope(user="alice")
    talk = Talk(alice.session("s1", model=MODELS[wire], wire=wire, tools=[tool("look", wire)]), wire)
    talk.turn(f"My card is {CARD}, keep it.", f"I will: {CARD}.")
    talk.turn("Thank you.", "With pleasure.")
    again = Talk(alice.session("s1", model=MODELS[wire], wire=wire, tools=[tool("look", wire)]), wire)
    again.messages = list(again.session.messages())
    assert CARD not in str(again.messages)
    again.turn("What else?", "Nothing.")
    entries = again.session.journal()
    assert len({entry.parent for entry in entries}) == len(entries), "a branch"
    assert again.session.record is not None
    assert again.session.record.turn == 3


@pytest.mark.parametrize("unfinished", ["prepared", "asked"])
def test_a_turn_that_broke_off_is_given_as_far_as_it_came(talk: NewTalk, unfinished: str) -> None:
    one = talk()
    one.turn("Hello.", "Good day.")
    one.messages.append({"role": "user", "content": "Which city?"})
    one.prepare()
    if unfinished == "asked":
        one.absorb(call("mem_read", slot="city"))
    held: list[Any] = one.session.messages()

    assert len(held) == {"prepared": 3, "asked": 5}[unfinished]


def test_a_session_that_never_spoke_holds_nothing(talk: NewTalk) -> None:
    assert talk().session.messages() == []
