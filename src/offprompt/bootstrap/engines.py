"""The stores that URLs name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from offprompt.bootstrap.urls import engine_of, masked, sqlite_path
from offprompt.config import Settings
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.protocols import Clock, Store
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore


def main_store(url: str, clock: Clock, settings: Settings, *, create: bool) -> Store:
    """The store of memories, sessions and all the rest.

    Raises   NotFoundError if it is a file that is not there and not to be made; BackendError if it cannot be used.
    """
    if engine_of(url) == "sqlite" and not create:
        _check_there(url)
    made = _MAIN.get(engine_of(url))
    if made is None:
        raise UnsupportedError(f"{masked(url)!r} is not served by this version; give a file's path")
    return made(url, clock, settings)


def _in_process(_url: str, clock: Clock, _settings: Settings) -> Store:
    return InProcessStore(clock)


def _sqlite(url: str, clock: Clock, settings: Settings) -> Store:
    path = sqlite_path(url)
    try:
        path = path.absolute()
    except OSError as exc:
        raise UsageError(f"{url!r} is relative to a folder that is gone; give the whole path") from exc
    return SqliteStore(path, clock=clock, durability=settings.durability, busy_timeout_s=settings.busy_timeout_s)


def _postgres(url: str, clock: Clock, settings: Settings) -> Store:
    try:
        from offprompt.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise lacking("PostgreSQL", "postgres") from exc
    return PostgresStore(url, clock=clock, durability=settings.durability, busy_timeout_s=settings.busy_timeout_s)


def lacking(engine: str, extra: str) -> UnsupportedError:
    """The error of an engine whose client is not installed."""
    return UnsupportedError(f"the client of {engine} is not installed; run: pip install 'offprompt[{extra}]'")


_MAIN: Final[Mapping[str, Callable[[str, Clock, Settings], Store]]] = {
    "in-process": _in_process,
    "sqlite": _sqlite,
    "postgresql": _postgres,
}
"""What makes the store of an engine that can keep memories; an engine's library is imported with its first use."""


def _check_there(url: str) -> None:
    path = sqlite_path(url)
    try:
        is_there = path.exists()
    except OSError:
        # No telling: the store says then why it cannot be opened.
        return
    if not is_there:
        raise NotFoundError(
            f"there is no store at {path.absolute()}; the first write makes it (offprompt write NAME VALUE): "
            "write something, or correct --url or OFFPROMPT_URL"
        )
