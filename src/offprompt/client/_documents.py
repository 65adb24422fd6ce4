"""Documents of a space: files of this machine, sent to the server that keeps them."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from typing import Any, Final

from offprompt.client._answers import record_of, records_of
from offprompt.client._requests import Asking, Request, asked, id_headers, path_of
from offprompt.errors import ForbiddenError, ScopeError, UsageError
from offprompt.recall.convert.walking import checked_document, walked
from offprompt.records import Scope
from offprompt.records.document import Document, Ingest, Ingested, IngestStep, label_of

MOST_BYTES: Final = 256 * 1024**2
"""Of a file that is read to be sent; the server's own limit is `document_bytes`."""


class DocumentCalls:
    """The calls of both faces; see `offprompt.service.bound.BoundScope`."""

    @asked
    def ingest(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        remove: bool = False,
        progress: Callable[[IngestStep], object] | None = None,
    ) -> Asking[Ingest]:
        """Make the documents at a path of this machine passages of this space, and tell what became of each."""
        return (yield from ingested(_scope(self), path, name=name, remove=remove, progress=progress))

    @asked
    def put_document(self, name: str, data: bytes) -> Asking[Ingested]:
        """Make bytes a document of this space, as `ingest` does with a file; what it is, its name's ending says."""
        return (yield from _put(_scope(self), name, data))

    @asked
    def documents(self) -> Asking[list[Document]]:
        """The documents of this space, by name."""
        return (yield from _listed(_scope(self)))

    @asked
    def forget_document(self, *names: str) -> Asking[list[Ingested]]:
        """Remove documents of this space for good, with their passages; one request for each."""
        told: list[Ingested] = []
        for name in names:
            told += [(yield from _removed(_scope(self), name))]
        return told


def _scope(face: Any) -> Scope:
    """Whose face it is; one awaits nothing for it."""
    return face.scope


def _space(scope: Scope) -> str:
    """The name of the space.

    Raises   UsageError if the scope is none.
    """
    if scope.space is None:
        raise UsageError(f"documents belong to a space, and this scope is {scope}; use space('legal')")
    return scope.space


def ingested(
    scope: Scope,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    remove: bool = False,
    progress: Callable[[IngestStep], object] | None = None,
) -> Asking[Ingest]:
    """See `DocumentCalls.ingest`."""
    space, found = _space(scope), walked(path, name)
    told: list[Ingested] = []
    for at, one in enumerate(found.documents):
        document = label_of(one.name.encode("utf-8", "replace").decode()) if one.why else one.name
        if progress is not None:
            progress(IngestStep(document, at, len(found.documents)))
        try:
            told.append((yield from _put(scope, one.name, one.read(MOST_BYTES))))
        except (ForbiddenError, ScopeError):
            raise
        except UsageError as exc:
            told.append(Ingested("refused", document, why=str(exc)))
    if remove and found.folder:
        there = {unicodedata.normalize("NFC", one.name) for one in found.documents}
        for one in (yield from _listed(scope)):
            if one.name.startswith(found.folder) and one.name not in there:
                told += [(yield from _removed(scope, one.name))]
    if progress is not None:
        progress(IngestStep("", len(found.documents), len(found.documents)))
    return Ingest(space, tuple(told))


def _put(scope: Scope, name: str, data: bytes) -> Asking[Ingested]:
    path = path_of("v1", "spaces", _space(scope), "documents", checked_document(name))
    return record_of((yield Request("PUT", path, content=data, headers=id_headers(scope.app))), Ingested)


def _listed(scope: Scope) -> Asking[list[Document]]:
    found: list[Document] = []
    cursor = None
    while True:
        path = path_of("v1", "spaces", _space(scope), "documents")
        answer = yield Request("GET", path, query={"cursor": cursor}, headers=id_headers(scope.app))
        found += records_of(answer["documents"], Document)
        cursor = answer["cursor"]
        if not cursor:
            return found


def _removed(scope: Scope, name: str) -> Asking[Ingested]:
    path = path_of("v1", "spaces", _space(scope), "documents", checked_document(name))
    return record_of((yield Request("DELETE", path, headers=id_headers(scope.app))), Ingested)
