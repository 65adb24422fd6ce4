"""Sealing: what is taken out of a text goes to a `never` slot, and its handle stays in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from offprompt.protocols import MemoryStore, Redactor, apply, run
from offprompt.records import (
    MEMORY_STATES,
    RULES,
    EraseSlots,
    ForgetSlot,
    GetSlot,
    GuardSlot,
    ListMemories,
    ListSlots,
    Memory,
    MemoryQuery,
    Place,
    RestoreSlot,
    Scope,
    Slot,
    SlotOp,
    SlotQuery,
    Trust,
    compact,
)
from offprompt.records.redaction import KINDS, Redacted, SpanKind
from offprompt.service.accounting import digester
from offprompt.service.slot_writer import Kit, SlotWriter, Writer
from offprompt.wire.handles import find_handles, format_handle

SEALED: Final = "sealed"
"""The tag of slots that hold what was taken out of texts."""

MOST: Final = 64
"""Values of one text that are sealed; of more, marks stand there: a pasted list of numbers fills no scope."""

NAME_CHARS: Final = 10
_AS_LETTERS: Final = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_SEALED_NAME: Final = re.compile(rf"(?:{'|'.join(KINDS)})_[a-p]{{{NAME_CHARS}}}", re.ASCII)
_SEPARATORS: Final = re.compile(r"[\s().\-·/]+")


@dataclass(frozen=True, slots=True)
class Seal:
    """One value that is to be sealed, under the slot's name."""

    name: str
    kind: SpanKind
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Clean:
    """A text as it may be stored, the kinds of what was taken out, and what is to be sealed before it is stored."""

    text: str
    taken: tuple[SpanKind, ...] = ()
    seals: tuple[Seal, ...] = ()


def sealing_scope(scope: Scope) -> Scope:
    """Where what a session's texts hold is sealed: its user's scope, so that memories of it find the value; else its
    own, as nothing goes to all users of an agent by itself.
    """
    return scope.without_session() if scope.user or not scope.agent else scope


