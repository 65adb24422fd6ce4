"""The keys of a store in Redis, and what lies under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from offprompt.errors import BackendError
from offprompt.records import Event, Scope, Slot, SlotVersion
from offprompt.records.scope import key_owner
from offprompt.records.tables import TABLES, Cell
from offprompt.stores import _rules as rules
from offprompt.stores._rows import event_of, event_values, slot_of, slot_values, version_of, version_values

FORMAT: Final = 1
"""Of the keys and rows; under `format` in the hash PREFIX:meta."""

SlotCells: TypeAlias = tuple[Cell, ...]
_SLOT_KEY = len(TABLES["slots"].key)
_VERSION_KEY = len(TABLES["versions"].key)


class Keys:
    """The names of a store's keys. What belongs to one owner carries its tag in braces, so that it lies together.

    An owner is a user, else an agent, else a session, else all of an app: `app/user/alice%40example.com`.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.meta = f"{prefix}:meta"
        self.log = f"{prefix}:events"
        self.apps = f"{prefix}:apps"

    def owner(self, tag: str, what: str) -> str:
        """An owner's key: `rev`, `scopes`, `slots:SCOPE`, `versions:SCOPE`."""
        return f"{self.prefix}:{{{tag}}}:{what}"

    def app(self, app: str, what: str) -> str:
        """An app's key: `owners`, `expiry`, `hidden`."""
        return f"{self.prefix}:app:{_quoted(app)}:{what}"


def tag_of(scope: Scope) -> str:
    """The tag of a scope's owner."""
    return "/".join(map(_quoted, key_owner(scope)))


def sub_of(scope: Scope) -> str:
    """A scope without its app, as its keys name it: `user/agent/session`."""
    return "/".join(map(_quoted, scope.key[1:]))


def scope_of(app: str, sub: str) -> Scope:
    """The scope of an app that a key names."""
    user, agent, session = map(unquote, sub.split("/"))
    return Scope.from_key((app, user, agent, session))


def place_of(scope: Scope, folded: str) -> str:
    """A slot among those of an app that expire or are hidden."""
    return f"{tag_of(scope)}\n{sub_of(scope)}\n{folded}"


def scope_of_place(app: str, place: str) -> tuple[Scope, str]:
    """The scope and folded name of a place."""
    _, sub, folded = place.split("\n")
    return scope_of(app, sub), folded


def _quoted(text: str) -> str:
    return quote(text, safe="@")


@dataclass(frozen=True, slots=True)
class Kept:
    """A slot as kept: the cells of its row in table `slots` behind the key, those of its current version in table
    `versions`, and what a put has to know of the older ones, whose cells lie in a key of their own.
    """

    slot: SlotCells
    current: SlotCells
    older: tuple[rules.Mark, ...] = ()

    @property
    def version(self) -> int:
        """The current one's number."""
        return int(self._slot("version"))

    @property
    def expires_at(self) -> float | None:
        """When its life is over."""
        return self._slot("expires_at")

    @property
    def forgotten_at(self) -> float | None:
        """When it was hidden."""
        return self._slot("forgotten_at")

    @property
    def mark(self) -> rules.Mark:
        """Of the current version."""
        return mark_of(self.version, self.current)

    def record(self, scope: Scope) -> Slot:
        """The slot; a new object at each call."""
        s, v = self.slot, self.current
        return slot_of((*scope.key, s[0], v[0], s[1], *v[1:5], s[2], v[5], v[6], *s[3:]))

    def changed(self, slot: Slot, outcome: rules.Outcome | None = None) -> Kept:
        """With the slot as it is now, of the same version; and with what became of that."""
        current = self.current if outcome is None else (*self.current[:7], outcome, self.current[8])
        return replace(self, slot=slot_cells(slot), current=current)

    def is_over(self, now: float, hidden_before: float) -> bool:
        """Whether it expired by `now`, or was hidden at or before that time."""
        is_expired = self.expires_at is not None and self.expires_at <= now
        return is_expired or (self.forgotten_at is not None and self.forgotten_at <= hidden_before)

    def _slot(self, column: str) -> Any:
        return self.slot[TABLES["slots"].columns.index(column) - _SLOT_KEY]


def slot_cells(slot: Slot) -> SlotCells:
    """The cells of a slot in table `slots`, behind the key; the same bytes as in every engine."""
    cells = slot_values(slot)[_SLOT_KEY:]
    kinds = TABLES["slots"].columns[_SLOT_KEY:]
    return tuple(_cell(kind, cell) for kind, cell in zip(kinds, cells, strict=True))


def version_cells(slot: Slot, op_key: str | None) -> SlotCells:
    """The cells of its current version in table `versions`, behind the key."""
    return tuple(version_values(slot, op_key)[_VERSION_KEY:])


def mark_of(version: int, cells: SlotCells) -> rules.Mark:
    """Of a version's cells, what a put has to know."""
    return rules.Mark(version, cells[2], cells[8])  # type: ignore[arg-type] - as version_cells made them


def version_record(version: int, cells: SlotCells) -> SlotVersion:
    """The version of its cells."""
    return version_of((version, *cells[:8]))


def encode_kept(kept: Kept) -> bytes:
    """What lies in an owner's `slots` under a folded name."""
    older = [(mark.version, mark.trust, mark.op_key) for mark in kept.older]
    return msgspec.msgpack.encode((kept.slot, kept.current, older))


def decode_kept(found: bytes) -> Kept:
    """The slot of `encode_kept`."""
    slot, current, older = _decode(found, "slot")
    return Kept(tuple(slot), tuple(current), tuple(rules.Mark(*mark) for mark in older))


def encode_cells(cells: Sequence[Cell]) -> bytes:
    """A version in an owner's `versions`, or an event in the log."""
    return msgspec.msgpack.encode(tuple(cells))


def decode_cells(found: bytes) -> SlotCells:
    """The cells of `encode_cells`."""
    return tuple(_decode(found, "version or event"))


def version_field(folded: str, version: int) -> str:
    """Where in an owner's `versions` an older version lies."""
    return f"{version}:{folded}"


def encode_events(events: Sequence[Event]) -> list[bytes]:
    """Events as the log keeps them."""
    return [encode_cells(cells) for cells in event_values(events)]


def event_at(entry_id: bytes, found: bytes) -> Event:
    """An event of the log; its seq is the id of its entry: milliseconds and a number, in one."""
    milliseconds, number = map(int, entry_id.split(b"-"))
    return event_of((milliseconds << SEQ_BITS | number, *decode_cells(found)))


def entry_after(seq: int) -> str:
    """The first id that an event after `seq` can have."""
    following = min(max(0, seq) + 1, (1 << 63) - 1)
    return f"{following >> SEQ_BITS}-{following & (1 << SEQ_BITS) - 1}"


SEQ_BITS: Final = 20


def _cell(column: str, cell: Any) -> Cell:
    if cell is not None and column in ("created_at", "expires_at", "ttl_s", "importance", "used_at", "forgotten_at"):
        return float(cell)
    return cell


def _decode(found: bytes, what: str) -> list[Any]:
    try:
        return msgspec.msgpack.decode(found)
    except (ValueError, msgspec.DecodeError) as exc:
        raise BackendError(f"a stored {what} cannot be read: {exc}; restore a backup of the server") from exc
