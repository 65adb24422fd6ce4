"""Maintenance of an opened store: backup, restore, doctor, sweep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from offprompt.errors import UnsupportedError
from offprompt.protocols import Checkable, Clock, Maintainable, MemoryStore, SessionStore, SlotStore, apply, run
from offprompt.records import Finding, Hold, Scope, SweepMemories, SweepSlots

DAY_S: Final = 86400.0
UNDO_S: Final = 7 * DAY_S
SESSION_IDLE_S: Final = 30 * DAY_S


@dataclass(frozen=True, slots=True)
class Report:
    """What `doctor` found, worst first."""

    findings: tuple[Finding, ...]

    @staticmethod
    def of(findings: Iterable[Finding]) -> Report:
        """The report of findings in any order."""
        order = ("fail", "warn", "ok")
        return Report(tuple(sorted(findings, key=lambda finding: order.index(finding.state))))

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed; warnings are allowed."""
        return all(finding.state != "fail" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed."""

    slots: int
    memories: int
    sessions: int


def backup(store: object, target: str | os.PathLike[str], *, overwrite: bool = False) -> int:
    """Copy a store, while it is in use, to a private file that is checked before it takes its name; its bytes.

    Raises   UsageError if the target is there and `overwrite` is not set; UnsupportedError for a store without files;
             BackendError if the copy cannot be made.
    """
    return _maintainable(store, "backup").backup(os.fspath(target), overwrite=overwrite)


def restore(store: object, source: str | os.PathLike[str], *, force: bool = False) -> None:
    """Put a backup in place of all that a store holds, in one transaction.

    Raises   UsageError if the store holds anything and `force` is not set; BackendError if the backup is damaged, no
             store or of a newer format; UnsupportedError for a store without files. Then nothing was changed.
    """
    _maintainable(store, "restore").restore(os.fspath(source), force=force)


def doctor(store: object, *, fix: bool = False) -> Report:
    """Look at one engine: integrity, slots and memories with what belongs to them, versions, rights, clock, what waits.

    fix      mend what can be mended without loss, such as the rights of the store's own files.
    """
    if not isinstance(store, Checkable):
        return Report((Finding("files", "ok", "this store has no files: it ends with the process"),))
    return Report.of(store.check(fix=fix))


def sweep(
    slots: SlotStore,
    memories: MemoryStore,
    sessions: SessionStore,
    clock: Clock,
    *,
    app: str | None = None,
    undo_s: float = UNDO_S,
    session_idle_s: float = SESSION_IDLE_S,
    user_idle_days: int = 0,
    holds: Sequence[Hold] = (),
) -> Swept:
    """Remove slots and memories that expired or were forgotten longer than `undo_s` ago, and sessions that are idle.

    app      of one app only. session_idle_s: sessions not used for so long.
    user_idle_days  > 0: users none of whose memories was added, changed or recalled for so many days lose them, but
                    for pinned ones. Slots stay. holds: whose records stay in any case.
    """
    now = clock.now()
    idle_before = now - user_idle_days * DAY_S if user_idle_days else None
    spared = tuple(hold.scope for hold in holds)
    return Swept(
        run(slots, SweepSlots(app, undo_s, spared=spared)),
        apply(memories, SweepMemories(app, undo_s, idle_before, spared=spared)),
        _sweep_sessions(sessions, None if app is None else Scope(app, shared=True), now - session_idle_s, spared),
    )


def _sweep_sessions(sessions: SessionStore, scope: Scope | None, idle_before: float, spared: Sequence[Scope]) -> int:
    if not spared:
        return sessions.drop_sessions(scope=scope, idle_before=idle_before)
    records = [record for record in sessions.sessions(scope) if not any(one.holds(record.scope) for one in spared)]
    return sum(sessions.drop_sessions(scope=record.scope, idle_before=idle_before) for record in records)


def _maintainable(store: object, what: str) -> Maintainable:
    if not isinstance(store, Maintainable):
        raise UnsupportedError(
            f"{type(store).__name__} has no files, so there is no {what}; copy it into one and back (offprompt copy "
            "FROM TO), or use the server's own tools (of PostgreSQL pg_dump and pg_restore, with --schema=NAME)"
        )
    return store
