"""Answers that contradict what the model was shown: pure checks over text, no model.

They are signs for a reader, not proofs: what is in doubt is not flagged. "Uses the value" is read generously,
"states another" strictly.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from offprompt.wire.asking import idea_of

Fault: TypeAlias = Literal["says_unknown", "states_other", "not_used"]

_UNKNOWN: Final = re.compile(
    r"\bnot found\b|\bno (?:record|information|memory|data|idea)\b|\b(?:do not|don't|did not|didn't|cannot|can't) "
    r"(?:know|have|find|recall|remember|see)\b|\b(?:haven't|have not|hasn't|never) (?:told|mentioned|said|shared)\b"
    r"|\b(?:is|are|was) (?:unknown|not (?:stored|recorded|saved|known))\b"
    r"|没有(?:任何)?(?:相关)?(?:的)?(?:记录|信息|资料|找到|查到)|未找到|找不到|查不到|无记录|不知道|不清楚|不记得|没(?:告诉|提到|说过)",
    re.IGNORECASE,
)
_SAVED: Final = re.compile(
    r"\bi(?:'ve| have|'ll| will)?(?: just| now| also| always)?"
    r" (?:saved|stored|noted|recorded|remembered|remember|memori[sz]ed)(?: (?:that|this|it|your|you|down)\b|[.!,]|$)"
    r"|\b(?:it's|it is|that's|that is|this is|has been|have been)(?: now| all)? (?:saved|stored|noted|recorded)\b"
    r"|(?:^|[.!] )(?:saved|noted|stored|remembered)(?: it| that| this)?(?=[.!,]|$)"
    r"|(?<!没)(?<!没有)(?<!不)(?<!未)(?:已经?|我会|会)?(?:帮[你您]|为[你您]|给[你您]|替[你您])?(?:记住|记下来?|记好|保存好?|存好|存下)了"
    r"|我会(?:一直)?记(?:住|得)|已(?:经)?(?:帮[你您]|为[你您])?(?:记住|记下|保存|记录|存储)",
    re.IGNORECASE,
)
_SUBJECTS: Final[dict[str, tuple[str, ...]]] = {
    "user_name": (r"your name(?:'s| is)", r"you(?:'re| are) called", r"[你您]的?(?:名字|姓名)(?:是|叫)", r"[你您]叫"),
    "agent_name": (r"my name(?:'s| is)", r"i(?:'m| am) called", r"我的?(?:名字|姓名)(?:是|叫)", r"我叫"),
    "place": (r"you live in", r"you(?:'re| are) based in", r"[你您](?:现在)?住在", r"[你您]家在"),
    "origin": (r"you(?:'re| are| come) from", r"[你您](?:的老家|家乡)?(?:是|来自)(?=[^人]*(?:人|$))"),
    "work": (r"you work (?:as|at|for)(?: an?)?", r"[你您]的(?:工作|职业)是"),
    "birthday": (r"you were born on", r"[你您]的?生日(?:是|在)?"),
    "age": (r"you(?:'re| are)(?= \d)", r"[你您]今?年?(?=\d+ ?岁)"),
}
_HEDGES: Final = frozenset(
    [*("not", "unknown", "unclear", "something", "stored", "what", "that", "the", "a", "an", "in", "also", "very")]
)
_HAN_HEDGES: Final = ("什么", "未知", "没有", "不", "一个", "多少", "哪", "我", "谁")
_STOP: Final = re.compile(r"[.,:](?!\d)|[!?;\n。！？，；：、（()）]|\s(?:and|but|as|so|which|who|if|because)\s|$")
_DENIED: Final = re.compile(r"(?:\bnot|\bisn't|n't|\brather than|\binstead of|不是|而非|并非)\s*$")
_LATIN: Final = re.compile(r"[^\W\d_\u3400-\u9fff]+|\d+(?:[.:]\d+)*")
_HAN: Final = re.compile(r"[\u3400-\u9fff]+")
_COMMON: Final = frozenset(
    [
        *("the", "a", "an", "is", "are", "was", "of", "in", "on", "at", "to", "for", "and", "or", "with", "since"),
        *("she", "he", "they", "her", "his", "my", "your", "it", "that", "this", "where", "lives", "user"),
        *("true", "false", "null"),
    ]
)
SHORT_WORDS: Final = 4
"""Longer values are told in other words as often as not: what is said beside their name is not compared."""


@dataclass(frozen=True, slots=True)
class Known:
    """A slot's value as the model had it before it answered.

    values   the text of each version that was current in the turn; an answer that fits any of them fits.
    names    other names (tags). asked: the user's words asked for it, so that the answer should hold it.
    """

    name: str
    values: tuple[str, ...]
    names: tuple[str, ...] = ()
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What an answer does with a slot. quote: the answer's words that show it, empty for `not_used`.

    says_unknown   the value was there, and the answer says that nothing is known.
    states_other   the answer gives the slot another value.
    not_used       the user asked for it, and the answer holds neither value nor handle.
    """

    slot: str
    fault: Fault
    quote: str = ""


def claims_saved(answer: str) -> str:
    """The words by which an answer says that it saved something, `I've saved that` or `已经记住了`; else empty."""
    found = _SAVED.search(_folded(answer))
    return found[0] if found is not None else ""


