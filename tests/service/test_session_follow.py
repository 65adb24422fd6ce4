"""A session object goes on with what another one read of the conversation, as long as that is so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offprompt.records import JournalEntry
from offprompt.service.bound import BoundScope
from offprompt.service.session import Session
from offprompt.stores.in_process import InProcessStore
from tests.service.talk import MODELS, Wire, as_reply, call

ASKED = ("My city is Reykjavik, by the sea", "What is my city?", "And now something else", "Thanks")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each look into a journal gave."""
    seen: list[int] = []
    journal = InProcessStore.journal

    def counted(self: InProcessStore, *given: Any, **options: Any) -> list[JournalEntry]:
        found = journal(self, *given, **options)
        seen.append(len(found))
        return found

    monkeypatch.setattr(InProcessStore, "journal", counted)
    return seen


def opened(alice: BoundScope, wire: Wire) -> Session:
    return alice.session("s", model=MODELS[wire], wire=wire)


def turn(session: Session, messages: list[Any], said: str, wire: Wire) -> None:
    """One turn, in which the model saves a slot."""
    messages.append({"role": "user", "content": said})
    session.prepare(messages)
    reply = session.absorb(as_reply(call("mem_write", slot=f"n{len(messages)}", value=f"about {said}"), wire))
    session.prepare([*messages, *reply.messages])
    messages += session.absorb(as_reply("ok", wire)).messages


def test_a_follower_prepares_what_a_new_object_would(alice: BoundScope, wire: Wire, reads: list[int]) -> None:
    messages: list[Any] = []
    before = opened(alice, wire)
    for said in ASKED:
        follower = opened(alice, wire)
        follower.follow(before)
        asked = [*messages, {"role": "user", "content": said}]
        assert follower.preview(asked) == opened(alice, wire).preview(asked)
        del reads[:]
        turn(follower, messages, said, wire)
        assert max(reads, default=0) <= 2, "it read again what the object before it had read"
        before = follower
    assert [entry.turn for entry in before.journal() if entry.kind == "user"] == [1, 2, 3, 4]


def another_goes_on(alice: BoundScope, wire: Wire, messages: list[Any]) -> None:
    turn(opened(alice, wire), messages, "In between, somebody else asked", wire)


def it_begins_anew(alice: BoundScope, wire: Wire, messages: list[Any]) -> None:
    alice.clear()
    messages.clear()
    turn(opened(alice, wire), messages, ASKED[0], wire)


def it_is_gone(alice: BoundScope, wire: Wire, messages: list[Any]) -> None:
    del wire, messages
    alice.clear()


@pytest.mark.parametrize("meanwhile", [another_goes_on, it_begins_anew, it_is_gone])
@pytest.mark.parametrize("follows", [True, False], ids=["follows", "same object"])
def test_what_happened_meanwhile_is_read_anew(
    alice: BoundScope,
    wire: Wire,
    meanwhile: Callable[[BoundScope, Wire, list[Any]], None],
    follows: bool,
) -> None:
    messages: list[Any] = []
    session = opened(alice, wire)
    turn(session, messages, ASKED[0], wire)
    meanwhile(alice, wire, messages)
    if follows:
        before, session = session, opened(alice, wire)
        session.follow(before)
    asked = [*messages, {"role": "user", "content": ASKED[1]}]
    assert session.preview(asked) == opened(alice, wire).preview(asked)
    turn(session, messages, ASKED[1], wire)
    stored = session.journal()
    keys = {entry.key for entry in stored}
    assert all(entry.parent in keys for entry in stored if entry.parent), "a message lost what stands before it"
    assert sum(entry.kind == "user" for entry in stored) == sum(
        each.get("role") == "user" and isinstance(each.get("content"), str) for each in messages
    )


def test_another_conversation_is_not_followed(alice: BoundScope) -> None:
    messages: list[Any] = []
    other = alice.session("other", model=MODELS["openai"])
    turn(other, messages, ASKED[0], "openai")
    session = opened(alice, "openai")
    session.follow(other)
    asked = [*messages, {"role": "user", "content": ASKED[1]}]
    assert session.preview(asked) == opened(alice, "openai").preview(asked)
