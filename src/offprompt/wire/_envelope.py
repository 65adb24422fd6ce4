"""What a dialect's reader finds: a stretch of the text, and the calls that it makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from offprompt.wire._calls import Calls


@dataclass(frozen=True, slots=True)
class Envelope:
    """One stretch of a reply's text in which a call is made.

    start, end  its characters, closing marks included. calls: those under known names; empty: a client's, or none.
    floor       nothing before it belongs to the call: where a thought or shown code ended.
    stops       what a model invents behind it (a tool's answer) is never read.
    """

    start: int
    end: int
    calls: Calls = ()
    stops: bool = False
    floor: int = 0


Reader: TypeAlias = Callable[[str, int, Collection[str]], "Envelope | None"]
"""(text, where the opening begins, names) → the envelope there, or None if there is none. Raises nothing."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write calls: a pattern of its openings (no groups, matched with re.MULTILINE), and its reader."""

    opening: str
    read: Reader


Pattern: TypeAlias = "re.Pattern[str]"
