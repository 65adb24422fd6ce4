"""What left the prompt comes back, for one turn, when the user refers to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

from offprompt.recall.telling import (
    coverage,
    is_weak,
    searchable_terms,
    telling_terms,
    telling_words,
    words_of,
    words_with,
)
from offprompt.recall.text import TextIndex, snippet
from offprompt.records import JournalEntry
from offprompt.service.leak_guard import stored_names, stored_text
from offprompt.service.memory_search import ID_CHARS
from offprompt.service.session_kit import date_of
from offprompt.service.turn import Turn
from offprompt.wire.handles import find_handles
from offprompt.wire.head import ShownValue, turn_source, value_line
from offprompt.wire.referring import asks_for_wishes, is_question, refers_back, stands_on_the_last, states_wish

RECALLED: Final = "recall"
FEW_WORDS: Final = 4
"""Below so many telling words a text that stands on the turn before is read with that turn's words."""

BORROWED: Final = 0.5
"""How much a word of the turn before counts beside one of the user's own."""

FLOOR: Final = 0.6
HIGH_FLOOR: Final = 0.8
LOW_FLOOR: Final = 0.25
"""How much of what a text is about a turn must hold, by weight: of a question, or of words that refer back outright;
of words that ask for nothing; of a question that refers back outright."""

MARGIN: Final = 0.05
HERE_SHARE: Final = 0.7
"""By how much it must beat what the request still holds; of that, how much it needs where the text refers back."""

RARE_SHARE: Final = 0.03
RARE_TEXTS: Final = 4
RARE_WEAK: Final = 2
"""A word in more than 3 % of the messages (and more than four) tells of the whole conversation, not of a turn; a Han
pair that may be no word in more than two."""

ASKED_WORDS: Final = 2
TOLD_WORDS: Final = 3
"""How many of its words a turn must hold for a question, and for words that ask for nothing."""

NEAR_BEST: Final = 0.75
LOW_NEAR_BEST: Final = 0.5
"""Turns that hold less than this part of what the best one holds stay away; the second where the text refers back."""

MAX_TURNS: Final = 3
MAX_FOUND: Final = 40
LINE_TOKENS: Final = 60
TOLD: Final = ("user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Hit:
    """One text that comes back: where it stands in the journal, who said it, when, and how well it fits.

    name     its handle's name. source: who said it, and in which turn. score: 0 to 1, higher fits better.
    foreign  neither the user nor the model said it.
    """

    name: str
    text: str
    source: str
    date: str
    score: float
    foreign: bool = False

    @property
    def shown(self) -> ShownValue:
        """As a frame shows it."""
        return ShownValue(self.name, self.text, self.source, self.date)


@dataclass(frozen=True, slots=True)
class Question:
    """What a user's text asks of earlier turns: telling terms with their weight, and how outright it refers to them.

    own      terms of the text itself. terms: those of the turn before too, where the text has few.
    back     it refers back outright. wishes: it asks what was wished for all times. asks: it is a question.
    borrows  some of the terms are the last turn's.
    """

    own: frozenset[str]
    terms: Mapping[str, float]
    back: bool = False
    wishes: bool = False
    asks: bool = False
    borrows: bool = False

    @classmethod
    def of(cls, text: str, before: str, answered: Iterable[str] = ()) -> Question:
        """The question in a user's own words.

        before    the words of the user's turn before. answered: names of slots that are shown: they are not looked for.
        """
        known = {term for name in answered for term in telling_terms(name.replace("_", " "))}
        own = telling_terms(text).keys() - known
        terms = dict.fromkeys(own, 1.0)
        back, stands = refers_back(text), stands_on_the_last(text)
        borrows = telling_words(text) < FEW_WORDS and (stands or (back and not own))
        if borrows:
            terms = {**dict.fromkeys(telling_terms(before), BORROWED), **terms}
        asks = stands or is_question(text)
        return cls(frozenset(own), terms, back or (stands and not own), asks_for_wishes(text), asks, borrows)


@dataclass(slots=True)
class JournalIndex:
    """The texts of one conversation's messages by journal key; follows it from branch to branch."""

    index: TextIndex[str] = field(default_factory=TextIndex[str])
    terms: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])

    def follow(self, entries: Iterable[JournalEntry]) -> None:
        """Hold exactly these entries: O(their number), and O(text) for what is new."""
        keys = {entry.key for entry in entries}
        for key in [key for key in self.terms if key not in keys]:
            self.index.remove(key)
            del self.terms[key]
        for entry in entries:
            if entry.key not in self.terms:
                self.terms[entry.key] = searchable_terms(entry.text)
                self.index.add(entry.key, self.terms[entry.key])


