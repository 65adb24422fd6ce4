"""A document's text in passages: exact offsets, headings, pages, whole sentences in both languages."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.recall.passages import Passage, passages, title_of

PARTS = st.sampled_from(
    [
        "# A",
        "## B b",
        "### 三",
        "Title\n===",
        "Sub\n---",
        "```\n# code\n```",
        "~~~",
        "One. Two! Three?",
        "一句话。两句话！",
        "word " * 30,
        "长" * 90,
        "x" * 130,
        "\n",
        "\n\n",
        " ",
        "- item\n- item",
        "| a | b |\n|---|---|",
        "\x0c",
        "\u2028",
        "é́",
    ]
)
TEXTS = st.lists(st.one_of(PARTS, st.text(max_size=20)), max_size=15).map("\n".join)


@given(TEXTS, st.integers(20, 200), st.booleans(), st.lists(st.integers(0, 400), max_size=4))
def test_each_passage_is_its_part_of_the_text_and_nothing_is_lost(
    text: str, size: int, markdown: bool, cuts: list[int]
) -> None:
    pages = [0, *sorted({cut for cut in cuts if 0 < cut < len(text)})] if cuts else []
    found = passages(text, pages=pages, markdown=markdown, size=size)
    for one in found:
        assert text[one.start : one.end] == one.text == one.text.strip()
        assert 0 < len(one.text) <= size
        if pages:
            assert one.page is not None
            assert pages[one.page - 1] <= one.start
            assert one.page == len(pages) or one.end <= pages[one.page]
    assert all(one.end <= other.start for one, other in pairwise(found))
    if not markdown:
        assert "".join("".join(one.text for one in found).split()) == "".join(text.split())


def test_headings_are_a_path() -> None:
    text = "before\n\n# Law\n\n## Leave ##\n\nTen days.\n\n### Sick\nNo limit.\n\nNotice\n------\nA month.\n"
    text += "\n# 附则\n无。\n"
    found = [(one.text.splitlines()[-1], one.headings) for one in passages(text)]
    assert found == [
        ("before", ()),
        ("Ten days.", ("Law", "Leave")),
        ("No limit.", ("Law", "Leave", "Sick")),
        ("A month.", ("Law", "Notice")),
        ("无。", ("附则",)),
    ]
    assert title_of(text) == "Law"


def test_code_and_tables_have_no_headings() -> None:
    text = "# A\n\n```python\n# not one\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n#hashtag\n\n- list\n---\n"
    assert {one.headings for one in passages(text)} == {("A",)}


def test_the_last_heading_with_nothing_under_it_stays() -> None:
    assert [one.text for one in passages("# A\n\n## B\n")] == ["## B"]


@pytest.mark.parametrize(
    ("sentence", "size"), [("The tenant pays on the first day. ", 100), ("租客每月一号付款，逾期按日计息。", 100)]
)
def test_long_paragraphs_are_parted_between_sentences(sentence: str, size: int) -> None:
    found = passages(sentence * 20, size=size)
    assert len(found) > 5
    assert all(one.text.endswith((".", "。")) for one in found)
    assert all(one.text.startswith(sentence[:3]) for one in found)


def test_paragraphs_go_before_sentences_and_words_before_nothing() -> None:
    text = f"{'a. ' * 22}\n\n{'b. ' * 20}"
    assert [one.text[0] for one in passages(text, size=100)] == ["a", "b"]
    assert {one.text for one in passages("word " * 100, size=50)} == {("word " * 10).strip()}
    assert [len(one.text) for one in passages("x" * 120, size=50)] == [50, 50, 20]


def test_pages_are_told() -> None:
    text = "Page one. \nPage two goes\non."
    assert passages(text, pages=[0, 11], markdown=False) == [
        Passage("Page one.", 0, 9, (), 1),
        Passage("Page two goes\non.", 11, 28, (), 2),
    ]
