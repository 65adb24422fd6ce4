"""Shown values that lapse by themselves, with `shown_after_turn="clear_at"`: never a broken prefix."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anthropic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offprompt
from offprompt import UnsupportedError
from offprompt.records import LedgerEntry, Shown, canonical
from offprompt.service.audit import audit
from offprompt.service.offprompt import Offprompt
from offprompt.service.session import Session
from offprompt.testing import MovedClock
from offprompt.testing.strict import Said, SaidCall
from offprompt.testing.strict_lapsing import as_read
from offprompt.testing.strict_server import StrictServer
from offprompt.wire.clearing import BETA as EDITING
from offprompt.wire.lapsing import BETA, lapses
from offprompt.wire.prices import builtin_sheets, named_sheet
from tests.service.talk import Talk, call, calls, flat, result, tool
from tests.service.test_session_ledger import SLACK, counted

CLAUDE = "claude-opus-5-5"
VALUE = {"en": "walk, then rest at the blue lantern", "zh": "先散步，再到蓝色灯笼那里休息"}
ASK = {"en": "What is my plan?", "zh": "我的 plan 是什么？"}


def opened(path: Path | str = ":memory:", *, rule: str = "clear_at", **more: Any) -> Offprompt:
    more.setdefault("recall_tokens", 0)
    return offprompt.open(path, clock=MovedClock(), shown_after_turn=rule, **more)


def a_talk(memory: Offprompt, language: str = "en", **options: Any) -> Talk:
    scope = memory.scope(user="u")
    scope.write("plan", VALUE[language], policy="when_asked")
    given: dict[str, Any] = {"model": CLAUDE, "policy": "off", "tools": [tool("look", "anthropic")], **options}
    return Talk(scope.session("s", **given), "anthropic")


@pytest.fixture
def one() -> Iterator[Talk]:
    with opened() as memory:
        yield a_talk(memory)


def newest(one: Talk) -> LedgerEntry:
    """The entry of the newest request."""
    record = one.session.record
    assert record is not None
    return record.pending or one.session.ledger()[-1]


def read(one: Talk) -> str:
    """What the model reads of the newest request."""
    return flat(as_read(one.requests[-1])["messages"])


def check_whole(one: Talk) -> None:
    """Every request begins with the whole request before."""
    for before, now in itertools.pairwise(one.requests):
        for part in ("system", "tools"):
            assert canonical(before.get(part)) == canonical(now.get(part))
        assert canonical(now["messages"][: len(before["messages"])]) == canonical(before["messages"])
        assert now["betas"] == [BETA]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_value_is_read_in_its_turn_and_sent_on_unread(language: str) -> None:
    with opened() as memory:
        one = a_talk(memory, language)
        one.turn("Hello", "Hello.")
        assert one.requests[-1]["betas"] == [BETA]
        one.turn(ASK[language], "Walk.")
        said, frame = one.last[-2:]
        assert said == {"role": "user", "content": ASK[language]}
        assert lapses(frame)
        assert VALUE[language] in read(one)
        asked = newest(one)
        assert [(each.name, each.why) for each in asked.shown] == [("plan", "name")]
        assert asked.parts["shown"].tokens > asked.shown[0].tokens
        assert asked.lapsed == ()
        for _ in range(2):
            one.turn("Thanks", "Welcome.")
            assert VALUE[language] in one.sent
            assert VALUE[language] not in read(one)
            entry = newest(one)
            assert (entry.shown, entry.lapsed, entry.leaked, entry.said) == ((), ("plan",), (), ())
            assert "shown" not in entry.parts
        check_whole(one)
        totals = audit(memory.parts).totals
        assert (totals.requests, totals.clean, totals.lapsed) == (4, 3, 2)


def test_a_value_is_read_in_every_request_of_its_turn(one: Talk) -> None:
    one.turn("Hello", "Hello.")
    one.messages.append({"role": "user", "content": ASK["en"]})
    one.go(call("mem_write", slot="seen", value="yes"), call("look", "c1", text="x"))
    one.messages += result("anthropic", ("c1", "all is well"))
    one.go(calls(call("mem_write", slot="seen", value="no"), call("look", "c2", text="y")))
    one.messages += result("anthropic", ("c2", "still well"))
    one.go("Walk.")
    for request in one.requests[1:]:
        frames = [message for message in as_read(request)["messages"] if lapses(message)]
        assert len(frames) == 1
        assert VALUE["en"] in flat(frames)
    one.turn("Thanks", "Welcome.")
    assert not any(lapses(message) for message in as_read(one.requests[-1])["messages"])
    assert sum(lapses(message) for message in one.last) == 4
    check_whole(one)
    check_counts(one)


def check_counts(one: Talk) -> None:
    """Parts and prefix are those of what the model reads."""
    for at, (entry, request) in enumerate(zip(one.session.ledger(), one.requests, strict=True)):
        now = as_read(request)
        assert entry.leaked == ()
        assert abs(entry.sent.tokens - counted(one, dict(now))) <= SLACK, (at, entry.parts)
        assert at == 0 or entry.prefix > 0


def test_what_a_tool_led_to_stays_in_the_users_message(one: Talk) -> None:
    one.turn("Hello", call("look", "c1", text="x"))
    one.messages += result("anthropic", ("c1", "The gate code is blue-lantern-77."))
    one.go(call("mem_write", slot="gate_code", value="blue-lantern-77"), "Noted.")
    one.turn("What is my gate_code?", "It is blue-lantern-77.")
    assert not any(map(lapses, one.last))
    assert "blue-lantern-77" in flat(one.last[-1])
    one.turn("What are my gate_code and my plan?", "Walk.")
    assert not any(map(lapses, one.last)), "a frame is one"
    one.turn("Thanks", "Welcome.")
    assert "<memory " not in flat(one.last)


def test_what_comes_back_stays_in_the_users_message() -> None:
    with opened(window_high_tokens=300, window_low_tokens=150, recall_tokens=256) as memory:
        one = a_talk(memory, policy="window")
        one.turn("I left the car on level B3 of the Kestrel garage.", "Noted: level B3.")
        one.turn(ASK["en"], "Walk.")
        for _ in range(4):
            one.turn("How do tides work?", "Slowly they rise. " * 25)
        assert any(entry.cut for entry in one.session.ledger())
        assert VALUE["en"] not in one.sent, "a frame leaves with its turn"
        assert newest(one).lapsed == ()
        one.turn("Where in the Kestrel garage did I leave the car? And what is my plan?", "On B3.")
        assert not any(map(lapses, one.last))
        assert "level B3" in flat(one.last[-1])


def test_system_messages_of_the_application_keep_their_place(one: Talk) -> None:
    terse = {"role": "system", "content": "Be terse."}
    one.messages += [{"role": "user", "content": ASK["en"]}, terse]
    one.go("Walk.")
    assert one.last[-1] == terse
    assert VALUE["en"] in flat(one.last[-2]), "the frame stands in the user's message"
    one.turn("Thanks", "Welcome.")
    assert VALUE["en"] not in one.sent
    one.messages.append({"role": "user", "content": ASK["en"]})
    one.go(call("look", "c1", text="x"))
    one.messages += [*result("anthropic", ("c1", "seen")), terse]
    one.go("Walk.")
    assert [message["role"] for message in one.last[-5:]] == ["user", "system", "assistant", "user", "system"]
    assert one.last[-1] == terse
    assert VALUE["en"] not in read(one)


def test_what_the_model_read_becomes_a_receipt_as_before(one: Talk) -> None:
    one.turn("Hello", call("mem_read", slot="plan"), "You walk.")
    assert VALUE["en"] in read(one)
    one.turn("Thanks", "Welcome.")
    assert VALUE["en"] not in one.sent


def test_replies_that_said_nothing_leave_nothing_illegal(one: Talk) -> None:
    one.turn(ASK["en"], "")
    one.turn("Well?", "Walk.")
    assert [message["role"] for message in one.last] == ["user", "system", "assistant", "user"]
    check_whole(one)


def test_what_was_decided_stays_with_another_setting(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with opened(path) as memory:
        one = a_talk(memory)
        one.turn(ASK["en"], "Walk.")
        one.turn("Thanks", "Welcome.")
    with opened(path, rule="replace") as memory:
        again = Talk(a_talk(memory).session, "anthropic", one.messages, one.requests, [], turn_seen=one.turn_seen)
        again.turn("And now?", "Nothing.")
        check_whole(again)
        again.turn(ASK["en"], "Walk.")
        again.turn("Bye", "Bye.")
        assert again.sent.count(VALUE["en"]) == 1
        assert newest(again).lapsed == ("plan",)
    with opened(path) as memory:
        third = Talk(a_talk(memory).session, "anthropic", again.messages, [], [], turn_seen=again.turn_seen)
        third.turn("Still there?", "No.")
        assert VALUE["en"] not in read(third)


def test_a_part_of_a_lapsed_value_in_a_result_is_no_part_of_what_is_in_view(one: Talk) -> None:
    one.turn(ASK["en"], "Walk.")
    one.turn("Look", call("look", "c1", text="x"))
    one.messages += result("anthropic", ("c1", f"It says: {VALUE['en'][:33]}"))
    one.go("Well.")
    assert newest(one).leaked == ("plan",)


TURNS = st.lists(st.sampled_from(["ask", "other", "tools", "ask and tools", "write"]), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(TURNS, st.sampled_from(["en", "zh"]))
def test_every_request_begins_with_the_whole_one_before(turns: list[str], language: str) -> None:
    with opened() as memory:
        one = a_talk(memory, language)
        for number, kind in enumerate(turns):
            first = len(one.requests)
            one.messages.append({"role": "user", "content": ASK[language] if "ask" in kind else f"Say {number}"})
            if kind == "write":
                one.go(call("mem_write", slot="seen", value=f"turn {number}"), "Noted.")
            elif "tools" in kind:
                for at in range(2):
                    one.go(call("look", f"c{number}_{at}", text="x"))
                    one.messages += result("anthropic", (f"c{number}_{at}", f"seen {number}"))
                one.go("Done.")
            else:
                one.go("Said.")
            for request in one.requests[first:]:
                assert (VALUE[language] in flat(as_read(request)["messages"])) is ("ask" in kind)
        check_whole(one)
        check_counts(one)


class Asking:
    """A model that thinks, looks once in each turn, then answers; keeps what it was given to read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, **request: Any) -> Said:
        self.read.append(flat(request["messages"]))
        last = request["messages"][-1]
        results = "tool_result" in canonical(request["messages"][-2:] if last["role"] == "system" else [last])
        return (
            Said("Walk.", thinking="so") if results else Said(thinking="hm", calls=(SaidCall("look", {"text": "x"}),))
        )


