"""mem0's `AsyncMemory`: `Memory` for `async` code."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from offprompt.compat.mem0.config import checked_config
from offprompt.compat.mem0.library import Memory
from offprompt.service.offprompt import Offprompt


class AsyncMemory:
    """`Memory` for `async` code: the same calls, each run in a thread."""

    def __init__(self, config: object = None, *, memory: Offprompt | None = None) -> None:
        self._sync = Memory(config, memory=memory)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> AsyncMemory:
        """See `Memory.from_config`."""
        return cls(checked_config(config_dict))

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    async def add(self, messages: Any, **options: Any) -> dict[str, Any]:
        """See `Memory.add`."""
        return await asyncio.to_thread(self._sync.add, messages, **options)

    async def get(self, memory_id: str) -> dict[str, Any] | None:
        """See `Memory.get`."""
        return await asyncio.to_thread(self._sync.get, memory_id)

    async def get_all(self, **options: Any) -> dict[str, Any]:
        """See `Memory.get_all`."""
        return await asyncio.to_thread(self._sync.get_all, **options)

    async def search(self, query: str, **options: Any) -> dict[str, Any]:
        """See `Memory.search`."""
        return await asyncio.to_thread(self._sync.search, query, **options)

    async def update(self, memory_id: str, *given: Any, **options: Any) -> dict[str, Any]:
        """See `Memory.update`."""
        return await asyncio.to_thread(self._sync.update, memory_id, *given, **options)

    async def delete(self, memory_id: str) -> dict[str, Any]:
        """See `Memory.delete`."""
        return await asyncio.to_thread(self._sync.delete, memory_id)

    async def delete_all(self, user_id: Any = None, agent_id: Any = None, run_id: Any = None) -> dict[str, Any]:
        """See `Memory.delete_all`."""
        return await asyncio.to_thread(self._sync.delete_all, user_id, agent_id, run_id)

    async def history(self, memory_id: str) -> list[dict[str, Any]]:
        """See `Memory.history`."""
        return await asyncio.to_thread(self._sync.history, memory_id)

    async def reset(self) -> None:
        """See `Memory.reset`."""
        await asyncio.to_thread(self._sync.reset)

    def close(self) -> None:
        """See `Memory.close`."""
        self._sync.close()
