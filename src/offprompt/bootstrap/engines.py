"""The stores and indexes that URLs name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from offprompt.bootstrap.urls import PGVECTOR, Urls, engine_of, sqlite_path
from offprompt.config import Settings
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.protocols import Clock, Coordinator, Embedder, SlotStore, Store, VectorSearch
from offprompt.stores.combined import CombinedSlots
from offprompt.stores.coordination import NotedCoordinator
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore

if TYPE_CHECKING:  # its client is an extra
    from offprompt.stores.postgres import PostgresStore
    from offprompt.stores.redis import RedisStore

VectorsFor: TypeAlias = Callable[[Embedder], VectorSearch]


@dataclass(frozen=True, slots=True)
class Engines:
    """What the URLs of an opened memory stand for.

    main         keeps memories, sessions and all the rest. slots: the same one, or what puts another beside it.
    coordinator  in the slots' engine where that is another one, else in the memories'.
    vectors_for  makes the index of the vectors for an embedder; None: the memories' engine has them.
    """

    main: Store
    slots: SlotStore
    coordinator: Coordinator
    vectors_for: VectorsFor | None = None


def open_engines(urls: Urls, clock: Clock, settings: Settings, *, create: bool) -> Engines:
    """The engines that the URLs name; indexes of vectors connect with their first use.

    Raises   NotFoundError if it is a file that is not there and not to be made; UnsupportedError if an engine's client
             is not installed; BackendError if one cannot be used.
    """
    engine = engine_of(urls.memories)
    if engine == "sqlite" and not create:
        _check_there(urls.memories)
    main = _MAIN[engine](urls.memories, clock, settings, urls.vectors is not None)
    vectors_for = None if urls.vectors is None else _vectors(urls.vectors, main)
    if urls.slots is None:
        return Engines(main, main, NotedCoordinator(main, clock), vectors_for)
    try:
        redis = _redis(urls.slots, clock, settings)
        return Engines(main, CombinedSlots(redis, main), redis.coordinator(), vectors_for)
    except BaseException:
        main.close()
        raise


def open_store(url: str, clock: Clock, settings: Settings) -> Store:
    """A store by itself, such as a keyring, made if it is not there. Raises as open_engines."""
    return _MAIN[engine_of(url)](url, clock, settings, False)  # noqa: FBT003 - without a queue


def _in_process(_url: str, clock: Clock, _settings: Settings, queue: bool) -> Store:  # noqa: FBT001 - one of a table
    return InProcessStore(clock, vector_queue=queue)


def _sqlite(url: str, clock: Clock, settings: Settings, queue: bool) -> Store:  # noqa: FBT001 - one of a table
    path = sqlite_path(url)
    try:
        path = path.absolute()
    except OSError as exc:
        raise UsageError(f"{url!r} is relative to a folder that is gone; give the whole path") from exc
    return SqliteStore(
        path,
        clock=clock,
        durability=settings.durability,
        busy_timeout_s=settings.busy_timeout_s,
        vector_queue=queue,
    )


def _postgres(url: str, clock: Clock, settings: Settings, queue: bool) -> Store:  # noqa: FBT001 - one of a table
    try:
        from offprompt.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        lacking = "the client of PostgreSQL is not installed; run: pip install 'offprompt[postgres]'"
        raise UnsupportedError(lacking) from exc
    return PostgresStore(
        url,
        clock=clock,
        durability=settings.durability,
        busy_timeout_s=settings.busy_timeout_s,
        vector_queue=queue,
    )


def _redis(url: str, clock: Clock, settings: Settings) -> RedisStore:
    from offprompt.stores.redis import RedisStore  # noqa: PLC0415 - loaded with its first use

    return RedisStore(url, clock=clock, busy_timeout_s=settings.busy_timeout_s)


def _vectors(url: str, main: Store) -> VectorsFor:
    """What makes the index of that URL. Keys come from the URL, or from QDRANT_API_KEY and CHROMA_API_KEY."""
    engine = engine_of(url)
    if engine == PGVECTOR:
        postgres = cast("PostgresStore", main)  # parse_urls has seen to it
        return lambda embedder: postgres.vectors(embedder=embedder.name, dimension=embedder.dimension)
    key = os.environ.get(f"{engine.upper()}_API_KEY", "")

    def made(embedder: Embedder) -> VectorSearch:
        # These load NumPy, and the engine's client.
        if engine == "qdrant":
            from offprompt.indexes.qdrant import QdrantIndex as Index  # noqa: PLC0415
        else:
            from offprompt.indexes.chroma import ChromaIndex as Index  # noqa: PLC0415
        return Index(url, embedder=embedder.name, dimension=embedder.dimension, key=key)

    return made


_MAIN: Final[Mapping[str, Callable[[str, Clock, Settings, bool], Store]]] = {
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
