"""What a document was converted to, and the bounds of all conversions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from offprompt.errors import UsageError

Media: TypeAlias = Literal["markdown", "text", "html", "pdf", "docx"]

MAX_CHARS: Final = 20_000_000
"""Characters of a document's text at most."""

MALFORMED: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError, RuntimeError),
    *(TypeError, ValueError),
)
"""What libraries raise for files that are not what they should be, beside errors of their own."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A document as text.

    title     as the document says it; empty: it does not. pages: the offsets at which pages begin; none: it has none.
    markdown  whether lines with # in front are headings.
    """

    text: str
    media: Media
    title: str = ""
    pages: tuple[int, ...] = ()
    markdown: bool = True


def refused(what: str, way_out: str) -> UsageError:
    """The error for a document that is not taken; the message never holds what it says."""
    return UsageError(f"{what}; {way_out}")


def checked_length(text: str) -> str:
    """The text itself.

    Raises   UsageError for more than MAX_CHARS.
    """
    if len(text) > MAX_CHARS:
        raise refused(f"its text has {len(text):,} characters, the limit is {MAX_CHARS:,}", "split the document")
    return text
