"""Basis: what a record may be used for, and the consent that it rests on: tags, and where tags go they go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from offprompt.errors import UsageError
from offprompt.records.slot import fold_name

PURPOSE: Final = "purpose:"
CONSENT: Final = "consent:"
MAX_CHARS: Final = 100


def basis(purpose: str | None, consent: str | None) -> tuple[str, ...]:
    """The tags of a purpose and a consent; None: none is named.

    Raises   UsageError for what is no text, is empty, or longer than MAX_CHARS.
    """
    named = (("purpose", PURPOSE, purpose), ("consent", CONSENT, consent))
    return tuple(prefix + basis_name(what, name) for what, prefix, name in named if name is not None)


def basis_name(what: str, name: object) -> str:
    """A purpose or a consent as it is kept: folded, so that spelling makes no difference.

    Raises   UsageError naming it.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_CHARS:
        raise UsageError(f"{what}={name!r}: give a name of 1 to {MAX_CHARS} characters, such as {what}='support'")
    return fold_name(name).strip()


def basis_of(tags: Iterable[str]) -> tuple[str, ...]:
    """Those of the tags that say a purpose or a consent."""
    return tuple(tag for tag in tags if tag.startswith((PURPOSE, CONSENT)))


def plain_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The other tags: names by which a value is asked for."""
    return tuple(tag for tag in tags if not tag.startswith((PURPOSE, CONSENT)))


def purposes_of(tags: Iterable[str]) -> tuple[str, ...]:
    """What a record of these tags may be used for; none: for anything."""
    return tuple(tag.removeprefix(PURPOSE) for tag in tags if tag.startswith(PURPOSE))


def consents_of(tags: Iterable[str]) -> tuple[str, ...]:
    """The consents that a record of these tags rests on."""
    return tuple(tag.removeprefix(CONSENT) for tag in tags if tag.startswith(CONSENT))


def may_be_used(tags: Iterable[str], purposes: frozenset[str]) -> bool:
    """Whether a record may be used for one of the purposes: it names one of them, or none."""
    named = purposes_of(tags)
    return not named or not purposes.isdisjoint(named)


def named_purposes(purposes: Iterable[str]) -> list[str]:
    """What an answer is for, as it is kept.

    Raises   UsageError for what is no list of names, and for none.
    """
    if isinstance(purposes, str):
        raise UsageError(f"purposes={purposes!r} is one text; pass a list, such as purposes=[{purposes!r}]")
    named = [basis_name("purposes", one) for one in purposes]
    if not named:
        raise UsageError("purposes=[] names none; name what the answer is for, or leave it out")
    return named
