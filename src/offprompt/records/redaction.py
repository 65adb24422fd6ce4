"""Redacted: a text without what may not be stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

SpanKind = Literal[
    "id_number",
    "bank_card",
    "api_key",
    "access_token",
    "private_key",
    "iban",
    "us_ssn",
    "passport",
    "email",
    "phone",
    "licence_plate",
    "qq",
    "wechat",
    "address",
    "name",
]
KINDS: Final[tuple[SpanKind, ...]] = get_args(SpanKind)
PROVEN: Final[tuple[SpanKind, ...]] = KINDS[:5]
"""The kinds that are taken out unless others are set: a check digit or an issuer's form proves them, and nobody needs
them in a memory."""


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that was found. start, end: characters of the text as it was; never the thing itself.

    mark   what stands in its place in the redacted text.
    """

    start: int
    end: int
    kind: SpanKind
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text with marks in place of what was found, and where that stood, in order; without finds the same text."""

    text: str
    found: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text of which it is known what stands in it, in order; nothing in a hard negative."""

    text: str
    spans: tuple[Span, ...] = ()
