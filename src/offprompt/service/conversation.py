"""Conversation: which journal entry each incoming message is, and in which form it is sent."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from offprompt.records import MEMORY_ACTIONS, JournalEntry, Message, SessionRecord
from offprompt.service.placing import Step, exactly
from offprompt.service.redacting import Redaction
from offprompt.wire.lapsing import lapses
from offprompt.wire.payload import identity, loaded, loose, marked_like
from offprompt.wire.shapes import Kind, Shape


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
    an assistant message by what it says and calls, our answers by the reply that they stand behind and its call ids.
    redaction  of the journal, None: it holds all as given. said: replies of this process as they were before that.
    """

    shape: Shape
    digest: Callable[[str], str]
    redaction: Redaction | None = None
    by_key: dict[str, JournalEntry] = field(default_factory=dict[str, JournalEntry])
    seq: int = 0
    said: dict[str, JournalEntry] = field(default_factory=dict[str, JournalEntry])
    _replies: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    _asked_by: dict[str, str] = field(default_factory=dict[str, str])
    _answers: dict[str, list[JournalEntry]] = field(default_factory=dict[str, list[JournalEntry]])
    _by_id: dict[str, JournalEntry] = field(default_factory=dict[str, JournalEntry])
    _in_text: set[str] = field(default_factory=set[str])
    _arguments: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    _told: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    _behind: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _placing: list[Step] = field(default_factory=list[Step])
    _placed_last: list[Placed] = field(default_factory=list[Placed])

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Take entries in."""
        for entry in entries:
            if entry.key in self.by_key:
                continue
            self.by_key[entry.key] = entry
            self._behind.setdefault(entry.parent, []).append(entry.key)
            self.seq = max(self.seq, entry.seq)
            if entry.kind == "assistant":
                known = self._replies.setdefault(entry.parent, {})
                for form in (entry.message, entry.resolved, *(entry.live or ())):
                    if form is not None:
                        known[self.shape.signature(dict(form))] = entry.key
                self._add_told(entry)
                if entry.resolved is not None:
                    self._add_arguments(entry, dict(entry.resolved))
            elif entry.kind == "answer":
                self._add_answer(entry)

    def _add_arguments(self, entry: JournalEntry, resolved: Message) -> None:
        sent = dict(entry.live[0] if entry.live else entry.message)
        for given, own in zip(self.shape.calls(resolved), self.shape.calls(sent), strict=True):
            if given.arguments != own.arguments:
                self._arguments.setdefault(own.call_id, []).append((given.arguments, own.arguments))

    def _add_told(self, entry: JournalEntry) -> None:
        """What a reader was told who sees no call that we answered: of all replies since a message that was not ours.

        Of a reply with answers once more when they come: then it is known which calls those are.
        """
        replies, parent = [entry], entry.parent
        while (before := self.by_key.get(parent)) is not None and before.kind in ("answer", "assistant"):
            replies += [before] if before.kind == "assistant" else []
            parent = before.parent
        messages = [held_form(each) for each in reversed(replies)]
        answers = self.answers(entry.key)
        ours = {result.call_id for each in answers for result in self.shape.results(dict(each.message))}
        theirs = {call.call_id for call in self.shape.calls(messages[-1])} - ours
        for last_text in (False, True)[: min(len(messages), 2)]:
            told = self.shape.told(messages, theirs, last_text=last_text)
            self._told.setdefault(parent, {}).setdefault(self.shape.signature(told), entry.key)

    def _add_answer(self, entry: JournalEntry) -> None:
        reply = self._asked_by.get(entry.parent, entry.parent)
        self._asked_by[entry.key] = reply
        self._answers.setdefault(reply, []).append(entry)
        results = self.shape.results(dict(entry.message))
        self._by_id |= {result.call_id: entry for result in results}
        if (asked := self.by_key.get(reply)) is not None:
            self._add_told(asked)
        if not results:
            self._in_text |= {identity(form) for form in (entry.message, *(entry.live or ()))}

    def answers(self, reply_key: str) -> list[JournalEntry]:
        """Our own answers behind a reply, in order."""
        return self._answers.get(reply_key, [])

    def reply_key(self, parent: str, message: Message) -> str:
        """The key of an assistant message that we are given as a reply."""
        return self.digest(f"{parent}\nreply\n{self._signature(message)}")

    def _signature(self, message: Message) -> str:
        """What an assistant message is known by: the journal holds it redacted."""
        return self.shape.signature(message if self.redaction is None else self.redaction.message(message))

    def given(self, entry: JournalEntry, message: Message) -> JournalEntry:
        """The entry with the client's words where its journaled forms have marks."""
        return entry if self.redaction is None else self.redaction.given(entry, message)

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

    def held(self, key: str) -> list[Message]:
        """The messages up to that key as the application holds them: replies resolved, our answers among them."""
        return [held_form(entry) for entry in self.chain(key)]

    def place(self, messages: Sequence[Message], at: float) -> list[Placed]:
        """Each incoming message with its entry, in order.

        A repetition of our own calls and answers is left out; answers of ours that were left out are put back, and so
        are memory calls, for a client that was told their turn without them.
        """
        exact = [exactly(message) for message in messages]
        begin = self._known_start(exact)
        placed = [self._once_more(each) for each in self._placed_last[: self._placing[begin].placed]] if begin else []
        done = self._placing[:begin]
        heard, ours, repeated = set[str](), dict[str, JournalEntry](), False
        if begin:
            step = self._placing[begin]
            heard, ours, repeated = set(step.heard), step.ours, step.repeated
        messages, inserted = list(messages[begin:]), 0
        for index, given in enumerate(messages):
            kind = self.shape.kind(given)
            if inserted:
                inserted -= 1
            else:
                begins = not self.shape.results(given)
                done.append(Step(exact[len(done)], len(placed), frozenset(heard), ours, repeated, begins))
            parent, turn = (placed[-1].entry.key, placed[-1].entry.turn) if placed else ("", 0)
            message, *rest = self._parted(given, parent) if kind == "assistant" else [given]
            messages[index + 1 : index + 1] = rest
            inserted += len(rest)
            signature = self._signature(message) if kind == "assistant" else ""
            repeated = self._is_repeated(signature, parent, heard) if signature else repeated
            if repeated and (signature or self._is_answer(message, kind)):
                continue
            known = self._replies.get(parent, {}).get(signature) if signature else None
            told = self._told.get(parent, {}).get(signature) if signature and known is None else None
            if told is not None:
                *hidden, last = self.after(parent, told) or self.chain(told)
                placed += [Placed(dict(each.message), each) for each in hidden]
                each = Placed(marked_like(dict(last.message), message), last)
            elif known is not None:
                entry = self.given(self.by_key[known], message)
                each = Placed(self._with_thinking(message, entry), entry)
            else:
                each = self._placed(message, kind, parent, turn, at, ours)
            placed.append(each)
            if signature:
                if self.answers(each.entry.key):
                    heard.add(signature)
                held = self._held(messages[index + 1 :])
                ours = self._ours(each.entry, message, held)
                placed += self._left_out(each.entry, ours, held, at)
            elif each.entry.kind == "user":
                heard, ours, repeated = set[str](), {}, False
        self._placing, self._placed_last = done, placed
        return list(placed)

    def known_start(self, messages: Sequence[Message]) -> int:
        """How many of the messages are placed as in the last call, without being looked at."""
        return self._known_start([exactly(message) for message in messages])

    def _known_start(self, exact: Sequence[bytes]) -> int:
        """They stand in the journal by now; and the next message, which came then too, is no result, so that what
        stands before it does not hang on what follows.
        """
        last, steps = self._placed_last, self._placing
        pairs = enumerate(zip(steps, exact, strict=False))
        same = next((at for at, (step, now) in pairs if not now or step.exact != now), min(len(steps), len(exact)))
        lacking = (at for at, each in enumerate(last) if each.new and each.entry.key not in self.by_key)
        most = next(lacking, len(last))
        known = (at for at in reversed(range(same)) if steps[at].begins and steps[at].placed <= most)
        return next(known, 0)

    def _once_more(self, placed: Placed) -> Placed:
        """The place as the next call finds it."""
        if not placed.new:
            return placed
        entry = self.by_key[placed.entry.key]
        return Placed(placed.message, entry if entry.kind == "answer" else self.given(entry, placed.message))

    def _with_thinking(self, message: Message, entry: JournalEntry) -> Message:
        """A reply that we know, with the thinking behind its calls: clients lose it, and providers want it back."""
        own = dict(entry.message)
        is_lost = self.shape.has_thinking(own) and not self.shape.has_thinking(message)
        return marked_like(own, message) if is_lost and self.shape.calls(own) else message

    def _parted(self, message: Message, parent: str) -> list[Message]:
        """The message; in two where its first part alone is a reply that we know: what stood between was left out."""
        known = self._replies.get(parent, {})
        if not known or self._signature(message) in {**known, **self._told.get(parent, {})}:
            return [message]
        parted = self.shape.parted(message)
        return next(([first, rest] for first, rest in parted if self._signature(first) in known), [message])

    def _is_repeated(self, signature: str, parent: str, heard: set[str]) -> bool:
        """Whether an assistant message is one of this turn once more, as when a client adds up `reply.messages`."""
        return signature in heard and signature not in self._replies.get(parent, {})

    def _is_answer(self, message: Message, kind: Kind) -> bool:
        ids = [result.call_id for result in self.shape.results(message)]
        if ids:
            return kind == "tool" and all(call_id in self._by_id for call_id in ids)
        return identity(message) in self._in_text

    def _held(self, rest: Sequence[Message]) -> set[str]:
        """The ids of the calls whose results stand directly behind an assistant message."""
        held: set[str] = set()
        for message in rest:
            ids = {result.call_id for result in self.shape.results(message)}
            if not ids:
                break
            held |= ids
        return held

    def _ours(self, entry: JournalEntry, message: Message, held: Container[str]) -> dict[str, JournalEntry]:
        """Our answers to an assistant message, by call id; to one that we do not know again, to its memory calls and
        to those without a result, which were not run.
        """
        known = self.answers(entry.key)
        if known:
            return {result.call_id: each for each in known for result in self.shape.results(dict(each.message))}
        calls = [each for each in self.shape.calls(message) if each.name in MEMORY_ACTIONS or each.call_id not in held]
        return {each.call_id: self._by_id[each.call_id] for each in calls if each.call_id in self._by_id}

    def _left_out(
        self, entry: JournalEntry, ours: Mapping[str, JournalEntry], held: set[str], at: float
    ) -> list[Placed]:
        """Our answers to an assistant message that the client's messages do not hold."""
        placed: list[Placed] = []
        parent = entry.key
        for answer in {each.key: each for each in ours.values()}.values():
            ids = [result.call_id for result in self.shape.results(dict(answer.message))]
            if not held.isdisjoint(ids):
                continue
            placed.append(self._answered(answer, ids, parent, entry.turn, at))
            parent = placed[-1].entry.key
        return placed

    def _answered(self, answer: JournalEntry, ids: Sequence[str], parent: str, turn: int, at: float) -> Placed:
        """Our answer at that place of the conversation."""
        key = self.answer_key(parent, ids)
        known = self.by_key.get(key)
        entry = known or replace(answer, key=key, parent=parent, turn=turn, at=at, seq=0)
        return Placed(dict(entry.message), entry, new=known is None)

    def _placed(
        self, message: Message, kind: Kind, parent: str, turn: int, at: float, ours: Mapping[str, JournalEntry]
    ) -> Placed:
        ids = [result.call_id for result in self.shape.results(message)]
        if ids and kind == "tool" and all(call_id in ours for call_id in ids):
            answer = ours[ids[0]]
            if len(ids) == len(self.shape.results(dict(answer.message))):
                return self._answered(answer, ids, parent, turn, at)
        key = self.digest(f"{parent}\n{identity(message)}")
        entry = self.by_key.get(key) or self._as_stored(message, kind, parent)
        if entry is not None:
            return Placed(message, self.given(entry, message))
        turn += kind == "user"
        return Placed(
            message, JournalEntry(key, parent, turn, kind, at, message, text=self.shape.text(message)), new=True
        )

    def _as_stored(self, message: Message, kind: Kind, parent: str) -> JournalEntry | None:
        """The entry whose redacted form that is: what `held` gives comes back with marks, and is no edited message."""
        if self.redaction is None:
            return None
        behind = (self.by_key[key] for key in self._behind.get(parent, ()))
        return next((each for each in behind if each.kind == kind and dict(each.message) == message), None)

    def sent_arguments(self, message: Message) -> dict[str, str]:
        """The arguments as they are sent, by call id, of calls that an unknown assistant message holds resolved."""
        found: dict[str, str] = {}
        clean = message if self.redaction is None else self.redaction.message(message)
        for call in self.shape.calls(clean):
            for resolved, sent in self._arguments.get(call.call_id, ()):
                if loaded(resolved) == loaded(call.arguments):
                    found[call.call_id] = sent
        return found


