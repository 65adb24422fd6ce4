"""A reply that comes in pieces: its text let through as soon as it is surely no part of a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from offprompt.records import MEMORY_ACTIONS, Parsed
from offprompt.wire._stream_scan import Scan, scan_more
from offprompt.wire.actions import parse_actions

GROWTH: Final = 8
"""What is held back is looked at again when it has grown by one part in so many: the whole stays linear."""

CONTEXT: Final = 160
"""Characters kept behind what was let through: openings look back at most that far."""


class ActionStream:
    """The text and the calls of one reply, fed chunk by chunk.

    Let through   text in front of the first call, and what only looked like one: code, thoughts, objects that are no
                  calls. What may begin a call is held back until that is decided.
    Held back     from the first call on, everything until `end`: a later end of reasoning may still turn the call
                  into a thought. An answer to the call comes first anyway.
    Equal         what `feed` and `end` give out is, in all, `Parsed.text` of the whole; the `Parsed` is the same.
    Cost          O(n) in all, whatever the chunks.
    """

    def __init__(self, *, names: Iterable[str] = MEMORY_ACTIONS) -> None:
        self._names = frozenset(names)
        self._chunks: list[str] = []
        self._scan = Scan(self._names)
        self._given: list[str] = []
        self._due = 0
        self._grown = 0
        self.looked_at = 0
        """Characters that the last `feed` looked at."""

    def feed(self, chunk: str) -> str:
        """The text that can be shown now; empty while all is held back."""
        self._chunks.append(chunk)
        scan = self._scan
        self.looked_at = 0
        if scan.held:
            return ""
        self._grown += len(chunk)
        scan.pieces.append(chunk)
        if self._grown < self._due:
            return ""
        scan.join()
        start = scan.sent
        self.looked_at = len(scan.text) - scan.pos
        scan_more(scan)
        out = scan.text[start : scan.sent]
        waiting = len(scan.text) - scan.sent
        self._grown, self._due = 0, waiting // GROWTH if waiting > 4 * GROWTH else 0
        scan.forget(CONTEXT)
        if out:
            self._given.append(out)
        return out

    def end(self) -> tuple[str, Parsed]:
        """The rest of the text, and the whole reply taken apart."""
        parsed = parse_actions("".join(self._chunks), names=self._names)
        given = "".join(self._given)
        return parsed.text[len(given) :], parsed
