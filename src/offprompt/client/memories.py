"""Memories of one scope that a server keeps: what `service.memories` offers, and the server runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from offprompt.client._answers import record_of, records_of
from offprompt.client._bodies import conversation, given, said
from offprompt.client._requests import Asking, Async, Request, Sync, asked, condition, path_of
from offprompt.client._transfers import TransferCalls
from offprompt.errors import UnsupportedError, UsageError
from offprompt.protocols import Reranker
from offprompt.records import (
    DEFAULT,
    MEMORY_KINDS,
    MEMORY_STATES,
    WITHIN,
    Memory,
    MemoryKind,
    MemoryPage,
    MemoryState,
    MemoryVersion,
    Recalled,
    Remembered,
    Within,
)
from offprompt.records.basis import named_purposes
from offprompt.records.scope import clean_spaces
from offprompt.records.values import (
    checked_choice,
    checked_choices,
    checked_count,
    checked_cursor,
    checked_ids,
    checked_metadata,
    checked_name,
    checked_tags,
    checked_version,
    moment,
)
from offprompt.wire.options import Derive

PAGE: Final = 100
MAX_PAGE: Final = 1000
"""Memories that one request asks for."""

MEMORIES: Final = ("v1", "memories")


def fact_of(
    headers: Mapping[str, str],
    subject: str,
    attribute: str,
    value: str,
    *,
    text: str | None = None,
    event_at: Any = None,
) -> Asking[Remembered]:
    """Asks to store a fact of a business system."""
    body: dict[str, Any] = {"subject": subject, "attribute": attribute, "value": value, "text": text}
    body["event_at"] = moment("event_at", event_at)
    return record_of((yield Request("PUT", path_of("v1", "facts"), body=body, headers=headers)), Remembered)


class MemoryCalls(TransferCalls):
    """The calls of both faces; as those of `offprompt.service.memories.Memories`, with the same results and errors."""

    def __init__(self, transport: Any, headers: Mapping[str, str]) -> None:
        self._transport, self._headers = transport, headers

    @asked
    def upsert_fact(
        self, subject: str, attribute: str, value: str, *, text: str | None = None, event_at: Any = None
    ) -> Asking[Remembered]:
        """Store that `attribute` of `subject` is `value`, in place of what was known of it: from business systems."""
        return (yield from fact_of(self._headers, subject, attribute, value, text=text, event_at=event_at))

    @asked
    def remember(  # noqa: PLR0913 - options that users type by name
        self,
        what: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        importance: float | None = None,
        event_at: Any = None,
        expires_at: Any = None,
        pinned: bool = False,
        idempotency_key: str | None = None,
        derive: Derive = "rules",
        purpose: str | None = None,
        consent: str | None = None,
    ) -> Asking[list[Remembered]]:
        """Store texts or turns; what became of each, followed by what rules derived from it."""
        checked_choice("derive", derive, ("rules", "model", "none"))
        checked_metadata(metadata)
        body = {
            "what": said(what),
            "metadata": metadata,
            "tags": [*checked_tags(tags)] or None,
            "importance": importance,
            "event_at": moment("event_at", event_at),
            "expires_at": moment("expires_at", expires_at),
            "pinned": pinned or None,
            "idempotency_key": idempotency_key,
            "derive": derive,
            "purpose": purpose,
            "consent": consent,
        }
        answer = yield self._post(given(body))
        return records_of(answer["remembered"], Remembered)

    @asked
    def recall(  # noqa: PLR0913 - options that users type by name
        self,
        query: str | Sequence[Mapping[str, Any]],
        *,
        top_k: int | None = None,
        within: Within = "inherit",
        filters: Mapping[str, Any] | None = None,
        since: Any = None,
        until: Any = None,
        as_of: Any = None,
        kinds: Iterable[MemoryKind] = MEMORY_KINDS,
        floor: float | None = None,
        rerank: bool | Reranker | None = None,
        weights: Mapping[str, float] | None = None,
        explain: bool = False,
        spaces: Iterable[str] = (),
        purposes: Iterable[str] | None = None,
    ) -> Asking[Recalled]:
        """The memories that answer a question, best first; nothing where none lies above the floor.

        rerank   by the server's model (True), not (False), or as its setting says; a `Reranker` of one's own cannot be
                 handed to a server.
        """
        if rerank is not None and not isinstance(rerank, bool):
            raise UnsupportedError(
                "a reranker of one's own runs in this process, and the memories are the server's; pass rerank=True for "
                "the server's model, or rerank what recall gives"
            )
        checked_choice("within", within, WITHIN)
        body = {
            "query": query if isinstance(query, str) else conversation(query),
            "top_k": top_k,
            "within": within,
            "filters": filters,
            "since": moment("since", since),
            "until": moment("until", until),
            "as_of": moment("as_of", as_of),
            "kinds": [*checked_choices("kinds", kinds, MEMORY_KINDS)],
            "floor": floor,
            "rerank": rerank,
            "weights": weights,
            "explain": explain or None,
            "spaces": [*clean_spaces(spaces)] or None,
            "purposes": None if purposes is None else named_purposes(purposes),
        }
        answer = yield self._post(given(body), "recall", is_read=True)
        return record_of(answer, Recalled)

    @asked
    def get(self, memory_id: str) -> Asking[Memory | None]:
        """The memory of that id, if this scope inherits it or it lies below; in any state but forgotten."""
        return next(iter((yield from self._found(checked_ids([memory_id])))), None)

    @asked
    def get_many(self, ids: Sequence[str]) -> Asking[list[Memory]]:
        """Those of the memories that are there, in the order of the ids."""
        return (yield from self._found(checked_ids(ids)))

    @asked
    def list(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        kinds: Iterable[MemoryKind] = MEMORY_KINDS,
        states: Iterable[MemoryState] = ("live",),
        session: str | None = None,
        since: Any = None,
        until: Any = None,
        within: Within = "inherit",
        limit: int = PAGE,
        cursor: str = "",
    ) -> Asking[MemoryPage]:
        """One page of memories in order of creation, and the cursor of the next."""
        checked_choice("within", within, WITHIN)
        checked_count("limit", limit)
        if limit < 1:
            raise UsageError(f"limit={limit}: ask for 1 memory or more")
        body = {
            "filters": filters,
            "states": [*checked_choices("states", states, MEMORY_STATES)],
            "kinds": [*checked_choices("kinds", kinds, MEMORY_KINDS)],
            "session": None if session is None else checked_name("session", session),
            "since": moment("since", since),
            "until": moment("until", until),
            "within": within,
            "cursor": checked_cursor(cursor) or None,
        }
        found: list[Memory] = []
        while True:
            asked_for = {**body, "limit": min(limit - len(found), MAX_PAGE)}
            page = record_of((yield self._post(given(asked_for), "list", is_read=True)), MemoryPage)
            found += page.memories
            body["cursor"] = page.cursor
            if len(found) == limit or not page.cursor:
                return MemoryPage(tuple(found), page.cursor)

    @asked
    def update(  # noqa: PLR0913 - options that users type by name
        self,
        memory_id: str,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] | None = None,
        importance: float | None = None,
        event_at: Any = DEFAULT,
        expires_at: Any = DEFAULT,
        pinned: bool | None = None,
        archived: bool | None = None,
        if_version: int | None = None,
    ) -> Asking[Memory]:
        """The memory changed; what is left out stays, and recall finds the new text at once."""
        (name,) = checked_ids([memory_id])
        checked_version(f"memory {memory_id!r}", if_version)
        checked_metadata(metadata)
        body = given(
            {
                "text": text,
                "metadata": metadata,
                "tags": None if tags is None else [*checked_tags(tags)],
                "importance": importance,
                "pinned": pinned,
                "archived": archived,
            }
        )
        times = {"event_at": event_at, "expires_at": expires_at}
        body |= {kind: moment(kind, value) for kind, value in times.items() if value is not DEFAULT}
        headers = {**self._headers, **condition(if_version)}
        return record_of((yield Request("PATCH", path_of(*MEMORIES, name), body=body, headers=headers)), Memory)

    @asked
    def forget(self, *ids: str) -> Asking[int]:
        """Hide memories and what was derived from them alone, for `undo_s` seconds undoably; how many."""
        return (yield from self._count("forget", checked_ids(ids)))

    @asked
    def undo(self, *ids: str) -> Asking[int]:
        """Bring back what `forget` hid; how many."""
        return (yield from self._count("undo", checked_ids(ids)))

    @asked
    def erase(self, *ids: str, within: Literal["exact", "subtree"] = "exact") -> Asking[int]:
        """Remove memories for good, with all versions and the facts derived from them alone; how many."""
        checked_choice("within", within, ("exact", "subtree"))
        count = 0
        for some in _batches(checked_ids(ids)) or ["all"]:
            body = {"memories": some, "within": within}
            answer = yield Request("POST", path_of("v1", "erase"), body=body, headers=self._headers)
            count += int(answer["memories"])
        return count

    @asked
    def history(self, memory_id: str) -> Asking[list[MemoryVersion]]:
        """The versions of a memory, oldest first: what was added, merged, changed, superseded, hidden."""
        (name,) = checked_ids([memory_id])
        answer = yield Request("GET", path_of(*MEMORIES, name, "history"), headers=self._headers)
        return records_of(answer["versions"], MemoryVersion)

    @asked
    def sessions(self) -> Asking[dict[str, int]]:
        """The sessions in which something was remembered, with how much of each, in order of their beginnings."""
        answer = yield Request("GET", path_of(*MEMORIES, "sessions"), headers=self._headers)
        return dict(answer["sessions"])

    def _post(self, body: object, *path: str, is_read: bool = False) -> Request:
        return Request("POST", path_of(*MEMORIES, *path), body=body, headers=self._headers, is_read=is_read)

    def _found(self, ids: Sequence[str]) -> Asking[list[Memory]]:
        found: list[Memory] = []
        for some in _batches(ids):
            answer = yield self._post({"ids": some}, "get", is_read=True)
            found += records_of(answer["memories"], Memory)
        return found

    def _count(self, verb: str, ids: Sequence[str]) -> Asking[int]:
        count = 0
        for some in _batches(ids):
            answer = yield self._post({"ids": some}, verb)
            count += int(answer["count"])
        return count


class Memories(MemoryCalls, Sync):
    """The memories of one scope."""


class AsyncMemories(MemoryCalls, Async):
    """The memories of one scope, for `async` code."""


def _batches(ids: Sequence[str]) -> list[list[str]]:
    return [list(ids[first : first + MAX_PAGE]) for first in range(0, len(ids), MAX_PAGE)]
