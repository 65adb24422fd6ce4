"""What the store does not take in time waits on this machine, in order, and is done once; nothing of it is lost."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import BackendError, LimitError
from offprompt.protocols import run
from offprompt.records import PutSlot
from offprompt.service.checkup import checkup
from offprompt.service.spooling import Spool
from offprompt.service.worker import Worker
from offprompt.testing import MovedClock


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def opened(clock: MovedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    made: list[offprompt.Offprompt] = []

    def open_it(**settings: Any) -> offprompt.Offprompt:
        options: dict[str, Any] = {"write_deadline_s": 0.05, **settings}
        made.append(offprompt.open(tmp_path / "agent.db", clock=clock, **options))
        return made[-1]

    yield open_it
    for memory in made:
        memory.close()


@pytest.fixture
def memory(opened: Callable[..., Any]) -> offprompt.Offprompt:
    return opened()


def spool_of(memory: offprompt.Offprompt) -> Spool:
    assert memory.parts.spool is not None
    return memory.parts.spool


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def busy(tmp_path: Path) -> Generator[None]:
    """Another writer holds the store."""
    other = sqlite3.connect(tmp_path / "agent.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()


def test_writes_wait_in_order_and_are_done_with_the_next_call(
    memory: offprompt.Offprompt, tmp_path: Path, clock: MovedClock
) -> None:
    alice = memory.scope(user="alice")
    alice.write("city", "苏州")
    with busy(tmp_path):
        for value in ("杭州", "上海"):
            slot = alice.write("city", value, tags=["家"], ttl_s=None)
            assert (slot.spooled, slot.version, slot.value) == (True, 0, value)
        told = alice.remember("我养了一只叫豆豆的狗。")
        assert [(one.outcome, one.text) for one in told] == [("spooled", "我养了一只叫豆豆的狗。")]
        assert alice.read("city") == "苏州"
    clock.move(60)
    assert alice.write("other", 1).spooled is False
    assert [one.value for one in alice.slots.history("city")] == ["苏州", "杭州", "上海"]
    assert alice.recall("狗叫什么？").hits[0].text == "我养了一只叫豆豆的狗。"
    assert not spool_of(memory).path.exists()
    events = [event.name for event in alice.events() if event.op in ("slot.write", "memory.add")]
    assert events[0:3] == ["city", "city", "city"]
    assert events[-1] == "other"


def test_what_comes_behind_a_waiting_write_waits_too(
    memory: offprompt.Offprompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, spool = memory.scope(user="alice"), spool_of(memory)

    def away(_one: object) -> None:
        raise BackendError("the store is away; wait")

    with monkeypatch.context() as patch:
        patch.setattr(memory.parts.slots, "batch", away)
        assert alice.write("a", 1).spooled
    with monkeypatch.context() as patch:
        patch.setattr(spool, "perform", away)
        assert alice.write("a", 2).spooled
    assert alice.write("a", 3).version == 3


def test_it_is_off_unless_a_deadline_is_set(opened: Callable[..., Any], tmp_path: Path) -> None:
    memory = opened(write_deadline_s=0, busy_timeout_s=0.05)
    with busy(tmp_path), pytest.raises(BackendError, match=r"kept busy by other writers for 0\.05 s"):
        memory.scope(user="alice").write("city", "杭州")
    assert not spool_of(memory).path.exists()


def test_a_deadline_is_how_long_a_busy_store_is_waited_for(opened: Callable[..., Any], tmp_path: Path) -> None:
    memory = opened(write_deadline_s=0.07)
    with busy(tmp_path), pytest.raises(BackendError, match=r"for 0\.07 s"):
        memory.scope(user="alice").write("city", "杭州", if_version=0)


def test_what_cannot_be_stored_is_refused_as_ever(memory: offprompt.Offprompt, tmp_path: Path) -> None:
    with busy(tmp_path):
        with pytest.raises(LimitError):
            memory.scope(user="alice").write("city", "x" * 5000)
        with pytest.raises(offprompt.UsageError):
            memory.scope(user="alice").write("bad name!", "x")
        with pytest.raises(offprompt.UsageError):
            memory.scope(user="alice").write("city", object())  # pyright: ignore[reportArgumentType]
    assert not spool_of(memory).path.exists()


def test_the_file_is_private_and_holds_nothing_that_was_to_be_taken_out(
    memory: offprompt.Offprompt, tmp_path: Path
) -> None:
    with busy(tmp_path):
        told = memory.scope(user="alice").remember("My card is 4111 1111 1111 1111, keep it.")
    path = spool_of(memory).path
    assert "4111" not in told[0].text
    assert "4111" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_write_that_the_store_refuses_by_then_is_set_aside_and_said(
    memory: offprompt.Offprompt, opened: Callable[..., Any], tmp_path: Path, clock: MovedClock
) -> None:
    alice = memory.scope(user="alice")
    with busy(tmp_path):
        assert alice.write("shape", "no object").spooled
        assert alice.write("city", "杭州").spooled
        clock.move(7)
        waiting = next(one for one in checkup(memory.parts).findings if one.name == "spool")
        assert (waiting.state, waiting.what.partition(" in ")[0]) == ("warn", "2 writes wait")
        assert waiting.what.endswith("the oldest for 7 s")
    run(memory.parts.slots, PutSlot(alice.scope, "shape", {"a": 1}, "by_handle", schema={"type": "object"}))
    (ran,) = [one for one in Worker(opened().parts).run() if one.job == "spool"]
    assert (ran.done, ran.error) == (1, "")
    assert (alice.read("shape"), alice.read("city")) == ({"a": 1}, "杭州")
    (aside,) = [one for one in checkup(memory.parts).findings if one.name == "spool aside"]
    assert "1 writes that waited were refused by the store; the last one: the value for slot 'shape'" in aside.what
    assert [one["what"]["value"] for one in lines(spool_of(memory).aside)] == ["no object"]


def test_the_worker_says_that_writes_wait_on(memory: offprompt.Offprompt, tmp_path: Path) -> None:
    with busy(tmp_path):
        memory.scope(user="alice").write("city", "杭州")

        def away(_one: object) -> None:
            raise BackendError("away; wait")

        spool_of(memory).perform = away
        assert spool_of(memory).replay().left == 1


def test_a_write_whose_end_was_not_known_is_done_once(
    memory: offprompt.Offprompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, real = memory.scope(user="alice"), memory.parts.main.batch

    def stored_but_not_told(ops: Any) -> Any:
        done = real(ops)
        if any(type(op).__name__ == "PutSlot" for op in ops):
            raise BackendError("the connection broke; look")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(memory.parts.main, "batch", stored_but_not_told)
        assert alice.write("city", "杭州").spooled
    assert alice.write("other", 1).version == 1
    assert [one.value for one in alice.slots.history("city")] == ["杭州"]


def test_what_is_erased_does_not_come_back_from_the_spool(memory: offprompt.Offprompt, tmp_path: Path) -> None:
    alice, bob = memory.scope(user="alice"), memory.scope(user="bob")
    with busy(tmp_path):
        alice.write("city", "杭州")
        bob.write("city", "苏州")
        alice.narrow(session="s").write("note", "x")
    alice.clear()
    assert [one["scope"]["user"] for one in lines(spool_of(memory).path)] == ["bob"]
    bob.write("other", 1)
    assert bob.read("city") == "苏州"
    assert alice.slots.list() == []


def test_a_slot_that_is_erased_is_erased_behind_what_waits(memory: offprompt.Offprompt, tmp_path: Path) -> None:
    alice = memory.scope(user="alice")
    with busy(tmp_path):
        alice.write("city", "杭州")
        told = alice.remember("我养了一只狗。")
        assert told[0].outcome == "spooled"
    assert alice.slots.erase("city") == 1
    assert alice.memories.erase() >= 1
    alice.write("other", 1)
    assert [slot.name for slot in alice.slots.list()] == ["other"]
    assert alice.memories.list(states=("live", "superseded")).memories == ()


def test_nothing_overtakes_what_waits(memory: offprompt.Offprompt, tmp_path: Path) -> None:
    al, alice = memory.scope(user="al"), memory.scope(user="alice")
    with busy(tmp_path):
        al.write("nick", "Al")
        alice.write("city", "杭州")
        with pytest.raises(BackendError, match="2 earlier writes wait"):
            alice.write("city", "上海", if_version=1)
        with pytest.raises(BackendError, match="2 earlier writes wait"):
            memory.alias("al", "alice")
    memory.alias("al", "alice")
    assert (alice.read("nick"), alice.read("city")) == ("Al", "杭州")
    assert alice.write("city", "上海", if_version=1).version == 2


def test_a_spool_that_cannot_be_written_is_said(
    memory: offprompt.Offprompt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with busy(tmp_path):
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(BackendError, match=r"cannot be kept in the spool .*No space left on device; nothing was"):
            memory.scope(user="alice").write("city", "杭州")
        monkeypatch.undo()


def test_a_spool_that_is_none_is_said(memory: offprompt.Offprompt) -> None:
    path = spool_of(memory).path
    path.parent.mkdir(parents=True)
    path.write_text("{}\n")
    with pytest.raises(BackendError, match=r"the spool .* cannot be read: .*move the file away"):
        memory.scope(user="alice").write("city", "杭州")


WRITER = """
import os, sqlite3, sys
import offprompt
memory = offprompt.open(sys.argv[1], write_deadline_s=0.001)
alice = memory.scope(user=sys.argv[2])
alice.write("n", -1)
other = sqlite3.connect(sys.argv[1], isolation_level=None)
number = 0
while True:
    if number % 7 == 0:
        other.execute("BEGIN IMMEDIATE")
    if number % 7 == 4:
        other.execute("ROLLBACK")
    slot = alice.write(f"n{number % 40}", number)
    print(number, slot.spooled, flush=True)
    number += 1
