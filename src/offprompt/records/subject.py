"""SubjectExport: what was written out of all that is stored of one person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offprompt.records.scope import Scope


@dataclass(frozen=True, slots=True)
class SubjectExport:
    """What an export of a person holds.

    at        when it was made, seconds since 1970. scopes: the person's id, and those that were joined to it.
    counts    records by place: the tables of docs/storage-format.md, then `spooled`, `keys`, `grants`, `holds`,
              `vectors`; as an erasure counts them.
    secrets   whether values of `never` slots are in it. withheld: of how many versions the value is left out.
    """

    at: float
    scopes: tuple[Scope, ...]
    counts: Mapping[str, int]
    secrets: bool = False
    withheld: int = 0
