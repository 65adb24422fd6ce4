from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offprompt.recall.analysis import search_terms
from offprompt.recall.docs import Doc, Found, Query, analyse
from offprompt.recall.scope_index import ScopeIndex
from offprompt.recall.when import time_named

DAY = 86400.0
NOW = datetime(2024, 5, 15, 12, tzinfo=UTC).timestamp()  # a Wednesday


def window_of(text: str, now: float, zone: tzinfo) -> tuple[float, float] | None:
    named = time_named(text, now, zone)
    return None if named is None else named.window


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("What did I do last week?", "2024-05-06", "2024-05-13"),
        ("Where was she in May 2023?", "2023-05-01", "2023-06-01"),
        ("What happened yesterday?", "2024-05-14", "2024-05-15"),
        ("Where did I hike last weekend?", "2024-05-11", "2024-05-13"),
        ("上周末我去了哪里？", "2024-05-11", "2024-05-13"),
        ("Who came on 8 March 2024?", "2024-03-08", "2024-03-09"),
        ("What did we plan in 2022?", "2022-01-01", "2023-01-01"),
        ("我上周做了什么？", "2024-05-06", "2024-05-13"),
        ("去年三月她在哪里？", "2023-03-01", "2023-04-01"),
        ("昨天谁来了", "2024-05-14", "2024-05-15"),
        ("2023年5月8日发生了什么", "2023-05-08", "2023-05-09"),
    ],
)
def test_time_words_are_windows(text: str, since: str, until: str) -> None:
    window = window_of(text, NOW, UTC)
    assert window is not None
    assert [datetime.fromtimestamp(end, UTC).date().isoformat() for end in window] == [since, until]


@pytest.mark.parametrize("text", ["What may I eat?", "她喜欢什么？", "Yesterday was great. Who won?", ""])
def test_no_time_is_asked_for(text: str) -> None:
    assert window_of(text, NOW, UTC) is None


def test_days_begin_where_the_user_lives() -> None:
    east = timezone(timedelta(hours=8))
    there, here = window_of("yesterday?", NOW, east), window_of("yesterday?", NOW, UTC)
    assert there is not None
    assert here is not None
    assert here[0] - there[0] == 8 * 3600


@pytest.mark.parametrize("question", ["What did I do last week?", "我上周做了什么？"])
def test_what_happened_then_is_found_without_a_common_word(question: str) -> None:
    made = ScopeIndex()
    for name, day in (("then", 8), ("now", 14)):
        at = datetime(2024, 5, day, tzinfo=UTC).timestamp()
        made.add([Doc(doc_id=name, content=analyse("Swam in the lake"), event_at=at)])
    found = made.search(Query(text=question, now=NOW))
    assert [hit.doc_id for hit in found.hits] == ["then"]
    assert found.window == window_of(question, NOW, UTC)
    assert found.held


@pytest.mark.parametrize(
    ("text", "alone", "words", "rest"),
    [
        ("What did I do last week?", True, ["last", "week"], ["last", "week"]),
        ("Who painted last week?", False, ["paint"], ["paint"]),
        ("Who painted in May 2023?", False, ["paint", "may", "2023"], ["paint"]),
        (
            "We rested yesterday. Who painted last week?",
            False,
            ["rest", "yesterday", "paint"],
            ["rest", "yesterday", "paint"],
        ),
        ("2024-03-08 painting?", False, ["2024", "03", "08", "paint"], ["paint"]),
        ("今天天气？", False, ["天", "气", "天气"], ["天", "气", "天气"]),
        ("我上周做了什么？", True, search_terms("我上周做了什么？"), search_terms("我上周做了什么？")),
    ],
)
def test_what_is_asked_beside_the_time(text: str, alone: bool, words: list[str], rest: list[str]) -> None:
    named = time_named(text, NOW, UTC)
    assert named is not None
    assert named.alone is alone
    assert [search_terms(named.words), search_terms(named.rest)] == [words, rest]


def asked(question: str, *said: tuple[str, float], **rest: Any) -> Found:
    """The answer of texts that were said so many days before now, named by their places."""
    made = ScopeIndex()
    times = [NOW - ago * DAY for _, ago in said]
    made.add(
        Doc(doc_id=str(at), content=analyse(text, event_at=time), event_at=time)
        for at, ((text, _), time) in enumerate(zip(said, times, strict=True))
    )
    return made.search(Query(text=question, now=NOW, **rest))


def ids(found: Found) -> list[str]:
    return [hit.doc_id for hit in found.hits]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("今天天气怎么样", ("我吃了面", "今天很累")),
        ("How is the weather today?", ("I had noodles", "I am tired today")),
        ("Which violin was repaired on 15 May 2024?", ("I had noodles", "Ann is tired")),
        ("2024年5月15日谁修了小提琴", ("我吃了面", "她很累")),
    ],
)
def test_a_time_alone_lifts_nothing_over_the_floor(question: str, said: tuple[str, ...]) -> None:
    found = asked(question, *((text, 0.1) for text in said))
    assert (ids(found), found.held) == ([], False)
    assert found.window is not None


@pytest.mark.parametrize(
    ("question", "text", "beside"),
    [
        ("Who repaired the violin last week?", "Ann repaired the violin", "We ate fish"),
        ("上周谁修了小提琴？", "安修了小提琴", "我们吃了鱼"),
    ],
)
def test_what_happened_then_comes_before_better_words_of_another_time(question: str, text: str, beside: str) -> None:
    found = asked(question, (text, 40), (text + ", " + beside, 7), (beside, 7))
    assert (ids(found), found.held) == (["1", "0"], True)
    away = asked(question, (text, 40), (beside, 7))
    assert (ids(away), away.held) == (["0"], False)


def test_a_date_that_nothing_happened_at_is_looked_for_in_the_texts() -> None:
    found = asked("Which trips are on 8 March 2024?", ("We plan the tour for 8 March 2024", 200), ("I like tea", 200))
    assert (ids(found), found.held) == (["0"], False)


def test_where_only_the_time_is_asked_for_all_else_is_no_hit() -> None:
    found = asked("What did I do last week?", ("Last week I swam", 40), ("Rain", 7), ("Sun", 1))
    assert (ids(found), found.held) == (["1"], True)
    nothing = asked("What did I do last week?", ("Last week I swam", 40), ("Sun", 1))
    assert (ids(nothing), nothing.held) == (["0"], False)


TEXTS = st.sampled_from(["red tea", "tea today", "今天喝茶", "rain", "下雨了", "last week tea", "8 May 2024"])
QUESTIONS = st.sampled_from(["red tea last week?", "今天喝茶吗", "rain on 8 May 2024?", "上周下雨了吗", "tea today?"])


@settings(deadline=None, max_examples=100)
@given(QUESTIONS, st.lists(st.tuples(TEXTS, st.integers(0, 30)), max_size=6), st.sampled_from([0.1, 0.3, 0.6]))
def test_no_named_time_breaks_the_floor(question: str, said: list[tuple[str, int]], floor: float) -> None:
    found = asked(question, *said, floor=floor)
    named = time_named(question, NOW, UTC)
    assert named is not None
    for hit in found.hits:
        text, ago = said[int(hit.doc_id)]
        then = named.window[0] <= NOW - ago * DAY < named.window[1]
        wanted = set(search_terms(named.rest if found.held or then else named.words))
        assert hit.evidence >= floor
        assert wanted & set(analyse(text, event_at=NOW - ago * DAY).terms)
