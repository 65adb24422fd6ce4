"""Documents of a space over HTTP, for admins of the whole app: bytes in, no path of this machine is read or written."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta, Struct

from offprompt.records.document import Document, Ingested
from offprompt.rest.cursors import MAX_PAGE, page_of
from offprompt.rest.endpoint import Call, Endpoint, Example, Pieces, Shape
from offprompt.rest.problems import RequestError
from offprompt.service.bound import BoundScope

TAG: Final = "documents"
PLACE: Final = {"space": "legal", "name": "lease.md"}


class DocumentPage(Shape, kw_only=True, frozen=True):
    """A page of a list. cursor: what the page before says; empty: the first. limit: at most so many."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = MAX_PAGE


class Documents(Struct):
    """Documents by name. cursor: of the next page, empty on the last."""

    documents: list[Document]
    cursor: str = ""


def put(call: Call) -> Ingested:
    """The bytes of a file; what it is, the end of its name says. The same once more changes nothing.

    `refused`: it cannot be read, and `why` says so; then what was there stays. A document is seen whole, before or
    after. A slash in its name is written %2F.
    """
    space, limit = _space(call), call.memory.parts.settings.document_bytes
    return space.put_document(call.path["name"], _whole(call.body, limit))


def list_documents(call: Call) -> Documents:
    """By name."""
    query: DocumentPage = call.query
    found = _space(call).documents()
    return Documents(*page_of(found, lambda one: (one.name,), cursor=query.cursor, limit=query.limit))


def remove(call: Call) -> Ingested:
    """For good, with its passages; there is no undo."""
    return _space(call).forget_document(call.path["name"])[0]


def _space(call: Call) -> BoundScope:
    return call.memory.space(call.path["space"], app=call.whole_app, actor=call.identity.actor)


def _whole(pieces: Iterable[bytes], limit: int) -> bytes:
    """All of the body.

    Raises   RequestError 413 as soon as it is too long.
    """
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) > limit:
            raise RequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the document has more than {limit:,} bytes; split it, or raise the server's document_bytes",
            )
    return bytes(found)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/spaces/{space}/documents",
        "list_documents",
        list_documents,
        "List the documents of a space.",
        TAG,
        role="admin",
        query=DocumentPage,
        answer=Documents,
        is_scoped=False,
        example=Example(path={"space": "legal"}),
    ),
    Endpoint(
        "PUT",
        "/v1/spaces/{space}/documents/{name}",
        "put_document",
        put,
        "Store a document.",
        TAG,
        role="admin",
        body=Pieces(),
        answer=Ingested,
        is_scoped=False,
        example=Example(path=PLACE, content="# Notice\n\nEither side may end the lease with a month's notice.\n"),
    ),
    Endpoint(
        "DELETE",
        "/v1/spaces/{space}/documents/{name}",
        "forget_document",
        remove,
        "Remove a document.",
        TAG,
        role="admin",
        answer=Ingested,
        is_scoped=False,
        example=Example(path=PLACE, before=("put_document",)),
    ),
)
