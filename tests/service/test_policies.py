"""Long results are seen whole once and then stubs, where it pays; what stays of it, and what is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.records import LedgerEntry, canonical
from offprompt.service.accounting import digester, entry_hash
from offprompt.service.bound import BoundScope
from offprompt.testing import MovedClock
from tests.service.conftest import NewTalk
from tests.service.talk import MODELS, WIRES, Talk, Wire, call, result, tool
from tests.service.test_session_history import STEPS, play
from tests.service.test_session_ledger import SLACK, counted, repeated

LONG = "row of a table with numbers 12345\n" * 200
LONG_ZH = "第一行：狐狸跳过了懒狗，编号 12345。\n" * 120
SYSTEM = "Be kind, and say what you know. " * 200  # so that what is sent is worth a cache
NEEDLE = "the zebra crossed at quarter past nine"


def look(one: Talk, text: Any = LONG, said: str = "Seen.", ask: str = "Look") -> None:
    """A turn in which the client's tool answers with that text."""
    one.turn(ask, call("look", text="x"))
    one.messages += result(one.wire, (one.replies[-1].tool_calls[0].call_id, text))
    one.go(said)


def chat(one: Talk, turns: int) -> None:
    for number in range(turns):
        one.turn(f"Tell me more about {number}", f"This is what I know of {number}.")


def stubbed(one: Talk) -> list[int]:
    return [entry.stubbed for entry in one.session.ledger()]


