"""A turn: what goes out, what comes back, what stays."""

from __future__ import annotations

import copy

import pytest

import offprompt
from offprompt import ConflictError, UsageError
from offprompt.service.bound import BoundScope
from tests.service.conftest import NewTalk
from tests.service.talk import MODELS, Wire, as_reply, call, calls, flat, result, tool

AGAIN = {"openai": "", "anthropic": "ids must be unique", "responses": "Duplicate "}
"""Some providers refuse ids that come again; other servers of their wires do not."""


def test_a_name_is_saved_and_asked_for_later(talk: NewTalk) -> None:
    one = talk()
    one.turn(
        "My name is Margarethe Vonnegut-Li", call("mem_write", slot="user_name", value="Margarethe Vonnegut-Li"), "ok"
    )
    for subject in ("rain", "trains", "sums"):
        one.turn(f"Tell me of {subject}", "Gladly.")
    assert one.sent.count("Margarethe") == 1  # said by the user, never by us
    one.turn("What is my name?", "Margarethe Vonnegut-Li.")
    assert one.sent.count("Margarethe") == 2
    two = talk("s2")
    two.turn("Hello", "Hello.")
    assert "Margarethe" not in two.sent
    two.turn("what's my name?", "Margarethe.")
    assert "Margarethe Vonnegut-Li" in two.sent
    two.turn("And what is your name?", "I have none.")
    assert "<memory " not in flat(two.last[-1])


def test_the_same_in_chinese(talk: NewTalk) -> None:
    one = talk()
    one.turn("我叫欧阳修远", call("mem_write", slot="名字", value="欧阳修远"), "记下了。")
    two = talk("s2")
    two.turn("你好", "你好。")
    assert "欧阳修远" not in two.sent
    two.turn("你叫什么？", "我没有名字。")
    assert "欧阳修远" not in two.sent
    two.turn("我叫什么？", "你叫欧阳修远。")
    assert "欧阳修远" in two.sent
    two.turn("好的", "嗯。")
    assert "欧阳修远" not in flat(two.last[-1])


def test_the_writes_value_becomes_its_handle(talk: NewTalk, alice: BoundScope) -> None:
    one = talk()
    value = "a plan of many words that the model wrote out in full"
    reply = one.turn("Save a plan", call("mem_write", slot="plan", value=value), "Saved.")
    assert alice.read("plan") == value
    assert value not in one.sent
    assert "[[mem:plan]]" in one.sent
    assert reply.text == "Saved."
    assert [receipt.text for receipt in one.replies[0].receipts] == ["saved plan v1"]


