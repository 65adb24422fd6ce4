"""The tables of a whole store as they mean the same in each engine; what a copy goes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

Cell: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = tuple[Cell, ...]

_SCOPE: Final = ("app", "user", "agent", "session")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns in order, and those that are its key, by which rows are ordered.

    Cells   as docs/storage-format.md has them: an absent id is the empty text, times are floats, switches 0 or 1, JSON
            is the text that was stored, byte for byte. Texts are ordered by their code points.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Row:
        """The key of a row."""
        return tuple(row[self.columns.index(name)] for name in self.key)


def _table(name: str, key: tuple[str, ...], *rest: str, columns: tuple[str, ...] = ()) -> Table:
    return Table(name, columns or (*key, *rest), key)


TABLES: Final = {
    table.name: table
    for table in (
        _table("digest_keys", ("app", "kind", "id"), "key"),
        _table("aliases", ("app", "old"), "new"),
        _table(
            "slots",
            (*_SCOPE, "folded"),
            *("name", "version", "created_at", "expires_at", "ttl_s", "sliding", "tags", "importance", "uses"),
            *("used_at", "schema", "parts", "forgotten_at", "allow", "locked", "recent"),
        ),
        _table(
            "versions",
            (*_SCOPE, "folded", "version"),
            *("value", "policy", "trust", "source", "actor", "written_at", "bytes", "outcome", "op_key"),
        ),
        _table(
            "memories",
            ("memory_id", "app"),
            columns=(
                *(*_SCOPE, "memory_id", "kind", "state", "state_at", "digest", "subject", "attribute", "in_session"),
                *("happened_at", "expires_at", "active_at", "revision", "record"),
            ),
        ),
        _table("memory_versions", ("app", "memory_id", "number"), "version"),
        _table("memory_keys", (*_SCOPE, "op_key"), "memory_id"),
        _table("memory_index", ("app", "memory_id"), "version", "content", "embedder"),
        _table("memory_scopes", _SCOPE, "revision", "whole_before"),
        _table("sessions", _SCOPE, "revision", "used_at", "record"),
        _table("journal", (*_SCOPE, "seq"), "key", "entry"),
        _table("bodies", (*_SCOPE, "seq"), "body_id", "body"),
        _table("ledger", (*_SCOPE, "seq"), "entry"),
        _table(
            "events",
            ("seq",),
            *("at", *_SCOPE, "op", "actor", "name", "version", "bytes", "outcome", "why", "duration_s"),
        ),
    )
}
"""By name, in the order in which they are copied."""

SLOT_TABLES: Final = ("slots", "versions")
"""Those of an engine that keeps slots alone; its events are moved to the memories' engine."""
