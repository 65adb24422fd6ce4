from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from offprompt.errors import UsageError
from offprompt.recall.docs import Doc, Found, Query, Weights, analyse
from offprompt.recall.ranking import explain
from offprompt.recall.scope_index import ScopeIndex

PLAIN = Weights(recency=0, uses=0, importance=0, pinned=0)


def day(year: int, month: int, number: int, hour: int = 12) -> float:
    return datetime(year, month, number, hour, tzinfo=UTC).timestamp()


def unit(*values: float) -> NDArray[np.float32]:
    vector = np.array(values, np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def doc(doc_id: str, text: str, vector: NDArray[np.float32] | None = None, **rest: Any) -> Doc:
    content = analyse(text, speaker=rest.get("speaker", ""), event_at=rest.get("event_at"), vector=vector)
    return Doc(doc_id=doc_id, content=content, **rest)


def turns(*said: tuple[str, str], session: str = "s1") -> list[Doc]:
    return [
        doc(f"{session}:{at}", text, kind="episode", speaker=speaker, session=session, order=at)
        for at, (speaker, text) in enumerate(said)
    ]


def index(docs: Sequence[Doc], **rest: Any) -> ScopeIndex:
    made = ScopeIndex(**rest)
    made.add(docs)
    return made


def ids(found: Found) -> list[str]:
    return [hit.doc_id for hit in found.hits]


def ask(made: ScopeIndex, text: str, **rest: Any) -> list[str]:
    return ids(made.search(Query(text=text, **rest)))


FACTS = [
    doc("a", "The flight to Tokyo leaves at noon"),
    doc("b", "她五月搬到了上海"),
    doc("c", "My cat likes fish"),
    doc("d", "北京的冬天很冷"),
]


def test_words_find_in_english_and_chinese() -> None:
    made = index(FACTS)
    assert ask(made, "When does the flight leave?")[0] == "a"
    assert ask(made, "她搬到哪里了，上海吗？")[0] == "b"


def test_meaning_finds_where_no_word_matches() -> None:
    made = index([doc("cat", "My cat likes fish", unit(1, 0)), doc("car", "The car is red", unit(0, 1))])
    assert ask(made, "pets", vector=unit(1, 0.1)) == ["cat"]


def test_a_doc_without_a_vector_is_found_by_its_words() -> None:
    made = index([doc("one", "blue bicycle", unit(1, 0)), doc("two", "red bicycle")])
    assert set(ask(made, "bicycle", vector=unit(1, 0))) == {"one", "two"}
    assert ask(made, "red bicycle")[0] == "two"


def test_nothing_below_the_floor_and_it_says_how_many() -> None:
    made = index(FACTS)
    found = made.search(Query(text="the cat of my neighbour plays chess with robots in winter", floor=0.5))
    assert found.hits == ()
    assert (found.searched, found.below_floor) == (4, 1)
    assert made.search(Query(text="quantum chromodynamics", floor=0)).hits == ()


def test_an_empty_scope_has_no_hits() -> None:
    assert ScopeIndex().search(Query(text="anything")) == Found((), 0)


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ({"kinds": frozenset({"passage"})}, {"p"}),
        ({"ids": frozenset({"old", "unknown"})}, {"old"}),
        ({"as_of": 15.0}, {"old"}),
        ({"since": 150.0}, {"p"}),
        ({"until": 150.0}, {"old", "new"}),
    ],
)
def test_filters_hold_before_ranking(filters: dict[str, Any], left: set[str]) -> None:
    made = index(
        [
            doc("old", "tea in the garden", created_at=10, event_at=100),
            doc("new", "tea in the garden with tea", created_at=20, event_at=110),
            doc("p", "tea, a long passage", kind="passage", created_at=20, event_at=200),
        ]
    )
    assert set(ask(made, "tea", **filters, top_k=1)) <= left
    assert set(ask(made, "tea", **filters)) == left


def test_what_is_filtered_out_lends_nothing_to_its_neighbours() -> None:
    made = index(turns(("Ann", "Which instrument do you play?"), ("Bob", "Three, since May.")))
    assert ask(made, "instrument") == ["s1:0", "s1:1"]
    assert ask(made, "instrument", ids=frozenset({"s1:1"})) == []


