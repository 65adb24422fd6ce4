"""What may not stand in any file: where the project was made, and where packages come from."""

from __future__ import annotations

import pytest

from tests.house.tree import relative, texts

HOSTS = ["py" + "pi.", "files.python" + "hosted", "registry.npm" + "js", "npm" + "js.com", "proxy.go" + "lang"]
PLACES = ["/wo" + "rk/", "/op" + "t/py" + "pi", "/tm" + "p/briefs"]
SHARED = "shared" + "/data"


@pytest.mark.parametrize("word", HOSTS + PLACES)
def test_no_file_names_it(word: str) -> None:
    assert [relative(path) for path, text in texts() if word in text.lower()] == []


def test_one_file_knows_where_the_data_sets_lie_beside_a_checkout() -> None:
    assert [relative(path) for path, text in texts() if SHARED in text] == [".ci/run"]


def test_there_is_one_chinese_word_for_token() -> None:
    other = "\u8bcd\u5143"
    assert [relative(path) for path, text in texts() if other in text] == []


def test_the_words_would_be_found() -> None:
    assert len(list(texts())) > 30
    assert any(relative(path) == "README.md" for path, _ in texts())
