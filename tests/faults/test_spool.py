"""A server goes away under a process that spools and is killed: all that it said is taken is there in the end, once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import offprompt
from tests.faults.deeds import NAMES, text_of, value_of
from tests.faults.places import SERVED, Place
from tests.faults.proxy import Proxy

ALLOWED_S = 0.2


class Spooler:
    """A process that spools, on a data folder of its own; `taken`: the numbers that it said."""

    def __init__(self, url: str, user: str, folder: Path, first: int) -> None:
        command = [sys.executable, "-m", "tests.faults.spooler", url, user, str(first), str(ALLOWED_S)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_DATA_HOME": str(folder)}
        )
        self.taken: list[tuple[int, str]] = []

    def wait_for(self, more: int) -> None:
        """Until it took so many more."""
        assert self._process.stdout is not None
        for _ in range(more):
            self._hear(self._process.stdout.readline())

    def kill(self) -> None:
        """As a crash does."""
        assert self._process.stdout is not None
        self._process.kill()
        for line in self._process.stdout.read().splitlines(keepends=True):
            self._hear(line)
        self._process.stdout.close()
        self._process.wait()

    def _hear(self, line: str) -> None:
        if line.endswith("\n"):
            number, state = line.split()
            self.taken.append((int(number), state))


def play(
    place: Place, proxies: dict[str, Proxy], folder: Path, monkeypatch: pytest.MonkeyPatch, *, rounds: int, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - when to break, seeded
    url = place.url(**{name: proxy.port for name, proxy in proxies.items()})
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    spooled = 0
    for number in range(rounds):
        user = f"u{number}"
        spooler = Spooler(url, user, folder, 0)
        spooler.wait_for(chance.randrange(1, 8))
        proxy = chance.choice([*proxies.values()])
        chance.choice([Proxy.refuse, Proxy.refuse, Proxy.swallow])(proxy)
        spooler.wait_for(chance.randrange(1, 4))
        sum(range(chance.randrange(0, 200_000)))
        if chance.random() < 0.5:
            proxy.mend()
            spooler.wait_for(1)
        spooler.kill()
        proxy.mend()
        assert [one for one, _ in spooler.taken] == list(range(len(spooler.taken)))
        spooled += sum(state == "spooled" for _, state in spooler.taken)
        check(url, user, len(spooler.taken), (seed, number))
    assert spooled > 0


def check(url: str, user: str, taken: int, where: object) -> None:
    """What was taken is there once, in order; at most one write more."""
    with offprompt.open(url, embedder="none") as memory:
        memory.scope(user="other").write("next", 1)
        scope = memory.scope(user=user)
        versions = {slot.name: slot.version for slot in scope.slots.list("slot*")}
        written = sum(versions.values())
        assert written in (taken, taken + 1), where
        for name, version in versions.items():
            last = int(name.removeprefix("slot")) + NAMES * (version - 1)
            assert scope.read(name) == value_of(last), where
        texts = sorted(one.text for one in scope.memories.list(within="exact", limit=1000).memories)
        assert texts in (sorted(text_of(user, at) for at in range(taken + more)) for more in (0, 1)), where
        assert memory.parts.spool is not None
        assert memory.parts.spool.findings() == [], where


@pytest.mark.parametrize("engine", SERVED)
def test_what_a_killed_process_spooled_is_done_once(
    place: Place, proxies: dict[str, Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(place, proxies, tmp_path / "data", monkeypatch, rounds=3, seed=6)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", SERVED)
def test_what_killed_processes_spooled_30_times_is_done_once(
    place: Place, proxies: dict[str, Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(place, proxies, tmp_path / "data", monkeypatch, rounds=30, seed=8)
