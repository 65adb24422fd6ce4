"""Memories out to a file of our own lines, which `importing` reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from offprompt.errors import UsageError
from offprompt.protocols import apply, run
from offprompt.records import Json, ListMemories, ListSecrets, MemoryQuery, MemoryState, Scope, Within, compact
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.scrubber import Scrubber, map_arguments
from offprompt.service.turn import NAME_ROOM

FORMAT: Final = "offprompt-memories"
VERSION: Final = 1
PAGE: Final = 200
STATES: Final[tuple[MemoryState, ...]] = ("live", "superseded", "archived")
MADE_ANEW: Final = ("superseded_by", "revision", "digest", "state_at")
"""Fields of a memory that an import makes anew; but the digest of a passage, which tells its document too."""


def export_file(kit: MemoryKit, scope: Scope, path: Path, within: Within, *, secrets: bool = False) -> int:
    """Write the lines of `exported` to a new file that only its owner may read; returns how many memories.

    Raises   UsageError if the file is there or cannot be written, BackendError if the store fails; then there is none.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}; give a path that is free") from exc
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            return sum(1 for line in exported(kit, scope, within, secrets=secrets) if file.write(line + "\n")) - 1
    except BaseException as exc:
        path.unlink(missing_ok=True)
        if isinstance(exc, OSError):
            raise UsageError(f"{path} cannot be written: {exc.strerror or exc}; free space, or give another") from exc
        raise


def exported(kit: MemoryKit, scope: Scope, within: Within, *, secrets: bool = False) -> Iterator[str]:
    """One JSON text a line: a head, then the memories in order of creation; what was forgotten is left out.

    secrets  values of `never` slots as they are; else handles stand in their place, however they are spelled.
    Cost     O(memories); one page of them is held at a time.
    """
    hiders: dict[Scope, Callable[[str], str]] = {}
    yield compact({"format": FORMAT, "version": VERSION, "scope": _ids(scope)})
    query = MemoryQuery(scope, within, states=STATES, limit=PAGE)
    while rows := apply(kit.memories, ListMemories(query)):
        for row in rows:
            record = {name: value for name, value in asdict(row).items() if name not in MADE_ANEW and name != "scope"}
            if row.kind == "passage":
                record["digest"] = row.digest
            line = compact({**record, "tags": list(row.tags), "scope": _ids(row.scope)})
            if not secrets and row.scope not in hiders:
                hiders[row.scope] = secret_hider(kit, row.scope)
            yield line if secrets else map_arguments(line, hiders[row.scope])
        query = replace(query, after=rows[-1].memory_id)


def secret_hider(kit: MemoryKit, scope: Scope) -> Callable[[str], str]:
    """Puts handles in place of the secrets that the scope knows."""
    hidden: dict[str, Json] = {}
    for name, value in run(kit.slots.slots, ListSecrets(scope.inherited())):
        hidden[name if name not in hidden else f"{name[:NAME_ROOM]}.v{len(hidden) + 1}"] = value
    return Scrubber(hidden, {}).hide if hidden else str


def _ids(scope: Scope) -> dict[str, str]:
    return {kind: value for kind in ("app", "user", "agent", "space") if (value := getattr(scope, kind)) is not None}
