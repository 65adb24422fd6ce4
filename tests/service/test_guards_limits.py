"""What stops a model that goes round in circles, renames things, or writes without end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import offprompt
from offprompt.errors import ConflictError, NotFoundError, UsageError
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.service.conftest import NewTalk
from tests.service.talk import MODELS, Say, Talk, Wire, as_reply, call, calls, flat, result, tool

PLAN = "walk then rest " * 10
NewMemory = Callable[..., BoundScope]


@pytest.fixture
def one(talk: NewTalk, alice: BoundScope, wire: Wire) -> Talk:
    alice.write("plan", PLAN, policy="by_handle")
    return talk(tools=[tool("look", wire)])


@pytest.fixture
def memory(clock: MovedClock) -> Iterator[NewMemory]:
    """`memory(lock_names=True)`: Alice's scope in a memory with these settings."""
    with ExitStack() as stack:

        def new(**settings: Any) -> BoundScope:
            return stack.enter_context(offprompt.open(":memory:", clock=clock, **settings)).scope(user="alice")

        yield new


def receipts(one: Talk) -> list[str]:
    return [receipt.text for reply in one.replies for receipt in reply.receipts]


def test_the_same_read_gets_the_value_then_an_answer_then_the_end(one: Talk) -> None:
    reply = one.turn("Read", *(call("mem_read", slot="plan") for _ in range(4)))
    told = "plan was read twice already; answer now"
    assert receipts(one) == ["plan was read here", "plan is shown above", told, told]
    assert [each.done for each in one.replies] == [False, False, False, True]
    assert reply.warnings == ("the model asked for 'plan' again and again; it was stopped there",)
    assert one.sent.count(PLAN.strip()) == 1
    one.turn("And now?", call("mem_read", slot="plan"), "It says walk.")
    assert receipts(one)[4:] == ["plan was read here"]
    assert one.replies[-1].warnings == ()


@pytest.mark.parametrize(
    ("text", "language"),
    [("请读计划", "plan 已读过两次；请直接回答"), ("Read it", "plan was read twice already; answer now")],
)
def test_it_is_said_in_both_languages(one: Talk, text: str, language: str) -> None:
    one.turn(text, *(call("mem_read", slot="plan") for _ in range(3)), "…")
    assert receipts(one)[2] == language


def test_other_spellings_are_the_same_read(one: Talk) -> None:
    spelled = ["plan", "PLAN", "[[mem:plan]]", "ｐｌａｎ"]
    reply = one.turn(
        "Read", *(call("mem_read", slot=name, page=page) for name, page in zip(spelled, [1, "1", 1, 1], strict=True))
    )
    assert reply.done
    assert receipts(one)[1] == "plan is shown above"


def test_what_is_not_there_is_not_asked_for_without_end(one: Talk) -> None:
    reply = one.turn("Read", *(call("mem_read", slot="没有") for _ in range(4)))
    assert receipts(one)[:2] == ["not found: 没有"] * 2
    assert reply.done
    assert "again and again" in reply.warnings[0]


