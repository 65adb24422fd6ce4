from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.recall.analysis import all_terms, asks, search_terms


def common(one: str, other: str) -> set[str]:
    return set(search_terms(one)) & set(search_terms(other))


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("She was running marathons", "Does she run a marathon?"),
        ("Caroline's adopted cats", "Which cat did Caroline adopt?"),
        ("We meet at the café", "cafe"),
        ("Ｗｉｆｉ密码", "wifi 密码"),
        ("The budget is 12,500 dollars", "12500"),
        ("她五月搬到了上海", "上海"),
        ("东京タワーへ行った", "タワー"),
        ("서울에서 만났어요", "서울"),
        ("ฉันชอบแมว", "แมว"),
        ("getUserName raised", "get_user_name"),
        ("the variable max_bytes", "bytes"),
        ("HTTPServer crashed", "http server"),
        ("Ich wohne in München", "munchen"),
        ("привет, мир", "МИР"),
        ("मुझे हिन्दी पसंद है", "हिन्दी"),
        ("أحب القهوة", "القهوة"),
    ],
)
def test_what_is_stored_is_found_in_any_script(stored: str, asked: str) -> None:
    assert common(stored, asked)


@pytest.mark.parametrize(
    ("one", "other"),
    [("上海天气", "下海的人"), ("cart", "car"), ("мой", "мои"), ("ประเทศ", "แมว")],
)
def test_what_differs_shares_no_whole_word(one: str, other: str) -> None:
    assert not {term for term in common(one, other) if len(term) > 1}


def test_function_words_are_left_out_unless_there_is_nothing_else() -> None:
    assert search_terms("What is the name of the cat?") == ["name", "cat"]
    assert search_terms("我的猫叫什么名字") == [
        term for term in search_terms("我的猫叫什么名字") if term not in {"我", "的", "什么"}
    ]
    assert search_terms("Who are you?") == ["who", "are", "you"]


def test_an_identifier_is_there_whole_and_in_parts() -> None:
    assert all_terms("parseHTTPResponse") == ["parsehttpresponse", "pars", "http", "respons"]


def test_short_forms_of_verbs_leave_no_terms() -> None:
    assert search_terms("I don't, she'll, they've cats") == ["cat"]


@pytest.mark.parametrize("text", ["Where?", "你好吗", "你去哪里？", "Really?!?", 'He said "why?"', "好吃吗。"])
def test_questions(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize("text", ["Yes.", "我很好。", "Why? Because I can.", ""])
def test_what_is_no_question(text: str) -> None:
    assert not asks(text)


@given(st.text(max_size=200))
def test_any_text_has_terms_without_white_space(text: str) -> None:
    assert all(term and not any(char.isspace() for char in term) for term in all_terms(text))


@given(st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=8))
def test_letters_and_digits_of_any_script_give_terms(text: str) -> None:
    assert all_terms(text)
