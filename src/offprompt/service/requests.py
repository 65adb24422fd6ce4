"""Prepare: from the client's messages to the request that goes out, and the ledger entry for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import Head, LedgerEntry, Memory, Message, SessionChange, SessionRecord
from offprompt.service.accounting import close_entry
from offprompt.service.conversation import Conversation, Placed, lapsing_frame
from offprompt.service.grouping import joined_results, rendered
from offprompt.service.heads import build_head
from offprompt.service.history_choice import Choice, HistoryChooser
from offprompt.service.leak_guard import guarded_head, own_text, words_of
from offprompt.service.memory_search import has_memories
from offprompt.service.recalled_memories import MemoryRecaller, message_places
from offprompt.service.recalling import JournalIndex, Question, Recaller, show_hits
from offprompt.service.rendering import StubLimits, asked_values, first_sight, framed, own_words, stub_used
from offprompt.service.request_ledger import Layout, RequestLedger, Sizes, fixed_sizes, head_digest, sent_before
from offprompt.service.turn import Turn
from offprompt.wire.head import ShownValue, language_of
from offprompt.wire.options import SessionOptions
from offprompt.wire.referring import asks_what_is_known
from offprompt.wire.shapes import Outgoing
from offprompt.wire.stubs import gone_line

BROKEN_THINKING: Final = (
    "the context was full, and a cut had to change what stands before thinking that is still sent; the provider may "
    "refuse or ignore that thinking: leave it out of older messages, or raise context_tokens"
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with the change that must be committed before it is sent; recalled: the memories that it shows."""

    request: dict[str, Any]
    change: SessionChange
    recalled: tuple[Memory, ...] = ()