@dataclass(frozen=True, slots=True)
class Recaller:
    """Finds, among the messages that a request leaves out, those that its newest user message refers to.

    Property B   nothing comes back for words that tell of nothing ("thanks"), nor for what a message that is still in
                 the request tells as well.
    """

    turn: Turn
    journal: JournalIndex

    def hits(self, question: Question, entries: Sequence[JournalEntry], sent: Set[str]) -> list[Hit]:
        """The hits, best turn first, the messages of a turn in order.

        entries  the conversation before the newest user message. sent: keys of those that the request holds.
        """
        told = [entry for entry in entries if entry.text and entry.kind in TOLD]
        gone = [entry for entry in told if entry.key not in sent]
        if not gone or not (question.terms or question.wishes):
            return []
        if question.wishes:
            wishes = [entry for entry in reversed(gone) if entry.kind == "user" and states_wish(entry.text)]
            if wishes:
                return [self._hit(entry, question.terms, 1.0) for entry in wishes[: 2 * MAX_TURNS]]
        self.journal.follow(told)
        weights = self._weights(question)
        found = {key for key, _ in self.journal.index.search(list(weights), MAX_FOUND)}
        turns: dict[int, list[JournalEntry]] = {}
        for entry in told:
            turns.setdefault(entry.turn, []).append(entry)
        near = {entry.turn for entry in told if entry.key in found}
        beside = near - {told[-1].turn} if question.borrows else near
        here = max((self._covered(weights, turns[at], sent) for at in beside), default=0.0)
        floor = self._floor(question, here)
        left = {entry.key for entry in gone}
        whole = sorted(((self._covered(weights, turns[at], left), at) for at in near), reverse=True)
        scored: list[tuple[float, int, list[Hit]]] = []
        for most, at in whole[: 2 * MAX_TURNS]:
            lines = self._lines(weights, [entry for entry in turns[at] if entry.key in left]) if most >= floor else []
            terms = searchable_terms("\n".join(line.text for line in lines))
            if self._tells(question, weights, terms):
                scored.append((coverage(weights, terms), at, lines))
        near_best = LOW_NEAR_BEST if question.back else NEAR_BEST
        least = max([floor, *(score * near_best for score, _, _ in scored)])
        ranked = sorted((each for each in scored if each[0] >= least), key=lambda each: (-each[0], -each[1]))
        hits = [replace(line, score=score) for score, _, lines in ranked[:MAX_TURNS] for line in lines]
        if not question.back:
            return hits
        return [*hits, *self._going_on(weights, turns, left, [at for _, at, _ in ranked[:MAX_TURNS]])]

    def _going_on(
        self, weights: Mapping[str, float], turns: Mapping[int, list[JournalEntry]], left: Set[str], found: list[int]
    ) -> list[Hit]:
        """Lines of the turns that go on with those found: behind one of them, and the user takes up a word of it."""
        hits: list[Hit] = []
        for at in found:
            taken = {term for entry in turns[at] for term in self.journal.terms[entry.key]}
            entries = [entry for entry in turns.get(at + 1, []) if entry.key in left]
            own = next((telling_terms(entry.text).keys() for entry in entries if entry.kind == "user"), set[str]())
            if at + 1 not in found and own & taken:
                hits += self._lines(weights, entries)
        return hits

    def _floor(self, question: Question, here: float) -> float:
        """What a turn must cover; here: what a turn of the request covers."""
        if question.back:
            return max(LOW_FLOOR if question.asks else FLOOR, here * HERE_SHARE)
        return max(FLOOR if question.asks else HIGH_FLOOR, here + MARGIN)

    def _weights(self, question: Question) -> dict[str, float]:
        """The question's terms by how much each tells: its weight × idf over the messages.

        What stands nowhere counts against all turns alike; not where the text refers back, in other words maybe.
        """
        index, terms = self.journal.index, dict(question.terms)
        # Pairs that stand over the edge of two words are in no text, while both words are.
        there = "\n".join(term for term in terms if index.holders(term))
        for term in terms:
            over = len(term) == 2 and all(char in there for char in term)
            if not index.holders(term) and (question.back or over or is_weak(term)):
                terms[term] = 0.0
        return {
            term: weight * math.log(1 + (len(index) - index.holders(term) + 0.5) / (index.holders(term) + 0.5))
            for term, weight in terms.items()
            if weight
        }

    def _covered(self, weights: Mapping[str, float], entries: Sequence[JournalEntry], keys: Set[str]) -> float:
        """How well the messages of these keys cover the question together."""
        terms = self.journal.terms
        return coverage(weights, {term for entry in entries if entry.key in keys for term in terms[entry.key]})

    def _tells(self, question: Question, weights: Mapping[str, float], terms: Mapping[str, int]) -> bool:
        """Whether the terms hold enough of the text's own words, one of them rare in the conversation."""
        index, own = self.journal.index, question.own or weights.keys()
        held = [term for term in own if term in terms]
        if question.back:
            return any(index.holders(term) <= (RARE_WEAK if is_weak(term) else self._most) for term in held)
        held = [term for term in held if not is_weak(term) and not term.isdigit()]
        fewest = ASKED_WORDS if question.asks else TOLD_WORDS
        return words_of(held) >= fewest and any(index.holders(term) <= self._most for term in held)

    @property
    def _most(self) -> float:
        """In how many messages a telling word may stand."""
        return max(RARE_TEXTS, RARE_SHARE * len(self.journal.index))

    def _lines(self, weights: Mapping[str, float], entries: Sequence[JournalEntry]) -> list[Hit]:
        """A turn's lines: what the user said, what the model said last, and others that tell what these do not."""
        if not entries:
            return []
        answer = next((entry for entry in reversed(entries) if entry.kind == "assistant"), None)
        told = [entry for entry in entries if entry.kind == "user" or entry is answer]
        held = {term for entry in told for term in self.journal.terms[entry.key]}
        for entry in entries:
            more = {term for term in weights if term in self.journal.terms[entry.key]} - held
            if entry not in told and more:
                told.append(entry)
                held |= more
        return [self._hit(entry, weights, 0.0) for entry in sorted(told, key=entries.index)]

    def _hit(self, entry: JournalEntry, weights: Mapping[str, float], score: float) -> Hit:
        text = self._clean(entry)
        words = words_with(text, set(weights))
        part = snippet(text, words, max_tokens=LINE_TOKENS)
        source = turn_source(entry.kind, entry.turn, self.turn.language)
        return Hit(f"@{entry.key[:ID_CHARS]}", part, source, date_of(entry.at), score, entry.kind == "tool")

    def _clean(self, entry: JournalEntry) -> str:
        """A message's text without secrets and forgotten words; others than the user's with handles for long values."""
        if entry.kind == "user":
            return self.turn.scrubber.hide(self.turn.without_forgotten(entry.text))
        return stored_text(self.turn, entry.text)


def show_hits(turn: Turn, hits: Sequence[Hit], most: int) -> list[ShownValue]:
    """As many of the hits as fit, best first, noted as shown; those of tools taint the turn. most: tokens."""
    shown: list[ShownValue] = []
    for hit in hits:
        tokens = turn.kit.tokenizer.count(value_line(hit.shown) + "\n")
        if tokens > most:
            break
        most -= tokens
        turn.show(hit.name, RECALLED, tokens)
        turn.issue(*(found.name for found in find_handles(hit.text) if found.name in turn.values))
        turn.tainted = turn.tainted or hit.foreign
        shown.append(hit.shown)
    # A slot's value in what was said is in view too.
    known = {each.name for each in turn.shown}
    for name in stored_names(turn, "\n".join(value.text for value in shown)):
        if name not in known:
            turn.show(name, "in what was recalled", 0)
    return shown
