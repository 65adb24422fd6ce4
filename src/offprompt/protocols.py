"""The contracts between the layers, each said once; the conformance suites in `offprompt.testing` hold them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, runtime_checkable

from offprompt.records import (
    Body,
    Cancel,
    Completion,
    Event,
    Finding,
    JournalEntry,
    LedgerEntry,
    MemoryOp,
    ModelWire,
    Scope,
    SessionChange,
    SessionRecord,
    SlotOp,
    Sought,
    VectorEntry,
    VectorStamp,
    WordHits,
)
from offprompt.records.redaction import Redacted
from offprompt.records.tables import Row

if TYPE_CHECKING:  # NumPy is loaded where vectors are used, not where contracts are read
    import numpy as np
    from numpy.typing import NDArray

R = TypeVar("R")

EmbedKind = Literal["query", "passage"]


class Clock(Protocol):
    """Where `now` comes from."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        ...


class Tokenizer(Protocol):
    """How a model's tokens are counted."""

    @property
    def name(self) -> str:
        """The encoding's name, e.g. `o200k_base`; of an estimate, `estimate`."""
        ...

    @property
    def exact(self) -> bool:
        """Whether counts are the model's own; False: a declared estimate."""
        ...

    def count(self, text: str) -> int:
        """Tokens of the text; special tokens in it count as plain text. Cost O(n), cached for repeated texts."""
        ...

    def clip(self, text: str, max_tokens: int) -> str:
        """The longest prefix of the text that ends between characters and has at most that many tokens."""
        ...


class Redactor(Protocol):
    """What takes out of a text what may not be stored; it runs before the journal and before anything is derived."""

    def redact(self, text: str) -> Redacted:
        """The text with a mark in place of each find, and the finds as places in the text as it was, in order.

        Rules    marks say in the text's language what was given; redacting a redacted text changes nothing.
        Raises   nothing, whatever the text.
        """
        ...


class Embedder(Protocol):
    """Texts as vectors: what means the same lies close."""

    @property
    def name(self) -> str:
        """The model with a digest of its weights: vectors of different names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        ...

    @property
    def piece_chars(self) -> int:
        """Characters up to which a text is embedded as a whole; longer ones are embedded in pieces."""
        ...

    @property
    def unrelated(self) -> float:
        """The cosine of texts that have nothing to do with each other; the zero of a vector score."""
        ...

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Unit vectors.

        Shapes   n texts; returns (n, dimension), float32, rows of length 1. An empty text has a vector too.
        kind     `query` or `passage`; models without that distinction ignore it.
        Safety   any number of threads. The same text gives the same vector, alone or in a batch, up to rounding.
        Raises   UnsupportedError if what the model needs is not installed; BackendError if it fails.
        """
        ...


class ReplyStream(Protocol):
    """A streamed reply: iterate over it once, with `for` or `async for`, for chunks as dicts in the wire's own shape.

    Raises   while iterating, as `ChatModel.create`. A stream that breaks off is not tried again: what came was given.
    """

    def __iter__(self) -> Iterator[dict[str, Any]]: ...

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]: ...

    def close(self) -> None:
        """Let go of the connection; after the end, or a second time, it does nothing. Leaving the loop does it too."""
        ...