class RequestBuilder:
    """Builds one request; used once."""

    def __init__(
        self,
        turn: Turn,
        record: SessionRecord,
        options: SessionOptions,
        conversation: Conversation,
        sizes: Sizes,
        texts: JournalIndex,
    ) -> None:
        self._turn, self._record, self._options = turn, record, options
        self._conversation, self._sizes, self._texts = conversation, sizes, texts
        self._shape = turn.model.shape
        self._values: list[ShownValue] = []
        self._recalled_memories: tuple[Memory, ...] = ()

    def build(self, messages: Sequence[Message], show: Sequence[str]) -> Prepared:
        """The request for these messages.

        Raises   UsageError for messages that are not of this wire, or none.
        """
        system, rest = self._shape.split_system(messages, self._options.system)
        if not rest:
            raise UsageError("there is no message to send; pass at least one user message to prepare")
        self._language(system, rest)
        placed = self._conversation.place(rest, self._turn.now)
        newest = max((at for at, each in enumerate(placed) if each.entry.kind == "user"), default=-1)
        self._begin(placed, newest)
        self._turn.words = lambda: self._words(system, placed)
        kept = [self._conversation.by_key[key] for key, stays in self._record.kept.items() if stays]
        in_view = [entry for entry in kept if lapsing_frame(entry) is None]
        self._turn.in_view += tuple(shown.name for entry in in_view for shown in entry.shown)
        head = self._record.head or (Head() if self._may_wait() else self._first_head())
        before = sent_before(self._conversation, self._record)
        turn = placed[newest].entry.turn if newest >= 0 else 0
        chooser = HistoryChooser(self._turn, self._record, self._options, self._sizes, before, turn)
        # A head cannot come behind bound thinking any more, and without its tools a stub could not be read.
        waits = not head.text and not chooser.bound(placed)
        limits = chooser.limits(placed) if head.text or waits else StubLimits()
        placed = self._seen(placed, newest, show, head, limits)
        fixed = fixed_sizes(self._turn, system, self._options.tools, head)
        base = sum(size.tokens for size in fixed.values())
        choice = chooser.choose(placed, base, waiting=self._head_tokens(base, system) if waits else 0)
        if waits and self._needs_head(placed, choice):
            head = self._first_head()
            fixed = fixed_sizes(self._turn, system, self._options.tools, head)
        tools = (*self._options.tools, *head.tools)
        placed = self._recalled(placed, newest, choice)
        layout = Layout(
            placed=placed,
            indices=choice.indices,
            noted=choice.start > 0,
            joined=joined_results(placed, self._shape),
            forms=choice.forms,
            before=before,
            system=system,
            head=head,
            fixed=fixed,
            head_digest=head_digest(self._turn, system, tools, head),
        )
        return self._assemble(layout, choice)

    def _words(self, system: Sequence[Message], placed: Sequence[Placed]) -> Iterator[str]:
        """What client, user and model said up to now."""
        yield from (self._shape.text(message) for message in system)
        yield from words_of(self._conversation.by_key.values(), self._shape)
        yield from (own_text(each.message, self._shape) for each in placed if each.new and each.entry.kind == "user")

    def _language(self, system: Sequence[Message], rest: Sequence[Message]) -> None:
        if self._record.head is None:
            texts = [self._shape.text(message) for message in (*system, *rest[-1:])]
            language = self._turn.kit.settings.language or language_of("\n".join(texts))
            self._record = replace(self._record, language=language)
            self._turn.language = language

    def _may_wait(self) -> bool:
        """Whether the head comes only when something leaves the prompt."""
        return self._options.mode == "as_needed" and not self._turn.slots.rank() and not has_memories(self._turn)

    def _needs_head(self, placed: Sequence[Placed], choice: Choice) -> bool:
        """Whether what the request leaves out, or what the model asked its memory already, needs tools."""
        sent = [placed[at].entry for at in choice.indices]
        has_left = choice.is_active or choice.start > 0 or bool(choice.fresh)
        return has_left or any(each.bodies or each.kind == "answer" for each in sent)

    def _head_tokens(self, base: int, system: Sequence[Message]) -> int:
        """What a head would add to the tokens before the history."""
        coming = build_head(self._turn, self._options, self._record.nonce)
        sizes = fixed_sizes(self._turn, system, self._options.tools, coming)
        return sum(size.tokens for size in sizes.values()) - base

    def _first_head(self) -> Head:
        head = guarded_head(self._turn, build_head(self._turn, self._options, self._record.nonce))
        self._turn.issue(*head.names, *head.carded)
        for name in head.carded:
            self._turn.event("slot.show", name, why="in the head for the whole session")
        return head

    def _begin(self, placed: Sequence[Placed], newest: int) -> None:
        """A new turn when the newest user message is another; then what the last one showed is over."""
        record, turn = self._record, self._turn
        key = placed[newest].entry.key if newest >= 0 else ""
        if key != record.turn_key:
            # A turn that the client returns to shows again what it showed.
            turn.shown = [shown for each in placed[max(newest, 0) :] for shown in each.entry.shown]
            turn.spent, turn.reads, turn.tainted = sum(shown.tokens for shown in turn.shown), {}, False
            record = replace(record, turn=record.turn + 1, turn_key=key)
        turn.tainted = turn.tainted or any(
            self._shape.results(each.message) for each in placed[max(newest, 0) :] if each.entry.kind != "answer"
        )
        last = placed[-1].entry.key
        own = {entry.key for entry in self._conversation.after(record.base, record.tail)} if record.open else set[str]()
        self._record = record if last in own else replace(record, base=last)

    def _seen(
        self, placed: Sequence[Placed], newest: int, show: Sequence[str], head: Head, limits: StubLimits
    ) -> list[Placed]:
        """New messages rendered, once for ever."""
        done: list[Placed] = []
        for at, each in enumerate(placed):
            if each.new:
                entry = first_sight(
                    self._turn,
                    each,
                    limits=limits,
                    arguments=self._conversation.sent_arguments(each.message),
                )
                if at == newest:
                    self._values = asked_values(self._turn, each.message, show=show, head=head)
                    lapses = self._lapses(placed[at + 1 :])
                    entry = framed(self._turn, entry, each.message, self._values, self._record.nonce, lapses=lapses)
                self._turn.entries.append(entry)
                done.append(Placed(each.message, self._conversation.given(entry, each.message), new=True))
            else:
                done.append(each)
        shown = {each.name for each in self._turn.shown}
        if set(show) - shown and newest >= 0 and not placed[newest].new:
            self._turn.warnings.append("show= came after the turn's message was sent; it had no effect")
        return done

    def _lapses(self, behind: Sequence[Placed]) -> bool:
        """Whether the turn's values may stand in a system message that lapses, which has the system's authority."""
        free = not behind or behind[0].entry.kind == "assistant"
        return self._turn.model.lapsing and free and not any(value.foreign for value in self._values)

    def _recalled(self, placed: list[Placed], newest: int, choice: Choice) -> list[Placed]:
        """With what this request leaves out and its new user message refers to, in the frame of what is shown."""
        turn = self._turn
        most = min(turn.kit.settings.recall_tokens, turn.left(), choice.room)
        if most <= 0 or newest < 0 or not placed[newest].new:
            return placed
        message, earlier = placed[newest].message, placed[:newest]
        before = next((own_words(turn, each.message) for each in reversed(earlier) if each.entry.kind == "user"), "")
        sent = {placed[at].entry.key for at in choice.indices}
        own = own_words(turn, message)
        question = Question.of(own, before, [value.name for value in self._values])
        left = [each.entry for each in earlier] if choice.start else []
        hits = Recaller(turn, self._texts).hits(question, left, sent)
        held = message_places([*sent, *(hit.name.removeprefix("@") for hit in hits)])
        # What a slot answers is no question any more.
        asks = question.back or not self._values or asks_what_is_known(own)
        memories = MemoryRecaller(turn).hits(question, own, before, held) if asks else []
        recalled = show_hits(turn, [*hits, *(hit for hit, _ in memories)], most)
        if not recalled:
            return placed
        names = {value.name for value in recalled}
        self._recalled_memories = tuple(memory for hit, memory in memories if memory is not None and hit.name in names)
        entry = framed(turn, placed[newest].entry, message, [*self._values, *recalled], self._record.nonce)
        self._sizes.renew(entry.key)
        turn.entries = [entry if each.key == entry.key else each for each in turn.entries]
        given = self._conversation.given(entry, message)
        return [*earlier, Placed(message, given, new=True), *placed[newest + 1 :]]

    def _assemble(self, layout: Layout, choice: Choice) -> Prepared:
        start = choice.start
        flat = [message for group in self._rendered(layout) for message in group]
        tools = [*self._options.tools, *layout.head.tools]
        record, turn = self._record, self._turn
        model = turn.model
        outgoing = Outgoing(
            model.name, layout.system, layout.head.text, tools, flat, model.context_editing_tokens, model.lapsing
        )
        gone = layout.placed[:start]
        kept = set(layout.indices)
        left = sum(each.entry.kind == "user" for at, each in enumerate(gone) if at not in kept)
        # A cut inside a turn leaves the turn standing; it is a cut all the same.
        moved = start > 0 and layout.placed[start].entry.key != record.start
        cut = max(left - record.left, 1) if moved else 0
        if cut:
            turn.event("session.cut", why=f"{cut} turns left for the journal; mem_search finds them")
        if choice.broken:
            turn.warnings.append(BROKEN_THINKING)
        for at in choice.fresh:
            stub_used(turn, layout.placed[at].entry)
        pending = RequestLedger(turn, record, self._sizes, layout).entry(cut, stubbed=len(choice.fresh))
        ledger: tuple[LedgerEntry, ...] = ()
        if record.pending is not None:
            ledger = (close_entry(record, turn.digest, sheet=turn.model.sheet, outcome="no reply"),)
            record = replace(record, last_hash=ledger[-1].hash)
        record = replace(
            turn.into(record),
            head=layout.head,
            start=layout.placed[start].entry.key if start else "",
            left=left,
            sent_start=layout.placed[start].entry.key,
            sent_last=layout.placed[-1].entry.key,
            sent_turn=choice.forms.turn,
            sent_head=layout.head_digest,
            requests=record.requests + 1,
            pending=pending,
            account=choice.account,
            kept=choice.kept,
            stubbed=choice.stubbed,
        )
        change = SessionChange(record, tuple(turn.entries), tuple(turn.bodies.values()), ledger, tuple(turn.events))
        return Prepared(self._shape.request(outgoing), change, self._recalled_memories)

    def _rendered(self, layout: Layout) -> list[list[Message]]:
        """The messages for each index in their frozen forms, with the line that says that turns left."""
        groups = rendered(layout.placed, layout.indices, self._shape, layout.forms)
        if layout.noted:
            line = gone_line(self._turn.language)
            first = groups[0][0]
            if self._shape.kind(first) == "user":
                groups[0][:1] = self._shape.attach(line, first, self._turn.model.profile.placement)
            else:
                groups.insert(0, [{"role": "user", "content": line}])
        return groups