@pytest.mark.parametrize("text", [LONG, LONG_ZH], ids=["en", "zh"])
def test_a_result_is_seen_whole_once_and_then_a_stub(talk: NewTalk, wire: Wire, alice: BoundScope, text: str) -> None:
    one = talk(policy="stub_after_use", system=SYSTEM, tools=[tool("look", wire)])
    chat(one, 6)
    look(one, text[: len(text) // 2] + NEEDLE + text[len(text) // 2 :])
    assert NEEDLE in one.sent
    chat(one, 1)
    assert NEEDLE not in one.sent
    record = one.session.record
    assert record is not None
    (handle,) = (name for name in record.issued if name.startswith("@"))
    assert f"[[mem:{handle}]]" in one.sent
    assert stubbed(one) == [0] * 8 + [1]
    last = one.session.ledger()[-1]
    assert last.parts["stubs"].tokens > 0
    assert last.outside > 3000
    stub = one.sent
    one.turn("When did the zebra cross?", call("mem_search", query="zebra crossed"), "At 9:15.")
    assert NEEDLE in one.replies[-2].receipts[0].shown
    chat(one, 3)
    assert sum(stubbed(one)) == 1
    assert NEEDLE not in one.sent
    assert [line for line in stub.split("\n") if f"[[mem:{handle}]]" in line] == [
        line for line in one.sent.split("\n") if f"[[mem:{handle}]]" in line
    ]
    again = Talk(
        alice.session("s1", model=MODELS[wire], wire=wire, policy="off", system=SYSTEM, tools=[tool("look", wire)]),
        wire,
        one.messages,
    )
    again.turn("And now?", "Nothing new.")
    assert NEEDLE not in again.sent


def test_a_handle_of_a_result_works_once_it_is_a_stub(talk: NewTalk, wire: Wire) -> None:
    one = talk(policy="stub_after_use", system=SYSTEM, tools=[tool("look", wire)])
    chat(one, 6)
    look(one)
    record = one.session.record
    assert record is not None
    assert not any(name.startswith("@") for name in record.issued)
    one.turn("And", "Well.")
    record = one.session.record
    assert record is not None
    handle = next(name for name in record.issued if name.startswith("@"))
    one.turn("Send it", call("look", text=f"[[mem:{handle}]]"))
    assert LONG.strip()[:100] in one.replies[-1].tool_calls[0].arguments.replace("\\n", "\n")


def test_what_was_not_answered_stays_whole_however_often_it_is_sent(talk: NewTalk, wire: Wire) -> None:
    one = talk(policy="stub_after_use", system=SYSTEM, tools=[tool("look", wire)])
    chat(one, 8)
    one.turn("Look", call("look", "c1", text="x"))
    one.messages += result(wire, ("c1", LONG))
    for _ in range(4):
        one.prepare()
        assert LONG in str(one.last) or LONG.replace("\n", "\\n") in canonical(one.last)
    one.messages += one.absorb("Seen.").messages
    one.turn("And?", "Fine.")
    assert sum(stubbed(one)) == 1


def test_a_search_finds_no_result_that_still_stands_in_the_prompt(talk: NewTalk, wire: Wire) -> None:
    one = talk(policy="stub_after_use", system=SYSTEM, tools=[tool("look", wire)])
    one.turn("Look", call("look", "c1", text="x"))
    one.messages += result(wire, ("c1", LONG + NEEDLE))
    one.go(call("mem_search", query="zebra crossed"), "At 9:15.")
    assert NEEDLE in one.sent
    assert not one.replies[-2].receipts[0].ok
    chat(one, 8)
    one.turn("When?", call("mem_search", query="zebra crossed"), "At 9:15.")
    assert one.replies[-2].receipts[0].ok
    assert sum(stubbed(one)) == 1


def test_short_results_stay(talk: NewTalk, wire: Wire) -> None:
    one = talk(policy="stub_after_use", system=SYSTEM, tools=[tool("look", wire)])
    chat(one, 6)
    look(one, "a short result " * 50)
    chat(one, 4)
    assert "a short result" in one.sent
    assert sum(stubbed(one)) == 0


def test_where_cached_reads_are_nearly_free_results_stay() -> None:
    whole: dict[str, bool] = {}
    for model in ("deepseek-v4-pro", "gpt-4o"):
        with offprompt.open(":memory:", clock=MovedClock()) as opened:
            session = opened.scope(user="u").session(
                "s", model=model, policy="stub_after_use", tools=[tool("look", "openai")]
            )
            one = Talk(session, "openai")
            chat(one, 3)
            look(one, LONG, said="I have seen it all. " * 300)
            chat(one, 4)
            whole[model] = LONG in one.sent
    assert whole == {"deepseek-v4-pro": True, "gpt-4o": False}


def test_a_document_beside_shown_values_stays_while_they_are_shown(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("plan", "walk, then rest", policy="when_asked")
    one = talk(policy="stub_after_use", system=SYSTEM)
    chat(one, 8)
    question = [{"type": "text", "text": LONG}, {"type": "text", "text": "What is my plan?"}]
    one.turn(question, call("mem_read", slot="nothing"), call("mem_read", slot="other"), "Walk.")
    assert "walk, then rest" in one.sent
    assert LONG in one.sent
    chat(one, 2)
    assert "walk, then rest" not in one.sent
    assert LONG not in one.sent
    assert "What is my plan?" in one.sent
    assert sum(stubbed(one)) == 1


@pytest.mark.parametrize("policy", ["after_use+window", "auto"])
def test_a_window_with_used_results_fits_and_loses_nothing(wire: Wire, policy: Any) -> None:
    with offprompt.open(":memory:", window_high_tokens=3000, window_low_tokens=1500) as opened:
        scope = opened.scope(user="u")
        one = Talk(
            scope.session("s", model=MODELS[wire], wire=wire, policy=policy, system=SYSTEM, tools=[tool("look", wire)]),
            wire,
        )
        one.turn(NEEDLE, "Noted.")
        for number in range(25):
            look(one, f"{number} " + LONG, said=f"Seen {number}. " * 10)
            chat(one, 1)
        entries = one.session.ledger()
        assert sum(entry.cut for entry in entries) > 0
        assert sum(entry.stubbed for entry in entries) >= 10
        if policy == "after_use+window":
            sizes = [sum(size.tokens for part, size in e.parts.items() if part != "memory_tools") for e in entries]
            assert max(sizes) < 8000
        one.turn("When?", call("mem_search", query="zebra crossed"), "9:15.")
        assert NEEDLE in one.replies[-2].receipts[0].shown


@pytest.mark.parametrize("policy", ["stub_after_use", "after_use+window", "auto"])
def test_the_ledger_counts_what_repeats_when_stubs_come(wire: Wire, policy: Any) -> None:
    with offprompt.open(":memory:", window_high_tokens=2500, window_low_tokens=1200) as opened:
        session = opened.scope(user="u").session(
            "s", model=MODELS[wire], wire=wire, policy=policy, system=SYSTEM, tools=[tool("look", wire)]
        )
        one = Talk(session, wire)
        for number in range(12):
            look(one, LONG if number % 3 else "short", said="Seen. " * 20, ask=f"Look for {number}")
        entries = one.session.ledger()
        assert sum(entry.stubbed for entry in entries) > 1
        for at, (entry, request) in enumerate(zip(entries, one.requests, strict=True)):
            assert abs(entry.sent.tokens - counted(one, request)) <= SLACK, (at, entry.parts)
            if at:
                assert abs(entry.prefix - repeated(one, one.requests[at - 1], request)) <= SLACK, at


def test_two_objects_of_one_session_send_the_same_stubs(tmp_path: Path, wire: Wire) -> None:
    with offprompt.open(tmp_path / "a.db") as opened, offprompt.open(tmp_path / "a.db") as other:
        options: dict[str, Any] = {"model": MODELS[wire], "wire": wire, "policy": "stub_after_use"}
        options["tools"] = [tool("look", wire)]
        one = Talk(opened.scope(user="u").session("s", **options), wire)
        theirs = other.scope(user="u").session("s", **options)
        for number in range(10):
            look(one, LONG if number % 2 else "short")
            one.session, theirs = theirs, one.session
        assert sum(stubbed(one)) >= 4


def test_a_result_longer_than_the_context_is_a_stub_at_once(talk: NewTalk, wire: Wire) -> None:
    one = talk(policy="stub_after_use", context_tokens=3000, tools=[tool("look", wire)])
    look(one, LONG * 3)
    assert LONG not in one.sent
    assert stubbed(one) == [0, 0]


def test_older_entries_keep_their_hash() -> None:
    digest = digester(b"k" * 32)
    entry = LedgerEntry(1, 0.0, 1, "m")
    assert entry_hash(entry, digest) == entry_hash(LedgerEntry(1, 0.0, 1, "m", stubbed=0), digest)
    assert entry_hash(entry, digest) != entry_hash(LedgerEntry(1, 0.0, 1, "m", stubbed=1), digest)


Shown = Literal["replace", "cheaper", "keep"]
SHOWN: tuple[Shown, ...] = ("replace", "cheaper", "keep")


@settings(max_examples=60)
@given(
    steps=STEPS,
    policy=st.sampled_from(["auto", "stub_after_use", "after_use+window", "stubs+window"]),
    wire=st.sampled_from(WIRES),
    shown=st.sampled_from(SHOWN),
    known=st.integers(0, 1),
)
def test_any_conversation_with_any_rule_for_what_was_shown(
    steps: list[str], policy: Any, wire: Wire, shown: Shown, known: int
) -> None:
    model = (MODELS[wire], "model-without-prices")[known]
    clock, window = MovedClock(), {"window_high_tokens": 900, "window_low_tokens": 400}
    with offprompt.open(":memory:", clock=clock, shown_after_turn=shown, **window) as opened:  # type: ignore[arg-type]
        scope = opened.scope(user="u")
        scope.write("known", "a value that is long enough to be scrubbed", policy="when_asked")
        session = scope.session("s", model=model, wire=wire, policy=policy, system=SYSTEM, tools=[tool("look", wire)])
        one = Talk(session, wire)
        for number, step in enumerate(steps):
            play(one, step, number)
        entries = session.ledger()
        for entry in entries:
            assert entry.leaked == ()
            assert entry.prefix <= entry.sent.tokens
            if shown == "replace":
                assert all(each.why != "kept" for each in entry.shown)
