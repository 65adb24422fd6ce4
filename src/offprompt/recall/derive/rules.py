"""Rules as the tables `english.toml` and `chinese.toml` give them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from offprompt.recall.derive.records import Effect, Language
from offprompt.records import Policy

Needs = Literal["", "past", "future", "present"]
MAX_VALUE: Final = 120
SHARED: Final = frozenset(["home", "diet", "allergies"])
"""Slots of the speaker that "we" fill too."""

_BUILT_IN: Final[dict[Language, tuple[str, ...]]] = {
    "en": (
        "name",
        "name.greeting",
        "age.greeting",
        "hometown.greeting",
        "name.answer",
        "named",
        "birthday.of",
        "ended",
    ),
    "zh": ("name", "name.greeting", "name.answer", "named", "ended"),
}
"""Rules that take more than a pattern: they stand in code."""

_SINCE: Final = re.compile(
    r" (?:for|since) (?:the |about |over |almost |nearly |more )?.*\b(?:years?|months?|\d{4}|weeks?)\b.*$"
)
"""How long somebody has had a job is no part of it."""

_NOT: Final = re.compile(r"\b(?:not|never|no|hardly|barely|rarely|neither|without)\b|n't\b|不|没", re.IGNORECASE)
_WORD: Final = re.compile(r"<([A-Z_]+)>")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what a predicate looks like, and what it then says.

    pattern    matched at the beginning of the predicate; the group `v` is the value, else all of the predicate.
    needs      the date that the clause must have, or that its verb is of the present.
    stop       what the value may not begin with. check: the value has to be a name.
    asks       it is one of the rules for what users ask for: "don't …" is part of what they ask.
    text       the sentence, with {me} and {v}; empty: it is put together from the clause.
    inherits : a clause without a subject takes that of the one before.
    """

    name: str
    attribute: str
    pattern: re.Pattern[str]
    stop: re.Pattern[str] | None = None
    needs: Needs = ""
    slot: str = ""
    effect: Effect = "adds"
    positive: bool = True
    inherits: bool = False
    text: str = ""
    check: Literal["", "name"] = ""
    policy: Policy | None = None
    asks: bool = False

    def value(self, predicate: str) -> str | None:
        """What the predicate gives as value, None if the rule does not fit."""
        match = self.pattern.match(predicate)
        if match is None:
            return None
        named = match.groupdict()
        group = next((group for group in ("v", "v2", "v3") if named.get(group)), 0)
        value = match[group]
        # A pattern's "any word" must not read over the one that turns what is said round.
        turned = _NOT.search(predicate[: match.start(group)]) or value.endswith(("不", "没", "没有"))
        if turned and self.positive and self.effect != "ends" and not self.asks:
            return None
        value = value.strip(" ,.，。")
        if self.attribute in ("job", "employer"):
            value = _SINCE.sub("", value)
        if self.attribute == "employer":
            value = value.partition(" as ")[0]
        if not value or len(value) > MAX_VALUE or (self.stop is not None and self.stop.match(value)):
            return None
        return value


@cache
def rules(language: Language, kind: str = "rule") -> tuple[Rule, ...]:
    """The rules of a language, in order. kind: `rule` for predicates, or another list of the table."""
    table = _table(language)
    words: dict[str, str] = table["words"]
    before = words.get("BEFORE", "") if kind == "rule" else ""
    return tuple(replace(_rule(one, words, before), asks=kind == "ask") for one in table.get(kind, []))


def rule_names() -> list[str]:
    """The names of all rules, as `Derived.rule` says them."""
    names: list[str] = []
    for language, built_in in _BUILT_IN.items():
        listed = [rule.name for kind in ("rule", "mine", "ask") for rule in rules(language, kind)]
        names += [f"{language}.{name}" for name in (*listed, *built_in)]
    return names


def word(language: Language, name: str) -> str:
    """An entry of a table's words, as a pattern."""
    words: dict[str, str] = _table(language)["words"]
    return _filled(words[name], words)


@cache
def _table(language: Language) -> dict[str, Any]:
    name = {"en": "english.toml", "zh": "chinese.toml"}[language]
    return tomllib.loads(files("offprompt.recall.derive").joinpath(name).read_text(encoding="utf-8"))


def _rule(one: dict[str, Any], words: dict[str, str], before: str) -> Rule:
    flags = re.NOFLAG if one.get("proper") else re.IGNORECASE
    stop = one.get("stop")
    return Rule(
        one["name"],
        one["attribute"],
        re.compile(_filled(before + one["pattern"], words), flags),
        re.compile(_filled(stop, words), re.IGNORECASE) if stop else None,
        one.get("needs", ""),
        one.get("slot", ""),
        one.get("effect", "adds"),
        one.get("positive", True),
        one.get("inherits", False),
        one.get("text", ""),
        one.get("check", ""),
        one.get("policy"),
    )


def _filled(pattern: str, words: dict[str, str]) -> str:
    while found := _WORD.search(pattern):
        pattern = pattern[: found.start()] + words[found[1]] + pattern[found.end() :]
    return pattern
