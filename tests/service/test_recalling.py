"""What comes back of the turns that left: within its budget, for one turn, without secrets, and only if referred to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import offprompt
from offprompt.service.bound import BoundScope
from offprompt.testing import MovedClock
from tests.service.dialogues import SMALL_TALK, Language
from tests.service.talk import MODELS, Talk, Wire, call, calls, flat, messages_of, result

SECRET = "sk-live-4f9Qz7LmR2tXw8"  # noqa: S105 - made up
Small = Callable[..., Talk]


@pytest.fixture
def small(wire: Wire) -> Small:
    """`small(recall_tokens=…)`: a talk whose window holds few turns."""

    def new(**settings: Any) -> Talk:
        sizes: dict[str, Any] = {"window_high_tokens": 420, "window_low_tokens": 220, **settings}
        return in_scope(offprompt.open(":memory:", clock=MovedClock(), **sizes).scope(user="ada"), wire)

    return new


def in_scope(scope: BoundScope, wire: Wire) -> Talk:
    return Talk(scope.session("s1", model=MODELS[wire], policy="window", wire=wire), wire)


def chat(one: Talk, language: Language = "en") -> None:
    """Turns of something else, so many that all before them leave."""
    for user, answer in SMALL_TALK[language]:
        one.turn(user, answer)


def shown(one: Talk) -> list[tuple[str, str]]:
    record = one.session.record
    assert record is not None
    return [(each.name, each.why) for each in record.shown]


def test_it_stands_in_the_frame_with_speaker_turn_and_date(small: Small) -> None:
    one = small()
    one.turn("The gate code of the Plover yard is 5-1-9.", "Noted: 5-1-9.")
    chat(one)
    one.turn("What is the gate code of the Plover yard?", "5-1-9.")
    frame = one.sent.rpartition("<memory ")[2]
    assert "(user, turn 1, 2027-01-15): The gate code of the Plover yard is 5-1-9." in frame
    assert "(assistant, turn 1, 2027-01-15): Noted: 5-1-9." in frame
    assert {why for _, why in shown(one)} == {"recall"}


def test_its_tokens_are_counted_as_shown(small: Small) -> None:
    one = small()
    one.turn("The gate code of the Plover yard is 5-1-9.", "Noted.")
    chat(one)
    one.turn("What is the gate code of the Plover yard?", "5-1-9.")
    entry = one.session.ledger()[-1]
    recalled = [each for each in entry.shown if each.why == "recall"]
    assert len(recalled) == 2
    assert 0 < sum(each.tokens for each in recalled) <= entry.parts["shown"].tokens


def test_slots_come_first_and_share_the_frame(small: Small) -> None:
    one = small()
    one.turn("At the Alcova hotel I booked room 31.", call("mem_write", slot="user_name", value="Ada Okafor"), "Yes.")
    chat(one)
    one.turn("What is my name, and which room did I book at the Alcova hotel?", "Ada, 31.")
    frame = one.sent.rpartition("<memory ")[2]
    assert frame.index("Ada Okafor") < frame.index("room 31")


def test_what_the_turns_budget_does_not_hold_stays_away(small: Small) -> None:
    one = small(shown_tokens=12)
    one.turn("The gate code of the Plover yard is 5-1-9.", "Noted.")
    chat(one)
    one.turn("What is the gate code of the Plover yard?", "No record.")
    assert shown(one) == []


@pytest.mark.parametrize("tokens", [70, 110, 160])
def test_no_more_than_recall_tokens(small: Small, tokens: int) -> None:
    one = small(recall_tokens=tokens)
    for number in range(4):
        one.turn(f"Plover yard, gate {number}: the code is 5-1-{number}, ask for the warden there.", "Noted, warden.")
    chat(one)
    one.turn("As I said, the Plover yard has gates with a warden. Which codes?", "These.")
    record = one.session.record
    assert record is not None
    assert 0 < sum(each.tokens for each in record.shown) <= tokens


def test_it_is_frozen_for_the_turn_and_gone_after_it(small: Small) -> None:
    one = small()
    one.turn("The gate code of the Plover yard is 5-1-9.", "Noted.")
    chat(one)
    one.turn("What is the gate code of the Plover yard?", call("mem_write", slot="note", value="x"), "It is known.")
    assert flat(one.requests[-1]).count("is 5-1-9.") == flat(one.requests[-2]).count("is 5-1-9.") == 1
    one.turn("thanks", "You are welcome.")
    assert "5-1-9" not in one.sent
    assert shown(one) == []


def test_a_request_that_is_prepared_again_is_the_same(small: Small) -> None:
    one = small()
    one.turn("The gate code of the Plover yard is 5-1-9.", "Noted.")
    chat(one)
    one.messages.append({"role": "user", "content": "What is the gate code of the Plover yard?"})
    first = one.prepare()
    assert messages_of(one.prepare()) == messages_of(first)


@pytest.mark.parametrize(
    "text",
    [
        "thanks",
        "ok",
        "Yes, please go on.",
        "Great, that helps a lot!",
        "What is 17 times 23?",
        "What is the capital of Mongolia?",
        "Write a short poem about rain.",
        "no",
    ],
)
def test_words_that_refer_to_nothing_bring_nothing_back(small: Small, text: str) -> None:
    one = small()
    one.turn("The gate code of the Plover yard is 5-1-9, and my sister Imke is allergic to sesame.", "Noted.")
    chat(one)
    one.turn(text, "Good.")
    assert shown(one) == []


@pytest.mark.parametrize(
    "text", ["好的", "谢谢", "嗯", "没问题，继续吧", "蒙古的首都是哪里？", "写一首关于雨的短诗", "17乘以23是多少？"]
)
def test_chinese_words_that_refer_to_nothing_bring_nothing_back(small: Small, text: str) -> None:
    one = small()
    one.turn("鸻鸟巷院子的门禁密码是五一九，我妹妹小雨对芝麻过敏。", "记下了。")
    chat(one, "zh")
    one.turn(text, "好。")
    assert shown(one) == []


def test_chinese_lines_say_speaker_and_turn_in_chinese(small: Small) -> None:
    one = small()
    one.turn("鸻鸟巷院子的门禁密语是五一九。", "记下了。")
    chat(one, "zh")
    one.turn("鸻鸟巷院子的门禁密语是什么？", "五一九。")
    assert "(用户，第 1 轮, 2027-01-15): 鸻鸟巷院子的门禁密语是五一九。" in one.sent


def test_what_still_stands_in_the_request_does_not_come_twice(small: Small) -> None:
    one = small()
    one.turn("An old note: the Plover yard gate is painted green.", "Green.")
    chat(one)
    one.turn("The gate code of the Plover yard is 5-1-9.", "Noted.")
    one.turn("What is the gate code of the Plover yard?", "5-1-9.")
    assert shown(one) == []


def test_zero_switches_it_off(small: Small) -> None:
    one = small(recall_tokens=0)
    one.turn("The gate code of the Plover yard is 5-1-9.", "Noted.")
    chat(one)
    one.turn("I told you the gate code of the Plover yard before. What is it?", "No record.")
    assert "5-1-9" not in one.sent


def test_only_the_turns_of_its_own_branch_come_back(small: Small) -> None:
    one = small()
    one.turn("The gate code of the Plover yard is 5-1-9.", "Noted.")
    kept = list(one.messages)
    kept[0] = {"role": "user", "content": "The gate code of the Plover yard is 7-7-7."}
    chat(one)
    one.messages = kept
    one.requests.clear()
    chat(one)
    one.turn("What is the gate code of the Plover yard?", "7-7-7.")
    assert "7-7-7" in one.sent
    assert "5-1-9" not in one.sent


def test_secrets_come_back_as_handles(small: Small) -> None:
    one = small()
    one.turn(
        f"The staging deploy key for the heron cluster is {SECRET}.",
        call("mem_write", slot="api_key", value=SECRET),
        "Saved.",
    )
    chat(one)
    one.turn("What did I tell you about the staging deploy key for the heron cluster?", "It is stored.")
    frame = one.sent.rpartition("<memory ")[2]
    assert "heron cluster" in frame
    assert SECRET not in one.sent


def test_forgotten_words_stay_forgotten(small: Small) -> None:
    one = small()
    one.turn(
        "My home address is Plover Lane 12, the green door.",
        call("mem_write", slot="address", value="Plover Lane 12"),
        "Ok.",
    )
    one.turn("Forget the address.", call("mem_forget", slot="address"), "Forgotten.")
    chat(one)
    one.turn("What did I tell you about the green door?", "Nothing.")
    assert "green door" in one.sent.rpartition("<memory ")[2]
    assert "Plover Lane 12" not in one.sent


def test_search_and_read_mask_forgotten_words_too(small: Small) -> None:
    one = small(recall_tokens=0)
    one.turn(
        "My home address is Plover Lane 12, the green door.",
        call("mem_write", slot="address", value="Plover Lane 12"),
        "Ok.",
    )
    one.turn("Forget the address.", call("mem_forget", slot="address"), "Forgotten.")
    chat(one)
    one.turn("Look.", call("mem_search", query="green door"), "Nothing.")
    assert "green door" in one.sent
    assert "Plover Lane 12" not in one.sent


def test_a_tools_words_taint_the_turn(small: Small, wire: Wire) -> None:
    one = small()
    one.messages.append({"role": "user", "content": "Which platform has the Basel train?"})
    one.go(call("find_train", "c1", to="Basel"))
    one.messages += result(wire, ("c1", "Basel train: platform 14b, heron coach"))
    one.go("I have it.")
    chat(one)
    one.turn(
        "Which platform is it for the Basel train with the heron coach?",
        call("mem_write", slot="note", value="14b"),
        "14b.",
    )
    assert "(tool, turn 1" in one.sent
    record = one.session.record
    assert record is not None
    assert record.tainted


def test_our_own_answers_do_not_come_back(small: Small) -> None:
    one = small()
    one.turn("Read the plan.", calls(call("mem_read", slot="quarterly_plan")), "There is none.")
    chat(one)
    one.turn("What did you say before about the quarterly plan?", "Nothing.")
    assert "not found: quarterly_plan" not in one.sent.rpartition("<memory ")[2]


def test_a_value_of_a_slot_in_it_is_listed_as_shown(small: Small) -> None:
    one = small()
    one.turn(
        "The Plover yard gate opens with heron-519-b.",
        call("mem_write", slot="pass_phrase_note", value="heron-519-b"),
        "Ok.",
    )
    chat(one)
    one.turn("I told you before how the Plover yard gate opens. How?", "heron-519-b")
    assert ("pass_phrase_note", "in what was recalled") in shown(one) or "heron-519-b" not in one.sent


def test_the_rest_of_what_came_back_in_part_can_be_read(small: Small) -> None:
    one = small()
    plan = (
        "The Plover yard plan: "
        + "first sweep the yard, then count the crates, then oil the gate. " * 8
        + "End: heron."
    )
    one.turn(plan, "Noted.")
    chat(one)
    one.turn("What did I tell you about the Plover yard plan?", "It begins with sweeping.")
    assert "heron" not in one.sent
    name = next(name for name, why in shown(one) if why == "recall")
    one.turn("As I said, the Plover yard plan has an end. What is it?", call("mem_read", slot=name), "heron.")
    assert "End: heron." in one.sent
