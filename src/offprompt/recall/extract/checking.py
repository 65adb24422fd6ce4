"""Which decisions of a model are carried by the turns that they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import Final

from offprompt.recall.derive.deriving import derive
from offprompt.recall.derive.records import USER, Turn
from offprompt.recall.duplicates import normalised
from offprompt.recall.extract.grounding import day_words, days_in, is_grounded
from offprompt.recall.extract.language import is_kept
from offprompt.recall.extract.negation import denial
from offprompt.recall.extract.records import Accepted, Checked, Decision, Dropped, Known, Line, Strictness
from offprompt.recall.extract.spans import find_span
from offprompt.recall.extract.subjects import is_anothers
from offprompt.recall.text import fold

MAX_FACT_CHARS: Final = 400
HANDLE: Final = "[[mem:"

_SELF: Final = frozenset(["user", "the user", "i", "me", "myself", "speaker", "用户", "我", "本人", "用户本人"])
_OWN: Final = re.compile(r"^(?:the user['’]s|user['’]s|my|the|用户的|我的|我)\s*", re.IGNORECASE)
_TAKES_BACK: Final = re.compile(
    r"\b(?:forget|delete|remove|erase|drop|scratch|clear|disregard|ignore)\b|忘|删|别记|不要记|不用记|清除|取消|作废",
    re.IGNORECASE,
)


class _DropError(Exception):
    """A decision is dropped; its argument says why."""

    def __init__(self, why: Dropped) -> None:
        self.why: Dropped = why
        super().__init__(why)


def check(
    decisions: Sequence[Decision],
    lines: Sequence[Line],
    known: Sequence[Known],
    *,
    strictness: Strictness = "normal",
    categories: Sequence[str] = (),
    zone: tzinfo = UTC,
) -> Checked:
    """The decisions sorted into those that may be applied and those that may not.

    Applied   only if its numbers exist; its quote stands in a turn that it names, of the speaker that it names; it is
              about somebody whom the turn names, and the same as the fact that it changes; it is in the turn's script;
              it says no more than its turns, and denies what they deny; nothing newer or more trusted gives way.
    Order     that of the answer; of two decisions on one memory, or of one text, the first.
    Cost      O(decisions × the characters of their turns). Raises nothing, whatever the decisions.
    """
    checker = _Checker({line.number: line for line in lines}, {one.number: one for one in known})
    checker.strictness, checker.zone = strictness, zone
    checker.categories = {fold(name): name for name in categories}
    accepted: list[Accepted] = []
    dropped: list[tuple[Decision, Dropped]] = []
    named: set[int] = set()
    for decision in decisions:
        named |= checker.lines.keys() & set(decision.turns)
        try:
            if (one := checker.accept(decision)) is not None:
                accepted.append(one)
        except _DropError as exc:
            dropped.append((decision, exc.why))
    return Checked(tuple(accepted), tuple(dropped), frozenset(named))


@dataclass(slots=True)
class _Checker:
    lines: dict[int, Line]
    known: dict[int, Known]
    strictness: Strictness = "normal"
    zone: tzinfo = UTC
    categories: dict[str, str] = field(default_factory=dict[str, str])
    decided: set[int] = field(default_factory=set[int])
    said: set[str] = field(default_factory=set[str])

    def accept(self, decision: Decision) -> Accepted | None:
        """The decision as it is applied; None for NONE.

        Raises   _DropError.
        """
        if not decision.turns or not set(decision.turns) <= self.lines.keys():
            raise _DropError("turn")
        if decision.action == "NONE":
            return None
        if HANDLE in decision.text or HANDLE in decision.quote:
            raise _DropError("secret")
        target = self._target(decision)
        line, quote = self._spoken(decision)
        about = self._about(decision, target, line, quote)
        cited = [self.lines[number] for number in dict.fromkeys(decision.turns)]
        self._check_change(decision, target, line, quote)
        event_at = None
        if decision.action != "FORGET":
            self._check_text(decision, target, cited, quote)
            event_at = self._day(decision.date, cited)
        self._note(decision)
        trust = "tool" if any(one.trust == "tool" for one in cited) else "user"
        return Accepted(decision, line, quote, about, trust, event_at)

    def _target(self, decision: Decision) -> Known | None:
        if decision.memory and decision.memory not in self.known:
            raise _DropError("number")
        if decision.action == "ADD":
            return None
        if not decision.memory:
            raise _DropError("number")
        if decision.memory in self.decided:
            raise _DropError("twice")
        return self.known[decision.memory]

    def _spoken(self, decision: Decision) -> tuple[Line, str]:
        """The turn that says the quote, of the speaker that is named, and its words there."""
        found = [
            (line, line.text[span[0] : span[1]])
            for line in (self.lines[number] for number in decision.turns)
            if (span := find_span(line.text, decision.quote)) is not None
        ]
        if not found:
            raise _DropError("span")
        speaker = fold(decision.speaker)
        for line, quote in found:
            if speaker in _SELF or (speaker and speaker == fold(line.speaker)):
                return line, quote
        raise _DropError("speaker")

    def _about(self, decision: Decision, target: Known | None, line: Line, quote: str) -> str:
        """Whom the decision is about, as rules name them."""
        me = fold(line.speaker) or USER
        name = fold(decision.about)
        about = me if name in _SELF or name == me else fold(_OWN.sub("", decision.about)).strip()
        if about != me:
            cited = [self.lines[number].text for number in decision.turns]
            said = any(find_span(text, about) for text in cited) or (target is not None and about == target.about)
            told = decision.action == "FORGET" or find_span(decision.text, about)
            if not about or not said or not told:
                raise _DropError("subject")
        if target is not None and target.about and target.about != about:
            raise _DropError("subject")
        start = line.text.find(quote)
        others = about == me and is_anothers(line.text, start, start + len(quote), decision.text, line.speaker)
        if others and decision.action != "FORGET":
            raise _DropError("subject")
        if not self._agrees(line, quote, about):
            raise _DropError("subject")
        return about

    def _agrees(self, line: Line, quote: str, about: str) -> bool:
        """Whether rules that read the same words read them of the same one, where they read any."""
        turns = [Turn("0", line.before, "assistant"), Turn("1", line.text, "user", line.speaker, line.at)]
        start = line.text.find(quote)
        end = start + len(quote)
        read = {
            fact.subject.casefold()
            for fact in derive(turns, line.at, zone=self.zone)
            if (own := fact.quotes[0]).turn_id == "1" and own.start < end and start < own.end
        }
        return not read or about in read

    def _check_text(self, decision: Decision, target: Known | None, cited: Sequence[Line], quote: str) -> None:
        text = decision.text
        if not text or len(text) > MAX_FACT_CHARS:
            raise _DropError("shape")
        if self.categories and fold(decision.category) not in self.categories:
            raise _DropError("category")
        if normalised(text) in self.said:
            raise _DropError("twice")
        if not is_kept(text, "\n".join(line.text for line in cited)):
            raise _DropError("language")
        parts = [part for line in cited for part in (line.text, line.before, line.speaker, day_words(line, self.zone))]
        parts += [decision.about] if target is None else [decision.about, target.text]
        if not is_grounded(text, "\n".join(parts), self.strictness):
            raise _DropError("invented")
        denied = denial(quote)
        if denial(text) != denied and (self.strictness != "low" or not denied):
            raise _DropError("negation")

    def _check_change(self, decision: Decision, target: Known | None, line: Line, quote: str) -> None:
        if target is None:
            return
        if target.trust == "user" and any(self.lines[number].trust == "tool" for number in decision.turns):
            raise _DropError("trust")
        if line.at < target.at:
            raise _DropError("older")
        if decision.action == "FORGET" and not (_TAKES_BACK.search(quote) or denial(quote)):
            raise _DropError("invented")

    def _note(self, decision: Decision) -> None:
        if decision.action != "ADD":
            self.decided.add(decision.memory)
        if decision.action != "FORGET":
            self.said.add(normalised(decision.text))

    def _day(self, text: str, cited: Sequence[Line]) -> float | None:
        """The day that a decision gives, if the turns name it; else None: the day on which they were said."""
        try:
            day = date.fromisoformat(text)
        except ValueError:
            return None
        for line in cited:
            for named in days_in(line, self.zone):
                if named.after is not None and named.day <= day < named.after:
                    return datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp()
        return None
