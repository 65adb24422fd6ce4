"""What was rewritten in a session, before and after: the journal keeps every message as it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from offprompt.records import JournalEntry, Message
from offprompt.service.stored_session import StoredSession
from offprompt.wire.shapes import Shape

Sent: TypeAlias = Literal["as sent", "in later turns", "as a stub"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A message that is sent otherwise than it came.

    turn    the user turn, 0 for the head. kind: of the message, as in the journal, or `head`.
    form    when it is sent like that. before, after: text, then a line for each call with its arguments; they hold
            whatever the message held, values of `never` slots among it.
    """

    turn: int
    kind: str
    form: Sent
    before: str = field(repr=False)
    after: str = field(repr=False)


def rewrites(session: StoredSession, turn: int | None = None) -> tuple[Rewrite, ...]:
    """All rewritten messages of a session, or of one turn, in the order in which they came. Cost O(journal)."""
    return tuple(each for each in _rewrites(session) if turn is None or each.turn == turn)


def _rewrites(session: StoredSession) -> Iterator[Rewrite]:
    head = session.record.head
    if head is not None and head.before:
        yield Rewrite(0, "head", "as sent", head.before, head.text)
    for entry in session.journal:
        before = _told(session.shape, [dict(entry.message)])
        for form, messages in _forms(entry):
            after = _told(session.shape, messages)
            if after != before:
                yield Rewrite(entry.turn, entry.kind, form, before, after)


def _forms(entry: JournalEntry) -> Iterator[tuple[Sent, list[Message]]]:
    """The forms in which the entry is sent. A frame of shown values stands before a user's words, and changes none."""
    framed = entry.kind == "user" and entry.settled is not None
    sent, later = (entry.settled, None) if framed else (entry.live, entry.settled)
    forms: tuple[tuple[Sent, Sequence[Mapping[str, Any]] | None], ...] = (
        ("as sent", sent),
        ("in later turns", later),
        ("as a stub", entry.stub),
    )
    for name, messages in forms:
        if messages is not None:
            yield name, [dict(message) for message in messages]


def _told(shape: Shape, messages: Sequence[Message]) -> str:
    """What a reader would see of messages: their text, and their calls."""
    lines: list[str] = []
    for message in messages:
        lines += [shape.text(message)] if shape.text(message) else []
        lines += [f"{call.name} {call.arguments}" for call in shape.calls(message)]
    return "\n".join(lines)
