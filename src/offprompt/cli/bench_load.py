"""`offprompt bench load`: what a store costs with many users at once, beside bare commits to the same server."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress

from offprompt.bootstrap import open as open_memory
from offprompt.bootstrap.urls import engine_of, parse_urls, sqlite_path
from offprompt.cli.call import Call, command
from offprompt.cli.render import table
from offprompt.errors import UnsupportedError, UsageError
from offprompt.service.load_bench.plan import Plan, user_of
from offprompt.service.offprompt import Offprompt

if TYPE_CHECKING:
    from offprompt.service.load_bench.drive import Sample
    from offprompt.stores._pg_connection import Connection

ROUNDS: Final = 10
"""Rounds of writes; each does a few of every kind, so that a slow moment of the disk meets all."""

WRITES: Final = 20
"""Writes of a kind in a round."""

BARE_BYTES: Final = 2048
"""Bytes of a bare commit: about what a memory's record and what is derived from it take."""


def load(
    call: Call,
    *,
    memories: Annotated[int, typer.Option(min=1, help="Memories in all.")] = 1_000_000,
    users: Annotated[int, typer.Option(min=1, help="Users; the first has most (Zipf).")] = 10_000,
    largest: Annotated[int, typer.Option(min=1, help="Memories of the first user.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=0, help="Mixed reads and writes for so long.")] = 30.0,
    clients: Annotated[int, typer.Option(min=1, max=64, help="Processes that read and write at once.")] = 2,
) -> None:
    """Fill an empty store with memories of many users, and read and write: waits by size of scope, durable writes.

    A store that was filled by the same numbers is used again.
    """
    # These load NumPy, and the embedder.
    from offprompt.service.load_bench.drive import recalls  # noqa: PLC0415
    from offprompt.service.load_bench.fill import fill  # noqa: PLC0415

    url = call.options.url or os.environ.get("OFFPROMPT_URL")
    if not url:
        raise UsageError("say which store is to be filled, an empty one: --url postgresql://… or --url load.db")
    plan = Plan(memories, users, largest)
    with call.memory(create=True) as memory, bare_commits(url) as bare:
        access = memory.parts.memories
        with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task(call.say("memories"), total=memories)
            filled = fill(memory.parts.main, plan, access.kit.embedder, lambda some: progress.advance(task, some))
        document: dict[str, Any] = {
            "plan": json.loads(plan.note),
            "filled_s": round(filled.seconds, 1),
            "by_the_real_path": filled.made,
            "bytes": stored_bytes(url),
        }
        alone = recalls(memory, plan)
        document["recall"] = [_summary(some) for some in _groups(alone, lambda one: (one.size, one.cold))]
        document["writes"] = writes(memory, bare)
        document["memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    mixed = together(call, plan, seconds, clients) if seconds else []
    document["clients"] = clients
    document["mixed"] = [_summary(some) for some in _groups(mixed, lambda one: one.what)]
    document["mixed_per_s"] = round(len(mixed) / seconds, 1) if seconds else 0
    call.put(document, _text(call, document))


def together(call: Call, plan: Plan, seconds: float, clients: int) -> list[Sample]:
    """What clients in processes of their own were kept waiting."""
    spawn = multiprocessing.get_context("spawn")
    own = (call.options.url, call.options.config, call.options.app, plan, seconds)
    with spawn.Pool(clients) as pool:
        return [one for some in pool.starmap(client, [(*own, seed) for seed in range(clients)]) for one in some]


def client(url: str | None, config: str | None, app: str | None, plan: Plan, seconds: float, seed: int) -> list[Sample]:
    """One client, in its own process."""
    from offprompt.service.load_bench.drive import drive  # noqa: PLC0415 - loads NumPy

    with open_memory(url, config=config, app=app, create=False) as memory:
        memory.scope(user=user_of(plan.users - 1)).recall("a warm embedder")
        return drive(memory, plan, seconds, seed=seed)


def writes(memory: Offprompt, bare: Callable[[bytes], object]) -> dict[str, float]:
    """Durable writes a second of one client, one after the other: a sentence, a slot, and bare commits beside them."""
    spent = {"remember": 0.0, "write": 0.0, "bare": 0.0}
    scope, payload = memory.scope(user="load-writer"), bytes(BARE_BYTES)
    scope.remember("The first one loads the rules.")
    for at in range(ROUNDS):
        for number in range(WRITES):
            sentence = f"The parcel {at}-{number}-{time.time_ns()} is behind the blue door"
            calls: dict[str, Callable[[], object]] = {
                "remember": lambda: scope.remember(sentence),  # noqa: B023 - called before the next round
                "write": lambda: scope.write(f"place_{number}", sentence),  # noqa: B023
                "bare": lambda: bare(payload),
            }
            for what, write in calls.items():
                begun = time.perf_counter()
                write()
                spent[what] += time.perf_counter() - begun
    return {what: round(ROUNDS * WRITES / seconds, 1) for what, seconds in spent.items()}


@contextmanager
def bare_commits(url: str) -> Generator[Callable[[bytes], object]]:
    """A commit of some bytes by the client of the store's engine alone: to the same server, or to a file of its own.

    Raises   UnsupportedError for an engine that keeps nothing.
    """
    main = parse_urls(url).memories
    engine = engine_of(main)
    if engine == "postgresql":
        connection = _postgres(main)
        try:
            connection.execute("DROP TABLE IF EXISTS offprompt_bare")
            connection.execute("CREATE TABLE offprompt_bare (number serial PRIMARY KEY, body bytea)")
            yield lambda body: connection.execute("INSERT INTO offprompt_bare (body) VALUES (%s)", (body,))
            connection.execute("DROP TABLE offprompt_bare")
        finally:
            connection.close()
    elif engine == "sqlite":
        with tempfile.TemporaryDirectory(prefix="offprompt-bare-") as folder:
            file = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"):
                file.execute(statement)
            file.execute("CREATE TABLE bare (number INTEGER PRIMARY KEY, body BLOB)")
            yield lambda body: file.execute("INSERT INTO bare (body) VALUES (?)", (body,))
            file.close()
    else:
        raise UnsupportedError(f"the engine {engine} keeps nothing that could be measured; name a file or PostgreSQL")


def stored_bytes(url: str) -> int:
    """What the memories' store takes on disk, with its indexes."""
    main = parse_urls(url).memories
    if engine_of(main) == "sqlite":
        path = sqlite_path(main)
        return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    connection = _postgres(main)
    try:
        row = connection.execute(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
            "WHERE relnamespace = to_regnamespace(current_schema) AND relkind = 'r'"
        ).fetchone()
    finally:
        connection.close()
    return 0 if row is None else row[0]


def _postgres(url: str) -> Connection:
    from offprompt.stores._pg_address import parse_address  # noqa: PLC0415 - an extra
    from offprompt.stores._pg_connection import connect  # noqa: PLC0415

    return connect(parse_address(url), answer_s=60, relaxed=False)


def _groups(samples: Sequence[Sample], key: Callable[[Sample], Hashable]) -> list[list[Sample]]:
    """The samples with one key together, in the order in which the keys came first."""
    found: dict[Hashable, list[Sample]] = {}
    for sample in samples:
        found.setdefault(key(sample), []).append(sample)
    return list(found.values())


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415

    half, most = np.percentile([sample.ms for sample in samples], (50, 99))
    first = samples[0]
    return {
        "what": first.what,
        "up_to": first.size,
        "cold": first.cold,
        "calls": len(samples),
        "p50_ms": round(float(half), 2),
        "p99_ms": round(float(most), 2),
    }


def _text(call: Call, document: dict[str, Any]) -> str:
    plan, recall, writes = document["plan"], document["recall"], document["writes"]
    say = call.say
    numbers = (
        f"{plan['memories']:,} {say('memories')}, {plan['users']:,} {say('users')}, {say('the largest')} "
        f"{plan['largest']:,}; {document['bytes'] / plan['memories']:,.0f} {say('bytes each on disk')}"
    )
    if document["filled_s"]:
        numbers += f"; {say('filled in')} {document['filled_s']:,.0f} s"
    heads = [say("recall, scope up to"), say("kept in memory"), say("calls"), "p50 ms", "p99 ms"]
    rows = [
        [f"{one['up_to']:,}", say("no") if one["cold"] else say("yes"), one["calls"], one["p50_ms"], one["p99_ms"]]
        for one in recall
    ]
    parts = [numbers, table(heads, rows)]
    share = {what: writes[what] / writes["bare"] for what in ("remember", "write")}
    heads = [say("durable writes, one client"), say("a second"), say("part of bare commits")]
    rows = [[what, writes[what], f"{share[what]:.2f}"] for what in share]
    parts.append(table(heads, [*rows, [say("bare commit"), writes["bare"], "1"]]))
    if document["mixed"]:
        heads = [f"{document['clients']} {say('clients at once')}", say("calls"), "p50 ms", "p99 ms"]
        rows = [[one["what"], one["calls"], one["p50_ms"], one["p99_ms"]] for one in document["mixed"]]
        parts.append(f"{table(heads, rows)}\n{document['mixed_per_s']:,} {say('calls a second')}")
    parts.append(f"{document['memory_mb']} MB {say('in this process')}")
    return "\n\n".join(parts)


def mount(app: typer.Typer) -> None:
    """Put the command into a group."""
    command(app, "load")(load)
