"""Many processes on one file: a statement that several add is stored once, erase finds all, readers see each change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from offprompt.protocols import apply
from offprompt.records import (
    AddMemory,
    EraseMemories,
    ForgetMemories,
    ListMemories,
    LoadIndex,
    Memory,
    MemoryOp,
    MemoryQuery,
    RestoreMemories,
    Scope,
    UpdateMemory,
)
from offprompt.service.maintenance import doctor
from offprompt.service.remembering import digest_of
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.memory_kit import memory_of
from tests.stores.memory_writer import indexed_of, text_of

HERE = Path(__file__).parent
SAME, WRITERS, WRITES = 40, 8, 150


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / program), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def listed(store: SqliteStore, scope: Scope) -> list[Memory]:
    return apply(store, ListMemories(MemoryQuery(scope, "exact")))


def test_two_processes_that_add_the_same_statements_store_each_once(tmp_path: Path) -> None:
    path, scope = tmp_path / "agent.db", Scope(user="u")
    writers = [start("memory_writer.py", path, "u", SAME, "both") for _ in range(2)]
    said = [writer.communicate() for writer in writers]
    assert [error for _, error in said] == ["", ""]
    lines = [line.split() for output, _ in said for line in output.splitlines()]
    store = SqliteStore(path, clock=MovedClock())
    rows = listed(store, scope)
    assert sorted(row.text for row in rows) == sorted(text_of("both", number) for number in range(SAME))
    assert [row.repeats for row in rows] == [1] * SAME
    assert sorted(outcome for _, outcome, _ in lines) == ["added"] * SAME + ["merged"] * SAME
    by_number = {number: memory_id for number, outcome, memory_id in lines if outcome == "added"}
    assert all(by_number[number] == memory_id for number, _, memory_id in lines)
    assert doctor(store).is_sound
    store.close()


def test_8_processes_add_and_one_erases(tmp_path: Path) -> None:
    path, scope = tmp_path / "agent.db", Scope(user="u")
    eraser = start("memory_writer.py", path, "u", "erase")
    writers = [start("memory_writer.py", path, "u", WRITES, f"writer{number}") for number in range(WRITERS)]
    written = [writer.communicate() for writer in writers]
    erased, trouble = eraser.communicate()
    assert "".join([trouble, *(error for _, error in written)]) == ""
    added = {line.split()[2] for output, _ in written for line in output.splitlines()}
    store = SqliteStore(path, clock=MovedClock())
    rows = listed(store, scope)
    assert len(added) == WRITERS * WRITES
    assert len(added) == len(rows) + sum(map(int, erased.splitlines()))
    assert {row.memory_id for row in rows} <= added
    page = apply(store, LoadIndex(scope))
    assert [memory for memory, _ in page.rows] == rows
    assert [indexed for _, indexed in page.rows] == [indexed_of(row.memory_id, row.text) for row in rows]
    assert doctor(store).is_sound
    apply(store, EraseMemories(scope))
    store.close()
    assert not any(b"writer0" in file.read_bytes() for file in path.parent.iterdir())


def test_a_reader_of_another_process_sees_each_change(tmp_path: Path) -> None:
    path, scope = tmp_path / "agent.db", Scope(user="u")
    store = SqliteStore(path, clock=MovedClock())
    reader = start("memory_reader.py", path, "u")

    def ask() -> dict[str, Any]:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write("where is the tea?\n")
        reader.stdin.flush()
        return json.loads(reader.stdout.readline())

    tea, milk = (memory_of(f"the {what} is in the kitchen", scope, expires_at=9e9) for what in ("tea", "milk"))
    text = "the coffee is in the cellar"
    ours = Scope(user="u2")
    changes: list[list[MemoryOp[Any]]] = [
        [AddMemory(tea, indexed_of(tea.memory_id, tea.text))],
        [AddMemory(milk)],
        [AddMemory(memory_of("the tea is nobody's business here", ours))],
        [UpdateMemory(scope, tea.memory_id, text=text, digest=digest_of(text))],
        [UpdateMemory(scope, milk.memory_id, archived=True)],
        [UpdateMemory(scope, milk.memory_id, archived=False)],
        [ForgetMemories(scope, (tea.memory_id,))],
        [RestoreMemories(scope, (tea.memory_id,))],
        [EraseMemories(scope, (milk.memory_id,)), AddMemory(memory_of("the tea is by the door", scope))],
        [EraseMemories(scope)],
    ]
    seen = [ask()]
    for change in changes:
        store.apply(change)
        rows = listed(store, scope)
        seen.append(ask())
        assert seen[-1]["texts"] == {row.memory_id: row.text for row in rows}
        assert seen[-1]["size"] == len(rows)
        assert seen[-1]["hits"] == sorted(row.memory_id for row in rows if "tea" in row.text)
    assert [each["size"] for each in seen] == [0, 1, 2, 2, 2, 1, 2, 1, 2, 2, 0]
    _, trouble = reader.communicate()
    assert trouble == ""
    store.close()
