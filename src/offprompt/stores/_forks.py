"""What stores do around a fork, so that a child never inherits a lock that nobody will give back."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final, Protocol


class Forkable(Protocol):
    """Something with locks or open files."""

    def before_fork(self) -> None:
        """Wait until no other thread is inside, and keep them out."""
        ...

    def after_fork(self, *, in_child: bool) -> None:
        """Let them in again; in the child there is no other thread."""
        ...


_followed: Final[weakref.WeakSet[Forkable]] = weakref.WeakSet()
_adding: Final = threading.RLock()
# What `before_fork` was called for: others may be garbage, or new, by the time of `after_fork`.
_held: Final[list[Forkable]] = []


def follow(store: Forkable) -> None:
    """Call the store around each fork of this process, as long as it lives."""
    with _adding:
        _followed.add(store)


def _before() -> None:
    _adding.acquire()
    for store in list(_followed):
        store.before_fork()
        _held.append(store)


def _after(*, in_child: bool) -> None:
    while _held:
        _held.pop().after_fork(in_child=in_child)
    _adding.release()


os.register_at_fork(
    before=_before,
    after_in_parent=lambda: _after(in_child=False),
    after_in_child=lambda: _after(in_child=True),
)
