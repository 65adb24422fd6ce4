"""One Redis or Valkey server: scripts run, errors said in our words, an unknown outcome made known."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from offprompt.errors import BackendError, OffpromptError, UnsupportedError, UsageError
from offprompt.stores._redis_scripts import SETTLE, Script
from offprompt.stores._redis_url import RedisUrl

R = TypeVar("R")

FIRST_WAIT_S: Final = 0.001
LONGEST_WAIT_S: Final = 0.05
ANSWER_S: Final = 5.0
"""Seconds for one answer of the server, and for it to come back once it is gone."""


class Stale(Exception):  # noqa: N818 - no error: the step is taken again
    """What was read is not so any more."""


class _Away(Exception):  # noqa: N818 - becomes a BackendError when the time is over
    """No answer: the server may or may not have done what was asked."""


@dataclass(slots=True)
class _Writer:
    """Names the commits of one thread at a time, so that each is done once; numbers go up by two."""

    key: str
    pid: int
    number: int = 1


class RedisServer:
    """Connections to one server; threads, and forked children, each get their own.

    busy_timeout_s  seconds that one call may try anew while others change what it read, or until it is known what
                    became of its write. A server that does not answer is asked for 5 s.
    """

    def __init__(self, url: RedisUrl, *, busy_timeout_s: float) -> None:
        try:
            import redis.exceptions  # noqa: PLC0415 - only who uses it needs it
        except ImportError as exc:
            raise UnsupportedError(
                f"{url} needs the Redis client, which is not installed: pip install 'offprompt[redis]'"
            ) from exc
        self.url = url
        self.busy_timeout_s = busy_timeout_s
        self._errors = redis.exceptions
        answer_s = min(ANSWER_S, busy_timeout_s)
        self._client = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its options
            url.plain,
            protocol=2,
            retry=None,
            socket_timeout=answer_s,
            socket_connect_timeout=answer_s,
            client_name="offprompt",
        )
        self._client.response_callbacks.clear()  # answers as they come, whatever the client makes of them
        self._send: Callable[..., Any] = self._client.execute_command  # pyright: ignore[reportUnknownMemberType]
        self._writers: list[_Writer] = []
        self.is_closed = False

    def call(self, *command: str | bytes | float) -> Any:
        """The answer to one command that may be sent twice.

        Raises   BackendError.
        """
        return self._patient(lambda: self._once(lambda: self._send(*command)))

    def run(self, script: Script, keys: Sequence[str], args: Sequence[str | bytes | float] = ()) -> Any:
        """The answer of a script that may be run twice.

        Raises   BackendError.
        """
        return self._patient(lambda: self._script(script, keys, args))

    def commit(self, script: Script, keys: Sequence[str], plan: Sequence[str | bytes | int]) -> None:
        """Run COMMIT or COMMIT_LESS once. `keys`: those behind the writer's.

        Raises   Stale; BackendError: nothing was stored, unless it says that this is not known.
        """
        writer = self._writer()
        given = (writer.number, uuid.uuid4().hex, *plan)
        try:
            told = self._script(script, [writer.key, *keys], given)
        except _Away as exc:
            told = b"done" if self._settled(writer, exc) else b"stale"
        writer.number += 2
        self._writers.append(writer)
        if told != b"done":
            raise Stale

    def anew(self, step: Callable[[], R]) -> R:
        """The result of a step, taken again while others change what it read.

        Raises   BackendError when the time is over; what `step` raises.
        """
        if self.is_closed:
            raise UsageError("this store is closed; open it again")
        deadline, pause = time.monotonic() + self.busy_timeout_s, FIRST_WAIT_S
        while True:
            try:
                return step()
            except Stale as exc:
                if time.monotonic() > deadline:
                    raise BackendError(
                        f"{self.url} stayed busy for {self.busy_timeout_s:g} s: others went on changing the same "
                        "slots, and nothing was stored; try again, or raise busy_timeout_s"
                    ) from exc
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - a pause, no secret
            pause = min(LONGEST_WAIT_S, 2 * pause)

    def close(self) -> None:
        """Let go of the connections."""
        self.is_closed = True
        self._client.close()

    def _writer(self) -> _Writer:
        while self._writers:
            writer = self._writers.pop()
            if writer.pid == os.getpid():
                return writer
        return _Writer(f"{self.url.prefix}:writer:{uuid.uuid4().hex}", os.getpid())

    def _script(self, script: Script, keys: Sequence[str], args: Sequence[Any]) -> Any:
        def by_digest() -> Any:
            return self._send("EVALSHA", script.sha, len(keys), *keys, *args)

        def by_text() -> Any:
            return self._send("EVAL", script.text, len(keys), *keys, *args)

        try:
            return self._once(by_digest)
        except self._errors.NoScriptError:
            return self._once(by_text)

    def _settled(self, writer: _Writer, lost: _Away) -> bool:
        """Whether the writer's commit was done; if not, it never will be."""
        deadline = time.monotonic() + self.busy_timeout_s
        while True:
            try:
                return bool(self._script(SETTLE, [writer.key], [writer.number]))
            except (_Away, OffpromptError) as exc:
                if time.monotonic() > deadline:
                    raise BackendError(
                        f"{self.url} stopped answering during a write ({lost}), and it is not known whether it was "
                        "stored; once the server answers, read before you write again, or write with an op_key"
                    ) from exc
            time.sleep(LONGEST_WAIT_S)

    def _patient(self, step: Callable[[], R]) -> R:
        deadline = time.monotonic() + min(ANSWER_S, self.busy_timeout_s)
        while True:
            try:
                return step()
            except _Away as exc:
                if time.monotonic() > deadline:
                    raise BackendError(
                        f"{self.url} does not answer: {exc}; check that the server runs and that its address is right"
                    ) from exc
            time.sleep(LONGEST_WAIT_S)

    def _once(self, step: Callable[[], R]) -> R:
        """One try; errors that another try would not help are BackendErrors."""
        errors = self._errors
        try:
            return step()
        except errors.NoScriptError:
            raise
        except (errors.AuthenticationError, errors.NoPermissionError) as exc:
            raise BackendError(
                f"{self.url} refuses this user: {_said(exc)}; "
                "correct user and password in the URL, or the user's rights (ACL SETUSER)"
            ) from exc
        except (errors.ConnectionError, errors.TimeoutError) as exc:
            raise _Away(_said(exc)) from exc
        except errors.RedisError as exc:
            said = _said(exc)
            if "invalid password" in said or "AUTH" in said:
                raise BackendError(f"{self.url} refuses this user: {said}; correct user and password") from exc
            raise BackendError(f"{self.url}: {_in_our_words(type(exc).__name__, said)}") from exc


_WAYS_OUT: Final = (
    ("OutOfMemory", "the server has reached maxmemory, and nothing was stored; raise maxmemory, or sweep and erase"),
    ("MISCONF", "the server cannot write its file, and nothing was stored; see its log and free space on its disk"),
    ("ReadOnly", "the server is a read-only replica, and nothing was stored; give the primary's address"),
    ("NOREPLICAS", "too few replicas are connected, and nothing was stored; see min-replicas-to-write"),
    ("WRONGTYPE", "a key of ours is of another program's type, and nothing was stored; give the URL another ?prefix="),
    ("BUSY", "the server is held up by a script; see SCRIPT KILL"),
)


def _in_our_words(kind: str, said: str) -> str:
    for mark, words in _WAYS_OUT:
        if kind.startswith(mark) or mark in said:
            return f"{words} ({said})"
    return f"the server refuses: {said}; run `offprompt doctor` on it"


def _said(exc: Exception) -> str:
    return str(exc).strip().rstrip(".") or type(exc).__name__
