"""What an answer is for: memories that may not be used for it are not found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from offprompt.recall.filters import Fits, compile_filter
from offprompt.records import Memory
from offprompt.records.basis import may_be_used, named_purposes


def usable(purposes: Iterable[str], filters: Mapping[str, Any] | Fits | None = None) -> Fits:
    """Whether a memory may be used for one of the purposes, and passes the filters.

    Raises   UsageError for purposes that are no list of names, and for none: leave them out for any.
    """
    named = frozenset(named_purposes(purposes))
    fits = filters if callable(filters) else compile_filter(filters)

    def both(memory: Memory) -> bool:
        return may_be_used(memory.tags, named) and fits(memory)

    return both
