"""MemoryManager: the four calls of a small in-memory manager, over this memory."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import offprompt
from offprompt.errors import NotFoundError
from offprompt.records import Json

OWN_USER = "me"


class MemoryManager:
    """Code that was pasted from a sketch of such a manager runs with it as it is.

    url    where memory is, see `offprompt.open`; None: in this process, until it ends.
    user   whose memory it is; None: in this process somebody of its own, else as `Offprompt.scope` says. Further ids
           likewise: agent, session.
    """

    def __init__(
        self, url: str | None = None, *, user: str | None = None, agent: str | None = None, session: str | None = None
    ) -> None:
        self._memory = offprompt.open(":memory:" if url is None else url)
        if url is None and user is None and agent is None and session is None:
            user = OWN_USER
        self._scope = self._memory.scope(user=user, agent=agent, session=session)

    def __enter__(self) -> MemoryManager:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def mem_write(self, slot: str, value: Json) -> bool:
        """Store a value under a name; True, as it is stored then.

        Raises   NameInvalidError, LimitError.
        """
        self._scope.write(slot, value)
        return True

    def mem_read(self, slot: str, default: Any = None) -> Any:
        """The value under a name; `default` if there is none."""
        return self._scope.read(slot, default)

    def mem_forget(self, slot: str) -> bool:
        """Hide the value under a name; whether there was one."""
        try:
            self._scope.forget(slot)
        except NotFoundError:
            return False
        return True

    def snapshot(self) -> dict[str, Any]:
        """All values by name; what is secret (`never`) is left out."""
        return {slot.name: slot.value for slot in self._scope.slots.list() if slot.policy != "never"}

    def close(self) -> None:
        """Let go of the memory; one in this process is gone then."""
        self._memory.close()
