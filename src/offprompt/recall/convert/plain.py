"""Bytes as text: UTF-8, UTF-16, or GB18030 as Chinese files are often written."""

from __future__ import annotations

import codecs
import re
from typing import Final

from offprompt.recall.convert.converted import refused

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS: Final = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")

LOOKED_AT: Final = 65_536
"""Bytes by which the encoding of a file without a mark is guessed."""

MOSTLY: Final = 0.9
"""Share of a file's characters beyond ASCII that are Chinese where it is GB18030."""

SAVE_AS: Final = "save it as UTF-8"


def decoded(data: bytes) -> str:
    """The text, its lines ended as on Unix.

    Raises   UsageError for what is no text: bytes that no known encoding has, zeros, halves of characters.
    """
    text = _decoded(data)
    if "\0" in text or len(_CONTROLS.findall(text[:LOOKED_AT])) * 100 > len(text[:LOOKED_AT]):
        raise refused("it is binary, not text", "give a text file")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strictly(data[len(mark) :], encoding)
    head = data[:LOOKED_AT]
    zeros = (head[::2].count(0), head[1::2].count(0))
    if max(zeros) > len(head) // 8:  # half of the bytes of UTF-16 are zeros, where it is not Chinese
        return _strictly(data, "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = _strictly(data, "gb18030")
    beyond = [char for char in text[:LOOKED_AT] if char > "\x7f"]
    chinese = sum("\u4e00" <= char <= "\u9fff" or "\u3000" <= char <= "\u303f" or char >= "\uff00" for char in beyond)
    if chinese < MOSTLY * len(beyond):
        raise refused("its encoding is none of UTF-8, UTF-16 and GB18030", SAVE_AS)
    return text


def _strictly(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as exc:
        raise refused(f"its bytes are no {encoding.upper()} from byte {exc.start:,} on", SAVE_AS) from None
