"""From which length on a value, or a part of one, is no chance in a text."""

from __future__ import annotations

import re
from typing import Final

from offprompt.wire.folding import fold

PROVABLE_CHARS: Final = 8
WHOLE_CHARS: Final = 24
# Eight characters fold to no less, unless they are escapes or cannot be seen.
LEAST_FOLDED: Final = 4
PART_CHARS: Final = 32
PART_HAN: Final = 12

_HAN: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# What folding drops counts as one character, however long it is.
_DROPPED: Final = re.compile(r"[\s+\\-]+")


def chars(text: str) -> int:
    """Characters, a run of spaces and dashes counted as one."""
    return len(_DROPPED.sub(" ", text))


def doubled(text: str) -> int:
    """Characters, a Han character counted twice."""
    return chars(text) + len(_HAN.findall(text))


def enough(text: str) -> bool:
    """Whether a part is long enough to be no chance: 32 characters, 12 Han, or a mixture."""
    han = len(_HAN.findall(text))
    return (chars(text) - han) * PART_HAN + han * PART_CHARS >= PART_CHARS * PART_HAN


def provable(text: str) -> bool:
    """Whether a value is long enough to be looked for at all: 8 characters (4 Han), a run of spaces or dashes counted
    as one, and not all of them such runs.
    """
    return doubled(text) >= PROVABLE_CHARS and len(fold(text)) >= LEAST_FOLDED


def spelled_out(piece: str, value: str) -> bool:
    """Whether a short value stands there with enough characters to be no chance: `AB-12-CD` as `ab 12 cd`, but not as
    `ab12cd`. Where 7 bytes of it are neither spaces nor dashes, each spelling will do.
    """
    if len(fold(value)) >= PROVABLE_CHARS - 1:
        return True
    inner = _DROPPED.sub(" ", value).strip()
    return doubled(piece) >= min(PROVABLE_CHARS, doubled(inner))
