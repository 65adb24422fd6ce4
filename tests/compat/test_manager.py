"""MemoryManager: code that was pasted from a sketch of such a manager runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from offprompt.compat import MemoryManager
from offprompt.errors import ScopeError
from tests.rest.running import running


@pytest.mark.parametrize(("slot", "value"), [("user_pref", "concise, Chinese"), ("口味", {"辣": True})])
def test_pasted_code_runs_in_process(slot: str, value: object) -> None:
    memory = MemoryManager()
    try:
        assert memory.mem_write(slot, value)  # pyright: ignore[reportArgumentType]
        assert memory.mem_read(slot) == value
        assert memory.snapshot() == {slot: value}
        assert memory.mem_forget(slot)
        assert memory.mem_read(slot) is None
        assert memory.mem_read(slot, "unknown") == "unknown"
        assert not memory.mem_forget(slot)
        assert memory.snapshot() == {}
    finally:
        memory.close()


def test_two_in_one_process_share_nothing() -> None:
    with MemoryManager() as one, MemoryManager() as other:
        one.mem_write("city", "Porto")
        assert other.snapshot() == {}


def test_with_a_place_it_is_there_next_time(tmp_path: Path) -> None:
    place = str(tmp_path / "agent.db")
    with MemoryManager(place, user="alice") as memory:
        memory.mem_write("city", "上海")
    with MemoryManager(place, user="alice") as memory:
        assert memory.snapshot() == {"city": "上海"}
    with MemoryManager(place, user="bob") as memory:
        assert memory.snapshot() == {}


def test_with_a_server_s_address_it_is_there() -> None:
    with running() as server, MemoryManager(server.url, user="小明") as memory:
        assert memory.mem_write("city", "上海")
        assert (memory.mem_read("city"), memory.mem_read("town")) == ("上海", None)
        assert memory.snapshot() == {"city": "上海"}
        assert (memory.mem_forget("city"), memory.mem_forget("city")) == (True, False)


def test_with_a_place_and_nobody_it_says_whose_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ScopeError):
        MemoryManager(str(tmp_path / "agent.db"))