def converse(session: Session, create: Any, users: Sequence[str], *, streamed: bool) -> None:
    """Each turn is two requests; the client marks the whole of each for the cache."""
    messages: list[Any] = []
    for user in users:
        messages.append({"role": "user", "content": user})
        for _ in range(2):
            request = {**session.prepare(messages), "cache_control": {"type": "ephemeral"}}
            if streamed:
                stream = session.absorb_stream(create(**request, stream=True))
                for _chunk in stream:
                    pass
                reply = stream.reply
            else:
                reply = session.absorb(create(**request))
            assert reply.warnings == ()
            messages += reply.messages
            if reply.tool_calls:
                messages += result("anthropic", *((each.call_id, "seen") for each in reply.tool_calls))


@pytest.mark.parametrize("streamed", [False, True])
def test_the_real_client_sends_it_and_thinking_stays_valid(streamed: bool) -> None:
    model = Asking()
    with (
        opened() as memory,
        StrictServer(model, sheet=named_sheet("anthropic-opus-5-5", builtin_sheets()), binding=True) as server,
    ):
        session = a_talk(memory, system="Be kind. " * 800).session
        client = anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)
        converse(session, client.beta.messages.create, ["Hello", ASK["en"], "Thanks", "Bye"], streamed=streamed)
        assert server.faults == []
        assert [VALUE["en"] in each for each in model.read] == [False, False, True, True, False, False, False, False]
        entries = session.ledger()
        assert [[each.why for each in entry.shown] for entry in entries] == [[], [], ["name"], ["name"], [], [], [], []]
        assert [entry.lapsed for entry in entries[4:]] == [("plan",)] * 4
        assert all((entry.usage.cached or 0) > 0 for entry in entries[2:])
        for before, now in itertools.pairwise(server.requests):
            assert now["messages"][: len(before["messages"])] == before["messages"]
        # What does not lapse is read from the cache, to the last token of the request before.
        for before, now in itertools.pairwise(entries):
            assert now.usage.cached == (before.usage.cached or 0) + (before.usage.written or 0)