@dataclass(frozen=True, slots=True)
class Later:
    """Leaves what is to be sealed where it stands: its slot's name is made with a key that the store has."""

    kinds: frozenset[SpanKind]

    def clean(self, text: str, redacted: Redacted) -> Clean:
        """The text with marks in place of what is not sealed."""
        pieces, after = list[str](), 0
        for span in redacted.found:
            pieces += [text[after : span.start], text[span.start : span.end] if span.kind in self.kinds else span.mark]
            after = span.end
        return Clean("".join([*pieces, text[after:]]), _kinds(redacted))


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals the values of some kinds.

    keys     of a scope's owner: names are digests under it, so that a name tells nothing of its value, and the same
             value has the same name without a look at the store.
    places   where handles of a kind resolve, and nowhere else.
    """

    kit: Kit
    keys: Callable[[Scope], bytes]
    kinds: frozenset[SpanKind]
    places: Mapping[SpanKind, tuple[Place, ...]]

    def clean(self, text: str, redacted: Redacted, scope: Scope) -> Clean:
        """The redacted text with handles in place of the marks of sealed kinds; nothing is written yet.

        Cost   O(n); the owner's key is read where something is found.
        """
        taken = _kinds(redacted)
        if self.kinds.isdisjoint(taken):
            return Clean(redacted.text, taken)
        digest = digester(self.keys(scope))
        pieces, seals, after = list[str](), dict[str, Seal](), 0
        for span in redacted.found:
            value, stands = text[span.start : span.end], span.mark
            if span.kind in self.kinds and len(value.encode()) <= self.kit.limits.max_bytes:
                name = _name(span.kind, value, digest)
                if name in seals or len(seals) < MOST:
                    seals.setdefault(name, Seal(name, span.kind, value))
                    stands = format_handle(name)
            pieces += [text[after : span.start], stands]
            after = span.end
        return Clean("".join([*pieces, text[after:]]), taken, tuple(seals.values()))

    def later(self) -> Later:
        """What cleans a text that is sealed later."""
        return Later(self.kinds)

    def keep(self, scope: Scope, seals: Iterable[Seal], trust: Trust = "user") -> tuple[str, ...]:
        """Write what is not there yet, all or nothing; the names of the new slots.

        Left alone  what was sealed before, also if it is hidden now: nothing comes back by itself.
        Raises      BackendError if the store fails.
        """
        wanted = list(seals)
        if not wanted:
            return ()
        there: list[Slot | None] = self.kit.slots.batch([GetSlot(scope, one.name, forgotten=None) for one in wanted])
        fresh = [one for one, slot in zip(wanted, there, strict=True) if slot is None]
        if fresh:
            self.kit.slots.batch([op for one in fresh for op in self._ops(scope, one, trust)])
        return tuple(one.name for one in fresh)

    def _ops(self, scope: Scope, seal: Seal, trust: Trust) -> list[SlotOp[Slot]]:
        """A write by rules: it takes none of the places of `max_slots`."""
        writer = Writer("user" if trust == "user" else "tool", trust, RULES)
        put = SlotWriter(self.kit, scope).draft(seal.name, seal.value, writer, tags=(SEALED,), ttl_s=None)
        put = replace(put, policy="never", why=f"sealed: {seal.kind}")
        places = self.places.get(seal.kind, ())
        return [put, *([GuardSlot(scope, seal.name, places, actor=RULES)] if places else [])]

    def take_back(self, scope: Scope, names: Sequence[str]) -> None:
        """Remove what was just sealed for a text that was not stored after all."""
        if names:
            run(self.kit.slots, EraseSlots(scope, tuple(names), actor=RULES))


def cleaned(
    redactors: Sequence[Redactor], text: str, sealer: Sealer | Later | None = None, scope: Scope | None = None
) -> Clean:
    """The text as it may be stored; with a sealer, in that scope. Cost: O(n) for each redactor."""
    taken, seals = dict[SpanKind, None](), list[Seal]()
    for redactor in redactors:
        done = redactor.redact(text)
        clean = Clean(done.text, _kinds(done))
        if done.found and isinstance(sealer, Later):
            clean = sealer.clean(text, done)
        elif done.found and isinstance(sealer, Sealer) and scope is not None:
            clean = sealer.clean(text, done, scope)
        text = clean.text
        taken |= dict.fromkeys(clean.taken)
        seals += clean.seals
    return Clean(text, tuple(taken), tuple(seals))


def mend_sealed(
    kit: Kit, store: MemoryStore, scope: Scope, memories: Sequence[Memory], became: Literal["hidden", "shown", "erased"]
) -> None:
    """Let sealed values follow what became of the memories with their handles: hidden and erased with the last one.

    Cost   where one of them has a handle of a sealed value, O(memories of the scope).
    """
    names = _handles(memories)
    if not names:
        return
    hidden = {slot.name for slot in _sealed(kit, scope, hidden=True)}
    shown = {slot.name for slot in _sealed(kit, scope, hidden=False)}
    if became == "shown":
        kit.slots.batch([RestoreSlot(scope, name, RULES, kit.limits) for name in sorted(names & hidden)])
        return
    names &= hidden | shown
    if not names:
        return
    others = apply(store, ListMemories(MemoryQuery(scope, "exact", states=MEMORY_STATES)))
    names -= _handles(memory for memory in others if memory.state != "forgotten")
    # What hidden memories hold comes back with them.
    gone = names - _handles(others) if became == "erased" else set[str]()
    erased = [EraseSlots(scope, tuple(sorted(gone)), actor=RULES)] if gone else []
    kit.slots.batch([*erased, *(ForgetSlot(scope, name, RULES) for name in sorted(names & shown - gone))])


def _handles(memories: Iterable[Memory]) -> set[str]:
    """The names of all handles in texts, metadata and tags of memories."""
    return {
        found.name
        for memory in memories
        for text in (memory.text, memory.speaker, *memory.tags, compact(memory.metadata) if memory.metadata else "")
        for found in find_handles(text)
    }


def erase_sealed(kit: Kit, scope: Scope, within: Literal["exact", "subtree"]) -> None:
    """Remove all sealed values of a scope whose memories were erased."""
    by_scope: dict[Scope, list[str]] = {}
    for hidden in (False, True):
        for slot in _sealed(kit, scope, hidden=hidden, within=within):
            by_scope.setdefault(slot.scope, []).append(slot.name)
    for own, names in by_scope.items():
        run(kit.slots, EraseSlots(own, tuple(names), actor=RULES))


def _sealed(kit: Kit, scope: Scope, *, hidden: bool, within: Literal["exact", "subtree"] = "exact") -> list[Slot]:
    query = SlotQuery(scope, within, tags=(SEALED,), forgotten=hidden)
    return [slot for slot in run(kit.slots, ListSlots(query)) if _SEALED_NAME.fullmatch(slot.name)]


def _name(kind: SpanKind, value: str, digest: Callable[[str], str]) -> str:
    """The slot's name: one for all settings of the same digits. Letters only, so that no rule takes it for a number."""
    bare = _SEPARATORS.sub("", unicodedata.normalize("NFKC", value)).casefold() or value
    letters = digest(f"seal\n{kind}\n{bare}")[:NAME_CHARS].translate(_AS_LETTERS)
    return f"{kind}_{letters}"


def _kinds(redacted: Redacted) -> tuple[SpanKind, ...]:
    """The kinds of what was found, each once."""
    kinds = dict[SpanKind, None]()
    for span in redacted.found:
        kinds[span.kind] = None
    return tuple(kinds)
