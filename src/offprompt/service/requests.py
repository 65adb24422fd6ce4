"""Prepare: from the client's messages to the request that goes out, and the ledger entry for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import Head, LedgerEntry, Message, SessionChange, SessionRecord
from offprompt.service.accounting import close_entry
from offprompt.service.conversation import Conversation, Placed, history_kind, joined_results, sent_messages
from offprompt.service.heads import build_head
from offprompt.service.rendering import first_sight, with_shown
from offprompt.service.request_ledger import Layout, RequestLedger, Sizes, fixed_sizes, head_digest
from offprompt.service.session_kit import SessionOptions
from offprompt.service.turn import Turn
from offprompt.wire.auto import Account, plan_request
from offprompt.wire.head import language_of
from offprompt.wire.history import Bounds, Fixed, History, Item, next_start, place, window_bounds
from offprompt.wire.prices import PriceSheet, named_sheet
from offprompt.wire.shapes import Outgoing
from offprompt.wire.stubs import gone_line

STUBBING: Final = ("stub_at_once", "stubs+window")
CUTTING: Final = ("window", "stubs+window")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with the change that must be committed before it is sent."""

    request: dict[str, Any]
    change: SessionChange


class RequestBuilder:
    """Builds one request; used once."""

    def __init__(
        self,
        turn: Turn,
        record: SessionRecord,
        options: SessionOptions,
        conversation: Conversation,
        sizes: Sizes,
    ) -> None:
        self._turn, self._record, self._options = turn, record, options
        self._conversation, self._sizes = conversation, sizes
        self._shape = turn.model.shape
        self._count = turn.kit.tokenizer
        self._sheet: PriceSheet = turn.model.sheet or named_sheet("default", turn.kit.sheets)

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
        head = self._record.head or self._first_head()
        placed = self._seen(placed, newest, show, head)
        tools = (*self._options.tools, *head.tools)
        fixed = fixed_sizes(self._turn, system, self._options.tools, head)
        base = sum(size.tokens for size in fixed.values())
        history = History(self._items(placed))
        planned, account = self._plan(placed, history, base)
        # A start just behind its turn's opener leaves out nothing more: no cut.
        start = self._kept_start(placed)
        if history.indices(planned) != history.indices(start):
            start = planned
        layout = Layout(
            placed=placed,
            indices=history.indices(start),
            noted=start > 0,
            joined=joined_results(placed, self._shape),
            turn=self._entry_turn,
            system=system,
            head=head,
            fixed=fixed,
            head_digest=head_digest(self._turn, system, tools, head),
        )
        return self._assemble(layout, account, start)

    def _language(self, system: Sequence[Message], rest: Sequence[Message]) -> None:
        if self._record.head is None:
            texts = [self._shape.text(message) for message in (*system, *rest[-1:])]
            language = self._turn.kit.settings.language or language_of("\n".join(texts))
            self._record = replace(self._record, language=language)
            self._turn.language = language

    def _first_head(self) -> Head:
        head = build_head(self._turn, self._options, self._record.nonce)
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

    def _seen(self, placed: Sequence[Placed], newest: int, show: Sequence[str], head: Head) -> list[Placed]:
        """New messages rendered, once for ever."""
        done: list[Placed] = []
        for at, each in enumerate(placed):
            if each.new:
                entry = first_sight(
                    self._turn,
                    each,
                    stub_tokens=self._stub_tokens(),
                    arguments=self._conversation.sent_arguments(each.message),
                )
                if at == newest:
                    nonce = self._record.nonce
                    entry = with_shown(self._turn, entry, each.message, show=show, head=head, nonce=nonce)
                self._turn.entries.append(entry)
                done.append(Placed(each.message, entry, new=True))
            else:
                done.append(each)
        shown = {each.name for each in self._turn.shown}
        if set(show) - shown and newest >= 0 and not placed[newest].new:
            self._turn.warnings.append("show= came after the turn's message was sent; it had no effect")
        return done

    def _stub_tokens(self) -> int | None:
        """Tokens from which a result becomes a stub; `auto` lets the model see all that fits the window once."""
        settings = self._turn.kit.settings
        if self._options.policy in STUBBING:
            return settings.stub_tokens
        return max(settings.stub_tokens, self._bounds(0).high) if self._options.policy == "auto" else None

    def _plan(self, placed: Sequence[Placed], history: History, base: int) -> tuple[int, Mapping[str, float]]:
        """Index of the oldest message to send, and the policy's account; base: tokens before the history."""
        record, start = self._record, self._kept_start(placed)
        if self._options.policy in CUTTING:
            return next_start(history, start, self._bounds(base), stubs=True), record.account
        if self._options.policy != "auto":
            return start, record.account
        plan = plan_request(
            history,
            Account.of(record.account),
            start=start,
            sheet=self._sheet,
            bounds=self._bounds(base),
            fixed=Fixed(base, note=self._count.count(gone_line(self._turn.language))),
        )
        return plan.start, plan.account.sums()

    def _kept_start(self, placed: Sequence[Placed]) -> int:
        """Index of the oldest message that the last request's cuts left; 0 on a branch that does not hold it."""
        return next((at for at, each in enumerate(placed) if each.entry.key == self._record.start), 0)

    def _bounds(self, base: int) -> Bounds:
        settings = self._turn.kit.settings
        return window_bounds(
            self._turn.model.context_tokens,
            reserve_tokens=min(settings.output_reserve_tokens, self._turn.model.context_tokens // 4),
            head_tokens=base,
            high_cap=settings.window_high_tokens,
            low_cap=settings.window_low_tokens,
        )

    def _items(self, placed: Sequence[Placed]) -> list[Item]:
        """Sizes for the policy: as each message came, and as it is sent."""
        items: list[Item] = []
        turn = self._entry_turn
        for each, (number, group) in zip(placed, place(history_kind(each.entry) for each in placed), strict=True):
            sent = self._sizes.sent(each, turn).tokens
            whole = sent if each.entry.live is None else self._sizes.whole(each).tokens
            items.append(Item(max(whole, sent), sent, number, group, history_kind(each.entry)))
        return items

    @property
    def _entry_turn(self) -> int:
        """The newest user message's turn as its entry counts it: along its branch."""
        fresh = next((each for each in self._turn.entries if each.key == self._record.turn_key), None)
        entry = fresh or self._conversation.by_key.get(self._record.turn_key)
        return entry.turn if entry is not None else 0

    def _assemble(self, layout: Layout, account: Mapping[str, float], start: int) -> Prepared:
        flat = [message for group in self._rendered(layout) for message in group]
        tools = [*self._options.tools, *layout.head.tools]
        outgoing = Outgoing(self._options.model, layout.system, layout.head.text, tools, flat)
        record, turn = self._record, self._turn
        gone = layout.placed[:start]
        kept = set(layout.indices)
        left = sum(each.entry.kind == "user" for at, each in enumerate(gone) if at not in kept)
        # A cut inside a turn leaves the turn standing; it is a cut all the same.
        moved = start > 0 and layout.placed[start].entry.key != record.start
        cut = max(left - record.left, 1) if moved else 0
        if cut:
            turn.event("session.cut", why=f"{cut} turns left for the journal; mem_search finds them")
        pending = RequestLedger(turn, record, self._conversation, self._sizes, layout).entry(cut)
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
            sent_turn=layout.turn,
            sent_head=layout.head_digest,
            requests=record.requests + 1,
            pending=pending,
            account=account,
        )
        change = SessionChange(record, tuple(turn.entries), tuple(turn.bodies.values()), ledger, tuple(turn.events))
        return Prepared(self._shape.request(outgoing), change)

    def _rendered(self, layout: Layout) -> list[list[Message]]:
        """The messages for each index in their frozen forms, with the line that says that turns left."""
        placed, rendered = layout.placed, list[list[Message]]()
        for at in layout.indices:
            messages = sent_messages(placed[at], layout.turn)
            if at in layout.joined:
                messages = [*self._shape.join_results(rendered.pop(), messages[0]), *messages[1:]]
            if messages:
                rendered.append(messages)
        if layout.noted:
            line = gone_line(self._turn.language)
            first = rendered[0][0]
            if self._shape.kind(first) == "user":
                rendered[0][:1] = self._shape.attach(line, first, self._turn.model.profile.placement)
            else:
                rendered.insert(0, [{"role": "user", "content": line}])
        return rendered
