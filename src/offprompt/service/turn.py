"""The state of one session while a call works on it: taken from the record, put back into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from offprompt.protocols import run
from offprompt.records import (
    Body,
    Event,
    JournalEntry,
    Json,
    ListSecrets,
    ListSlots,
    Memory,
    Scope,
    SessionRecord,
    Shown,
    Slot,
    SlotQuery,
    fold_name,
    text_of,
)
from offprompt.records.basis import may_be_used
from offprompt.records.scope import GrantedScope
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.asked import Asked
from offprompt.service.leak_watch import Watched
from offprompt.service.scrubber import Scrubber
from offprompt.service.session_kit import Model, SessionKit
from offprompt.service.slots import Slots
from offprompt.wire.folding import fold
from offprompt.wire.forgotten import Forgotten
from offprompt.wire.head import Language

NAME_ROOM = 58
"""Characters of a name that leave room for a version behind it."""


@dataclass(slots=True)
class Turn:
    """What a prepare or absorb changes before it is committed as a whole.

    sent     the messages that the reply answers, on its branch, without what has left the prompt.
    asked    how often the model asked for which page in this turn, along its branch of the conversation; not stored.
    words    what the client, the user and the model said in this conversation; read only if something is found.
    in_view  names whose values stand in the request on purpose beside those of `shown`: the card's, kept ones.
    scrubbed names whose value became its handle, once for each message.
    uses     slots that are shown, with who asked: counted once nothing can go wrong any more.
    """

    kit: SessionKit
    scope: Scope
    model: Model
    language: Language
    now: float
    digest: Callable[[str], str]
    issued: dict[str, None]
    shown: list[Shown]
    spent: int
    reads: dict[str, Any]
    tainted: bool
    sent: Sequence[JournalEntry] = ()
    entries: list[JournalEntry] = field(default_factory=list[JournalEntry])
    bodies: dict[str, Body] = field(default_factory=dict[str, Body])
    events: list[Event] = field(default_factory=list[Event])
    warnings: list[str] = field(default_factory=list[str])
    asked: Asked = field(default_factory=Asked)
    words: Callable[[], Iterable[str]] = tuple[str, ...]
    in_view: tuple[str, ...] = ()
    scrubbed: list[str] = field(default_factory=list[str])
    uses: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _slots: list[Slot] | None = None
    _hidden: dict[str, Json] | None = None
    _secrets: dict[str, Json] | None = None
    _scrubber: Scrubber | None = None
    _watched: dict[str, Watched] | None = None
    _forgotten: Forgotten | None = None
    _said: bytes | None = None

    @classmethod
    def of(cls, kit: SessionKit, record: SessionRecord, model: Model, digest: Callable[[str], str]) -> Turn:
        """The record's state, open for changes."""
        language: Language = "zh" if record.language == "zh" else "en"
        return cls(
            kit,
            record.scope,
            model,
            language,
            kit.clock.now(),
            digest,
            dict.fromkeys(record.issued),
            list(record.shown),
            record.spent,
            dict.fromkeys(record.reads, ...),
            record.tainted,
            in_view=record.head.carded if record.head is not None else (),
        )

    def into(self, record: SessionRecord) -> SessionRecord:
        """The record with this state, one revision on."""
        return replace(
            record,
            revision=record.revision + 1,
            used_at=self.now,
            issued=tuple(self.issued),
            shown=tuple(self.shown),
            spent=self.spent,
            reads=tuple(self.reads),
            tainted=self.tainted,
        )

    @property
    def slots(self) -> Slots:
        """The slots that the session sees."""
        return Slots(self.kit.slot_kit, self.scope, self.kit.actor)

    def slot(self, name: str, *, actor: str, touch: bool = True) -> Slot | None:
        """The slot of that name. Of one that is not there no event is left: the name is what the model wrote."""
        found = self.slots.get(name, touch=False)
        return self.slots.get(name, actor=actor) if touch and found is not None else found

    @property
    def stored(self) -> list[Slot]:
        """The slots that the session inherits, parts and all; read once a call."""
        if self._slots is None:
            self._slots = run(self.kit.slots, ListSlots(SlotQuery(self.scope, "inherit")))
        return self._slots

    def changed(self) -> None:
        """Slots were written: read them again."""
        self._slots = self._hidden = self._secrets = self._scrubber = self._watched = self._forgotten = None

    @property
    def values(self) -> dict[str, str]:
        """All values that the session could ask for, as text, by name."""
        return {slot.name: text_of(slot.value) for slot in self.stored if not slot.parts}

    @property
    def secrets(self) -> dict[str, Json]:
        """Values that tool results may not carry in: `never` always, others from 24 characters (12 Han)."""
        if self._secrets is None:
            long = {slot.name: slot.value for slot in self.stored if not slot.parts and _long(text_of(slot.value))}
            self._secrets = {**long, **self.hidden}
        return self._secrets

    @property
    def hidden(self) -> dict[str, Json]:
        """Values of the policy `never`, which stand in nothing that we show: of every kept version in every scope.

        Forgetting, overwriting, shadowing or expiry does not make a secret one that may be sent; what is not current
        goes by NAME.v2 and so on, names that resolve to nothing.
        """
        if self._hidden is None:
            found = run(self.kit.slots, ListSecrets(self.scope.inherited()))
            current = {slot.name: slot.value for slot in self.stored if not slot.parts and slot.policy == "never"}
            hidden, values = dict(current), list(current.values())
            for name, value in found:
                if value not in values:
                    values.append(value)
                    hidden[f"{name[:NAME_ROOM]}.v{len(values)}"] = value
            self._hidden = hidden
        return self._hidden

    def without_forgotten(self, text: str) -> str:
        """A text from the journal with `…` for the values of slots that were forgotten and that no slot holds now."""
        if self._forgotten is None:
            found = run(self.kit.slots, ListSecrets(self.scope.inherited(), forgotten=True))
            held = set(self.values.values())
            self._forgotten = Forgotten.of(value for _, each in found if (value := text_of(each)) not in held)
        return self._forgotten.masked(text)

    @property
    def leaks(self) -> Literal["warn", "scrub", "refuse"]:
        """What becomes of parts and other spellings of values that are about to be sent."""
        return self.kit.settings.leaks

    @property
    def watched(self) -> Mapping[str, Watched]:
        """All that is looked for in what is sent: values by name, those that foreign text led to as the tools' own."""
        if self._watched is None:
            stored = [slot for slot in self.stored if not slot.parts]
            watched = {slot.name: Watched(text_of(slot.value), foreign=slot.trust == "tool") for slot in stored}
            secret = {name: Watched(text_of(value), secret=True) for name, value in self.hidden.items()}
            self._watched = {**watched, **secret}
        return self._watched

    @property
    def said(self) -> bytes:
        """The words of this conversation in the form in which spellings are equal."""
        if self._said is None:
            self._said = b"\0".join(map(fold, self.words()))
        return self._said

    @property
    def scrubber(self) -> Scrubber:
        """What keeps stored values out of texts that come from elsewhere, and secrets out of what is shown."""
        if self._scrubber is None:
            self._scrubber = Scrubber(self.hidden, self.secrets)
        return self._scrubber

    def scrub(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Foreign text with stored values as handles, and the names found."""
        return self.scrubber.scrub(text)

    def is_foreign(self, name: str) -> bool:
        """Whether a name (`@ID` for a body) stands for text that neither the user nor the application wrote."""
        if name.startswith("@"):
            return True
        if name.startswith(RESERVED_PREFIX):
            memory = self.memory(name)
            return memory is None or memory.trust == "tool"
        folded = fold_name(name)
        return any(slot.trust == "tool" for slot in self.stored if fold_name(slot.name) == folded)

    def memory(self, memory_id: str) -> Memory | None:
        """The memory of that id, if the session finds it, in its spaces too, and may use it for its purpose."""
        own, grants, spaces = self.scope, self.kit.memories.grants, self.kit.spaces
        if spaces and grants is not None:
            has = grants.granted("space", spaces, own, self.kit.actor.key)
            also = own.also if isinstance(own, GrantedScope) else ()
            own = GrantedScope.of(own, [*also, *(Scope(own.app, space=name) for name in has)])
        found, purposes = self.kit.memories.of(own, self.kit.actor).get(fold_name(memory_id)), self.kit.purposes
        return None if found is not None and purposes is not None and not may_be_used(found.tags, purposes) else found

    @property
    def looping(self) -> bool:
        """Whether the model asks for the same again and again: the loop ends."""
        return self.asked.looping

    def left(self) -> int:
        """Tokens of values that this turn may still show."""
        return max(self.kit.settings.shown_tokens - self.spent, 0)

    def show(self, name: str, why: str, tokens: int) -> None:
        """Note that a value is shown."""
        self.issue(name)
        self.shown.append(Shown(name, why, tokens))
        self.spent += tokens
        self.event("slot.show", name, why=why)

    def use(self) -> None:
        """Count the uses of the slots that are shown."""
        for name, actor in self.uses:
            self.slots.get(name, actor=actor)

    def issue(self, *names: str) -> None:
        """Let handles of these names work in this session."""
        self.issued.update(dict.fromkeys(names))

    def event(self, op: str, name: str = "", *, why: str = "", outcome: str = "ok") -> None:
        """Note an operation; never a value."""
        if outcome != "ok":
            # What went well names slots that are there; what did not may quote the model.
            name, why = self.mask(name), self.mask(why)
        actor = self.kit.actor.via("session")
        self.events.append(Event(self.now, self.scope, op, actor, name[:64], outcome=outcome, why=why[:200]))

    def mask(self, text: str) -> str:
        """A text that tells of what a model wrote, with handles in place of secrets: it may have written one."""
        known = not text or any(text == slot.name for slot in self.stored)
        return text if known else self.kit.memories.redacted(self.scrubber.mask(text))

    @property
    def told(self) -> tuple[str, ...]:
        """The warnings, without secrets."""
        return tuple(map(self.mask, self.warnings))


def _long(text: str) -> bool:
    return len(text) >= 24 or len(text) + sum("\u3400" <= char <= "\u9fff" for char in text) >= 24
