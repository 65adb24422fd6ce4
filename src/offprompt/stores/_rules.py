"""What the ops on a slot mean, apart from where slots are kept: pure functions of what is stored and the time."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from offprompt.errors import ConflictError, LimitError, NameInvalidError, NotFoundError, UsageError
from offprompt.records import (
    DEFAULT,
    RULES,
    ForgetSlot,
    Json,
    PutSlot,
    RestoreSlot,
    Slot,
    SlotQuery,
    SlotVersion,
    Trust,
    clean_name,
    fold_name,
)
from offprompt.records.basis import basis_of, consents_of, plain_tags
from offprompt.records.slot import KEEP_ALL
from offprompt.stores._guards import check_lock, check_shared, recent_writes
from offprompt.stores._values import own_schema, storable, stored_value

Outcome: TypeAlias = Literal["written", "forgotten", "restored"]

WRITE_SLIDE_SHARE: Final = 1 / 32
"""A slid expiry is written at once when it gains this part of ttl_s; less waits for the next change."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Of a kept version, what a put has to know."""

    version: int
    trust: Trust
    op_key: str | None


@dataclass(frozen=True, slots=True)
class PlannedPut:
    """What a put stores.

    slot     the slot as it will be; its value is this record's own.
    drop     versions that go. fresh: all that was kept under the name goes first.
    """

    slot: Slot
    op_key: str | None
    drop: tuple[int, ...]
    fresh: bool


def is_expired(slot: Slot, now: float) -> bool:
    """Whether the slot's life is over; at its last instant it is."""
    return slot.expires_at is not None and slot.expires_at <= now


def is_live(slot: Slot, now: float) -> bool:
    """Whether reads find the slot: neither expired nor hidden."""
    return slot.forgotten_at is None and not is_expired(slot, now)


def can_undo(slot: Slot, now: float, undo_s: float) -> bool:
    """Whether the slot is hidden and may still be shown again."""
    return slot.forgotten_at is not None and not is_expired(slot, now) and now - slot.forgotten_at < undo_s


def lookup_form(name: str) -> str:
    """The folded form that a read looks for; one that no slot can have if the name is not valid text."""
    return fold_name(storable(name))


def is_replay(op: PutSlot, row: Slot | None, marks: Sequence[Mark], *, now: float) -> bool:
    """Whether a kept version came from this very write."""
    if op.op_key is None or row is None or _is_gone(row, now, op.limits.undo_s):
        return False
    return any(mark.op_key == op.op_key for mark in marks)


def plan_put(
    op: PutSlot, row: Slot | None, marks: Sequence[Mark], *, now: float, count_live: Callable[[], int]
) -> PlannedPut:
    """What the put stores over `row`, which may be expired or hidden.

    marks       the kept versions of the row. count_live: see SlotTable, asked only for a new slot.
    Hidden      a put over a forgotten slot goes on with its versions; tags, importance, schema, life, uses and
                created_at, allow begin anew, since nothing was there for the writer to keep; the lock stays.
    Raises      NameInvalidError, LimitError, ConflictError, UsageError as the contract says.
    """
    name = clean_name(op.name)
    held = None if row is None or _is_gone(row, now, op.limits.undo_s) else row
    if row is not None and held is None and op.limits.keep_versions >= KEEP_ALL:
        # Under a legal hold what is over stays, as if it were hidden.
        held = replace(row, forgotten_at=now)
    current = held if held is not None and held.forgotten_at is None else None
    if current is not None and current.name != name:
        raise NameInvalidError(
            name, f"is the same as the name {current.name!r} once folded", f"write {current.name!r}, or another name"
        )
    check_lock(op.source, held)
    check_version(name, current, op.if_version)
    if current is not None and current.trust == "user" and op.trust == "tool":
        raise _untrusted(name, "replace", "write another name, or let the user or the application write it")
    check_shared(op, name)
    recent = recent_writes(op, name, held, now)
    text, value = stored_value(name, op.value)
    size = len(text.encode())
    if size > op.limits.max_bytes:
        raise LimitError(
            f"the value for slot {name!r} ({len(text):,} characters)",
            used=size,
            limit=op.limits.max_bytes,
            unit="bytes",
            way_out="shorten it, spread it over several slots, or raise max_value_bytes",
        )
    if current is None and op.actor != RULES and (live := count_live()) >= op.limits.max_slots:
        raise LimitError(
            f"slot {name!r} is one too many for scope {op.scope}",
            used=live + 1,
            limit=op.limits.max_slots,
            unit="slots",
            way_out="forget one that is no longer needed, or raise max_slots",
        )
    slot = _written(op, name, (value, size), held, recent, now)
    kept = [*(marks if held is not None else ()), Mark(slot.version, op.trust, op.op_key)]
    drop = _surplus(kept, op.limits.keep_versions)
    before = () if held is None else consents_of(held.tags)
    is_other = bool(before) and set(before) != set(consents_of(slot.tags)) and op.limits.keep_versions < KEEP_ALL
    return PlannedPut(slot, op.op_key, drop, fresh=held is None or is_other)


