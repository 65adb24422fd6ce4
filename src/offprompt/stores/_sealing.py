"""What engines that keep their records sealed have in common."""

from __future__ import annotations

from collections.abc import Callable

from offprompt.errors import BackendError, UsageError
from offprompt.protocols.sealing import Sealer
from offprompt.records import Scope
from offprompt.records.scope import key_owner
from offprompt.stores._sealed import Seal
from offprompt.stores._sealed_rows import SealedRows
from offprompt.stores._sealed_sessions import key_place
from offprompt.stores._session_rules import new_key


class Sealing:
    """The part of an engine that knows what seals, if anything does."""

    _sealer: Sealer | None = None

    @property
    def sealer(self) -> Sealer | None:
        """See Sealable."""
        return self._sealer

    def seal_with(self, sealer: Sealer) -> None:
        """See Sealable."""
        self._sealer = sealer

    def _rows_for(self, scope_of: Callable[[str, str], Scope | None]) -> SealedRows:
        if self._sealer is None:
            raise UsageError("nothing seals this store: set encryption_keyring and where the app's key comes from")
        return SealedRows(self._sealer, scope_of)


def digest_key(
    scope: Scope,
    sealer: Sealer | None,
    read: Callable[[], bytes | None],
    make: Callable[[bytes, bytes | None], bytes],
) -> bytes:
    """See SessionStore.digest_key.

    read  the key as it is stored. make: stores the given one if there is none, or if it is still the second, which
          nobody can open any more; gives the one that is stored then.
    """
    found, owner = read(), key_owner(scope)
    if sealer is None:
        return found or make(new_key(), None)
    seal, place = Seal(sealer), key_place(owner)
    key = None if found is None else seal.opened_data(owner, place, found)
    if key is None:
        stored = make(seal.data(owner, place, new_key()), found)
        key = seal.opened_data(owner, place, stored)
    if key is None:
        raise BackendError(f"the key of {scope} was destroyed by another just now; try again")
    return key
