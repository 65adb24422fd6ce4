"""Thinking that models write into the text of their answers."""

from __future__ import annotations

from typing import Final

MARKS: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<seed:think>", "</seed:think>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
)
"""How a thought at the beginning of an answer opens, and what ends it; in any case."""


class ThoughtFilter:
    """Takes a thought off the beginning of an answer that comes in pieces.

    A thought that does not end takes the rest with it. Marks further on in the text are text.
    """

    def __init__(self) -> None:
        self._held = ""
        self._end = ""
        self._thought = self._speaks = False

    def feed(self, text: str) -> str:
        """The next piece; what of all that came may be shown now."""
        if self._speaks:
            return text
        self._held += text
        while self._thought or self._held:
            if self._end:
                at = self._held.lower().find(self._end)
                if at < 0:
                    return ""
                self._held, self._end, self._thought = self._held[at + len(self._end) :], "", True
            if self._thought:
                self._held = self._held.lstrip()
            begun = self._held.lstrip().lower()
            if any(start.startswith(begun) for start, _ in MARKS):
                return ""
            self._end = next((end for start, end in MARKS if begun.startswith(start)), "")
            if not self._end:
                return self._spoken()
        return ""

    def finish(self) -> str:
        """The answer is over; what was held back of it and is no thought."""
        return "" if self._speaks or self._end else self._spoken()

    def _spoken(self) -> str:
        text, self._held, self._speaks = self._held, "", True
        return text


def without_thinking(text: str) -> str:
    """An answer without the thought that it begins with; one whose beginning stood in the prompt counts too."""
    lowered = text.lower()
    for start, end in MARKS:
        at = lowered.find(end)
        if at >= 0 and start not in lowered[:at]:
            text = text[at + len(end) :].lstrip()
            break
    known = ThoughtFilter()
    return known.feed(text) + known.finish()
