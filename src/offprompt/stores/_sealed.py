"""Sealed texts and bytes in the cells of rows, in every engine alike."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from offprompt.errors import BackendError
from offprompt.protocols.sealing import Owner, Sealer

MARK: Final = "\x1fsealed:"
"""What a sealed text begins with, and sealed bytes."""


class Seal:
    """Seals and opens cells within one transaction. sealer: None seals nothing, and takes what is sealed as it is."""

    def __init__(self, sealer: Sealer) -> None:
        self.sealer = sealer
        self._is_fresh = False

    def text(self, owner: Owner, place: Sequence[str], text: str) -> str:
        """A text, sealed."""
        self.refresh()
        data = text.encode("utf-8", "surrogatepass")
        return MARK + base64.b64encode(self.sealer.seal(owner, place, data)).decode()

    def opened(self, owner: Owner | None, place: Sequence[str], text: str) -> str | None:
        """The text that was sealed; None: its key was destroyed.

        Raises   BackendError as Sealer.open, and for a text that is not sealed in a store where all are.
        """
        if not text.startswith(MARK):
            self._check_mixed(place)
            return text
        data = self.sealer.open(owner, place, sealed_part(text, place))
        return None if data is None else data.decode("utf-8", "surrogatepass")

    def data(self, owner: Owner, place: Sequence[str], data: bytes) -> bytes:
        """Bytes, sealed."""
        self.refresh()
        return MARK.encode() + self.sealer.seal(owner, place, data)

    def opened_data(self, owner: Owner | None, place: Sequence[str], data: bytes) -> bytes | None:
        """The bytes that were sealed; None: their key was destroyed."""
        if not data.startswith(MARK.encode()):
            self._check_mixed(place)
            return data
        return self.sealer.open(owner, place, data[len(MARK) :])

    def refresh(self) -> None:
        """See Sealer.refresh; once."""
        if not self._is_fresh:
            self.sealer.refresh()
            self._is_fresh = True

    def _check_mixed(self, place: Sequence[str]) -> None:
        if not self.sealer.is_mixed:
            raise BackendError(
                f"a row of table {place[0]} ({place[-1]!r}) is not sealed, in a store where all are: another program "
                "wrote it, or an older copy was put here; restore a backup, or seal what is there: offprompt encrypt"
            )


def moved(table: str, name: str) -> BackendError:
    """The error for a record that stands in the place of another."""
    return BackendError(
        f"a row of table {table} ({name!r}) was moved from another place; restore a backup of the store"
    )


def sealed_part(text: str, place: Sequence[str]) -> bytes:
    """The sealed bytes of a sealed text.

    Raises   BackendError if it is cut or altered.
    """
    try:
        return base64.b64decode(text[len(MARK) :], validate=True)
    except ValueError as exc:
        raise BackendError(
            f"a row of table {place[0]} ({place[-1]!r}) was altered: what is sealed in it is no base64; "
            "restore a backup of the store"
        ) from exc


def is_sealed(cell: object) -> bool:
    """Whether a cell holds something sealed."""
    return (isinstance(cell, str) and cell.startswith(MARK)) or (
        isinstance(cell, bytes) and cell.startswith(MARK.encode())
    )
