"""Doors: several applications in one process, each behind a socket of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from offprompt.rest.serving import Application
from offprompt.rest.watched import Application as Asgi


class Doors:
    """An application that is several: which one a request is for, its port says. They begin and end together.

    apps, watched   by port: the applications, and what is put around each.
    """

    def __init__(self, apps: Mapping[int, Application], watched: Mapping[int, Asgi]) -> None:
        self._apps, self._watched = tuple(apps.values()), watched

    @property
    def running(self) -> int:
        """Requests under way, of all of them."""
        return sum(app.running for app in self._apps)

    def drain(self) -> None:
        """Take no more requests."""
        for app in self._apps:
            app.drain()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self._watched[scope["server"][1]](scope, receive, send)

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        """One lifespan for all: said to each, and answered when each has."""
        asked = [asyncio.Queue[Any]() for _ in self._watched]
        said: asyncio.Queue[Any] = asyncio.Queue()
        lives = [
            asyncio.ensure_future(app({**scope}, queue.get, said.put))
            for app, queue in zip(self._watched.values(), asked, strict=True)
        ]
        try:
            for _ in ("startup", "shutdown"):
                message = await receive()
                for queue in asked:
                    queue.put_nowait(message)
                answers = [await said.get() for _ in lives]
                await send(next((each for each in answers if each["type"].endswith(".failed")), answers[0]))
        finally:
            await asyncio.gather(*lives)
