"""Erase a user, an agent or a session whole, from every store, with a receipt that can be checked."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from offprompt.errors import BackendError, NotFoundError
from offprompt.protocols import Portable, Scourable, apply, run
from offprompt.records import (
    APPLICATION,
    Actor,
    ErasedStore,
    EraseMemories,
    EraseSlots,
    ErasureReceipt,
    Event,
    ListMemories,
    ListSlots,
    LogEvents,
    Memory,
    MemoryQuery,
    Reached,
    Scope,
    SlotQuery,
)
from offprompt.records.erasure import NOBODY, cell_of, instead_of, owner_of
from offprompt.records.memory import MEMORY_STATES
from offprompt.records.scope import key_owner
from offprompt.service import encryption, holding
from offprompt.service.accounting import digester
from offprompt.service.aliasing import with_aliases
from offprompt.service.holders import holders
from offprompt.service.maintenance import restore
from offprompt.service.tombstones import PREFIX, Tombstones, all_notes, name_of

if TYPE_CHECKING:
    from offprompt.service.keys import Keys
    from offprompt.service.parts import Parts

MAX_IDS: Final = 10_000
ELSEWHERE: Final = (
    "backups, exports and copies made before",
    "what other programs took out: prompts sent to providers, their logs, and the logs of this application",
    "snapshots of disks, and blocks that a disk has set aside",
)
_UNSEALED: Final = "exports, and copies whose records are not sealed"


def erase_whole(parts: Parts, keys: Keys, scope: Scope, actor: Actor) -> ErasureReceipt:
    """Remove all that is stored of one user, agent or session, and whatever would bring it back.

    Order     a tombstone first, so that nothing older comes in meanwhile; then waiting writes, slots, memories,
              sessions, vectors, keys; last the digest key, and the id in events.
    Killed    in the middle: the same call once more does the rest.
    Raises    UsageError unless the scope is one user, agent or session; HeldError; NotFoundError if nothing is, or
              was, stored of it. Then nothing was changed.
    """
    owner_of(scope)
    actor.check_within(scope, "subtree")
    parts.holds.check(scope)
    scopes = with_aliases(parts.memories.store, scope)
    for one in scopes:
        parts.holds.check(one)
    stones = Tombstones(parts.main)
    if not stones.erased_at(scope) and not any(_is_known(parts, keys, one) for one in scopes):
        raise NotFoundError(f"nothing is stored of {scope}; `offprompt users` lists of whom there is")
    now = parts.clock.now()
    set_stones = [stones.set(one, now) for one in scopes]
    pseudonym = set_stones[0].pseudonym
    gone = [memory.memory_id for one in scopes for memory in _memories(parts, one)]
    counts = Counter[str]()
    for one in scopes:
        counts.update(_removed(parts, one, actor.name))
    vectors = _vectors(parts, scope.app)
    counts["keys"], kept = _without_keys(keys, scope)
    counts["grants"] = sum(parts.grants.drop(one, actor=NOBODY) for one in scopes)
    # Events of an engine that keeps slots alone are moved to the log when it is read.
    parts.slots.events(limit=1)
    prints = [print_of(parts.main.digest_key(one)) for one in scopes]
    for one in scopes:
        counts["events"] += parts.main.part_with(one, pseudonym)
        parts.watches.drop(one)
        parts.memories.drop(one)
    data_keys, keyrings = _without_data_keys(parts, scopes)
    elsewhere = ELSEWHERE if not keyrings else (_UNSEALED, *ELSEWHERE[1:])
    receipt_id = f"er_{secrets.token_hex(8)}"
    who = instead_of(scope, pseudonym, of=scope)
    actor_name = NOBODY if any(cell_of(one)[1] in actor.name for one in scopes) else actor.name
    run(parts.main, LogEvents((Event(now, who, "erase", actor_name, receipt_id),)))
    receipt = ErasureReceipt(
        receipt_id,
        now,
        tuple(scopes),
        pseudonym,
        dict(counts),
        (*_scoured(parts), *vectors, *keyrings),
        tuple(gone[:MAX_IDS]),
        tuple(prints),
        (*(f"the key {key_id}, which is for others too, names the id" for key_id in kept), *elsewhere),
        data_keys=data_keys,
    )
    return replace(receipt, seal=seal_of(parts, receipt))


def restore_without(parts: Parts, keys: Keys, source: str | os.PathLike[str], *, force: bool) -> list[ErasureReceipt]:
    """Put a backup in the store's place, erase anew whoever was erased after it was made, and keep the holds of now."""
    kept, held = Tombstones(parts.main).kept(), all_notes(parts.main, holding.PREFIX)
    restore(parts.main, source, force=force)
    lost = encryption.take_up(parts)
    # Tombstones and receipts are known by the keys of their digests, which an older backup may not have.
    lacking = [(app, "shared", "", key) for app, key in kept.keys.items() if not _has_key(parts.main, app)]
    parts.main.put_rows("digest_keys", lacking)
    there = dict(all_notes(parts.main, PREFIX))
    receipts: list[ErasureReceipt] = []
    for app in kept.keys:
        found = [one.scope for one in holders(parts.slots, parts.memories.store, parts.sessions, app)]
        owners = {Scope(app, user=one.user) if one.user else one for one in found if not one.shared}
        back = [one for one in owners if kept.has(one) and name_of(one, kept.keys[app]) not in there]
        # Of whom nothing can be opened there may still be events.
        back += [one for one in lost if one.app == app and one not in owners and _is_known(parts, keys, one)]
        for one in back:
            # Who was erased since was held no longer.
            for hold in parts.holds.meeting(one):
                parts.holds.lift(hold.scope)
            receipts.append(erase_whole(parts, keys, one, APPLICATION))
        for one in {owner for grant in parts.grants.list(app) for owner in grant.owners if kept.has(owner)}:
            parts.grants.drop(one, actor=NOBODY)
    for name, text in (*kept.texts.items(), *held):
        if parts.main.note(name) is None:
            parts.main.set_note(name, text, was=None)
    return receipts


