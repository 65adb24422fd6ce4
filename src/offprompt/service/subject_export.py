"""All that is stored of one person, out of every engine, as files that person and programs can read."""

from __future__ import annotations

import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import msgspec

from offprompt.errors import NotFoundError, UsageError
from offprompt.protocols import run
from offprompt.records import Actor, Event, ListSecrets, LogEvents, Scope, compact, fold_name
from offprompt.records.erasure import owner_of
from offprompt.records.subject import SubjectExport
from offprompt.records.tables import TABLES
from offprompt.service.aliasing import with_aliases
from offprompt.service.erasing import print_of
from offprompt.service.scrubber import Scrubber, map_arguments
from offprompt.service.subject_readme import PLACES, readmes
from offprompt.service.subject_rows import engine_of, is_of, scanned, vectors_of
from offprompt.service.turn import NAME_ROOM

if TYPE_CHECKING:
    from offprompt.service.keys import Keys
    from offprompt.service.parts import Parts

FORMAT: Final = "offprompt-subject"
VERSION: Final = 1
WITHHELD: Final = "withheld"
"""Stands in a record in place of a secret's value."""

_JSON: Final = frozenset(
    (
        *(("slots", name) for name in ("tags", "schema", "allow", "recent")),
        *(("versions", "value"), ("memories", "record"), ("memory_versions", "version"), ("sessions", "record")),
        *(("journal", "entry"), ("bodies", "body"), ("ledger", "entry")),
    )
)
"""Cells that are JSON texts."""

Cells: TypeAlias = dict[str, Any]
Name: TypeAlias = tuple[tuple[str, str, str, str], str]
"""A slot: the key of its scope, and its folded name."""


@dataclass(slots=True)
class SubjectRecords:
    """The records of one user, from every place, by `is_of`: what an erasure would remove, and what names the user.

    Never      another person's: rows below the user's own ids, and the entries that name them.
    secrets    values of `never` slots as they are; else `withheld` stands in their place, and handles in other texts.
    In use     each place is read page by page; what is written meanwhile may or may not be there.
    Cost       reads all rows of the store; holds the ids of the user's memories, and its secrets.
    """

    parts: Parts
    keys: Keys
    scopes: list[Scope]
    secrets: bool = False
    withheld: int = 0
    _hidden: set[Name] = field(default_factory=set[Name])
    _hide: Callable[[str], str] = str

    def all(self) -> Iterator[tuple[str, Cells]]:
        """Each record with its place, in the order of `subject_readme.PLACES`."""
        self.parts.memories.flush()
        # Events of an engine that keeps slots alone are moved to the log when it is read.
        self.parts.slots.events(limit=1)
        self._look_for_secrets()
        ids = set[str]()
        for name in TABLES:
            for cells in self._rows(name, ids):
                yield name, self._shown(cells)
        for name, records in self._beside().items():
            for record in records:
                yield name, self._shown(record)

    def _rows(self, name: str, ids: set[str]) -> Iterator[Cells]:
        columns = TABLES[name].columns
        for row in scanned(engine_of(self.parts, name), name):
            cells = dict(zip(columns, row, strict=True))
            if not (is_of(cells, self.scopes) or (cells.get("memory_id") in ids and "user" not in cells)):
                continue
            if name == "memories":
                ids.add(str(cells["memory_id"]))
            yield self._read(name, cells)

    def _read(self, name: str, cells: Cells) -> Cells:
        """A row as it is told: JSON as JSON, no secret and no key, and of what is derived the size."""
        if name == "digest_keys":
            return {**cells, "key": None, "print": print_of(cells["key"])}
        if name == "memory_index":
            return {**cells, "content": None, "bytes": len(cells["content"])}
        if name == "versions" and not self.secrets and self._is_hidden(cells):
            self.withheld += 1
            cells["value"], cells[WITHHELD] = None, True
        return {key: self._cell(name, key, value) for key, value in cells.items()}

    def _is_hidden(self, cells: Cells) -> bool:
        key = (cells["app"], cells["user"], cells["agent"], cells["session"])
        return cells["policy"] == "never" or (key, cells["folded"]) in self._hidden

    def _cell(self, name: str, key: str, value: Any) -> Any:
        if isinstance(value, str) and (name, key) in _JSON:
            return json.loads(value) if value else None
        return value

    def _look_for_secrets(self) -> None:
        """Learn which slots are secrets now, and what must not stand in other texts."""
        if self.secrets:
            return
        own = {self.scopes[0]}
        for name in ("slots", "sessions", "memories"):
            columns = TABLES[name].columns
            for row in scanned(engine_of(self.parts, name), name):
                if is_of(cells := dict(zip(columns, row, strict=True)), self.scopes):
                    own.add(Scope.from_key((cells["app"], cells["user"], cells["agent"], cells["session"])))  # pyright: ignore[reportArgumentType]
        values: dict[str, Any] = {}
        for scope in {wider for one in own for wider in one.inherited()} | own:
            for name, value in run(self.parts.slots, ListSecrets((scope,))):
                self._hidden.add((scope.key, fold_name(name)))
                values[name if name not in values else f"{name[:NAME_ROOM]}.v{len(values) + 1}"] = value
        if values:
            self._hide = Scrubber(values, {}).hide

    def _shown(self, record: Cells) -> Cells:
        return record if self.secrets else json.loads(map_arguments(compact(record), self._hide))

    def _beside(self) -> dict[str, Iterator[Cells]]:
        """What is kept beside the tables."""
        parts, app, scopes = self.parts, self.scopes[0].app, self.scopes
        users = {scope.user for scope in scopes}
        return {
            "spooled": (self._waiting(one) for scope in scopes for one in self._spooled(scope)),
            "keys": (
                {
                    **{name: getattr(key, name) for name in ("key_id", "name", "roles", "created_at", "expires_at")},
                    "for_others_too": len(key.users or ()) > 1,
                }
                for key in self.keys.list(app)
                if users & set(key.users or ())
            ),
            "grants": (
                _plain(one) for one in parts.grants.list(app) if users & {own.user for own in one.owners} - {None}
            ),
            "holds": (_plain(one) for one in parts.holds.list(app) if one.scope.user in users),
            "vectors": (_plain(one) for one in vectors_of(parts, scopes)),
        }

    def _spooled(self, scope: Scope) -> Iterator[Any]:
        yield from () if self.parts.spool is None else self.parts.spool.waiting(scope)

    def _waiting(self, one: Any) -> Cells:
        record = _plain(one)
        if one.op == "write" and not self.secrets and one.what["options"].get("policy") in (None, "never"):
            # Without a policy it is decided when it is written: until then nobody knows that it is no secret.
            self.withheld += 1
            record["what"] = {**record["what"], "value": None, WITHHELD: True}
        return record


