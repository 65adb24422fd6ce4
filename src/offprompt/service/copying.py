"""Copy: a whole store from engine to engine, page by page; broken off, it goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from offprompt.errors import BackendError, ConflictError, UnsupportedError, UsageError
from offprompt.protocols import Notes, Portable, Store
from offprompt.records.tables import SLOT_TABLES, TABLES, Row
from offprompt.service import granting, holding, tombstones
from offprompt.service.keys import copy_keys
from offprompt.service.parts import Parts
from offprompt.service.tombstones import copy_notes

NOTE: Final = "copy"
"""The target's note of a copy that is not finished."""

PAGE: Final = 1000
PAGE_OF_TEXTS: Final = 100
_TEXTS: Final = frozenset({"sessions", "journal", "bodies", "ledger"})
"""Tables whose rows may be long."""

_FAMILIES: Final = (
    SLOT_TABLES,
    ("memories", "memory_versions", "memory_keys", "memory_index", "memory_scopes"),
    ("sessions", "journal", "bodies", "ledger"),
    *((name,) for name in ("digest_keys", "aliases", "events")),
)
"""Tables that are copied anew together: what belongs to a slot, a memory or a session goes with it."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole store. place: its URL, as a message names it. slots: the engine of the slots, `main` where it is one."""

    place: str
    main: Store
    slots: Portable

    @staticmethod
    def of(parts: Parts) -> Whole:
        """The store of an opened memory; what was kept back is stored.

        Raises   UnsupportedError if the slots' engine cannot be copied.
        """
        if not isinstance(parts.slots, Portable):
            raise UnsupportedError(
                f"the slots of {parts.url} cannot be copied: {type(parts.slots).__name__} has no rows"
            )
        parts.memories.flush()
        # Events of an engine that keeps slots alone are moved to the log when it is read.
        parts.slots.events(limit=1)
        return Whole(parts.place, parts.main, parts.slots)

    def engine(self, table: str) -> Portable:
        """The engine that keeps a table."""
        return self.slots if table in SLOT_TABLES else self.main


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table that is the same on both sides: its rows, and the SHA-256 of them in order."""

    name: str
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy that is done. resumed: it went on with one that was broken off."""

    tables: tuple[CopiedTable, ...]
    resumed: bool

    @property
    def rows(self) -> int:
        """Rows in all tables."""
        return sum(table.rows for table in self.tables)


@dataclass(frozen=True, slots=True)
class _State:
    """How far a copy is: of its tables those before `table` are done, of that one the rows up to `after`.

    clear    the tables differed in the end, and are emptied before they are copied anew.
    """

    source: str
    table: str = next(iter(TABLES))
    after: tuple[str | int, ...] | None = None
    tables: tuple[str, ...] = field(default=tuple(TABLES))
    clear: bool = False

    def text(self) -> str:
        """As the target notes it."""
        return msgspec.json.encode(self).decode()


def copy(source: Whole, target: Whole, *, progress: Callable[[str, int], object] | None = None) -> Copied:
    """Copy all that a store holds into an empty one, and compare both sides, table by table, by a digest of all rows.

    progress  called with a table's name and how many of its rows were copied by this call, page by page.
    Killed    at any point: the same call goes on behind the last page that was noted, and ends with the same content.
    In use    the source may be read meanwhile. If it was written to, the comparison fails: then nothing tells which
              state was copied, and the same call, once the writers rest, copies those tables anew.
    Apart     notes but for keys, grants, holds, tombstones and withdrawn consents, and what waits for a vector index
              outside, stay where they are.
    Cost      each row read three times and written once; memory: one page.
    Raises    UsageError for a target that holds something else, or a source that is itself half a copy; ConflictError
              if another copy works on the target; BackendError, naming the tables, if both sides differ.
    """
    _check_source(source, target)
    state, resumed = _begin(source, target)
    for name in state.tables[state.tables.index(state.table) :]:
        done = 0
        for page in _pages(source.engine(name), name, state.after if name == state.table else None):
            target.engine(name).put_rows(name, page)
            done += len(page)
            key = TABLES[name].key_of(page[-1])
            state = _noted(target, state, replace(state, table=name, after=_plain(key)))
            if progress is not None:
                progress(name, done)
    tables = _compared(source, target, state)
    copy_keys(source.main, target.main)
    for prefix in (holding.PREFIX, granting.PREFIX, tombstones.PREFIX, tombstones.WITHDRAWN):
        copy_notes(source.main, target.main, prefix)
    target.main.set_note(NOTE, None, was=state.text())
    return Copied(tables, resumed)


