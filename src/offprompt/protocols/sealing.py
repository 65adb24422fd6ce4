"""What seals the records that a store keeps, and opens them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from offprompt.records import Reached
from offprompt.records.tables import Row

Owner: TypeAlias = tuple[str, str, str]
"""Whose key seals a record: app, kind (`user`, `agent`, `session`, `shared`) and id."""


ENCRYPTION: Final = "encryption"
"""The note of a store whose records are sealed: by which keyring, and whether all of them are."""

ResealWork: TypeAlias = Literal["look", "seal", "anew", "purge"]
"""`look`: change nothing. `seal`: seal what is not. `anew`: that, and what is not under its owner's current key.
`purge`: remove what nobody can open, since its key was destroyed."""


class Sealer(Protocol):
    """Seals data under a key of its owner, bound to the place where it is stored. Thread-safe.

    id        of its keyring.
    is_mixed  whether data that was never sealed may stand in the store: it was there before, and `reseal` is not done.
    """

    id: str
    is_mixed: bool

    def refresh(self) -> None:
        """See which keys were destroyed, rotated or made by others. Called once in each transaction that seals."""
        ...

    def seal(self, owner: Owner, place: Sequence[str], data: bytes) -> bytes:
        """The data, sealed under the owner's current key, which is made if it has none.

        place    table and row key: it opens there alone.
        Raises   BackendError if the keyring fails, or the app's key was changed meanwhile.
        """
        ...

    def open(self, owner: Owner | None, place: Sequence[str], sealed: bytes) -> bytes | None:
        """What was sealed there; None: its key was destroyed, so nobody can open it again.

        owner    None: whoever's key it names; else it must be one of the owner's keys, or of whom was joined to it.
        Raises   BackendError if it was altered, moved to another place or owner, or is of another keyring.
        """
        ...

    def is_current(self, owner: Owner | None, sealed: bytes) -> bool:
        """Whether it is sealed under its owner's current key."""
        ...

    def looked_up(self, owner: Owner, text: str) -> str:
        """A keyed digest by which equal texts of one owner are found; the same as long as the owner has a key."""
        ...

    def join(self, app: str, old: str, new: str) -> None:
        """The keys of user `old` are those of user `new` as well: what moves is opened there, and destroyed with it."""
        ...

    def renew(self, owner: Owner) -> str:
        """Give an owner a new key, which seals from now on; its id. Older ones still open what they sealed.

        Raises   NotFoundError if it has none.
        """
        ...

    def destroy(self, owner: Owner) -> tuple[str, ...]:
        """Destroy an owner's keys, and those of whom was joined to it; their ids. What they sealed opens nowhere."""
        ...

    def is_destroyed(self, key_id: str) -> bool:
        """Whether the key of that id was destroyed; asked of the keyring, not of what this object remembers."""
        ...

    def scour(self) -> Reached:
        """Overwrite what destroyed keys leave behind in the keyring, as far as its engine can."""
        ...

    def close(self) -> None:
        """Let go of the keyring."""
        ...


@dataclass(frozen=True, slots=True)
class Resealed:
    """What one page of `reseal` did.

    after    where to go on; None: the table is done.
    rows     looked at. plain: that were not sealed. sealed: that it sealed, anew or for the first time.
    lost     owners of rows whose key was destroyed, with their number; removed: how many of them it removed.
    """

    after: Row | None
    rows: int = 0
    plain: int = 0
    sealed: int = 0
    removed: int = 0
    lost: Mapping[Owner, int] = field(default_factory=dict[Owner, int])


@runtime_checkable
class Sealable(Protocol):
    """An engine that can keep its records sealed."""

    @property
    def sealer(self) -> Sealer | None:
        """What seals; None: nothing is sealed."""
        ...

    def seal_with(self, sealer: Sealer) -> None:
        """Seal what is written from now on, and open what is read; before the first use."""
        ...

    def reseal(self, table: str, work: ResealWork, *, after: Row | None = None, limit: int = 500) -> Resealed:
        """Look at a page of a table's rows, behind the key `after`, and do the work on them, in one transaction.

        Rows     read and written as they are stored: no event is left. A page may be longer than `limit`.
        Raises   UsageError if nothing seals here; BackendError for a row that was altered.
        """
        ...
