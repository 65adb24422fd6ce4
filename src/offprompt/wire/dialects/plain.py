"""A JSON object that says its own name: bare, in a list, in any family's marks."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from offprompt.wire._calls import BadCall, calls_in
from offprompt.wire._envelope import Envelope
from offprompt.wire._lenient import UnreadableError, read_object

OPENING: Final = r"[{｛](?=\s*(?:[\"'“”‘’＂\\]|[^\W\d]\w*\s*[:：]|\}))"

_NEXT_LINE = re.compile(r"\n\s*[{｛]")


def read_plain(text: str, start: int, names: Collection[str], *, tagged: bool) -> Envelope:
    """The JSON object that begins there. tagged: only calls stand here, so a name without arguments is one.

    In a block of one call a line, a line that is broken but closed ends with its line.
    """
    try:
        found = read_object(text, start)
    except UnreadableError as exc:
        end = max(exc.end, start + 1)
        if tagged:
            end = min(end, _line_end(text, start) or end)
        named = _mention(frozenset(names)).search(text, start, end)
        return Envelope(start, end, () if named is None else (BadCall(named[1], exc.why),))
    return Envelope(start, found.end, tuple(calls_in(found.value, names, tagged=tagged)))


def _line_end(text: str, start: int) -> int | None:
    """The end of the first line, if the next begins an object and no text is open where it ends."""
    after = text.find("\n", start)
    line = text[start:after]
    if after < 0 or line.count('"') % 2 or "\\" in line or not line.rstrip(" ,;").endswith(("}", "]", '"')):
        return None
    return after if _NEXT_LINE.match(text, after) else None


@lru_cache(maxsize=64)
def _mention(names: frozenset[str]) -> re.Pattern[str]:
    """A known name where a call has its name, in text that cannot be read."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or r"(?!)"
    quote = r"[\\\"'“”‘’＂]{0,8}"
    return re.compile(
        rf"(?<!\w)(?:name|action|tool|function|tool_name){quote}\s{{0,8}}[:：]\s{{0,8}}{quote}({known})(?![\w-])"
    )