def test_reads_are_given_to_the_application_with_the_last_reply(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("order", {"id": 4711, "state": "paid"}, policy="by_handle")
    one = talk()
    reply = one.turn("How is it?", call("mem_read", slot="order"), "Paid.")
    assert reply.reads == {"order": {"id": 4711, "state": "paid"}}
    assert one.turn("Thanks", "Welcome.").reads == {}


def test_what_was_read_is_a_receipt_after_its_turn(talk: NewTalk, alice: BoundScope) -> None:
    value = "The recipe: two eggs, some flour, an hour of rest, butter."
    alice.write("recipe", value, policy="by_handle")
    one = talk()
    one.turn("How was the recipe?", call("mem_read", slot="recipe"), "Two eggs and so on.")
    assert value in one.sent
    one.turn("Thanks", "Welcome.")
    assert value not in one.sent
    assert "recipe was read here" in one.sent


@pytest.mark.parametrize("drops", [False, True])
def test_memory_and_client_calls_in_one_message(talk: NewTalk, wire: Wire, alice: BoundScope, drops: bool) -> None:
    one = talk(tools=[tool("search", wire)])
    both = calls(call("mem_write", "m1", slot="city", value="Ulm"), call("search", "c1", text="weather"))
    reply = one.turn("The weather in Ulm; I live there", both)
    assert reply.done
    assert [(each.call_id, each.name) for each in reply.tool_calls] == [("c1", "search")]
    if drops:
        one.messages = [each for each in one.messages if "saved city" not in flat(each)]
    one.messages += result(wire, ("c1", "rain"))
    one.go("Rain in Ulm.")
    assert "saved city v1" in one.sent
    one.turn("And now?", "Sun.")
    assert alice.read("city") == "Ulm"


def test_messages_may_be_added_up_in_the_loop(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("a", "value of a", policy="by_handle")
    alice.write("b", "value of b", policy="by_handle")
    one = talk()
    one.messages.append({"role": "user", "content": "read both"})
    for said in (call("mem_read", slot="a"), call("mem_read", slot="b"), "Both read."):
        one.prepare()
        one.messages += one.absorb(said).messages
    one.turn("Thanks", "Welcome.")
    assert sum("Both read." in flat(message) for message in one.last) == 1
    assert sum("a was read here" in flat(message) for message in one.last) == 1


def test_messages_may_be_added_up_with_text_actions(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("a", "value of a", policy="by_handle")
    one = talk(actions="text")
    one.messages.append({"role": "user", "content": "read both"})
    for said in ('{"action":"mem_read","slot":"a"}', '{"action":"mem_read","slot":"b"}', "One read."):
        one.prepare()
        one.messages += one.absorb(said).messages
    one.turn("Thanks", "Welcome.")
    assert sum("a was read here" in flat(message) for message in one.last) == 1
    assert sum("not found: b" in flat(message) for message in one.last) == 1


@pytest.mark.illegal
def test_ids_may_come_again_in_later_turns(talk: NewTalk, wire: Wire, alice: BoundScope) -> None:
    one = talk(tools=[tool("search", wire)])
    one.illegal = AGAIN[wire]
    for number in (1, 2, 3):
        one.turn(f"Look {number}", call("search", "call_1", text=str(number)))
        one.messages += result(wire, ("call_1", f"found {number}"))
        one.go(f"Found {number}.")
        one.turn(f"Save {number}", call("mem_write", "call_2", slot=f"n{number}", value=str(number)), "Saved.")
    assert [f"found {number}" in one.sent for number in (1, 2, 3)] == [True] * 3
    assert [f"saved n{number} v1" in one.sent for number in (1, 2, 3)] == [True] * 3
    assert alice.slots.snapshot() == {"n1": "1", "n2": "2", "n3": "3"}


def test_the_same_word_twice_is_two_turns(talk: NewTalk) -> None:
    one = talk()
    one.turn("yes", "ok")
    one.turn("yes", "ok")
    record = one.session.record
    assert record is not None
    assert record.turn == 2
    assert len(one.session.journal()) == 4


def test_an_edit_is_a_branch(talk: NewTalk) -> None:
    one = talk()
    one.turn("My number is 5", "Noted.")
    one.turn("Double it", "10.")
    one.messages[2] = {"role": "user", "content": "Triple it"}
    del one.messages[3:]
    one.go("15.")
    assert "Double it" not in one.sent
    assert [entry.message["content"] for entry in one.session.journal() if entry.kind == "user"] == [
        "My number is 5",
        "Double it",
        "Triple it",
    ]


@pytest.mark.illegal
def test_the_same_call_in_two_turns_stays_two_after_an_edit(talk: NewTalk, alice: BoundScope, wire: Wire) -> None:
    alice.write("plan", "walk", policy="by_handle")
    one = talk()
    one.illegal = AGAIN[wire]
    for number in (1, 2):
        one.turn(f"Read {number}", call("mem_read", "m1", slot="plan"), "Walk.")
    second = next(at for at, message in enumerate(one.messages) if "Read 2" in flat(message))
    one.messages[second] = {"role": "user", "content": "Read it now"}
    one.turn("Thanks", "Welcome.")
    assert (
        sum(
            "mem_read" in flat(message)
            for message in one.last
            if message.get("role") == "assistant" or "call_id" in message
        )
        == 2
    )


def test_a_call_that_was_not_run_keeps_its_answer_behind_an_edit(talk: NewTalk, wire: Wire) -> None:
    one = talk()
    one.turn("Hello", "Hi.")
    reply = one.turn("Look", calls(call("look", "c1", text="x"), call("look", "c2", text="[[mem:nobody]]")))
    assert [each.call_id for each in reply.tool_calls] == ["c1"]
    one.messages += result(wire, ("c1", "fine"))
    one.go("Seen.")
    one.messages[0] = {"role": "user", "content": "Good day"}
    one.requests.clear()
    one.turn("Thanks", "Welcome.")
    assert "not run: " in one.sent


def test_absorbing_once_more_changes_nothing(talk: NewTalk, wire: Wire, alice: BoundScope) -> None:
    one = talk()
    one.messages.append({"role": "user", "content": "Save two things, forget one"})
    alice.write("old", "what was")
    one.prepare()
    said = as_reply(
        calls(call("mem_write", slot="n", value="1"), call("mem_forget", slot="old"), call("mem_search", query="n")),
        wire,
    )
    first = one.session.absorb(copy.deepcopy(said))
    record, events = one.session.record, alice.events()
    again = one.session.absorb(copy.deepcopy(said))
    assert again == first
    elsewhere = alice.session("s1", model=MODELS[wire], wire=wire).absorb(copy.deepcopy(said))
    assert elsewhere == first
    assert one.session.record == record
    assert alice.events() == events
    assert [version.version for version in alice.slots.history("n")] == [1]
    assert len(one.session.ledger()) == 1


def test_a_second_call_at_the_same_time_is_a_conflict(alice: BoundScope) -> None:
    session = alice.session("s1", model="gpt-4o-mini")
    inner: list[BaseException] = []

    class Odd:
        def model_dump(self, **_: object) -> dict[str, object]:
            try:
                session.prepare([{"role": "user", "content": "in between"}])
            except ConflictError as exc:
                inner.append(exc)
            return {"role": "user", "content": "hello"}

    session.prepare([Odd()])
    assert len(inner) == 1
    assert "s1" in str(inner[0])


def test_absorb_before_prepare_says_what_to_do(talk: NewTalk) -> None:
    with pytest.raises(UsageError, match="prepare"):
        talk().absorb("hello")


@pytest.mark.parametrize("messages", [[], [{"role": "robot", "content": "x"}], ["text"], [3]])
def test_messages_that_are_none_are_refused(talk: NewTalk, messages: list[object]) -> None:
    one = talk()
    with pytest.raises(UsageError):
        one.session.prepare(messages)
    assert one.session.record is None


def test_streams_are_refused(talk: NewTalk) -> None:
    one = talk()
    one.messages.append({"role": "user", "content": "x"})
    one.prepare()
    with pytest.raises(offprompt.UnsupportedError, match="stream"):
        one.session.absorb(iter([]))
