"""A Redis store's slots row by row, as in every engine."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from offprompt.errors import UsageError
from offprompt.protocols.sealing import Resealed, ResealWork
from offprompt.records import Scope
from offprompt.records.tables import SLOT_TABLES, TABLES, Row
from offprompt.stores._redis_connection import RedisServer
from offprompt.stores._redis_plan import Place
from offprompt.stores._redis_rows import Kept, Keys, SlotCells, mark_of, scope_of
from offprompt.stores._redis_scripts import READ
from offprompt.stores._redis_step import RedisStep
from offprompt.stores._sealed_rows import Page, SealedRows

AT_ONCE: Final = 100
LAST: Final = chr(0x10FFFF)
"""Stands behind every folded name."""


class RedisRows:
    """The rows of `slots` and `versions`, in the order of their keys.

    Cost   a scan lists all scopes when it begins, and goes on from there as long as it is asked for the rows behind
           the last ones.
    """

    def __init__(self, server: RedisServer, keys: Keys) -> None:
        self._server, self._keys = server, keys
        self._scopes: list[Scope] = []
        self._last: tuple[str, Row] | None = None

    def scan(self, table: str, after: Row | None, limit: int) -> list[Row]:
        """See Portable.scan."""
        if after is None or (table, after) != self._last:
            self._scopes = all_scopes(self._server, self._keys)
        else:
            self._scopes = self._scopes[bisect_left(self._scopes, after[:4], key=lambda scope: scope.key) :]
        rows: list[Row] = []
        key_of = TABLES[table].key_of
        for start in range(0, len(self._scopes), AT_ONCE):
            some = self._scopes[start : start + AT_ONCE]
            found = self._server.anew(lambda some=some: self._rows(table, some))
            rows += [row for row in found if after is None or key_of(row) > after]
            if len(rows) >= limit:
                break
        rows = rows[: max(0, limit)]
        self._last = (table, key_of(rows[-1])) if rows else None
        return rows

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """See Portable.put_rows.

        Raises   UsageError for a version without a slot.
        """
        put = _put_slot if table == "slots" else _put_version

        def work(target: RedisStep) -> None:
            target.read([(Scope.from_key(_key(row)), str(row[4])) for row in rows])
            for row in rows:
                put(target, (Scope.from_key(_key(row)), str(row[4])), row)

        self._change(work)

    def reseal(self, table: str, work: ResealWork, sealed: SealedRows, after: Row | None, limit: int) -> Resealed:
        """See Sealable.reseal: the slots of whole scopes, as many as it takes for so many rows."""
        scopes = all_scopes(self._server, self._keys)
        if after is not None:
            scopes = [scope for scope in scopes if scope.key > after[:4]]
        found = Page()
        for at, scope in enumerate(scopes):
            page = self._server.anew(lambda scope=scope: self._resealed(table, work, sealed, scope))
            found.add(page)
            if found.rows >= limit and at < len(scopes) - 1:
                return found.result(TABLES[table].key_of((*scope.key, *[LAST] * (len(TABLES[table].columns) - 4))))
        return found.result(None)

    def _resealed(self, table: str, work: ResealWork, sealed: SealedRows, scope: Scope) -> Page:
        step = RedisStep(self._server, self._keys)
        step.read_whole([scope])
        places = sorted(step.places(scope), key=_folded)
        page = sealed.looked_at(table, [row for place in places for row in _rows(step, place, table)], work)
        put = _put_slot if table == "slots" else _put_version
        for row in page.changed:
            put(step, (scope, str(row[4])), row)
        for row in page.gone:
            _remove(step, (scope, str(row[4])), None if table == "slots" else int(row[5] or 0))
        step.commit()
        return page

    def clear(self, table: str) -> None:
        """See Portable.clear_rows. Some scopes at a time."""
        scopes = all_scopes(self._server, self._keys)
        for start in range(0, len(scopes), AT_ONCE):
            some = scopes[start : start + AT_ONCE]

            def work(target: RedisStep, some: Sequence[Scope] = some) -> None:
                for scope in some:
                    for place in target.places(scope):
                        kept = target.kept(place)
                        target.remove(place)
                        if table == "versions" and kept is not None:
                            target.set_kept(place, Kept(kept.slot, ()))

            self._change(work)

    def _change(self, work: Callable[[RedisStep], None]) -> None:
        def whole() -> None:
            step = RedisStep(self._server, self._keys)
            work(step)
            step.commit()

        self._server.anew(whole)

    def _rows(self, name: str, scopes: Sequence[Scope]) -> list[Row]:
        step = RedisStep(self._server, self._keys)
        step.read_whole(scopes)
        return [
            row
            for scope in scopes
            for place in sorted(step.places(scope), key=_folded)
            for row in _rows(step, place, name)
        ]


def _folded(place: Place) -> str:
    return place[1]


def all_scopes(server: RedisServer, keys: Keys) -> list[Scope]:
    """Every scope that has slots, by key."""
    found: list[Scope] = []
    for app in server.call("SMEMBERS", keys.apps):
        name = app.decode()
        tags = [tag.decode() for tag in server.call("SMEMBERS", keys.app(name, "owners"))]
        for start in range(0, len(tags), AT_ONCE):
            some = tags[start : start + AT_ONCE]
            asked = [keys.owner(tag, what) for tag in some for what in ("rev", "scopes")]
            for _, subs in server.run(READ, asked, ["members", ""] * len(some)):
                found += [scope_of(name, sub.decode()) for sub in subs]
    return sorted(found, key=lambda scope: scope.key)


def check_table(table: str) -> None:
    """Nothing, if Redis keeps rows of that table.

    Raises   UsageError.
    """
    if table not in SLOT_TABLES:
        raise UsageError(f"Redis keeps no table {table!r}; it keeps {' and '.join(SLOT_TABLES)}")


def _key(row: Row) -> tuple[str, str, str, str]:
    return str(row[0]), str(row[1]), str(row[2]), str(row[3])


def _rows(step: RedisStep, place: Place, name: str) -> list[Row]:
    kept = step.kept(place)
    if kept is None:
        return []
    key = (*place[0].key, place[1])
    if name == "slots":
        return [(*key, *kept.slot)]
    older = [(*key, number, *cells) for number, cells in step.older(place, kept)]
    return [*older, (*key, kept.version, *kept.current)] if kept.current else older


def _put_slot(target: RedisStep, place: Place, row: Row) -> None:
    cells, kept = tuple(row[5:]), target.kept(place)
    if kept is None:
        target.set_kept(place, Kept(cells, ()))
        return
    all_of = dict(target.older(place, kept)) | ({kept.version: kept.current} if kept.current else {})
    _put_all(target, place, cells, all_of)


def _put_version(target: RedisStep, place: Place, row: Row) -> None:
    kept = target.kept(place)
    if kept is None:
        raise UsageError(f"a version of {place[1]!r} in {place[0]} has no slot; put the rows of table slots first")
    all_of = dict(target.older(place, kept)) | ({kept.version: kept.current} if kept.current else {})
    _put_all(target, place, kept.slot, all_of | {int(row[5] or 0): tuple(row[6:])})


def _remove(target: RedisStep, place: Place, number: int | None) -> None:
    """Remove a version of a slot; the whole slot for None, or if that is its current one."""
    kept = target.kept(place)
    if kept is None:
        return
    if number is None or number == kept.version:
        target.remove(place)
        return
    target.set_version(place, number, None)
    target.set_kept(place, replace(kept, older=tuple(mark for mark in kept.older if mark.version != number)))


def _put_all(target: RedisStep, place: Place, cells: SlotCells, versions: dict[int, SlotCells]) -> None:
    """The slot with these versions, and no other."""
    target.remove(place)
    kept = Kept(cells, ())
    current = versions.pop(kept.version, ())
    for number, older in versions.items():
        target.set_version(place, number, older)
    marks = tuple(mark_of(number, versions[number]) for number in sorted(versions))
    target.set_kept(place, replace(kept, current=current, older=marks))
