"""What a conversation gives: whose it is, when it was, what replaces what, and what is not derived at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from offprompt.recall.derive import Derived, Turn, derive

SAID_AT = datetime(2023, 5, 10, 12, tzinfo=UTC).timestamp()  # a Wednesday


def of(text: str, *, speaker: str = "", zone: timezone = UTC) -> list[Derived]:
    return derive([Turn("t1", text, speaker=speaker, at=SAID_AT)], SAID_AT, zone=zone)


def one_of(text: str, *, speaker: str = "") -> Derived:
    found = of(text, speaker=speaker)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    "text",
    [
        "What is my name?",
        "Do I like hiking?",
        "If I lived in Paris, I would love cheese.",
        "Suppose my name is Bob and I live in Rome.",
        'She said "I love dogs".',
        "My boss said I hate work.",
        "I told him, and he said I love Rome.",
        "> I live in Rome",
        "```\nmy name is root\n```",
        "I love Mondays. Just kidding!",
        "Yeah right, I love Mondays",
        "I love Mondays 🙄",
        "I live on the moon /s",
        "I think I like tea.",
        "Maybe I live in Rome.",
        "As an AI, I live in the cloud.",
        "I love it. I love you. I hate this one.",
        "Please translate the following into French: I live in Rome and I love opera.",
        "Summarize this email\nI work at Acme. My name is Bob.",
        "I am allergic to nuts. Please rewrite this politely.",
        "Let's role-play. I am a doctor. I live in Narnia.",
        "把下面这段翻译成英文：我住在北京，我喜欢画画。",
        "我住在北京。帮我润色一下这句话。",
        "你扮演店员。我叫李雷。",
        "如果我住在巴黎就好了。",
        "他说我喜欢吃鱼。老师说，我是班长。",
        "「我叫小红」是书里的句子。",
        "我最爱加班了🙄",
        "我最爱加班了。开玩笑的。",
        "我可能会搬到杭州。",
        "你喜欢什么？我喜欢什么？",
        "我喜欢你。我喜欢这个。",
        "我梦见我住在北京。",
    ],
)
def test_what_is_no_fact_is_not_derived(text: str) -> None:
    assert of(text) == []


def test_a_question_after_a_statement_leaves_the_statement() -> None:
    assert one_of("I'm allergic to nuts, can you suggest a recipe?").value == "nuts"
    assert one_of("我对坚果过敏，你能推荐个菜谱吗？").value == "坚果"


def test_only_users_say_facts() -> None:
    turns = [Turn("a", "My name is Ada and I live in Rome.", role="assistant", at=SAID_AT)]
    assert derive(turns, SAID_AT) == []
    assert derive([Turn("t", "I live in Rome.", role="tool")], SAID_AT) == []


def test_who_it_is_about_is_kept() -> None:
    named, hates = of("My friend Jack hates football.")
    assert (named.subject, named.attribute, named.value) == ("user", "friend", "Jack")
    assert (hates.subject, hates.attribute, hates.value, hates.positive) == ("Jack", "likes", "football", False)
    assert hates.text == "The user's friend Jack hates football."
    assert one_of("My mom is a nurse.").subject == "mom"
    assert of("我朋友小张讨厌足球。")[1].subject == "小张"
    assert one_of("我妈妈对海鲜过敏。").subject == "妈妈"


def test_what_others_are_fills_no_slot_of_the_user() -> None:
    for text in ("My mom lives in Rome.", "My friend Jack is a doctor.", "我爸爸是医生。", "我女儿今年五岁。"):
        assert {one.slot for one in of(text)} == {""}


def test_a_speaker_is_named() -> None:
    fact = one_of("I love my new painting class.", speaker="Caroline")
    assert (fact.subject, fact.text) == ("Caroline", "Caroline loves their new painting class.")
    assert one_of("我喜欢我的新书包。", speaker="Lisa").text == "Lisa喜欢自己的新书包。"


def test_names_of_user_and_agent_are_apart() -> None:
    me, you = of("My name is Sam. I'll call you Max.")
    assert (me.slot, me.subject, me.key) == ("user_name", "user", "name")
    assert (you.slot, you.subject, you.key) == ("agent_name", "agent", "name")
    me, you = of("我叫李雷，以后就叫你小爱吧。")
    assert (me.slot, me.value) == ("user_name", "李雷")
    assert (you.slot, you.value) == ("agent_name", "小爱")


def test_of_some_attributes_one_holds_and_of_others_many() -> None:
    first, second = of("I live in Berlin. I moved to Munich.")
    assert first.effect == second.effect == "replaces"
    assert first.key == second.key == "home"
    tea, jazz = of("I love tea. I love jazz.")
    assert tea.effect == jazz.effect == "adds"
    assert tea.key != jazz.key


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I live in Berlin.", "I no longer live in Berlin."),
        ("I love coffee.", "I don't like coffee anymore."),
        ("我喜欢咖啡。", "我不再喜欢咖啡了。"),
        ("我住在上海。", "我已经不住在上海了。"),
    ],
)
def test_what_ends_has_the_key_of_what_it_ends(before: str, after: str) -> None:
    held, ended = one_of(before), one_of(after)
    assert ended.effect == "ends"
    assert not ended.positive
    assert ended.key == held.key


def test_a_dislike_has_the_key_of_the_like() -> None:
    assert one_of("I love tea.").key == one_of("I hate tea.").key


def test_wishes_are_cards() -> None:
    wishes = [
        *of("Please answer in Chinese. Keep your answers short. Please don't ever call me at night."),
        *of("以后都用英文回答。回答尽量简短。晚上十点以后不要给我打电话。"),
    ]
    assert [wish.slot for wish in wishes] == ["language", "reply_style", "wishes"] * 2
    assert {wish.policy for wish in wishes} == {"card"}
    assert one_of("I love tea.").policy is None


def test_a_short_answer_has_both_turns_as_source() -> None:
    turns = [Turn("q", "Nice! What's your name?", role="assistant", at=SAID_AT), Turn("a", "Sam", at=SAID_AT)]
    (name,) = derive(turns, SAID_AT)
    assert [quote.turn_id for quote in name.quotes] == ["a", "q"]


def test_what_is_to_be_remembered_is_derived_by_its_own_rule_if_there_is_one() -> None:
    assert one_of("Please remember that I'm allergic to peanuts.").rule == "en.allergy"
    assert one_of("请记住，我对海鲜过敏。").rule == "zh.allergy"
    assert one_of("Remember that my locker code is blue.").text == "The user's locker code is blue."


def test_mixed_languages() -> None:
    name, home = of("Hi，我叫 Sam，I live in Shanghai。")
    assert (name.slot, name.value) == ("user_name", "Sam")
    assert (home.slot, home.value) == ("home", "Shanghai")
    tea, work = of("I love 奶茶 and 我在 Google 工作。")
    assert (tea.value, work.value) == ("奶茶", "Google")


def test_one_language_may_be_asked_for() -> None:
    turns = [Turn("t", "我叫 Sam。I live in Shanghai.", at=SAID_AT)]
    assert [one.slot for one in derive(turns, SAID_AT, "en")] == ["home"]
    assert [one.slot for one in derive(turns, SAID_AT, "zh")] == ["user_name"]


def test_saying_it_twice_in_one_turn_derives_it_once() -> None:
    assert len(of("I love tea. I really do. I love tea!")) == 1


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("My brother and I are allergic to nuts.", "allergies"),
        ("We are vegan.", "diet"),
        ("My parents and I moved to Kyoto.", "home"),
        ("我们都对花生过敏。", "allergies"),
        ("我们都吃素。", "diet"),
    ],
)
def test_what_the_speaker_shares_with_others_fills_their_slot(text: str, slot: str) -> None:
    assert one_of(text).slot == slot


def test_the_zone_says_when_tomorrow_begins() -> None:
    text = "I'm going to visit my aunt tomorrow."
    east = timezone(timedelta(hours=13))
    (there,) = of(text, zone=east)
    (here,) = of(text)
    assert (there.event_at or 0) - (here.event_at or 0) == 86400 - 13 * 3600
    assert there.text == "The user is going to visit their aunt on 12 May 2023."


def test_a_turn_without_a_time_was_said_now() -> None:
    (plan,) = derive([Turn("t", "下个月我要去日本旅行。")], SAID_AT)
    assert (plan.event_at, plan.precision) == (datetime(2023, 6, 1, tzinfo=UTC).timestamp(), "month")


@pytest.mark.parametrize("text", ["I went camping last weekend.", "我上周末去了杭州。"])
def test_a_weekend_is_known_to_the_week_not_to_the_day(text: str) -> None:
    one = one_of(text)
    assert (one.event_at, one.precision) == (datetime(2023, 5, 1, tzinfo=UTC).timestamp(), "week")
    assert "6 May 2023" in one.text or "5月6日" in one.text


def test_a_date_of_a_thing_in_the_sentence_is_not_that_of_the_fact() -> None:
    one = one_of("I just finished a book that came out last year.")
    assert (one.rule, one.event_at, one.text) == (
        "en.event.just",
        None,
        "The user finished a book that came out in 2022.",
    )
    assert one_of("I painted that old shed last year.").precision == "year"
