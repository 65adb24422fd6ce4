"""Facts that a business system knows: what of whom, and its value."""

from __future__ import annotations

from typing import Final

from offprompt.errors import UsageError
from offprompt.recall.derive.records import SLOTS, USER, Derived, slot_of, topic_of

RULE: Final = "app"
MAX_CHARS: Final = 256


def fact_of(subject: str, attribute: str, value: str, text: str | None) -> Derived:
    """The fact, as rules would have read it.

    Raises   UsageError for a part that is no text, is empty, or, but for the value, longer than MAX_CHARS.
    """
    subject, attribute = _short("subject", subject), _short("attribute", attribute)
    value = _text("value", value)
    said = f"{subject} {attribute}: {value}" if text is None else _text("text", text)
    if subject.casefold() == USER and attribute in SLOTS:
        subject, attribute = topic_of(attribute)
    slot = slot_of(subject.casefold(), attribute)
    return Derived("slot" if slot else "fact", RULE, subject, attribute, value, said, (), slot, effect="replaces")


def _short(what: str, given: object) -> str:
    text = _text(what, given)
    if len(text) > MAX_CHARS:
        raise UsageError(f"{what}={text[:40]!r}… has {len(text):,} characters; give {MAX_CHARS} at most")
    return text


def _text(what: str, given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise UsageError(f"{what}={given!r}: give a text that is not empty")
    return given.strip()
