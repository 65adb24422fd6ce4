"""From text to search terms, the same for what is stored and what is asked, in all scripts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from offprompt.recall.scripts import HAN, SOUNDS
from offprompt.recall.stop_words import STOP_TERMS

CACHED_WORDS: Final = 65536

_HANGUL: Final = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
# A mark that belongs to the letter before it is no end of a word (Devanagari, Arabic, Hebrew points).
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0903\u093a-\u094d\u0981-\u0983\u09bc-\u09cd"
)
_WORDS: Final = re.compile(
    rf"(?P<run>[{HAN}{SOUNDS}]+)|(?P<korean>[{_HANGUL}]+)"
    rf"|(?P<word>(?:(?![{HAN}{SOUNDS}{_HANGUL}])[\w{_MARKS}])+)"
)
_ENDINGS: Final = re.compile(r"(?<=[^\W\d_])(?:n['’]t|['’](?:s|re|ve|m|ll|d))(?![^\W_])", re.IGNORECASE)
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACCENTED: Final = re.compile("[\u00c0-\u024f\u0370-\u03ff\u1e00-\u1fff]")
_LOOSE_MARKS: Final = re.compile("[\u0300-\u036f]+")
_ASKS: Final = re.compile(r"(?:[?？؟]|[吗呢][。.!！~～]*)[\s\"'”’」』)）]*$")
_ONE_HAN: Final = re.compile(f"[{HAN}]")


def all_terms(text: str) -> list[str]:
    """The terms of a text in order, stop words too. Cost O(n); stems are cached by word (65,536 of them).

    Words     lower case, without accents, stemmed as English where they are plain a–z; `'s`, `n't` and the like are
              cut off; identifiers (`getUserName`, `get_user_name`) whole, joined, and each part.
    Han       each character and each pair of neighbours. Kana, Thai, Lao, Khmer, Burmese: each pair.
    Korean    the word between spaces and its pairs, because particles are written on to it.
    Source    Porter 2001, "Snowball: a language for stemming algorithms" (English); character pairs for Chinese: Nie,
              Gao, Zhang & Zhou 2000, "On the use of words and n-grams for Chinese information retrieval".
    """
    plain = _THOUSANDS.sub("", _ENDINGS.sub("", unicodedata.normalize("NFKC", text)))
    return [term for match in _WORDS.finditer(plain) for term in _terms_of(match)]


def asks(text: str) -> bool:
    """Whether a text ends as a question, in any script that marks it."""
    return bool(_ASKS.search(text.rstrip()[-40:]))


def search_terms(text: str) -> list[str]:
    """The terms of a text that carry meaning, in order."""
    return meaningful(all_terms(text))


def meaningful(terms: list[str]) -> list[str]:
    """The terms that carry meaning, in order; all of them where none does (`who are you?`)."""
    return [term for term in terms if term not in STOP_TERMS] or terms


def _terms_of(match: re.Match[str]) -> Iterator[str]:
    if match["word"] is not None:
        yield from _word_terms(match[0])
    elif match["korean"] is not None:
        yield match[0]
        yield from _pairs(match[0], above=2)
    else:
        yield from _run_terms(match[0])


def _word_terms(word: str) -> Iterator[str]:
    parts = [part for piece in word.split("_") for part in _CAMEL.split(piece) if part]
    if len(parts) > 1:
        yield _plain("".join(parts))
    yield from (_stem(_plain(part)) for part in parts)


def _run_terms(run: str) -> Iterator[str]:
    yield from (char for char in run if _ONE_HAN.match(char))
    yield from _pairs(run, above=1)
    if len(run) == 1 and not _ONE_HAN.match(run):
        yield run


def _pairs(run: str, *, above: int) -> Iterator[str]:
    if len(run) > above:
        yield from (run[at : at + 2] for at in range(len(run) - 1))


def _plain(word: str) -> str:
    if word.isascii():
        return word.lower()
    bare = _ACCENTED.sub(lambda match: _LOOSE_MARKS.sub("", unicodedata.normalize("NFD", match[0])), word)
    return _LOOSE_MARKS.sub("", bare.casefold())


_english: Final[Any] = import_module("snowballstemmer").stemmer("english")


@lru_cache(maxsize=CACHED_WORDS)
def _stem(word: str) -> str:
    return _english.stemWord(word) if word.isascii() and word.isalpha() else word
