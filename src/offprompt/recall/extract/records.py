"""What a language model is given to read, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from offprompt.records import Trust

Action: TypeAlias = Literal["ADD", "UPDATE", "SUPERSEDE", "FORGET", "NONE"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
"""`UPDATE`: the same fact, said better. `SUPERSEDE`: it holds no more, this does. `FORGET`: it is taken back."""

Strictness: TypeAlias = Literal["low", "normal", "high"]

Dropped: TypeAlias = Literal[
    "shape",
    "number",
    "turn",
    "span",
    "speaker",
    "subject",
    "language",
    "invented",
    "negation",
    "category",
    "trust",
    "older",
    "twice",
    "secret",
]
"""Why a decision is not applied: it is no decision (`shape`); it names a memory (`number`) or a `turn` that was not
given; its quote does not stand there (`span`), or was said by somebody else (`speaker`); it speaks of somebody whom the
turn does not name, or whom the memory is not about (`subject`); it is in another `language`; it says what its turns do
not (`invented`), or the opposite (`negation`); its `category` is none of those allowed; a tool's output would change
what the user said (`trust`); what it replaces is newer (`older`); another decision of the answer says or changes the
same (`twice`); it holds the handle of a `secret`.
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A turn of a user, under the number by which the model names it.

    speaker   their name, or empty. at: seconds since 1970. before: what the assistant said right before it.
    """

    number: int
    text: str
    at: float
    speaker: str = ""
    before: str = ""
    trust: Trust = "user"


@dataclass(frozen=True, slots=True)
class Known:
    """A fact that is stored already, under the number by which the model names it.

    about     folded: whom it is about, or empty where nobody knows. at: when it happened.
    """

    number: int
    text: str
    at: float
    about: str = ""
    trust: Trust = "user"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision as the model wrote it; nothing of it is to be trusted. memory: 0 names none."""

    action: Action
    turns: tuple[int, ...] = ()
    memory: int = 0
    speaker: str = ""
    quote: str = ""
    about: str = ""
    text: str = ""
    category: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A decision that its turns carry.

    line      the turn that holds the quote. quote: its words there. about: folded, as rules name who it is about.
    event_at  the day that the decision names, if the turn says it; else None: when the turn was said.
    """

    decision: Decision
    line: Line
    quote: str
    about: str
    trust: Trust = "user"
    event_at: float | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer sorted: what is applied, what is not and why, the turns that it names, with or without a fact."""

    accepted: tuple[Accepted, ...]
    dropped: tuple[tuple[Decision, Dropped], ...]
    named: frozenset[int]