def unfinished(store: Notes) -> str:
    """The source of the copy that this store is and that is not finished; empty if it is none."""
    text = store.note(NOTE)
    return "" if text is None else _read(text).source


def _check_source(source: Whole, target: Whole) -> None:
    if source.place == target.place:
        raise UsageError(f"{source.place} is source and target; give another target")
    if other := unfinished(source.main):
        raise UsageError(
            f"the source {source.place} is itself a copy of {other} that is not finished; finish it first: "
            f"offprompt copy {other!r} {source.place!r}"
        )


def _begin(source: Whole, target: Whole) -> tuple[_State, bool]:
    """Where the copy begins, and whether an earlier one had."""
    text = target.main.note(NOTE)
    if text is not None:
        state = _read(text)
        if state.source != source.place:
            raise UsageError(
                f"the target {target.place} is a copy of {state.source} that is not finished; finish it, "
                "or give an empty target"
            )
        return _cleared(target, state), True
    if held := [name for name in TABLES if target.engine(name).scan(name, limit=1)]:
        raise UsageError(
            f"the target {target.place} is not empty ({', '.join(held)}), and a copy adds to nothing; give an empty one"
        )
    state = _State(source.place)
    if not target.main.set_note(NOTE, state.text(), was=None):
        raise _taken(target)
    return state, False


def _cleared(target: Whole, state: _State) -> _State:
    """The state, once the tables that are to be copied anew are empty."""
    if not state.clear:
        return state
    for name in reversed(state.tables):
        target.engine(name).clear_rows(name)
    return _noted(target, state, replace(state, clear=False))


def _noted(target: Whole, before: _State, now: _State) -> _State:
    if not target.main.set_note(NOTE, now.text(), was=before.text()):
        raise _taken(target)
    return now


def _compared(source: Whole, target: Whole, state: _State) -> tuple[CopiedTable, ...]:
    """The tables, if both sides have the same rows; else those that differ are noted as to be copied anew."""
    pairs = [(_digest(source.engine(name), name), _digest(target.engine(name), name)) for name in TABLES]
    if differing := [one.name for one, other in pairs if one != other]:
        anew = tuple(name for family in _FAMILIES if set(family) & set(differing) for name in family)
        _noted(target, state, _State(state.source, anew[0], None, anew, clear=True))
        raise BackendError(
            f"the copy {target.place} differs from {source.place} in {', '.join(differing)}: the source was written to "
            "meanwhile; let its writers rest and run the same copy again, it does these tables anew"
        )
    return tuple(one for one, _ in pairs)


def _digest(engine: Portable, name: str) -> CopiedTable:
    digest, rows = hashlib.sha256(), 0
    for page in _pages(engine, name, None):
        rows += len(page)
        for row in page:
            digest.update(msgspec.msgpack.encode(row))
    return CopiedTable(name, rows, digest.hexdigest())


def _pages(engine: Portable, name: str, after: Row | None) -> Iterator[Sequence[Row]]:
    limit = PAGE_OF_TEXTS if name in _TEXTS else PAGE
    while page := engine.scan(name, after=after, limit=limit):
        yield page
        after = TABLES[name].key_of(page[-1])


def _plain(key: Row) -> tuple[str | int, ...]:
    return tuple(cell for cell in key if isinstance(cell, (str, int)))


def _read(text: str) -> _State:
    try:
        return msgspec.convert(json.loads(text), _State)
    except (ValueError, msgspec.ValidationError) as exc:
        raise BackendError(f"the note of a copy cannot be read: {exc}; copy into an empty target") from exc


def _taken(target: Whole) -> ConflictError:
    return ConflictError(f"another copy works on the target {target.place}; let it end, or end it, and try again")
