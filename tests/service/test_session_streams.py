"""Streamed replies: the same bytes, the same memory, the same transcript as whole ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.errors import UnsupportedError, UsageError
from offprompt.records import Reply, as_dict, as_list
from offprompt.service.async_session import AsyncSession
from offprompt.service.bound import BoundScope
from offprompt.service.session import Session
from offprompt.testing.strict_chunks import Delivery, split_reply
from tests.service.provider import Provider, taken
from tests.service.talk import MODELS, Say, Wire, as_reply, call, calls

TEXT = "response.output_text.delta"
ASKED = [{"role": "user", "content": "Where do I live? Wo wohne ich? 我住哪？"}]


def chunks_of(said: str | Say, wire: Wire, delivery: Delivery) -> list[dict[str, Any]]:
    return list(split_reply(as_reply(said, wire), wire=wire, delivery=delivery))


def text_of(chunks: list[Any]) -> str:
    """The text that an application puts together from chunks of either wire."""
    said = "".join(str(delta.get("content") or delta.get("text") or "") for delta in deltas_of(chunks))
    return said + "".join(str(event["delta"]) for event in map(as_dict, chunks) if event and event.get("type") == TEXT)


def deltas_of(chunks: list[Any]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    for chunk in chunks:
        data = as_dict(chunk) or {}
        choices = [as_dict(choice) or {} for choice in as_list(data.get("choices")) or []]
        deltas += [as_dict(each.get("delta")) or {} for each in (*choices, data)]
    return deltas


def names_of(chunks: list[Any]) -> list[str]:
    """The calls that an application sees."""
    called = [as_dict(each) or {} for delta in deltas_of(chunks) for each in as_list(delta.get("tool_calls")) or []]
    functions = [as_dict(each.get("function")) or {} for each in called]
    blocks = [as_dict((as_dict(chunk) or {}).get("content_block")) or {} for chunk in chunks]
    used = [block for block in blocks if block.get("type") == "tool_use"]
    items = [as_dict((as_dict(chunk) or {}).get("item")) or {} for chunk in chunks]
    done = [item for item in items if item.get("type") == "function_call" and item["status"] == "completed"]
    return [str(each["name"]) for each in (*functions, *used, *done) if each.get("name")]


def streamed(session: Session, said: str | Say, wire: Wire, delivery: Delivery) -> tuple[Reply, list[Any]]:
    stream = session.absorb_stream(chunks_of(said, wire, delivery))
    chunks = list(stream)
    return stream.reply, chunks


def twins(wire: Wire) -> tuple[Session, Session]:
    """Two sessions of equal memories: one for the stream, one for the whole."""
    opened: list[Session] = []
    for _ in range(2):
        alice = offprompt.open(":memory:").scope(user="alice")
        alice.write("city", "Reykjavík, am Meer")
        alice.write("notes", {"plan": ["walk", "读书"]}, policy="by_handle")
        opened.append(alice.session("s", model=MODELS[wire], wire=wire))
    return opened[0], opened[1]


SAYINGS = [
    "No memory in this.",
    "You live in [[mem:city]]. 你住在［［mem：city］］。",
    "Plan: [[mem:notes#/plan/1]], not [[mem:nothing]] but [[mem:city]]!",
    call("mem_read", slot="notes"),
    calls(call("mem_write", slot="dog", value="Bello"), call("weather", place="[[mem:city]]"), text="A moment …"),
    calls(
        call("mem_write", slot="city", value="Tromsø in winter"),
        call("weather", place="[[mem:city]]"),
        text="[[mem:city]]",
    ),
    call("weather", place="[[mem:nothing]]"),
    '{"action":"mem_write","slot":"cat","value":"Mia"} Saved, [[mem:cat]].',
    'Before. {"action":"mem_read","slot":"notes"} After.',
    "[[mem:ci",
]


@pytest.mark.parametrize("said", SAYINGS, ids=range(len(SAYINGS)))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_streamed_reply_is_the_whole_one(wire: Wire, said: str | Say, seed: int) -> None:
    one, other = twins(wire)
    taken(one, wire, ASKED)
    taken(other, wire, ASKED)
    reply, chunks = streamed(one, said, wire, Delivery(seed=seed, longest=1 + seed * 2))
    whole = other.absorb(as_reply(said, wire))
    assert reply.text == whole.text
    assert [(each.name, each.arguments) for each in reply.tool_calls] == [
        (each.name, each.arguments) for each in whole.tool_calls
    ]
    assert (reply.done, reply.receipts, reply.reads) == (whole.done, whole.receipts, whole.reads)
    assert text_of(chunks) == whole.text
    assert names_of(chunks) == [each.name for each in whole.tool_calls]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            ["[[mem:city]]", "[[mem:nope]]", "[[", "mem:", "]]", "你好", " ", "{", "[[mem:notes#/plan/0]]", "`x`"]
        ),
        max_size=12,
    ).map("".join),
    st.integers(0, 10_000),
)
def test_any_text_in_any_pieces_has_the_same_bytes(text: str, seed: int) -> None:
    one, other = twins("openai")
    taken(one, "openai", ASKED)
    taken(other, "openai", ASKED)
    reply, chunks = streamed(one, text, "openai", Delivery(seed=seed, longest=4))
    whole = other.absorb(as_reply(text, "openai"))
    assert reply.text == whole.text == text_of(chunks)


def test_text_without_handles_is_not_held_back(wire: Wire, alice: BoundScope) -> None:
    session = alice.session("s", model=MODELS[wire], wire=wire)
    taken(session, wire, ASKED)
    given = chunks_of("One two three four five six seven eight.", wire, Delivery(seed=4, longest=6))
    used = 0

    def watched() -> Any:
        nonlocal used
        for each in given:
            used += 1
            yield each

    seen = [(used, chunk) for chunk in session.absorb_stream(watched())]
    assert seen[1][0] < len(given) // 2, "the first text came long before the stream's end"


def test_a_cut_stream_runs_nothing_that_was_cut(wire: Wire, alice: BoundScope) -> None:
    session = alice.session("s", model=MODELS[wire], wire=wire)
    taken(session, wire, ASKED)
    said = call("mem_write", slot="city", value="a long, long value that is cut off in the middle")
    given = chunks_of(said, wire, Delivery(seed=1, longest=5))
    stream = session.absorb_stream(given[: len(given) // 2])
    assert list(stream) is not None
    assert alice.slots.get("city") is None
    assert any("cut off" in warning for warning in stream.reply.warnings)


def test_the_reply_is_there_only_at_the_end(wire: Wire, alice: BoundScope) -> None:
    session = alice.session("s", model=MODELS[wire], wire=wire)
    taken(session, wire, ASKED)
    stream = session.absorb_stream(chunks_of("Hi", wire, Delivery()))
    with pytest.raises(UsageError, match="read to its end"):
        assert stream.reply
    list(stream)
    assert stream.reply.text == "Hi"
    assert list(stream) == [], "a second iteration has nothing more, and absorbs nothing again"


def test_a_stream_given_to_absorb_is_refused_with_the_way_out(alice: BoundScope) -> None:
    session = alice.session("s", model="gpt-4o-mini")
    taken(session, "openai", ASKED)
    with pytest.raises(UnsupportedError, match="absorb_stream"):
        session.absorb(iter([]))


def test_async_streams_are_the_same(wire: Wire, alice: BoundScope) -> None:
    alice.write("city", "Reykjavík, am Meer")
    session = AsyncSession(alice.session("s", model=MODELS[wire], wire=wire))

    async def given_chunks() -> AsyncIterator[object]:
        for each in chunks_of("In [[mem:city]].", wire, Delivery(seed=2, longest=3)):
            yield each

    async def main() -> tuple[Reply, list[Any]]:
        Provider(wire).take(await session.prepare(ASKED))
        stream = session.absorb_stream(given_chunks())
        chunks = [chunk async for chunk in stream]
        return stream.reply, chunks

    reply, chunks = asyncio.run(main())
    assert reply.text == text_of(chunks) == "In Reykjavík, am Meer."
