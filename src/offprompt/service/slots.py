"""Slots of one scope: what applications call."""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from offprompt.errors import BackendError, NotFoundError, UsageError
from offprompt.protocols import run
from offprompt.records import (
    DEFAULT,
    RULES,
    Default,
    EraseSlots,
    Event,
    ForgetSlot,
    GetSlot,
    Json,
    ListSlots,
    LogEvents,
    Policy,
    RestoreSlot,
    Slot,
    SlotHistory,
    SlotQuery,
    SlotVersion,
    Within,
    clean_name,
    fold_name,
)
from offprompt.records.basis import basis
from offprompt.records.values import (
    checked_count,
    checked_options,
    checked_query,
    checked_tags,
    checked_value,
    checked_version,
)
from offprompt.service.guards import Guards
from offprompt.service.ranking import rank, rank_score
from offprompt.service.slot_writer import SlotWriter, Writer, check_no_part, find_hidden, part_names, summary_names
from offprompt.service.spooled_writes import spooled_slot, told_slot
from offprompt.service.spooling import Spooled

MISSING: Final = object()


class Slots(Guards):
    """The slots of one scope. Writes go to exactly this scope; reads find what it inherits, most specific first.

    Thread-safe; cost: one transaction per call. Names are given in any spelling that folds to the stored one
    for reading; a write must spell it as stored.
    """

    def write(  # noqa: PLR0913 - options that users type by name
        self,
        name: str,
        value: Json,
        *,
        ttl_s: float | Default | None = DEFAULT,
        tags: Iterable[str] | None = None,
        importance: float | None = None,
        policy: Policy | None = None,
        if_version: int | None = None,
        split: bool = False,
        schema: Mapping[str, Any] | None = None,
        purpose: str | None = None,
        consent: str | None = None,
    ) -> Slot:
        """Write a value, and return the slot as stored.

        value       text or JSON, at most `max_value_bytes` as UTF-8; `split=True` spreads a longer one over slots
                    NAME.1, NAME.2 …, each of which counts as a slot.
        ttl_s       seconds to live; None: for ever; DEFAULT: what it has, else a sliding day in a session's scope.
        tags        at most 16; they are also other names by which a user may ask for the value. None keeps them.
        importance  0 to 1, .5 unless given; None keeps it.
        policy      what the model sees of it; None: what it has, else chosen from the value (the event says why).
        if_version  the version that must be current, 0 for "not there yet".
        schema      a JSON Schema that this and all later values must fit; None keeps it.
        purpose     what it may be used for. consent: what it rests on, see `withdraw`. If neither is given both stay.
        Spooled     with the setting `write_deadline_s`, what the store does not take in time waits on this machine, and
                    the slot returned is `spooled`; not with if_version, whose answer the caller needs.
        Raises      NameInvalidError, LimitError, ConflictError, SchemaError, UsageError; then nothing is changed.
        """
        options = checked_options(str(name), ttl_s, tags, importance, policy, if_version, schema)
        given: dict[str, Any] = {"split": split, "schema": schema, "policy": policy, **options}
        rests = None if purpose is None and consent is None else basis(purpose, consent)
        spool, writer = self._kit.spool, Writer(actor=self._actor.name, op_key=self._op_key, basis=rests)
        if spool is None or if_version is not None:
            self._kit.make_way()
            return self.write_as(writer, name, value, **given)
        own, at = (clean_name(name), checked_value(name, value)), self._kit.clock.now()
        done = spool.attempt(
            lambda key: self.write_as(replace(writer, op_key=self._op_key or key), name, value, **given),
            lambda key: spooled_slot(key, at, self.scope, *own, given, writer),
        )
        return told_slot(done) if isinstance(done, Spooled) else done

    def write_as(
        self,
        writer: Writer,
        name: str,
        value: Json,
        *,
        split: bool = False,
        schema: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        **options: Any,
    ) -> Slot:
        """`write` in another's name: source, trust, actor, and a key by which a replay is known.

        options   fields of a PutSlot, checked before. A refused write leaves an event.
        """
        own = SlotWriter(self._kit, self.scope)
        try:
            put = own.draft(clean_name(name), checked_value(name, value), writer, **options)
            return own.store(put, split=split, schema=schema, given=policy)
        except UsageError as exc:
            self._log("slot.write", str(name)[:64], writer.actor, type(exc).__name__)
            raise

    def get(self, name: str, *, touch: bool = True, actor: str | None = None) -> Slot | None:
        """The slot under that name in the scopes this one inherits, or None. Counts as a use, by the scope's actor."""
        actor = actor or self._actor.name
        found = run(self._kit.slots, GetSlot(self.scope, clean_name(name), touch, actor, "inherit"))
        # Parts are used with their slot: a sliding life must not leave them behind.
        if found is None or not self._kit.usable(found):
            return None
        return self._whole(found, touch=touch, actor=actor)

    def get_many(self, names: Sequence[str]) -> dict[str, Slot]:
        """The slots that are there, by the name asked for."""
        if isinstance(names, str):
            raise UsageError(f"names={names!r} is one text; pass a list, such as [{names!r}]")
        found = {name: self.get(name) for name in names}
        return {name: slot for name, slot in found.items() if slot is not None}

    def read(self, name: str, default: object = MISSING, *, actor: str | None = None) -> Any:
        """The value under that name, or `default`.

        Raises   NotFoundError, naming what is spelled alike, if there is none and no default.
        """
        slot = self.get(name, actor=actor)
        if slot is not None:
            return slot.value
        if default is not MISSING:
            return default
        raise self.missing(name)

    def forget(self, name: str, *, if_version: int | None = None, writer: Writer | None = None) -> str:
        """Hide the slot under that name (`undo` brings it back within `undo_s`); returns its name as stored.

        Profile  with a slot that rules filled, the facts that say the same are hidden too: by an opened memory's scope.

        Raises   NotFoundError if there is none; NameInvalidError for a part of a split slot; UsageError for what is no
                 version; ConflictError if the version differs, the trust is lower, or the writer is the model and the
                 name locked; ForbiddenError if it was found in a scope that the actor may not change.
        """
        writer, name = writer or Writer(actor=self._actor.name), clean_name(name)
        checked_version(f"slot {name!r}", if_version)
        self._kit.make_way()
        slot = self._find(name)
        if slot is None:
            raise self.missing(name)
        self._check_lent(slot)
        self._actor.check_change(self.scope, slot.scope, f"slot {slot.name!r}")
        check_no_part(self._kit.slots, slot.scope, slot.name)
        try:
            beside = summary_names(self._kit.slots, slot.scope, slot.name)
            names = [slot.name, *part_names(slot.name, slot.parts), *beside]
            versions = [if_version, *[None] * (len(names) - 1)]
            self._kit.slots.batch(
                [
                    ForgetSlot(slot.scope, each, writer.actor, version, writer.trust, writer.source)
                    for each, version in zip(names, versions, strict=True)
                ]
            )
        except UsageError as exc:
            self._log("slot.forget", slot.name, writer.actor, type(exc).__name__)
            raise
        if self._behind is not None and slot.actor == RULES:
            self._behind(slot, writer)
        return slot.name

    def undo(self, name: str, *, actor: str | None = None) -> Slot:
        """Bring back what `forget` hid in exactly this scope.

        Raises   NotFoundError if nothing is hidden under the name, or its time is over; NameInvalidError for a part of
                 a split slot; LimitError if the scope has filled up since.
        """
        name = clean_name(name)
        check_no_part(self._kit.slots, self.scope, name, hidden=True)
        hidden = find_hidden(self._kit.slots, self.scope, name)
        beside = summary_names(self._kit.slots, self.scope, name, hidden=True)
        names = [name, *part_names(name, hidden.parts if hidden is not None else 0), *beside]
        who = actor or self._actor.name
        restored = self._kit.slots.batch([RestoreSlot(self.scope, each, who, self._kit.limits) for each in names])
        return self._whole(restored[0])

    def list(
        self,
        names: str | None = None,
        *,
        tags: Iterable[str] = (),
        since: float | None = None,
        until: float | None = None,
        within: Within = "inherit",
        forgotten: bool = False,
    ) -> list[Slot]:
        """The slots that fit all conditions, by name.

        names    a pattern: `*` any run, `?` one character, case and width folded.
        since    seconds since 1970: updated at or after; until: before.
        within   `exact` this scope, `inherit` what it inherits, `subtree` every scope with all its ids.
        forgotten  the hidden ones that `undo` can bring back instead, without their values.
        Raises   UsageError for a condition of another type.
        """
        checked_query(names, since, until, within)
        self._actor.check_within(self.scope, within)
        query = SlotQuery(self.scope, within, names, checked_tags(tags), since, until, forgotten)
        slots = run(self._kit.slots, ListSlots(query))
        parts = {(slot.scope, fold_name(f"{slot.name}.{part}")) for slot in slots for part in range(1, slot.parts + 1)}
        usable = [slot for slot in slots if self._kit.usable(slot)]
        heads = [slot for slot in usable if (slot.scope, fold_name(slot.name)) not in parts]
        return heads if forgotten else [self._whole(slot) for slot in heads]

    def rank(self, *, limit: int | None = None) -> list[tuple[Slot, float]]:
        """The slots this scope inherits, by use and importance, best first (see `ranking.rank_score`)."""
        checked_count("limit", limit)
        now = self._kit.clock.now()
        return [(slot, rank_score(slot, now)) for slot in rank(self.list(), now)[:limit]]

    def history(self, name: str) -> list[SlotVersion]:
        """The kept versions of the slot, oldest first. Of a split slot: its parts have the text, each its own history.

        Raises   NotFoundError if there never was one, or all is erased.
        """
        name = clean_name(name)
        for scope in self.scope.inherited():
            versions = run(self._kit.slots, SlotHistory(scope, name))
            if versions:
                return versions
        raise self.missing(name)

    def snapshot(self) -> dict[str, Json]:
        """All values that this scope sees, by name; for the application, never for a prompt."""
        return {slot.name: slot.value for slot in self.list()}

    def erase(self, *names: str, within: Literal["exact", "subtree"] = "exact") -> int:
        """Remove slots with all their versions, for good, hidden ones too; without names all of the scope.

        Returns how many; each part of a split slot counts.
        Raises   NameInvalidError for a part of a split slot; UsageError for another `within`.
        """
        if within not in ("exact", "subtree"):
            raise UsageError(f"within={within!r}: it is exact or subtree")
        self._actor.check_within(self.scope, within)
        self._kit.check_erasable(self.scope)
        self._kit.make_way()
        chosen: list[str] = []
        for name in [clean_name(name) for name in names]:
            check_no_part(self._kit.slots, self.scope, name)
            live = run(self._kit.slots, GetSlot(self.scope, name))
            slot = live or find_hidden(self._kit.slots, self.scope, name)
            chosen += [name, *part_names(name, slot.parts if slot else 0)]
            for hidden in (False, True):
                chosen += summary_names(self._kit.slots, self.scope, name, hidden=hidden)
        return run(self._kit.slots, EraseSlots(self.scope, tuple(chosen) if names else None, within, self._actor.name))

    def _whole(self, slot: Slot, *, touch: bool = False, actor: str = "app") -> Slot:
        """The slot with its parts joined."""
        if not slot.parts:
            return slot
        ops = [GetSlot(slot.scope, part, touch, actor) for part in part_names(slot.name, slot.parts)]
        parts: list[Slot | None] = self._kit.slots.batch(ops)
        if None in parts:
            missing = f"{slot.name}.{parts.index(None) + 1}"
            raise NotFoundError(f"slot {slot.name!r} is split and its part {missing!r} is gone; write the value again")
        text = "".join(str(part.value) for part in parts if part is not None)
        return replace(slot, value=json.loads(text) if slot.value == "json" else text, bytes=len(text.encode()))

    def missing(self, name: str) -> NotFoundError:
        """What is told where there is no slot of that name: it says which are spelled alike."""
        names = [slot.name for slot in self.list()]
        close = difflib.get_close_matches(fold_name(name), [fold_name(own) for own in names], n=3)
        alike = tuple(own for own in names if fold_name(own) in close)
        hint = f"spelled alike: {', '.join(alike)}" if alike else "list the names with slots.list() or `slot list`"
        return NotFoundError(f"no slot {name!r} in scope {self.scope}; {hint}", name=name, alike=alike)

    def _log(self, op: str, name: str, actor: str, outcome: str) -> None:
        """Log a refusal; a store that takes no event hides not why."""
        event = Event(self._kit.clock.now(), self.scope, op, actor, name, outcome=outcome)
        with contextlib.suppress(BackendError):
            run(self._kit.slots, LogEvents((event,)))
