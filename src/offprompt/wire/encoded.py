"""Long runs of base64 and hexadecimal digits in a text, and what they decode to."""

from __future__ import annotations

import binascii
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MIN_RUN: Final = 28
MIN_LINE: Final = 60

_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_\\"
_MARKED: Final = bytes(ord("x") if code in _DIGITS else ord(" ") for code in range(256))
_LONG: Final = b"x" * MIN_RUN
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_WRAP: Final = re.compile(rb"[ \t\r\n]{1,8}(?=[A-Za-z0-9+/_-]{4})")
_ESCAPED_WRAP: Final = re.compile(rb"(?<!\\)\\+[nr]")
_HEX: Final = re.compile(rb"[0-9a-fA-F]{40,}")
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
_LOWER: Final = b"abcdefghijklmnopqrstuvwxyz/+"
# What garbage decodes to has no eight characters of UTF-8 in a row.
_TEXT: Final = re.compile(
    rb"(?:[\t\n\r -~]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}){8}"
)


@dataclass(frozen=True, slots=True)
class Decoded:
    """What bytes [start, end) of the text decode to; they are ASCII. form: `base64` or `hex`."""

    start: int
    end: int
    form: str
    raw: bytes


def decoded_runs(raw: bytes) -> Iterator[Decoded]:
    """The decodings that hold text of each run of 28 digits or more (hexadecimal 40) in a text in UTF-8, surrogates
    passed; wrapped lines are joined.

    A run may begin with other letters, so base64 is decoded at each of its four phases and hexadecimal at both.
    Cost     half a nanosecond a byte where there is no such run; about 10 ns for each byte of a run.
    """
    marked = raw.translate(_MARKED)
    seen: dict[bytes, list[tuple[str, bytes]]] = {}
    end = 0
    for at in _full_words(marked):
        if at < end:
            continue
        start = marked.rfind(b" ", end, at) + 1 or end
        if not marked.startswith(_LONG, start):
            continue
        end = _end(raw, marked, start)
        run = raw[start:end]
        if (decodings := seen.get(run)) is None:
            decodings = seen[run] = list(_decodings(run))
        for form, decoded in decodings:
            yield Decoded(start, end, form, decoded)


def _full_words(marked: bytes) -> list[int]:
    """Where two aligned words of eight digits follow each other: each run of `MIN_RUN` holds such a place."""
    # Imported here: NumPy takes 90 ms that only callers with values to look for pay.
    import numpy as np  # noqa: PLC0415

    full = np.frombuffer(marked, "<u8", len(marked) // 8) == int.from_bytes(b"x" * 8, "little")
    return (np.flatnonzero(full[1:] & full[:-1]) * 8).tolist()


def _end(raw: bytes, marked: bytes, at: int) -> int:
    """The end of the run that begins there, over line ends that a full line of digits follows."""
    while True:
        end = marked.find(b" ", at)
        if end < 0:
            return len(raw)
        wrap = _WRAP.match(raw, end) if end - at >= MIN_LINE else None
        if wrap is None or b"\n" not in wrap[0]:
            return end
        at = wrap.end()


def _decodings(run: bytes) -> Iterator[tuple[str, bytes]]:
    if b"\\" in run:
        run = _ESCAPED_WRAP.sub(b"", run)
    run = run.translate(_STANDARD, b" \t\r\n\\")
    for match in _HEX.finditer(run):
        for phase in range(2):
            digits = match[0][phase:]
            raw = bytes.fromhex(digits[: len(digits) & ~1].decode("ascii"))
            if _TEXT.search(raw):
                yield "hex", raw
    # Base64 of text has capitals and figures in every second place; names, paths and hexadecimal digits have not.
    if not run.translate(None, _HEX_DIGITS) or len(run.translate(None, _LOWER)) * 6 < len(run):
        return
    for phase in range(4):
        digits = run[phase:]
        # One digit alone over a multiple of four holds no byte.
        whole = digits[: len(digits) - (len(digits) % 4 == 1)]
        raw = binascii.a2b_base64(whole + b"=" * (-len(whole) % 4))
        if _TEXT.search(raw):
            yield "base64", raw


def encoded_forms(raw: bytes) -> list[tuple[str, str]]:
    """The digits that stand for the bytes wherever they lie in a longer encoded text: (form, digits) for hexadecimal
    and for the three alignments of base64, without the digits that neighbouring bytes take part in.
    """
    forms = [("hex", raw.hex())]
    for before in range(3):
        digits = b64encode(bytes(before) + raw).decode("ascii")
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        forms.append(("base64", digits[first:last]))
    return forms