def test_both_betas_are_named() -> None:
    with opened() as memory:
        one = a_talk(memory, policy="context_editing")
        one.turn(ASK["en"], "Walk.")
        assert one.requests[-1]["betas"] == [EDITING, BETA]


def test_what_was_kept_before_is_kept(one: Talk) -> None:
    """Thinking binds all that its turn showed; what lapses there is not counted as kept."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    one.messages.append({"role": "user", "content": ASK["en"]})
    one.prepare()
    reply = one.session.absorb({"role": "assistant", "content": [thought, {"type": "text", "text": "Walk."}]})
    one.messages += reply.messages
    one.turn("Thanks", "Welcome.")
    assert newest(one).shown == tuple[Shown, ...]()
    assert newest(one).lapsed == ("plan",)
    check_whole(one)


@pytest.mark.parametrize(
    ("model", "wire"),
    [("gpt-5", "openai"), ("gpt-5", "responses"), ("claude-sonnet-5", "anthropic"), ("claude-opus-5", "openai")],
)
def test_others_say_that_they_cannot(model: str, wire: Any) -> None:
    with (
        opened() as memory,
        pytest.raises(UnsupportedError, match=f"{model}', the wire {wire}; use shown_after_turn='replace'"),
    ):
        memory.scope(user="u").session("s", model=model, wire=wire)
