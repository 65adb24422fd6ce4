"""The ledger entry of a request: its parts, what repeats, what was said, shown, leaked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from offprompt.records import (
    MEMORY_ACTIONS,
    Head,
    JournalEntry,
    LedgerEntry,
    Message,
    SessionRecord,
    Shown,
    Size,
    compact,
)
from offprompt.service.conversation import (
    Conversation,
    Form,
    Forms,
    Placed,
    form_messages,
    history_kind,
    lapsing_frame,
    sent_messages,
)
from offprompt.service.leak_guard import refuse_added
from offprompt.service.turn import Turn
from offprompt.wire.history import History, Item, place
from offprompt.wire.leaks import find_values, unproven
from offprompt.wire.payload import identity
from offprompt.wire.sizes import MESSAGE_OVERHEAD_TOKENS, message_size, messages_size, text_size, tools_size
from offprompt.wire.stubs import gone_line


@dataclass(frozen=True, slots=True)
class Layout:
    """A request before it takes its wire's shape.

    indices  of the placed messages that are sent. noted: turns left, and a line says so. joined: places whose results
             join the message before. forms: in which form each is sent.
    before   key and form of each message of the last request.
    fixed    sizes of what stands before the history. head_digest: of its bytes.
    """

    placed: Sequence[Placed]
    indices: Sequence[int]
    noted: bool
    joined: frozenset[int]
    forms: Forms
    before: Sequence[tuple[str, str]]
    system: Sequence[Message]
    head: Head
    fixed: Mapping[str, Size]
    head_digest: str


class Sizes:
    """Sizes of messages by journal key and form: what was rendered once is counted once.

    known, bodies  what was counted up to now, and the bytes of bodies by id; both grow.
    """

    def __init__(self, turn: Turn, known: dict[tuple[str, str], Size], bodies: dict[str, int]) -> None:
        self._shape, self._tokenizer, self._known = turn.model.shape, turn.kit.tokenizer, known
        self._turn, self._bodies = turn, bodies

    def bodies(self, body_ids: Set[str]) -> int:
        """Bytes of these bodies; one that is not there counts nothing."""
        self._bodies |= {body_id: body.bytes for body_id, body in self._turn.bodies.items()}
        if not body_ids <= self._bodies.keys():
            stored = self._turn.kit.sessions.bodies(self._turn.scope)
            self._bodies |= {body.body_id: body.bytes for body in stored}
        return sum(self._bodies.get(body_id, 0) for body_id in body_ids)

    def sent(self, placed: Placed, forms: Forms) -> Size:
        """As sent in these forms; a frame that has lapsed counts nothing."""
        return self.of(placed, "settled" if forms.lapsed(placed.entry) else forms.of(placed.entry))

    def of(self, placed: Placed, form: Form) -> Size:
        """In one form."""
        key = (placed.entry.key, form)
        if key not in self._known:
            self._known[key] = messages_size(form_messages(placed, form), self._shape, self._tokenizer)
        return self._known[key]

    def renew(self, key: str) -> None:
        """That entry is rendered anew: it is counted again."""
        for form in ("live", "settled", "stub"):
            self._known.pop((key, form), None)

    def whole(self, placed: Placed) -> Size:
        """As it came."""
        key = (placed.entry.key, "raw")
        if key not in self._known:
            self._known[key] = message_size(placed.message, self._shape, self._tokenizer)
        return self._known[key]


def fixed_sizes(
    turn: Turn, system: Sequence[Message], tools: Sequence[Mapping[str, Any]], head: Head
) -> dict[str, Size]:
    """Sizes of what stands before the history, by the ledger's parts; tools: the client's own."""
    count = turn.kit.tokenizer
    texts = {"instructions": head.instructions, "directory": head.directory, "card": head.card}
    return {
        "system": messages_size(system, turn.model.shape, count),
        **{part: text_size(text, count) for part, text in texts.items() if text},
        "tools": tools_size(tools, count),
        "memory_tools": tools_size(head.tools, count),
    }


def head_digest(turn: Turn, system: Sequence[Message], tools: Sequence[Mapping[str, Any]], head: Head) -> str:
    """Digest of all that stands before the history; tools: all of them."""
    return turn.digest("\n".join([*(identity(message) for message in system), head.text, compact(list(tools))]))


def sent_before(conversation: Conversation, record: SessionRecord) -> list[tuple[str, str]]:
    """Key and form of each message of the last request."""
    chain, forms = conversation.chain(record.sent_last), Forms.sent(record)
    start = next((at for at, entry in enumerate(chain) if entry.key == record.sent_start), 0)
    kinds = [history_kind(entry) for entry in chain]
    items = [Item(0, 0, turn, group, kind) for kind, (turn, group) in zip(kinds, place(kinds), strict=True)]
    return [(chain[at].key, forms.of(chain[at])) for at in History(items).indices(start)]


@dataclass(frozen=True, slots=True)
class RequestLedger:
    """Accounts for one layout."""

    turn: Turn
    record: SessionRecord
    sizes: Sizes
    layout: Layout

    def entry(self, cut: int, *, stubbed: int = 0) -> LedgerEntry:
        """The entry, still without its reply.

        cut: turns that left. stubbed: messages that became stubs after use.
        Raises   LeakError with leaks="refuse" for a value in text that Offprompt added.
        """
        turn, values = self.turn, self.turn.values
        turn.kit.watches.of(turn.scope).bring(turn.bodies.values())
        leaked = self._leaked()
        return LedgerEntry(
            seq=self.record.requests + 1,
            at=turn.now,
            turn=self.record.turn,
            model=turn.model.name,
            parts={name: size for name, size in self._parts().items() if size.tokens},
            prefix=self._prefix(),
            outside=sum(slot.bytes for slot in turn.stored) + self._outside(),
            said=tuple(self._said(values)),
            shown=(*turn.shown, *self._kept()),
            lapsed=tuple(self._lapsed()),
            leaked=leaked,
            unproven=tuple(unproven(values)),
            cut=cut,
            stubbed=stubbed,
            warnings=turn.told,
            last=self.layout.placed[-1].entry.key,
            scrubbed=tuple(turn.scrubbed),
            before=self._before(),
        )

    def _before(self) -> int:
        """Tokens of what the client gave: all its messages as they came, without what stands there for the memory."""
        layout, shape = self.layout, self.turn.model.shape
        own = layout.fixed["system"].tokens + layout.fixed["tools"].tokens
        for each in layout.placed:
            calls = [call.name for call in shape.calls(each.message)] if each.entry.kind == "assistant" else []
            if each.entry.kind != "answer" and not (calls and set(calls) <= set(MEMORY_ACTIONS)):
                same = each.entry.live is None and layout.forms.of(each.entry) != "stub"
                own += (self.sizes.sent(each, layout.forms) if same else self.sizes.whole(each)).tokens
        return own

    def _parts(self) -> dict[str, Size]:
        parts = dict(self.layout.fixed)
        if self.layout.noted:
            parts["notes"] = self._note()
        for at in self.layout.indices:
            placed = self.layout.placed[at]
            size, shown = self._sent(at), self._shown(placed)
            part = self._part(placed)
            rest = Size(size.chars - shown.chars, size.tokens - shown.tokens)
            parts[part] = parts.get(part, Size()) + rest
            parts["shown"] = parts.get("shown", Size()) + shown
        return parts

    def _sent(self, at: int) -> Size:
        """What a place adds to the request; one that joins the message before has no delimiters of its own."""
        size = self.sizes.sent(self.layout.placed[at], self.layout.forms)
        return Size(size.chars, size.tokens - MESSAGE_OVERHEAD_TOKENS) if at in self.layout.joined else size

    def _note(self) -> Size:
        return text_size(gone_line(self.turn.language), self.turn.kit.tokenizer)

    def _note_stands_alone(self) -> bool:
        """Whether the note is a message of its own, the same before any message."""
        model, placed = self.turn.model, [self.layout.placed[at] for at in self.layout.indices]
        first = next(message for each in placed for message in sent_messages(each, self.layout.forms))
        return model.shape.kind(first) != "user" or len(model.shape.attach("", first, model.profile.placement)) > 1

    def _part(self, placed: Placed) -> str:
        entry = placed.entry
        if entry.kind == "answer":
            return "shown" if self._is_shown(entry) else "receipts"
        if entry.bodies or self.layout.forms.of(entry) == "stub":
            return "stubs"
        return "user" if entry.key == self.record.turn_key else "history"

    def _shown(self, placed: Placed) -> Size:
        """How much of a user message is the frame of shown values."""
        if placed.entry.kind != "user" or not self._is_shown(placed.entry):
            return Size()
        own, whole = self.sizes.of(placed, "settled"), self.sizes.of(placed, "live")
        return Size(whole.chars - own.chars, whole.tokens - own.tokens)

    def _is_shown(self, entry: JournalEntry) -> bool:
        """Whether the request holds a value that the entry shows."""
        forms = self.layout.forms
        return entry.settled is not None and forms.of(entry) == "live" and not forms.lapsed(entry)

    def _bodies(self, entry: JournalEntry) -> tuple[str, ...]:
        """The bodies behind an entry as it is sent."""
        return entry.stub_bodies if self.layout.forms.of(entry) == "stub" else entry.bodies

    def _kept(self) -> list[Shown]:
        """What earlier turns showed and this request still shows."""
        kept: dict[str, int] = {}
        for at in self.layout.indices:
            entry = self.layout.placed[at].entry
            if self._is_kept(entry) and not self.layout.forms.lapsed(entry):
                for shown in entry.shown:
                    kept[shown.name] = kept.get(shown.name, 0) + shown.tokens
        return [Shown(name, "kept", tokens) for name, tokens in kept.items()]

    def _is_kept(self, entry: JournalEntry) -> bool:
        return entry.key in self.layout.forms.kept and entry.turn < self.layout.forms.turn

    def _lapsed(self) -> dict[str, None]:
        """Names of what earlier turns showed and this request still holds, though the model no longer sees it."""
        entries = [self.layout.placed[at].entry for at in self.layout.indices]
        return dict.fromkeys(
            shown.name for entry in entries if self.layout.forms.lapsed(entry) for shown in entry.shown
        )

    def _said(self, values: Mapping[str, str]) -> list[str]:
        """Names whose value stands in the client's, the model's and the tools' words."""
        layout, shape, words = self.layout, self.turn.model.shape, list[str]()
        for at in layout.indices:
            placed = layout.placed[at]
            if placed.entry.kind != "answer":
                # A frame of shown values is ours; the words are what stands beside it.
                entry = placed.entry
                framed = entry.kind == "user" and entry.settled is not None and layout.forms.of(entry) == "live"
                sent = form_messages(placed, "settled") if framed else sent_messages(placed, layout.forms)
                words.extend(shape.text(message) for message in sent)
        return find_values("\n".join(words), values)

    def _leaked(self) -> tuple[str, ...]:
        """Names whose value was found in what is sent, when it was first sent, and that this request does not show."""
        layout, turn = self.layout, self.turn
        shown = {shown.name for shown in (*turn.shown, *self._kept())} | set(layout.head.carded)
        found = dict.fromkeys(name for name in layout.head.leaked if name not in shown)
        for name in found:
            refuse_added(turn, name, (layout.head.instructions, layout.head.directory), "the head")
        for at in layout.indices:
            entry = layout.placed[at].entry
            for name in entry.leaked:
                if name not in shown:
                    found[name] = None
                    if entry.kind == "answer":
                        sent = sent_messages(layout.placed[at], layout.forms)
                        refuse_added(turn, name, map(turn.model.shape.text, sent), "an answer of the memory")
        return tuple(found)

    def _outside(self) -> int:
        """Bytes of this conversation that are not in the request: turns that left, bodies behind stubs."""
        kept = set(self.layout.indices)
        gone = sum(len(each.entry.text.encode()) for at, each in enumerate(self.layout.placed) if at not in kept)
        entries = [self.layout.placed[at].entry for at in kept]
        bodies = {body_id for entry in entries for body_id in self._bodies(entry)}
        return gone + (self.sizes.bodies(bodies) if bodies else 0)

    def _prefix(self) -> int:
        """Tokens of the leading run that repeats the last request."""
        layout = self.layout
        if not self.record.sent_last or self.record.sent_head != layout.head_digest:
            return 0
        same = sum(size.tokens for size in layout.fixed.values())
        before, entries = layout.before, [layout.placed[at].entry for at in layout.indices]
        now = [(entry.key, layout.forms.of(entry)) for entry in entries]
        if layout.noted != bool(self.record.start):
            return same
        if layout.noted and (before[:1] == now[:1] or self._note_stands_alone()):
            same += self._note().tokens
        for at, old, new in zip(layout.indices, before, now, strict=False):
            if old != new:
                break
            same += self._sent(at).tokens if lapsing_frame(layout.placed[at].entry) is None else self._bare(at).tokens
        return same

    def _bare(self, at: int) -> Size:
        """What repeats of a user message whose frame lapses: in a turn's later requests the frame stands behind."""
        placed = self.layout.placed[at]
        return self._sent(at) if self.layout.forms.of(placed.entry) == "stub" else self.sizes.of(placed, "settled")
