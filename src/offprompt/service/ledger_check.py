"""Whether a ledger is as it was written: each entry's hash, the chain, the numbers, and the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from offprompt.records import LedgerEntry, SessionRecord
from offprompt.service.accounting import entry_hash

Break: TypeAlias = Literal["changed", "missing", "moved", "foreign", "end"]


@dataclass(frozen=True, slots=True)
class Broken:
    """The first place where a ledger is not as it was written. seq: the number that should stand there.

    changed   the entry's content does not fit its hash. missing: the number is not there.
    moved     another number stands in its place, and its own stands elsewhere.
    foreign   the entry fits its own hash, but does not follow on the one before.
    end       the last entry is not the session's last: entries behind it are gone, or some were added.
    """

    seq: int
    kind: Break


def verify_ledger(record: SessionRecord, ledger: Sequence[LedgerEntry], digest: Callable[[str], str]) -> Broken | None:
    """The first broken entry of a session's ledger, or None.

    digest    keyed by the user's key, see `accounting.digester`. Cost O(ledger).
    Proves    that no entry was changed, removed, added or moved by who does not hold the key; who holds the whole
              store, key and all, can write another history.
    """
    previous, numbers = "", {entry.seq for entry in ledger}
    for seq, entry in enumerate(ledger, 1):
        if entry.seq != seq:
            return Broken(seq, "moved" if seq in numbers else "missing")
        if entry.hash != entry_hash(entry, digest):
            return Broken(seq, "changed")
        if entry.previous != previous:
            return Broken(seq, "foreign")
        previous = entry.hash
    expected = record.requests - (record.pending is not None)
    if len(ledger) < expected:
        return Broken(len(ledger) + 1, "missing")
    if len(ledger) > expected or previous != record.last_hash:
        return Broken(len(ledger), "end")
    return None
