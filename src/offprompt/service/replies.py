"""Absorb: from a model's reply to what the application gets, and the change that records it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import (
    MEMORY_ACTIONS,
    Action,
    JournalEntry,
    LedgerEntry,
    Message,
    Parsed,
    Receipt,
    Refusal,
    Reply,
    SessionChange,
    SessionRecord,
    Shown,
    ToolCall,
)
from offprompt.service.accounting import close_entry, truncation_warning
from offprompt.service.asked import Asked
from offprompt.service.conversation import Conversation, held_form
from offprompt.service.handle_lookup import HandleLookup
from offprompt.service.leak_guard import guarded_answer, words_of
from offprompt.service.memory_actions import MemoryActions
from offprompt.service.rendering import handle_form
from offprompt.service.turn import Turn
from offprompt.wire.actions import parse_actions
from offprompt.wire.handles import Looked, Lookup, find_handles, resolve_text
from offprompt.wire.head import missing_text, receipt_text
from offprompt.wire.payload import identity, is_silent
from offprompt.wire.shapes import RawReply, Result
from offprompt.wire.sizes import message_size
from offprompt.wire.streamed import Lookups
from offprompt.wire.streams import CUT

MAX_ROUNDS: Final = 8
ASKING: Final = ("mem_read", "mem_search")
CUT_OFF: Final = ("length", "max_tokens", "max_output_tokens", CUT)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call is told: now, and in later turns."""

    call_id: str
    live: str
    settled: str
    ok: bool


@dataclass(slots=True)
class _Work:
    """What one reply leads to."""

    answers: list[Answer] = field(default_factory=list[Answer])
    receipts: list[Receipt] = field(default_factory=list[Receipt])
    written: list[tuple[Action, str]] = field(default_factory=list[tuple[Action, str]])
    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    resolved: dict[str, str] = field(default_factory=dict[str, str])
    shown: dict[str, list[Shown]] = field(default_factory=dict[str, list[Shown]])


@dataclass(frozen=True, slots=True)
class Absorbed:
    """The application's reply with the change to commit; None for a reply that is stored already.

    lookups   how the reply's handles were looked up, for the chunks of a stream that waited for it.
    """

    reply: Reply
    change: SessionChange | None
    lookups: Lookups


