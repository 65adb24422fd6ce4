"""A session opened anew for each call, as servers do: what a request left behind goes from one object to the next."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from offprompt.errors import ConflictError
from offprompt.records import Reply
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.session import Session
from offprompt.testing import MovedClock
from offprompt.wire.options import Underway
from tests.service.parts import parts_of
from tests.service.talk import MODELS, Wire, as_reply, call
from tests.service.test_trouble import BreakableStore, call_reply, text_reply


class Passed:
    """A session of which each call has an object of its own; between them the state is JSON."""

    def __init__(self, scope: BoundScope, **options: Any) -> None:
        self.scope, self.options, self.state = scope, options, b"{}"

    def _opened(self) -> Session:
        session = self.scope.session("s", **self.options)
        session.underway = msgspec.json.decode(self.state, type=Underway)
        return session

    def prepare(self, messages: list[Any]) -> dict[str, Any]:
        session = self._opened()
        request = session.prepare(messages)
        self.state = msgspec.json.encode(session.underway)
        return request

    def absorb(self, reply: object) -> Reply:
        session = self._opened()
        absorbed = session.absorb(reply)
        self.state = msgspec.json.encode(session.underway)
        return absorbed


def test_a_reply_to_an_older_request_is_a_conflict_in_any_object(wire: Wire, alice: BoundScope) -> None:
    one, other = (Passed(alice, model=MODELS[wire], wire=wire) for _ in range(2))
    one.prepare([{"role": "user", "content": "mine"}])
    other.prepare([{"role": "user", "content": "theirs"}])
    with pytest.raises(ConflictError, match="another call sent a newer request"):
        one.absorb(as_reply(call("mem_write", "m1", slot="a", value="1"), wire))
    assert alice.slots.list() == []
    assert other.absorb(as_reply("To theirs.", wire)).text == "To theirs."


def test_trouble_is_known_to_the_object_that_reads_the_reply(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "offprompt")
    clock = MovedClock(1_800_000_000.0)
    store = BreakableStore(clock)
    session = Passed(Offprompt(parts_of(store, clock)).scope(user="ann"), model="gpt-4o-mini")
    store.broken = True
    messages: list[Any] = [{"role": "user", "content": "我叫小明"}]
    session.prepare(messages)
    store.broken = False
    first = session.absorb(call_reply("mem_write", '{"slot": "name", "value": "小明"}'))
    assert not first.done
    assert any("the disk is full" in warning for warning in first.warnings)
    store.broken = True
    session.prepare([*messages, *first.messages])
    last = session.absorb(text_reply("Not saved."))
    assert last.done
    assert last.messages[: len(first.messages)] == first.messages, "all that the turn added"
    assert len(last.messages) == len(first.messages) + 1


def test_without_trouble_the_state_is_a_number(wire: Wire, alice: BoundScope) -> None:
    session = Passed(alice, model=MODELS[wire], wire=wire)
    session.prepare([{"role": "user", "content": "Hello"}])
    assert session.state == b'{"asked":1}'
