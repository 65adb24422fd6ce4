"""What one session was told comes back in another where the user asks for it, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt import BackendError
from offprompt.records import Memory
from offprompt.service.bound import BoundScope
from offprompt.service.memory_recall import Recaller
from offprompt.testing import MovedClock
from tests.service.conftest import NewTalk
from tests.service.talk import MODELS, Talk, Wire, call, flat, result, tool

DAYS = 86400.0
FRAME = "<memory "


@pytest.fixture
def told(alice: BoundScope, talk: NewTalk, clock: MovedClock) -> BoundScope:
    """Alice told two things in a session three days ago."""
    one = talk("before")
    one.turn("My dog Bello broke his left paw at the lake.", "Poor Bello.")
    one.turn("We painted the kitchen in a dark shade of green.", "That must look fine.")
    clock.move(3 * DAYS)
    return alice


def test_a_name_is_known_three_days_and_a_restart_later(tmp_path: Path, wire: Wire) -> None:
    clock = MovedClock()
    for said, name, asked, other in (
        ("Hello, my name is Margarethe.", "Margarethe", "What is my name?", "What is your name?"),
        ("你好，我叫欧阳修远。", "欧阳修远", "我叫什么名字？", "你叫什么名字？"),
    ):
        file = tmp_path / f"{len(name)}.db"
        with offprompt.open(file, clock=clock) as mem:
            Talk(mem.scope(user="ann").session("s1", model=MODELS[wire], wire=wire), wire).turn(said, "Hello!")
        clock.move(3 * DAYS)
        with offprompt.open(file, clock=clock) as mem:
            one = Talk(mem.scope(user="ann").session("s2", model=MODELS[wire], wire=wire), wire)
            one.turn("Tell me of rain", "Gladly.")
            assert name not in one.sent
            one.turn(asked, f"{name}.")
            assert name in one.sent
            one.turn(other, "I have none.")
            assert FRAME not in flat(one.last[-1])
            one.turn("Thanks", "Gladly.")
            assert f": {name}" not in flat(one.last[:-3])


@pytest.mark.parametrize("asked", ["Which paw did my dog break?", "Where was it that my dog broke his paw?"])
def test_what_was_told_in_another_session_comes_back_for_a_question(
    told: BoundScope, talk: NewTalk, asked: str
) -> None:
    two = talk("after", scope=told)
    two.turn("Hello", "Hello.")
    assert FRAME not in two.sent
    two.turn(asked, "His left one.")
    assert "My dog Bello broke his left paw at the lake." in two.sent
    assert "kitchen" not in two.sent
    shown = [each for each in two.session.ledger()[-1].shown if each.why == "recall"]
    assert shown
    assert all(each.name.startswith("m_") for each in shown)
    two.turn("Thanks.", "Gladly.")
    assert "left paw" not in flat([each for each in two.last if FRAME in flat(each)])


def test_the_same_in_chinese(alice: BoundScope, talk: NewTalk) -> None:
    talk("before").turn("我家的狗豆豆在湖边摔断了左前腿。", "可怜的豆豆。")
    two = talk("after", scope=alice)
    two.turn("我家的狗摔断了哪条腿？", "左前腿。")
    assert "豆豆在湖边摔断了左前腿" in two.sent
    two.turn("谢谢", "不客气。")
    assert FRAME not in flat(two.last[-1])


@pytest.mark.parametrize(
    "said",
    [
        "Write a poem on a dog with a broken paw.",
        "How can I teach a dog to give its paw?",
        "Can you tell me about lakes?",
        "The dog barks.",
        "ok",
        "What is the capital of Peru?",
        "What is my shoe size?",
    ],
)
def test_nothing_comes_back_for_words_that_ask_for_nothing_told(told: BoundScope, talk: NewTalk, said: str) -> None:
    two = talk("after", scope=told)
    two.turn(said, "Gladly.")
    assert FRAME not in two.sent


def test_what_still_stands_in_the_request_does_not_come_back(talk: NewTalk) -> None:
    one = talk()
    one.turn("My dog Bello broke his left paw at the lake.", "Poor Bello.")
    one.turn("Which paw did my dog break?", "His left one.")
    assert one.sent.count("left paw") == 1


def test_another_user_is_told_nothing(told: BoundScope, talk: NewTalk) -> None:
    del told
    with offprompt.open(":memory:") as mem:
        two = talk("after", scope=mem.scope(user="bob"))
        two.turn("Which paw did my dog break?", "I do not know.")
        assert FRAME not in two.sent


def test_a_secret_in_what_was_said_stays_hidden(alice: BoundScope, talk: NewTalk) -> None:
    talk("before").turn("My locker at the pool opens with the code heron-4711-blue.", "I see.")
    alice.write("locker", "heron-4711-blue", policy="never")
    two = talk("after", scope=alice)
    two.turn("Which code did my locker at the pool open with?", "I may not say.")
    assert FRAME in two.sent
    assert "heron" not in two.sent
    two.turn("Search", call("mem_search", query="locker pool code"), "Nothing.")
    assert "heron" not in two.sent


def test_what_a_tool_said_taints_the_turn_it_comes_back_in(alice: BoundScope, talk: NewTalk, wire: Wire) -> None:
    one = talk("before", tools=[tool("look", wire)])
    asked = one.turn("Look for the ferry", call("look", "c1", text="ferry"))
    one.messages += result(wire, (asked.tool_calls[0].call_id, "Pier 9."))
    one.go("The ferry to Bornholm leaves from pier 9 at noon.")
    two = talk("after", scope=alice)
    two.turn(
        "From which pier did my ferry to Bornholm leave?", call("mem_write", "w1", slot="pier", value="9"), "Pier 9."
    )
    assert "pier 9 at noon" in two.sent
    slot = alice.slots.get("pier")
    assert slot is not None
    assert slot.trust == "tool"


def test_the_recalled_is_frozen_for_the_turn_and_counts_as_used(told: BoundScope, talk: NewTalk) -> None:
    two = talk("after", scope=told)
    two.turn("Which paw did my dog break?", call("mem_read", "r1", slot="nothing"), "His left one.")
    first, second = two.requests[-2:]
    assert flat(first).count("left paw") == flat(second).count("left paw") == 1
    used = {memory.text: memory.uses for memory in _all(told)}
    assert used["My dog Bello broke his left paw at the lake."] == 1


def _all(scope: BoundScope) -> tuple[Memory, ...]:
    return scope.memories.list().memories


def test_trouble_with_memories_costs_no_request(
    told: BoundScope, talk: NewTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recaller, "recall", _fails)
    two = talk("after", scope=told)
    reply = two.turn("Which paw did my dog break?", "I do not know.")
    assert any("were not searched" in warning for warning in reply.warnings)


def _fails(*_: object) -> object:
    raise BackendError("the disk is full")


def test_no_recall_with_no_tokens_for_it(clock: MovedClock, wire: Wire) -> None:
    with offprompt.open(":memory:", clock=clock, recall_tokens=0) as mem:
        ann = mem.scope(user="ann")
        Talk(ann.session("s1", model=MODELS[wire], wire=wire), wire).turn("My dog broke his left paw.", "Poor dog.")
        two = Talk(ann.session("s2", model=MODELS[wire], wire=wire), wire)
        two.turn("Which paw did my dog break?", "I do not know.")
        assert FRAME not in two.sent


def test_a_search_finds_memories_which_can_be_read_and_forgotten(told: BoundScope, talk: NewTalk) -> None:
    two = talk("after", scope=told)
    memory = next(each for each in _all(told) if "paw" in each.text and each.role == "user")
    two.turn("Search it", call("mem_search", "q1", query="dog paw lake"), "Found.")
    found = next(receipt for reply in two.replies for receipt in reply.receipts if receipt.action == "mem_search")
    assert memory.memory_id in found.shown
    two.turn("Read it", call("mem_read", "r1", slot=memory.memory_id), "Read.")
    assert memory.text in flat(two.requests[-1])
    reply = two.turn("Say it", f"You said: [[mem:{memory.memory_id}]]")
    assert reply.text == f"You said: {memory.text}"
    two.turn("Forget it", call("mem_forget", "f1", slot=memory.memory_id), "Forgotten.")
    assert memory.memory_id not in [each.memory_id for each in _all(told)]
    assert told.memories.undo(memory.memory_id) == 2  # with the fact that was read in it


def test_a_memory_of_someone_else_is_not_there(told: BoundScope, talk: NewTalk) -> None:
    two = talk("after", scope=told)
    reply = two.turn("Read", call("mem_read", "r1", slot="m_00000000000000000000000000"), "Nothing.")
    del reply
    assert "not found: m_0000" in two.sent


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_search_that_the_turns_budget_bears_no_more_does_not_say_that_nothing_is_there(language: str) -> None:
    """Seen red: found, but not shown, was answered "nothing found"."""
    told, asked = {
        "en": ("My locker at the pool has the code 4417-B", "Search it twice"),
        "zh": ("我在游泳馆的储物柜密码是 4417-B", "搜索两次"),
    }[language]
    with offprompt.open(":memory:", shown_tokens=50, recall_tokens=0, language=language) as memory:
        memory.scope(user="u").remember(told)
        one = Talk(memory.scope(user="u").session("s", model="gpt-4o-mini"), "openai")
        one.turn(asked, *[call("mem_search", query=told)] * 2, call("mem_search", query="zzzz qqqq"), "Well.")
    first, second, third = [each for reply in one.replies for each in reply.receipts]
    assert "4417-B" in first.shown
    assert (second.ok, second.shown) == (False, "")
    assert {"en": "budget is used up", "zh": "额度已用完"}[language] in second.text
    assert {"en": "nothing found", "zh": "没有找到"}[language] in third.text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_of_what_left_and_fits_alike_a_search_finds_what_left_last(language: str) -> None:
    """Seen red: the oldest came first, and what an agent looks for next had hardly left."""
    ask, order, query = {
        "en": ("And the next customer, please.", "The reservation of customer {} is {}", "the reservation"),
        "zh": ("请处理下一位客户。", "客户 {} 的预订是 {}", "预订"),
    }[language]
    with offprompt.open(":memory:", recall_tokens=0, language=language, window_high_tokens=400) as memory:
        session = memory.scope(user="u").session("s", model="gpt-4o-mini", policy="window", capture="off")
        one = Talk(session, "openai")
        for number in range(30):
            one.turn(ask, order.format(number, f"RX{number:04}") + "。 " * 20)
        one.turn(ask, call("mem_search", query=query), "Well.")
        left = [number for number in range(30) if f"RX{number:04}" not in flat(one.requests[-2])]
    shown = next(each.shown for reply in one.replies for each in reply.receipts if each.action == "mem_search")
    assert [line.rsplit("RX", 1)[1][:4] for line in shown.splitlines()] == [f"{at:04}" for at in left[:-6:-1]]
