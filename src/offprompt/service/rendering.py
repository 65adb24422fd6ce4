"""First sight of messages: how each incoming message is sent, decided once and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from offprompt.errors import NameInvalidError
from offprompt.protocols import Tokenizer
from offprompt.records import Action, Body, Head, JournalEntry, Message, Slot, compact, text_of
from offprompt.service.conversation import Placed
from offprompt.service.heads import shown_value
from offprompt.service.leak_guard import (
    Cleaned,
    edited_reply,
    foreign_arguments,
    foreign_text,
    note_cleaned,
    still_sent,
)
from offprompt.service.policies import may_be_shown
from offprompt.service.ranking import rank
from offprompt.service.similar_slots import similar_slot
from offprompt.service.turn import Turn
from offprompt.wire.asking import asked_for
from offprompt.wire.handles import escape_lookalikes, format_handle
from offprompt.wire.head import ShownValue, frame, value_line
from offprompt.wire.lapsing import lapsing
from offprompt.wire.payload import is_silent
from offprompt.wire.shapes import Shape
from offprompt.wire.stubs import stub_text

Place = TypeVar("Place", int, str)

MAX_LABEL_CHARS = 80
PASTED_TOKENS = 200


@dataclass(frozen=True, slots=True)
class StubLimits:
    """Tokens above which results and documents become stubs: at first sight, and once the model has seen them whole."""

    at_once: int | None = None
    after_use: int | None = None


@dataclass(slots=True)
class _Stubs(Generic[Place]):
    """The stubs of one message by the place of what they stand for, with their bodies: at first sight, and all."""

    limits: StubLimits
    kind: str
    first: dict[Place, str] = field(default_factory=dict[Place, str])
    every: dict[Place, str] = field(default_factory=dict[Place, str])
    bodies: list[str] = field(default_factory=list[str])
    every_body: list[str] = field(default_factory=list[str])

    def take(self, turn: Turn, place: Place, text: str, clean: str) -> None:
        """A text, which is seen as `clean`: over a limit it becomes a body, and its stub is made."""
        tokens = turn.kit.tokenizer.count(clean)
        at_once, after_use = (
            limit is not None and tokens > limit for limit in (self.limits.at_once, self.limits.after_use)
        )
        if not at_once and not after_use:
            return
        body_id = turn.digest(f"body\n{text}")[:12]
        label = " ".join(clean[: MAX_LABEL_CHARS * 2].split())[:MAX_LABEL_CHARS]
        turn.bodies[body_id] = Body(body_id, text, self.kind, label, turn.now, len(text.encode()))
        handle = format_handle(f"@{body_id}")
        self.every[place] = stub_text(clean, handle=handle, kind=self.kind, language=turn.language)
        self.every_body.append(body_id)
        if at_once:
            turn.issue(f"@{body_id}")
            turn.event("session.stub", f"@{body_id}", why=f"a long {self.kind}")
            self.first[place] = self.every[place]
            self.bodies.append(body_id)

    def rendered(
        self, entry: JournalEntry, message: Message, put: Callable[[dict[Place, str]], Message]
    ) -> JournalEntry:
        """The entry with its forms; message: as it came, put: the message to be sent with stubs in it."""
        live, stub = put(self.first), put(self.every)
        later = len(self.every) > len(self.first)
        return replace(
            entry,
            live=None if live is message else (live,),
            bodies=tuple(self.bodies),
            stub=(stub,) if later else None,
            stub_bodies=tuple(self.every_body) if later else (),
        )


def first_sight(turn: Turn, placed: Placed, *, limits: StubLimits, arguments: Mapping[str, str]) -> JournalEntry:
    """The entry of a new message with the forms in which it is sent; bodies go to the turn.

    arguments   as the model wrote them, by call id, of calls that came back resolved.
    User text is escaped where it looks like a handle. Tool results are scrubbed; those over a limit become stubs;
    an assistant message that we do not know again is scrubbed; answers stay.
    """
    entry, shape = placed.entry, turn.model.shape
    message = placed.message
    if entry.kind == "answer":
        return entry
    if entry.kind == "assistant":
        if is_silent(message):
            return replace(entry, live=())
        found = Cleaned.none()
        changed = shape.map_text(message, lambda text: foreign_text(turn, text, found, edited_reply))
        mended = foreign_arguments(turn, message, arguments, found, edited_reply)
        changed = shape.with_arguments(changed, {**mended, **arguments})
        entry = replace(entry, leaked=note_cleaned(turn, found, edited_reply))
        return entry if changed is message else replace(entry, live=(changed,))
    if shape.results(message):
        return _tool(turn, entry, message, limits)
    changed = shape.map_text(message, escape_lookalikes)
    stubs = _Stubs[int](limits, "document")
    if entry.kind == "user":
        for at, text in shape.documents(message):
            stubs.take(turn, at, text, escape_lookalikes(text))
    return stubs.rendered(entry, message, lambda texts: shape.with_documents(changed, texts))


def _tool(turn: Turn, entry: JournalEntry, message: Message, limits: StubLimits) -> JournalEntry:
    """A client's tool results, scrubbed, escaped, stubbed; our own answers among them are put back as we gave them."""
    shape, stubs = turn.model.shape, _Stubs[str](limits, "tool")
    found = Cleaned.none()

    def where() -> str:
        return f"the result of call {', '.join(repr(each.call_id) for each in shape.results(message))}"

    changed = shape.map_text(message, lambda text: foreign_text(turn, text, found, where))
    for result, clean in zip(shape.results(message), shape.results(changed), strict=True):
        if result.plain:
            stubs.take(turn, result.call_id, result.text, clean.text)
    leaked = note_cleaned(turn, found, where)
    rendered = stubs.rendered(entry, message, lambda texts: shape.with_results(changed, texts))
    return replace(rendered, leaked=still_sent(turn, rendered, leaked))


