"""Redacted: a text without what may not be stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SpanKind = Literal["id_number", "bank_card", "api_key", "access_token", "private_key"]


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that was found. start, end: characters of the text as it was; never the thing itself."""

    start: int
    end: int
    kind: SpanKind


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text with marks in place of what was found, and where that stood, in order; without finds the same text."""

    text: str
    found: tuple[Span, ...] = ()
