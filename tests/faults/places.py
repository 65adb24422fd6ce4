"""The URLs of engines, with the ports of their servers, or of what stands before them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.stores.schemas import drop_schema

_POSTGRES: Final = "postgresql://postgres@127.0.0.1:{postgres}/postgres?schema={name}"
_FILE: Final = "{folder}/数据/agent.db"
TEMPLATES: Final = {
    "sqlite": (_FILE, ()),
    "postgres": (_POSTGRES, ("postgres",)),
    "redis": (f"memories={_FILE} slots=redis://127.0.0.1:{{redis}}/0?prefix={{name}}", ("redis",)),
    "valkey": (f"memories={_FILE} slots=valkey://127.0.0.1:{{valkey}}/0?prefix={{name}}", ("valkey",)),
    "postgres and redis": (
        f"memories={_POSTGRES} slots=redis://127.0.0.1:{{redis}}/0?prefix={{name}}",
        ("postgres", "redis"),
    ),
}
"""By engine: its URL, and the servers that it needs. A Redis has the slots, SQLite or PostgreSQL all the rest."""

ENGINES: Final = tuple(TEMPLATES)
SERVED: Final = ENGINES[1:]
"""Those with a server."""


@dataclass(frozen=True)
class Place:
    """An engine's place: a folder or the name of a schema or prefix."""

    template: str
    ports: dict[str, int]
    folder: Path
    name: str

    def url(self, **ports: int) -> str:
        """The URL; ports: of what stands before a server."""
        return self.template.format(folder=self.folder, name=self.name, **(self.ports | ports))


def drop(place: Place) -> None:
    """Remove the place's schema, where it has one."""
    if "postgres" in place.ports:
        drop_schema(place.ports["postgres"], place.name)