def test_another_scope_changes_nothing() -> None:
    alone, beside = index(FACTS), index(FACTS)
    other = index([doc("x", "flight flight noon 上海"), doc("a", "the flight is cancelled")])
    before = alone.search(Query(text="the flight at noon"))
    other.remove("a")
    assert beside.search(Query(text="the flight at noon")) == before


def test_ties_go_by_id() -> None:
    made = index([doc(name, f"green tea {number}") for number, name in enumerate("cab")])
    assert ask(made, "green tea") == ["a", "b", "c"]


def test_the_same_words_again_leave_room_for_others() -> None:
    said = ["I like green tea", "I like GREEN tea.", "green tea is from China", "China: is green tea from?"]
    made = index([doc(name, text) for name, text in zip("abcd", said, strict=True)])
    found = made.search(Query(text="green tea"))
    assert (ids(found)[0], set(ids(found)), found.repeated) == ("a", {"a", "c", "d"}, 1)


def test_the_same_words_of_somebody_else_are_another_hit() -> None:
    made = index(turns(("Ann", "I like green tea"), ("Bob", "I like green tea")))
    assert set(ask(made, "green tea")) == {"s1:0", "s1:1"}


def test_who_answers_a_question_is_found_by_its_words() -> None:
    made = index(
        turns(
            ("Ann", "I went to the market with my brother."),
            ("Ann", "Which instrument does Bob play?"),
            ("Bob", "The cello, since May."),
            ("Ann", "The weather is good."),
        )
    )
    assert ask(made, "What instrument does Bob play?", weights=PLAIN)[0] == "s1:2"


def test_neighbours_count_in_logs_alone() -> None:
    facts = [msgspec.structs.replace(each, kind="fact") for each in turns(("Ann", "Which cello?"), ("Bob", "Three."))]
    assert ask(index(facts), "cello") == ["s1:0"]


def test_the_end_of_one_session_is_no_neighbour_of_the_next() -> None:
    made = index([*turns(("Ann", "Which cello?")), *turns(("Bob", "Three."), session="s2")])
    assert ask(made, "cello") == ["s1:0"]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What does Melanie like to paint?", "s1:1"),
        ("What does Mel like to paint?", "s1:1"),
        ("What does Caroline like to paint?", "s1:0"),
    ],
)
def test_the_speaker_who_is_asked_about_comes_first(question: str, first: str) -> None:
    made = index(turns(("Caroline", "I like to paint horses"), ("Melanie", "I like to paint sunsets")))
    assert ask(made, question)[0] == first


def test_chinese_names_are_seen_in_a_question() -> None:
    made = index(turns(("小明", "我喜欢画马"), ("小红", "我喜欢画日落")))
    assert ask(made, "小红喜欢画什么")[0] == "s1:1"


def test_i_is_the_one_who_asks() -> None:
    made = index(turns(("assistant", "The password is kept safe here"), ("user", "My password is kept safe here")))
    assert ask(made, "Where is my password?", speaker="user")[0] == "s1:1"
    assert ask(made, "我的 password 在哪？", speaker="user")[0] == "s1:1"


def test_parts_explain_the_score() -> None:
    made = index(turns(("Ann", "Which instrument do you play?"), ("Bob", "I play the cello")))
    for hit in made.search(Query(text="What does Bob play?", now=1.0)).hits:
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-5)
        assert all(hit.parts.values())
        assert len(list(explain(hit))) == len(hit.parts)


def test_newer_used_important_and_pinned_come_first_among_equals() -> None:
    names = ["e", "d", "c", "b", "a"]
    extra: list[dict[str, Any]] = [
        {},
        {"created_at": 9e6},
        {"uses": 100, "created_at": 9e6},
        {"importance": 1.0},
        {"pinned": True},
    ]
    made = index([doc(name, f"green tea {name}{name}", **each) for name, each in zip(names, extra, strict=True)])
    assert ask(made, "green tea", now=1e7) == ["a", "b", "c", "d", "e"]


def test_a_vector_of_another_size_changes_nothing() -> None:
    made = index([doc("a", "tea", unit(1, 0))])
    with pytest.raises(UsageError, match=r"\(3,\).*2 numbers"):
        made.add([doc("b", "tea", unit(1, 0, 0))])
    with pytest.raises(UsageError, match=r"\(3,\)"):
        made.search(Query(text="tea", vector=unit(1, 0, 0)))
    with pytest.raises(UsageError, match="top_k is 0"):
        made.search(Query(text="tea", top_k=0))
    assert ask(made, "tea") == ["a"]


