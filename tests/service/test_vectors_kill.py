"""`kill -9` of a writer whose vectors lie in Chroma: what the index was not told waits, and nothing is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import offprompt
from offprompt.protocols import apply
from offprompt.records import WaitingVectors
from offprompt.service.vector_check import compare, tell_all
from tests.servers import Server

WRITER = """
import sys, offprompt
memories = offprompt.open(sys.argv[1]).scope(user="a").memories
first = int(sys.argv[2])
for number in range(first, first + 10_000):
    (done,) = memories.remember(f"note {number} of the boat, 第 {number} 号", derive="none")
    if number % 3 == 1:
        memories.update(done.name, text=f"note {number} of the ship")
    if number % 5 == 2:
        memories.forget(done.name)
    print(number, flush=True)
"""


def play(folder: Path, server: Server, rounds: int) -> None:
    chance = random.Random(rounds)  # noqa: S311 - when to kill, seeded
    url = f"memories={folder}/agent.db vectors=chroma://127.0.0.1:{server.port}?collection=k{uuid.uuid4().hex}"
    stored: list[int] = []
    for _ in range(rounds):
        first = stored[-1] + 2 if stored else 0
        command = [sys.executable, "-c", WRITER, url, str(first)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(chance.randrange(1, 9))]
        sum(range(chance.randrange(0, 500_000)))
        process.kill()
        said += process.stdout.read().splitlines(keepends=True)
        process.stdout.close()
        process.wait()
        stored += [int(line) for line in said if line.endswith("\n")]
        with offprompt.open(url) as memory:
            access = memory.parts.memories
            link = access.kit.vectors
            assert link is not None
            tell_all(link)
            assert apply(access.store, WaitingVectors()) == ()
            found = compare(link, access.store)
            assert (found.missing, found.other, found.extra) == (0, 0, 0)
            texts = {one.text for one in memory.scope(user="a").memories.list(limit=100_000)}
            numbers = {int(text.split()[1]) for text in texts}
            assert numbers >= {number for number in stored if number % 5 != 2}
            assert found.entries == len(texts)


def test_the_index_is_in_step_after_2_kills(tmp_path: Path, chroma_server: Server) -> None:
    play(tmp_path, chroma_server, 2)


@pytest.mark.long
def test_the_index_is_in_step_after_50_kills(tmp_path: Path, chroma_server: Server) -> None:
    play(tmp_path, chroma_server, 50)
