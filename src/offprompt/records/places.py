"""How a message names a place that was given as a URL."""

from __future__ import annotations

import re
from typing import Final

_SECRET: Final = re.compile(
    r"(?<=://)([^\s/@]*:)?[^\s/@]*@|(?<=[?&])((?:password|api_key|key|token)=)[^&\s]*", re.IGNORECASE
)


def masked(text: str) -> str:
    """The text with `***` in place of what stands before `@` in its URLs, behind the user's name, and of keys."""
    return _SECRET.sub(lambda found: f"{found[2]}***" if found[2] else f"{found[1] or ''}***@", text)