def _has_key(store: Portable, app: str) -> bool:
    """Whether a store has the digest key of an app's shared scope, which stands right behind those of sessions."""
    rows = store.scan("digest_keys", after=(app, "session", chr(0x10FFFF)), limit=1)
    return any(row[:2] == (app, "shared") for row in rows)


def print_of(key: bytes) -> str:
    """A digest of a key, by which it is known and cannot be made."""
    return blake2b(key, digest_size=16).hexdigest()


def seal_of(parts: Parts, receipt: ErasureReceipt) -> str:
    """The receipt's keyed digest."""
    key = parts.main.digest_key(Scope(receipt.scopes[0].app, shared=True))
    document = msgspec.to_builtins(replace(receipt, seal=""))
    if not document["data_keys"]:  # as receipts of stores that are not sealed always were
        del document["data_keys"]
    for one in document["scopes"]:
        if one["space"] is None:  # as the receipts of versions that knew no spaces were sealed
            del one["space"]
    return digester(key)("receipt\n" + msgspec.json.encode(document, order="sorted").decode())


def _is_known(parts: Parts, keys: Keys, scope: Scope) -> bool:
    """Whether anything is stored of a scope: records leave events, and what was copied without them is asked for."""
    return bool(
        parts.slots.events(scope=scope, limit=1)
        or parts.sessions.sessions(scope)
        or run(parts.slots, ListSlots(SlotQuery(scope, "subtree")))
        or _memories(parts, scope)
        or (parts.spool is not None and parts.spool.count(scope))
        or any(cell_of(scope)[1] in (key.users or ()) + (key.agents or ()) for key in keys.list(scope.app))
    )


def _memories(parts: Parts, scope: Scope) -> list[Memory]:
    query = MemoryQuery(scope, "subtree", states=MEMORY_STATES)
    over = replace(query, expired=True)
    return [*apply(parts.main, ListMemories(query)), *apply(parts.main, ListMemories(over))]


def _removed(parts: Parts, scope: Scope, who: str) -> Counter[str]:
    """Remove all that is stored in a scope's subtree."""
    counts = Counter[str]()
    if parts.spool is not None:
        counts["spooled"] = parts.spool.drop(scope)
    counts["slots"] = run(parts.slots, EraseSlots(scope, None, "subtree", who))
    counts["memories"] = apply(parts.memories.store, EraseMemories(scope, within="subtree", actor=who))
    counts["sessions"] = parts.sessions.drop_sessions(scope=scope)
    return counts


def _without_keys(keys: Keys, scope: Scope) -> tuple[int, list[str]]:
    """Revoke the keys that are for the user or agent alone; how many, and ids of those that are for others too."""
    count, kept = 0, list[str]()
    for key in keys.list(scope.app):
        named = key.users if scope.user is not None else key.agents
        if named is None or (scope.user or scope.agent) not in named:
            continue
        if len(named) > 1:
            kept.append(key.key_id)
        else:
            keys.revoke(scope.app, key.key_id, actor=NOBODY)
            count += 1
    return count, kept


def _without_data_keys(parts: Parts, scopes: Sequence[Scope]) -> tuple[tuple[str, ...], list[ErasedStore]]:
    """Destroy the keys that sealed what is stored of the scopes; their ids, and what the keyring did."""
    sealer = encryption.sealer_in(parts.main)
    if sealer is None:
        return (), []
    gone = tuple(key_id for one in scopes for key_id in sealer.destroy(key_owner(one)))
    try:
        reached = sealer.scour()
    except BackendError as exc:
        reached = Reached((), (f"what destroyed keys leave behind: {exc}",))
    done = f"{len(gone)} keys are destroyed: what backups of the store hold under them opens nowhere"
    left = "copies of the keyring made before, until the app's key is rotated and the old one is destroyed"
    kind, value = owner_of(scopes[0])
    shared = (f"in backups, what users have with the {kind} {value}: it is under their own keys",)
    beside = shared if kind in ("agent", "session") else ()
    return gone, [ErasedStore("keyring", sealer.id, (done, *reached.done), (*reached.not_reached, left, *beside))]


def _vectors(parts: Parts, app: str) -> list[ErasedStore]:
    """Have the index of vectors outside remove what waits; what it did."""
    if not parts.memories.has_index or (link := parts.memories.kit.vectors) is None or link.outside is None:
        return []
    engine = type(link.outside).__name__.removesuffix("Index").lower()
    try:
        while link.tell(app).left:
            pass
    except BackendError as exc:
        waits = f"vectors that wait to be removed, until the index answers: {exc}"
        return [ErasedStore("vectors", engine, (), (waits,))]
    done = "the vectors of all that was removed are deleted"
    return [ErasedStore("vectors", engine, (done,), ("the engine's files, until it has compacted its segments",))]


def _scoured(parts: Parts) -> list[ErasedStore]:
    roles = [("memories", parts.main)] + ([("slots", parts.slots)] if parts.slots is not parts.main else [])
    return [_scoured_one(role, engine) for role, engine in roles]


def _scoured_one(role: str, engine: object) -> ErasedStore:
    name = type(engine).__name__.removesuffix("Store").lower()
    if not isinstance(engine, Scourable):
        return ErasedStore(role, name, ("rows are removed",))
    try:
        reached = engine.scour()
    except BackendError as exc:
        return ErasedStore(role, name, ("rows are removed",), (f"what deleted rows leave behind: {exc}",))
    return ErasedStore(role, name, ("rows are removed", *reached.done), reached.not_reached)
