"""Memories out and in as streams of lines; no path of this machine is ever read for a caller, or written."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from offprompt.errors import BackendError, ForbiddenError, OffpromptError
from offprompt.records import Scope
from offprompt.records.imported import Imported, Reindexed
from offprompt.rest.endpoint import Call, Endpoint, Lines, LinesOf, Pieces
from offprompt.rest.memory_shapes import ImportOptions, Where
from offprompt.rest.problems import RequestError, problem_of
from offprompt.service.exporting import exported
from offprompt.service.importing import imports
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.reindexing import batches

TAG: Final = "transfer"
UPLOAD: Final = "the upload"
MAX_IMPORT_BYTES: Final = 1024**3


class Refused(Struct):
    """A line that was left out. line: from 1; 0: one that is known by its id only."""

    line: int
    why: str


class Report(Struct):
    """How far an import is: memories added, and known already, so far; what was left out since the report before.

    done   all was read. Without a report that says so it broke off: send the same once more.
    """

    added: int
    known: int
    refused: list[Refused]
    done: bool = False


def export(call: Call) -> Lines:
    """A head, then one memory a line in order of creation; what was forgotten is left out."""
    query: Where = call.query
    scope, kit = _own(call)
    call.scope.actor.check_within(scope, query.within)
    if query.secrets and not call.identity.may("admin"):
        raise ForbiddenError("secrets=true needs the role 'admin'; leave it out, and handles stand in their place")
    lines = exported(kit, scope, query.within, secrets=query.secrets)
    return Lines(msgspec.Raw(line.encode("utf-8", "replace")) for line in lines)


def import_lines(call: Call) -> Lines:
    """Our own export, one of mem0, or a chat log, as it stands in its file; once more, it changes nothing.

    It is taken whole before anything is stored; then each batch is stored and reported. A report with a `code` is a
    problem that ended it.
    """
    return Lines(_told(_stored(call, call.query)), is_live=True)


def reindex(call: Call) -> Lines:
    """Vectors of the embedder in use, for this scope and those below it; a report behind each batch, and at the end."""
    call.scope.actor.check_within(call.scope.scope, "subtree")
    return Lines(_told(_reindexed(call)), is_live=True)


def _own(call: Call) -> tuple[Scope, MemoryKit]:
    return call.scope.scope.without_session(), call.memory.parts.memories.kit


def _stored(call: Call, options: ImportOptions) -> Iterator[object]:
    scope, kit = _own(call)
    try:
        counts = 0, 0
        with tempfile.NamedTemporaryFile(prefix="offprompt-", suffix=".jsonl" if options.lines else ".json") as file:
            _spool(call.body, file)
            derive = options.derive == "rules"
            for done in imports(kit, scope, Path(file.name), rescope=options.rescope, derive=derive, name=UPLOAD):
                yield _report(done)
                counts = done.added, done.known
            yield Report(*counts, [], done=True)
    except OSError as exc:
        raise BackendError(
            f"the server cannot keep {UPLOAD} while it is read: {exc.strerror or exc}; free room"
        ) from exc


def _report(done: Imported) -> Report:
    refused = [Refused(one.line, one.why) for one in done.refused]
    done.refused.clear()
    return Report(done.added, done.known, refused)


def _told(documents: Iterator[object]) -> Iterator[object]:
    """The documents; an error behind the first one as a last document."""
    first = next(documents, None)
    if first is None:
        return
    yield first
    try:
        yield from documents
    except OffpromptError as exc:
        yield problem_of(exc)[0]


def _spool(pieces: Iterable[bytes], file: Any) -> None:
    """The bytes into the file.

    Raises   RequestError 413 if they are too many.
    """
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_IMPORT_BYTES:
            raise RequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"more than {MAX_IMPORT_BYTES:,} bytes at once; send it in parts",
            )
        file.write(piece)
    file.flush()


def _reindexed(call: Call) -> Iterator[object]:
    scope, kit = _own(call)
    done = 0
    for count in batches(kit, scope):
        done += count
        yield Reindexed(done, "")
    last = call.scope.memories.reindex()
    yield Reindexed(done + last.done, last.embedder, last.mended)


ENDPOINTS: Final = (
    Endpoint(
        "GET", "/v1/export", "export", export, "Memories as lines.", TAG, query=Where, answer=LinesOf(dict[str, Any])
    ),
    Endpoint(
        "POST",
        "/v1/import",
        "import",
        import_lines,
        "Store what lines hold.",
        TAG,
        role="write",
        query=ImportOptions,
        body=Pieces(),
        answer=LinesOf(Report),
    ),
    Endpoint(
        "POST",
        "/v1/reindex",
        "reindex",
        reindex,
        "Make vectors that are lacking.",
        TAG,
        role="admin",
        answer=LinesOf(Reindexed),
    ),
)
