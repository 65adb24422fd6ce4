"""What redacts and seals, made from the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from offprompt.config import Settings
from offprompt.errors import UsageError
from offprompt.privacy.redact import CheckedRedactor
from offprompt.records import Place, Scope
from offprompt.records.redaction import KINDS, SpanKind
from offprompt.service.sealing import Sealer
from offprompt.service.slot_writer import Kit
from offprompt.wire.places import clean_place

ALL: Final = "all"


def check_redaction(settings: Settings) -> None:
    """Nothing, if what the settings say of redaction can be done. Raises as `redactor_of` and `sealing_of`."""
    redactor_of(settings)
    sealing_of(settings)


def redactor_of(settings: Settings) -> CheckedRedactor | None:
    """The redactor of the settings; None: nothing is taken out.

    Raises   UsageError for a kind or region that is none, UnsupportedError for a kind whose library is not installed.
    """
    if settings.redact == "off":
        return None
    kinds = (*_kinds(settings.redact_kinds), *_kinds(settings.redact_seal))
    regions = [region.upper() for region in _listed(settings.redact_regions)]
    return CheckedRedactor(kinds, regions=regions, names=_listed(settings.redact_names))


def sealing_of(settings: Settings) -> dict[SpanKind, tuple[Place, ...]]:
    """The kinds that are sealed, each with the places where its handles resolve.

    Raises   UsageError for a kind that is none or not sealed, or a place that is none.
    """
    sealed = _kinds(settings.redact_seal)
    places: dict[SpanKind, tuple[Place, ...]] = dict.fromkeys(sealed, ())
    by_name: dict[str, SpanKind] = {str(kind): kind for kind in sealed}
    for line in filter(None, (one.strip() for one in settings.redact_allow.split(";"))):
        named, *rest = line.split()
        kind = by_name.get(named)
        if kind is None:
            raise UsageError(f"redact_allow: {named!r} is not sealed; name it in redact_seal, or leave {line!r} out")
        if len(rest) not in (2, 3):
            raise UsageError(f"redact_allow: {line!r} is no place; write KIND TOOL ARGUMENT, and a HOST if it has one")
        places[kind] = (*places[kind], clean_place(*rest))
    return places


def sealer_of(settings: Settings, kit: Kit, keys: Callable[[Scope], bytes]) -> Sealer | None:
    """What seals; None: nothing is sealed. keys: of a scope's owner. Raises as `sealing_of`."""
    places = sealing_of(settings)
    return Sealer(kit, keys, frozenset(places), places) if places and settings.redact != "off" else None


def _listed(text: str) -> list[str]:
    return [one for one in (one.strip() for one in text.replace("，", ",").split(",")) if one]


def _kinds(text: str) -> tuple[SpanKind, ...]:
    """The kinds as they are written; whether they are any, the redactor says."""
    listed = _listed(text)
    return KINDS if ALL in listed else tuple(cast("list[SpanKind]", listed))