class ChatModel(Protocol):
    """A language model behind an endpoint.

    Payload    keyword arguments of the provider's client, such as `Session.prepare` gives; `model` and, on Anthropic's
               wire, `max_tokens` are filled in where they are left out. It is never changed.
    timeout_s  seconds for the whole call, tries and waiting together; for a stream, until its end. None: the model's.
    Tries      rate limits (429), 5xx and lost connections are tried again after a growing, jittered wait, or the one
               that `Retry-After` names, while the deadline allows; other refusals never are.
    Cancel     `cancel`, or for awaited calls the task's own cancelling, closes the connection at once.
    Safety     any number of threads and event loops.
    Raises     UsageError for what the provider refuses (key, model, request: HTTP 400, 401, 403, 404, 422): no try
               would help; ModelError for all else; UnsupportedError if the provider's client is not installed.
               No message holds the key, or what was sent.
    """

    @property
    def name(self) -> str:
        """The model, as its provider calls it."""
        ...

    @property
    def wire(self) -> ModelWire:
        """The shape of payloads and replies."""
        ...

    @property
    def context_tokens(self) -> int:
        """The window. Asked of the endpoint once, where it tells; else what is known by name; 0: not known.

        Raises   nothing: an endpoint that does not answer tells nothing.
        """
        ...

    def create(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """The reply as plain data, with all that the provider put in; what `Session.absorb` takes."""
        ...

    async def acreate(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """See `create`."""
        ...

    def stream(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> ReplyStream:
        """The reply in chunks, for `for` and `async for`; what `Session.absorb_stream` takes.

        The request goes out with the first chunk asked for. Counts of tokens are asked for where the wire has to be.
        """
        ...

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        timeout_s: float | None = None,
        cancel: Cancel | None = None,
    ) -> Completion:
        """One answer, for memory work.

        messages   `{"role": "system" | "user" | "assistant", "content": text}`, on every wire.
        schema     the answer is asked for as JSON under it: by the endpoint's own means, else in words. Every object
                   in it should be closed (`additionalProperties` false) with all members required.
        max_tokens of the answer; a reply that needs more ends with finish `length`, and then has no `data`.
        Raises     as `create`; ModelError `reply` for what is not a reply at all. An empty answer is no error.
        """
        ...

    async def acomplete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        timeout_s: float | None = None,
        cancel: Cancel | None = None,
    ) -> Completion:
        """See `complete`."""
        ...

    def close(self) -> None:
        """Let go of connections; a second call does nothing."""
        ...


class Reranker(Protocol):
    """What puts texts in the order in which they answer a question."""

    @property
    def name(self) -> str:
        """The model that it asks."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """One number from 0 to 1 for each text, in their order; higher answers better. No texts: no call.

        Raises   as `ChatModel.complete`; ModelError `reply` if the model scored other texts than these.
        """
        ...


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


@runtime_checkable
class Coordinator(Protocol):
    """What processes agree on: who works on something, how often something is done, what was done already.

    Key      any text; those of the three kinds do not meet.
    Time     by the clock of the caller's process; a killed process's lease or work lapses by it. One that steps back
             makes `take` wait for one more at the most, but leases last that much longer.
    Safety   any number of threads and processes; each call is one step.
    """

    def take(self, key: str, *, limit: int, per_s: float) -> float:
        """Count one, if it may be now: seconds to wait until it may; 0: it was counted.

        limit    so many at once after a pause. per_s: so many a second in the long run.
        Source   the generic cell rate algorithm, ITU-T I.371 (2004), annex A.
        """
        ...

    def once(self, key: str, digest: str, *, seconds: float) -> str | None:
        """The result of what was done under the key, or None: it is the caller's to do and to `finish`.

        digest   of what is to be done. seconds: until another caller may begin, if this one does not finish.
        Raises   ConflictError if the key stands for another digest, or for one that is being done just now.
        """
        ...

    def finish(self, key: str, digest: str, result: str | None, *, ttl_s: float) -> None:
        """Keep the result for `ttl_s` seconds; None: it was not done, and may be begun anew.

        Nothing  if the key stands for another digest, or has a result.
        """
        ...

    def lease(self, key: str, holder: str, *, seconds: float) -> int | None:
        """The number of the holder's lease, now for that many seconds; None while somebody else holds it.

        Number   greater with each new holder, the same when renewed: a resource that remembers the greatest one it has
                 seen can refuse a holder who does not know yet that its lease is over.
        """
        ...

    def release(self, key: str, holder: str) -> None:
        """End the holder's lease; of another's: nothing."""
        ...


class Store(SlotStore, MemoryStore, SessionStore, Portable, Notes, Protocol):
    """An engine that can keep all: slots, memories, sessions, and one log of events for them."""


@runtime_checkable
class VectorSearch(Protocol):
    """Which memories mean nearly what a question does. Vectors written with the memories themselves need no more."""

    @property
    def embedder(self) -> str:
        """The name of what made the vectors: an index holds those of one embedder."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        ...

    def nearest(self, vector: NDArray[np.floating], sought: Sought, *, limit: int) -> list[tuple[str, float]]:
        """Ids of the memories that lie closest, of those that are sought, each with its cosine.

        Shapes   vector (dimension,), of any length but 0; at most `limit` pairs.
        Order    cosine, highest first, ties by id. Cosines are right to 1e-3: vectors may be kept in half precision.
        Exact    up to the engine's own threshold, which it says; in larger scopes it may miss some.
        Raises   UsageError for another dimension; BackendError if the index does not answer.
        """
        ...


@runtime_checkable
class VectorIndex(VectorSearch, Protocol):
    """Vectors of memories outside their store: rebuilt from it at any time, kept in step by what waits in it.

    Place    entries are known by app and id; an entry put again replaces the one before, whatever its scope was.
    Embedder an index sees the entries of its own embedder only; those of others at the same place are as if not there.
    Written  what returned is found by the next `nearest`, `stamps` and `scan` of any client.
    Open     does not connect: what is wrong is said at first use. UsageError: what is there has another dimension.
    Errors   BackendError if the index does not answer in time or refuses; the message never holds a key.
    Safety   any number of threads and processes.
    """

    def upsert(self, entries: Sequence[VectorEntry]) -> None:
        """Put entries, any number; of several with one place the last counts. Once more changes nothing."""
        ...

    def delete(self, places: Sequence[tuple[str, str]]) -> None:
        """Remove entries by app and id; those that are not there are passed over."""
        ...

    def stamps(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], VectorStamp]:
        """What the index holds at these places; what is not there is left out."""
        ...

    def scan(self, *, after: str = "", limit: int = 1000) -> tuple[list[VectorStamp], str]:
        """A page of all entries, in an order of the engine's own, and the cursor of the next; "" at the end.

        Entries that are there from the first page to the last are listed; what comes or goes meanwhile may be.
        """
        ...

    def count(self) -> int:
        """Entries in all."""
        ...

    def drop(self) -> None:
        """Remove all entries; the index can be used as before."""
        ...

    def close(self) -> None:
        """Let go of connections; a second call does nothing."""
        ...


@runtime_checkable
class WordIndex(Protocol):
    """What a MemoryStore offers that finds memories of very large scopes by their words without loading them."""

    def words(self, terms: Sequence[str], sought: Sought, *, limit: int) -> WordHits:
        """The memories that hold terms of a question, with the statistics of their scopes.

        terms    as `Packed.terms` of `Indexed.content` has them; of more than 128 the rarest count.
        Order    see WordHits; at most `limit` ids.
        Of what  live memories, not expired, whose index is of their version.
        Raises   BackendError if the store fails.
        """
        ...

    def beside(self, app: str, ids: Sequence[str]) -> tuple[str, ...]:
        """Ids of the live episodes, not expired, that stand right before or after these in the log of their session.

        The log: the live episodes of one scope with one `session`, not empty, by order and id. Others are passed over.
        Returns  ids that are not among those given, in order, each once.
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
