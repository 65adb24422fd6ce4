"""How fast the service is, and how steady: against its own constant answer, bare commits, and itself with workers.

    python bench/serve.py [--seconds 5] [--rounds 3] [--steady 60] [--only NAME …]

NAME: sqlite, steady, workers. `offprompt serve` runs as users run it, with its token and its log to nowhere; the load
comes from one process of this program, whose share of a processor is printed with each figure. Rounds of what is
compared take turns. `workers` starts PostgreSQL and Redis as the tests do, with fsync on.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import servers
from tests.http_load import Load, Request, load, request

USERS = 200
VALUE = "concise, Chinese, no small talk " * 3
CONNECTIONS = 64
COMMITS_S = 2.0
DRAW = random.Random(1)  # noqa: S311 - a repeatable draw


class Served:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], port: int, token: str) -> None:
        self.process, self.port = process, port
        self._headers = {"authorization": f"Bearer {token}"}
        self._count = itertools.count()

    def health(self) -> Request:
        return request("GET", "/health", {}), None

    def read(self) -> Request:
        user = {"offprompt-user": f"u{DRAW.randrange(USERS)}"}
        return request("GET", "/mem/read?slot=note", self._headers | user), None

    def write(self) -> Request:
        user = {"offprompt-user": f"u{DRAW.randrange(USERS)}"}
        body = json.dumps({"slot": "note", "value": f"{VALUE}{next(self._count)}"}).encode()
        return request("POST", "/mem/write", self._headers | user, body), None

    def fill(self) -> None:
        """Write the slot of each user."""
        users = itertools.cycle(range(USERS))

        def make() -> Request:
            body = json.dumps({"slot": "note", "value": VALUE}).encode()
            return request("POST", "/mem/write", self._headers | {"offprompt-user": f"u{next(users)}"}, body), None

        written = 0
        while written < USERS:
            written += len(load(self.port, make, connections=CONNECTIONS, seconds=1).latencies)

    def mixed(self) -> Request:
        return self.write() if DRAW.random() < 0.1 else self.read()

    def pids(self) -> list[int]:
        """Of the server and its workers."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return [own, *(int(child) for child in children)]

    def cpu_s(self) -> float:
        return sum(cpu_of(pid) for pid in self.pids())

    def memory_mb(self) -> float:
        """Resident, of all its processes."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids())
        return pages * resource.getpagesize() / 2**20


def cpu_of_all(pid: int) -> float:
    """Of a server with the processes that it has now."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_of(pid) + sum(cpu_of(int(child)) for child in children)


def cpu_of(pid: int) -> float:
    """Seconds of a processor that a process has used; 0 if it is gone."""
    try:
        cells = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(url: str, folder: Path, *, workers: int = 1) -> Generator[Served]:
    """`offprompt serve` over the store, on a port of its own, with a slot of each user."""
    environ = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    command = [sys.executable, "-m", "offprompt", "serve", "--port", "0", "--json", "--log", "off"]
    process = subprocess.Popen(  # noqa: S603 - this program
        [*command, "--url", url, "--workers", str(workers)], stdout=subprocess.PIPE, text=True, env=environ, cwd=folder
    )
    try:
        said = json.loads(process.stdout.readline() if process.stdout is not None else "")
        port = int(said["url"].rpartition(":")[2])
        server = Served(process, port, Path(said["token_file"]).read_text().strip())
        server.fill()
        yield server
    finally:
        process.terminate()
        process.wait(60)


def told(name: str, server: Served, make: Callable[[], Request], *, connections: int, seconds: float) -> Load:
    """The load, printed."""
    before = server.cpu_s()
    found = load(server.port, make, connections=connections, seconds=seconds)
    used = server.cpu_s() - before
    shares = (
        f"server {used / found.seconds:.2f}, load {found.share:.2f} processors, "
        f"{used / max(1, len(found.latencies)) * 1e6:.0f} µs each"
    )
    bad = {status: count for status, count in found.statuses.items() if status not in (200, 201)}
    print(
        f"{name:<28} {found.rate:>8,.0f}/s  p50 {found.at(0.5) * 1000:6.1f} ms  p99 {found.at(0.99) * 1000:6.1f} ms  "
        f"{shares}"
        + (f"  NOT ANSWERED WELL: {bad}" if bad else "")
        + (f"  BROKEN: {found.broken}" if found.broken else "")
    )
    return found