def stub_used(turn: Turn, entry: JournalEntry) -> None:
    """The entry is sent as its stubs from now on: their handles work."""
    for body_id in entry.stub_bodies:
        if body_id not in entry.bodies:
            turn.issue(f"@{body_id}")
            turn.event("session.stub", f"@{body_id}", why="a long text that the model has seen whole")


def asked_values(turn: Turn, message: Message, *, show: Sequence[str], head: Head) -> list[ShownValue]:
    """The values that the newest user message asks for, and those that the application shows; noted as shown.

    Only `when_asked` slots are shown by themselves, best first, within the turn's budget, and those of the card that
    the head does not hold as they are now: those that are named, else the one that is closest in meaning.
    """
    chosen: list[tuple[Slot, str]] = []
    for name in dict.fromkeys(show):
        try:
            slot = turn.slots.get(name, touch=False)
        except NameInvalidError:
            slot = None
        if slot is None or slot.policy == "never":
            reason = "there is no such slot" if slot is None else "its policy is never"
            turn.warnings.append(f"show={name[:64]!r}: {reason}; it was not shown")
        else:
            turn.uses.append((slot.name, turn.kit.actor.name))
            chosen.append((slot, "application"))
    taken = {slot.name for slot, _ in chosen} | set(head.carded)
    askable = [
        slot
        for slot in filter(turn.kit.slot_kit.usable, turn.stored)
        if (slot.policy in ("when_asked", "card") and slot.name not in taken and may_be_shown(slot))
        or (slot.policy in ("when_asked", "card") and slot.name in head.carded and not _stands(turn, slot, head))
    ]
    said = own_words(turn, message)
    asked = asked_for(said, {slot.name: slot.tags for slot in askable})
    if not asked and (close := similar_slot(turn, said, askable)):
        asked = {close: "similar"}
    chosen += [(slot, asked[slot.name]) for slot in rank(askable, turn.now) if slot.name in asked]
    fitting: list[Slot] = []
    for slot, why in chosen:
        if why != "application" and slot.source == "user" and _is_twin(slot, chosen):
            continue
        tokens = turn.kit.tokenizer.count(text_of(slot.value))
        if tokens > turn.left():
            if why == "application":
                turn.warnings.append(
                    f"show={slot.name!r}: {tokens} tokens, {turn.left()} left of this turn's shown_tokens; not shown"
                )
            continue
        if why != "application":
            turn.uses.append((slot.name, turn.kit.actor.via("session")))
        turn.show(slot.name, why, tokens)
        fitting.append(slot)
    turn.tainted = turn.tainted or any(slot.trust == "tool" for slot in fitting)
    return [shown_value(slot, turn.scrubber) for slot in fitting]


def framed(
    turn: Turn,
    entry: JournalEntry,
    message: Message,
    values: Sequence[ShownValue],
    nonce: str,
    *,
    lapses: bool = False,
) -> JournalEntry:
    """The newest user message's entry with what the turn shows, in one frame; the same entry if that is nothing.

    lapses   the frame is a system message of its own, which the provider shows for this turn only.
    The frame stands for this turn only: `settled` is the message without it.
    """
    if not values:
        return entry
    own = entry.settled or entry.live
    base = dict(own[0]) if own else message
    text = frame(values, nonce)
    live = [base, lapsing(text)] if lapses else turn.model.shape.attach(text, base, turn.model.profile.placement)
    return replace(entry, live=tuple(live), settled=(base,), shown=tuple(turn.shown))


def _is_twin(slot: Slot, chosen: Sequence[tuple[Slot, str]]) -> bool:
    """Whether the model or the application saved what the rules read, under a name of its own: that one is shown."""
    return any(text_of(slot.value) == text_of(other.value) and other.source != "user" for other, _ in chosen)


def _stands(turn: Turn, slot: Slot, head: Head) -> bool:
    """Whether the head holds the slot's value as it is now."""
    return value_line(shown_value(slot, turn.scrubber)) in head.card


def own_words(turn: Turn, message: Message) -> str:
    """What the user says in a message of the turn's session; see `words_of`."""
    return words_of(turn.model.shape, turn.kit.tokenizer, message)


def words_of(shape: Shape, tokenizer: Tokenizer, message: Message) -> str:
    """What the user says: a message's text without results, and without documents that are longer than a question."""
    bare = shape.with_documents(message, dict.fromkeys(pasted(shape, tokenizer, message), ""))
    return shape.text(shape.with_results(bare, {result.call_id: "" for result in shape.results(bare)}))


def pasted(shape: Shape, tokenizer: Tokenizer, message: Message) -> dict[int, str]:
    """The documents of a user's message that are longer than a question, by place."""
    return {at: text for at, text in shape.documents(message) if tokenizer.count(text) > PASTED_TOKENS}


def handle_form(turn: Turn, message: Message, written: Sequence[tuple[Action, str]]) -> Message:
    """An assistant message whose own `mem_write` values are their handles; `written`: the writes done, with the slot.

    What the model wrote out is in the store now; from the next request on it is a name.
    """
    arguments: dict[str, str] = {}
    texts: list[tuple[str, str]] = []
    for action, name in written:
        given = {**action.arguments, "slot": name, "value": format_handle(name)}
        if action.call_id:
            arguments[action.call_id] = compact(given)
        else:
            texts.append((action.raw, compact({"action": action.name, **given})))

    def replaced(text: str) -> str:
        for raw, handle in texts:
            text = text.replace(raw, handle, 1)
        return text

    shape = turn.model.shape
    return shape.with_arguments(shape.map_text(message, replaced) if texts else message, arguments)
