"""Hidden slots in lists."""

from __future__ import annotations

import pytest

import offprompt
from offprompt.errors import NameInvalidError, NotFoundError, UsageError


def test_a_hidden_split_slot_is_listed_whole_and_comes_back_whole() -> None:
    with offprompt.open(":memory:", max_value_bytes=10) as mem:
        slots = mem.scope(user="ann").slots
        slots.write("notes", "0123456789abcdef", split=True)
        slots.forget("notes")
        assert [slot.name for slot in slots.list(forgotten=True)] == ["notes"]
        assert slots.list() == []
        assert slots.undo("notes").value == "0123456789abcdef"


def test_erase_takes_the_parts_of_a_hidden_slot_with_it() -> None:
    with offprompt.open(":memory:", max_value_bytes=10) as mem:
        slots = mem.scope(user="ann").slots
        slots.write("notes", "0123456789abcdef", split=True)
        slots.forget("notes")
        assert slots.erase("notes") == 3
        assert slots.list(forgotten=True) == []
        with pytest.raises(NotFoundError):
            slots.undo("notes.1")


def test_a_part_is_not_brought_back_alone() -> None:
    with offprompt.open(":memory:", max_value_bytes=10) as mem:
        slots = mem.scope(user="ann").slots
        slots.write("notes", "0123456789abcdef", split=True)
        slots.forget("notes")
        with pytest.raises(NameInvalidError, match="part of the split slot 'notes'"):
            slots.undo("notes.1")
        assert slots.undo("notes").value == "0123456789abcdef"


def test_a_value_over_a_hidden_split_one_leaves_no_parts() -> None:
    with offprompt.open(":memory:", max_value_bytes=10) as mem:
        slots = mem.scope(user="ann").slots
        slots.write("notes", "0123456789abcdef", split=True)
        slots.forget("notes")
        slots.write("notes", "short")
        assert [slot.name for slot in slots.list()] == ["notes"]
        assert slots.list(forgotten=True) == []


def test_erase_takes_no_other_within() -> None:
    with offprompt.open(":memory:") as mem:
        slots = mem.scope(user="ann").slots
        slots.write("a", "1")
        with pytest.raises(UsageError, match="within='all'"):
            slots.erase(within="all")  # pyright: ignore[reportArgumentType]
        with pytest.raises(UsageError, match="since=nan"):
            slots.list(since=float("nan"))
        assert slots.read("a") == "1"
