"""What the routes of memories do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import UnsetType

from offprompt.errors import ConflictError, NotFoundError
from offprompt.records import DEFAULT, Default, Memory, MemoryPage, Recalled
from offprompt.rest.endpoint import Answer, Call
from offprompt.rest.memory_shapes import (
    Counted,
    Memories,
    MemoryChange,
    MemoryFind,
    MemoryPageAsked,
    Recall,
    Remember,
    RememberedAll,
    SaidIn,
    Time,
    Versions,
)
from offprompt.rest.versions import NONE_THERE, expected_version, tag_of


def remember(call: Call) -> RememberedAll:
    """Stored when it is answered, and found by meaning from then on."""
    body: Remember = call.body
    return RememberedAll(
        call.scope.memories.remember(
            body.what,
            metadata=body.metadata,
            tags=body.tags,
            importance=body.importance,
            event_at=body.event_at,
            expires_at=body.expires_at,
            pinned=body.pinned,
            idempotency_key=body.idempotency_key,
            derive=body.derive,
            purpose=body.purpose,
            consent=body.consent,
        )
    )


def recall(call: Call) -> Recalled:
    """The memories that answer a question, best first; where none lies above the floor `why` says so."""
    body: Recall = call.body
    return call.scope.memories.recall(
        body.query,
        top_k=body.top_k,
        within=body.within,
        filters=body.filters,
        since=body.since,
        until=body.until,
        as_of=body.as_of,
        kinds=body.kinds,
        floor=body.floor,
        rerank=body.rerank,
        weights=body.weights,
        explain=body.explain,
        spaces=body.spaces,
        purposes=body.purposes,
    )


def list_memories(call: Call) -> MemoryPage:
    """One page in order of creation, and the cursor of the next; empty on the last one."""
    return _page(call, call.query, {})


def find_memories(call: Call) -> MemoryPage:
    """The same with conditions that belong into no address: filters, and a session."""
    body: MemoryFind = call.body
    return _page(call, body, {"filters": body.filters, "session": body.session})


def _page(call: Call, asked: MemoryPageAsked, more: dict[str, Any]) -> MemoryPage:
    return call.scope.memories.list(
        kinds=asked.kinds,
        states=asked.states,
        since=_moment(asked.since),
        until=_moment(asked.until),
        within=asked.within,
        limit=asked.limit,
        cursor=asked.cursor,
        **more,
    )


def get_memories(call: Call) -> Memories:
    """Those that are there, in the order of the ids."""
    return Memories(call.scope.memories.get_many(call.body.ids))


def get_memory(call: Call) -> Answer:
    """If this scope inherits it or it lies below; in any state but forgotten."""
    memory = call.scope.memories.get(call.path["id"])
    if memory is None:
        raise _unknown(call)
    return Answer(memory, version=_tag(memory))


def update(call: Call) -> Answer:
    """What is left out stays, and recall finds the new text at once."""
    body: MemoryChange = call.body
    memory = call.scope.memories.update(
        call.path["id"],
        text=body.text,
        metadata=body.metadata,
        tags=body.tags,
        importance=body.importance,
        event_at=_kept(body.event_at),
        expires_at=_kept(body.expires_at),
        pinned=body.pinned,
        archived=body.archived,
        if_version=expected_version(call, lambda: _there(call)),
    )
    return Answer(memory, version=_tag(memory))


def forget(call: Call) -> Counted:
    """Hides it and what was derived from it alone; it can be undone for a time. With If-Match only that version."""
    wanted = expected_version(call, lambda: _there(call))
    if wanted is not None and (_there(call) or (NONE_THERE, ""))[0] != wanted:
        raise ConflictError("another version of this memory is there; read it, and decide anew")
    count = call.scope.memories.forget(call.path["id"])
    if not count:
        raise _unknown(call)
    return Counted(count)


def forget_many(call: Call) -> Counted:
    """Hides them and what was derived from them alone; says how many were there."""
    return Counted(call.scope.memories.forget(*call.body.ids))


def undo(call: Call) -> Memory:
    """Brings back what was hidden, within its time."""
    call.scope.memories.undo(call.path["id"])
    memory = call.scope.memories.get(call.path["id"])
    if memory is None:
        raise _unknown(call)
    return memory


def undo_many(call: Call) -> Counted:
    """Brings back what was hidden; says how many."""
    return Counted(call.scope.memories.undo(*call.body.ids))


def erase(call: Call) -> Counted:
    """Removes it with all its versions and what was derived from it alone, for good."""
    count = call.scope.memories.erase(call.path["id"])
    if not count:
        raise _unknown(call)
    return Counted(count)


def history(call: Call) -> Versions:
    """What was added, merged, changed, superseded, hidden, oldest first."""
    return Versions(call.scope.memories.history(call.path["id"]))


def sessions(call: Call) -> SaidIn:
    """With how much of each."""
    return SaidIn(call.scope.memories.sessions())


def _tag(memory: Memory) -> str:
    return tag_of(memory.version, replace(memory, uses=0, used_at=None, revision=0))


def _there(call: Call) -> tuple[int, str] | None:
    memory = call.scope.memories.get(call.path["id"])
    return None if memory is None else (memory.version, _tag(memory))


def _kept(value: Time | UnsetType | None) -> Time | Default | None:
    return DEFAULT if isinstance(value, UnsetType) else _moment(value)


def _moment(value: Time | None) -> Time | None:
    """A time as the library takes it; in an address a number is text."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return value


def _unknown(call: Call) -> NotFoundError:
    name = call.path["id"][:40]
    return NotFoundError(
        f"no memory {name!r} in scope {call.scope.scope}; find it with memories.list() or recall()", name=name
    )
