"""What keeps the record of truth: slots, memories, sessions, and all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from offprompt.records import (
    Body,
    Event,
    Finding,
    JournalEntry,
    LedgerEntry,
    MemoryOp,
    Reached,
    Scope,
    SessionChange,
    SessionRecord,
    SlotOp,
)
from offprompt.records.tables import Row

R = TypeVar("R")


@runtime_checkable
class SlotStore(Protocol):
    """Slots, their versions and their events.

    batch      runs the ops in order in one transaction: all of them are stored, or, when one raises, none and the
               error is raised. Ops see what earlier ops of the same batch wrote. An empty batch returns [].
    Time       by the store's clock. A slot whose expires_at ≤ now is not there for any op but Sweep; a put over it
               begins anew: version 1, and its old versions are gone.
    Names      unique in a scope by `fold_name`. A put whose name folds to another live slot's (spelled otherwise) is a
               NameInvalidError; get, forget, history accept any spelling that folds alike.
    Put        LimitError: more than limits.max_slots live slots in the scope (those of actor `rules` do not count), or
               value over limits.max_bytes (UTF-8 of `text_of(value)`; the message says bytes and characters).
               ConflictError: if_version differs (the message names both); trust `tool` over a current value of trust
               `user`. Versions go up by one and are never reused while the slot is there; a put over a forgotten slot
               goes on counting and shows it again.
               limits.keep_versions versions are kept, and the newest of each trust beyond that.
               ConflictError too: trust `tool` in the shared scope; source `model` over a locked slot, hidden or not.
               LimitError too: more than limits.model_writes puts of source `model` on one slot in 60 s (0: any number).
    Forget     hides; history then has no values; undone within limits.undo_s. A `tool` forget of a `user` value is
               a ConflictError, so is a forget of source `model` of a locked slot.
    Guard      places belong to policy `never`: UsageError for another one's, and a put of another policy drops them, as
               one over a forgotten slot does. The lock stays as long as the slot is there, or hidden.
    Move       another user's slots come with versions and places; each slot is moved whole or stays.
    Values     what is returned is the caller's own: changing it changes nothing in the store, and the reverse.
    Events     each put, touching get, forget, restore, guard, erase and non-empty sweep leaves one event in the same
               transaction; those of touching gets may be kept back until the next change, `flush` or `close`.
    Safety     any number of threads and processes; a store that is busy is waited for, then BackendError.
               Acknowledged means stored, as far as the engine's durability says.
    """

    def batch(self, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        """The results of the ops, in order."""
        ...

    def events(
        self, *, scope: Scope | None = None, op: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[Event]:
        """Events with seq > after, oldest first; of the scope's subtree; op is a prefix such as `slot.`."""
        ...

    def flush(self) -> None:
        """Write what was kept back: uses and their events."""
        ...

    def close(self) -> None:
        """Flush, and let go of files and connections; a second call does nothing."""
        ...


@runtime_checkable
class SessionStore(Protocol):
    """Sessions with their journal, bodies and ledger.

    commit    one transaction. ConflictError unless the stored revision is record.revision - 1 (0: not there).
    Rendered  an entry's message, live and settled form, once stored, never change.
    """

    def digest_key(self, scope: Scope) -> bytes:
        """32 random bytes of the scope's app and user (or agent, or session): made once, the same ever after."""
        ...

    def load(self, scope: Scope) -> SessionRecord | None:
        """The session's record, or None."""
        ...

    def commit(self, change: SessionChange) -> None:
        """Store the change, all or nothing."""
        ...

    def journal(self, scope: Scope, *, after: int = 0) -> list[JournalEntry]:
        """The session's entries with seq > after, in order of arrival."""
        ...

    def body(self, scope: Scope, body_id: str) -> Body | None:
        """A body of exactly this session, or None."""
        ...

    def bodies(self, scope: Scope) -> list[Body]:
        """All bodies of exactly this session."""
        ...

    def ledger(self, scope: Scope) -> list[LedgerEntry]:
        """The session's ledger, oldest first."""
        ...

    def sessions(self, scope: Scope | None = None) -> list[SessionRecord]:
        """The sessions in a scope's subtree (None: all), the most recently used first."""
        ...

    def drop_sessions(self, *, scope: Scope | None = None, idle_before: float | None = None) -> int:
        """Remove sessions (of the scope's subtree; used before a time) with journal, bodies and ledger; how many."""
        ...


