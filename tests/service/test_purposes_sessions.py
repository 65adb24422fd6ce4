"""What may not be used for a session's purpose is in none of the ways in which its model finds memories."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.service.talk import MODELS, Talk, call

BOAT = "My boat is called Marigold."


def talk(scope: BoundScope, purpose: str) -> Talk:
    return Talk(scope.session(purpose, model=MODELS["openai"], purpose=purpose), "openai")


@pytest.mark.parametrize("purpose", ["support", "marketing"])
def test_a_model_finds_what_may_be_used_for_the_session_and_nothing_else(mem: Offprompt, purpose: str) -> None:
    alice, may = mem.scope(user="alice"), purpose == "marketing"
    boat = next(one.name for one in alice.remember(BOAT, purpose="marketing") if one.kind == "fact")
    ways = {
        "recall": ("Do you remember what my boat is called?", ()),
        "known": ("What do you know about me?", ()),
        "search": ("Look it up.", (call("mem_search", query="boat called"),)),
        "read": ("Read it.", (call("mem_read", slot=boat),)),
    }
    for way, (text, calls) in ways.items():
        one = Talk(alice.session(way, model=MODELS["openai"], purpose=purpose), "openai")
        one.turn(text, *calls, "Well.")
        assert ("Marigold" in one.sent) is may, way
    one = talk(alice, purpose)
    one.turn("Look it up.", call("mem_search", query="boat called"), f"It is [[mem:{boat}]].")
    assert ("Marigold" in str(one.replies[-1].text)) is may
    one.turn("Forget it.", call("mem_forget", slot=boat), "Well.")
    assert one.replies[-2].receipts[0].ok is may


def test_what_has_expired_is_withdrawn_too(tmp_path: Path, clock: MovedClock) -> None:
    with offprompt.open(tmp_path / "m.db", clock=clock, embedder="none") as memory:
        alice = memory.scope(user="alice")
        old = alice.remember("The code was walnut-8812.", consent="c-1", expires_at=clock.now() + 60, derive="none")[
            0
        ].name
        clock.move(120)
        assert alice.withdraw("c-1").memories == (old,)


def test_a_fact_that_is_asked_for_by_what_it_is_about_is_for_its_purpose_only(mem: Offprompt) -> None:
    alice = mem.scope(user="alice")
    alice.remember([{"role": "user", "content": "My name is Ada Quill."}], purpose="marketing")
    assert alice.memories.list(kinds=["fact"]).memories
    assert "Quill" in str([hit.text for hit in alice.recall("What is my name?", purposes=["marketing"])])
    assert "Quill" not in str([hit.text for hit in alice.recall("What is my name?", purposes=["support"])])
