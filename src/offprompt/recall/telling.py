"""Telling words: the terms of a text that say what it is about, and how well they stand in another text."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from offprompt.recall.text import fold

_PIECE: Final = re.compile(
    r"[\u3400-\u9fff]+|(?:(?![\u3400-\u9fff])[^\W_])+(?:['\u2019](?:s|t|m|re|ve|ll|d)(?![^\W_]))?"
)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_ENDING: Final = re.compile(r"(?:['\u2019](?:s|t|m|re|ve|ll|d))$")
_VOWEL: Final = re.compile(r"[aeiouy]")
SHORTEST_STEM: Final = 3
CACHED_WORDS: Final = 65536


def telling_terms(text: str) -> Counter[str]:
    """The telling terms of a text with their numbers: words without their endings; of Han runs the pairs.

    What stands between common words is a run; one of a single character is a term by itself.
    """
    return Counter(term for _, term in _found(text))


def telling_words(text: str) -> int:
    """How many words of a text say what it is about; two Han characters count as one."""
    words = 0
    for piece in _pieces(text):
        words += (sum(char not in _common().weak for char in piece) + 1) // 2 if _HAN.match(piece) else 1
    return words


def words_of(terms: Sequence[str]) -> int:
    """How many words terms stand for: pairs that overlap are parts of one."""
    pairs = [term for term in terms if len(term) == 2 and _HAN.match(term)]
    return len([term for term in terms if not _HAN.match(term)]) + len(set("".join(pairs))) // 2


def is_weak(term: str) -> bool:
    """Whether a Han pair may be no word at all: one of its characters is a common word as often as not."""
    return len(term) == 2 and not _common().weak.isdisjoint(term)


def searchable_terms(text: str) -> Counter[str]:
    """`telling_terms`, and of Han runs the single characters too: what a text can be found by."""
    found = telling_terms(text)
    found.update(char for char in _HAN.findall(fold(text)) if char not in found)
    return found


def words_with(text: str, wanted: Mapping[str, float] | set[str]) -> str:
    """The words of a text, as they stand there, whose terms are wanted; for the search of the part that holds them."""
    once = " ".join(dict.fromkeys(match[0] for match in _PIECE.finditer(fold(text))))
    return " ".join(dict.fromkeys(word for word, term in _found(once) if term in wanted))


def coverage(query: Mapping[str, float], terms: Iterable[str]) -> float:
    """Which part of a query's weight the terms hold, 0 to 1; 0 for a query without weight."""
    whole = sum(query.values())
    held = sum(query[term] for term in set(terms) if term in query)
    return held / whole if whole else 0.0


def _found(text: str) -> Iterator[tuple[str, str]]:
    """Each telling word or pair with its term."""
    for piece in _pieces(text):
        if not _HAN.match(piece):
            yield piece, _stem(piece)
        elif len(piece) == 1:
            if piece not in _common().weak:
                yield piece, piece
        else:
            for at in range(len(piece) - 1):
                pair = piece[at : at + 2]
                if not _common().weak.issuperset(pair):
                    yield pair, pair


def _pieces(text: str) -> Iterator[str]:
    """The telling English words of a text, and what common words leave of its Han runs."""
    runs = _common().runs
    for match in _PIECE.finditer(fold(text)):
        piece = match[0]
        if _HAN.match(piece):
            yield from (part for part in runs.split(piece) if part)
        elif bare := _bare(piece):
            yield bare


@lru_cache(maxsize=CACHED_WORDS)
def _bare(word: str) -> str:
    """A word without a possessive or contracted ending; empty if it is a common one or a single letter."""
    common, bare = _common().words, _ENDING.sub("", word)
    if word.replace("'", "").replace("\u2019", "") in common or bare in common:
        return ""
    return bare if len(bare) > 1 or bare.isdigit() else ""


@dataclass(frozen=True, slots=True)
class _Common:
    """English words, Han runs as a pattern, and single Han characters that tell nothing by themselves."""

    words: frozenset[str]
    runs: re.Pattern[str]
    weak: frozenset[str]


@cache
def _common() -> _Common:
    text = files("offprompt.recall").joinpath("common_words.toml").read_text(encoding="utf-8")
    tables: dict[str, str] = tomllib.loads(text)
    runs = sorted(tables["zh"].split(), key=len, reverse=True)
    return _Common(
        frozenset(tables["en"].split()), re.compile("|".join(map(re.escape, runs))), frozenset(tables["zh_weak"])
    )


@lru_cache(maxsize=CACHED_WORDS)
def _stem(word: str) -> str:
    """An English word without the endings of number, time and -ing; the same form on both sides is all that counts."""
    if not word.isascii() or not word.isalpha():
        return word
    for ending, instead in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= SHORTEST_STEM and _VOWEL.search(stem) and not word.endswith("ss"):
            word = stem + instead
            break
    if len(word) > SHORTEST_STEM and word[-1] == word[-2]:
        word = word[:-1]
    return word.removesuffix("e") if len(word) > SHORTEST_STEM else word
