"""Retention: how long records of a category are kept, as a setting says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from offprompt.errors import UsageError
from offprompt.records.slot import fold_name

KINDS: Final = ("slot", "fact", "episode", "passage", "session")
TAG: Final = "tag"
CATEGORIES: Final = "slot, fact, episode, passage, session, KIND:WORD (an attribute or a tag of it), tag:WORD"
_RULE: Final = re.compile(r"(?P<kind>[a-z]+)(?::(?P<word>\S+))?\s+(?P<number>\d{1,6})(?P<unit>[hd])")
_SECONDS: Final[Mapping[str, float]] = {"h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Retention:
    """One rule: records of a category go `max_age_s` after they were last written, added or used.

    category  as it was given: a kind of KINDS, `KIND:WORD`, or `tag:WORD`. word: folded, empty: all of the kind.
    """

    category: str
    kind: str
    word: str
    max_age_s: float

    def takes(self, kind: str, tags: tuple[str, ...], attribute: str = "") -> bool:
        """Whether a record of that kind, with these tags and that attribute, is of the category."""
        if self.kind not in (kind, TAG):
            return False
        named = self.word in tags or (self.kind != TAG and self.word == fold_name(attribute.partition(":")[0]))
        return not self.word or named


def retentions(text: str) -> tuple[Retention, ...]:
    """The rules of a setting such as `episode 365d, fact:health 30d, session 12h, tag:support 180d`.

    Raises   UsageError for what is no rule, and for two of one category.
    """
    found: dict[str, Retention] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        match = _RULE.fullmatch(part)
        kind, word = (match["kind"], fold_name(match["word"] or "")) if match else ("", "")
        is_known = kind in KINDS or (kind == TAG and word)
        if match is None or not is_known or not int(match["number"]) or (kind == "session" and word):
            raise UsageError(
                f"retention: {part[:60]!r} is no rule; write a category and an age in d or h, such as `episode 365d`; "
                f"the categories are {CATEGORIES}"
            )
        category = f"{kind}:{word}" if word else kind
        if category in found:
            raise UsageError(f"retention: {category!r} stands there twice; give it one age")
        found[category] = Retention(category, kind, word, int(match["number"]) * _SECONDS[match["unit"]])
    return tuple(found.values())
