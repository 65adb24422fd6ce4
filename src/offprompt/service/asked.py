"""What a turn's actions ask for, and how often: the loop guard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from offprompt.records import Action, JournalEntry, fold_name
from offprompt.service.action_problems import NeedsError
from offprompt.wire.actions import parse_actions
from offprompt.wire.handles import find_handles

MAX_RUN: Final = 2
"""A page is read, then said to be shown above; a third time it is not run, and a fourth ends the turn's loop."""


@dataclass(slots=True)
class Asked:
    """How often each page of each name was asked for since it last changed."""

    times: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    @classmethod
    def of(cls, entries: Iterable[JournalEntry]) -> Asked:
        """What a turn's replies asked for, in order; so it is right on every branch, and in every process."""
        asked = cls()
        for entry in entries:
            if entry.kind == "assistant":
                for action, receipt in zip(parse_actions(dict(entry.message)).actions, entry.receipts, strict=False):
                    if action.name == "mem_read":
                        asked.note(action)
                    elif action.name in ("mem_write", "mem_forget") and receipt.ok:
                        asked.renew(receipt.name)
        return asked

    def note(self, action: Action) -> int:
        """One more read; how often this page was asked for, 0 if the action does not say which."""
        page, name = page_of(action), named(action)
        if page is None or not name:
            return 0
        key = (fold_name(name), page)
        self.times[key] = self.times.get(key, 0) + 1
        return self.times[key]

    def renew(self, name: str) -> None:
        """A name stands for something else from now on: it may be asked for again."""
        folded = fold_name(name)
        self.times = {key: times for key, times in self.times.items() if key[0] != folded}

    @property
    def looping(self) -> bool:
        """Whether a page was asked for once more after the model was told to answer."""
        return any(times > MAX_RUN + 1 for times in self.times.values())


def named(action: Action) -> str:
    """The slot argument as a plain name, whether it came as a name or as a handle; empty if there is none."""
    slot = action.arguments.get("slot")
    if not isinstance(slot, str):
        return ""
    slot = slot.strip()
    handles = find_handles(slot)
    return handles[0].name if handles and handles[0].start == 0 and handles[0].end == len(slot) else slot


def slot_name(action: Action) -> str:
    """`named`, or a NeedsError."""
    name = named(action)
    if not name:
        raise NeedsError("slot")
    return name


def page_of(action: Action) -> int | None:
    """The page that a read asks for, the first if it does not say; None if it is no page."""
    page = action.arguments.get("page", 1)
    if isinstance(page, str) and page.isascii() and page.isdigit():
        page = int(page[:9])
    return page if isinstance(page, int) and not isinstance(page, bool) and page >= 1 else None
