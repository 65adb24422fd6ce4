"""Files and folders into a space."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from typing import TypeAlias

from offprompt.errors import UsageError
from offprompt.recall.convert.walking import walked
from offprompt.records.document import Ingest, Ingested, IngestStep, label_of
from offprompt.service.ingesting import Ingester

Progress: TypeAlias = Callable[[IngestStep], object]


def ingest_path(
    ingester: Ingester,
    path: str | os.PathLike[str],
    *,
    limit: int,
    name: str | None = None,
    remove: bool = False,
    progress: Progress | None = None,
) -> Ingest:
    """What became of each document at a path; see `BoundScope.ingest`. limit: bytes of one document."""
    found = walked(path, name)
    files, told = found.documents, list[Ingested]()
    for at, one in enumerate(files):
        document = label_of(one.name.encode("utf-8", "replace").decode()) if one.why else one.name

        def tell(done: int, of: int, at: int = at, document: str = document) -> None:
            if progress is not None:
                progress(IngestStep(document, at, len(files), done, of))

        tell(0, 0)
        try:
            data = one.read(limit)
        except UsageError as exc:
            told.append(Ingested("refused", document, why=str(exc)))
            continue
        told.append(ingester.put(one.name, data, tell=tell))
    if remove and found.folder:
        there = {unicodedata.normalize("NFC", one.name) for one in files}
        names = [one.name for one in ingester.documents() if one.name.startswith(found.folder)]
        told += ingester.forget(*(one for one in names if one not in there))
    if progress is not None:
        progress(IngestStep("", len(files), len(files)))
    return Ingest(ingester.scope.space or "", tuple(told))