def plan_forget(op: ForgetSlot, row: Slot | None, *, now: float) -> Slot | None:
    """The slot hidden, or None if it is not there.

    Raises   ConflictError for another version, a `tool` forget of what the user said, a model's of a locked one.
    """
    current = row if row is not None and is_live(row, now) else None
    if op.if_version is not None:
        check_version(op.name, current, op.if_version)
    if current is None:
        return None
    check_lock(op.source, current)
    if op.trust == "tool" and current.trust == "user":
        raise _untrusted(current.name, "hide", "let the user or the application forget it")
    return replace(current, forgotten_at=now)


def plan_restore(op: RestoreSlot, row: Slot | None, *, now: float, count_live: Callable[[], int]) -> Slot:
    """The hidden slot shown again.

    Raises   NotFoundError if nothing is hidden or the time is over; LimitError if the scope has filled up since.
    """
    if row is None or not can_undo(row, now, op.limits.undo_s):
        raise NotFoundError(
            f"nothing is hidden under slot {op.name!r} in scope {op.scope} that can be brought back; "
            f"a forget can be undone for {op.limits.undo_s / 86400:g} days: list what is hidden, or write it anew"
        )
    if row.actor != RULES and (live := count_live()) >= op.limits.max_slots:
        raise LimitError(
            f"slot {row.name!r} is one too many for scope {op.scope}",
            used=live + 1,
            limit=op.limits.max_slots,
            unit="slots",
            way_out="forget one that is no longer needed, or raise max_slots",
        )
    return replace(row, forgotten_at=None)


def touched(slot: Slot, now: float) -> Slot:
    """The slot after a read: counted, and its life extended if it slides."""
    expires_at = slot.expires_at
    if slot.sliding and slot.ttl_s is not None and expires_at is not None:
        expires_at = max(expires_at, now + slot.ttl_s)
    return slot.used(slot.uses + 1, now, expires_at)


def slid_far(before: Slot, after: Slot) -> bool:
    """Whether a read extended the stored life so much that it is written at once."""
    if before.expires_at is None or after.expires_at is None or after.ttl_s is None:
        return False
    gain = after.expires_at - before.expires_at
    return gain > 0 and gain >= after.ttl_s * WRITE_SLIDE_SHARE


def hidden_view(slot: Slot) -> Slot:
    """A forgotten slot as a list or a replay shows it: without its value."""
    return replace(slot, value=None)


def hidden_version(version: SlotVersion) -> SlotVersion:
    """A version of a forgotten slot: without its value."""
    return replace(version, value=None)


def name_filter(pattern: str | None) -> Callable[[str], bool]:
    """Whether a folded name fits a pattern: `*` any run, `?` one character, all else literal. Linear in the name."""
    if pattern is None:
        return lambda _: True
    literal = lookup_form(pattern).replace("[", "[[]")
    match = re.compile(fnmatch.translate(literal)).match
    return lambda folded: match(folded) is not None


