"""The bytes of `Indexed.content`: what an engine may read of them without knowing how texts are analysed."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from offprompt.errors import BackendError

PACKED_FORMAT: Final = 1
"""Goes up when analysis or layout change: contents of another format are made anew from their texts."""

_HEAD: Final = struct.Struct("<BBHIIQ")
_SEPARATOR: Final = "\n"  # no term holds white space


class Packed(NamedTuple):
    """A text as it is indexed.

    terms    each once. times: how often each is there, uint16, little endian. words: a number for its normalised text.
    vector   float16, little endian, unit length; empty where there is none.
    """

    terms: tuple[str, ...]
    times: bytes
    words: int = 0
    asks: bool = False
    vector: bytes = b""

    @property
    def length(self) -> int:
        """Terms of the text, each as often as it is there."""
        return sum(struct.unpack(f"<{len(self.terms)}H", self.times))


def pack_content(packed: Packed) -> bytes:
    """Layout: format, asks, dimension, number of terms, bytes of terms, words; terms, times, vector (float16)."""
    terms = _SEPARATOR.join(packed.terms).encode("utf-8", "surrogatepass")
    dimension, number = len(packed.vector) // 2, len(packed.terms)
    head = _HEAD.pack(PACKED_FORMAT, packed.asks, dimension, number, len(terms), packed.words)
    return b"".join((head, terms, packed.times, packed.vector))


def unpack_content(data: bytes) -> Packed | None:
    """What was packed; None if it is of another format and must be made anew.

    Raises   BackendError if the bytes are not whole.
    """
    if not data or data[0] != PACKED_FORMAT:
        return None
    try:
        _, asks, dimension, number, size, words = _HEAD.unpack_from(data)
        middle = _HEAD.size + size
        end = middle + 2 * number
        terms = data[_HEAD.size : middle].decode("utf-8", "surrogatepass")
        found = tuple(terms.split(_SEPARATOR)) if number else ()
    except (struct.error, ValueError) as error:
        raise _damaged(data) from error
    if len(data) != end + 2 * dimension or len(found) != number:
        raise _damaged(data)
    return Packed(found, data[middle:end], words, bool(asks), data[end:])


def _damaged(data: bytes) -> BackendError:
    return BackendError(
        f"the stored terms of a memory are damaged ({len(data)} bytes); make them anew from its text: reindex"
    )
