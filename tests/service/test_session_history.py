"""What leaves the prompt: stubs, the window, forced cuts; all of it can be found again, and nothing is orphaned."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.service.bound import BoundScope
from offprompt.testing import MovedClock
from offprompt.wire.options import HistoryPolicy
from offprompt.wire.stubs import gone_line
from tests.service.conftest import NewTalk
from tests.service.talk import MODELS, WIRES, Talk, Wire, call, calls, flat, picture, result, tool

LONG = "row of a table with numbers 12345\n" * 400
NEEDLE = "the zebra crossed at quarter past nine"


def looked(talk: Talk, text: Any = LONG) -> None:
    talk.turn("Look", call("look", text="x"))
    talk.messages += result(talk.wire, (talk.replies[-1].tool_calls[0].call_id, text))


@pytest.mark.parametrize("policy", ["stub_at_once", "stubs+window"])
def test_a_long_result_is_a_stub_at_first_sight(talk: NewTalk, wire: Wire, policy: str) -> None:
    one = talk(policy=policy, tools=[tool("look", wire)])
    looked(one, LONG[:7000] + NEEDLE + LONG[:7000])
    one.go("Seen.")
    assert len(one.sent) < 4000
    assert NEEDLE not in one.sent
    record = one.session.record
    assert record is not None
    handle = next(name for name in record.issued if name.startswith("@"))
    assert f"[[mem:{handle}]]" in one.sent
    one.turn(
        "When did the zebra cross?",
        call("mem_search", query="zebra crossed"),
        call("mem_read", slot=handle),
        "At 9:15.",
    )
    assert NEEDLE in one.replies[-2].receipts[0].shown or NEEDLE in one.replies[-3].receipts[0].shown
    assert one.session.ledger()[1].parts["stubs"].tokens > 0
    one.turn("Thanks", "Welcome.")


def test_pasted_documents_are_stubs_and_the_users_words_stay(talk: NewTalk) -> None:
    one = talk(policy="stub_at_once")
    one.turn([{"type": "text", "text": LONG}, {"type": "text", "text": "Sum this up"}], "A table.")
    assert len(one.sent) < 4500
    assert "Sum this up" in one.sent
    one.turn(LONG, "Another table.")  # the user's own words are never rewritten
    assert LONG in one.sent


@pytest.mark.illegal
def test_results_with_pictures_are_no_stubs(talk: NewTalk, wire: Wire) -> None:
    one = talk(policy="stub_at_once", tools=[tool("look", wire)])
    shown = picture(wire)
    if wire == "openai":
        one.illegal = "Invalid value: 'image_url'"  # OpenAI refuses it in a result, other servers of the wire do not
    looked(one, [{"type": "text", "text": LONG}, shown])
    one.go("Seen.")
    assert "AAAA" in flat(one.last[-1])
    one.turn([shown, {"type": "text", "text": "And this?"}], "Fine.")


@pytest.fixture
def small() -> BoundScope:
    opened = offprompt.open(":memory:", clock=MovedClock(), window_high_tokens=600, window_low_tokens=300)
    return opened.scope(user="alice")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_turns_that_leave_are_journaled_and_found(talk: NewTalk, small: BoundScope, language: str) -> None:
    one = talk(scope=small, policy="window")
    words = {"en": "Please tell me something about item", "zh": "请给我讲讲关于这个东西的事情，第"}[language]
    needle = {"en": NEEDLE, "zh": "那只斑马在九点一刻过了马路"}[language]
    one.turn(needle, "Noted." if language == "en" else "知道了。")
    for number in range(60):
        one.turn(f"{words} {number}", f"{words} {number} " * 3)
    assert needle not in one.sent
    assert gone_line(language) in one.sent
    ledger = one.session.ledger()
    assert sum(entry.cut for entry in ledger) >= 40
    assert len([entry for entry in ledger if entry.cut]) < 20
    assert max(sum(s.tokens for p, s in e.parts.items() if p in ("history", "user", "notes")) for e in ledger) <= 700
    journal = one.session.journal()
    assert len(journal) == 122
    query = {"en": "zebra crossed", "zh": "斑马"}[language]
    one.turn("When?" if language == "en" else "几点？", call("mem_search", query=query), "9:15.")
    assert needle in one.replies[-2].receipts[0].shown
    assert needle in one.sent
    one.turn("Thanks" if language == "en" else "谢谢", "Welcome.")
    assert needle not in one.sent
    other = Talk(small.session("s1", model=MODELS[one.wire], wire=one.wire, policy="window"), one.wire, one.messages)
    other.turn("Again?", call("mem_search", query=query), "9:15.")
    assert needle in other.replies[-2].receipts[0].shown


def test_auto_fits_the_context(talk: NewTalk, small: BoundScope, wire: Wire) -> None:
    one = talk(scope=small, context_tokens=4000, tools=[tool("look", wire)])
    for number in range(30):
        one.turn(f"Tell me of {number}", f"words {number} " * 60)
        looked(one, "short result")
        one.go("Seen.")
    entries = one.session.ledger()
    assert max(entry.sent.tokens for entry in entries) <= 4000
    assert sum(entry.cut for entry in entries) > 5


def test_auto_fits_a_result_longer_than_the_context(talk: NewTalk, wire: Wire, alice: BoundScope) -> None:
    one = talk(context_tokens=4000, tools=[tool("look", wire)])
    looked(one)
    one.go("Seen.")
    pending = one.session.ledger()[-1]
    assert pending.sent.tokens <= 3000
    assert alice.scope


def test_a_long_turn_is_cut_inside_and_keeps_its_question(talk: NewTalk, small: BoundScope, wire: Wire) -> None:
    one = talk(scope=small, policy="window", tools=[tool("look", wire)])
    one.turn("Count all the lanterns", call("look", "c0", text="0"))
    for number in range(12):
        one.messages += result(wire, (f"c{number}", f"lantern {number} " * 25))
        one.go(call("look", f"c{number + 1}", text="x"))
        assert "Count all the lanterns" in one.sent
    entries = one.session.ledger()
    assert sum(entry.cut for entry in entries) >= 2
    assert max(entry.sent.tokens for entry in entries) < 1600
    for at, entry in enumerate(entries):
        assert (gone_line("en") in flat(one.requests[at])) is any(each.cut for each in entries[: at + 1])
        assert entry.turn == 1


def test_no_line_says_that_turns_left_while_all_are_there(talk: NewTalk, small: BoundScope, wire: Wire) -> None:
    one = talk(scope=small, policy="window", tools=[tool("look", wire)])
    looked(one, "row of a table " * 400)
    one.go("Seen.")
    assert gone_line("en") not in one.sent
    assert one.session.ledger()[-1].cut == 0


def test_off_sends_everything(talk: NewTalk, small: BoundScope, wire: Wire) -> None:
    one = talk(scope=small, policy="off", tools=[tool("look", wire)])
    looked(one)
    one.go("Seen.")
    for number in range(40):
        one.turn(f"Tell me of {number}", "words " * 20)
    assert LONG in one.sent
    assert sum(entry.cut for entry in one.session.ledger()) == 0


STEPS = st.lists(
    st.sampled_from(
        [
            "say",
            "say long",
            "look",
            "look long",
            "both",
            "bad",
            "read",
            "drop",
            "again",
            "edit",
            "search",
            "zh",
            "picture",
        ]
    ),
    min_size=3,
    max_size=25,
)


@settings(max_examples=60)
@given(
    steps=STEPS, policy=st.sampled_from(get_args(HistoryPolicy)), wire=st.sampled_from(WIRES), seed=st.integers(0, 3)
)
def test_any_conversation_under_any_policy(steps: list[str], policy: HistoryPolicy, wire: Wire, seed: int) -> None:
    policy = "off" if policy == "context_editing" and wire != "anthropic" else policy
    with offprompt.open(":memory:", clock=MovedClock(), window_high_tokens=500, window_low_tokens=200) as opened:
        scope = opened.scope(user="u")
        scope.write("known", "a value that is long enough to be scrubbed", policy="by_handle")
        context = (None, 3000, 6000, 128000)[seed]
        session = scope.session(
            "s", model=MODELS[wire], wire=wire, policy=policy, context_tokens=context, tools=[tool("look", wire)]
        )
        one = Talk(session, wire)
        for number, step in enumerate(steps):
            play(one, step, number)
        record = session.record
        assert record is not None
        keys = {entry.key for entry in session.journal()}
        assert {record.base, record.tail, record.sent_last} <= keys
        for entry in session.ledger():
            assert entry.leaked == ()
            assert entry.prefix <= entry.sent.tokens


def play(one: Talk, step: str, number: int) -> None:  # noqa: C901 - one case a step
    # Chat completions take ids that come again in later turns, the others do not.
    again = one.wire == "openai"
    ids, m, n, c9, b1 = (f"c{number % 3}", "m", "m", "c9", "b1") if again else (f"{c}{number}" for c in "cmnxb")
    match step:
        case "say":
            one.turn(f"Say {number}", f"Said {number}.")
        case "say long":
            one.turn(f"Say {number} " * 60, "Said. " * 50)
        case "zh":
            one.turn("请说说看，你觉得怎么样？" * 8, "我觉得不错。" * 8)
        case "look" | "look long":
            one.turn(f"Look {number}", call("look", ids, text="[[mem:known]]"))
            one.messages += result(one.wire, (ids, "seen " * (5 if step == "look" else 900)))
            one.go("Seen.")
        case "both":
            one.turn(
                f"Both {number}",
                calls(
                    call("mem_write", m, slot=f"n{number}", value="x" * 40), call("look", ids, text="x"), text="Well:"
                ),
            )
            one.messages += result(one.wire, (ids, "a value that is long enough to be scrubbed"))
            one.go(call("look", c9, text="again"))
            one.messages += result(one.wire, (c9, "ok"))
            one.go("Both done.")
        case "bad":
            one.turn(
                f"Bad {number}",
                calls(call("look", b1, text="[[mem:nothing]]"), call("mem_read", m, slot="nothing")),
                "Failed.",
            )
        case "read":
            one.turn(f"Read {number}", call("mem_read", m, slot="known"), call("mem_read", n, slot="known"), "Read.")
        case "search":
            one.turn(f"Search {number}", call("mem_search", m, query="say seen"), "Found.")
        case "drop":
            one.turn(f"Read {number}", call("mem_read", m, slot="known"), "Dropped.")
            kept = [
                message
                for message in one.messages
                if "was read here" not in flat(message) and "known (app" not in flat(message)
            ]
            one.messages = kept
        case "again":
            one.messages.append({"role": "user", "content": f"again {number}"})
            one.prepare()
            one.prepare()
            one.messages += one.absorb("Again.").messages
        case "edit":
            if one.messages and one.messages[-1].get("role") == "assistant" and not one.messages[-1].get("tool_calls"):
                edited = f"edited {number}: a value that is long enough to be scrubbed"
                one.messages[-1] = {"role": "assistant", "content": edited}
            one.turn("go on", "Going.")
        case _:
            one.turn([picture(one.wire), {"type": "text", "text": "what is known?"}], "A picture.")