def lines(records: SubjectRecords, actor: Actor) -> Iterator[Cells]:
    """One line a record, with its place, behind a head; the last line is the manifest.

    Raises   NotFoundError if nothing is stored of the user.
    """
    counts = Counter[str]()
    for place, record in _known(records):
        if not counts:
            yield {"format": FORMAT, "version": VERSION, "scopes": [_plain(one) for one in records.scopes]}
        counts[place] += 1
        yield {"place": place, "record": record}
    yield {"manifest": _plain(_done(records, counts, actor))}


def export_zip(records: SubjectRecords, path: Path, actor: Actor) -> SubjectExport:
    """Write a new private zip file: a file of JSON lines for each place, a manifest, and what each is in two languages.

    Raises   UsageError if the file is there or cannot be written; NotFoundError if nothing is stored of the user. Then
             there is no file.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}; give a path that is free") from exc
    try:
        with os.fdopen(handle, "w+b") as file:
            return _zipped(records, file, actor)
    except BaseException as exc:
        path.unlink(missing_ok=True)
        if isinstance(exc, OSError):
            raise UsageError(f"{path} cannot be written: {exc.strerror or exc}; free space, or give another") from exc
        raise


def subject_records(parts: Parts, keys: Keys, scope: Scope, actor: Actor, *, secrets: bool) -> SubjectRecords:
    """The records of a user.

    Raises   UsageError unless the scope is one user; ForbiddenError where the actor may not.
    """
    if owner_of(scope)[0] != "user":
        raise UsageError(f"the scope {scope} is not one user; name the person with user= (--user)")
    actor.check_within(scope, "subtree")
    return SubjectRecords(parts, keys, with_aliases(parts.memories.store, scope), secrets)


def _zipped(records: SubjectRecords, file: BinaryIO, actor: Actor) -> SubjectExport:
    counts, found = Counter[str](), _known(records)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, text in readmes(secrets=records.secrets).items():
            zipped.writestr(name, text)
        one = next(found, None)
        for place in PLACES:
            with zipped.open(f"{place}.jsonl", "w", force_zip64=True) as lined:
                while one is not None and one[0] == place:
                    lined.write(compact(one[1]).encode("utf-8", "replace") + b"\n")
                    counts[place] += 1
                    one = next(found, None)
        done = _done(records, counts, actor)
        manifest = {"format": FORMAT, "version": VERSION, **_plain(done)}
        zipped.writestr("manifest.json", json.dumps(manifest, ensure_ascii=False, indent=2))
    return done


def _known(records: SubjectRecords) -> Iterator[tuple[str, Cells]]:
    found = records.all()
    first = next(found, None)
    if first is None:
        raise NotFoundError(f"nothing is stored of {records.scopes[0]}; `offprompt users` lists of whom there is")
    yield first
    yield from found


def _done(records: SubjectRecords, counts: Counter[str], actor: Actor) -> SubjectExport:
    now, scope = records.parts.clock.now(), records.scopes[0]
    run(records.parts.main, LogEvents((Event(now, scope, "subject.export", actor.name),)))
    every = {place: counts[place] for place in PLACES}
    return SubjectExport(now, tuple(records.scopes), every, records.secrets, records.withheld)


def _plain(record: Any) -> Cells:
    return msgspec.to_builtins(asdict(record))
