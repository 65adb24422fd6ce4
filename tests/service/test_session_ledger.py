"""The ledger: what went in by part, what repeats, what was said and shown, what it costs; chained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import offprompt
from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import LedgerEntry, canonical
from offprompt.service.accounting import digester, entry_hash
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.wire.options import HistoryPolicy
from offprompt.wire.profiles import SHAPES
from offprompt.wire.sizes import messages_size, tools_size
from tests.service.conftest import NewTalk
from tests.service.talk import MODELS, Say, Talk, Wire, call, calls, messages_of, result, tool

TOKENIZER = tokenizer_for("gpt-4o-mini")
SLACK = 12  # separators between our part of the system text and the client's, and the delimiters of a system message


def counted(talk: Talk, request: dict[str, Any]) -> int:
    shape, counts = SHAPES[talk.wire], tokenizer_for(MODELS[talk.wire])
    system = [{"role": "user", "content": block["text"]} for block in request.get("system", [])]
    sizes = messages_size([*system, *SHAPES[talk.wire].gather(messages_of(request))], shape, counts) + tools_size(
        request.get("tools", []), counts
    )
    return sizes.tokens


def repeated(talk: Talk, before: dict[str, Any], now: dict[str, Any]) -> int:
    """Tokens of the leading messages that are the same in both requests, with all that stands before them."""
    same = 0
    for old, new in zip(messages_of(before), messages_of(now), strict=False):
        if canonical(old) != canonical(new):
            break
        same += 1
    key = "input" if "input" in now else "messages"
    return counted(talk, {**now, key: now[key][:same]})


@pytest.mark.parametrize("policy", ["off", "stubs+window", "auto"])
def test_parts_and_prefix_are_those_of_the_request(wire: Wire, policy: HistoryPolicy) -> None:
    with offprompt.open(":memory:", window_high_tokens=900, window_low_tokens=400) as opened:
        scope = opened.scope(user="u")
        scope.write("plan", "walk, then rest, then walk again", policy="when_asked")
        scope.write("style", "brief")
        one = Talk(
            scope.session(
                "s", model=MODELS[wire], wire=wire, policy=policy, system="Be kind.", tools=[tool("look", wire)]
            ),
            wire,
        )
        for number in range(6):
            one.turn(f"What is my plan {number}?", call("mem_read", slot="plan"), "Walk.")
            both = calls(call("mem_write", slot=f"n{number}", value="v" * 30), call("look", f"c{number}", text="x"))
            one.turn("Look " * 40, both)
            one.messages += result(wire, (f"c{number}", "row 123 " * (900 if number == 2 else 20)))
            one.go("Seen. " * 30)
        entries = one.session.ledger()
        assert len(entries) == len(one.requests)
        for at, (entry, request) in enumerate(zip(entries, one.requests, strict=True)):
            assert abs(entry.sent.tokens - counted(one, request)) <= SLACK, (at, entry.parts)
            if at:
                assert abs(entry.prefix - repeated(one, one.requests[at - 1], request)) <= SLACK, at
        if policy == "stubs+window":
            assert sum(entry.cut for entry in entries) > 0


def test_the_parts_are_told_apart(talk: NewTalk, alice: BoundScope, wire: Wire) -> None:
    alice.write("plan", "walk, then rest, then walk again", policy="when_asked")
    alice.write("style", "brief")
    one = talk(system="Be kind.", tools=[tool("look", wire)])
    one.turn("What is my plan?", "Walk.")
    first = one.session.ledger()[0]
    assert set(first.parts) == {"system", "instructions", "directory", "card", "tools", "memory_tools", "shown", "user"}
    assert first.parts["shown"].tokens >= 10
    one.turn("Thanks", call("mem_read", slot="plan"), "Welcome.")
    last = one.session.ledger()[-1]
    assert {"history", "shown", "user"} <= set(last.parts)
    one.turn("Bye", "Bye.")
    assert "receipts" in one.session.ledger()[-1].parts
    assert "shown" not in one.session.ledger()[-1].parts


def test_said_and_shown_and_outside(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("city", "Reykjavik am Meer", policy="when_asked")
    alice.write("dog", "a dog named Bello", policy="by_handle")
    one = talk()
    one.turn("I have a dog named Bello", "Nice.")
    assert one.session.ledger()[-1].said == ("dog",)
    one.turn("Which city?", "Hm.")
    entry = one.session.ledger()[-1]
    assert [(shown.name, shown.why) for shown in entry.shown] == [("city", "name")]
    assert entry.leaked == ()
    assert entry.outside >= 34
    one.turn("And the dog?", call("mem_read", slot="dog"), "Bello.")
    entry = one.session.ledger()[-1]
    assert [(shown.name, shown.why) for shown in entry.shown] == [("dog", "mem_read")]
    one.turn("Thanks", "Welcome.")
    assert one.session.ledger()[-1].shown == ()


def test_a_value_in_the_users_words_is_said_also_while_it_is_shown(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("user_name", "Adaeze Okafor")
    spoken = talk()
    spoken.turn("I am Adaeze Okafor.", "Welcome.")
    spoken.turn("What is my name?", "Adaeze.")
    spoken.turn("Thanks.", "Yes.")
    first, second, third = spoken.session.ledger()
    assert first.said == second.said == third.said == ("user_name",)
    assert [shown.name for shown in second.shown] == ["user_name"]
    assert (first.shown, third.shown) == ((), ())


def test_a_frame_alone_is_shown_and_not_said(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("user_name", "Adaeze Okafor")
    spoken = talk()
    spoken.turn("What is my name?", "I know it.")
    (entry,) = spoken.session.ledger()
    assert entry.said == ()
    assert [shown.name for shown in entry.shown] == ["user_name"]


def test_returning_to_an_earlier_turn_lists_what_it_shows_again(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("city", "Reykjavik am Meer", policy="when_asked")
    one = talk()
    one.turn("Which city?", "Hm.")
    one.turn("Thanks", "Welcome.")
    del one.messages[1:]
    one.requests.clear()
    one.go("Reykjavik.")
    entry = one.session.ledger()[-1]
    assert "Reykjavik am Meer" in one.sent
    assert [shown.name for shown in entry.shown] == ["city"]


def test_search_hits_that_hold_values_are_shown_not_leaked(talk: NewTalk, wire: Wire) -> None:
    with offprompt.open(":memory:", window_high_tokens=300, window_low_tokens=100) as opened:
        scope = opened.scope(user="u")
        one = Talk(scope.session("s", model=MODELS[wire], wire=wire, policy="window"), wire)
        one.turn("My mail is bob@example.com", call("mem_write", slot="mail", value="bob@example.com"), "ok")
        for number in range(12):
            one.turn(f"Tell me of {number} " * 10, "words " * 20)
        one.turn("Which one was it?", call("mem_search", query="bob@example.com mail"), "bob@example.com")
        entry = one.session.ledger()[-1]
        assert entry.leaked == ()
        assert "mail" in [shown.name for shown in entry.shown]
    assert talk


def test_price_by_our_counts_and_by_the_providers(talk: NewTalk) -> None:
    one = talk()
    one.turn("Hello", "Hello.")
    own = one.session.ledger()[0]
    assert own.price is not None
    assert own.price > 0
    usage = (
        {"prompt_tokens": 10_000, "completion_tokens": 100}
        if one.wire == "openai"
        else {"input_tokens": 10_000, "output_tokens": 100}
    )
    one.turn("Hello again", Say("Hello.", usage=usage))
    theirs = one.session.ledger()[1]
    assert theirs.price is not None
    assert theirs.price > own.price * 5
    assert (theirs.usage.input, theirs.usage.output) == (10_000, 100)


def test_a_request_without_a_reply(talk: NewTalk) -> None:
    one = talk()
    one.messages.append({"role": "user", "content": "Hello"})
    one.prepare()
    one.prepare()
    one.absorb("Hello.")
    entries = one.session.ledger()
    assert [entry.outcome for entry in entries] == ["no reply", "ok"]
    assert entries[1].prefix == entries[1].sent.tokens == entries[0].sent.tokens


def test_a_front_that_was_cut_is_a_warning(talk: NewTalk) -> None:
    one = talk()
    usage = (
        {"prompt_tokens": 2048, "completion_tokens": 1}
        if one.wire == "openai"
        else {"input_tokens": 2048, "output_tokens": 1}
    )
    reply = one.turn("word " * 6000, Say("Yes.", usage=usage))
    assert any("cut the front" in warning for warning in reply.warnings)
    assert any("cut the front" in warning for warning in one.session.ledger()[0].warnings)
    assert one.turn("Short", Say("Yes.", usage=None)).warnings == ()


def test_cached_tokens_of_anthropic_count_as_input(alice: BoundScope) -> None:
    one = Talk(alice.session("s", model=MODELS["anthropic"]), "anthropic")
    usage = {"input_tokens": 7, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 93, "output_tokens": 5}
    assert one.turn("Hello", Say("Hello.", usage=usage)).warnings == ()
    own = one.session.ledger()[0].usage
    assert (own.input, own.cached, own.written, own.output) == (1000, 900, 93, 5)


def test_the_chain_holds_and_breaks(talk: NewTalk, mem: Offprompt) -> None:
    one = talk(scope=mem.scope(user="u"))
    for number in range(4):
        one.turn(f"Say {number}", "Said.")
    entries = one.session.ledger()
    digest = digester(mem.parts.sessions.digest_key(one.session.scope))
    previous = ""
    for entry in entries:
        assert entry.previous == previous
        assert entry.hash == entry_hash(entry, digest)
        previous = entry.hash
    record = one.session.record
    assert record is not None
    assert record.last_hash == previous
    forged: LedgerEntry = replace(entries[1], price=0.0)
    assert entry_hash(forged, digest) != entries[1].hash


def test_events_never_hold_values(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("dog", "a dog named Bello", policy="by_handle")
    one = talk()
    one.turn(
        "Read",
        calls(call("mem_read", slot="dog"), call("mem_write", slot="cat", value="a cat named Minka")),
        "[[mem:dog]] [[mem:x]]",
    )
    seen = str(alice.events())
    assert "Bello" not in seen
    assert "Minka" not in seen
    assert {"slot.write", "slot.read", "slot.show", "handle.resolve", "handle.bad"} <= {
        event.op for event in alice.events()
    }