"""


def test_killed_writers_lose_and_double_nothing(opened: Callable[..., Any], tmp_path: Path) -> None:
    opened(keep_versions=1000)
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "OFFPROMPT_KEEP_VERSIONS": "1000"}
    told: dict[str, list[int]] = {}
    for round_number in range(2):
        users = [f"u{round_number}{one}" for one in "ab"]
        command = [sys.executable, "-c", WRITER, str(tmp_path / "agent.db")]
        writers = [subprocess.Popen([*command, user], stdout=subprocess.PIPE, text=True, env=environ) for user in users]
        for user, writer in zip(users, writers, strict=True):
            _read_until(writer, told.setdefault(user, []), 15 + 5 * round_number)
        for user, writer in zip(users, writers, strict=True):
            writer.send_signal(signal.SIGKILL)
            assert writer.stdout is not None
            told[user] += [int(line.split()[0]) for line in writer.stdout.read().splitlines() if line[-1:] in "es"]
            writer.stdout.close()
            writer.wait(60)
    memory = opened(keep_versions=1000)
    memory.scope(user="last").write("done", 1)
    assert spool_of(memory).findings() == []
    for user, numbers in told.items():
        stored = _stored(memory, user)
        assert len(stored) == len(set(stored))
        assert set(numbers) <= set(stored)
        assert len(stored) <= len(numbers) + 1


def _read_until(writer: subprocess.Popen[str], numbers: list[int], count: int) -> None:
    assert writer.stdout is not None
    for line in writer.stdout:
        numbers.append(int(line.split()[0]))
        if len(numbers) >= count:
            return


def _stored(memory: offprompt.Offprompt, user: str) -> list[Any]:
    slots = memory.scope(user=user).slots
    return [one.value for slot in slots.list(names="n?*") for one in slots.history(slot.name)]


def test_many_threads_spool_at_once(memory: offprompt.Offprompt, tmp_path: Path) -> None:
    def work(number: int) -> None:
        for one in range(5):
            assert memory.scope(user=f"u{number}").write(f"n{one}", one).spooled

    with busy(tmp_path):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(lines(spool_of(memory).path)) == 30
    memory.scope(user="last").write("done", 1)
    assert all(memory.scope(user=f"u{number}").read(f"n{one}") == one for number in range(6) for one in range(5))
