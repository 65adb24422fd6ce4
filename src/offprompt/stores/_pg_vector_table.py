"""Table `vectors` of a PostgreSQL schema: made at first use, since not every server has pgvector; its statements."""

# ruff: noqa: S608 - statements are joined from this module's own constants and checked names; the rest is bound

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Final, LiteralString, cast

from offprompt.errors import UnsupportedError, UsageError
from offprompt.records import Scope, Sought
from offprompt.stores._pg_connection import Connection, Error, Statements
from offprompt.stores._pg_errors import code_of
from offprompt.stores._pg_locks import TAKE, Locks
from offprompt.stores._pg_rows import PLACE, THE_SCOPE, columns_of, in_subtree
from offprompt.stores._pg_schema import OWN_APPS, SCOPE, say

EXACT: Final = 20_000
"""Vectors of a scope up to which all are compared, even where there is a graph."""

WIDTH: Final = 100
"""How many vectors a search of the graph keeps in view."""

# No such file, no such extension, no right to make it.
_NO_EXTENSION: Final = frozenset({"0A000", "58P01", "42501"})
_GRAPH: Final = "vectors_graph_"
_ASK_EXTENSION: Final = (
    "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
)
_COUNT_GRAPHS: Final = (
    "SELECT count(*) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = to_regclass(%s) "
    "AND indisvalid AND starts_with(relname, %s) AND pg_get_expr(indpred, indrelid) = %s"
)
_TABLE: Final = (
    f"""
    CREATE TABLE vectors (
        embedder text NOT NULL, {SCOPE}, memory_id text NOT NULL, kind text NOT NULL, happened_at float8 NOT NULL,
        stamp text NOT NULL, vector EXT.halfvec NOT NULL, PRIMARY KEY (embedder, app, memory_id)
    )
    """,
    f"CREATE INDEX vectors_scope ON vectors (embedder, {PLACE})",
    "ALTER TABLE vectors ENABLE ROW LEVEL SECURITY",
    f"CREATE POLICY own_apps ON vectors USING ({OWN_APPS})",
)


@dataclass(frozen=True, slots=True)
class VectorTable:
    """What is known since the first use.

    ext      the schema of the extension, as SQL writes it. has_graph: whether there is an approximate index.
    """

    ext: str
    embedder: str
    dimension: int
    has_graph: bool

    @property
    def upsert(self) -> str:
        """The statement that puts entries, a column each: scope key, id, kind, time, stamp, vector as text."""
        texts = ", ".join(["%s::text[]"] * 6)
        return (
            f"INSERT INTO vectors (embedder, {PLACE}, memory_id, kind, happened_at, stamp, vector) "
            f"SELECT %s, {PLACE}, memory_id, kind, happened_at, stamp, vector::{self.ext}.halfvec "
            f"FROM unnest({texts}, %s::float8[], %s::text[], %s::text[]) AS new ({PLACE}, memory_id, kind, "
            "happened_at, stamp, vector) ON CONFLICT (embedder, app, memory_id) DO UPDATE SET "
            '("user", agent, session, kind, happened_at, stamp, vector) = (excluded."user", excluded.agent, '
            "excluded.session, excluded.kind, excluded.happened_at, excluded.stamp, excluded.vector)"
        )

    def nearest(self, db: Statements, asked: str, sought: Sought, limit: int) -> list[tuple[str, float]]:
        """Ids and distances of the nearest."""
        condition, given = _condition(sought)
        if self.has_graph and self._is_large(db, condition, given):
            found = self._by_graph(db, asked, condition, given, limit)
            if len(found) == limit:
                return found
        rows = db.rows(
            f"WITH near AS MATERIALIZED (SELECT memory_id, vector OPERATOR({self.ext}.<=>) %s::{self.ext}.halfvec "
            f"AS distance FROM vectors WHERE embedder = %s AND {condition}) "
            "SELECT memory_id, distance FROM near ORDER BY distance, memory_id LIMIT %s",
            (asked, self.embedder, *given, limit),
        )
        return [(row[0], row[1]) for row in rows]

    def _is_large(self, db: Statements, condition: str, given: list[Any]) -> bool:
        row = db.row(
            f"SELECT count(*) FROM (SELECT FROM vectors WHERE embedder = %s AND {condition} LIMIT %s) AS few",
            (self.embedder, *given, EXACT + 1),
        )
        return row is not None and row[0] > EXACT

    def _by_graph(
        self, db: Statements, asked: str, condition: str, given: list[Any], limit: int
    ) -> list[tuple[str, float]]:
        """The same by the graph, searched on until so many of what is sought are found, or it has seen enough."""
        db.run("SET LOCAL hnsw.iterative_scan = strict_order")
        db.run(f"SET LOCAL hnsw.ef_search = {min(1000, max(WIDTH, limit))}")
        # Without it PostgreSQL may sort the whole scope.
        db.run("SET LOCAL enable_sort = off")
        kind = f"{self.ext}.halfvec({self.dimension})"
        rows = db.rows(
            f"SELECT memory_id, vector::{kind} OPERATOR({self.ext}.<=>) %s::{kind} AS distance FROM vectors "
            f"WHERE embedder = {literal(self.embedder)} AND {condition} ORDER BY distance LIMIT %s",
            (asked, *given, limit),
        )
        return [(row[0], row[1]) for row in rows]

    def build_graph(self, connection: Connection) -> None:
        """Make the graph, while others write; the connection is closed afterwards: it has no time limit any more."""
        connection.answer_s = None
        try:
            say(connection, "SELECT set_config('statement_timeout', '0', false)")
            name, kind = f"{_GRAPH}{secrets.token_hex(4)}", f"{self.ext}.halfvec({self.dimension})"
            say(
                connection,
                f"CREATE INDEX CONCURRENTLY {name} ON vectors USING hnsw ((vector::{kind}) "
                f"{self.ext}.halfvec_cosine_ops) WHERE embedder = {literal(self.embedder, binds=False)}",
            )
        finally:
            connection.close()


