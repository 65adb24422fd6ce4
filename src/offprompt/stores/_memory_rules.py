"""What the ops on memories mean, apart from where they are kept: pure functions of what is stored and the time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from offprompt.errors import ConflictError, LimitError, NotFoundError, UsageError
from offprompt.records import (
    DEFAULT,
    MAX_MEMORY_CHARS,
    PENDING,
    AddMemory,
    ForgetMemories,
    Memory,
    MemoryQuery,
    RestoreMemories,
    UpdateMemory,
    compact,
)
from offprompt.stores._values import storable

MAX_COUNT: Final = 2**31 - 1
TEXTS: Final = (
    "role",
    "speaker",
    "session",
    "subject",
    "attribute",
    "ends",
    "gist",
    "rule",
    "quote",
    "actor",
    "digest",
    "memory_id",
    "extracted",
)


def is_over(memory: Memory, now: float) -> bool:
    """Whether its life is over; at its last instant it is."""
    return memory.expires_at is not None and memory.expires_at <= now and not memory.pinned


def checked(op: AddMemory) -> Memory:
    """The memory as it may be stored.

    Raises   LimitError, ConflictError, UsageError as the contract says.
    """
    memory = op.memory
    if not memory.memory_id.startswith("m_"):
        raise UsageError(f"the memory id {memory.memory_id[:40]!r} does not begin with m_; leave it out to get one")
    if memory.kind == "fact" and bool(memory.subject) != bool(memory.attribute):
        raise UsageError(f"memory {memory.memory_id}: subject and attribute belong together; give both or neither")
    if memory.trust == "tool" and memory.scope.shared:
        raise ConflictError("what a tool's output says is not stored for everyone; store it in a user's scope")
    _check_numbers(memory)
    texts = {name: storable(getattr(memory, name)) for name in TEXTS}
    return replace(
        memory,
        **texts,
        text=checked_text(memory.text),
        metadata=checked_metadata(memory.metadata),
        tags=tuple(map(storable, memory.tags)),
        state="live",
        state_at=None,
        superseded_by="",
        version=1,
    )


def _check_numbers(memory: Memory) -> None:
    """Nothing, if times are times, the importance lies in its range, and counts are counts.

    Raises   UsageError naming what is not.
    """
    for name in ("created_at", "updated_at", "event_at", "expires_at", "used_at"):
        if (at := getattr(memory, name)) is not None and not math.isfinite(at):
            raise UsageError(f"{name}={at!r} of memory {memory.memory_id}: give seconds since 1970")
    if not 0 <= memory.importance <= 1:
        raise UsageError(f"importance={memory.importance!r} of memory {memory.memory_id}: give a number from 0 to 1")
    for name in ("repeats", "uses"):
        if not 0 <= (count := getattr(memory, name)) <= MAX_COUNT:
            raise UsageError(f"{name}={count!r} of memory {memory.memory_id}: give a whole number of 0 to {MAX_COUNT}")


def checked_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of metadata that every engine can keep.

    Raises   UsageError if it is not a JSON object.
    """
    try:
        text = compact(dict(metadata))
        text.encode()
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(
            f"the metadata of a memory is not JSON: {exc}; pass an object of texts, finite numbers, lists, objects"
        ) from exc


def checked_text(text: str) -> str:
    """A memory's text as it may be stored.

    Raises   LimitError, UsageError.
    """
    if len(text) > MAX_MEMORY_CHARS:
        raise LimitError(
            "the text of a memory",
            used=len(text),
            limit=MAX_MEMORY_CHARS,
            unit="characters",
            way_out="split it into passages, or write it to a slot",
        )
    if not text.strip():
        raise UsageError(f"the text of a memory {text[:20]!r} says nothing; give some words")
    return storable(text)


def is_alike(there: Memory, new: Memory) -> bool:
    """Whether a memory may be merged into one that says nearly the same: live, and about the same."""
    same = (there.scope, there.kind, there.subject, there.attribute)
    return there.state == "live" and same == (new.scope, new.kind, new.subject, new.attribute)


def is_said_again(there: Memory, new: Memory) -> bool:
    """Whether a statement that a newer one has replaced comes again as it was, of the same time."""
    same = (there.digest, there.happened_at, there.trust)
    return there.state == "superseded" and same == (new.digest, new.happened_at, new.trust)


def gives_way(there: Memory, new: Memory) -> bool:
    """Whether a fact without an attribute is superseded by another one that names it."""
    free = there.kind == "fact" and not there.attribute and there.state == "live"
    return free and there.scope == new.scope and there.memory_id != new.memory_id and rank_of(there) <= rank_of(new)


def is_unread(memory: Memory, version: int) -> bool:
    """Whether it is an episode of that version that waits for a language model to read it."""
    waits = memory.extracted in ("", PENDING)
    return memory.kind == "episode" and memory.state == "live" and memory.version == version and waits


def merged(there: Memory, new: Memory, now: float) -> Memory:
    """A memory that was added once more."""
    ends = [there.expires_at, new.expires_at]
    # A tool's statement does not make the user's a newer one.
    said = max((there, new), key=rank_of) if there.attribute else there
    return replace(
        there,
        repeats=there.repeats + 1,
        updated_at=now,
        tags=tuple(dict.fromkeys((*there.tags, *new.tags))),
        metadata={**new.metadata, **there.metadata},
        importance=max(there.importance, new.importance),
        expires_at=None if None in ends else max(end for end in ends if end is not None),
        pinned=there.pinned or new.pinned,
        trust="user" if "user" in (there.trust, new.trust) else "tool",
        event_at=said.event_at if said is there else said.happened_at,
        precision=said.precision,
        order=said.order,
    )


