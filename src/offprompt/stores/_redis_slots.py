"""Slots in Redis, within one step: read at one moment, changed in memory, committed by one script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from offprompt.records import RULES, Event, ListSecrets, ListSlots, Scope, Slot, SlotOp, SlotVersion, fold_name
from offprompt.stores import _rules as rules
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
    slot_cells,
    sub_of,
    tag_of,
    version_cells,
    version_field,
    version_record,
)
from offprompt.stores._redis_scripts import COMMIT, COMMIT_LESS, OVER, OWNERS, READ
from offprompt.stores._touches import SlotKey, Touch, Touches, slot_key, touch_of

OWNERS_AT_ONCE: Final = 100
SWEPT_AT_ONCE: Final = 500
"""Slots that one step of a sweep removes at most: a script holds up everybody else."""

_Asked: TypeAlias = tuple[Scope, str, str, str]


class RedisTable:
    """A SlotTable that reads when asked, keeps what the ops change, and commits it if what it read is still so.

    at_once    how many slots `over` gives at most.
    waiting    as in the other engines: the uses that the store keeps back, None in a step that stores them itself.
    Fence      each owner has a revision. What is read of one owner is of one revision, or the step is Stale; a commit
               needs those of all owners that it read by name or changes. Of a list over many owners each one's part is
               whole; they are not of one moment.
    """

    def __init__(self, server: RedisServer, keys: Keys, waiting: Touches | None, *, at_once: int | None = None) -> None:
        self._server, self._keys, self._waiting, self._at_once = server, keys, waiting, at_once
        self._revisions: dict[str, str] = {}
        self._fenced: set[str] = set()
        self._found: dict[Place, bytes | None] = {}
        self._rows: dict[Place, bytes | None] = {}
        self._whole: set[Scope] = set()
        self._versions: dict[tuple[Place, int], bytes | None] = {}
        self._due: list[Place] = []
        self._events: list[Event] = []
        self._touched: dict[SlotKey, Slot] = {}
        self.touches: list[Touch] = []

    def look_ahead(self, ops: Sequence[SlotOp[Any]]) -> None:
        """Read at once what the ops will ask for first."""
        asked: list[_Asked] = []
        for op in ops:
            if isinstance(op, ListSlots) and op.query.within != "subtree":
                scopes = op.query.scope.inherited() if op.query.within == "inherit" else (op.query.scope,)
                asked += [self._all_of(scope) for scope in scopes]
            elif isinstance(op, ListSecrets):
                asked += [self._all_of(scope) for scope in op.scopes]
            elif isinstance(name := getattr(op, "name", None), str):
                asked.append(self._one_of((getattr(op, "scope"), rules.lookup_form(name))))  # noqa: B009 - by shape
        self._read(list(dict.fromkeys(asked)))

    def load(self, scope: Scope, folded: str) -> Slot | None:
        kept = self._kept((scope, folded))
        return self._with_waiting(kept.record(scope)) if kept is not None else None

    def marks(self, scope: Scope, folded: str) -> list[rules.Mark]:
        kept = self._kept((scope, folded))
        return [*kept.older, kept.mark] if kept is not None else []

    def versions(self, scope: Scope, folded: str) -> list[SlotVersion]:
        kept = self._kept((scope, folded))
        if kept is None:
            return []
        older = [version_record(number, cells) for number, cells in self._older((scope, folded), kept)]
        return [*older, version_record(kept.version, kept.current)]

    def count_live(self, scope: Scope, now: float) -> int:
        return sum(rules.is_live(slot, now) and slot.actor != RULES for slot in self.rows(scope, subtree=False))

    def rows(self, scope: Scope, *, subtree: bool) -> list[Slot]:
        if subtree:
            self._read_subtree(scope)
        elif scope not in self._whole:
            self._read([self._all_of(scope)])
        places = [place for place in self._rows if (scope.holds(place[0]) if subtree else scope == place[0])]
        slots = [(place[0], self._kept(place)) for place in places]
        return [self._with_waiting(kept.record(place)) for place, kept in slots if kept is not None]

    def over(self, app: str | None, *, now: float, hidden_before: float) -> list[tuple[Scope, str]]:
        given = self._server.call("SMEMBERS", self._keys.apps) if app is None else [app.encode()]
        most = -1 if self._at_once is None else self._at_once
        for each in sorted(name.decode() for name in given):
            keys = [self._keys.app(each, "expiry"), self._keys.app(each, "hidden")]
            args = (repr(now), repr(hidden_before), most, f"{self._keys.prefix}:")
            for member, revision in self._server.run(OVER, keys, args):
                place = scope_of_place(each, member.decode())
                self._at(tag_of(place[0]), revision)
                self._due.append(place)
            if 0 < most <= len(self._due):
                break
        self._read([self._one_of(place) for place in dict.fromkeys(self._due) if place not in self._rows])
        return [
            place
            for place in self._rows
            if (app is None or place[0].app == app) and self._is_over(self._kept(place), now, hidden_before)
        ][: self._at_once]

    def put(self, folded: str, planned: rules.PlannedPut) -> None:
        slot = planned.slot
        place = (slot.scope, folded)
        if planned.fresh:
            self.remove(*place)
        old = self._kept(place)
        older: list[rules.Mark] = []
        if old is not None:
            self._versions[place, old.version] = encode_cells(old.current)
            older = [mark for mark in (*old.older, old.mark) if mark.version not in planned.drop]
            for version in planned.drop:
                self._versions[place, version] = None
        self._set(place, Kept(slot_cells(slot), version_cells(slot, planned.op_key), tuple(older)))

    def show(self, slot: Slot, outcome: rules.Outcome) -> None:
        self._change(slot, outcome)

    def guard(self, slot: Slot) -> None:
        self._change(slot, None)

    def touch(self, before: Slot, after: Slot, event: Event) -> None:
        touch = touch_of(self._stored(before), after, event)
        if self._waiting is not None:
            self.touches.append(touch)
            self._touched[slot_key(before)] = after
        else:
            self.store_touches([touch])

    def miss(self, event: Event) -> None:
        if self._waiting is not None:
            self.touches.append(Touch(None, None, event))
        else:
            self.log([event])

    def remove(self, scope: Scope, folded: str) -> None:
        kept = self._kept((scope, folded))
        if kept is not None:
            for mark in kept.older:
                self._versions[(scope, folded), mark.version] = None
            self._set((scope, folded), None)

    def move(self, slot: Slot, to: Scope) -> None:
        folded = fold_name(slot.name)
        here, there = (slot.scope, folded), (to, folded)
        kept = self._kept(here)
        if kept is not None:
            for number, cells in self._older(here, kept):
                self._versions[there, number] = encode_cells(cells)
            self.remove(*here)
            self._set(there, kept)

    def log(self, events: Sequence[Event]) -> None:
        self._events += events

    def store_touches(self, touches: Sequence[Touch]) -> None:
        """Store uses that waited; those of slots that are gone leave only their events."""
        places = {(Scope.from_key(touch.slot[0]), touch.slot[1]) for touch in touches if touch.slot is not None}
        self._read([self._one_of(place) for place in places if place not in self._rows])
        for touch in touches:
            if touch.slot is None:
                continue
            key, folded, created_at = touch.slot
            kept = self._kept((Scope.from_key(key), folded))
            if kept is None or (slot := kept.record(Scope.from_key(key))).created_at != created_at:
                continue
            expires_at = slot.expires_at
            if slot.sliding and expires_at is not None and touch.expires_at is not None:
                expires_at = max(expires_at, touch.expires_at)
            used_at = max(touch.event.at, slot.used_at if slot.used_at is not None else touch.event.at)
            self._change(replace(slot, uses=slot.uses + 1, used_at=used_at, expires_at=expires_at), None)
        self.log([touch.event for touch in touches])

    def set_cells(self, place: Place, kept: Kept | None, older: Iterable[tuple[int, SlotCells]] = ()) -> None:
        """Put a slot with its older versions as they are in place of what is there; None removes it."""
        self.remove(*place)
        for number, cells in older:
            self._versions[place, number] = encode_cells(cells)
        if kept is not None:
            self._set(place, kept)

    def commit(self) -> None:
        """Store what changed, and the events, all or nothing.

        Raises   Stale if what was read is not so any more; BackendError.
        """
        changes = [
            Change(place, old, new) for place, new in self._rows.items() if (old := self._found.get(place)) != new
        ]
        loose = [place for place in self._due if self._found.get(place) is None]
        if not changes and not self._events and not loose:
            return
        fences = {tag: self._revisions[tag] for tag in self._fenced | {tag_of(one.place[0]) for one in changes}}
        keys, plan = plan_of(self._keys, changes, self._versions, loose, fences, encode_events(self._events))
        self._server.commit(COMMIT_LESS if all(map(_is_less, changes)) and changes else COMMIT, keys, plan)

    def _kept(self, place: Place) -> Kept | None:
        if place not in self._rows and place[0] not in self._whole:
            self._read([self._one_of(place)])
        found = self._rows.get(place)
        return decode_kept(found) if found is not None else None

    def _set(self, place: Place, kept: Kept | None) -> None:
        if place not in self._rows and place[0] not in self._whole:
            self._read([self._one_of(place)])
        self._rows[place] = encode_kept(kept) if kept is not None else None

    def _change(self, slot: Slot, outcome: rules.Outcome | None) -> None:
        place = (slot.scope, fold_name(slot.name))
        kept = self._kept(place)
        if kept is not None:
            self._set(place, kept.changed(slot, outcome))

    def _older(self, place: Place, kept: Kept) -> list[tuple[int, SlotCells]]:
        fields = [mark.version for mark in kept.older if (place, mark.version) not in self._versions]
        key = self._keys.owner(tag_of(place[0]), f"versions:{sub_of(place[0])}")
        asked = [(place[0], key, "one", version_field(place[1], number)) for number in fields]
        read = dict(zip(fields, self._ask(asked), strict=True))
        found = [
            (mark.version, self._versions.get((place, mark.version), read.get(mark.version))) for mark in kept.older
        ]
        return [(number, decode_cells(text)) for number, text in found if text is not None]

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

    def _stored(self, slot: Slot) -> Slot:
        """The slot as it is stored, without what waits."""
        kept = self._kept((slot.scope, fold_name(slot.name)))
        return kept.record(slot.scope) if kept is not None else slot

    def _with_waiting(self, slot: Slot) -> Slot:
        if self._waiting is None:
            return slot
        return self._touched.get(slot_key(slot)) or self._waiting.over(slot)

    @staticmethod
    def _is_over(kept: Kept | None, now: float, hidden_before: float) -> bool:
        if kept is None:
            return False
        is_expired = kept.expires_at is not None and kept.expires_at <= now
        return is_expired or (kept.forgotten_at is not None and kept.forgotten_at <= hidden_before)


def _is_less(change: Change) -> bool:
    """Whether a slot goes, or is hidden: what a full server should still take."""
    if change.new is None or change.old is None:
        return change.new is None
    return decode_kept(change.old).forgotten_at is None and decode_kept(change.new).forgotten_at is not None
