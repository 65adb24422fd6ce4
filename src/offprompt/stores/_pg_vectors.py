"""Vectors in the PostgreSQL of the memories, by pgvector."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from offprompt.errors import UsageError
from offprompt.records import Scope, Sought, VectorEntry, VectorStamp
from offprompt.stores._pg_locks import WHOLE_STORE, Locks
from offprompt.stores._pg_rows import PLACE, columns_of
from offprompt.stores._pg_transactions import Database
from offprompt.stores._pg_vector_table import VectorTable, set_up

if TYPE_CHECKING:  # NumPy is loaded where vectors are used
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
BATCH: Final = 256
_AT_PLACES: Final = "embedder = %s AND (app, memory_id) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"


class PgVectors:
    """A VectorIndex in table `vectors` of the schema, in half precision. Its connections are the store's.

    Exact    scopes of up to 20,000 vectors, and all where there is no graph: `build_graph` makes one over all scopes,
             whose search goes on until enough of what is sought is found.
    Raises   UnsupportedError if the server has no pgvector, or the role may not add it to the database.
    """

    def __init__(self, database: Database, *, embedder: str, dimension: int) -> None:
        self.embedder, self.dimension = embedder, dimension
        self._db = database
        self._lock = threading.Lock()
        self._table: VectorTable | None = None

    def nearest(self, vector: NDArray[np.floating], sought: Sought, *, limit: int) -> list[tuple[str, float]]:
        """See VectorSearch."""
        self._check([vector])
        if limit < 1 or sought.ids == frozenset() or sought.kinds == frozenset():
            return []
        table, asked = self._ready(), _text(vector)
        found = self._db.read(lambda db: table.nearest(db, asked, sought, limit), apps=[sought.scope.app])
        return sorted(((memory_id, 1.0 - distance) for memory_id, distance in found), key=lambda hit: (-hit[1], hit[0]))

    def upsert(self, entries: Sequence[VectorEntry]) -> None:
        """See VectorIndex. A batch of 256 is one transaction."""
        self._check([entry.vector for entry in entries])
        last = {entry.place: entry for entry in entries}
        for part in _parts([last[place] for place in sorted(last)]):
            rows = [
                (*one.scope.key, one.memory_id, one.kind, one.happened_at, one.stamp, _text(one.vector)) for one in part
            ]
            columns: list[Any] = [[row[at] for row in rows] for at in range(9)]
            self._write(self._ready().upsert, columns, {one.scope.app for one in part})

    def delete(self, places: Sequence[tuple[str, str]]) -> None:
        """See VectorIndex."""
        for part in _parts(sorted(set(places))):
            self._ready()
            self._write(f"DELETE FROM vectors WHERE {_AT_PLACES}", columns_of(part, 2), {app for app, _ in part})

    def stamps(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], VectorStamp]:
        """See VectorIndex."""
        if not places:
            return {}
        self._ready()
        ask = f"SELECT memory_id, stamp, {PLACE} FROM vectors WHERE {_AT_PLACES}"
        given = (self.embedder, *columns_of(places, 2))
        rows = self._db.read(lambda db: db.rows(ask, given), apps=sorted({app for app, _ in places}))
        return {stamp.place: stamp for stamp in map(_stamp, rows)}

    def scan(self, *, after: str = "", limit: int = 1000) -> tuple[list[VectorStamp], str]:
        """See VectorIndex. In the order of apps and ids."""
        self._ready()
        app, _, memory_id = after.partition("\n")
        ask = (
            f"SELECT memory_id, stamp, {PLACE} FROM vectors WHERE embedder = %s AND (app, memory_id) > (%s, %s) "
            "ORDER BY app, memory_id LIMIT %s"
        )
        rows = self._db.read(lambda db: db.rows(ask, (self.embedder, app, memory_id, limit)), apps=None)
        page = [_stamp(row) for row in rows]
        return page, "\n".join(page[-1].place) if len(page) == limit else ""

    def count(self) -> int:
        """See VectorIndex."""
        self._ready()
        ask = "SELECT count(*) FROM vectors WHERE embedder = %s"
        ((number,),) = self._db.read(lambda db: db.rows(ask, (self.embedder,)), apps=None)
        return number

    def drop(self) -> None:
        """See VectorIndex."""
        self._ready()
        self._db.write(lambda db: db.run("DELETE FROM vectors WHERE embedder = %s", (self.embedder,)), WHOLE_STORE)

    def close(self) -> None:
        """See VectorIndex. The connections are the store's to close."""

    def build_graph(self) -> None:
        """Make the approximate index (HNSW) for very large scopes, while others write; nothing if it is there.

        Cost     minutes for a million vectors; from then on each one added costs the server some milliseconds more.
        """
        table = self._ready()
        if not table.has_graph:
            self._db.bare(table.build_graph)
            with self._lock:
                self._table = None

    def _ready(self) -> VectorTable:
        with self._lock:
            if self._table is None:
                schema = self._db.address.schema
                self._table = self._db.bare(lambda one: set_up(one, schema, self.embedder, self.dimension))
            return self._table

    def _write(self, statement: str, columns: Sequence[Any], apps: Iterable[str]) -> None:
        # Nobody else holds these: they only tell whether a lost commit is over.
        locks = Locks(frozenset((app, "vectors", secrets.token_hex(8)) for app in apps))
        self._db.write(lambda db: db.run(statement, (self.embedder, *columns)), locks)

    def _check(self, vectors: Sequence[NDArray[np.floating]]) -> None:
        """Nothing, if all have the dimension.

        Raises   UsageError.
        """
        for vector in vectors:
            if vector.shape != (self.dimension,):
                raise UsageError(
                    f"a vector of shape {vector.shape} does not fit this index, whose vectors have {self.dimension} "
                    "numbers; embed with the model that made the others, or reindex all with the new one"
                )


def _text(vector: NDArray[np.floating]) -> str:
    """The vector as pgvector reads it; of any length, so that half precision holds it."""
    largest = float(abs(vector).max()) or 1.0
    return str((vector / largest).tolist())


def _stamp(row: tuple[Any, ...]) -> VectorStamp:
    return VectorStamp(row[0], Scope.from_key((row[2], row[3], row[4], row[5])), row[1])


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), BATCH):
        yield items[at : at + BATCH]
