"""Erasure: what is left to tell of a user, an agent or a session of which all was removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from offprompt.errors import UsageError
from offprompt.records.scope import SPACE_MARK, Scope

NOBODY: Final = "erased"
"""The actor of an event that was done by, or for, somebody who was erased."""

OwnerKind: TypeAlias = Literal["user", "agent", "session", "space"]


def owner_of(scope: Scope) -> tuple[OwnerKind, str]:
    """The kind and id of what is erased whole.

    Raises   UsageError unless the scope is one user, agent, session or space.
    """
    given: tuple[tuple[OwnerKind, str | None], ...] = (
        ("user", scope.user),
        ("agent", scope.agent),
        ("session", scope.session),
        ("space", scope.space),
    )
    ids: list[tuple[OwnerKind, str]] = [(kind, value) for kind, value in given if value is not None]
    if len(ids) != 1:
        raise UsageError(
            f"the scope {scope} is not one user, agent, session or space; erase one of these whole, or remove "
            "what lies in a narrower scope with clear"
        )
    return ids[0]


def cell_of(scope: Scope) -> tuple[str, str, str]:
    """Where rows name what is erased whole: the column, what stands there, and the mark with which that begins."""
    kind, name = owner_of(scope)
    return ("agent", SPACE_MARK + name, SPACE_MARK) if kind == "space" else (kind, name, "")


def instead_of(scope: Scope, pseudonym: str, *, of: Scope) -> Scope:
    """A scope with a pseudonym in place of the owner's id, and without the session's: what an event may still say."""
    kind, _ = owner_of(of)
    return replace(scope, shared=False, **{"session": None, kind: pseudonym})


@dataclass(frozen=True, slots=True)
class Reached:
    """What an engine did with what deleted rows leave behind.

    done         what it overwrote or let go of. not_reached: copies that it knows of, and that it cannot reach.
    """

    done: tuple[str, ...] = ()
    not_reached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ErasedStore:
    """One engine's part in an erasure. role: `memories` (and all the rest), `slots` or `vectors`."""

    role: str
    engine: str
    done: tuple[str, ...] = ()
    not_reached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What was erased, by which it can be checked later.

    scopes       whose it was: a user with the ids that were joined to it, an agent or a session. They stand here alone:
                 the store has the pseudonym.
    pseudonym    what events say instead of the id.
    counts       how many of each kind went: `slots`, `memories`, `sessions`, `spooled`, `events` (masked), `keys`,
                 `grants`.
    memory_ids   ids of the memories that went, the first 10,000.
    data_keys    ids of the keys that sealed it and were destroyed, where what is stored is sealed.
    key_prints   digests of the digest keys that were destroyed.
    not_reached  copies that no store reaches: backups, what lies on other machines.
    seal         keyed digest of all the rest, by a key that the store has.
    """

    receipt_id: str
    at: float
    scopes: tuple[Scope, ...]
    pseudonym: str
    counts: Mapping[str, int]
    stores: tuple[ErasedStore, ...]
    memory_ids: tuple[str, ...] = ()
    key_prints: tuple[str, ...] = ()
    not_reached: tuple[str, ...] = ()
    seal: str = ""
    data_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold: what is a user's, an agent's or a session's is not erased until it is lifted."""

    scope: Scope
    reason: str
    at: float
    actor: str = "app"
