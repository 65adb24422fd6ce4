"""A text's content as bytes and back, so that a scope is loaded without reading its texts again."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from offprompt.errors import BackendError
from offprompt.recall.docs import Content

FORMAT: Final = 1
"""Goes up when analysis or layout change: contents of another format are made anew from their texts."""

_HEAD: Final = struct.Struct("<BBHIIQ")
_SEPARATOR: Final = "\n"  # no term holds white space
_HALF: Final = np.dtype("<f2")


def pack(content: Content) -> bytes:
    """Layout: format, asks, dimension, number of terms, bytes of terms, words; terms, times, vector (float16)."""
    terms = _SEPARATOR.join(content.terms).encode("utf-8", "surrogatepass")
    vector = b"" if content.vector is None else content.vector.astype("<f2").tobytes()
    head = _HEAD.pack(FORMAT, content.asks, len(vector) // 2, len(content.terms), len(terms), content.words)
    return b"".join((head, terms, content.times, vector))


def unpack(data: bytes) -> Content | None:
    """The content that was packed; None if it is of another format and must be analysed anew.

    Raises   BackendError if the bytes are not whole.
    """
    if not data or data[0] != FORMAT:
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
    vector = np.frombuffer(data, _HALF, dimension, end) if dimension else None
    if vector is not None and not _HALF.isnative:
        vector = vector.astype(np.float16)
    return Content(found, data[middle:end], words, bool(asks), vector)


def _damaged(data: bytes) -> BackendError:
    return BackendError(
        f"the stored terms of a memory are damaged ({len(data)} bytes); make them anew from its text: reindex"
    )
