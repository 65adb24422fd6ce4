"""The words of memories in PostgreSQL: a list of holders for each word of each scope, found without loading a scope.

A row of `memory_words` has a number for each term of a memory's text: the term's own, combined with its scope's, so
that a list of holders is one scope's, whatever others store. Rows of memories that are not live stay, marked.
"""

# ruff: noqa: S608 - statements are joined from this module's own constants; what users give is bound

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from offprompt.errors import BackendError
from offprompt.records import Indexed, Memory, Scope, Sought, WordHits
from offprompt.records.packed import Packed, unpack_content
from offprompt.stores._parting import FLOOR
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_rows import PLACE, in_subtree
from offprompt.stores._rows import memory_of

MOST_TERMS: Final = 128
_ALIVE: Final = "(expires_at IS NULL OR expires_at > %s)"

PUT: Final = (
    "INSERT INTO memory_words (app, memory_id, place, is_live, expires_at, length, keys) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s::bigint[]) ON CONFLICT (app, memory_id) DO UPDATE SET "
    "(place, is_live, expires_at, length, keys) = "
    "(excluded.place, excluded.is_live, excluded.expires_at, excluded.length, excluded.keys)"
)
_PUT_MANY: Final = PUT.replace(
    "VALUES (%s, %s, %s, %s, %s, %s, %s::bigint[])",
    "SELECT app, memory_id, place, is_live, expires_at, length, keys::bigint[] FROM unnest(%s::text[], %s::text[], "
    "%s::bigint[], %s::boolean[], %s::float8[], %s::bigint[], %s::text[]) "
    "AS new (app, memory_id, place, is_live, expires_at, length, keys)",
)
MARK: Final = (
    "UPDATE memory_words SET is_live = %s, expires_at = %s, place = %s, "
    "keys = ARRAY(SELECT key # place # %s FROM unnest(keys) AS one (key)) WHERE app = %s AND memory_id = %s "
    "AND (is_live, expires_at, place) IS DISTINCT FROM (%s, %s::float8, %s)"
)
# {sought}: what narrows the hits, and no statistic.
_SEARCH: Final = (
    "WITH asked (key, term) AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::int[])), "
    "held AS MATERIALIZED (SELECT term, memory_id FROM asked JOIN memory_words ON keys @> ARRAY[key] "
    f"WHERE app = %s AND is_live AND {_ALIVE}), "
    "whole AS MATERIALIZED (SELECT count(*) AS texts, coalesce(sum(length), 0)::bigint AS terms FROM memory_words "
    f"WHERE app = %s AND place = ANY(%s::bigint[]) AND is_live AND {_ALIVE}), "
    "counts AS MATERIALIZED (SELECT term, count(*) AS holders FROM held GROUP BY term), "
    "rarest AS MATERIALIZED (SELECT term, ln(1 + (texts - holders + 0.5::float8) / (holders + 0.5::float8)) AS weight "
    f"FROM counts, whole ORDER BY holders, term LIMIT {MOST_TERMS}), "
    "best AS MATERIALIZED (SELECT held.memory_id, round(sum(weight) * 1e9) AS score FROM held JOIN rarest USING (term) "
    "{sought} GROUP BY held.memory_id ORDER BY score DESC, held.memory_id LIMIT %s) "
    "SELECT texts, terms, ARRAY(SELECT memory_id FROM best ORDER BY score DESC, memory_id), "
    "ARRAY(SELECT term FROM counts ORDER BY term), ARRAY(SELECT holders FROM counts ORDER BY term) FROM whole"
)
_IN_LOG: Final = (
    'SELECT m.memory_id FROM memories m WHERE (m.app, m."user", m.agent, m.session, m.in_session) = '
    "(t.app, t.\"user\", t.agent, t.session, t.in_session) AND m.kind = 'episode' AND m.state = 'live' "
    'AND (m.expires_at IS NULL OR m.expires_at > %s) AND (m."order", m.memory_id) '
)
_BESIDE: Final = (
    "SELECT DISTINCT n.memory_id FROM memories t CROSS JOIN LATERAL ("
    f'({_IN_LOG} < (t."order", t.memory_id) ORDER BY m."order" DESC, m.memory_id DESC LIMIT 1) UNION ALL '
    f'({_IN_LOG} > (t."order", t.memory_id) ORDER BY m."order", m.memory_id LIMIT 1)) n '
    "WHERE t.app = %s AND t.memory_id = ANY(%s) AND t.kind = 'episode' AND t.state = 'live' AND t.in_session <> '' "
    "AND (t.expires_at IS NULL OR t.expires_at > %s) AND NOT n.memory_id = ANY(%s) ORDER BY n.memory_id"
)


def put(db: Statements, memory: Memory, indexed: Indexed) -> None:
    """Store the words of a memory, in place of those that it had."""
    row = _row(memory, indexed)
    if row is None:
        db.run("DELETE FROM memory_words WHERE app = %s AND memory_id = %s", (memory.scope.app, memory.memory_id))
    else:
        db.run(PUT, row)


