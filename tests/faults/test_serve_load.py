"""A thousand clients at once: all are answered, and what the server needs does not grow."""

from __future__ import annotations

import itertools
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http_load import Load, Request, load, request
from tests.rest.process import Process, serving

CONNECTIONS = 1000
USERS = 100
GROWTH_BYTES = 24 * 2**20
"""What caches may still take up after the first round: far less than a thousand connections that are not let go."""


@pytest.fixture
def open_files() -> Iterator[None]:
    """Files enough for both ends of each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.fail(f"this needs {wanted} open files at once, and {hard} are allowed; raise the limit (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def nine_reads_to_a_write(server: Process) -> Callable[[], Request]:
    """What makes the next request."""
    count, shown = itertools.count(), {name.lower(): value for name, value in server.headers.items()}

    def make() -> Request:
        number = next(count)
        headers = {**shown, "offprompt-user": f"u{number % USERS}"}
        if number % 10 == 0:
            body = json.dumps({"slot": "号", "value": f"四季春路 {number}"}).encode()
            return request("POST", "/mem/write", headers, body), None
        return request("GET", "/mem/read?slot=%E5%8F%B7", headers), None

    return make


def round_of(server: Process, seconds: float) -> Load:
    make, port = nine_reads_to_a_write(server), int(server.url.rpartition(":")[2])
    found = load(port, make, connections=CONNECTIONS, seconds=seconds)
    assert (dict(found.statuses), found.broken) == ({200: len(found.latencies)}, 0)
    assert len(found.latencies) >= CONNECTIONS
    return found


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def thousand(folder: Path, seconds: float) -> None:
    with serving(folder, "--log", "off", OFFPROMPT_EMBEDDER="none") as server:
        with server.client() as http:
            for number in range(USERS):
                own = {"Offprompt-User": f"u{number}"}
                assert http.post("/mem/write", json={"slot": "号", "value": "路"}, headers=own).status_code == 200
        round_of(server, seconds / 2)
        before = resident(server.popen.pid)
        round_of(server, seconds)
        assert resident(server.popen.pid) - before < GROWTH_BYTES
        assert server.end() == 0


@pytest.mark.usefixtures("open_files")
def test_a_thousand_connections_are_answered(tmp_path: Path) -> None:
    thousand(tmp_path, 4)


@pytest.mark.long
@pytest.mark.usefixtures("open_files")
def test_a_thousand_connections_are_answered_for_a_minute(tmp_path: Path) -> None:
    thousand(tmp_path, 60)
