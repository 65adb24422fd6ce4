"""What statements on the PostgreSQL tables have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from offprompt.records import Scope

PLACE: Final = 'app, "user", agent, session'
"""The columns of a scope's key."""

THE_SCOPE: Final = 'app = %s AND "user" = %s AND agent = %s AND session = %s'
THE_SLOT: Final = THE_SCOPE + " AND folded = %s"
THE_MEMORY: Final = "app = %s AND memory_id = %s"


def in_subtree(scope: Scope | None) -> tuple[str, list[str]]:
    """A condition that holds for the scope's subtree (None: for all), and its parameters."""
    if scope is None:
        return "true", []
    ids = zip(('"user"', "agent", "session"), scope.key[1:], strict=True)
    given = [("app", scope.app), *((kind, value) for kind, value in ids if value)]
    return " AND ".join(f"{kind} = %s" for kind, _ in given), [value for _, value in given]


def columns_of(keys: Iterable[tuple[str, ...]], width: int) -> list[list[str]]:
    """Tuples as one list for each of their members, as `unnest` takes them."""
    rows = list(keys)
    return [[row[at] for row in rows] for at in range(width)]


def marks(count: int) -> str:
    """So many parameters."""
    return ", ".join(["%s"] * count)
