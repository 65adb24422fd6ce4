"""Cursors: where a page of a list ended, so that the next one goes on behind it whatever came and went meanwhile."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from offprompt.errors import UsageError
from offprompt.records.json import as_list

T = TypeVar("T")

MAX_PAGE: Final = 1000


def page_of(
    rows: Sequence[T], place: Callable[[T], tuple[str, ...]], *, cursor: str, limit: int
) -> tuple[list[T], str]:
    """The rows behind the cursor, at most `limit`, and the cursor of the next page; empty on the last one.

    place    of a row in the list: they stand in its order.
    cursor   what the page before gave; empty: the first page. It holds a place and nothing else: who makes one up
             sees no more than by asking for all.
    Raises   UsageError for what is none.
    """
    after = _opened(cursor)
    rest = [row for row in rows if after is None or place(row) > after]
    page = rest[:limit]
    return page, _closed(place(page[-1])) if len(rest) > limit else ""


def _closed(place: tuple[str, ...]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode("ascii")


def _opened(cursor: str) -> tuple[str, ...] | None:
    if not cursor:
        return None
    try:
        place = as_list(json.loads(base64.b64decode(cursor.encode("ascii"), b"-_", validate=True)))
    except (ValueError, RecursionError):
        place = None
    if not place or not all(isinstance(part, str) for part in place):
        raise UsageError(f"cursor={cursor[:40]!r} is none that was answered here; leave it out for the first page")
    return tuple(place)
