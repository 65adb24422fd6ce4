"""A scope that a server keeps, as a model's tools use it: by MCP with `--url http://HOST:PORT`, and in adapters."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from offprompt.client.model import ModelScope
from offprompt.errors import ConflictError
from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import Json, Known, Remembered, Slot, Trust
from offprompt.service.action_problems import REFUSALS, RefusedError
from offprompt.service.bound import BoundScope
from offprompt.service.memories import Memories
from offprompt.service.model_doors import MAX_KNOWN
from offprompt.service.scrubber import Scrubber
from offprompt.wire.head import Language


class ServerDoor:
    """See `model_doors.Door`. The server is told that a model writes, and holds to its own rules for models.

    Kept here   secrets that are stored now are in no answer.
    """

    lock_names = False  # the server says it by its own setting
    language: Language | None = None

    def __init__(self, bound: BoundScope, *, trust: Trust = "user") -> None:
        self._bound, self.scope, self.slots = bound, bound.scope, bound.slots
        self._model = ModelScope.of(cast("Any", bound))  # it has the face of one in the library
        self.trust: Trust = trust
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
        with _refusals_of(name):
            return self._model.model_write(name, value, if_version=if_version, trust=self.trust)

    def remember(self, text: str) -> list[Remembered]:
        """See Door."""
        return self._model.model_remember(text, trust=self.trust)

    def forget(self, name: str, if_version: int | None) -> str:
        """See Door."""
        with _refusals_of(name):
            return self._model.model_forget(name, if_version=if_version, trust=self.trust)

    def forget_memory(self, memory_id: str) -> None:
        """See Door."""
        self._model.model_forget(memory_id, trust=self.trust)

    def correct_memory(self, memory_id: str, text: str | None, *, pinned: bool | None) -> None:
        """See Door."""
        with _refusals_of(memory_id):
            self._model.model_correct(memory_id, text, pinned=pinned, trust=self.trust)

    def known(self) -> list[Known]:
        """See Door."""
        return self._bound.known(limit=MAX_KNOWN)

    def hider(self) -> Callable[[str], str]:
        """See Door; of secrets that are stored now."""
        hidden = {slot.name: slot.value for slot in self.slots.list() if slot.policy == "never"}
        return Scrubber(hidden, {}).hide if hidden else str


@contextmanager
def _refusals_of(name: str) -> Generator[None]:
    """A block in which what the server refuses a model is refused as here.

    Raises   RefusedError.
    """
    try:
        yield
    except ConflictError as exc:
        for kind in REFUSALS:
            if kind == getattr(exc, "kind", ""):
                raise RefusedError(name, kind) from exc
        raise
