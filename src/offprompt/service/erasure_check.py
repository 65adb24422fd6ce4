"""Look whether somebody who was erased is gone: rows, vectors, waiting writes, bytes of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from offprompt.errors import BackendError, UsageError
from offprompt.protocols import Traceable, apply
from offprompt.records import ErasureReceipt, Finding, GetMemories, WaitingVectors
from offprompt.records.tables import TABLES
from offprompt.service.encryption import sealer_in
from offprompt.service.erasing import print_of, seal_of
from offprompt.service.subject_rows import engine_of, is_of, scanned, vectors_of

if TYPE_CHECKING:
    from offprompt.service.parts import Parts

AGAIN: Final = "erase once more; if it stays, see offprompt doctor"

_BEGUN: Final[Mapping[str, Callable[[Mapping[str, object]], object]]] = {
    "slots": lambda row: row["created_at"],
    "versions": lambda row: row["written_at"],
    "memories": lambda row: json.loads(str(row["record"]))["created_at"],
    "sessions": lambda row: row["used_at"],
    "events": lambda row: row["at"],
}
"""When a row of a table came, where its columns tell; what came after the erasure is of somebody who came back."""


def verify(parts: Parts, receipt: ErasureReceipt, texts: Sequence[str] = ()) -> list[Finding]:
    """All findings; see `Offprompt.verify_erased`.

    Raises   UsageError for a text under 4 bytes, which stands anywhere; UnsupportedError if an engine has no rows.
    """
    needles = [_needle(text) for text in texts]
    # Events of an engine that keeps slots alone are moved to the log when it is read.
    parts.slots.events(limit=1)
    found = [_seal(parts, receipt)]
    found += _rows(parts, receipt, needles)
    found += [_spool(parts, receipt), _grants(parts, receipt), *_vectors(parts, receipt), *_data_keys(parts, receipt)]
    sought = [*needles, *(memory_id.encode() for memory_id in receipt.memory_ids)]
    if isinstance(parts.main, Traceable):
        found += parts.main.traces(sought)
    else:
        what = (
            f"the files of {type(parts.main).__name__.removesuffix('Store')} are the server's; only rows were looked at"
        )
        found.append(Finding("bytes", "warn", what, "; ".join(_not_reached(receipt))))
    copies = "; ".join(chain(receipt.not_reached, _not_reached(receipt)))
    return [*found, Finding("elsewhere", "warn", f"not looked at: {copies}", "remove those yourself, or let them age")]


def _needle(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) < 4:
        raise UsageError(f"a text of {len(data)} bytes stands anywhere; give one of 4 bytes or more")
    return data


def _seal(parts: Parts, receipt: ErasureReceipt) -> Finding:
    if receipt.seal == seal_of(parts, receipt):
        return Finding("receipt", "ok", f"{receipt.receipt_id} is as this store gave it")
    what = f"{receipt.receipt_id} was not given by this store, or was changed since"
    return Finding("receipt", "fail", what, "use the receipt as `erase` wrote it, with the store that it is of")


def _rows(parts: Parts, receipt: ErasureReceipt, needles: Sequence[bytes]) -> list[Finding]:
    """A finding for each table; those that know no time come last: whoever came back has rows there too."""
    order = sorted(TABLES, key=lambda name: name not in _BEGUN)
    found: list[Finding] = []
    came_back = False
    for name in order:
        seen = _seen(parts, name, receipt, needles, came_back=came_back)
        came_back = came_back or seen.newer > 0
        found.append(seen.finding(name))
    return found


@dataclass(slots=True)
class _Seen:
    """What a table has of whom was erased: rows from before, from after, and rows with a text that was given."""

    old: int = 0
    newer: int = 0
    texts: int = 0

    def finding(self, name: str) -> Finding:
        if self.old or self.texts:
            said = [f"{self.old} rows of whom was erased"] if self.old else []
            said += [f"{self.texts} rows with a text that was given"] if self.texts else []
            return Finding(name, "fail", ", ".join(said), AGAIN)
        back = f"; {self.newer} are newer: somebody of that id came back" if self.newer else ""
        return Finding(name, "ok", f"no row of whom was erased{back}")


def _seen(parts: Parts, name: str, receipt: ErasureReceipt, needles: Sequence[bytes], *, came_back: bool) -> _Seen:
    ids, seen, columns = frozenset(receipt.memory_ids), _Seen(), TABLES[name].columns
    for row in scanned(engine_of(parts, name), name):
        cells = dict(zip(columns, row, strict=True))
        if cells.get("memory_id") in ids:
            seen.old += 1
        elif is_of(cells, receipt.scopes):
            is_newer = _is_newer(cells, name, receipt, came_back=came_back)
            seen.newer, seen.old = seen.newer + is_newer, seen.old + (not is_newer)
        seen.texts += any(needle in _bytes(cell) for cell in row for needle in needles)
    return seen


def _is_newer(cells: Mapping[str, object], name: str, receipt: ErasureReceipt, *, came_back: bool) -> bool:
    """Whether a row came after the erasure: by its time, its key, or, where neither tells, by that of others."""
    if name == "digest_keys":
        return print_of(_bytes(cells["key"])) not in receipt.key_prints
    begun = _BEGUN.get(name)
    at = begun(cells) if begun is not None else None
    return at > receipt.at if isinstance(at, (int, float)) else came_back


def _bytes(cell: object) -> bytes:
    if isinstance(cell, str):
        return cell.encode("utf-8", "surrogatepass")
    return cell if isinstance(cell, bytes) else b""


def _spool(parts: Parts, receipt: ErasureReceipt) -> Finding:
    waits = 0 if parts.spool is None else sum(parts.spool.count(scope) for scope in receipt.scopes)
    if waits:
        return Finding("spool", "fail", f"{waits} writes of whom was erased wait on this machine", AGAIN)
    return Finding("spool", "ok", "no write of whom was erased waits on this machine")


def _data_keys(parts: Parts, receipt: ErasureReceipt) -> list[Finding]:
    """Whether the keys are destroyed that sealed what was erased, and with them what backups hold of it."""
    if not receipt.data_keys:
        return []
    sealer = sealer_in(parts.main)
    if sealer is None:
        return [Finding("keyring", "warn", "the keyring is not open", "open the store with its keyring")]
    if left := [key_id for key_id in receipt.data_keys if not sealer.is_destroyed(key_id)]:
        what = f"{len(left)} of {len(receipt.data_keys)} keys are in the keyring {sealer.id}: it is an older copy"
        return [Finding("keyring", "fail", what, AGAIN)]
    what = f"the {len(receipt.data_keys)} keys are destroyed: what backups of the store hold under them opens nowhere"
    return [Finding("keyring", "ok", what)]


def _grants(parts: Parts, receipt: ErasureReceipt) -> Finding:
    """Whether a grant from before the erasure names whom was erased."""
    there = parts.grants.list(receipt.scopes[0].app)
    if old := [one for one in there if one.at <= receipt.at and set(one.owners) & set(receipt.scopes)]:
        return Finding("grants", "fail", f"{len(old)} grants name whom was erased", AGAIN)
    return Finding("grants", "ok", "no grant names whom was erased")


def _vectors(parts: Parts, receipt: ErasureReceipt) -> Iterator[Finding]:
    """What an index outside still has."""
    if not parts.memories.has_index or (link := parts.memories.kit.vectors) is None or link.outside is None:
        return
    try:
        found = list(vectors_of(parts, receipt.scopes))
    except BackendError as exc:
        yield Finding("vectors", "fail", f"the index cannot be looked at: {exc}", "check again once it answers")
        return
    ids = tuple(entry.memory_id for entry in found)
    newer = [one for one in apply(parts.main, GetMemories(receipt.scopes[0].app, ids)) if one.created_at > receipt.at]
    count = len(found) - len(newer)
    waits = len(apply(parts.main, WaitingVectors(receipt.scopes[0].app)))
    if count:
        yield Finding("vectors", "fail", f"{count} vectors of whom was erased; {waits} changes wait", AGAIN)
    else:
        yield Finding("vectors", "ok", "no vector of whom was erased")


def _not_reached(receipt: ErasureReceipt) -> list[str]:
    return [f"{store.role}: {what}" for store in receipt.stores for what in store.not_reached]
