"""What facts are derived from, and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from offprompt.records import Policy, Precision

Effect: TypeAlias = Literal["adds", "replaces", "ends"]
Language: TypeAlias = Literal["en", "zh"]

SLOTS: Final = (
    *("user_name", "agent_name", "home", "hometown", "job", "employer", "birthday", "age", "email", "phone"),
    *("language", "reply_style", "diet", "allergies", "wishes"),
)
"""The profile slots that rules fill; no other name comes from a rule."""

USER: Final = "user"
"""The subject of what a speaker without a name says of themselves."""

AGENT: Final = "agent"


def topic_of(slot: str) -> tuple[str, str]:
    """Subject and attribute of the facts that a profile slot is filled with."""
    return {"user_name": (USER, "name"), "agent_name": (AGENT, "name")}.get(slot, (USER, slot))


def slot_of(subject: str, attribute: str) -> str:
    """The profile slot that facts of a subject and attribute fill; empty if none."""
    return next((slot for slot in SLOTS if topic_of(slot) == (subject, attribute)), "")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said at one time.

    role     as on the wire; only `user` turns give facts, `assistant` turns give the question that one answers.
    speaker  the name of who spoke, where the application knows it. at: seconds since 1970; None: the call's `now`.
    """

    turn_id: str
    text: str
    role: str = "user"
    speaker: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """The characters of a turn's text that carry a fact: start ≤ i < end."""

    turn_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Derived:
    """One thing that a turn says of somebody.

    kind       `slot`: part of the profile, under one of SLOTS; `fact`: a memory.
    subject    who it is about: the speaker's name, `user` where they have none, `agent`, or whom they speak of, such as
               `Jack` or `mother`. attribute: what of them, such as `likes`, `home`, `plan`; value: as said.
    text       one sentence that stands for itself, in the language said, with dates instead of "tomorrow".
    positive   False: it is said not to be so.
    effect     `replaces`: of one (subject, attribute) only the newest holds. `adds`: it stands beside others.
               `ends`: what was said with this key holds no more.
    policy     `card` for standing wishes, else None: the slot's default.
    event_at   seconds since 1970, the beginning of the day, week, month or year that `precision` says; None: not said.
    """

    kind: Literal["slot", "fact"]
    rule: str
    subject: str
    attribute: str
    value: str
    text: str
    quotes: tuple[Quote, ...]
    slot: str = ""
    policy: Policy | None = None
    positive: bool = True
    effect: Effect = "adds"
    event_at: float | None = None
    precision: Precision = ""

    @property
    def key(self) -> str:
        """What of the subject is said: the attribute, and the value too where several may stand beside each other."""
        if self.effect == "replaces" or (self.effect == "ends" and self.attribute in REPLACED):
            return self.attribute
        return f"{self.attribute}:{' '.join(self.value.casefold().split())}"


REPLACED: Final = frozenset(
    [*("name", "home", "hometown", "job", "employer", "birthday", "age", "email", "phone", "language"), "marriage"]
)
"""Attributes of which one holds at a time."""
