"""Writes that the store did not take in time: kept in a file of this machine, done later in their order, once."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from offprompt.errors import BackendError, OffpromptError, UsageError
from offprompt.protocols import Clock
from offprompt.protocols.sealing import Sealer
from offprompt.records import Finding, Scope
from offprompt.records.scope import key_owner

R = TypeVar("R")

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
SEALED: Final = "sealed"
"""What a sealed write says instead of what it needs."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """One whole write as it was asked for.

    key      its own name: done once more under it, it changes nothing. at: when it was asked for, by the clock then.
    op       `write`: of a slot. `remember`: of texts, redacted. what: what the op needs, as JSON.
    error    why it was set aside: the store refused it; empty while it waits.
    """

    key: str
    at: float
    op: str
    scope: Scope
    what: dict[str, Any]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did: writes done, set aside since the store refused them, and left, since it does not answer."""

    done: int = 0
    aside: int = 0
    left: int = 0


class Spool:
    """The file of one store's waiting writes, for all processes of this user on this machine. Thread-safe.

    path     of the file; beside it `….aside` for what the store refused, and a lock. Private: 0600 in 0700.
    sealer   what seals the texts of writes; None: they are kept as they are.
    is_on    whether new writes may be kept; what waits is done in any case.
    perform  does one write; set once, before the first use.
    Kept     is on this machine's disk: it survives kill -9, and a power loss as far as the disk keeps its word.
    Order    as asked for: while something waits, whatever comes is kept behind it.
    """

    def __init__(self, path: Path, clock: Clock, *, is_on: bool, sealer: Sealer | None = None) -> None:
        self.path, self.aside, self.is_on = path, path.with_suffix(".aside"), is_on
        self.perform: Callable[[Spooled], object] = lambda _: None
        self._clock, self._sealer = clock, sealer

    def attempt(self, write: Callable[[str], R], keep: Callable[[str], Spooled]) -> R | Spooled:
        """The write's result, or the write as it was kept because the store did not take it.

        write    gets the key of the write; keep too, where it is to be kept.
        Raises   what `write` raises; a BackendError only if the spool is off, or cannot be read or written.
        """
        key, left = secrets.token_hex(12), self.replay().left
        try:
            if left:
                raise self._waiting(left)
            return write(key)
        except BackendError as exc:
            if not self.is_on:
                raise
            spooled = keep(key)
            with _on_disk(self.path, exc):
                self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                with self._locked():
                    _append(self.path, [self._sealed(spooled)])
            return spooled

    def replay(self) -> Replayed:
        """Do what waits, in order, until the store does not answer; what it refuses is set aside.

        Killed   in the middle: what was done is done once more by the next one, under its key, and changes nothing.
        """
        if not _holds(self.path):
            return Replayed()
        with _on_disk(self.path), self._locked():
            waiting, aside, left = _read(self.path), list[Spooled](), 0
            for at, one in enumerate(waiting):
                try:
                    self.perform(self._opened(one))
                except BackendError:
                    left = len(waiting) - at
                    break
                except OffpromptError as exc:
                    aside.append(replace(one, error=str(exc)))
            known = {one.key for one in _read(self.aside)}
            _append(self.aside, [one for one in aside if one.key not in known])
            _store(self.path, waiting[len(waiting) - left :])
        return Replayed(len(waiting) - left - len(aside), len(aside), left)

    def drop(self, scope: Scope) -> int:
        """Remove what waits, or was set aside, in a scope's subtree: for erasing; how much."""
        count = 0
        if _holds(self.path) or _holds(self.aside):
            with _on_disk(self.path), self._locked():
                for path in (self.path, self.aside):
                    there = _read(path)
                    kept = [one for one in there if not scope.holds(one.scope)]
                    if len(kept) < len(there):
                        count += len(there) - len(kept)
                        _store(path, kept)
        return count

    def count(self, scope: Scope) -> int:
        """How many writes wait, or were set aside, in a scope's subtree."""
        return sum(scope.holds(one.scope) for path in (self.path, self.aside) for one in _read(path))

    def waiting(self, scope: Scope) -> list[Spooled]:
        """The writes that wait, or were set aside, in a scope's subtree, opened."""
        there = [*_read(self.path), *_read(self.aside)]
        return [self._opened(one) for one in there if scope.holds(one.scope)]

    def findings(self) -> list[Finding]:
        """What `doctor` says of the spool; nothing where it is empty."""
        found: list[Finding] = []
        if waiting := _read(self.path):
            since = max(0.0, self._clock.now() - waiting[0].at)
            said = f"{len(waiting):,} writes wait in {self.path} for the store, the oldest for {since:,.0f} s"
            found.append(Finding("spool", "warn", said, "the next write does them, or offprompt worker --once"))
        if aside := _read(self.aside):
            said = f"{len(aside):,} writes that waited were refused by the store; the last one: {aside[-1].error}"
            way = f"look into {self.aside}, write again what is still wanted, then remove the file"
            found.append(Finding("spool aside", "warn", said, way))
        return found

    def make_way(self) -> None:
        """Do what waits, before something that must not come before it.

        Raises   BackendError if the store does not take it yet.
        """
        if left := self.replay().left:
            raise self._waiting(left)

    def _waiting(self, left: int) -> BackendError:
        return BackendError(f"{left:,} earlier writes wait for the store in {self.path}; see offprompt doctor")

    def _sealed(self, one: Spooled) -> Spooled:
        """The write as it is kept: what is sealed in the store is sealed here."""
        if self._sealer is None:
            return one
        sealed = self._sealer.seal(key_owner(one.scope), _place(one), json.dumps(one.what).encode())
        return replace(one, what={SEALED: base64.b64encode(sealed).decode()})

    def _opened(self, one: Spooled) -> Spooled:
        if SEALED not in one.what:
            return one
        if self._sealer is None:
            raise BackendError(f"what waits in {self.path} is sealed; open the store with its keyring")
        data = self._sealer.open(key_owner(one.scope), _place(one), base64.b64decode(one.what[SEALED]))
        if data is None:
            raise UsageError("it is of whom was erased: the key that sealed it is destroyed")
        return replace(one, what=json.loads(data))

    @contextmanager
    def _locked(self) -> Generator[None]:
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _place(one: Spooled) -> tuple[str, ...]:
    return "spool", *one.scope.key, one.op, one.key


