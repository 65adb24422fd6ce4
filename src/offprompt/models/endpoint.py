"""Calls to one endpoint: tried again where that helps, within a deadline, called off at once, errors in our words."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

from offprompt.errors import ModelError, ModelTrouble, OffpromptError, UsageError
from offprompt.models.clients import Client, LostError, NotJsonError, StatusError
from offprompt.models.loop import CallLoop, call_loop
from offprompt.models.retrying import Retries, asked_wait, is_worth_a_try
from offprompt.records import Cancel, as_dict, as_list
from offprompt.records.places import masked

T = TypeVar("T")

SAID_CHARS: Final = 300
QUOTED_CHARS: Final = 24
QUOTED_HAN: Final = 12
"""A run of so many characters of what was sent is taken out of what the endpoint says about it."""

KEY_CHARS: Final = 8
"""A shorter one, such as `none`, is a word and no secret."""

NO_TRY_HELPS: Final = ("insufficient_quota", "billing", "exceeded your current quota")


class Endpoint:
    """Where a model is: one client, on the process's call loop.

    where    how errors name it, such as `gpt-4o-mini at https://…/v1`; a password in it is left out.
    make     a new client, once for the process (and once more for a forked one).
    Safety   any number of threads and event loops.
    """

    def __init__(
        self, where: str, make: Callable[[], Client], *, timeout_s: float, retries: Retries, key: str = ""
    ) -> None:
        self.where, self._make, self._retries, self._key = masked(where), make, retries, key
        if not timeout_s > 0:
            raise UsageError(f"timeout_s={timeout_s!r}: give the seconds that a call may take, a number above 0")
        self.timeout_s = timeout_s
        self._held: tuple[CallLoop, Client] | None = None
        self._lock = threading.Lock()

    def call(
        self, ask: Callable[[Client], Awaitable[T]], sent: object, timeout_s: float | None, cancel: Cancel | None
    ) -> T:
        """What `ask` brings; `sent`: what it sends, which no error quotes."""
        loop, client = self.open()
        return loop.run(self.tried(lambda: ask(client), sent, self.until(timeout_s)), cancel)

    async def acall(
        self, ask: Callable[[Client], Awaitable[T]], sent: object, timeout_s: float | None, cancel: Cancel | None
    ) -> T:
        """See `call`."""
        loop, client = self.open()
        return await loop.wait(self.tried(lambda: ask(client), sent, self.until(timeout_s)), cancel)

    def stream(
        self,
        ask: Callable[[Client], AsyncGenerator[dict[str, Any]]],
        sent: object,
        timeout_s: float | None,
        cancel: Cancel | None,
    ) -> EndpointStream:
        """The chunks that `ask` brings; only what comes before the first one is tried again."""
        return EndpointStream(self, ask, sent, timeout_s, cancel)

    def close(self) -> None:
        """Let go of the client's connections."""
        held, self._held = self._held, None
        if held is not None:
            held[0].later(held[1].aclose)

    def open(self) -> tuple[CallLoop, Client]:
        """The client, and the loop that it lives on."""
        loop = call_loop()
        with self._lock:
            if self._held is None or self._held[0] is not loop:
                client = self._make()
                # Its library may take seconds to load, which no call's deadline has to pay.
                client.load()
                self._held = (loop, client)
                weakref.finalize(self, loop.later, client.aclose).atexit = False
            return self._held

    def until(self, timeout_s: float | None) -> Until:
        """A deadline from now."""
        return Until(self.timeout_s if timeout_s is None else timeout_s)

    async def tried(self, ask: Callable[[], Awaitable[T]], sent: object, until: Until) -> T:
        """Ask until an answer comes, no try would help, or the time is up."""
        tries = 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(until.left()):
                    return await ask()
            except TimeoutError as exc:
                raise self.late(until, tries) from exc
            except (StatusError, LostError, NotJsonError) as exc:
                wait = self._wait_s(exc, tries)
                if wait is None:
                    raise self.error(exc, sent, tries) from exc
                if wait >= until.left():
                    raise self.error(exc, sent, tries, f"; its wait of {wait:,.1f} s is over the deadline") from exc
            await asyncio.sleep(wait)

    def _wait_s(self, exc: StatusError | LostError | NotJsonError, tries: int) -> float | None:
        """Seconds before the next try, None: there is none."""
        if tries > self._retries.times or isinstance(exc, NotJsonError):
            return None
        asked = None
        if isinstance(exc, StatusError):
            quota = any(each in exc.says.lower() for each in NO_TRY_HELPS)
            if quota or not (exc.status == 0 or is_worth_a_try(exc.status)):
                return None
            asked = asked_wait(exc.headers, time.time())
        return self._retries.wait_s(tries, asked, random.random())  # noqa: S311 - spreads waits, no secret

    def late(self, until: Until, tries: int) -> ModelError:
        """The deadline has passed."""
        asked = "asked once" if tries == 1 else f"asked {tries} times"
        return ModelError(
            f"{self.where} did not answer within {until.seconds:g} s ({asked}); "
            "give a longer timeout_s, or ask for less",
            kind="timeout",
            tries=tries,
        )

    def error(
        self, exc: StatusError | LostError | NotJsonError, sent: object, tries: int, more: str = ""
    ) -> OffpromptError:
        """The failure in our words."""
        asked = "" if tries == 1 else f" after {tries} tries"
        if isinstance(exc, NotJsonError):
            return ModelError(
                f"{self.where} answered what no model does: {exc}; check base_url, most end in /v1",
                kind="reply",
                tries=tries,
            )
        if isinstance(exc, LostError):
            says = self._quoting_nothing(str(exc), sent)
            return ModelError(
                f"the connection to {self.where} failed{asked}: {says}{more}; check base_url, and that it runs",
                kind="connection",
                tries=tries,
            )
        says = self._quoting_nothing(exc.says, sent)
        refused = _REFUSALS.get(exc.status, _REFUSED if 400 <= exc.status < 500 else None)
        if refused is not None:
            return UsageError(f"{self.where} {refused[0]} (HTTP {exc.status}): {says}; {refused[1]}")
        kind: ModelTrouble = "rate_limit" if exc.status == 429 else "server"
        what = {"rate_limit": "takes no more requests now", "server": "failed"}[kind]
        status = f" (HTTP {exc.status})" if exc.status else " within its reply"
        return ModelError(
            f"{self.where} {what}{status}{asked}: {says}{more}; call again later",
            kind=kind,
            tries=tries,
            status=exc.status,
        )

    def _quoting_nothing(self, says: str, sent: object) -> str:
        """What the endpoint says in one short line, without the key or what was sent to it."""
        line = " ".join(says.split())
        if len(self._key) >= KEY_CHARS:
            line = line.replace(self._key, "***")
        texts = " ".join("\n".join(_texts(sent)).split())
        quoted = {at for start, end in _runs(line) if line[start:end] in texts for at in range(start, end)}
        line = "".join("\0" if at in quoted else char for at, char in enumerate(line[: 4 * SAID_CHARS]))
        return re.sub("\0+", "…", line)[:SAID_CHARS] or "no word on it"


