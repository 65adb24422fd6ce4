from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from offprompt.recall.text import TextIndex, snippet, terms


def _index(*texts: str) -> TextIndex[int]:
    index: TextIndex[int] = TextIndex()
    for key, text in enumerate(texts):
        index.add(key, text)
    return index


def test_terms_of_both_languages() -> None:
    assert terms("She moved to 上海市 in MAY") == {
        "she": 1,
        "moved": 1,
        "to": 1,
        "上": 1,
        "海": 1,
        "市": 1,
        "上海": 1,
        "海市": 1,
        "in": 1,
        "may": 1,
    }


def test_identifiers_are_found_by_their_parts() -> None:
    assert set(terms("get_user_details(mia_li_3668)")) == {"get", "user", "details", "mia", "li", "3668"}


def test_full_width_and_composed_forms_are_one() -> None:
    assert terms("ＣＡＦＥ\u0301 １２") == terms("café 12")


def test_other_scripts_have_terms() -> None:
    assert terms("привет мир") == {"привет": 1, "мир": 1}
    assert set(terms("ไทย")) >= {"ไ", "ท", "ย", "ไท"}
    assert set(terms("カタカナ")) >= {"カ", "カタ"}
    assert terms("안녕 세계") == {"안녕": 1, "세계": 1}


def test_the_best_text_comes_first_in_english_and_chinese() -> None:
    index = _index("the flight leaves at noon", "她五月搬到了上海", "my cat likes fish", "北京的冬天很冷")
    assert index.search("when does the flight leave?", 2)[0][0] == 0
    assert index.search("她搬到哪里了？上海吗", 2)[0][0] == 1


def test_nothing_is_found_where_no_term_matches() -> None:
    index = _index("alpha beta", "中文")
    assert index.search("gamma", 5) == []
    assert index.search("", 5) == []
    assert TextIndex[int]().search("alpha", 5) == []


def test_rare_terms_weigh_more_and_short_texts_win() -> None:
    index = _index("common rare", "common common common", "common " * 30 + "rare")
    assert [key for key, _ in index.search("common rare", 3)][:2] == [0, 2]


def test_scores_are_the_published_formula() -> None:
    """One text of two with the term once, both of the mean length: idf ln(1 + 1.5/1.5) times 1."""
    ((key, score),) = _index("apple pie", "pear tart").search("apple", 5)
    assert (key, round(score, 6)) == (0, 0.693147)


def test_ties_keep_the_order_of_addition() -> None:
    assert [key for key, _ in _index("same", "same", "same").search("same", 2)] == [0, 1]


def test_a_removed_or_replaced_text_is_not_found() -> None:
    index = _index("apple", "apple")
    index.remove(0)
    index.add(1, "pear")
    index.remove(7)
    assert (index.search("apple", 5), len(index), 1 in index, 0 in index) == ([], 1, True, False)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.text("ab 中文", max_size=12)), max_size=12))
def test_any_history_of_changes_equals_a_fresh_index(changes: list[tuple[int, str]]) -> None:
    index: TextIndex[int] = TextIndex()
    kept: dict[int, str] = {}
    for key, text in changes:
        index.add(key, text)
        kept.pop(key, None)
        kept[key] = text
    fresh: TextIndex[int] = TextIndex()
    for key, text in kept.items():
        fresh.add(key, text)
    assert index.search("a b 中文", 5) == fresh.search("a b 中文", 5)


def test_a_snippet_holds_what_was_asked() -> None:
    filler = "Nothing of note happened on that day. " * 40
    text = filler + "The booking code is QX7788 for Tuesday. " + filler
    found = snippet(text, "what is the booking code?", max_tokens=40)
    assert "QX7788" in found
    assert len(found) <= 40 * 4 + 2
    assert found[0] == found[-1] == "…"


def test_a_chinese_snippet_holds_what_was_asked() -> None:
    filler = "那天没有什么特别的事情发生。" * 40
    found = snippet(filler + "预订编号是七七八八。" + filler, "预订编号", max_tokens=40)
    assert "七七八八" in found
    assert len(found) <= 70


def test_short_text_is_its_own_snippet_and_no_match_gives_the_beginning() -> None:
    assert snippet("short", "x") == "short"
    assert snippet("begin " + "word " * 200, "zzz", max_tokens=20).startswith("begin")
