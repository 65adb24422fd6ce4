"""Memories in mem0's words: add, search, list, change and delete them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UnsetType

from offprompt.compat.mem0 import tokens, views
from offprompt.compat.mem0.asked import Add, Change, Feedback, Listing, OneChange, OneId, Search
from offprompt.compat.mem0.filters import Wanted
from offprompt.compat.mem0.finding import categories_of, found_by, narrowed
from offprompt.compat.mem0.marks import checked_metadata, marks_of
from offprompt.compat.mem0.reach import ALL_STATES, Reach
from offprompt.errors import ConflictError, UsageError
from offprompt.protocols import apply
from offprompt.records import DEFAULT, MAX_MEMORY_CHARS, MarkExtracted, Memory, MemoryState, Remembered, Role, as_list
from offprompt.records.scope import clean_id
from offprompt.records.values import moment
from offprompt.service.bound import BoundScope
from offprompt.service.peers import MARKS, expiry_of, with_marks

PAGE_SIZE: Final = 100
MAX_BATCH: Final = 1000
EVENT: Final = "event"
MAX_FOLLOWED: Final = 150
"""Ids of memories in the id of an event, which stands in an address."""
NOT_READ: Final = "infer=false"


class Records:
    """The memories that one identity reaches. Errors are ours, nothing is changed then."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._actor = reach.identity.actor

    def add(self, given: Add, unused: Sequence[str] = ()) -> dict[str, Any]:
        """Store messages: each is a memory, and what rules read in the user's words becomes facts beside them.

        Infer    a language model reads them too, later, where one is set for it. False: only what was said is stored.
        Done     when it returns; `status` says so, but for what waits because the store did not take it in time.
        """
        ids = {name: getattr(given, name) for name in ("user_id", "agent_id", "run_id", "app_id")}
        for name, value in self._ids_in(given.filters).items():
            if ids[name] not in (None, value):
                raise UsageError(f"{name} is {ids[name]!r} beside the filters and {value!r} in them; say it once")
            ids[name] = value
        app = ids["app_id"]
        marks = {"app_id": None if app is None else clean_id("app", app), "immutable": given.immutable}
        metadata = with_marks(checked_metadata(given.metadata), marks)
        scope = self.reach.scope(user=ids["user_id"], agent=ids["agent_id"], run=ids["run_id"], role="write")
        models = self.reach.memory.parts.models
        reads = models is not None and models.of("extract") is not None
        done = scope.remember(
            _messages(given.messages),
            metadata=metadata,
            tags=given.categories or (),
            event_at=moment("timestamp", given.timestamp),
            expires_at=expiry_of(given.expiration_date),
            derive="none" if given.infer is False else "model" if reads else "rules",
        )
        if given.infer is False:
            self._keep_from_models(scope, done)
        return self._told_added(done, list(unused))

    def _keep_from_models(self, scope: BoundScope, done: Sequence[Remembered]) -> None:
        """No language model reads these turns, whenever one is set: they count as read."""
        turns = tuple((one.name, 1) for one in done if one.outcome in ("added", "pending") and one.kind == "episode")
        if not turns:
            return
        with contextlib.suppress(ConflictError):  # changed or read in between: that is what was wanted then
            apply(self.reach.memory.parts.memories.store, MarkExtracted(scope.memories.scope, turns, NOT_READ))

    def _ids_in(self, filters: Mapping[str, Any] | None) -> dict[str, str]:
        """The ids that filters of an `add` name."""
        if not filters:
            return {}
        bounds = self.reach.wanted(filters).bounds
        if len(bounds) != 1:
            raise UsageError("the filters of an add name more than one place; name one user_id, agent_id and run_id")
        return dict(bounds[0])

    def _told_added(self, done: Sequence[Remembered], unused: list[str]) -> dict[str, Any]:
        stored = [one for one in done if one.kind not in ("", "slot") and one.outcome != "refused"]
        waits = any(one.outcome == "spooled" for one in stored)
        results = [
            {
                "id": one.name or None,
                "memory": one.text,
                "data": {"memory": one.text},
                "event": "NONE" if one.outcome == "merged" else "ADD",
            }
            for one in stored
        ]
        ids = [one.name for one in stored if one.name]
        refused = [one.why for one in done if one.outcome == "refused" and one.kind != "slot"]
        answer: dict[str, Any] = {
            "message": f"{sum(one['event'] == 'ADD' for one in results)} memories stored",
            "status": "PENDING" if waits else "SUCCEEDED",
            "event_id": None if waits else self._event("ADD", ids=ids),
            "results": results,
        }
        return {**answer, **_warned([*unused, *refused])}

    def get(self, memory_id: str) -> dict[str, Any]:
        """One memory. Raises NotFoundError."""
        return views.item(self.reach.find(memory_id))

    def search(self, given: Search, unused: Sequence[str] = ()) -> dict[str, Any]:
        """The memories that answer a question, best first; see `finding`."""
        found, warnings = found_by(self.reach, given)
        shown = [views.fields_of(views.hit(hit), given.fields) for hit in found]
        return {"results": shown, **_warned([*unused, *warnings])}

    def listed(
        self, given: Listing, unused: Sequence[str] = (), *, page: int = 1, page_size: int = PAGE_SIZE
    ) -> dict[str, Any]:
        """A page of the memories that fit, oldest first, and how many there are. Cost: O(memories within the ids)."""
        rows = self.matching(given)
        first = (page - 1) * page_size
        shown = [views.fields_of(views.item(row), given.fields) for row in rows[first : first + page_size]]
        more = first + page_size < len(rows)
        return {
            "count": len(rows),
            "next": f"?page={page + 1}&page_size={page_size}" if more else None,
            "previous": f"?page={page - 1}&page_size={page_size}" if page > 1 else None,
            "results": shown,
            **_warned(unused),
        }

    def matching(self, given: Listing) -> list[Memory]:
        """All memories that fit, in order of creation."""
        since, until = moment("start_date", given.start_date), moment("end_date", given.end_date)
        keywords = [given.keywords] if isinstance(given.keywords, str) else given.keywords or []
        wanted = narrowed(self.reach.wanted(given.filters), categories_of(given.categories), given.metadata, keywords)
        states: tuple[MemoryState, ...] = ("live", "superseded") if given.latest_only is False else ("live",)
        rows = self._rows(wanted, states=states, expired=bool(given.show_expired))
        return [
            row
            for row in rows
            if (since is None or row.happened_at >= since) and (until is None or row.happened_at <= until)
        ]

    def _rows(
        self, wanted: Wanted, *, states: tuple[MemoryState, ...], expired: bool = False, role: Role = "read"
    ) -> list[Memory]:
        found: dict[str, Memory] = {}
        for root in self.reach.roots(wanted.bounds, role):
            for over in (False, True) if expired else (False,):
                rows = self.reach.listed(root, states=states, expired=over)
                found |= {row.memory_id: row for row in rows if wanted.fits(row)}
        return [found[name] for name in sorted(found)]

    def update(self, memory_id: str, given: Change, unused: Sequence[str] = ()) -> dict[str, Any]:
        """The memory changed; members of metadata are set, null takes one out.

        Raises   NotFoundError; ConflictError for an immutable one; UsageError where nothing is to be changed.
        """
        changed = self._changed(self._changeable(memory_id), _members(given))
        return {**views.item(changed), **_warned(unused)}

    def _changeable(self, memory_id: str) -> Memory:
        memory = self.reach.find(memory_id, "write")
        if marks_of(memory).get("immutable"):
            raise ConflictError(f"memory {memory.memory_id} was stored as immutable; delete it and add another one")
        return memory

    def _changed(self, memory: Memory, members: Mapping[str, Any]) -> Memory:
        return self.reach.memories.update(memory.memory_id, **members, actor=self._acting(memory))

    def _acting(self, memory: Memory) -> str:
        return self.reach.identity.acting_for(memory.scope.user)

    def delete(self, memory_id: str, *, linked: bool = False) -> dict[str, Any]:
        """Hide a memory and what rules derived from it alone; linked: with the older ones that it superseded.

        Raises   NotFoundError.
        """
        memory = self.reach.find(memory_id, "write")
        chain = [memory.memory_id]
        if linked:
            older = self.reach.listed(memory.scope, states=("superseded",))
            for name in chain:
                chain += [one.memory_id for one in older if one.superseded_by == name and one.memory_id not in chain]
        count = self.reach.memories.forget(*chain, actor=self._acting(memory))
        return {"message": "Memory deleted successfully!", "deleted": count, "cascade_count": count - 1}

    def delete_all(self, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Hide all memories that fit, and erase those that have expired and are not swept yet; says how many.

        filters  ids, or a tree. Raises UsageError for a branch without an id: that is what `reset` is for.
        """
        wanted = self.reach.wanted(filters)
        rows = self._rows(wanted, states=ALL_STATES, expired=True, role="write")
        self.reach.check_shared(rows, "write")
        now = self.reach.memory.parts.clock.now()
        over = {row.memory_id: row for row in rows if row.expires_at is not None and row.expires_at <= now}
        ids = [row.memory_id for row in rows if row.memory_id not in over]
        count = self.reach.erase_expired(over.values())
        count += self.reach.memories.forget(*ids, actor=self._actor) if ids else 0
        event = self._event("DELETE", deleted=count)
        return {"message": f"{count} memories deleted", "deleted": count, "event_id": event}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """What became of a memory, oldest first; of a deleted one without its texts. Raises NotFoundError."""
        memory = self.reach.find(memory_id, hidden=True)
        return views.changes(memory, self.reach.memories.history(memory.memory_id))

    def batch_update(self, given: Sequence[OneChange]) -> dict[str, Any]:
        """Each changed, in order; none if one of them is not there, may not be changed, or does not fit."""
        _check_batch(given)
        for memory, members in [(self._changeable(one.memory_id), _members(one)) for one in given]:
            self._changed(memory, members)
        return {"message": f"{len(given)} memories updated", "updated": len(given)}

    def batch_delete(self, given: Sequence[OneId]) -> dict[str, Any]:
        """All hidden; none if one of them is not there."""
        _check_batch(given)
        ids = [self.reach.find(one.memory_id, "write").memory_id for one in given]
        count = self.reach.memories.forget(*ids, actor=self._actor)
        return {"message": f"{count} memories deleted", "deleted": count}

    def feedback(self, given: Feedback) -> dict[str, Any]:
        """What somebody thinks of a memory is kept with it, for whoever reads it; null takes it back."""
        memory = self.reach.find(given.memory_id, "write")
        verdict = given.feedback
        said = {"feedback": verdict, "feedback_reason": given.feedback_reason if verdict else None}
        marks = {name: value for name, value in {**marks_of(memory), **said}.items() if value is not None}
        self.reach.memories.update(memory.memory_id, metadata={MARKS: marks or None}, actor=self._acting(memory))
        return {"id": memory.memory_id, **said}

    def event(self, event_id: str) -> dict[str, Any] | None:
        """What became of an `add` or a `delete_all`, with what is there of it now; None if there was none such.

        results  of an `add` that made more than MAX_FOLLOWED memories: of its first ones; `memories` says how many.
        """
        found = tokens.read(self.reach, EVENT, event_id)
        if found is None:
            return None
        memories = [one for one in self.reach.memories.get_many(found["ids"]) if self.reach.allows(one.scope)]
        return {
            "id": event_id,
            "event_type": found["type"],
            "status": "SUCCEEDED",
            "results": [
                {"id": one.memory_id, "data": {"memory": one.text}, "event": found["type"]} for one in memories
            ],
            "memories": found["memories"],
            "deleted": found["deleted"],
            "created_at": views.iso(found["at"]),
        }

    def _event(self, kind: str, *, ids: Sequence[str] = (), deleted: int = 0) -> str:
        at = self.reach.memory.parts.clock.now()
        what = {"type": kind, "at": at, "ids": ids[:MAX_FOLLOWED], "memories": len(ids), "deleted": deleted}
        return tokens.issue(self.reach, EVENT, what)


def _messages(given: object) -> list[Any]:
    """Messages as a list; a text is the user's."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    listed = as_list(given)
    return [given] if listed is None else listed


def _members(given: Change) -> dict[str, Any]:
    """What is to be changed, checked.

    Raises   UsageError for nothing, and for what does not fit.
    """
    expiry, text = given.expiration_date, given.text
    if text is None and given.metadata is None and given.timestamp is None and isinstance(expiry, UnsetType):
        raise UsageError("nothing is to be changed; give text, metadata, timestamp or expiration_date")
    if text is not None and not 0 < len(text.strip()) <= len(text) <= MAX_MEMORY_CHARS:
        raise UsageError(
            f"text={text[:20]!r} has {len(text):,} characters; give some words, {MAX_MEMORY_CHARS:,} at most"
        )
    return {
        "text": text,
        "metadata": None if given.metadata is None else checked_metadata(given.metadata),
        "event_at": DEFAULT if given.timestamp is None else moment("timestamp", given.timestamp),
        "expires_at": DEFAULT if isinstance(expiry, UnsetType) else expiry_of(expiry),
    }


def _check_batch(given: Sequence[object]) -> None:
    if not 0 < len(given) <= MAX_BATCH:
        raise UsageError(f"memories: {len(given)} of them; give 1 to {MAX_BATCH}")


def _warned(warnings: Sequence[str]) -> dict[str, Any]:
    return {"warnings": list(warnings)} if warnings else {}
