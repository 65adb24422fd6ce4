"""How a model's memory reaches what it stands on: the few calls that a store and a server take in different ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from offprompt.protocols import Tokenizer
from offprompt.records import RULES, GetSlot, Json, Known, Remembered, Scope, Slot, Trust, UpdateMemory
from offprompt.service.bound import BoundScope
from offprompt.service.exporting import secret_hider
from offprompt.service.known import facts_behind, known
from offprompt.service.memories import Memories
from offprompt.service.memory_updates import update_memory
from offprompt.service.parts import Parts
from offprompt.service.remembering import Marks, Rememberer, Said
from offprompt.service.slot_writer import Writer
from offprompt.service.slots import Slots
from offprompt.wire.head import Language

MAX_KNOWN: Final = 1000
"""Lines of what is known that a model is offered, page by page."""


class Door(Protocol):
    """One scope as `ModelMemory` uses it."""

    @property
    def trust(self) -> Trust:
        """Of what is written."""
        ...

    @property
    def lock_names(self) -> bool:
        """Whether models may only write slots that exist."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """What counts what is shown."""
        ...

    @property
    def language(self) -> Language | None:
        """What is said in; None: the words of who asks say it."""
        ...

    @property
    def scope(self) -> Scope:
        """Whose memory it is."""
        ...

    @property
    def slots(self) -> Slots:
        """The slots of the scope, for reading."""
        ...

    @property
    def memories(self) -> Memories:
        """The memories of the scope, for reading."""
        ...

    def named(self, name: str) -> Sequence[Slot]:
        """The slots of that name that the scope inherits, most specific first."""
        ...

    def get(self, name: str) -> Slot | None:
        """The slot of that name; counts as a use."""
        ...

    def write(self, name: str, value: Json, if_version: int | None) -> Slot:
        """Write as the model; see `Slots.write`."""
        ...

    def remember(self, text: str) -> list[Remembered]:
        """Remember as the model; see `Memories.remember`."""
        ...

    def forget(self, name: str, if_version: int | None) -> str:
        """Hide a slot as the model; see `Slots.forget`."""
        ...

    def forget_memory(self, memory_id: str) -> None:
        """Hide a memory as the model."""
        ...

    def correct_memory(self, memory_id: str, text: str | None, *, pinned: bool | None) -> None:
        """Change a memory's text, or whether it is pinned, as the model; None keeps what is there."""
        ...

    def known(self) -> list[Known]:
        """What is known of whom the scope is of; see `known`."""
        ...

    def hider(self) -> Callable[[str], str]:
        """What puts handles in place of the secrets that the scope knows."""
        ...


class StoreDoor:
    """A scope of an opened store. via: what events call the model, beside whoever it acts for.

    op_key   the name of the one write that is made through it, None: it has none.
    """

    def __init__(
        self,
        parts: Parts,
        bound: BoundScope,
        *,
        trust: Trust = "user",
        via: str = "model",
        op_key: str | None = None,
    ) -> None:
        self._parts, self._bound = parts, bound
        self._writer = Writer("model", trust, bound.actor.via(via), op_key)
        self.scope, self.slots = bound.scope, bound.slots
        self.trust: Trust = trust
        self.lock_names, self.tokenizer = parts.settings.lock_names, parts.tokenizer
        self.language: Language | None = parts.settings.language or None

    @property
    def memories(self) -> Memories:
        """See Door."""
        return self._bound.memories

    def named(self, name: str) -> Sequence[Slot]:
        """See Door."""
        found: list[Slot | None] = self._parts.slots.batch([GetSlot(each, name) for each in self.scope.inherited()])
        return [slot for slot in found if slot is not None]

    def get(self, name: str) -> Slot | None:
        """See Door."""
        return self.slots.get(name, actor=self._writer.actor)

    def write(self, name: str, value: Json, if_version: int | None) -> Slot:
        """See Door."""
        if self._parts.spool is not None:
            self._parts.spool.make_way()
        there = self.slots.get(name, touch=False)
        slot = self.slots.write_as(self._writer, name, value, split=True, if_version=if_version)
        if there is not None and there.actor == RULES and there.scope == slot.scope:
            ids = facts_behind(self.memories, there)
            self.memories.forget(*ids, actor=self._writer.actor, trust=self.trust)
        return slot

    def remember(self, text: str) -> list[Remembered]:
        """See Door."""
        marks = Marks(source="model", trust=self.trust, actor=self._writer.actor)
        return Rememberer(self._parts.memories.kit, self.memories.scope).store(
            [Said(text, op_key=self._writer.op_key)], marks
        )

    def forget(self, name: str, if_version: int | None) -> str:
        """See Door."""
        return self.slots.forget(name, if_version=if_version, writer=self._writer)

    def forget_memory(self, memory_id: str) -> None:
        """See Door."""
        self.memories.forget(memory_id, actor=self._writer.actor, trust=self.trust)

    def correct_memory(self, memory_id: str, text: str | None, *, pinned: bool | None) -> None:
        """See Door."""
        memory = self.memories.get(memory_id)
        if memory is not None:
            marks = (self._writer.actor, self.trust)
            change = UpdateMemory(memory.scope, memory_id, text, pinned=pinned, actor=marks[0], trust=marks[1])
            update_memory(self._parts.memories.kit, memory, change)

    def known(self) -> list[Known]:
        """See Door."""
        agents = self._parts.settings.isolation == "user"
        return known(self.slots, self.memories, MAX_KNOWN, agents=agents)

    def hider(self) -> Callable[[str], str]:
        """See Door."""
        return secret_hider(self._parts.memories.kit, self.scope)
