"""An AsyncClient as the suite of the face asks it: each call awaited at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from offprompt.client._requests import Async
from offprompt.client.clients import AsyncClient
from offprompt.service.offprompt import Offprompt


class Awaited:
    """What it wraps, with its coroutines run to their ends."""

    def __init__(self, face: object, runner: asyncio.Runner) -> None:
        self._face, self._runner = face, runner

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(getattr(self._face, name))

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, Async):
            return Awaited(value, self._runner)
        if not inspect.ismethod(value) and not inspect.isfunction(getattr(value, "func", None)):
            return value

        def call(*args: Any, **given: Any) -> Any:
            made = value(*args, **given)
            return self._wrapped(self._runner.run(made) if inspect.iscoroutine(made) else made)

        return call


@contextmanager
def awaited(url: str) -> Generator[Offprompt]:
    """The memory of a server, asked by an AsyncClient."""

    async def client() -> AsyncClient:
        return AsyncClient(url)

    with asyncio.Runner() as runner:
        own = runner.run(client())
        yield cast("Offprompt", Awaited(own, runner))
        runner.run(own.close())