def rank_of(memory: Memory) -> tuple[bool, float, int, str]:
    """The order in which statements about one attribute supersede each other."""
    return memory.trust == "user", memory.happened_at, memory.order, memory.digest


def chained(facts: Sequence[Memory]) -> list[Memory]:
    """Those of the facts of one attribute whose state changes, with their new one.

    What only says that another value holds no more than the one that holds is superseded at once, whatever its time.
    """
    ordered = sorted(facts, key=lambda fact: (rank_of(fact), fact.memory_id))
    newer: dict[str, Memory] = {}
    holds: Memory | None = None
    for fact in ordered:
        if holds is not None and _ends_another(fact, holds):
            newer[fact.memory_id] = holds
            continue
        if holds is not None:
            newer[holds.memory_id] = fact
        holds = fact
    changed: list[Memory] = []
    for fact in ordered:
        if fact.state not in ("live", "superseded"):
            continue
        if (by := newer.get(fact.memory_id)) is None:
            now = replace(fact, state="live", state_at=None, superseded_by="")
        else:
            now = replace(fact, state="superseded", state_at=by.happened_at, superseded_by=by.memory_id)
        if now != fact:
            changed.append(now)
    return changed


def _ends_another(ending: Memory, statement: Memory) -> bool:
    """Whether an ending is of a value that the statement does not name as a word."""
    if not ending.ends or statement.ends:
        return False
    value, text = ending.ends.casefold(), f"{statement.text}\n{statement.gist}".casefold()
    pattern = re.escape(value)
    return not re.search(rf"(?<![^\W_]){pattern}(?![^\W_])" if value.isascii() else pattern, text)


def updated(op: UpdateMemory, memory: Memory | None, now: float) -> Memory:
    """The memory with the change.

    Raises   NotFoundError, ConflictError, LimitError as the contract says.
    """
    if memory is None or is_over(memory, now) or memory.state not in ("live", "archived"):
        why = "it was forgotten" if memory is not None and memory.state == "forgotten" else "there is no such memory"
        if memory is not None and memory.state == "superseded":
            why = f"a newer one stands in its place: {memory.superseded_by}"
        raise NotFoundError(f"memory {op.memory_id!r} in scope {op.scope} cannot be changed: {why}; list them first")
    if op.if_version is not None and op.if_version != memory.version:
        raise ConflictError(
            f"memory {op.memory_id} has version {memory.version}, not {op.if_version}; read it again, then write"
        )
    if op.trust == "tool" and memory.trust == "user":
        raise ConflictError(
            f"memory {op.memory_id} is the user's, and this change comes from a tool's output; let the user say it"
        )
    changes: dict[str, Any] = {
        name: value
        for name in ("tags", "importance", "pinned")
        if (value := getattr(op, name)) is not None and value != getattr(memory, name)
    }
    changes |= {name: getattr(op, name) for name in ("event_at", "expires_at") if getattr(op, name) is not DEFAULT}
    if op.text is not None and op.text != memory.text:
        changes |= {"text": checked_text(op.text), "digest": op.digest, "ends": "", "gist": "", "quote": ""}
    if op.metadata is not None:
        joined = {**memory.metadata, **op.metadata}
        changes["metadata"] = checked_metadata({name: value for name, value in joined.items() if value is not None})
    if "text" in changes or changes.get("metadata", memory.metadata) != memory.metadata:
        changes |= {"version": memory.version + 1, "actor": op.actor}
    if op.archived is not None and op.archived != (memory.state == "archived"):
        changes |= {"state": "archived" if op.archived else "live", "state_at": now if op.archived else None}
    changed = replace(memory, **changes)
    return memory if changed == memory else replace(changed, updated_at=now)


def forgotten(op: ForgetMemories, memory: Memory | None, now: float) -> Memory | None:
    """The hidden memory; None if there is nothing to hide.

    Raises   ConflictError for a tool's forget of what the user said.
    """
    if memory is None or memory.scope != op.scope or is_over(memory, now) or memory.state == "forgotten":
        return None
    if op.trust == "tool" and memory.trust == "user":
        raise ConflictError(
            f"memory {memory.memory_id} is the user's, and a tool's output asks to forget it; let the user ask"
        )
    return replace(memory, state="forgotten", state_at=now, updated_at=now)


@dataclass(frozen=True, slots=True)
class Undo:
    """What a restore finds of one memory: whether it was archived before it was hidden."""

    memory: Memory
    archived: bool


def restored(op: RestoreMemories, undo: Undo | None, now: float) -> Memory | None:
    """The memory shown again; None if nothing is hidden, or its undo time is over."""
    if undo is None:
        return None
    memory = undo.memory
    hidden_at = memory.state_at if memory.state == "forgotten" else None
    if memory.scope != op.scope or hidden_at is None or is_over(memory, now) or now - hidden_at >= op.undo_s:
        return None
    if undo.archived:
        return replace(memory, state="archived", state_at=now, updated_at=now)
    return replace(memory, state="live", state_at=None, superseded_by="", updated_at=now)


def fits(memory: Memory, query: MemoryQuery, now: float) -> bool:
    """Whether a memory of the query's scopes is listed."""
    return (
        memory.state in query.states
        and memory.kind in query.kinds
        and (query.ids is None or memory.memory_id in query.ids)
        and (query.session is None or memory.session == query.session)
        and (query.since is None or memory.happened_at >= query.since)
        and (query.until is None or memory.happened_at < query.until)
        and (bool(memory.attribute) or not query.about)
        and is_over(memory, now) == query.expired
        and memory.memory_id > query.after
    )
