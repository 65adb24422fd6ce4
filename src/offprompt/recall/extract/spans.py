"""Whether words stand in a text, compared as people read them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from offprompt.recall.scripts import HAN, SOUNDS
from offprompt.recall.telling import telling_words

_AROUND: Final = " \t\r\n\"'“”‘’「」『』«»…"
_SAME: Final = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "，": ",", "。": ".", "—": "-", "–": "-"})
_UNSPACED: Final = re.compile(f"[{HAN}{SOUNDS}]")


def find_span(text: str, quote: str) -> tuple[int, int] | None:
    """The characters of the text that say the quote, or None.

    Folded   case, widths, kinds of quotes and dashes, runs of spaces. A quote is whole words, in scripts with spaces.
    Refused  a quote that says nothing by itself ("I", "the"), unless it is the whole text.
    Cost     O(n).
    """
    folded, places = _folded(text)
    wanted = _folded(quote.strip(_AROUND))[0].strip()
    if not wanted or (not telling_words(quote) and not _has_number(quote) and wanted != folded.strip(" .,!?")):
        return None
    at = folded.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        if not _inside(folded, at) and not _inside(folded, end):
            return places[at], places[end - 1] + 1
        at = folded.find(wanted, at + 1)
    return None


def _folded(text: str) -> tuple[str, list[int]]:
    """The folded text, and for each of its characters the place of that which it came from."""
    out: list[str] = []
    places: list[int] = []
    for at, char in enumerate(text):
        for one in unicodedata.normalize("NFKC", char).casefold().translate(_SAME):
            if one.isspace():
                if out and out[-1] == " ":
                    continue
                one = " "  # noqa: PLW2901 - all spaces are one
            out.append(one)
            places.append(at)
    return "".join(out), places


def _inside(text: str, at: int) -> bool:
    """Whether a place lies within a word of a script with spaces."""
    if not 0 < at < len(text):
        return False
    pair = text[at - 1], text[at]
    return all(char.isalnum() and not _UNSPACED.match(char) for char in pair)


def _has_number(text: str) -> bool:
    return any(char.isdigit() for char in text)
