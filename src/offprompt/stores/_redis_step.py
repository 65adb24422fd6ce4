"""One step over a Redis store: what it read, at which revision, and what it changes; committed by one script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import eq
from typing import Any, Final, TypeAlias

from offprompt.records import Event, Scope
from offprompt.stores._redis_connection import RedisServer, Stale
from offprompt.stores._redis_plan import Change, Place, plan_of
from offprompt.stores._redis_rows import (
    Kept,
    Keys,
    SlotCells,
    decode_cells,
    decode_kept,
    encode_cells,
    encode_events,
    encode_kept,
    scope_of,
    scope_of_place,
    sub_of,
    tag_of,
    version_field,
)
from offprompt.stores._redis_scripts import COMMIT, COMMIT_LESS, OVER, OWNERS, READ

OWNERS_AT_ONCE: Final = 100

_Asked: TypeAlias = tuple[Scope, str, str, str]


class RedisStep:
    """Rows and versions of slots by place, as they are stored and as they will be.

    Fence      each owner has a revision. What is read of one owner is of one revision, or the step is Stale; a commit
               needs those of all owners that it read by name or changes. Of a list over many owners each one's part is
               whole; they are not of one moment.
    """

    def __init__(self, server: RedisServer, keys: Keys) -> None:
        self._server, self._keys = server, keys
        self._revisions: dict[str, str] = {}
        self._fenced: set[str] = set()
        self._found: dict[Place, bytes | None] = {}
        self._rows: dict[Place, bytes | None] = {}
        self._whole: set[Scope] = set()
        self._versions: dict[tuple[Place, int], bytes | None] = {}
        self._older: dict[tuple[Place, int], bytes | None] = {}
        self._due: list[Place] = []
        self.events: list[Event] = []

    def kept(self, place: Place) -> Kept | None:
        """What is kept of a slot; without a current version where a copy has not come to it."""
        if place not in self._rows and place[0] not in self._whole:
            self._read([self._one_of(place)])
        found = self._rows.get(place)
        return decode_kept(found) if found is not None else None

    def older(self, place: Place, kept: Kept) -> list[tuple[int, SlotCells]]:
        """The cells of a slot's older versions."""
        scope, folded = place
        key = self._keys.owner(tag_of(scope), f"versions:{sub_of(scope)}")
        asked = [
            mark.version
            for mark in kept.older
            if (place, mark.version) not in self._versions and (place, mark.version) not in self._older
        ]
        found = self._ask([(scope, key, "one", version_field(folded, number)) for number in asked])
        self._older.update({(place, number): text for number, text in zip(asked, found, strict=True)})
        at = [(place, mark.version) for mark in kept.older]
        texts = [self._versions[one] if one in self._versions else self._older[one] for one in at]
        return [(one[1], decode_cells(text)) for one, text in zip(at, texts, strict=True) if text is not None]

    def set_kept(self, place: Place, kept: Kept) -> None:
        """Keep that of a slot, in place of what is there."""
        if place not in self._rows and place[0] not in self._whole:
            self._read([self._one_of(place)])
        self._rows[place] = encode_kept(kept)

    def set_version(self, place: Place, number: int, cells: SlotCells | None) -> None:
        """Keep an older version, which the slot's marks are to name; None: it goes."""
        self._versions[place, number] = None if cells is None else encode_cells(cells)

    def remove(self, place: Place) -> None:
        """Remove a slot with all its versions."""
        kept = self.kept(place)
        if kept is not None:
            for mark in kept.older:
                self._versions[place, mark.version] = None
            self._rows[place] = None

    def look_at(self, places: Iterable[Place], scopes: Iterable[Scope]) -> None:
        """Read these slots, and all of these scopes, at one moment."""
        asked = [*map(self._one_of, places), *map(self._all_of, scopes)]
        self._read(list(dict.fromkeys(asked)))

    def read(self, places: Iterable[Place]) -> None:
        """Read rows at once."""
        self._read([self._one_of(place) for place in dict.fromkeys(places) if place not in self._rows])

    def read_whole(self, scopes: Sequence[Scope]) -> None:
        """Read all slots of these scopes, with all versions, at once."""
        self._read([self._all_of(scope) for scope in scopes])
        keys = [(scope, self._keys.owner(tag_of(scope), f"versions:{sub_of(scope)}")) for scope in scopes]
        found = self._ask([(scope, key, "all", "") for scope, key in keys])
        for scope, flat in zip(scopes, found, strict=True):
            for field, text in zip(flat[::2], flat[1::2], strict=True):
                number, _, folded = field.decode().partition(":")
                self._older[(scope, folded), int(number)] = text

    def places(self, scope: Scope, *, subtree: bool = False) -> list[Place]:
        """All slots of exactly that scope, or of its subtree."""
        if subtree:
            self._read_subtree(scope)
        elif scope not in self._whole:
            self._read([self._all_of(scope)])
        inside = scope.holds if subtree else partial(eq, scope)
        return [place for place, row in self._rows.items() if row is not None and inside(place[0])]

    def due(self, app: str | None, now: float, hidden_before: float, most: int | None) -> list[Place]:
        """Slots that expired by `now` or were hidden at or before that time: of one app or all, at most so many."""
        given = self._server.call("SMEMBERS", self._keys.apps) if app is None else [app.encode()]
        for each in sorted(name.decode() for name in given):
            keys = [self._keys.app(each, "expiry"), self._keys.app(each, "hidden")]
            args = (repr(now), repr(hidden_before), -1 if most is None else most, f"{self._keys.prefix}:")
            for member, revision in self._server.run(OVER, keys, args):
                place = scope_of_place(each, member.decode())
                self._at(tag_of(place[0]), revision)
                self._due.append(place)
            if most is not None and len(self._due) >= most:
                break
        self.read(self._due)
        found = [(place, self.kept(place)) for place in self._rows if app is None or place[0].app == app]
        return [place for place, kept in found if kept is not None and kept.is_over(now, hidden_before)][:most]

    def commit(self) -> None:
        """Store what changed, and the events, all or nothing.

        Raises   Stale if what was read is not so any more; BackendError.
        """
        changes = [
            Change(place, old, new) for place, new in self._rows.items() if (old := self._found.get(place)) != new
        ]
        loose = [place for place in self._due if self._found.get(place) is None]
        if not (changes or self._versions or self.events or loose):
            return
        changed = {tag_of(place[0]) for place in (*(one.place for one in changes), *(at for at, _ in self._versions))}
        fences = {tag: self._revisions[tag] for tag in self._fenced | changed}
        keys, plan = plan_of(self._keys, changes, self._versions, loose, fences, encode_events(self.events))
        self._server.commit(COMMIT_LESS if all(map(_is_less, changes)) and changes else COMMIT, keys, plan)

    def _one_of(self, place: Place) -> _Asked:
        scope, folded = place
        return scope, self._keys.owner(tag_of(scope), f"slots:{sub_of(scope)}"), "one", folded

    def _all_of(self, scope: Scope) -> _Asked:
        return scope, self._keys.owner(tag_of(scope), f"slots:{sub_of(scope)}"), "all", ""

    def _read(self, asked: Sequence[_Asked]) -> None:
        for (scope, _, how, folded), found in zip(asked, self._ask(asked), strict=True):
            if how == "one":
                self._keep((scope, folded), found)
            else:
                self._keep_all(scope, found)

    def _ask(self, asked: Sequence[_Asked]) -> list[Any]:
        if not asked:
            return []
        tags = [tag_of(scope) for scope, *_ in asked]
        self._fenced.update(tags)
        keys = [key for tag, one in zip(tags, asked, strict=True) for key in (self._keys.owner(tag, "rev"), one[1])]
        replies = self._server.run(READ, keys, [word for one in asked for word in one[2:]])
        for tag, (revision, _) in zip(tags, replies, strict=True):
            self._at(tag, revision)
        return [found for _, found in replies]

    def _at(self, tag: str, revision: bytes) -> None:
        if self._revisions.setdefault(tag, revision.decode()) != revision.decode():
            raise Stale

    def _read_subtree(self, scope: Scope) -> None:
        if scope.user is not None:
            tags = [tag_of(scope)]
        else:
            owners = self._server.call("SMEMBERS", self._keys.app(scope.app, "owners"))
            tags = sorted(tag.decode() for tag in owners)
        wanted = sub_of(scope).split("/")[1:]
        for start in range(0, len(tags), OWNERS_AT_ONCE):
            some = tags[start : start + OWNERS_AT_ONCE]
            keys = [self._keys.owner(tag, what) for tag in some for what in ("rev", "scopes")]
            heads = [self._keys.owner(tag, "") for tag in some]
            replies = self._server.run(OWNERS, keys, [*wanted, *heads])
            for tag, (revision, scopes) in zip(some, replies, strict=True):
                self._at(tag, revision)
                for sub, found in scopes:
                    self._keep_all(scope_of(scope.app, sub.decode()), found)

    def _keep(self, place: Place, found: bytes | None) -> None:
        self._found.setdefault(place, found)
        self._rows.setdefault(place, found)

    def _keep_all(self, scope: Scope, found: Sequence[bytes]) -> None:
        for folded, row in zip(found[::2], found[1::2], strict=True):
            self._keep((scope, folded.decode()), row)
        self._whole.add(scope)


def _is_less(change: Change) -> bool:
    """Whether a slot goes, or is hidden: what a full server should still take."""
    if change.new is None or change.old is None:
        return change.new is None
    return decode_kept(change.old).forgotten_at is None and decode_kept(change.new).forgotten_at is not None