def mark(db: Statements, memory: Memory) -> None:
    """Note what became of a memory whose text is the same: its state, end and scope."""
    number, is_live, end = scope_number(memory.scope), memory.state == "live", _end_of(memory)
    db.run(MARK, (is_live, end, number, number, memory.scope.app, memory.memory_id, is_live, end, number))


def put_again(db: Statements, app: str, ids: Sequence[str]) -> None:
    """Make the words of memories anew from what is stored of them."""
    rows = db.rows(
        "SELECT m.record, x.memory_id, x.version, x.content, x.embedder FROM memories m JOIN memory_index x "
        "USING (app, memory_id) WHERE app = %s AND memory_id = ANY(%s)",
        (app, list(ids)),
    )
    made = [made for row in rows if (made := _row(memory_of(row[0]), Indexed(*row[1:]))) is not None]
    gone = sorted(set(ids) - {row[1] for row in made})
    db.run("DELETE FROM memory_words WHERE app = %s AND memory_id = ANY(%s)", (app, gone))
    if made:
        *columns, keys = zip(*made, strict=True)
        # Lists of lists of unlike lengths are no array: each goes as text.
        texts = [f"{{{','.join(map(str, one))}}}" for one in keys]
        db.run(_PUT_MANY, [*map(list, columns), texts])


def _row(memory: Memory, indexed: Indexed) -> tuple[Any, ...] | None:
    """A row of `memory_words`; None for a text without words."""
    packed = _packed(indexed.content)
    if packed is None or not packed.terms:
        return None
    number = scope_number(memory.scope)
    is_live = memory.state == "live" and indexed.version == memory.version
    keys = [number ^ term_number(term) for term in packed.terms]
    return memory.scope.app, memory.memory_id, number, is_live, _end_of(memory), packed.length, keys


def search(db: Statements, terms: Iterable[str], sought: Sought, limit: int, now: float) -> WordHits:
    """See WordIndex.words. One statement, and one more for a subtree, whose scopes are asked for first."""
    asked = sorted(set(terms))
    places = [scope_number(scope) for scope in _scopes(db, sought)]
    numbers = [term_number(term) for term in asked]
    keys = [(place ^ number, at) for place in places for at, number in enumerate(numbers)]
    app = sought.scope.app
    narrowed, given = _narrowed(sought)
    row = db.row(
        _SEARCH.replace("{sought}", narrowed),
        ([key for key, _ in keys], [at for _, at in keys], app, now, app, places, now, *given, max(0, limit)),
    )
    texts, length, ids, found, holders = row or (0, 0, [], [], [])
    return WordHits(tuple(ids), texts, length, {asked[at]: number for at, number in zip(found, holders, strict=True)})


def beside(db: Statements, app: str, ids: Sequence[str], now: float) -> tuple[str, ...]:
    """See WordIndex.beside."""
    rows = db.rows(_BESIDE, (now, now, app, list(ids), now, list(ids)))
    return tuple(row[0] for row in rows)


@lru_cache(maxsize=4096)
def scope_number(scope: Scope) -> int:
    """A number for a scope, 64 bits."""
    return _number("\0".join(scope.key).encode())


@lru_cache(maxsize=65536)
def term_number(term: str) -> int:
    """A number for a term, 64 bits."""
    return _number(term.encode("utf-8", "surrogatepass"))


def _number(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def _packed(content: bytes) -> Packed | None:
    try:
        return unpack_content(content)
    except BackendError:
        # Damaged: reindexing says so, and a write of something else does not fail by it.
        return None


def _end_of(memory: Memory) -> float | None:
    return None if memory.pinned else memory.expires_at


def _scopes(db: Statements, sought: Sought) -> list[Scope]:
    if sought.within == "exact":
        return [sought.scope]
    if sought.within == "inherit":
        return list(sought.scope.inherited())
    where, given = in_subtree(sought.scope)
    rows = db.rows(f'SELECT {PLACE} FROM memory_scopes WHERE {where} AND "user" <> %s', [*given, FLOOR])
    return [Scope.from_key((row[0], row[1], row[2], row[3])) for row in rows]


def _narrowed(sought: Sought) -> tuple[str, list[Any]]:
    """A join with the memories that are sought, and its parameters; empty if there are no conditions."""
    parts: list[tuple[str, Any]] = []
    if sought.kinds is not None:
        parts.append((" AND m.kind = ANY(%s)", sorted(sought.kinds)))
    if sought.since is not None:
        parts.append((" AND m.happened_at >= %s", sought.since))
    if sought.until is not None:
        parts.append((" AND m.happened_at < %s", sought.until))
    if sought.ids is not None:
        parts.append((" AND m.memory_id = ANY(%s)", sorted(sought.ids)))
    if not parts:
        return "", []
    join = "JOIN memories m ON m.app = %s AND m.memory_id = held.memory_id"
    return join + "".join(part for part, _ in parts), [sought.scope.app, *(value for _, value in parts)]
