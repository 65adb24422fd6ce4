"""Workers are killed at random while clients write: what was acknowledged is there, and nothing is twice."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import offprompt
from offprompt.rest.workers import LASTED_S
from tests.faults.places import ENGINES, Place
from tests.rest.process import Process, is_alive, serving, wait_until

ROUNDS = 10
WORKERS = 3
PATIENCE_S = 150.0


@dataclass
class Client:
    """Writes until told to stop, and tries again what was not answered.

    keys    send Idempotency-Keys. acknowledged: answers that say that it is stored.
    """

    server: Process
    user: str
    keys: bool
    stop: threading.Event
    acknowledged: int = 0
    last: Any = None
    retries: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def run(self, step: Callable[[Client, httpx.Client], None]) -> None:
        """Take steps."""
        with self.server.client(self.user) as http:
            try:
                while not self.stop.is_set():
                    step(self, http)
            except Exception as exc:  # noqa: BLE001 - a thread's own exceptions would be lost
                self.wrong.append(repr(exc))

    def ask(self, http: httpx.Client, method: str, path: str, *, has_key: bool = True, **given: Any) -> httpx.Response:
        """An answer that is final, however often it has to be asked for."""
        headers = dict(given.pop("headers", {}))
        if has_key and self.keys:
            headers["Idempotency-Key"] = uuid.uuid4().hex
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                answer = http.request(method, path, headers=headers, **given)
                if answer.status_code != 503 and "retry-after" not in answer.headers:
                    return answer
            self.retries += 1
            time.sleep(0.02)
        raise AssertionError(f"{method} {path} was not answered within {PATIENCE_S} s")


def count_up(client: Client, http: httpx.Client) -> None:
    """The next number into the client's own slot."""
    answer = client.ask(http, "PUT", "/v1/slots/own", json={"value": client.acknowledged + 1})
    assert answer.status_code in (200, 201), answer.text
    client.acknowledged += 1
    client.last = answer.json()["version"]


def count_together(client: Client, http: httpx.Client) -> None:
    """One more in the slot of all clients, if nobody was sooner."""
    seen = client.ask(http, "GET", "/v1/slots/of_all")
    answer = client.ask(
        http,
        "PUT",
        "/v1/slots/of_all",
        json={"value": seen.json()["value"] + 1},
        headers={"If-Match": seen.headers["etag"]},
    )
    assert answer.status_code in (200, 412), answer.text
    client.acknowledged += answer.status_code == 200


def remember(client: Client, http: httpx.Client) -> None:
    """One more memory, unlike all others, under a name of its own."""
    text = f"{client.user} 记 {client.acknowledged} {uuid.uuid4().hex}"
    body = {"what": text, "derive": "none", "idempotency_key": uuid.uuid4().hex}
    answer = client.ask(http, "POST", "/v1/memories", json=body, has_key=False)
    assert answer.status_code in (200, 201), answer.text
    client.acknowledged += 1


def kill_some(server: Process, rng: random.Random) -> None:
    """Kill workers in the middle of their work, one or all of them, once all have been at it for a moment."""
    wait_until(lambda: len([pid for pid in server.workers if is_alive(pid)]) == WORKERS)
    # A worker that ends at once is begun again later, so that one that cannot work does not take up a machine.
    time.sleep(LASTED_S + rng.uniform(0.1, 0.5))
    for pid in rng.sample(server.workers, rng.randint(1, WORKERS)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def under_load(server: Process, *, keys: bool, meanwhile: Callable[[], None]) -> dict[str, list[Client]]:
    """Clients at work while something happens; afterwards they are done."""
    stop = threading.Event()
    with server.client("all") as http:
        assert http.put("/v1/slots/of_all", json={"value": 0}).status_code == 201
    users = {count_up: ["u0", "u1", "u2", "u3"], count_together: ["all"] * 3, remember: ["m0"]}
    clients = {step.__name__: [Client(server, user, keys, stop) for user in users[step]] for step in users}
    threads = [threading.Thread(target=one.run, args=(step,)) for step in users for one in clients[step.__name__]]
    for thread in threads:
        thread.start()
    try:
        meanwhile()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [one.wrong for each in clients.values() for one in each if one.wrong] == []
    assert all(any(one.acknowledged for one in each) for each in clients.values())
    return clients


def check(url: str, clients: dict[str, list[Client]], *, once: bool) -> None:
    """All that was acknowledged is stored; once: nothing is stored twice either."""
    with offprompt.open(url, embedder="none") as memory:
        for client in clients["count_up"]:
            slot = memory.scope(user=client.user).slots.get("own", touch=False)
            assert slot is not None
            if once:
                assert (slot.value, slot.version) == (client.acknowledged, client.acknowledged)
            else:
                assert slot.value == client.acknowledged
                assert slot.version >= client.acknowledged
        counted = sum(client.acknowledged for client in clients["count_together"])
        of_all = memory.scope(user="all").read("of_all")
        assert of_all == counted if once else of_all >= counted
        (client,) = clients["remember"]
        found = [one.text for one in memory.scope(user=client.user).memories.list(limit=100_000)]
        assert len(found) == client.acknowledged


def killed(folder: Path, url: str, *, keys: bool, rounds: int) -> None:
    rng = random.Random(7)  # noqa: S311 - a repeatable draw

    def kill() -> None:
        for _ in range(rounds):
            kill_some(server, rng)

    words = ("--url", url, "--workers", str(WORKERS), "--log", "off")
    with serving(folder, *words, OFFPROMPT_EMBEDDER="none") as server:
        clients = under_load(server, keys=keys, meanwhile=kill)
        assert server.end() == 0
    check(url, clients, once=keys)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_workers_killed_over_a_file_lose_nothing_and_do_nothing_twice(place: Place, tmp_path: Path) -> None:
    killed(tmp_path, place.url(), keys=True, rounds=ROUNDS)


@pytest.mark.parametrize("engine", ["postgres and redis"])
def test_workers_killed_over_servers_lose_nothing(place: Place, tmp_path: Path) -> None:
    killed(tmp_path, place.url(), keys=False, rounds=3)


@pytest.mark.parametrize("engine", ["postgres and redis"])
def test_three_workers_over_servers_lose_no_write(place: Place, tmp_path: Path) -> None:
    words = ("--url", place.url(), "--workers", str(WORKERS), "--log", "off")
    with serving(tmp_path, *words, OFFPROMPT_EMBEDDER="none") as server:
        clients = under_load(server, keys=False, meanwhile=lambda: time.sleep(2))
        assert server.end() == 0
    check(place.url(), clients, once=True)


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_workers_killed_again_and_again_lose_nothing_and_do_nothing_twice(place: Place, tmp_path: Path) -> None:
    """A change that a killed worker had begun over servers is begun anew after a minute: that is waited for."""
    killed(tmp_path, place.url(), keys=True, rounds=3 * ROUNDS)
