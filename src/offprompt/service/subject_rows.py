"""Which rows of a store are of somebody: one rule for what an erasure is checked by and what an export holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from offprompt.errors import UnsupportedError
from offprompt.protocols import Portable
from offprompt.records import Scope, VectorStamp
from offprompt.records.erasure import cell_of, owner_of
from offprompt.records.tables import SLOT_TABLES, TABLES, Row

if TYPE_CHECKING:
    from offprompt.service.parts import Parts

PAGE: Final = 500


def engine_of(parts: Parts, table: str) -> Portable:
    """The engine that keeps a table.

    Raises   UnsupportedError if its rows cannot be read.
    """
    engine: object = parts.slots if table in SLOT_TABLES else parts.main
    if not isinstance(engine, Portable):
        raise UnsupportedError(f"the rows of {type(engine).__name__} cannot be read, so nothing can be said of them")
    return engine


def scanned(engine: Portable, table: str) -> Iterator[Row]:
    """All rows of a table, by its key; one page is held at a time."""
    after: Row | None = None
    while page := engine.scan(table, after=after, limit=PAGE):
        yield from page
        after = TABLES[table].key_of(page[-1])


def is_of(cells: Mapping[str, object], scopes: Sequence[Scope]) -> bool:
    """Whether a row tells of one of the scopes: it lies below, or is the scope's key or alias."""
    for scope in scopes:
        if cells.get("app") != scope.app:
            continue
        kind, value = owner_of(scope)
        column, cell, _ = cell_of(scope)
        if cells.get(column) == cell or (cells.get("kind") == kind and cells.get("id") == value):
            return True
        if kind == "user" and value in (cells.get("old"), cells.get("new")):
            return True
    return False


def vectors_of(parts: Parts, scopes: Sequence[Scope]) -> Iterator[VectorStamp]:
    """The entries of an index of vectors outside; none where there is no such index.

    Raises   BackendError if it cannot be looked at.
    """
    if not parts.memories.has_index or (link := parts.memories.kit.vectors) is None or link.outside is None:
        return
    cursor = ""
    while True:
        page, cursor = link.outside.scan(after=cursor)
        yield from (entry for entry in page if any(scope.holds(entry.scope) for scope in scopes))
        if not cursor:
            return