def set_up(connection: Connection, schema: str, embedder: str, dimension: int) -> VectorTable:
    """See that the extension and the table are there, and that they hold no other dimension.

    Raises   UnsupportedError, UsageError.
    """
    ext = _extension(connection)
    with connection.transaction():
        connection.execute(cast("LiteralString", TAKE), Locks(store=True).wanted(schema))
        if not _first(connection, "SELECT to_regclass(%s) IS NOT NULL", (f"{schema}.vectors",)):
            for statement in _TABLE:
                say(connection, statement.replace("EXT.", f"{ext}."))
        # Row-level security may hide all of them: then it is said when one is written or compared.
        other = _first(
            connection, f"SELECT {ext}.vector_dims(vector) FROM vectors WHERE embedder = %s LIMIT 1", (embedder,)
        )
    if other not in (None, dimension):
        raise UsageError(
            f"the vectors of {embedder} in this schema have {other} numbers, and {dimension} are asked for; "
            "embed with the model that made them, or drop them and reindex"
        )
    graphs = _first(connection, _COUNT_GRAPHS, _graph_of(schema, embedder))
    return VectorTable(ext, embedder, dimension, bool(graphs))


def without_graph(db: Statements, schema: str) -> list[tuple[str, int, int]]:
    """Embedder, dimension and vectors of the largest scope, of embedders with a very large scope and no graph."""
    ext = db.row(_ASK_EXTENSION)
    if ext is None or db.row("SELECT 1 WHERE to_regclass(%s) IS NOT NULL", (f"{schema}.vectors",)) is None:
        return []
    rows = db.rows(
        f"SELECT embedder, min(dimension), max(number) FROM (SELECT embedder, min({ext[0]}.vector_dims(vector)) AS "
        f"dimension, count(*) AS number FROM vectors GROUP BY embedder, {PLACE}) AS each GROUP BY embedder "
        "HAVING max(number) > %s ORDER BY embedder",
        (EXACT,),
    )
    found = [(row[0], row[1], row[2]) for row in rows]
    return [one for one in found if not (db.row(_COUNT_GRAPHS, _graph_of(schema, one[0])) or (0,))[0]]


def literal(text: str, *, binds: bool = True) -> str:
    """A text as SQL writes it. binds: in a statement with parameters, whose % are doubled."""
    quoted = "'" + text.replace("'", "''") + "'"
    return quoted.replace("%", "%%") if binds else quoted


def _graph_of(schema: str, embedder: str) -> tuple[str, str, str]:
    """What `_COUNT_GRAPHS` is asked with."""
    return f"{schema}.vectors", _GRAPH, f"(embedder = {literal(embedder, binds=False)}::text)"


def _extension(connection: Connection) -> str:
    """The schema of pgvector, which is added to the database if it is not there."""
    found = _first(connection, _ASK_EXTENSION)
    if found is None:
        try:
            say(connection, "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
        except Error as exc:
            if code_of(exc) not in _NO_EXTENSION:
                raise
            raise UnsupportedError(
                "this PostgreSQL has no pgvector, or this role may not add it: install pgvector on the server and run "
                "CREATE EXTENSION vector as a superuser, or leave out vectors=pgvector"
            ) from exc
        found = _first(connection, _ASK_EXTENSION)
    return str(found)


def _condition(sought: Sought) -> tuple[str, list[Any]]:
    """What holds for the vectors that are sought, and its parameters."""
    where, given = _within(sought.scope, sought.within)
    parts: list[tuple[str, list[Any]]] = [(where, given)]
    if sought.kinds is not None:
        parts.append(("kind = ANY(%s)", [sorted(sought.kinds)]))
    if sought.since is not None:
        parts.append(("happened_at >= %s", [sought.since]))
    if sought.until is not None:
        parts.append(("happened_at < %s", [sought.until]))
    if sought.ids is not None:
        parts.append(("memory_id = ANY(%s)", [sorted(sought.ids)]))
    return " AND ".join(part for part, _ in parts), [value for _, values in parts for value in values]


def _within(scope: Scope, within: str) -> tuple[str, list[Any]]:
    if within == "subtree":
        where, ids = in_subtree(scope)
        return where, list[Any](ids)
    if within == "exact":
        return THE_SCOPE, list(scope.key)
    keys = columns_of([one.key for one in scope.inherited()], 4)
    return f"({PLACE}) IN (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]))", list[Any](keys)


def _first(connection: Connection, sql: str, given: tuple[Any, ...] = ()) -> Any:
    row = connection.execute(cast("LiteralString", sql), given).fetchone()
    return None if row is None else row[0]