def contradictions(answer: str, known: Sequence[Known]) -> list[Contradiction]:
    """What an answer, its handles resolved, gets wrong about slots; at most one fault a slot, the gravest.

    Cost   O(slots · answer).
    """
    text = _folded(answer)
    unknown = _UNKNOWN.search(text)
    found: list[Contradiction] = []
    for slot in known:
        if not slot.values:
            continue
        other = _states_other(text, slot)
        if other:
            found.append(Contradiction(slot.name, "states_other", other))
        elif not _uses(text, slot.values):
            if unknown is not None:
                found.append(Contradiction(slot.name, "says_unknown", unknown[0]))
            elif slot.asked:
                found.append(Contradiction(slot.name, "not_used"))
    return found


def _states_other(text: str, slot: Known) -> str:
    """The statement that gives the slot a value that fits none of its own; empty if there is none."""
    if _holds_whole(text, slot.values):
        return ""
    for subject in _subjects(slot):
        for match in re.finditer(subject, text):
            rest = text[match.end() :].lstrip(" :：*\"'“”‘’`「『")
            stop = _STOP.search(rest)
            stated = rest[: stop.start() if stop else 60].strip(" *\"'“”‘’`」』")
            if stated and _is_value(stated) and not any(_fits(stated, _folded(value)) for value in slot.values):
                return text[match.start() : match.end()] + " " + stated
    return ""


def _subjects(slot: Known) -> list[str]:
    """Patterns of the words that stand before a stated value."""
    words = [word for word in re.split(r"[_\-.]+", slot.name) if idea_of(word) not in ("user_name", "agent_name")]
    ideas = dict.fromkeys(map(idea_of, (slot.name, *words)))
    patterns = [pattern for idea in ideas for pattern in _SUBJECTS.get(idea, ())]
    if all(len(_words(_folded(value))) > SHORT_WORDS for value in slot.values):
        return patterns
    for name in (slot.name, *slot.names):
        words = _folded(re.sub(r"[_\-.]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))).strip()
        own = words.removeprefix("user ").removeprefix("用户的").removeprefix("用户") or words
        if _HAN.search(own):
            patterns.append(rf"{re.escape(own)}(?:是|为|叫|在|:|：)")
        elif len(own) > 2:
            patterns.append(rf"(?<!my )(?<![^\W_]){re.escape(own)}(?:'s| is| are| was| =|:)(?![^\W_])")
    return patterns


def _is_value(stated: str) -> bool:
    first = _LATIN.match(stated)
    if first is not None:
        return first[0] not in _HEDGES
    return not stated.startswith(_HAN_HEDGES)


def _fits(stated: str, value: str) -> bool:
    """Whether a stated value can be meant by the slot's; another script cannot be compared, and fits.

    Words of either may be missing in the other; with numbers, which are written in many ways, one in common is enough.
    """
    ours, theirs = _words(value), _words(stated)
    if not theirs or not ours or _stands_in(stated, value) or _stands_in(value, stated):
        return True
    numbers = {word for word in ours if word.isdigit()}, {word for word in theirs if word.isdigit()}
    if numbers[0] and numbers[1]:
        return bool(numbers[0] & numbers[1])
    han = any(_HAN.match(word) for word in ours), any(_HAN.match(word) for word in theirs)
    latin = (
        any(word.isascii() and word.isalpha() for word in ours),
        any(word.isascii() and word.isalpha() for word in theirs),
    )
    if not (all(han) or all(latin)):
        return True
    return theirs <= ours or ours <= theirs


def _uses(text: str, values: Sequence[str]) -> bool:
    """Whether the text holds a value, or a telling word of one, that it does not deny."""
    if _holds_whole(text, values):
        return True
    denied = {word for value in values for word in _words(_folded(value)) if _denies(text, word)}
    there = _words(text) - denied
    return any(there & _words(_folded(value)) for value in values)


def _holds_whole(text: str, values: Sequence[str]) -> bool:
    for value in map(_folded, values):
        start = text.find(value) if value else -1
        while start >= 0:
            if not _DENIED.search(text[:start]) and _stands_alone(text, start, start + len(value)):
                return True
            start = text.find(value, start + 1)
    return False


def _denies(text: str, word: str) -> bool:
    places = [match.start() for match in re.finditer(re.escape(word), text)]
    return bool(places) and all(_DENIED.search(text[:place]) for place in places)


def _stands_in(part: str, text: str) -> bool:
    start = text.find(part)
    return start >= 0 and _stands_alone(text, start, start + len(part))


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no Latin word or number goes on over either edge: `Ann` does not stand in `Anna`."""
    before = start > 0 and _joins(text[start - 1], text[start])
    return not before and not (end < len(text) and _joins(text[end - 1], text[end]))


def _joins(left: str, right: str) -> bool:
    return left.isalnum() and right.isalnum() and not (_HAN.match(left) or _HAN.match(right))


def _words(folded: str) -> set[str]:
    """Telling words: Latin words and numbers without leading zeros; of Han runs the pairs (a lone one as it is)."""
    flat = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", folded)
    words = {part.lstrip("0") or "0" for word in _LATIN.findall(flat) for part in re.split(r"[.:]", word)}
    for run in _HAN.findall(flat):
        words |= {run[at : at + 2] for at in range(max(len(run) - 1, 1))}
    return words - _COMMON


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'").strip()
