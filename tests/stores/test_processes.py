"""Many processes on one file: every acknowledged write is there, and nobody is turned away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from offprompt.protocols import run
from offprompt.records import GetSlot, PutSlot, Scope, SlotHistory
from offprompt.service.maintenance import doctor
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock

HERE = Path(__file__).parent
WRITERS, WRITES, READERS, NAMES = 8, 500, 20, 20


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / program), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_8_writers_of_500_and_20_readers(tmp_path: Path) -> None:
    path = tmp_path / "new" / "agent.db"
    readers = [start("reader.py", path, f"u{number % WRITERS}") for number in range(READERS)]
    writers = [start("writer.py", path, f"u{number}", WRITES) for number in range(WRITERS)]
    written = [writer.communicate() for writer in writers]
    read = [reader.communicate() for reader in readers]

    said = "".join(error for _, error in (*written, *read))
    assert said == ""
    assert [process.returncode for process in (*writers, *readers)] == [0] * (WRITERS + READERS)
    assert all(int(output) > 0 for output, _ in read)

    store = SqliteStore(path, clock=MovedClock())
    for number, (output, _) in enumerate(written):
        acknowledged = [tuple(map(int, line.split())) for line in output.splitlines()]
        assert acknowledged == [(write, write // NAMES + 1) for write in range(WRITES)]
        for name in range(NAMES):
            versions = run(store, SlotHistory(Scope(user=f"u{number}"), f"slot{name}"))
            assert [version.version for version in versions] == list(range(16, 26))
            values = [version.value for version in versions]
            assert [value["number"] for value in values if isinstance(value, dict)] == [
                name + NAMES * (version - 1) for version in range(16, 26)
            ]
    assert len(store.events(op="slot.write", limit=10**6)) == WRITERS * WRITES
    reads = sum(int(output) for output, _ in read)
    assert len(store.events(op="slot.read", limit=10**6)) == reads
    assert doctor(store).is_sound
    store.close()


def test_a_fork_takes_neither_connections_nor_waiting_uses_along(tmp_path: Path) -> None:
    scope = Scope(user="u")
    store = SqliteStore(tmp_path / "agent.db", clock=MovedClock())
    run(store, PutSlot(scope, "a", 1, "by_handle"))
    run(store, GetSlot(scope, "a", touch=True))
    ours = set(store._db._idle)  # pyright: ignore[reportPrivateUsage]
    child = os.fork()
    if child == 0:
        # The child must not run the rest of the test session.
        code = 1
        try:
            slot = run(store, GetSlot(scope, "a", touch=True))
            run(store, PutSlot(scope, "b", 2, "by_handle"))
            opened = set(store._db._idle)  # pyright: ignore[reportPrivateUsage]
            store.close()
            code = 0 if slot is not None and slot.uses == 1 and opened and not opened & ours else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run(store, PutSlot(scope, "c", 3, "by_handle"))
    slot, other = store.batch([GetSlot(scope, "a"), GetSlot(scope, "b")])
    assert (slot.uses, other.value) == (2, 2)
    assert doctor(store).is_sound
    store.close()
