"""What a sweep removes by retention, category by category; and what one would, before it does."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from offprompt.protocols import apply, run
from offprompt.records import EraseMemories, EraseSlots, Event, GetMemories, ListSlots, LogEvents, Scope, SlotQuery
from offprompt.records.retention import Retention, retentions
from offprompt.records.tables import TABLES
from offprompt.service.maintenance import DAY_S, Swept
from offprompt.service.sealing import mend_sealed
from offprompt.service.subject_rows import engine_of, scanned

if TYPE_CHECKING:
    from offprompt.service.parts import Parts

ACTOR: Final = "retention"
BATCH: Final = 500
LAST: Final = chr(0x10FFFF)


@dataclass(slots=True)
class Due:
    """What is past its time: names of slots and ids of memories by exact scope, sessions; how many by category."""

    counts: Counter[str] = field(default_factory=Counter[str])
    slots: defaultdict[Scope, list[str]] = field(default_factory=lambda: defaultdict[Scope, list[str]](list))
    memories: defaultdict[Scope, list[str]] = field(default_factory=lambda: defaultdict[Scope, list[str]](list))
    sessions: list[Scope] = field(default_factory=list[Scope])


class Retaining:
    """The rules of the setting `retention` on one opened memory.

    Spared   records of held scopes, and pinned memories.
    Age      of a slot since it was last written, of a memory since it was added or changed, of a session since it was
             used. The first rule that takes a record says its age, those with a word before those of a whole kind.
    Cost     reads all memories, if a rule is of memories; all slots, if one is of slots.
    """

    def __init__(self, parts: Parts, *, app: str | None = None) -> None:
        self._parts, self._app, self._now = parts, app, parts.clock.now()
        self._rules = sorted(retentions(parts.settings.retention), key=lambda rule: not rule.word)
        self._spared = [hold.scope for hold in parts.holds.list()]

    def due(self) -> Due:
        """What would be removed now; nothing is changed."""
        found = Due(Counter({rule.category: 0 for rule in self._rules}))
        if self._has("slot", "tag"):
            self._slots(found)
        if self._has("fact", "episode", "passage", "tag"):
            self._memories(found)
        if self._has("session"):
            self._sessions(found)
        return found

    def remove(self) -> Mapping[str, int]:
        """Remove what is due, batch by batch; how many by category. Killed: once more does the rest."""
        found = self.due()
        parts = self._parts
        for scope, names in found.slots.items():
            for batch in _batches(names):
                run(parts.slots, EraseSlots(scope, batch, actor=ACTOR))
        for scope, ids in found.memories.items():
            for batch in _batches(ids):
                self._erase(scope, batch)
        for scope in found.sessions:
            parts.sessions.drop_sessions(scope=scope)
        if sum(found.counts.values()):
            why = ", ".join(f"{category} {count}" for category, count in found.counts.items() if count)
            place = Scope(self._app or parts.settings.app, shared=True)
            run(parts.main, LogEvents((Event(self._now, place, "retention.sweep", ACTOR, why=why),)))
        return dict(found.counts)

    def _erase(self, scope: Scope, ids: tuple[str, ...]) -> None:
        """Memories with their versions, what facts put into the profile, and what was sealed out of them alone."""
        from offprompt.service.memory_family import mend_profile  # noqa: PLC0415 - loads NumPy and the rules

        kit = self._parts.memories.kit
        gone = apply(kit.memories, GetMemories(scope.app, ids))
        facts = [one for one in gone if one.kind == "fact"]
        sources = tuple(dict.fromkeys(one.source_id for one in facts if one.source_id and one.attribute))
        said = apply(kit.memories, GetMemories(scope.app, sources)) if sources else []
        apply(kit.memories, EraseMemories(scope, ids, actor=ACTOR))
        mend_profile(kit, scope, [*said, *facts], "erased")
        mend_sealed(kit.slots, kit.memories, scope, gone, "erased")

    def _has(self, *kinds: str) -> bool:
        return any(rule.kind in kinds for rule in self._rules)

    def _rule(self, kind: str, tags: tuple[str, ...], attribute: str = "") -> Retention | None:
        return next((rule for rule in self._rules if rule.takes(kind, tags, attribute)), None)

    def _is_past(self, rule: Retention | None, at: float, scope: Scope) -> bool:
        held = any(one.holds(scope) for one in self._spared)
        return rule is not None and at <= self._now - rule.max_age_s and not held

    def _slots(self, found: Due) -> None:
        for app in self._apps():
            for slot in run(self._parts.slots, ListSlots(SlotQuery(Scope(app, shared=True), "subtree"))):
                rule = self._rule("slot", slot.tags)
                if rule is not None and self._is_past(rule, slot.updated_at, slot.scope):
                    found.slots[slot.scope].append(slot.name)
                    found.counts[rule.category] += 1

    def _memories(self, found: Due) -> None:
        for row in scanned(engine_of(self._parts, "memories"), "memories"):
            cells: dict[str, Any] = dict(zip(TABLES["memories"].columns, row, strict=True))
            if self._app not in (None, cells["app"]):
                continue
            record = json.loads(cells["record"])
            rule = self._rule(cells["kind"], tuple(record.get("tags", ())), cells["attribute"])
            scope = Scope.from_key((cells["app"], cells["user"], cells["agent"], cells["session"]))
            at = record.get("updated_at") or record.get("created_at", 0.0)
            if rule is not None and not record.get("pinned") and self._is_past(rule, at, scope):
                found.memories[scope].append(cells["memory_id"])
                found.counts[rule.category] += 1

    def _sessions(self, found: Due) -> None:
        rule = self._rule("session", ())
        of = None if self._app is None else Scope(self._app, shared=True)
        for record in self._parts.sessions.sessions(of):
            if rule is not None and self._is_past(rule, record.used_at, record.scope):
                found.sessions.append(record.scope)
                found.counts[rule.category] += 1

    def _apps(self) -> Iterator[str]:
        """The apps that have slots: one short read for each."""
        if self._app is not None:
            yield self._app
            return
        engine, after = engine_of(self._parts, "slots"), None
        while page := engine.scan("slots", after=after, limit=1):
            app = str(page[0][0])
            yield app
            after = (app, LAST, "", "", "")


def _batches(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for at in range(0, len(names), BATCH):
        yield tuple(names[at : at + BATCH])


def would_sweep(parts: Parts, *, app: str | None = None) -> Swept:
    """What `maintenance.sweep` would remove now; nothing is changed. Cost: reads all slots, memories and sessions."""
    settings, now = parts.settings, parts.clock.now()
    spared = [hold.scope for hold in parts.holds.list()]
    hidden_before = now - settings.undo_s

    def rows(table: str) -> Iterator[tuple[dict[str, Any], bool]]:
        for row in scanned(engine_of(parts, table), table):
            cells: dict[str, Any] = dict(zip(TABLES[table].columns, row, strict=True))
            scope = Scope.from_key((cells["app"], cells["user"], cells["agent"], cells["session"]))
            if app in (None, scope.app):
                yield cells, any(one.holds(scope) for one in spared)

    def is_over(cells: dict[str, Any], hidden_at: float | None) -> bool:
        expires_at = cells["expires_at"]
        return (expires_at is not None and expires_at <= now) or (hidden_at is not None and hidden_at <= hidden_before)

    memories, active, unpinned = 0, Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for cells, is_held in rows("memories"):
        owner = cells["app"], cells["user"]
        active[owner] = max(active[owner], cells["active_at"])
        if is_held:
            continue
        if is_over(cells, cells["state_at"] if cells["state"] == "forgotten" else None):
            memories += 1
        elif settings.user_idle_days and cells["user"] and not json.loads(cells["record"]).get("pinned"):
            unpinned[owner] += 1
    idle_before = now - settings.user_idle_days * DAY_S
    memories += sum(count for owner, count in unpinned.items() if active[owner] < idle_before)
    slots = sum(is_over(cells, cells["forgotten_at"]) for cells, is_held in rows("slots") if not is_held)
    idle = now - settings.session_idle_s
    return Swept(slots, memories, sum(cells["used_at"] < idle for cells, is_held in rows("sessions") if not is_held))