def test_a_replaced_doc_is_found_by_its_new_text_only() -> None:
    made = index(FACTS)
    made.add([doc("c", "My dog likes bones")])
    assert (ask(made, "cat fish"), ask(made, "dog"), len(made)) == ([], ["c"], 4)


TEXTS = st.sampled_from(["tea", "green tea", "tea?", "red car", "红茶", "绿茶好喝吗", "the", "", "car car car"])
VECTORS = st.sampled_from([None, unit(1, 0), unit(0, 1), unit(1, 1)])
CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.none() | st.tuples(TEXTS, VECTORS, st.sampled_from(["fact", "episode"]), st.sampled_from("st")),
    ),
    max_size=24,
)


@settings(deadline=None, max_examples=150)
@given(CHANGES, st.sampled_from([1, 4096]))
def test_any_history_of_changes_equals_a_fresh_index(changes: list[Any], dead_least: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("offprompt.recall.scope_index.DEAD_LEAST", dead_least)
        patch.setattr("offprompt.recall.postings.PENDING_LEAST", 3)
        grown, kept = ScopeIndex(dimension=2), dict[str, Doc]()
        for order, (name, what) in enumerate(changes):
            if what is None:
                assert grown.remove(name) == (kept.pop(name, None) is not None)
                continue
            text, vector, kind, session = what
            one = doc(name, text, vector, kind=kind, speaker=session, session=session, order=order % 5)
            grown.add([one])
            kept[name] = one
        fresh = ScopeIndex(dimension=2)
        fresh.add(list(kept.values())[::-1])
        for text in ("green tea", "绿茶", "car?", "the"):
            query = Query(text=text, vector=unit(1, 0.5), floor=0, top_k=3)
            ours, theirs = grown.search(query), fresh.search(query)
            assert ids(ours) == ids(theirs)
            assert [hit.score for hit in ours.hits] == pytest.approx([hit.score for hit in theirs.hits], abs=2e-6)
        assert len(grown) == len(kept)


def parts_of(made: ScopeIndex, text: str, doc_id: str, **rest: Any) -> dict[str, float]:
    found = made.search(Query(text=text, floor=0, **rest))
    return next({**hit.parts} for hit in found.hits if hit.doc_id == doc_id)


def test_turns_beside_a_removed_one_become_neighbours() -> None:
    made = index(turns(("Ann", "Which cello?"), ("Ann", "Rain."), ("Bob", "Three.")))
    assert ask(made, "cello") == ["s1:0", "s1:1"]
    made.remove("s1:1")
    assert ask(made, "cello") == ["s1:0", "s1:2"]


def test_only_somebody_else_answers_a_question() -> None:
    said = ("Ann", "Which cello?")
    other, same = index(turns(said, ("Bob", "Three."))), index(turns(said, ("Ann", "Three.")))
    ours, theirs = (parts_of(made, "cello", "s1:1")["neighbour"] for made in (other, same))
    assert ours / theirs == pytest.approx(Weights().answer / Weights().follow, rel=1e-3)


def test_what_is_filtered_out_adds_to_no_part() -> None:
    made = index(turns(("Ann", "Which cello?"), ("Bob", "Three cello lessons.")))
    parts = parts_of(made, "cello which lessons", "s1:1", ids=frozenset({"s1:1"}))
    alone = parts_of(index(turns(("Bob", "Three cello lessons."))), "cello lessons", "s1:0")
    assert "neighbour" not in parts
    assert parts["session"] == pytest.approx(alone["session"], abs=0.05)


def test_without_a_query_vector_words_have_both_weights_and_repeats_count() -> None:
    made = index([doc("a", "tea and milk and sugar", unit(1, 0)), doc("b", "tea and tea and tea", unit(1, 0))])
    both, words = (parts_of(made, "tea", "b", **rest)["keyword"] for rest in ({"vector": unit(0, 1)}, {}))
    assert both / words == pytest.approx(0.6, rel=1e-3)
    assert ask(made, "tea") == ["b", "a"]
