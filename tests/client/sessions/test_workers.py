"""Several workers and one session: conflicts, trouble, retries; and the same faces here and there."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import pytest

from offprompt import BackendError, ConflictError, ScopeError, UnsupportedError, UsageError
from offprompt.client import sessions as remote
from offprompt.client.clients import AsyncClient
from offprompt.records import SessionChange
from offprompt.service.session import Session
from tests.client.alternating import Workers
from tests.service.talk import as_reply, call

HELLO = [{"role": "user", "content": "Hello"}]


def public(kind: type) -> dict[str, Any]:
    """The public members of a class, its own and those of the calls that both faces have."""
    found: dict[str, Any] = {}
    for owner in reversed(kind.__mro__[:-1]):
        found |= {name: member for name, member in vars(owner).items() if not name.startswith("_")}
    return found


@pytest.mark.parametrize("kind", [remote.Session, remote.AsyncSession])
def test_a_remote_session_has_the_face_of_one_here(kind: type) -> None:
    ours, theirs = public(Session), public(kind)
    for own in ("follow", "pending", "bounded"):  # of those who work beside the store
        ours.pop(own)
    assert set(ours) | {"scope"} <= set(theirs) | {"underway"}
    for name, member in ours.items():
        if not isinstance(member, property):
            here = inspect.signature(member).parameters.values()
            there = inspect.signature(getattr(kind, name)).parameters.values()
            assert [(each.name, each.kind, each.default) for each in here] == [
                (each.name, each.kind, each.default) for each in there
            ], name


def test_a_prepare_while_another_worker_prepares_is_a_conflict(
    servers: Workers, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (alice.session("s", model="gpt-4o-mini") for _ in range(2))
    busy = servers.servers[0].memory.parts.main
    commit, between = type(busy).commit, [True]

    def late(store: Any, change: SessionChange) -> None:
        if store is busy and between:
            between.clear()
            other.prepare([{"role": "user", "content": "in between"}])
        commit(store, change)

    monkeypatch.setattr(type(busy), "commit", late)
    servers.transport.next_is(0)
    with pytest.raises(ConflictError, match="load the session again"):
        one.prepare(HELLO)
    assert not between
    assert one.messages()[0]["content"] == "in between"


def test_a_request_that_is_sent_again_changes_nothing(alice: Any) -> None:
    session = alice.session("s", model="gpt-4o-mini")
    first = session.prepare(HELLO)
    assert session.prepare(HELLO) == first, "the answer was lost on its way, and the application asks again"
    said = as_reply(call("mem_write", "m1", slot="city", value="乌尔姆"), "openai")
    reply, known = session.absorb(said), session.record
    assert session.absorb(said) == reply
    assert session.record == known
    assert [version.version for version in alice.slots.history("city")] == [1]


class FullError(BackendError):
    """The store fails."""


def test_a_store_that_fails_leaves_the_agent_alive_and_keeps_its_secrets(
    servers: Workers, alice: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker that reads the reply learns of it from the client, not from the one that made the request."""
    caplog.set_level(logging.CRITICAL, "offprompt")
    store = type(servers.servers[0].memory.parts.main)
    alice.write("api_key", "Zx9-hunter2-qwerty", policy="never")
    session = alice.session("s", model="gpt-4o-mini", system="Be kind.")
    messages: list[Any] = [{"role": "user", "content": "看一下"}]
    before: dict[str, Any] = {}
    for _ in servers.servers:  # each worker has met the session, and knows what it may not send
        before = session.prepare(messages)
    messages += session.absorb(as_reply(call("env", "c1"), "openai")).messages
    messages.append({"role": "tool", "tool_call_id": "c1", "content": "KEY=Zx9-hunter2-qwerty"})

    def broken(*_: Any, **__: Any) -> Any:
        raise FullError("the disk is full")

    with monkeypatch.context() as patch:
        for name in ("apply", "batch", "commit", "load", "journal", "ledger"):
            patch.setattr(store, name, broken)
        for _ in servers.servers:
            request = session.prepare(messages)
            assert request["messages"][: len(before["messages"])] == before["messages"]
            assert "hunter2" not in str(request)
            servers.transport.next_is(1)
        first = session.absorb(as_reply(call("mem_write", "m1", slot="city", value="Ulm"), "openai"))
    assert not first.done
    assert any("the disk is full" in warning for warning in first.warnings)
    assert alice.read("city", None) is None
    session.prepare([*messages, *first.messages])
    assert session.absorb(as_reply("Not saved.", "openai")).done


def test_what_is_wrong_is_said_as_it_is_here(alice: Any) -> None:
    with pytest.raises(ScopeError):
        alice.session("")
    with pytest.raises(UsageError, match="policy='none'"):
        alice.session("s", policy="none")
    with pytest.raises(UsageError, match="tools is a str"):
        alice.session("s", tools="look")
    with pytest.raises(UnsupportedError, match="only Anthropic clears"):
        alice.session("s", model="gpt-4o-mini", policy="context_editing").prepare(HELLO)
    with pytest.raises(UsageError, match="absorb came before prepare"):
        alice.session("s").absorb(as_reply("Hello.", "openai"))
    session = alice.session("s", model="gpt-4o-mini")
    session.prepare(HELLO)
    with pytest.raises(UsageError, match="began on the wire openai"):
        alice.session("s", model="claude-sonnet-5-5").prepare(HELLO)
    with pytest.raises(UsageError, match="half a character"):
        session.prepare([{"role": "user", "content": "\ud83d"}])


def test_a_long_ledger_comes_in_pages(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAGE", 2)
    session, messages = alice.session("s", model="gpt-4o-mini"), list[Any]()
    for number in range(5):
        messages.append({"role": "user", "content": f"Question {number}"})
        session.prepare(messages)
        messages += session.absorb(as_reply(f"Answer {number}", "openai")).messages
    assert [entry.seq for entry in session.ledger()] == [1, 2, 3, 4, 5]
    assert [entry.kind for entry in session.journal()] == ["user", "assistant"] * 5
    assert session.last_entry == session.ledger()[-1]
    assert session.messages() == messages


def test_an_async_session(servers: Workers) -> None:
    user = servers.new_user().scope.user

    async def play() -> None:
        async with AsyncClient(servers.servers[1].url) as client:
            scope = client.scope(user=user)
            await scope.write("city", "Ulm an der Donau", policy="by_handle")
            session = scope.session("s", model="gpt-4o-mini")
            assert await session.record is None
            replies = iter([call("mem_read", slot="city"), "In Ulm."])

            async def model(**request: Any) -> Any:
                assert "Donau" not in str(request["messages"][:1])
                return as_reply(next(replies), "openai")

            reply = await session.complete(model, [{"role": "user", "content": "Where do I live?"}])
            assert (reply.done, reply.text, reply.reads) == (True, "In Ulm.", {"city": "Ulm an der Donau"})
            record = await session.record
            assert record is not None
            assert record.scope.session == session.scope.session == "s"
            assert [entry.seq for entry in await session.ledger()] == [1, 2]
            assert len(await session.journal()) == 4
            assert (await session.messages())[0]["role"] == "user"
            await session.end()

    asyncio.run(play())


def test_a_preview_over_http_is_refused_with_the_way_out(alice: Any) -> None:
    with pytest.raises(UnsupportedError, match="over HTTP call prepare"):
        alice.session("s1", model="gpt-4o-mini").preview(HELLO)
