r"""One form for all spellings of a text: what case, spaces, escapes and widths make of it is undone.

Both what is stored and what is searched are folded, so that each spelling of a value folds to the value's own bytes:
JSON escapes at any depth, percent escapes at any depth, upper and lower case, full-width letters and digits, spaces
and dashes anywhere. The form is lossy on purpose (letters of other scripts that differ in case only fold together
with a few that differ otherwise) and never leaves memory.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from typing import Final

_PERCENT: Final = re.compile(rb"%(?:25)*[0-9a-fA-F]{2}(?:%(?:25)*[0-9a-fA-F]{2})*")
_DOUBLE_PERCENT: Final = re.compile(rb"%(?:25)+(?=[0-9a-fA-F]{2})")
_UNICODE_ESCAPES: Final = re.compile(rb"\\[uU][0-9a-fA-F]{4}(?:\\+[uU][0-9a-fA-F]{4})*")
_SHORT_ESCAPE: Final = re.compile(rb"\\[ntrfbNTRFB]")
_FULL_WIDTH: Final = re.compile(rb"\xef(?:\xbc[\x85\x8b\x8d-\x99\xa0-\xba\xbc\xbf]|\xbd[\x81-\x9a])")
# Spaces and dashes beside those of ASCII, and what cannot be seen: joiners, soft hyphens, marks of direction, variation
# selectors; by the byte they begin with. Those of scripts that begin with the same byte are looked for one by one.
_UNSEEN: Final = {
    b"\xc2": re.compile(rb"\xc2[\xa0\xad]"),
    b"\xe2": re.compile(rb"\xe2(?:\x80[\x80-\x95\xa8-\xaf]|\x81[\x9f-\xaf]|\x88\x92)"),
    b"\xef": re.compile(rb"\xef(?:\xb8[\x80-\x8f]|\xbb\xbf)"),
}
_UNSEEN_LETTERS: Final = ("\u061c", "\u3000")
_ESCAPE: Final = re.compile(r"\\+[uU][0-9a-fA-F]{4}|\\+[ntrfbNTRFB]|%(?:25)*[0-9a-fA-F]{2}")
# What is composed with the letter before it: accents, hamza and madda, marks of kana, vowels of Korean.
_COMBINING: Final = (b"\xcc", b"\xcd")
_COMBINING_LETTERS: Final = ("\u0653", "\u0654", "\u0655", "\u3099", "\u309a")
_VOWEL: Final = re.compile(rb"\xe1\x85[\xa1-\xb5]")


def _table() -> bytes:
    """Lower case for ASCII; `_` as `/` (the two alphabets of base64); lead and continuation bytes of capital letters.

    In UTF-8 the cases of Latin, Greek and Cyrillic letters differ in bit 5 of the last byte, and across D0/D1, CE/CF.
    """
    table = bytearray(bytes(range(256)).lower())
    table[ord("_")] = ord("/")
    for code in range(0xA0, 0xC0):
        table[code] = code - 0x20
    table[0xD1], table[0xCF] = 0xD0, 0xCE
    return bytes(table)


_FOLD: Final = _table()
_DROPPED: Final = bytes([*range(0x21), 0x7F, *b"\\+-"])
_HEX: Final = b"0123456789abcdefABCDEF"
MAX_LOOKS: Final = 64


def fold(text: str, raw: bytes | None = None) -> bytes:
    """The text's form for comparing; equal for two spellings of one text.

    raw    the text in UTF-8, surrogates passed, where the caller has it.
    Cost   2 to 4 ns a byte where nothing is escaped.
    """
    if raw is None:
        raw = text.encode("utf-8", "surrogatepass")
    own = len(raw)
    if _may_stand(raw, b"%", _HEX):
        raw = _PERCENT.sub(_unpercented, raw)
    if _may_stand(raw, b"\\", b"uU"):
        raw = _UNICODE_ESCAPES.sub(_unescaped, raw)
    if len(raw) < own and not raw.isascii():
        text = raw.decode("utf-8", "surrogateescape")
    if b"\\" in raw:
        raw = _SHORT_ESCAPE.sub(b"", raw)
    if not raw.isascii():
        raw = _plain_letters(text, raw)
    return raw.translate(_FOLD, _DROPPED)


def _may_stand(raw: bytes, mark: bytes, after: bytes) -> bool:
    """Whether one of those bytes stands behind the mark, or there are too many marks to look: far less to do than to
    go through the text with an expression, as each search for two bytes does.
    """
    at = raw.find(mark)
    for _ in range(MAX_LOOKS):
        if at < 0:
            return False
        if raw[at + 1 : at + 2] in after and at + 1 < len(raw):
            return True
        at = raw.find(mark, at + 1)
    return True


def _plain_letters(text: str, raw: bytes) -> bytes:
    """text: the same, for what is found faster there."""
    for lead, unseen in _UNSEEN.items():
        if lead in raw:
            raw = unseen.sub(b"", raw)
    for letter in _UNSEEN_LETTERS:
        if letter in text:
            raw = raw.replace(letter.encode(), b"")
    if (
        any(lead in raw for lead in _COMBINING)
        or any(letter in text for letter in _COMBINING_LETTERS)
        or (b"\xe1" in raw and _VOWEL.search(raw))
    ):
        raw = unicodedata.normalize("NFC", raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if _may_stand(raw, b"\xef", b"\xbc\xbd"):
        raw = _FULL_WIDTH.sub(_narrowed, raw)
    return raw


def _narrowed(match: re.Match[bytes]) -> bytes:
    return unicodedata.normalize("NFKC", match[0].decode()).encode()


def _unpercented(match: re.Match[bytes]) -> bytes:
    run = match[0]
    if b"%25" in run:
        run = _DOUBLE_PERCENT.sub(b"%", run)
    return bytes.fromhex(run.translate(None, b"%").decode("ascii"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    units = bytes.fromhex(match[0].translate(None, b"\\uU").decode("ascii"))
    return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")


class Places:
    """From offsets in the folded form back to characters of the text. Built when something is found: O(n) once."""

    BLOCK: Final = 256
    _SAFE: Final = re.compile(r"(?<![\\%0-9A-Fa-fu])(?![\u1160-\u11ff])[^\W\d_]|\n ")
    # Where all is escaped: before an escape of a character's first byte that is no combining mark, and none half done.
    _ESCAPED: Final = re.compile(
        r"(?<!%5C)(?<!%5c)%(?:25)*(?!25)(?:[0-7DdEeFf]|[Cc](?![CcDd]))[0-9a-fA-F]|(?<!\\)\\+[uU](?![dD][c-fC-F])"
    )

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts, self._folded = [0], [0]
        self._cuts: dict[int, list[int]] = {}
        at = 0
        while at < len(text):
            window = at + self.BLOCK, at + 2 * self.BLOCK
            safe = self._SAFE.search(text, *window) or self._ESCAPED.search(text, *window)
            end = safe.start() if safe else min(at + 2 * self.BLOCK, len(text))
            self._folded.append(self._folded[-1] + len(fold(text[at:end])))
            self._starts.append(end)
            at = end

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the folded bytes [start, end) stand: the first and past the last of their characters."""
        return self._place(start, last=True), self._place(end, last=False)

    def _place(self, folded: int, *, last: bool) -> int:
        """The shortest prefix that folds to at least that many bytes; last: the longest that folds to no more."""
        block = max(0, bisect_left(self._folded, folded + last) - 1)
        begin, end = self._starts[block], self._starts[min(block + 1, len(self._starts) - 1)]
        if (cuts := self._cuts.get(block)) is None:
            # Half an escape folds to its own characters: prefixes end between escapes, where their sizes grow.
            escapes = _ESCAPE.finditer(self._text, begin, end)
            inside = {at for escape in escapes for at in range(escape.start() + 1, escape.end())}
            cuts = self._cuts[block] = [at for at in range(begin, end + 1) if at not in inside]
        base = self._folded[block]

        def size(at: int) -> int:
            return base + len(fold(self._text[begin:at]))

        if last:
            return cuts[bisect_right(cuts, folded, key=size) - 1]
        return cuts[min(bisect_left(cuts, folded, key=size), len(cuts) - 1)]
