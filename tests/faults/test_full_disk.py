"""A disk that is full, or a Redis that may use no more memory: the error says so, nothing is stored by half, and once
there is room again the same store goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import redis

from offprompt.errors import BackendError
from tests import servers
from tests.faults.deeds import Done, close, do, do_surely, look, opened
from tests.faults.places import TEMPLATES, Place
from tests.faults.small_disks import fill, small_disk

MOST = 5000


def write_until_full(url: str, fill_up: Callable[[], object], free: Callable[[], object], says: str) -> None:
    """Deeds until the engine refuses one; then, with room again, that one and some more."""
    engines = opened(url, busy_timeout_s=1.0)
    number = 0
    for number in range(3):
        do(engines, "u", number)
    fill_up()
    with pytest.raises(BackendError, match=says):  # noqa: PT012 - some deed, not one that is known before
        for number in range(3, MOST):
            do(engines, "u", number)
    with pytest.raises(BackendError):
        do(engines, "u", number)
    free()
    do_surely(engines, "u", number)
    do_surely(engines, "u", number + 1)
    close(engines)
    engines = opened(url)
    assert look(engines, "u") == Done(number + 2, number + 2, number + 2)
    close(engines)


def test_sqlite_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        write_until_full(f"{disk}/agent.db", lambda: fill(disk), (disk / "filler").unlink, "disk is full")


def test_postgresql_on_a_full_disk() -> None:
    with servers.running(servers.own("postgres")) as server, small_disk(server.folder / "disk", 24) as disk:
        with psycopg.connect(servers.postgres_url(server), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'".encode())
            connection.execute("CREATE DATABASE small TABLESPACE small")
        url = servers.postgres_url(server, "small")
        write_until_full(url, lambda: fill(disk), (disk / "filler").unlink, "disk")


def test_postgresql_whose_log_has_no_room_and_that_goes_down() -> None:
    server = servers.own("postgres")
    log = server.folder / "data" / "pg_wal"
    log.rename(server.folder / "first")
    with small_disk(log, 64) as disk:
        subprocess.run(["cp", "-a", f"{server.folder}/first/.", str(disk)], check=True)

        def free() -> None:
            (disk / "filler").unlink()
            assert server.process is not None
            server.process.wait(60)
            server.start()

        with servers.running(server):
            write_until_full(servers.postgres_url(server), lambda: fill(disk), free, "PostgreSQL")


@pytest.mark.parametrize("name", ["redis", "valkey"])
def test_redis_that_may_use_no_more_memory(name: str, tmp_path: Path) -> None:
    with servers.running(servers.own(name)) as server, redis.Redis(port=server.port) as client:
        place = Place(TEMPLATES[name][0], {name: server.port}, tmp_path, "full")

        def ask(*command: str | int) -> Any:
            return cast("Any", client).execute_command(*command)

        def fill_up() -> None:
            used: int = ask("MEMORY", "STATS")[b"total.allocated"]
            ask("CONFIG", "SET", "maxmemory", used + 20_000)

        write_until_full(place.url(), fill_up, lambda: ask("CONFIG", "SET", "maxmemory", 0), "maxmemory")


@pytest.mark.parametrize("name", ["redis", "valkey"])
def test_redis_whose_file_has_no_room_and_that_ends(name: str, tmp_path: Path) -> None:
    server = servers.own(name)
    with small_disk(server.folder, 4) as disk, servers.running(server):
        place = Place(TEMPLATES[name][0], {name: server.port}, tmp_path, "full")

        def free() -> None:
            (disk / "filler").unlink()
            assert server.process is not None
            server.process.wait(60)
            server.start()

        write_until_full(place.url(), lambda: fill(disk), free, str(server.port))
