"""A text's content as bytes and back, so that a scope is loaded without reading its texts again."""

from __future__ import annotations

from typing import Final

import numpy as np

from offprompt.recall.docs import Content
from offprompt.records.packed import Packed, pack_content, unpack_content

_HALF: Final = np.dtype("<f2")


def pack(content: Content) -> bytes:
    """See `records.packed`."""
    vector = b"" if content.vector is None else content.vector.astype(_HALF).tobytes()
    return pack_content(Packed(content.terms, content.times, content.words, content.asks, vector))


def unpack(data: bytes) -> Content | None:
    """The content that was packed; None if it is of another format and must be analysed anew.

    Raises   BackendError if the bytes are not whole.
    """
    packed = unpack_content(data)
    if packed is None:
        return None
    terms, times, words, asks, _ = packed
    return Content(terms, times, words, asks, vector_of(packed))


def vector_of(packed: Packed) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]] | None:
    """The vector of a packed text, in half precision; None where there is none."""
    if not packed.vector:
        return None
    vector = np.frombuffer(packed.vector, _HALF)
    return vector if _HALF.isnative else vector.astype(np.float16)
