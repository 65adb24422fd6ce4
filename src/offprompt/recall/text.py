"""Plain text search: terms of any script, BM25 over a set that grows and shrinks, the best snippet of a text."""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from offprompt.recall.bm25 import idf
from offprompt.recall.scripts import HAN, SOUNDS

K1: Final = 1.2
B: Final = 0.75
ELLIPSIS: Final = "…"

K = TypeVar("K", bound=Hashable)

_UNSPACED: Final = HAN + SOUNDS
_WORDS: Final = re.compile(rf"(?P<run>[{_UNSPACED}]+)|(?:(?![{_UNSPACED}])[^\W_])+")
_CHAR_WEIGHT: Final = 0.25
_UNSPACED_WEIGHT: Final = 0.63
_FIRST_UNSPACED: Final = "\u0e00"
_ONE_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")


def fold(text: str) -> str:
    """The form in which texts are compared: NFKC, case folded."""
    return unicodedata.normalize("NFKC", text).casefold()


def terms(text: str) -> Counter[str]:
    """The search terms of a text with their numbers.

    Words in lower case; of scripts written without spaces each character and each pair of neighbours.
    """
    return Counter(_terms_of(fold(text)))


def _terms_of(folded: str) -> Iterator[str]:
    for match in _WORDS.finditer(folded):
        word = match[0]
        if match["run"] is None:
            yield word
        else:
            yield from word
            yield from (word[at : at + 2] for at in range(len(word) - 1))


class TextIndex(Generic[K]):
    """BM25 over texts by key; add, remove and search at any time.

    Source   Robertson & Zaragoza 2009, "The Probabilistic Relevance Framework", k1 = 1.2, b = 0.75, with ln(1 + …)
             around the idf so that no term counts against a text.
    Cost     add and remove O(terms of the text); search O(postings of the query's terms).
    """

    def __init__(self) -> None:
        self._postings: defaultdict[str, dict[K, int]] = defaultdict(dict)
        self._texts: dict[K, Counter[str]] = {}
        self._lengths: dict[K, int] = {}
        self._order: dict[K, int] = {}
        self._added = 0
        self._total = 0

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, key: K) -> bool:
        return key in self._texts

    def holders(self, term: str) -> int:
        """In how many texts a term stands."""
        return len(self._postings.get(term, ()))

    def add(self, key: K, text: str | Counter[str]) -> None:
        """Add a text, or its terms counted before; a key that is there is replaced."""
        self.remove(key)
        counts = terms(text) if isinstance(text, str) else text
        for term, number in counts.items():
            self._postings[term][key] = number
        self._texts[key] = counts
        self._lengths[key] = counts.total()
        self._order[key] = self._added
        self._added += 1
        self._total += self._lengths[key]

    def remove(self, key: K) -> None:
        """Take a text out; nothing if it is not there."""
        counts = self._texts.pop(key, None)
        if counts is None:
            return
        self._total -= self._lengths.pop(key)
        del self._order[key]
        for term in counts:
            postings = self._postings[term]
            del postings[key]
            if not postings:
                del self._postings[term]

    def search(self, query: str | Iterable[str], k: int, *, max_terms: int = 64) -> list[tuple[K, float]]:
        """The at most k best keys with their scores, best first; ties in the order of addition.

        query    text, or its terms. Only the max_terms rarest of them are looked for.
        Empty    when no term of the query is in any text.
        """
        wanted = terms(query) if isinstance(query, str) else set(query)
        found = sorted((len(self._postings[term]), term) for term in wanted if term in self._postings)[:max_terms]
        scores: defaultdict[K, float] = defaultdict(float)
        mean = self._total / max(len(self._texts), 1)
        for holders, term in found:
            weight = idf(len(self._texts), holders)
            for key, number in self._postings[term].items():
                norm = K1 * (1 - B + B * self._lengths[key] / mean)
                scores[key] += weight * number * (K1 + 1) / (number + norm)
        if not scores:
            return []
        return heapq.nsmallest(k, scores.items(), key=lambda item: (-item[1], self._order[item[0]]))


def snippet(text: str, query: str, *, max_tokens: int = 60) -> str:
    """The part of about max_tokens tokens that holds the most of the query's words, `…` where it was cut.

    Units    tokens by estimate: 0.63 a character of scripts without spaces, 0.25 any other. The whole text if it fits.
             Without a common word, the text's beginning.
    """
    weights = [
        _UNSPACED_WEIGHT if char >= _FIRST_UNSPACED and _ONE_UNSPACED.match(char) else _CHAR_WEIGHT for char in text
    ]
    if sum(weights) <= max_tokens:
        return text
    wanted = {term for term in terms(query) if len(term) > 1 or not term.isascii()}
    spots = [(match.start(), match.end(), worth) for match, worth in _matches(text, wanted)]
    start, end = _best_window(weights, spots, max_tokens)
    return (ELLIPSIS if start else "") + text[start:end].strip() + (ELLIPSIS if end < len(text) else "")


def _matches(text: str, wanted: set[str]) -> Iterator[tuple[re.Match[str], Mapping[str, int]]]:
    """The words and runs of the raw text that share terms with the query, with those terms."""
    shared: dict[str, Mapping[str, int]] = {}
    for match in _WORDS.finditer(text):
        word = match[0]
        if word not in shared:
            shared[word] = {term: 1 for term in _terms_of(fold(word)) if term in wanted}
        if shared[word]:
            yield match, shared[word]


def _best_window(
    weights: list[float], spots: list[tuple[int, int, Mapping[str, int]]], max_tokens: float
) -> tuple[int, int]:
    """The character range within the budget that covers the most distinct terms, with a lead of a fifth before it."""
    best, best_worth = 0, -1
    for at, (start, _, _) in enumerate(spots):
        reach = _reach(weights, start, max_tokens * 0.8)
        seen: set[str] = set()
        for _, end, worth in spots[at:]:
            if end > reach and seen:
                break
            seen.update(worth)
        if len(seen) > best_worth:
            best, best_worth = start, len(seen)
    lead = max_tokens * 0.2
    start = best
    while start > 0 and lead >= weights[start - 1]:
        start -= 1
        lead -= weights[start]
    return start, _reach(weights, start, max_tokens)


def _reach(weights: list[float], start: int, budget: float) -> int:
    end = start
    while end < len(weights) and budget >= weights[end]:
        budget -= weights[end]
        end += 1
    return end
