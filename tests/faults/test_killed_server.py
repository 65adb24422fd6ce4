"""`kill -9` of a server, or of one of its processes, in the middle of writes: a writer that lives goes on."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests import servers
from tests.faults.deeds import close, do, look, opened, touch, uses
from tests.faults.places import SERVED, TEMPLATES, Place
from tests.servers import Server


@pytest.fixture
def own(engine: str, tmp_path: Path) -> Iterator[tuple[Place, dict[str, Server]]]:
    """The engine on servers of its own."""
    template, needed = TEMPLATES[engine]
    with ExitStack() as stack:
        started = {name: stack.enter_context(servers.running(servers.own(name))) for name in needed}
        ports = {name: server.port for name, server in started.items()}
        yield Place(template, ports, tmp_path, "killed"), started


class Writer(threading.Thread):
    """Does deeds, without keys, until it is told to end: a server that comes back is waited for.

    done     how many are. broke: what ended it before its time.
    """

    def __init__(self, url: str, user: str) -> None:
        super().__init__(daemon=True)
        self.engines, self.user = opened(url), user
        self.done, self.broke = 0, list[BaseException]()
        self.over, self.moved = threading.Event(), threading.Condition()

    def run(self) -> None:
        try:
            while not self.over.is_set():
                do(self.engines, self.user, self.done, keyed=False)
                touch(self.engines, self.user)
                with self.moved:
                    self.done += 1
                    self.moved.notify_all()
        except BaseException as exc:  # noqa: BLE001 - told by the main thread
            self.broke.append(exc)
            with self.moved:
                self.moved.notify_all()

    def wait_for(self, more: int) -> None:
        """Until so many more deeds are done."""
        with self.moved:
            upto = self.done + more
            assert self.moved.wait_for(lambda: self.done >= upto or self.broke, 60), "no deed was done in 60 s"
        assert self.broke == []


def children(server: Server) -> list[int]:
    """The processes of a server beside its first one."""
    listed = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []


def play(place: Place, started: dict[str, Server], rounds: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - when to kill, seeded
    writer = Writer(place.url(), "u")
    writer.start()
    for _ in range(rounds):
        writer.wait_for(chance.randrange(1, 12))
        sum(range(chance.randrange(0, 200_000)))
        server = started[chance.choice(sorted(started))]
        own = children(server)
        if own and chance.random() < 0.4:  # then PostgreSQL ends all others, and begins anew by itself
            with suppress(ProcessLookupError):
                os.kill(chance.choice(own), signal.SIGKILL)
            continue
        server.kill()
        server.start()
    writer.wait_for(1)
    writer.over.set()
    writer.join(60)
    assert writer.broke == []
    done = look(writer.engines, "u")
    assert done == type(done)(writer.done, writer.done, writer.done), (seed, writer.done, done)
    assert uses(writer.engines, "u") == (writer.done, writer.done), seed
    close(writer.engines)


@pytest.mark.parametrize("engine", SERVED)
def test_nothing_acknowledged_is_lost_when_the_server_is_killed_10_times(
    own: tuple[Place, dict[str, Server]],
) -> None:
    play(*own, 10, seed=5)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", SERVED)
def test_nothing_acknowledged_is_lost_when_the_server_is_killed_100_times(
    own: tuple[Place, dict[str, Server]],
) -> None:
    play(*own, 100, seed=13)