@runtime_checkable
class MemoryStore(Protocol):
    """Memories, their versions, what is derived from them, and their events.

    apply      runs the ops in order in one transaction, all or none, as SlotStore.batch does.
    Add        ConflictError: trust `tool` in the shared scope; an id that is there. LimitError: more than
               MAX_MEMORY_CHARS characters. An op_key that the scope knows changes nothing: outcome `merged`.
               A fact or passage whose digest, subject and attribute a live memory of the same kind and scope has, or
               else the first of `similar` that is live: merged into it. Then repeats goes up by one, tags and metadata
               join (what was there first stays), importance and expiry become the greater, pinned stays or comes,
               trust becomes `user` if either is; `happened_at` and order stay, or with an attribute become those of the
               greater of the two by the next rule. Episodes merge by op_key only.
    Supersede  of the facts with one (scope, subject, attribute), both not empty, only the greatest by (trust user
               before tool, happened_at, order, digest) may be live after an add; each other live one is superseded by
               the next greater, at that one's happened_at. So the order of arrival does not matter. A hidden or
               archived one that is the greatest leaves none live: what it replaced does not come back. One that
               only `ends` another value than the statement before it in that order names is superseded by that one.
               A fact without an attribute is superseded by an add that `replaces` it and is not the lesser of the two.
    Extracted  MarkExtracted changes neither version nor revision; ConflictError as there.
    Update     text or metadata changed: version up by one. if_version differs, or trust `tool` over `user`:
               ConflictError. Not there, hidden or superseded: NotFoundError. What changed is as if added anew for the
               facts of its subject and attribute. archived: True takes it out of recall, False brings it back.
    Forget     hides; undone within undo_s to the state from before. Trust `tool` over `user`: ConflictError.
    Index      what is derived may be missing: the memory is stored all the same, and `Unindexed` lists it.
    Join       the memories of a user become another's: keys, versions and what is derived come along. A fact that the
               other has in the same words is superseded by it; what is known of one attribute is put in order. Once
               more, it moves what came meanwhile. UsageError: the two are one already, by the other way round or by
               name; ConflictError: the first is another one's alias.
    Revision   of an exact scope: goes up by one with each op that changes memories or what is derived there. Erase and
               sweep make the next page whole.
    Time       by the store's clock; a memory whose expires_at ≤ now and that is not pinned is not there for any op but
               Sweep.
    Events     each add, update, forget, restore, erase and non-empty sweep leaves one `memory.…` event in the same
               transaction, named by the memory's id; never a text.
    Safety     as SlotStore.
    """

    def apply(self, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        """The results of the ops, in order."""
        ...


@runtime_checkable
class Portable(Protocol):
    """What a whole store is copied by: its tables, row by row, the same in each engine; see `records.tables`.

    Rows     every one that is stored, expired and hidden ones too, in the order of their keys; what this object kept
             back is stored first. Bytes, texts and numbers come back as they went in.
    """

    def tables(self) -> tuple[str, ...]:
        """The names of the tables that this engine keeps."""
        ...

    def scan(self, table: str, *, after: Row | None = None, limit: int = 1000) -> list[Row]:
        """The rows of a table with a key greater than `after` (None: from the first), at most `limit`."""
        ...

    def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        """Store rows in one transaction, in place of those with the same key; no rule is asked, no event is left.

        Events that are added later have a greater `seq` than those put.
        """
        ...

    def clear_rows(self, table: str) -> None:
        """Remove all rows of a table."""
        ...


@runtime_checkable
class Notes(Protocol):
    """A few short texts about the store itself, by name: how far a copy is, who does which work, when it was done."""

    def note(self, name: str) -> str | None:
        """The text of that name, or None."""
        ...

    def set_note(self, name: str, text: str | None, *, was: str | None, events: Sequence[Event] = ()) -> bool:
        """Store the text, or remove it, if the stored one is still `was` (None: there is none); whether it did.

        events   appended to the log in the same transaction, if it did: so another log can be moved here, each once.
        """
        ...

    def notes(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """Names that begin with the prefix, with their texts, by name in code points' order; those behind `after`."""
        ...

    def drop_notes(self, known: Sequence[tuple[str, str]]) -> int:
        """Remove, in one transaction, those of which name and text are still as given; how many were."""
        ...


class Store(SlotStore, MemoryStore, SessionStore, Portable, Notes, Protocol):
    """An engine that can keep all: slots, memories, sessions, and one log of events for them."""

    def part_with(self, scope: Scope, pseudonym: str) -> int:
        """The last step of erasing a user, an agent or a session whole, whose records are removed already.

        Destroys its digest key, what is known of its aliases and revisions, and puts the pseudonym in place of its id
        in events, whose names, sessions, and actors of that id go too; one transaction. How many events it masked.

        Raises   UsageError unless the scope is one user, one agent or one session.
        """
        ...


@runtime_checkable
class Scourable(Protocol):
    """An engine that can do something about what deleted rows leave behind."""

    def scour(self) -> Reached:
        """Overwrite or let go of it, as far as the engine can.

        Raises   BackendError if the engine fails.
        """
        ...


@runtime_checkable
class Traceable(Protocol):
    """An engine whose files can be searched."""

    def traces(self, texts: Sequence[bytes]) -> list[Finding]:
        """Look for bytes that were erased wherever the engine may look, not only in rows.

        Cost     O(size of its files).
        """
        ...


@runtime_checkable
class Checkable(Protocol):
    """An engine whose health can be looked at."""

    def check(self, *, fix: bool = False) -> list[Finding]:
        """Look at integrity, format, rights, clock, what waits for a sweep; each as far as the engine has it.

        fix      mend what can be mended without loss.
        """
        ...


@runtime_checkable
class Maintainable(Checkable, Protocol):
    """What a store in files offers beside its roles; one without files does not have it."""

    def backup(self, target: str, *, overwrite: bool = False) -> int:
        """Copy the store, while it is in use, to a new private file; returns its bytes.

        The copy is checked before it takes its name, so that the name never stands for half of one.
        Raises   UsageError if the target is there and `overwrite` is not set, or is this store's own file.
        """
        ...

    def restore(self, source: str, *, force: bool = False) -> None:
        """Put a backup's content in place of all that this store holds, in one transaction; others may have it open.

        Raises   UsageError if this store holds anything and `force` is not set; BackendError if the source is not a
                 sound store of a format that this program knows. Then nothing was changed.
        """
        ...


def run(store: SlotStore, op: SlotOp[R]) -> R:
    """One op as a batch of one, with its result's type."""
    return cast("R", store.batch([op])[0])


def apply(store: MemoryStore, op: MemoryOp[R]) -> R:
    """One op as a batch of one, with its result's type."""
    return cast("R", store.apply([op])[0])