def _holds(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _read(path: Path) -> list[Spooled]:
    """The writes in a file, in order; a line without an end was never acknowledged.

    Raises   BackendError for a line that is none of ours.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as exc:
        raise BackendError(f"the spool {path} cannot be read: {exc}; mend it, or move it away") from exc
    try:
        return [msgspec.convert(json.loads(line), Spooled) for line in lines]
    except (ValueError, msgspec.ValidationError) as exc:
        raise BackendError(f"the spool {path} cannot be read: {exc}; mend the line, or move the file away") from exc


def _append(path: Path, spooled: Sequence[Spooled]) -> None:
    """Add writes, on disk when it returns; what a killed process left of a line is cut off first."""
    if not spooled:
        return
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE), "rb+") as file:
        file.truncate(file.seek(file.read().rfind(b"\n") + 1))
        file.write("".join(json.dumps(msgspec.to_builtins(one)) + "\n" for one in spooled).encode())
        file.flush()
        os.fsync(file.fileno())
    _sync(path.parent)


def _store(path: Path, spooled: Sequence[Spooled]) -> None:
    """Put these in place of what the file holds, in one step."""
    half = path.with_suffix(".half")
    half.unlink(missing_ok=True)
    _append(half, spooled)
    if spooled:
        half.replace(path)
    else:
        path.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _on_disk(path: Path, cause: BackendError | None = None) -> Generator[None]:
    """The system's errors in our words; cause: why the store did not take the write."""
    try:
        yield
    except OSError as exc:
        why = f"{cause}; and it" if cause is not None else "it"
        raise BackendError(f"{why} cannot be kept in the spool {path}: {exc.strerror}; nothing was stored") from exc