class ReplyReader:
    """Reads one reply; used once."""

    def __init__(
        self, turn: Turn, record: SessionRecord, conversation: Conversation, departed: Sequence[JournalEntry]
    ) -> None:
        self._turn, self._record, self._conversation = turn, record, conversation
        self._departed, self._shape = departed, turn.model.shape
        self._work = _Work()
        self._lookup = HandleLookup(turn, departed)
        gone = {entry.key for entry in departed}
        sent = conversation.chain(record.sent_last) if record.sent_last else []
        turn.sent = [entry for entry in sent if entry.key not in gone]

    def read(self, raw: RawReply) -> Absorbed:
        """Run its actions, resolve its handles, record it."""
        parent = self._record.sent_last
        if not parent:
            raise UsageError("absorb came before prepare; call prepare(messages) and send what it returns first")
        key = self._conversation.reply_key(parent, raw.message)
        cut = {"stop_reason": "max_tokens", "status": "incomplete"} if raw.finish in CUT_OFF else {}
        parsed = parse_actions({**raw.message, **cut})
        known = self._conversation.by_key.get(key)
        before = self._conversation.after(self._record.turn_key, parent)
        self._turn.words = lambda: self._words(raw.message)
        self._turn.asked = Asked.of(before if known is None else [*before, known])
        said = self._look_ahead(parsed.text)
        if known is None:
            self._run(parsed, key, beside=self._has_client_calls(raw.message))
        else:
            self._recall(parsed, known)
        self._client_calls(raw.message)
        text = self._resolve(parsed.text, said)
        live = handle_form(self._turn, raw.message, self._work.written)
        entries = self._entries(raw.message, live, parent, key, said)
        if known is not None:
            entries = [known, *self._conversation.answers(key)]
        done = self._is_done(parsed, text)
        self._warn(raw, parsed)
        reply = Reply(
            done=done,
            text=text,
            raw_text=self._shape.text(raw.message),
            tool_calls=tuple(self._work.tool_calls),
            messages=tuple(self._messages(parent, entries)),
            reads=self._reads(),
            receipts=tuple(self._work.receipts),
            refused=parsed.refused,
            warnings=self._warnings(),
        )
        again = known is not None and self._record.pending is None
        lookups = Lookups(said, self._lookup, missing_text(self._turn.language), self._lookup.of_call)
        return Absorbed(reply, None if again else self._change(raw, entries, done=done), lookups)

    def _words(self, message: Message) -> Iterator[str]:
        """What client, user and model said up to now, and with this reply."""
        yield from words_of(self._conversation.by_key.values(), self._shape)
        yield self._shape.text(message)
        yield from (call.arguments for call in self._shape.calls(message))

    def _warnings(self) -> tuple[str, ...]:
        """What went wrong with the request, then with the reply; each once."""
        asked = self._record.pending.warnings if self._record.pending is not None else ()
        return tuple(dict.fromkeys((*asked, *self._turn.told)))

    def _has_client_calls(self, message: Message) -> bool:
        return any(call.name not in MEMORY_ACTIONS for call in self._shape.calls(message))

    def _look_ahead(self, text: str) -> Lookup:
        """A lookup for text: values as they were before the reply's own actions, else as they are then.

        So a streamed reply, whose text is let through before its calls are known, has the same bytes.
        """
        handles = [(found.name, found.pointer) for found in find_handles(text)]
        before = {handle: looked for handle in handles if (looked := self._lookup(*handle)).status == "ok"}

        def lookup(name: str, pointer: str, /) -> Looked:
            return before.get((name, pointer)) or self._lookup(name, pointer)

        return lookup

    def _run(self, parsed: Parsed, key: str, *, beside: bool) -> None:
        """The actions run in order; beside: the client's calls stand beside them, whose results must come next."""
        actions = MemoryActions(self._turn, self._departed, key, self._lookup)
        for at, action in enumerate(parsed.actions):
            before = len(self._turn.shown)
            if beside and not action.call_id and action.name in ASKING:
                self._turn.warnings.append(
                    f"{action.name} in text beside tool calls has no place for its answer; not run"
                )
                receipt = Receipt(action.name, receipt_text("refused", self._turn.language, name="text"), ok=False)
            else:
                receipt = actions.run(action, at)
            self._work.shown.setdefault(action.call_id, []).extend(self._turn.shown[before:])
            self._work.receipts.append(receipt)
            self._work.answers.append(Answer(action.call_id, receipt.shown or receipt.text, receipt.text, receipt.ok))
            if action.name == "mem_write" and receipt.ok:
                self._work.written.append((action, receipt.name))
        for refusal in parsed.refused:
            text = receipt_text("refused", self._turn.language, name=self._turn.mask(refusal.why))
            self._turn.event("action.refused", refusal.name, outcome="UsageError", why=refusal.why)
            self._work.receipts.append(Receipt(refusal.name, text, ok=False))
            self._work.answers.append(Answer(refusal.call_id, text, text, ok=False))

    def _recall(self, parsed: Parsed, known: JournalEntry) -> None:
        """What the reply led to when it came first: nothing is run again."""
        answers = self._conversation.answers(known.key)
        live = {each.call_id: each.text for entry in answers for each in self._shape.results(dict(entry.message))}
        ids = [each.call_id for each in (*parsed.actions, *parsed.refused)]
        for call_id, receipt in zip(ids, known.receipts, strict=True):
            told = live.get(call_id, receipt.text)
            self._work.receipts.append(replace(receipt, shown="" if told == receipt.text else told))
            self._work.answers.append(Answer(call_id, told, receipt.text, receipt.ok))

    def _reads(self) -> dict[str, Any]:
        """What the model read in this turn; reads of earlier calls are looked up again."""
        reads: dict[str, Any] = {}
        for name, value in self._turn.reads.items():
            if value is not ...:
                reads[name] = value
            elif (slot := self._turn.slots.get(name, touch=False)) is not None and slot.policy != "never":
                reads[name] = slot.value
        return reads

    def _client_calls(self, message: Message) -> None:
        """The client's calls with their handles resolved; one with a bad handle is answered by us, not run."""
        for call in self._shape.calls(message):
            if call.name in MEMORY_ACTIONS:
                continue
            resolved = self._lookup.resolve_call(call.name, call.arguments)
            self._lookup.note(resolved, f"argument of {call.name}")
            if resolved.bad:
                text = receipt_text("bad_handle", self._turn.language, name=self._turn.mask(resolved.bad[0].text))
                self._work.answers.append(Answer(call.call_id, text, text, ok=False))
                continue
            self._work.tool_calls.append(ToolCall(call.call_id, call.name, resolved.text))
            if resolved.text != call.arguments:
                self._work.resolved[call.call_id] = resolved.text

    def _resolve(self, text: str, lookup: Lookup) -> str:
        resolved = resolve_text(text, lookup, missing=missing_text(self._turn.language))
        self._lookup.note(resolved, "text")
        return resolved.text

    def _entries(self, message: Message, live: Message, parent: str, key: str, lookup: Lookup) -> list[JournalEntry]:
        """The reply's entry, and those of our answers behind it; events and warnings of its handles are noted."""
        now, missing = self._turn.now, missing_text(self._turn.language)
        turn = self._conversation.by_key[parent].turn
        text = self._shape.map_text(live, lambda said: resolve_text(said, lookup, missing=missing).text)
        resolved = self._shape.with_arguments(text, self._work.resolved)
        entry = JournalEntry(
            key,
            parent,
            turn,
            "assistant",
            now,
            message,
            resolved=None if resolved == live else resolved,
            live=() if is_silent(message) else None if live is message else (live,),
            text=self._shape.text(message),
            receipts=tuple(replace(receipt, shown="") for receipt in self._work.receipts),
        )
        entries = [entry]
        for ours, settled in self._answer_messages():
            ids = [result.call_id for result in self._shape.results(ours)]
            last = entries[-1].key
            answer = JournalEntry(
                "",
                last,
                turn,
                "answer",
                now,
                ours,
                settled=None if settled == ours else (settled,),
                text=self._shape.text(settled),
                shown=tuple(each for call_id in ids or [""] for each in self._work.shown.get(call_id, ())),
            )
            if key not in self._conversation.by_key:
                answer = guarded_answer(self._turn, answer)
            sent = answer.live[0] if answer.live else ours
            in_text = self._conversation.digest(f"{last}\n{identity(sent)}")
            entries.append(replace(answer, key=self._conversation.answer_key(last, ids) if ids else in_text))
        return entries

    def _answer_messages(self) -> list[tuple[Message, Message]]:
        """Our answers as messages, each with the form that later turns get."""
        native = [answer for answer in self._work.answers if answer.call_id]
        errors = frozenset(answer.call_id for answer in native if not answer.ok)
        live = self._shape.result_messages([Result(each.call_id, each.live) for each in native], errors)
        settled = self._shape.result_messages([Result(each.call_id, each.settled) for each in native], errors)
        pairs = list(zip(live, settled, strict=True))
        in_text = [answer for answer in self._work.answers if not answer.call_id]
        # A message of ours between the client's calls and their results would make the transcript illegal.
        if in_text and not self._work.tool_calls:
            now = "[memory]\n" + "\n".join(answer.live for answer in in_text)
            later = "[memory]\n" + "\n".join(answer.settled for answer in in_text)
            pairs.append(({"role": "user", "content": now}, {"role": "user", "content": later}))
        return pairs

    def _is_done(self, parsed: Parsed, text: str) -> bool:
        """Whether the application is next: it has calls to run or an answer, or the model went round too often."""
        if self._work.tool_calls or not self._work.answers or self._turn.looping:
            return True
        only_saved = all(action.name in ("mem_write", "mem_forget") for action in parsed.actions)
        if only_saved and text.strip() and all(answer.ok and not answer.call_id for answer in self._work.answers):
            return True
        own = self._conversation.after(self._record.base, self._record.sent_last)
        rounds = sum(entry.kind == "assistant" for entry in own) + 1
        if rounds >= MAX_ROUNDS:
            self._turn.warnings.append(f"the model asked its memory {rounds} times in one turn; it was stopped there")
            return True
        return False

    def _messages(self, parent: str, entries: Sequence[JournalEntry]) -> list[dict[str, Any]]:
        """All that the turn added behind what the application gave to prepare, as the application keeps it."""
        own = self._conversation.after(self._record.base, parent) if parent != self._record.base else []
        joined = bool(self._work.tool_calls) and self._shape.name == "anthropic"
        shown = [*own, *(entries[:1] if joined else entries)]
        told = [self._conversation.said.get(entry.key, entry) for entry in shown]
        return [message for entry in told for message in self._shape.spread(held_form(entry))]

    def _warn(self, raw: RawReply, parsed: Parsed) -> None:
        if raw.finish in CUT_OFF:
            self._turn.warnings.append(
                "the reply was cut off (by its token limit, or the stream ended); what was cut was not run"
            )
        for refusal in parsed.refused:
            self._turn.warnings.append(_refused(refusal))
        pending = self._record.pending
        if pending is not None and (warning := truncation_warning(pending, raw.usage)):
            self._turn.warnings.append(warning)

    def _change(self, raw: RawReply, entries: Sequence[JournalEntry], *, done: bool) -> SessionChange:
        record, turn = self._record, self._turn
        ledger: tuple[LedgerEntry, ...] = ()
        if record.pending is not None:
            closed = close_entry(
                record,
                turn.digest,
                out=message_size(raw.message, self._shape, turn.kit.tokenizer),
                usage=raw.usage,
                sheet=turn.model.sheet,
                outcome="cut" if raw.finish in CUT_OFF else "ok",
                warnings=turn.told,
            )
            ledger = (closed,)
            record = replace(record, last_hash=closed.hash, pending=None)
        fresh = [entry for entry in entries if entry.key not in self._conversation.by_key]
        record = replace(turn.into(record), open=not done, tail=entries[-1].key)
        return SessionChange(record, tuple(fresh), tuple(turn.bodies.values()), ledger, tuple(turn.events))


def _refused(refusal: Refusal) -> str:
    return f"an action was refused: {refusal.why}"
