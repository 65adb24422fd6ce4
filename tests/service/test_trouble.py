"""A store that fails must not take the agent with it: sessions go on without memory, and say so."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from offprompt.config import Settings
from offprompt.errors import BackendError
from offprompt.records import SessionChange, SlotOp
from offprompt.service.offprompt import Offprompt
from offprompt.service.session import Session
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from tests.service.parts import parts_of
from tests.service.provider import Provider


class BreakableStore(InProcessStore):
    """An in-process store that fails while `broken`."""

    broken = False

    def batch(self, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        self._check()
        return super().batch(ops)

    def commit(self, change: SessionChange) -> None:
        self._check()
        super().commit(change)

    def _check(self) -> None:
        if self.broken:
            raise BackendError("the disk is full")


def opened(store: BreakableStore, settings: Settings | None = None) -> Session:
    clock = MovedClock(1_800_000_000.0)
    mem = Offprompt(parts_of(store, clock, settings))
    return mem.scope(user="ann").session("s1", model="gpt-4o-mini", system="Be kind.")


def text_reply(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}


def call_reply(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}


@pytest.fixture(autouse=True)
def quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "offprompt")


def test_a_failing_store_leaves_the_agent_alive_and_is_named_in_the_reply() -> None:
    store = BreakableStore(MovedClock(1_800_000_000.0))
    session = opened(store)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    first = session.prepare(messages)
    reply = session.absorb(text_reply("hi"))
    messages += [*reply.messages, {"role": "user", "content": "and now?"}]
    store.broken = True
    request = session.prepare(messages)
    assert request["messages"][0] == first["messages"][0], "the head is kept, so the prefix stays"
    assert request["messages"][1:] == messages
    reply = session.absorb(text_reply("still here: [[mem:city]]"))
    assert reply.done
    assert reply.text == "still here: (not found)"
    assert "the disk is full" in reply.warnings[0]


def test_a_secret_does_not_go_out_because_the_store_is_away() -> None:
    store = BreakableStore(MovedClock(1_800_000_000.0))
    clock = MovedClock(1_800_000_000.0)
    mem = Offprompt(parts_of(store, clock))
    ann = mem.scope(user="ann")
    ann.write("api_key", "Zx9-hunter2-qwerty")
    ann.write("notes", "a long note that was shown by its handle", policy="by_handle")
    session = ann.session("s1", model="gpt-4o-mini")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "look"}]
    session.prepare(messages)
    reply = session.absorb(call_reply("env", "{}"))
    messages += [*reply.messages, {"role": "tool", "tool_call_id": "c1", "content": "KEY=Zx9-hunter2-qwerty"}]
    before = session.prepare(messages)
    messages += session.absorb(text_reply("See [[mem:notes]].")).messages
    messages.append({"role": "user", "content": "again"})
    store.broken = True
    session.prepare(messages)
    reply = session.absorb(call_reply("env", "{}", "c2"))
    messages += [*reply.messages, {"role": "tool", "tool_call_id": "c2", "content": "now KEY=Zx9-hunter2-qwerty"}]
    request = session.prepare(messages)
    assert request["messages"][: len(before["messages"])] == before["messages"]
    assert "hunter2" not in str(request)
    assert "a long note" not in str(request)
    Provider("openai").take(request)


def test_a_secret_does_not_go_out_where_the_session_is_opened_anew_for_each_request() -> None:
    clock = MovedClock(1_800_000_000.0)
    store = BreakableStore(clock)
    mem = Offprompt(parts_of(store, clock))
    ann = mem.scope(user="ann")
    ann.write("api_key", "Zx9-hunter2-qwerty")

    def opened_anew() -> Session:
        return ann.session("s1", model="gpt-4o-mini")

    messages: list[dict[str, Any]] = [{"role": "user", "content": "look"}]
    opened_anew().prepare(messages)
    reply = opened_anew().absorb(call_reply("env", "{}"))
    messages += [*reply.messages, {"role": "tool", "tool_call_id": "c1", "content": "KEY=Zx9-hunter2-qwerty"}]
    before = opened_anew().prepare(messages)
    messages += opened_anew().absorb(text_reply("I see.")).messages
    messages.append({"role": "user", "content": "again"})
    store.broken = True
    request = opened_anew().prepare(messages)
    assert request["messages"][: len(before["messages"])] == before["messages"]
    assert "hunter2" not in str(request)


def test_what_stands_as_it_was_shown_stays_so_while_the_store_is_away() -> None:
    clock = MovedClock(1_800_000_000.0)
    store = BreakableStore(clock)
    mem = Offprompt(parts_of(store, clock, Settings(shown_after_turn="keep")))
    ann = mem.scope(user="ann")
    ann.write("city", "Hangzhou")
    session = ann.session("s1", model="gpt-4o-mini")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What is my city?"}]
    first = session.prepare(messages)
    assert "Hangzhou" in str(first)
    messages += session.absorb(text_reply("There.")).messages
    messages.append({"role": "user", "content": "Thanks"})
    second = session.prepare(messages)
    messages += session.absorb(text_reply("Welcome.")).messages
    messages.append({"role": "user", "content": "Bye"})
    store.broken = True
    third = session.prepare(messages)
    assert third["messages"][: len(second["messages"])] == second["messages"]
    assert second["messages"][: len(first["messages"])] == first["messages"]


def test_memory_calls_are_told_that_memory_is_not_there_and_client_calls_still_run() -> None:
    store = BreakableStore(MovedClock(1_800_000_000.0))
    session = opened(store)
    store.broken = True
    messages: list[dict[str, Any]] = [{"role": "user", "content": "I am Ann"}]
    session.prepare(messages)
    reply = session.absorb(call_reply("mem_write", '{"slot":"name","value":"Ann"}'))
    assert not reply.done
    assert reply.messages[-1]["content"] == "memory is not available now"
    again = session.prepare([*messages, *reply.messages])
    Provider("openai").take(again)
    reply = session.absorb(call_reply("weather", '{"city":"Rome"}', "c2"))
    assert reply.done
    assert [call.name for call in reply.tool_calls] == ["weather"]
    assert [message["role"] for message in reply.messages] == ["assistant", "tool", "assistant"]


def test_memory_comes_back_with_the_store() -> None:
    store = BreakableStore(MovedClock(1_800_000_000.0))
    session = opened(store)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    store.broken = True
    session.prepare(messages)
    messages += session.absorb(text_reply("hi")).messages
    store.broken = False
    messages.append({"role": "user", "content": "I am Ann"})
    session.prepare(messages)
    reply = session.absorb(call_reply("mem_write", '{"slot":"name","value":"Ann"}'))
    assert reply.receipts[0].ok
    assert not reply.warnings
    assert [entry.text for entry in session.journal()][:3] == ["hello", "hi", "I am Ann"]


def test_a_store_that_fails_at_absorb_loses_no_text() -> None:
    store = BreakableStore(MovedClock(1_800_000_000.0))
    session = opened(store)
    session.prepare([{"role": "user", "content": "hello"}])
    store.broken = True
    reply = session.absorb(text_reply("an answer"))
    assert reply.text == "an answer"
    assert "was not recorded" in reply.warnings[0]


def test_on_trouble_raise_gives_the_error() -> None:
    store = BreakableStore(MovedClock(1_800_000_000.0))
    session = opened(store, Settings(on_trouble="raise"))
    store.broken = True
    with pytest.raises(BackendError, match="the disk is full"):
        session.prepare([{"role": "user", "content": "hello"}])
