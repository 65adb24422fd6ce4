"""Slots in one engine, all the rest in another; one log of events."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from offprompt.errors import BackendError
from offprompt.protocols import Notes, Portable, SlotStore
from offprompt.protocols.sealing import Resealed, ResealWork, Sealable, Sealer
from offprompt.records import Event, Finding, LogEvents, Reached, Scope, SlotOp
from offprompt.records.tables import Row

MOVED_AFTER = 1000
"""Batches after which events are moved though nobody asks for them: the slots' engine keeps them in memory."""


class LoggedSlots(SlotStore, Portable, Sealable, Protocol):
    """A SlotStore whose log waits to be moved; its events' `seq` are of that log."""

    @property
    def log_id(self) -> str:
        """The log's name, never another one's."""
        ...

    def log_page(self, after: int) -> list[Event]:
        """The next events with seq > after; none: there are no more."""
        ...

    def drop_events(self, upto: int) -> None:
        """Remove the events with seq ≤ upto."""
        ...

    def check(self, *, fix: bool = False) -> list[Finding]:
        """What `doctor` finds in the engine."""
        ...

    def scour(self) -> Reached:
        """See Scourable."""
        ...


class Log(SlotStore, Notes, Protocol):
    """Where events are kept: the engine of the memories."""


class CombinedSlots:
    """A SlotStore whose slots are in one engine and whose events are in the log of another, which others write to too.

    Moving     before events are read, by `move_events`, and by every 1000th batch of this object: in the order of the
               slots' log, each once, by any number of processes. How far that log was moved is a note in the other
               engine, set in the same transaction.
    Order      events get their `seq` when they are moved, so those of slots may stand behind later ones of memories.
    """

    def __init__(self, slots: LoggedSlots, log: Log) -> None:
        self.slots, self._log = slots, log
        self._batches = 0

    def batch(self, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        """See SlotStore. Events that come alone go to the log at once."""
        if ops and all(isinstance(op, LogEvents) for op in ops):
            self.move_events()
            return self._log.batch(ops)
        results = self.slots.batch(ops)
        self._batches += 1
        if self._batches % MOVED_AFTER == 0:
            # What the ops did is stored: that the log's engine is away now is no error of theirs.
            with suppress(BackendError):
                self.move_events()
        return results

    def events(
        self, *, scope: Scope | None = None, op: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[Event]:
        """See SlotStore."""
        self.move_events()
        return self._log.events(scope=scope, op=op, after=after, limit=limit)

    def move_events(self) -> int:
        """Move the events that wait; how many this call moved."""
        self.slots.flush()
        name, moved, after = f"events:{self.slots.log_id}", 0, 0
        while page := self.slots.log_page(after):
            was = self._log.note(name)
            new = [event for event in page if event.seq > int(was or 0)]
            if new and not self._log.set_note(name, str(new[-1].seq), was=was, events=new):
                continue  # Another process moved some meanwhile: look again.
            moved, after = moved + len(new), page[-1].seq
            self.slots.drop_events(after)
        return moved

    def tables(self) -> tuple[str, ...]:
        """See Portable: those of the slots."""
        return self.slots.tables()

    def scan(self, table: str, *, after: Row | None = None, limit: int = 1000) -> list[Row]:
        """See Portable."""
        return self.slots.scan(table, after=after, limit=limit)

    def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        """See Portable."""
        self.slots.put_rows(table, rows)

    def clear_rows(self, table: str) -> None:
        """See Portable."""
        self.slots.clear_rows(table)

    @property
    def sealer(self) -> Sealer | None:
        """See Sealable."""
        return self.slots.sealer

    def seal_with(self, sealer: Sealer) -> None:
        """See Sealable."""
        self.slots.seal_with(sealer)

    def reseal(self, table: str, work: ResealWork, *, after: Row | None = None, limit: int = 500) -> Resealed:
        """See Sealable."""
        return self.slots.reseal(table, work, after=after, limit=limit)

    def flush(self) -> None:
        """See SlotStore."""
        self.slots.flush()

    def check(self, *, fix: bool = False) -> list[Finding]:
        """What `doctor` finds in the slots' engine, under names that say so."""
        return [replace(finding, name=f"slots {finding.name}") for finding in self.slots.check(fix=fix)]

    def scour(self) -> Reached:
        """See Scourable: the slots' engine does it."""
        return self.slots.scour()

    def close(self) -> None:
        """Close the slots' engine; events that wait are moved by whoever opens it next. The other one stays open."""
        self.slots.close()