def held_form(entry: JournalEntry) -> Message:
    """An entry as the application holds it."""
    ours = entry.kind in ("assistant", "answer")
    return dict(entry.resolved or (entry.live[0] if ours and entry.live else entry.message))


def history_kind(entry: JournalEntry) -> str:
    """The entry's kind for the history policies: our answers are tool results."""
    return "tool" if entry.kind == "answer" else entry.kind


def lapsing_frame(entry: JournalEntry) -> Message | None:
    """The system message with what the turn shows that stands behind this user message, where it lapses by itself."""
    last = entry.live[-1] if entry.kind == "user" and entry.live else None
    return dict(last) if last is not None and lapses(last) else None


Form: TypeAlias = Literal["live", "settled", "stub"]


@dataclass(frozen=True, slots=True)
class Forms:
    """In which form a request sends each entry.

    turn   the newest user message's, along its branch. kept: keys of entries of earlier turns that stay live.
    stubbed  keys of entries that are sent as stubs.
    """

    turn: int
    kept: frozenset[str] = frozenset()
    stubbed: frozenset[str] = frozenset()

    @classmethod
    def sent(cls, record: SessionRecord) -> Forms:
        """Those of the record's last request."""
        return cls.of_turn(record, record.sent_turn)

    @classmethod
    def of_turn(cls, record: SessionRecord, turn: int) -> Forms:
        """Those of a request of that turn, by what the record has decided."""
        kept = frozenset(key for key, stays in record.kept.items() if stays)
        return cls(turn, kept, frozenset(record.stubbed))

    def of(self, entry: JournalEntry) -> Form:
        """The entry's form."""
        if entry.stub is not None and entry.key in self.stubbed:
            return "stub"
        over = entry.turn < self.turn and entry.settled is not None and entry.key not in self.kept
        return "settled" if over else "live"

    def lapsed(self, entry: JournalEntry) -> bool:
        """Whether what the entry shows is still sent, and the provider shows it to the model no more."""
        return entry.turn < self.turn and self.of(entry) == "live" and lapsing_frame(entry) is not None


def sent_messages(placed: Placed, forms: Forms) -> list[Message]:
    """The messages that stand for an incoming one in a request."""
    return form_messages(placed, forms.of(placed.entry))


def form_messages(placed: Placed, form: Form) -> list[Message]:
    """The messages that stand for an incoming one in that form.

    Our answers, and replies whose handles the application got resolved, go as we know them, whatever came back; cache
    marks stand where the client has them now.
    """
    entry = placed.entry
    forms = {"live": entry.live, "settled": entry.settled, "stub": entry.stub}
    rendered = forms[form] if forms[form] is not None else entry.live
    ours = entry.kind == "answer" or entry.resolved is not None
    if rendered is None and not ours:
        return [placed.message]
    role = placed.message.get("role")
    messages = [loose(dict(message)) for message in ([entry.message] if rendered is None else rendered)]
    last = next((at for at in reversed(range(len(messages))) if messages[at].get("role") == role), -1)
    if last >= 0:
        messages[last] = marked_like(messages[last], placed.message)
    return messages
