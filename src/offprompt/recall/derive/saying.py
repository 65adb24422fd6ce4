"""A sentence in the making: who spoke and when, and how what they said becomes a fact."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, tzinfo
from typing import Final

from offprompt.recall.derive.dates import Day, said_for_good
from offprompt.recall.derive.records import USER, Language, Turn

_KEPT: Final = re.compile(r"^(?:since|by)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Saying:
    """A turn with the day on which it was said there."""

    turn: Turn
    day: date
    zone: tzinfo

    @property
    def me(self) -> str:
        """The subject of what the speaker says of themselves."""
        return self.turn.speaker or USER

    def shown(self, language: Language) -> str:
        """The speaker, at the beginning of a sentence."""
        return self.turn.speaker or ("用户" if language == "zh" else "The user")


def with_dates(text: str, days: list[Day], language: Language) -> str:
    """The text with each date said for good where it stands."""
    pieces: list[str] = []
    after = 0
    for day in days:
        label = said_for_good(day, language)
        kept = _KEPT.match(text[day.start : day.end])
        if kept:  # since when, by when
            label = f"{kept[0].lower()} {label.partition(' ')[2]}"
        pieces += [text[after : day.start], label]
        after = day.end
    return "".join([*pieces, text[after:]])


def without_dates(text: str, days: list[Day]) -> str:
    """The text with blanks where dates stand."""
    for day in days:
        text = text[: day.start] + " " * (day.end - day.start) + text[day.end :]
    return text
