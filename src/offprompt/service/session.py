"""Session: one conversation; prepares its requests and absorbs its replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from offprompt.errors import BackendError, ConflictError, UsageError
from offprompt.records import JournalEntry, LedgerEntry, Reply, Scope, SessionChange, SessionRecord, Size
from offprompt.records.basis import consents_of
from offprompt.service.accounting import digester
from offprompt.service.bounding import Bounding
from offprompt.service.capture import Capture, false_claim
from offprompt.service.conversation import Conversation
from offprompt.service.handle_lookup import HandleLookup
from offprompt.service.recalling import JournalIndex
from offprompt.service.redacting import Redaction
from offprompt.service.replies import ReplyReader
from offprompt.service.request_ledger import Sizes
from offprompt.service.requests import RequestBuilder
from offprompt.service.sealing import sealing_scope
from offprompt.service.session_kit import Model, SessionKit
from offprompt.service.session_lock import SessionLock
from offprompt.service.trouble import Known, WithoutMemory, nothing
from offprompt.service.turn import Turn
from offprompt.service.unrecorded import catch_up, with_spooled
from offprompt.wire.head import missing_text
from offprompt.wire.options import SessionOptions, Underway
from offprompt.wire.payload import given_messages
from offprompt.wire.streamed import Lookups, StreamedReply, StreamReader

FORGOTTEN = (
    "the last reply is not among the messages, so the model does not know what it said or saved; "
    "pass messages + reply.messages within a turn, and extend your list with reply.messages once it is done"
)


class Session:
    """One conversation. Its state is in the store: any process may go on with it, one call at a time.

    A turn: `prepare` the messages, send what it returns, `absorb` the reply; while the reply is not done, prepare
    `messages + reply.messages` again. `complete` does all of that. What is given is never changed.
    """

    def __init__(self, kit: SessionKit, scope: Scope, options: SessionOptions) -> None:
        self._kit, self._scope, self._options = kit, scope, options
        self._model = Model.of(options, kit)
        self._lock = SessionLock(scope, kit.coordinator)
        self._keyed: Callable[[str], str] | None = None
        self._conversation = Conversation(self._model.shape, self._digest)
        self._sizes: dict[tuple[str, str], Size] = {}
        self._bodies: dict[str, int] = {}
        self._texts = JournalIndex()
        self._read_at: tuple[object, ...] | None = None
        self._capture = Capture(kit, scope, options)
        self._capture.check()
        self._without = WithoutMemory(Bounding(self._model, kit.tokenizer, kit.settings, options.policy), options)
        self._last_entry: LedgerEntry | None = None
        self._asked = 0
        self._pending: LedgerEntry | None = None

    @property
    def scope(self) -> Scope:
        """Whose conversation it is; what is granted to it now is found with it."""
        grants = self._kit.memories.grants
        return self._scope if grants is None else grants.view(self._scope, self._kit.actor)

    def follow(self, before: Session) -> None:
        """Go on with what another object of this conversation has read and counted, which is used no more.

        Checked  with the next call: if the store holds another state than that object left, all is read anew.
        """
        if before.scope != self.scope or before._model.shape is not self._model.shape:
            return
        self._keyed, self._read_at = before._keyed, before._read_at
        self._conversation, self._texts, self._bodies = before._conversation, before._texts, before._bodies
        self._capture.reached = before._capture.reached
        if before._model.name == self._model.name:
            self._sizes = before._sizes

    def _forget(self) -> None:
        """Somebody else went on with the conversation, or it began anew: nothing that was read of it holds."""
        self._keyed = self._read_at = None
        self._conversation = Conversation(self._model.shape, self._digest, said=self._conversation.said)
        self._sizes, self._bodies, self._texts, self._capture.reached = {}, {}, JournalIndex(), ""

    def prepare(self, messages: Sequence[Any], *, show: Sequence[str] = ()) -> dict[str, Any]:
        """Keyword arguments for the client's call: model, messages, tools (Anthropic: system, max_tokens).

        messages  the conversation so far, as dicts or SDK objects (of responses: its items); the whole of it each
                  time.
                  For responses the keyword is `input`.
        show      slots whose value the model shall see in this turn, whatever the user asks.
        Stored    before it returns: the messages, how they are sent, the request's ledger entry.
        Trouble   if the store fails, the client's messages go as they are and the reply's warnings say so; with the
                  setting `on_trouble="raise"` a BackendError comes instead.
        Raises    UsageError for messages that are not of the wire, ConflictError while another call works on the
                  session; then nothing is changed.
        """
        with self._lock.held():
            given = self._without.given = self._given(messages, show)
            try:
                request = self._prepared(given, show)
            except BackendError as exc:
                if self._kit.settings.on_trouble == "raise":
                    raise
                return self._without.request(given, self._kit.watches.of(self.scope).last, exc)
            self._without.cause, self._without.is_recorded = "", True
            return request

    def preview(self, messages: Sequence[Any]) -> dict[str, Any]:
        """What `prepare` would return; nothing is stored, shown or counted.

        Raises   as `prepare`; BackendError if the store fails.
        """
        with self._lock.held():
            record, turn = self._load()
            sizes = Sizes(turn, dict(self._sizes), dict(self._bodies))
            builder = RequestBuilder(turn, record, self._options, self._conversation, sizes, self._texts)
            return builder.build(self._given(messages, ()), ()).request

    def bounded(self, messages: Sequence[Any]) -> dict[str, Any] | None:
        """What would be sent without memory; None: the messages as they are, since all of them may.

        For    a caller who cannot wait for the store, which is not asked. The reply to it is not to be absorbed.
        Raises UsageError for messages that are not of the wire.
        """
        return self._without.bounded(self._given(messages, ()))

    def _given(self, messages: Sequence[Any], show: Sequence[str]) -> list[dict[str, Any]]:
        """The messages as plain data, in the session's form."""
        return self._model.shape.gather(given_messages(messages, show))

    def _reminded(self, before: SessionRecord, change: SessionChange) -> SessionChange:
        """The change, with a warning if the application left out the reply that it was given last."""
        now = change.record
        again = now.sent_last == before.sent_last and not before.open
        if not before.tail or again or now.pending is None:
            return change
        fresh, sent, key = {entry.key: entry for entry in change.journal}, set[str](), now.sent_last
        while key:
            sent.add(key)
            key = (fresh.get(key) or self._conversation.by_key[key]).parent
        if before.tail in sent or before.sent_last not in sent:
            return change
        pending = replace(now.pending, warnings=(*now.pending.warnings, FORGOTTEN))
        return replace(change, record=replace(now, pending=pending))

    def _prepared(self, given: list[dict[str, Any]], show: Sequence[str]) -> dict[str, Any]:
        catch_up(self._kit.memories.spool)
        record, turn = self._load()
        self._capture.run(turn, record, self._conversation)
        record = replace(record, captured=self._capture.place(record))
        counted, bodies = dict(self._sizes), dict(self._bodies)
        sizes = Sizes(turn, counted, bodies)
        builder = RequestBuilder(turn, record, self._options, self._conversation, sizes, self._texts)
        prepared = builder.build(given, show)
        turn.use()
        self._commit(self._reminded(record, prepared.change))
        self._sizes, self._bodies = (
            counted,
            bodies,
        )  # of what was stored: what a request that failed rendered is rendered anew
        self._pending = prepared.change.record.pending
        self._asked = self._pending.seq if self._pending is not None else 0
        if prepared.recalled:
            self._kit.memories.kit.uses.add(*prepared.recalled)
        self._kit.watches.of(self.scope).last = Known(self._conversation, prepared.change.record, turn.scrubber)
        self._without.language = turn.language
        return prepared.request

    def absorb(self, reply: object) -> Reply:
        """The model's reply read: its actions run, its handles resolved.

        reply    what the client's call returned, as object or dict; for a stream see `absorb_stream`.
        Again    absorbing the same reply once more changes nothing.
        Trouble  if the store fails, the reply comes as it is, memory calls are told so, and a warning says it.
        Raises   UsageError for another wire's reply or before any prepare, UnsupportedError for a stream,
                 ConflictError while another call works on the session, or if another one prepared since this object
                 did: a reply never stands behind a message that it does not answer.
        """
        return self._absorb(reply)[0]

    def absorb_stream(self, chunks: Iterable[object]) -> StreamedReply:
        """A streamed reply: iterate over it for the chunks, then its `reply` is what `absorb` gives.

        chunks   what the client's call with `stream=True` returned, or its chunks as dicts.
        Chunks   come in the provider's own shape, text resolved and without memory calls; a call of the application's
                 own tools comes whole, at the reply's end.
        Raises   as `absorb`, while iterating. A stream that ends early is absorbed as far as it came, and what was cut
                 is not run; if it fails, its error is raised behind that, and `reply` is there all the same.
        """
        return StreamedReply(self.stream_reader(), chunks)

    def stream_reader(self) -> StreamReader:
        """What `absorb_stream` feeds, chunk by chunk, for a loop of one's own."""
        before = Lookups(nothing, nothing, missing_text(self._without.language))
        if not self._without.cause:
            try:
                record, turn = self._load()
                lookup = HandleLookup(turn, self._departed(record))
                before = Lookups(lookup, lookup, missing_text(turn.language))
            except BackendError as exc:
                if self._kit.settings.on_trouble == "raise":
                    raise
                self._without.cause = f"memory is not available, this reply was not recorded: {exc}"
        return StreamReader(self._model.shape.name, before, self._absorb)

    def _absorb(self, reply: object) -> tuple[Reply, Lookups]:
        with self._lock.held():
            without = Lookups(nothing, nothing, missing_text(self._without.language))
            if self._without.cause:
                return self._unrecorded(reply), without
            try:
                record, turn = self._load()
                self._check_asked(record)
                raw = self._model.shape.reply(reply)
                record = replace(record, cleared=raw.usage.cleared_results or 0)
                absorbed = ReplyReader(turn, record, self._conversation, self._departed(record)).read(raw)
                result = absorbed.reply
                if absorbed.change is not None:
                    self._commit(absorbed.change)
                    result = self._captured(absorbed.reply, absorbed.change.record, turn)
            except BackendError as exc:
                if self._kit.settings.on_trouble == "raise":
                    raise
                self._without.cause = f"memory is not available, this reply was not recorded: {exc}"
                return self._unrecorded(reply), without
            return result, absorbed.lookups

    def _check_asked(self, record: SessionRecord) -> None:
        """Raises ConflictError if somebody else's request came after this object's own, answered or not."""
        if self._asked and record.requests not in (0, self._asked):
            raise ConflictError(
                f"another call sent a newer request in session {self.scope.session!r} before this reply came, which is "
                "not recorded, and nothing in it was done; one turn at a time: prepare again once the other is over"
            )

    def _unrecorded(self, reply: object) -> Reply:
        """The reply without memory; what was said is spooled if that is set."""
        known = self._kit.watches.of(self.scope).last
        return with_spooled(self._without.reply(reply), self._capture, self._without, known)

    def _captured(self, reply: Reply, record: SessionRecord, turn: Turn) -> Reply:
        """The reply with what became of its turn among the memories."""
        known = len(turn.warnings)
        found = self._capture.run(turn, record, self._conversation)
        reply = replace(reply, remembered=found)
        claim = false_claim(reply, record, self._conversation)
        warned = (*reply.warnings, *map(turn.mask, [*turn.warnings[known:], *([claim] if claim else [])]))
        return replace(reply, warnings=tuple(dict.fromkeys(warned)))

    def complete(
        self, call: Callable[..., object], messages: Sequence[Any], *, show: Sequence[str] = (), **options: Any
    ) -> Reply:
        """The turn's reply: prepare, call, absorb, until the application is next.

        call     such as `client.chat.completions.create`; gets the request and `options` as keyword arguments.
        """
        if not callable(call):
            raise UsageError(f"call={call!r} cannot be called; pass such as client.chat.completions.create")
        reply = self.absorb(call(**{**self.prepare(messages, show=show), **options}))
        while not reply.done:
            reply = self.absorb(call(**{**self.prepare([*messages, *reply.messages]), **options}))
        return reply

    def end(self) -> None:
        """The conversation is over: with `derive="model"` its turns are read now, in the background; else nothing.

        It can be gone on with all the same.
        """
        self._capture.ended()

    @property
    def record(self) -> SessionRecord | None:
        """The session's record as stored, None before the first prepare."""
        record = self._kit.sessions.load(self.scope)
        return None if record is None else replace(record, scope=self.scope)  # which may see less than a stored one

    @property
    def pending(self) -> LedgerEntry | None:
        """The ledger's entry of this object's newest request, still without its reply; None if it was not stored."""
        return None if self._without.cause else self._pending

    @property
    def last_entry(self) -> LedgerEntry | None:
        """The ledger's entry that this object wrote last: after an absorb, of the request that it answers."""
        return self._last_entry

    @property
    def underway(self) -> Underway:
        """What this object knows of its newest request beside what is stored.

        Set it in an object of another process, and that one goes on with the request as this one would.
        """
        return self._without.underway(self._asked)

    @underway.setter
    def underway(self, known: Underway) -> None:
        self._asked = known.asked
        self._without.go_on(known)

    def ledger(self) -> list[LedgerEntry]:
        """The ledger, oldest first; the newest request joins it when its reply is absorbed."""
        return self._kit.sessions.ledger(self.scope)

    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far, as an application holds it, from the store: for `prepare`, with what comes next.

        Redacted   numbers and keys that the journal does not hold are marks in it.
        Raises     BackendError if the store fails; ConflictError while another call works on the session.
        """
        with self._lock.held():
            record, _ = self._load()
            if not record.sent_last:
                return []
            keys = {entry.key for entry in self._conversation.chain(record.tail)} if record.tail else set[str]()
            last = record.tail if record.sent_last in keys else record.sent_last
            held = self._conversation.held(last)
            return [message for each in held for message in self._model.shape.spread(each)]

    def journal(self) -> list[JournalEntry]:
        """All messages of the session in order of arrival, also those that left the prompt."""
        return self._kit.sessions.journal(self.scope)

    def _load(self) -> tuple[SessionRecord, Turn]:
        stored = self.record
        if self._read_at is not None and (stored is None or self._read_at != _state_of(stored)):
            self._forget()
        record = stored or self._new_record()
        wire = self._model.shape.name
        if record.wire != wire:
            raise UsageError(
                f"session {self.scope.session!r} began on the wire {record.wire}, and this is {wire}; "
                f"pass wire={record.wire!r}, or open another session id"
            )
        redact = self._kit.settings.redact
        if redact != "off":
            everything = redact == "all"
            place = sealing_scope(self.scope)
            redaction = Redaction(self._kit.memories, self._model.shape, record.nonce, place, everything=everything)
            self._conversation.redaction = redaction
        if self._read_at is None and stored is not None:
            self._conversation.add(self._kit.sessions.journal(self.scope))
            self._read_at = _state_of(stored)
        named = tuple(name for name in consents_of(self._kit.basis) if name not in record.consents)
        record = replace(record, consents=(*record.consents, *named)) if named else record
        return record, Turn.of(self._kit, record, self._model, self._digest)

    def _new_record(self) -> SessionRecord:
        now = self._kit.clock.now()
        return SessionRecord(
            self.scope,
            model=self._options.model,
            wire=self._model.shape.name,
            policy=self._options.policy,
            created_at=now,
            used_at=now,
            nonce=self._digest(f"nonce\n{self.scope.key}\n{now}")[:8],
        )

    def _commit(self, change: SessionChange) -> None:
        redaction = self._conversation.redaction
        stored = change if redaction is None else redaction.change(change)
        self._kit.sessions.commit(stored)
        self._last_entry = change.ledger[-1] if change.ledger else self._last_entry
        pairs = zip(change.journal, stored.journal, strict=True)
        self._conversation.said |= {raw.key: raw for raw, clean in pairs if raw.kind == "assistant" and raw != clean}
        known = self._conversation
        if any(entry.key in known.by_key for entry in change.journal):
            # The store has completed an entry that was there.
            self._conversation = Conversation(known.shape, known.digest, redaction, said=known.said)
            self._conversation.add(self._kit.sessions.journal(self.scope))
        else:
            # The revision says that nobody else stored anything: this is what the store has, numbered as it numbers.
            self._conversation.add(_read_back(stored.journal, known.seq))
        self._read_at = _state_of(change.record)

    def _digest(self, text: str) -> str:
        """Keyed by the user's key; the store is asked for it at the first digest."""
        if self._keyed is None:
            self._keyed = digester(self._kit.sessions.digest_key(self.scope))
        return self._keyed(text)

    def _departed(self, record: SessionRecord) -> list[JournalEntry]:
        """The entries of this conversation that the model did not see in the last request: left out, or cleared."""
        if not record.sent_last or not (record.start or record.cleared):
            return []
        chain = self._conversation.chain(record.sent_last)
        keys = [entry.key for entry in chain]
        start = keys.index(record.start) if record.start in keys else 0
        left = [entry for entry in chain[:start] if entry.key != record.turn_key]
        return [*left, *self._cleared(chain[start:], record.cleared)]

    def _cleared(self, sent: Sequence[JournalEntry], results: int) -> Iterator[JournalEntry]:
        """The tools' messages among those sent of which the provider cleared all results, the oldest so many."""
        for entry in sent:
            results -= len(self._model.shape.results(dict(entry.message)))
            if results < 0:
                return
            if entry.kind == "tool":
                yield entry


def _read_back(entries: Sequence[JournalEntry], last: int) -> Iterator[JournalEntry]:
    """New entries as they are read from a store whose last one has that number: nothing in them is the caller's."""
    for seq, entry in enumerate(entries, last + 1):
        plain = json.loads(json.dumps(msgspec.to_builtins(entry)))
        yield replace(msgspec.convert(plain, JournalEntry), seq=seq)


def _state_of(record: SessionRecord) -> tuple[object, ...]:
    """What tells one state of a stored session from any other."""
    return record.created_at, record.nonce, record.revision, record.sent_last, record.last_hash
