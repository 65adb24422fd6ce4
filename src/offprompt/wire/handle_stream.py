"""Handles in streamed text: the same bytes as the whole text would give, only a possible handle is waited for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from offprompt.wire.handles import (
    BODY,
    CLOSING,
    GAP,
    JOINER,
    LETTERS,
    MAX_BODY_CHARS,
    MAX_GAP_CHARS,
    OPENING,
    BadHandle,
    FoundHandle,
    Lookup,
    resolve_text,
)

MAX_HELD_CHARS: Final = 2 + MAX_GAP_CHARS + 3 + MAX_GAP_CHARS + 1 + MAX_BODY_CHARS + 1
"""The most that is ever waited for: a whole handle but its last bracket."""


def _begun(*parts: str) -> str:
    """A pattern for all beginnings of what the parts, one behind the other, match."""
    return parts[0] + (f"(?:{_begun(*parts[1:])})?" if len(parts) > 1 else "")


# Possessive, since no part can match what the next one needs: the search is linear whatever the text.
_M, _E, _M2 = LETTERS
_HANDLE = _begun(f"[{OPENING}]", f"{GAP}+", _M, _E, _M2, f"{GAP}+", "[:：]", f"{BODY}+", f"[{CLOSING}]")
_LOOKALIKE = _begun(f"[{OPENING}]", f"{GAP}+", _M, _E, _M2, f"{GAP}+")
_BEGINNING = re.compile(rf"[{OPENING}](?:{_HANDLE}|{JOINER}+(?:{_LOOKALIKE})?)?\Z")
_JOINERS = re.compile(rf"[{OPENING}]{JOINER}{{2,}}")


def held_from(text: str) -> int:
    """Where the text's end may be the beginning of a handle or an escaped lookalike; its length if it is neither."""
    found = _BEGINNING.search(text)
    return len(text) if found is None else found.start()


class HandleStream:
    """Resolves the handles of a text that comes in pieces.

    Same     what all calls of `feed` and then `finish` return, joined, is `resolve_text(text).text`; `used` and `bad`
             are the same too, positions those in the whole text. However the text is cut.
    Held     at most `MAX_HELD_CHARS` characters at the text's end, and only what may become a handle.
    Once     each handle is looked up once, as soon as it is complete.
    """

    def __init__(self, lookup: Lookup, *, missing: str) -> None:
        self._lookup, self._missing = lookup, missing
        self._rest = ""
        self._offset = 0
        self._sent = 0
        self._used: list[FoundHandle] = []
        self._bad: list[BadHandle] = []

    @property
    def used(self) -> tuple[FoundHandle, ...]:
        """The handles resolved so far, in order."""
        return tuple(self._used)

    @property
    def bad(self) -> tuple[BadHandle, ...]:
        """Those that could not be, in order."""
        return tuple(self._bad)

    def feed(self, text: str) -> str:
        """The next piece; returns the resolved text that is sure by now."""
        self._rest += text
        return self._release(held_from(self._rest)) + self._release_joiners()

    def finish(self) -> str:
        """The rest: what was waited for did not come."""
        return self._release(len(self._rest))

    def _release(self, end: int) -> str:
        if not end:
            return ""
        resolved = resolve_text(self._rest[:end], self._lookup, missing=self._missing)
        shift = self._offset
        self._used += [replace(each, start=each.start + shift, end=each.end + shift) for each in resolved.used]
        self._bad += resolved.bad
        text = resolved.text[self._sent :]
        self._rest, self._offset, self._sent = self._rest[end:], shift + end, 0
        return text

    def _release_joiners(self) -> str:
        """Of a run of joiners only the last one depends on what follows; a bracket and one joiner stand for it."""
        run = _JOINERS.match(self._rest)
        if run is None:
            return ""
        text = self._rest[self._sent : run.end() - 1]
        self._offset += run.end() - 2
        self._rest, self._sent = self._rest[0] + self._rest[run.end() - 1 :], 1
        return text
