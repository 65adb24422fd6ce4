"""A scope that a server keeps, as the tools use it: `offprompt mcp --url http://HOST:PORT`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import Json, Remembered, Slot, Trust
from offprompt.service.memories import Memories
from offprompt.service.offprompt import BoundScope
from offprompt.service.scrubber import Scrubber
from offprompt.wire.head import Language


class ServerDoor:
    """See `model_doors.Door`. What is written is the key's own doing: the server knows of no model behind it.

    Kept here   secrets that are stored now are in no answer; names that are locked, or hold a secret, are left alone.
    Not here    limits on what models write, and the trust of a tool's output.
    """

    trust: Trust = "user"
    lock_names = False
    language: Language | None = None

    def __init__(self, bound: BoundScope) -> None:
        self._bound, self.scope, self.slots = bound, bound.scope, bound.slots
        self.tokenizer = tokenizer_for("")

    @property
    def memories(self) -> Memories:
        """See Door."""
        return self._bound.memories

    def named(self, name: str) -> Sequence[Slot]:
        """The slot that is found under that name: what lies behind it in wider scopes a server does not tell."""
        slot = self.slots.get(name, touch=False)
        return [] if slot is None else [slot]

    def get(self, name: str) -> Slot | None:
        """See Door."""
        return self.slots.get(name)

    def write(self, name: str, value: Json, if_version: int | None) -> Slot:
        """See Door."""
        return self.slots.write(name, value, split=True, if_version=if_version)

    def remember(self, text: str) -> list[Remembered]:
        """See Door."""
        return self.memories.remember(text)

    def forget(self, name: str, if_version: int | None) -> str:
        """See Door."""
        return self.slots.forget(name, if_version=if_version)

    def forget_memory(self, memory_id: str) -> None:
        """See Door."""
        self.memories.forget(memory_id)

    def hider(self) -> Callable[[str], str]:
        """See Door; of secrets that are stored now."""
        hidden = {slot.name: slot.value for slot in self.slots.list() if slot.policy == "never"}
        return Scrubber(hidden, {}).hide if hidden else str