def fits(slot: Slot, query: SlotQuery) -> bool:
    """Whether the slot meets the query's tags and times."""
    if not set(query.tags) <= set(slot.tags):
        return False
    if query.since is not None and slot.updated_at < query.since:
        return False
    return query.until is None or slot.updated_at < query.until


def check_version(name: str, current: Slot | None, if_version: int | None) -> None:
    """Compare-and-set.

    Raises   ConflictError naming both versions unless if_version is None or the current one (0: not there).
    """
    version = current.version if current is not None else 0
    if if_version is None or if_version == version:
        return
    there = f"has version {version}" if version else "is not there (version 0)"
    raise ConflictError(
        f"slot {name!r} {there}, and if_version={if_version} was expected; "
        f"read it again and pass if_version={version}, or leave it out"
    )


def _is_gone(row: Slot, now: float, undo_s: float) -> bool:
    return is_expired(row, now) or (row.forgotten_at is not None and not can_undo(row, now, undo_s))


def _untrusted(name: str, verb: str, way_out: str) -> ConflictError:
    return ConflictError(
        f"slot {name!r} holds what the user said (trust 'user'), which trust 'tool' may not {verb}; {way_out}"
    )


def _written(
    op: PutSlot, name: str, sized: tuple[Json, int], held: Slot | None, recent: tuple[float, ...], now: float
) -> Slot:
    """The slot as it will be. sized: the value and its bytes. held: what is there, hidden or not."""
    current = held if held is not None and held.forgotten_at is None else None
    ttl_s, sliding = (current.ttl_s, current.sliding) if current is not None else (None, False)
    if op.ttl_s is not DEFAULT:
        ttl_s, sliding = op.ttl_s, op.sliding and op.ttl_s is not None
    if ttl_s is not None and not 0 < ttl_s < float("inf"):
        raise UsageError(f"ttl_s={ttl_s!r} for slot {name!r}: give seconds above 0, or None for ever")
    importance = _first(op.importance, current.importance if current is not None else None, 0.5)
    if not 0 <= importance <= 1:
        raise UsageError(f"importance={importance!r} for slot {name!r}: give a number from 0 to 1")
    return Slot(
        op.scope,
        name,
        sized[0],
        version=held.version + 1 if held is not None else 1,
        policy=op.policy,
        trust=op.trust,
        source=op.source,
        actor=storable(op.actor),
        created_at=current.created_at if current is not None else now,
        updated_at=now,
        bytes=sized[1],
        expires_at=None if ttl_s is None else now + ttl_s,
        ttl_s=ttl_s,
        sliding=sliding,
        tags=_tags(op, current),
        importance=importance,
        uses=current.uses if current is not None else 0,
        used_at=current.used_at if current is not None else None,
        schema=own_schema(name, _first(op.schema, current.schema if current is not None else None, None)),
        parts=op.parts,
        allow=current.allow if current is not None and op.policy == "never" else (),
        locked=held is not None and held.locked,
        recent=recent,
    )


def _tags(op: PutSlot, current: Slot | None) -> tuple[str, ...]:
    """The tags as they will be; purpose and consent stay until others are given."""
    there = () if current is None else current.tags
    given = there if op.tags is None else op.tags
    rests = op.basis if op.basis is not None else basis_of(given) or basis_of(there)
    return (*plain_tags(given), *dict.fromkeys(rests))


def _first(given: Any, kept: Any, default: Any) -> Any:
    return given if given is not None else kept if kept is not None else default


def _surplus(kept: Sequence[Mark], keep_versions: int) -> tuple[int, ...]:
    """The versions beyond the newest `keep_versions`, but for the newest of each trust."""
    newest = {mark.trust: mark.version for mark in kept}
    old = kept[: max(0, len(kept) - max(1, keep_versions))]
    return tuple(mark.version for mark in old if mark.version != newest[mark.trust])