def test_pages_are_reads_of_their_own(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("book", "".join(f"line {number} of the book\n" for number in range(150)), policy="by_handle")
    one = talk()
    reads = [call("mem_read", slot="book", page=page) for page in (2, 1, 2, 1, 1)]
    one.turn("Read", *reads, "Enough.")
    text = ["book was read here", "book was read here", "book is shown above", "book is shown above"]
    assert receipts(one) == [*text, "book was read twice already; answer now"]


def test_a_value_that_was_written_since_is_read_again(one: Talk) -> None:
    read = call("mem_read", slot="plan")
    again = [read, read, call("mem_write", slot="plan", value="run"), read, read, read]
    one.turn("Go", *(Say(calls=tuple((name, given) for name, given, _ in each.calls)) for each in again), "Done.")
    told = ["plan was read here", "plan is shown above", "saved plan v2", "plan was read here", "plan is shown above"]
    assert receipts(one) == [*told, "plan was read twice already; answer now"]


def test_a_value_that_the_same_message_wrote_is_read_again(one: Talk) -> None:
    read, write = call("mem_read", slot="plan"), call("mem_write", slot="PLAN", value="run")
    several = [Say(calls=tuple((name, given) for name, given, _ in each.calls)) for each in (read, read, write, read)]
    one.turn("Go", calls(*several), "Done.")
    assert receipts(one)[2:] == ["saved plan v2", "plan was read here"]
    one.turn("Go", calls(read, call("mem_forget", slot="plan")), call("mem_read", slot="plan"), "Gone.")
    assert receipts(one)[-1] == "not found: plan"


def test_reads_in_one_message_count_too(one: Talk) -> None:
    reply = one.turn("Go", calls(*(call("mem_read", slot="plan") for _ in range(5))))
    assert reply.done
    assert receipts(one)[0] == "plan was read here"
    assert len(set(receipts(one)[2:])) == 1
    one.turn("Go on", "Fine.")


def test_rounds_of_the_clients_tools_do_not_begin_it_anew(one: Talk, wire: Wire) -> None:
    one.turn("Go", call("mem_read", slot="plan"), call("look", "c1", text="x"))
    one.messages += result(wire, ("c1", "seen"))
    one.go(call("mem_read", slot="plan"), call("look", "c2", text="x"))
    one.messages += result(wire, ("c2", "seen"))
    reply = one.go(call("mem_read", slot="plan"), call("mem_read", slot="plan"))
    assert receipts(one)[1:3] == ["plan is shown above", "plan was read twice already; answer now"]
    assert reply.done


def test_a_reply_that_was_thrown_away_does_not_count(one: Talk) -> None:
    one.messages.append({"role": "user", "content": "Read"})
    for number in range(5):
        one.session.prepare(one.messages)
        reply = one.session.absorb(as_reply(Say(f"Try {number}", call("mem_read", slot="plan").calls), one.wire))
        assert [receipt.text for receipt in reply.receipts] == ["plan was read here"]
        assert not reply.done


def test_the_same_reply_again_is_the_end_again(one: Talk) -> None:
    one.messages.append({"role": "user", "content": "Read"})
    said = as_reply(calls(*(call("mem_read", slot="plan") for _ in range(4))), one.wire)
    one.prepare()
    first, second = one.session.absorb(said), one.session.absorb(said)
    assert first.done
    assert second.done
    assert [each.text for each in first.receipts] == [each.text for each in second.receipts]


def test_any_process_counts_on(one: Talk, alice: BoundScope) -> None:
    one.messages.append({"role": "user", "content": "Read"})
    messages: list[Any] = one.messages
    done: list[bool] = []
    for _ in range(4):
        session = alice.session("s1", model=MODELS[one.wire], wire=one.wire, tools=[tool("look", one.wire)])
        session.prepare(messages)
        reply = session.absorb(as_reply(call("mem_read", slot="plan"), one.wire))
        messages = [*one.messages, *reply.messages]
        done.append(reply.done)
    assert done == [False, False, False, True]


def test_a_locked_name_is_neither_written_nor_forgotten_by_models(one: Talk, alice: BoundScope) -> None:
    alice.slots.lock("plan")
    said = calls(
        call("mem_write", slot="plan", value="new"),
        call("mem_write", slot="ＰＬＡＮ", value="new", scope="session"),
        call("mem_forget", slot="plan"),
    )
    one.turn("Change it", said, "I may not.")
    assert receipts(one) == [f"not done: the application locked {name}" for name in ("plan", "ＰＬＡＮ", "plan")]
    assert alice.read("plan") == PLAN
    assert alice.narrow(session="s1").slots.snapshot() == {"plan": PLAN}
    alice.write("plan", "from the application", policy="by_handle")
    alice.slots.unlock("plan")
    one.turn("Change it", call("mem_write", slot="plan", value="new"), "Done.")
    assert alice.read("plan") == "new"
    alice.slots.lock("plan")
    alice.forget("plan")
    one.turn("改回来", call("mem_write", slot="plan", value="back again"), "不行。")
    assert alice.read("plan", None) is None
    assert alice.slots.undo("plan").locked


def test_what_cannot_be_locked(mem: Offprompt) -> None:
    alice = mem.scope(user="alice")
    with pytest.raises(NotFoundError):
        alice.slots.lock("nothing")
    alice.write("city", "Ulm")
    assert alice.slots.lock("ＣＩＴＹ").locked
    assert alice.slots.lock("city").version == 1
    assert alice.write("city", "Rome").locked
    assert [event.why for event in alice.events(op="slot.guard")][-2:] == ["lock", "lock"]


def test_with_locked_names_only_known_slots_are_written(memory: NewMemory, wire: Wire) -> None:
    alice = memory(lock_names=True)
    alice.write("city", "Ulm")
    one = Talk(alice.session("s1", model=MODELS[wire], wire=wire), wire)
    said = calls(
        call("mem_write", slot="new", value="x"),
        call("mem_write", slot="city", value="Rome"),
        call("mem_write", slot="city", value="Bonn", scope="session"),
    )
    one.turn("Write", said, "Some of it.")
    assert receipts(one) == [
        "not done: new is new; only known slots may be written",
        "saved city v2",
        "not done: city is new; only known slots may be written",
    ]
    assert alice.slots.snapshot() == alice.narrow(session="s1").slots.snapshot() == {"city": "Rome"}
    alice.write("新", "一")
    one.turn("写下来", call("mem_write", slot="新", value="二"), "好。")
    assert alice.read("新") == "二"


def test_a_switch_is_true_or_false(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, on in (("true", True), ("False", False), ("1", True), ("off", False)):
        monkeypatch.setenv("OFFPROMPT_LOCK_NAMES", text)
        with offprompt.open(":memory:") as opened:
            assert opened.parts.settings.lock_names is on
    monkeypatch.setenv("OFFPROMPT_LOCK_NAMES", "maybe")
    with pytest.raises(UsageError, match=r"lock_names = 'maybe'.*true or false"):
        offprompt.open(":memory:")


def test_more_writes_of_one_slot_than_a_minute_allows(memory: NewMemory, clock: MovedClock, wire: Wire) -> None:
    alice = memory(writes_per_minute=3, keep_versions=2)
    one = Talk(alice.session("s1", model=MODELS[wire], wire=wire), wire)

    def write(value: str, slot: str = "count") -> str:
        one.turn("Write", call("mem_write", slot=slot, value=value), "ok")
        return one.replies[-2].receipts[0].text

    assert [write(str(number)) for number in range(3)] == ["saved count v1", "saved count v2", "saved count v3"]
    clock.move(59)
    assert write("3") == "not done: count was written 3 times this minute"
    assert (alice.read("count"), len(alice.slots.history("count"))) == ("2", 2)
    assert write("x", "other") == "saved other v1"
    alice.write("count", "by the application")
    assert write("4") == "not done: count was written 3 times this minute"
    one.turn("Forget", call("mem_forget", slot="count"), "ok")
    assert write("5") == "not done: count was written 3 times this minute"
    clock.move(1)
    assert write("6") == "saved count v5"
    assert alice.read("count") == "6"
    assert "LimitError" in {event.outcome for event in alice.events(op="slot.write")}


def test_any_number_of_writes(memory: NewMemory) -> None:
    alice = memory(writes_per_minute=0)
    one = Talk(alice.session("s1", model=MODELS["openai"]), "openai")
    one.turn("Write", calls(*(call("mem_write", slot="count", value=str(number)) for number in range(30))), "ok")
    assert alice.read("count") == "29"


def test_ten_writes_a_minute_are_the_default(one: Talk, alice: BoundScope) -> None:
    one.turn("写", calls(*(call("mem_write", slot="计数", value=str(number)) for number in range(12))), "好")
    assert receipts(one)[9:] == ["已存 计数 v10", *["未执行：计数 本分钟已写 10 次"] * 2]
    assert alice.read("计数") == "9"
    assert flat(one.replies[0].warnings) == ""


def test_the_application_is_not_the_model(mem: Offprompt) -> None:
    alice = mem.scope(user="alice")
    for number in range(30):
        alice.write("count", number)
    alice.slots.lock("count")
    assert alice.write("count", "locked for models only").version == 31
    assert alice.forget("count") == "count"
    with pytest.raises(ConflictError):
        alice.write("count", 1, if_version=7)
