"""Streams whose provider fails in the middle: what came is absorbed as cut, the failure still reaches the caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from offprompt.errors import UsageError
from offprompt.records import Reply
from offprompt.service.async_session import AsyncSession
from offprompt.service.bound import BoundScope
from offprompt.testing.strict_chunks import Delivery, split_reply
from tests.service.provider import Provider
from tests.service.talk import MODELS, Say, Wire, as_reply, call, calls
from tests.service.test_session_streams import text_of

ASKED = [{"role": "user", "content": "Where do I live? 我住哪？"}]


class LostError(Exception):
    """What a client raises when the connection is gone."""


def broken(said: str | Say, wire: Wire, at: float) -> Iterator[object]:
    """The first part of a reply's chunks, then the failure."""
    chunks = list(split_reply(as_reply(said, wire), wire, Delivery(seed=1, longest=5)))
    yield from chunks[: int(len(chunks) * at)]
    raise LostError("the peer closed the connection")


def test_what_came_is_absorbed_and_the_providers_error_goes_on(wire: Wire, alice: BoundScope) -> None:
    alice.write("city", "Reykjavík, am Meer")
    session = alice.session("s", model=MODELS[wire], wire=wire)
    provider = Provider(wire)
    provider.take(session.prepare(ASKED))
    stream = session.absorb_stream(broken("You live in [[mem:city]], 对吗, and there is more to say of it", wire, 0.8))
    chunks: list[Any] = []
    with pytest.raises(LostError, match="peer closed"):
        chunks.extend(each for each in stream)
    assert stream.reply.text.startswith("You live in Reykjavík, am Meer")
    assert text_of(chunks) == stream.reply.text
    assert any("cut off" in warning for warning in stream.reply.warnings)
    (entry,) = session.ledger()
    assert entry.outcome == "cut"
    assert [each.kind for each in session.journal()] == ["user", "assistant"]
    assert list(stream) == [], "it is over, and fails only once"
    provider.take(session.prepare([*ASKED, *stream.reply.messages, {"role": "user", "content": "Go on"}]))


def test_only_calls_that_were_whole_run(wire: Wire, alice: BoundScope) -> None:
    session = alice.session("s", model=MODELS[wire], wire=wire)
    session.prepare(ASKED)
    said = calls(call("mem_write", slot="dog", value="Bello"), call("mem_write", slot="cat", value="Mia " * 20))
    stream = session.absorb_stream(broken(said, wire, 0.7))
    with pytest.raises(LostError):
        list(stream)
    assert alice.slots.get("cat") is None
    # The last call that these streams left may be one that they cut: it is refused, and the model is told.
    assert [receipt.ok for receipt in stream.reply.receipts] == [wire == "openai"]
    assert (alice.slots.get("dog") is not None) is (wire == "openai")
    assert not stream.reply.done


def test_a_stream_that_fails_before_anything_came_absorbs_nothing(wire: Wire, alice: BoundScope) -> None:
    session = alice.session("s", model=MODELS[wire], wire=wire)
    request = session.prepare(ASKED)
    stream = session.absorb_stream(broken("You live here.", wire, 0))
    with pytest.raises(LostError):
        list(stream)
    with pytest.raises(UsageError, match="read to its end"):
        assert stream.reply
    assert len(session.journal()) == 1
    assert session.prepare(ASKED) == request
    assert [entry.outcome for entry in session.ledger()] == ["no reply"]


def test_async_streams_fail_in_the_same_way(wire: Wire, alice: BoundScope) -> None:
    alice.write("city", "Reykjavík, am Meer")
    session = AsyncSession(alice.session("s", model=MODELS[wire], wire=wire))

    async def given() -> AsyncIterator[object]:
        for each in broken("You live in [[mem:city]] and there is more to say of it", wire, 0.8):
            yield each

    async def main() -> Reply:
        await session.prepare(ASKED)
        stream = session.absorb_stream(given())
        with pytest.raises(LostError, match="peer closed"):
            async for _ in stream:
                pass
        assert [each async for each in stream] == []
        return stream.reply

    reply = asyncio.run(main())
    assert reply.text.startswith("You live in Reykjavík, am Meer")
    assert [entry.outcome for entry in asyncio.run(session.ledger())] == ["cut"]
