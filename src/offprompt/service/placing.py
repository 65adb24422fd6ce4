"""How far the messages of a request were placed: those that come again are not looked at again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from offprompt.records import JournalEntry, Message


@dataclass(frozen=True, slots=True)
class Step:
    """How far placing was when it came to an incoming message.

    exact   the message's bytes. placed: places before it. heard, ours, repeated: what the turn held up to there.
    begins  it is no result, so that what stands before it is placed without looking at it.
    """

    exact: bytes
    placed: int
    heard: frozenset[str]
    ours: Mapping[str, JournalEntry]
    repeated: bool
    begins: bool


def exactly(message: Message) -> bytes:
    """The bytes by which a message is known to be the same object once more; empty for what cannot be sent."""
    try:
        return msgspec.json.encode(message)
    except (ValueError, TypeError):
        return b""