def _runs(line: str) -> Iterator[tuple[int, int]]:
    """Where runs begin and end that are long enough to be a quotation."""
    yield from ((at, at + QUOTED_CHARS) for at in range(len(line) - QUOTED_CHARS + 1))
    yield from (found.span(1) for found in _HAN.finditer(line))


def _texts(sent: object) -> Iterator[str]:
    """All texts in what is sent."""
    mapping, items = as_dict(sent), as_list(sent)
    if isinstance(sent, str):
        yield sent
    for inner in (*(mapping or {}).values(), *(items or ())):
        yield from _texts(inner)


_HAN: Final = re.compile(rf"(?=([\u3400-\u9fff，。、？！：；]{{{QUOTED_HAN}}}))")

_KEY: Final = ("does not take the key", "give key=, or set the variable that docs/models.md names for it")
_REFUSED: Final = ("refused the request", "change the request; the same one is refused again")
_REFUSALS: Final = {
    401: _KEY,
    403: _KEY,
    404: ("does not know the model or the path", "check the model's name, and base_url: most end in /v1"),
    408: None,
    413: ("finds the request too large", "send less, or say the model's context_tokens"),
    425: None,
    429: None,
}


class Until:
    """A deadline, from the moment that it is made."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then, 0 when it has passed."""
        return max(0.0, self._at - time.monotonic())


class EndpointStream:
    """A streamed reply from an endpoint; see `ReplyStream`."""

    def __init__(
        self,
        endpoint: Endpoint,
        ask: Callable[[Client], AsyncGenerator[dict[str, Any]]],
        sent: object,
        timeout_s: float | None,
        cancel: Cancel | None,
    ) -> None:
        self._endpoint, self._ask, self._sent = endpoint, ask, sent
        self._timeout_s, self._cancel = timeout_s, cancel
        self._loop, self._client = endpoint.open()
        self._until: Until | None = None
        self._chunks: AsyncGenerator[dict[str, Any]] | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            while (chunk := self._loop.run(self._next(), self._cancel)) is not None:
                yield chunk
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        try:
            while (chunk := await self._loop.wait(self._next(), self._cancel)) is not None:
                yield chunk
        finally:
            self.close()

    async def _next(self) -> dict[str, Any] | None:
        """The next chunk, None behind the last."""
        until = self._until = self._until or self._endpoint.until(self._timeout_s)
        if self._chunks is None:
            return await self._endpoint.tried(self._first, self._sent, until)
        try:
            async with asyncio.timeout(until.left()):
                return await anext(self._chunks, None)
        except TimeoutError as exc:
            raise self._endpoint.late(until, 1) from exc
        except (StatusError, LostError, NotJsonError) as exc:
            raise self._endpoint.error(exc, self._sent, 1) from exc

    async def _first(self) -> dict[str, Any] | None:
        chunks = self._ask(self._client)
        chunk = await anext(chunks, None)
        self._chunks = chunks
        return chunk

    def close(self) -> None:
        """See `ReplyStream`."""
        chunks = self._chunks
        if chunks is not None:
            self._loop.later(chunks.aclose)
