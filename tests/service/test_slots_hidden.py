"""Hidden slots in lists."""

from __future__ import annotations

import offprompt


def test_a_hidden_split_slot_is_listed_whole_and_comes_back_whole() -> None:
    with offprompt.open(":memory:", max_value_bytes=10) as mem:
        slots = mem.scope(user="ann").slots
        slots.write("notes", "0123456789abcdef", split=True)
        slots.forget("notes")
        assert [slot.name for slot in slots.list(forgotten=True)] == ["notes"]
        assert slots.list() == []
        assert slots.undo("notes").value == "0123456789abcdef"
