"""Conversation: which journal entry each incoming message is, and in which form it is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from offprompt.records import JournalEntry, Message
from offprompt.wire.shapes import Kind, Shape, identity


@dataclass(frozen=True, slots=True)
class Placed:
    """An incoming message with its journal entry; `new`: it was not seen before."""

    message: Message
    entry: JournalEntry
    new: bool = False


@dataclass(slots=True)
class Conversation:
    """An index over one session's journal; grows by `add`, never forgets.

    A message's key is a digest of itself and of all before it, so that the same words twice are two messages, and an
    edited message begins a branch. What we wrote or answered ourselves is known again in any of its forms:
    an assistant message by what it says or by its call ids, a result by its call id.
    """

    shape: Shape
    digest: Callable[[str], str]
    by_key: dict[str, JournalEntry] = field(default_factory=dict[str, JournalEntry])
    answers: dict[str, JournalEntry] = field(default_factory=dict[str, JournalEntry])
    seq: int = 0
    _replies: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Take entries in, or their newer state."""
        for entry in entries:
            self.by_key[entry.key] = entry
            self.seq = max(self.seq, entry.seq)
            if entry.kind == "assistant":
                known = self._replies.setdefault(entry.parent, {})
                for form in (entry.message, entry.resolved, *(entry.live or ())):
                    if form is not None:
                        known[self.shape.signature(dict(form))] = entry.key
            elif entry.kind == "answer":
                for result in self.shape.results(dict(entry.message)):
                    self.answers[result.call_id] = entry

    def reply_key(self, parent: str, message: Message) -> str:
        """The key of an assistant message that we are given as a reply."""
        return self.digest(f"{parent}\nreply\n{self.shape.signature(message)}")

    def answer_key(self, parent: str, call_ids: Sequence[str]) -> str:
        """The key of our own answer to calls."""
        return self.digest(f"{parent}\nanswer\n" + "\n".join(call_ids))

    def chain(self, key: str) -> list[JournalEntry]:
        """The entries from the first message to that key."""
        chain: list[JournalEntry] = []
        while key:
            entry = self.by_key[key]
            chain.append(entry)
            key = entry.parent
        return chain[::-1]

    def after(self, base: str, tail: str) -> list[JournalEntry]:
        """The entries behind `base` on the way to `tail`; empty if base is not on it."""
        chain = self.chain(tail)
        at = next((at for at, entry in enumerate(chain) if entry.key == base), len(chain))
        return chain[at + 1 :]

    def place(self, messages: Sequence[Message], at: float) -> list[Placed]:
        """Each incoming message with its entry, in order; a repetition of our own calls and answers is left out."""
        placed: list[Placed] = []
        parent, turn = "", 0
        called: set[str] = set()
        answered: set[str] = set()
        for message in messages:
            kind = self.shape.kind(message)
            if kind == "assistant":
                ids = {call.call_id for call in self.shape.calls(message)}
                if ids and ids <= called:
                    continue
                called |= ids
            elif kind == "tool":
                ids = {result.call_id for result in self.shape.results(message)}
                if ids and ids <= answered & self.answers.keys():
                    continue
                answered |= ids
            each = self._placed(message, kind, parent, turn, at)
            placed.append(each)
            parent, turn = each.entry.key, each.entry.turn
        return placed

    def _placed(self, message: Message, kind: Kind, parent: str, turn: int, at: float) -> Placed:
        if kind == "assistant":
            known = self._replies.get(parent, {}).get(self.shape.signature(message))
            if known is not None:
                return Placed(message, self.by_key[known])
        ids = [result.call_id for result in self.shape.results(message)]
        ours = [call_id for call_id in ids if call_id in self.answers]
        if ids and len(ours) == len(ids) and kind == "tool":
            key = self.answer_key(parent, ids)
            if key in self.by_key:
                return Placed(message, self.by_key[key])
            answer = self.answers[ours[0]]
            if len(ids) == len(self.shape.results(dict(answer.message))):
                return Placed(message, replace(answer, key=key, parent=parent, turn=turn, at=at, seq=0), new=True)
        key = self.digest(f"{parent}\n{identity(message)}")
        entry = self.by_key.get(key)
        if entry is not None:
            return Placed(message, entry)
        turn += kind == "user"
        return Placed(
            message, JournalEntry(key, parent, turn, kind, at, message, text=self.shape.text(message)), new=True
        )


def history_kind(entry: JournalEntry) -> str:
    """The entry's kind for the history policies: our answers are tool results."""
    return "tool" if entry.kind == "answer" else entry.kind


def form_of(entry: JournalEntry, turn: int) -> str:
    """Which form of an entry is sent in that turn: `live` or `settled`."""
    return "settled" if entry.turn < turn and entry.settled is not None else "live"


def sent_messages(placed: Placed, turn: int) -> list[Message]:
    """The messages that stand for an incoming one in a request of that turn.

    Our answers, and replies whose handles the application got resolved, go as we know them, whatever came back.
    """
    entry = placed.entry
    form = entry.settled if form_of(entry, turn) == "settled" else entry.live
    if form is not None:
        return [dict(message) for message in form]
    ours = entry.kind == "answer" or entry.resolved is not None
    return [dict(entry.message)] if ours else [placed.message]