def bare_commits(folder: Path) -> float:
    """Commits a second of one row each by sqlite3, synchronous=FULL in a write-ahead log."""
    with contextlib.closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE IF NOT EXISTS slots (name PRIMARY KEY, value)")
        begun, count = time.perf_counter(), 0
        while time.perf_counter() < begun + COMMITS_S:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?)", (f"u{count % USERS}", f"{VALUE}{count}"))
            db.execute("COMMIT")
            count += 1
        rate = count / (time.perf_counter() - begun)
    print(f"{'bare commits':<28} {rate:>8,.0f}/s")
    return rate


def sqlite_figures(args: argparse.Namespace, folder: Path) -> None:
    with served(str(folder / "agent.db"), folder) as server:
        ratios: dict[str, list[float]] = {"reads of constant answers": [], "writes of bare commits": []}
        for _ in range(args.rounds):
            given = {"connections": CONNECTIONS, "seconds": args.seconds}
            constant = told("constant JSON", server, server.health, **given)
            reads = told("reads", server, server.read, **given)
            bare = bare_commits(folder)
            writes = told("writes", server, server.write, **given)
            bare = (bare + bare_commits(folder)) / 2
            told("reads and writes, 9 to 1", server, server.mixed, **given)
            ratios["reads of constant answers"].append(reads.rate / constant.rate)
            ratios["writes of bare commits"].append(writes.rate / bare)
        for name, found in ratios.items():
            print(f"{name}: {statistics.median(found):.2f} (rounds {', '.join(f'{one:.2f}' for one in found)})")


def steady_figures(args: argparse.Namespace, folder: Path) -> None:
    with served(str(folder / "agent.db"), folder) as server:
        told("warm, 1,000 connections", server, server.mixed, connections=1000, seconds=args.steady / 6)
        before = server.memory_mb()
        found = told("1,000 connections, 9 to 1", server, server.mixed, connections=1000, seconds=args.steady)
        bad = sum(count for status, count in found.statuses.items() if status not in (200, 201)) + found.broken
        print(f"errors {bad}; memory {before:.0f} MB before, {server.memory_mb():.0f} MB after")


def worker_figures(args: argparse.Namespace, folder: Path) -> None:
    with servers.running(servers.postgres("-c", "fsync=on")) as postgres, servers.running(servers.redis()) as redis:
        url = f"memories={servers.postgres_url(postgres)} slots={servers.redis_url(redis)}"
        rates: dict[int, list[float]] = {1: [], 3: []}
        for _ in range(args.rounds):
            for workers, found in rates.items():
                with served(url, folder, workers=workers) as server:
                    before = [cpu_of(redis.pid), cpu_of_all(postgres.pid)]
                    given = {"connections": CONNECTIONS, "seconds": args.seconds}
                    one = told(f"9 to 1, {workers} workers", server, server.mixed, **given)
                    after = [cpu_of(redis.pid), cpu_of_all(postgres.pid)]
                    shares = [(end - start) / one.seconds for start, end in zip(before, after, strict=True)]
                    print(f"{'':<28} Redis {shares[0]:.2f}, PostgreSQL {shares[1]:.2f} processors; {by_worker(server)}")
                    found.append(one.rate)
        print(f"3 workers against 1: {statistics.median(rates[3]) / statistics.median(rates[1]):.2f}")


def by_worker(server: Served) -> str:
    seconds = [cpu_of(pid) for pid in server.pids()]
    return "of the server's, parent and workers: " + ", ".join(f"{one / (sum(seconds) or 1):.2f}" for one in seconds)


FIGURES = {"sqlite": sqlite_figures, "steady": steady_figures, "workers": worker_figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steady", type=float, default=60)
    parser.add_argument("--only", nargs="*", choices=FIGURES, default=list(FIGURES))
    args = parser.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files[1], files[1]))
    for name in args.only:
        with tempfile.TemporaryDirectory(prefix="offprompt-bench-") as folder:
            FIGURES[name](args, Path(folder))


if __name__ == "__main__":
    main()
