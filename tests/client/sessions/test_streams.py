"""Streams that are read here, of a session that a server keeps: the same bytes as the whole reply's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai.types.chat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.client.clients import AsyncClient
from offprompt.errors import ConflictError, UsageError
from offprompt.records import Reply
from offprompt.testing import MovedClock
from offprompt.testing.strict_chunks import Delivery
from tests.client.alternating import Workers
from tests.service.provider import taken
from tests.service.talk import MODELS, Say, Wire, as_reply, call, calls
from tests.service.test_session_streams import ASKED, SAYINGS, chunks_of, names_of, text_of


def fill(scope: Any) -> None:
    scope.write("city", "Reykjavík, am Meer")
    scope.write("notes", {"plan": ["walk", "读书"]}, policy="by_handle")
    scope.write("pin", "483-latch-9", policy="never")
    scope.slots.allow("pin", "weather", "/place", host="api.example.com")


def whole_of(said: str | Say, wire: Wire) -> Reply:
    """The reply to the same words where nothing is streamed and no server asked."""
    with offprompt.open(":memory:", clock=MovedClock()) as opened:
        scope = opened.scope(user="alice")
        fill(scope)
        session = scope.session("s", model=MODELS[wire], wire=wire)
        taken(session, wire, ASKED)
        return session.absorb(as_reply(said, wire))


SECRET = calls(call("weather", place="[[mem:pin]]", url="https://api.example.com/x"), text="[[mem:pin]]")


@pytest.mark.parametrize("said", [*SAYINGS, SECRET], ids=range(len(SAYINGS) + 1))
def test_a_streamed_reply_is_the_whole_one(alice: Any, wire: Wire, said: str | Say) -> None:
    fill(alice)
    session = alice.session("s", model=MODELS[wire], wire=wire)
    taken(session, wire, ASKED)
    stream = session.absorb_stream(chunks_of(said, wire, Delivery(seed=2, longest=5)))
    chunks = list(stream)
    reply, whole = stream.reply, whole_of(said, wire)
    assert reply.text == whole.text == text_of(chunks)
    told = [(each.name, each.arguments) for each in whole.tool_calls]
    assert [(each.name, each.arguments) for each in reply.tool_calls] == told
    assert (reply.done, reply.receipts, reply.reads) == (whole.done, whole.receipts, whole.reads)
    assert names_of(chunks) == [each.name for each in whole.tool_calls]
    assert len(session.ledger()) == 1


PIECES = ["[[mem:city]]", "[[mem:nope]]", "[[", "mem:", "]]", "你好", " ", "{", "[[mem:notes#/plan/0]]", "`x`"]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.integers(0, 10_000))
def test_any_text_in_any_pieces_has_the_same_bytes(servers: Workers, text: str, seed: int) -> None:
    scope: Any = servers.new_user()
    fill(scope)
    session = scope.session("s", model="gpt-4o-mini")
    taken(session, "openai", ASKED)
    stream = session.absorb_stream(chunks_of(text, "openai", Delivery(seed=seed, longest=4)))
    assert text_of(list(stream)) == stream.reply.text == whole_of(text, "openai").text


def test_text_without_handles_asks_the_server_once(servers: Workers, alice: Any, wire: Wire) -> None:
    session = alice.session("s", model=MODELS[wire], wire=wire)
    taken(session, wire, ASKED)
    before = servers.transport.asked
    given_chunks = chunks_of("One two three four five six seven eight.", wire, Delivery(seed=4, longest=6))
    used = 0

    def watched() -> Any:
        nonlocal used
        for each in given_chunks:
            used += 1
            yield each

    seen = [used for _ in session.absorb_stream(watched())]
    assert seen[1] < len(given_chunks) // 2, "the first text came long before the stream's end"
    assert servers.transport.asked == before + 1


def test_a_handle_is_asked_for_once(servers: Workers, alice: Any) -> None:
    fill(alice)
    session = alice.session("s", model="gpt-4o-mini")
    taken(session, "openai", ASKED)
    before = servers.transport.asked
    said = "[[mem:city]] and [[mem:city]] und [[ MEM: city ]]. " * 3
    list(session.absorb_stream(chunks_of(said, "openai", Delivery(seed=4, longest=6))))
    assert servers.transport.asked == before + 2


def test_what_the_providers_clients_give_comes_back_as_such(alice: Any) -> None:
    fill(alice)
    session = alice.session("s", model="gpt-4o-mini")
    taken(session, "openai", ASKED)
    chunks = [
        openai.types.chat.ChatCompletionChunk.model_validate({"created": 1, "model": "m", **chunk})
        for chunk in chunks_of("You live in [[mem:city]].", "openai", Delivery(seed=1, longest=4))
    ]
    stream = session.absorb_stream(chunks)
    assert {type(each) for each in stream} == {openai.types.chat.ChatCompletionChunk}
    assert stream.reply.text == "You live in Reykjavík, am Meer."


def test_a_stream_after_another_ones_request_is_a_conflict(alice: Any) -> None:
    one, other = (alice.session("s", model="gpt-4o-mini") for _ in range(2))
    taken(one, "openai", ASKED)
    taken(other, "openai", ASKED)
    with pytest.raises(ConflictError, match="another call sent a newer request"):
        list(one.absorb_stream(chunks_of("Hello", "openai", Delivery(seed=1, longest=4))))


def test_an_async_stream(servers: Workers, wire: Wire) -> None:
    said = SAYINGS[4]

    async def play() -> tuple[Reply, list[Any]]:
        async with AsyncClient(servers.servers[0].url) as client:
            scope = client.scope(user=servers.new_user().scope.user)
            await scope.write("city", "Reykjavík, am Meer")
            session = scope.session("s", model=MODELS[wire], wire=wire)
            await session.prepare(ASKED)

            async def chunks() -> AsyncIterator[Any]:
                for chunk in chunks_of(said, wire, Delivery(seed=2, longest=5)):
                    yield chunk

            stream = session.absorb_stream(chunks())
            seen = [chunk async for chunk in stream]
            return stream.reply, seen

    reply, seen = asyncio.run(play())
    whole = whole_of(said, wire)
    assert reply.text == whole.text == text_of(seen)
    assert [each.arguments for each in reply.tool_calls] == [each.arguments for each in whole.tool_calls]
    assert names_of(seen) == ["weather"]


def test_a_stream_that_was_not_read_has_no_reply(alice: Any) -> None:
    stream = alice.session("s").absorb_stream([])
    with pytest.raises(UsageError, match="not read to its end"):
        assert stream.reply
