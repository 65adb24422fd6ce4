"""Memories out and in as streams of lines; no path of this machine is ever read for a caller, or written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from offprompt.errors import BackendError, ForbiddenError, OffpromptError, UsageError
from offprompt.records import Scope
from offprompt.records.imported import Imported, Reindexed
from offprompt.records.json import as_dict
from offprompt.rest.endpoint import Call, Endpoint, Example, Lines, LinesOf, Pieces, decoded
from offprompt.rest.memory_shapes import ImportOptions, Where
from offprompt.rest.problems import RequestError, problem_of
from offprompt.rest.reading import MAX_LINE_BYTES
from offprompt.service.exporting import FORMAT, exported
from offprompt.service.importing import MAX_HEAD_BYTES, imports
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.reindexing import batches

TAG: Final = "transfer"
UPLOAD: Final = "upload.jsonl"
"""What a file without a name is called."""

MAX_NAME_BYTES: Final = 255
MAX_IMPORT_BYTES: Final = 1024**3
MAX_DOCUMENT_BYTES: Final = 64 * 1024**2
"""Of our own export, and of anything else, which is held in memory while it is read."""


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

    A chat log's sessions are named after its file, and `.jsonl` at the end of the name says that it is lines and not
    one document. It is taken whole before anything is stored; then each batch is stored and reported. A report with a
    `code` is a problem that ended it.
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
        name = _file_name(call)
        with tempfile.TemporaryDirectory(prefix="offprompt-") as folder:
            path = Path(folder) / name
            _spool(call.body, path)
            derive = options.derive == "rules"
            for done in imports(kit, scope, path, rescope=options.rescope, derive=derive, name=name):
                yield _report(done)
                counts = done.added, done.known
            yield Report(*counts, [], done=True)
    except OSError as exc:
        raise BackendError(
            f"the server cannot keep the upload while it is read: {exc.strerror or exc}; free room"
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


def _file_name(call: Call) -> str:
    """The name of the file, which is no path.

    Raises   UsageError for one that is no name.
    """
    given = call.headers.get("offprompt-file")
    name = UPLOAD if given is None else decoded("Offprompt-File", given)
    is_name = name.isprintable() and "/" not in name and "\\" not in name and name.strip(". ")
    if not is_name or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise UsageError(f"Offprompt-File: {name[:40]!r} is no file's name; send such as chat.jsonl, without folders")
    return name


def _spool(pieces: Iterable[bytes], path: Path) -> None:
    """The bytes into a private file. Our own export is read line by line; of others as much as a whole one is at once.

    Raises   RequestError 413 for too many, or for a line that is too long.
    """
    size, line, head, most = 0, 0, b"", MAX_DOCUMENT_BYTES
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for piece in pieces:
            if len(head) < MAX_HEAD_BYTES:
                head += piece[:MAX_HEAD_BYTES]
                most = MAX_IMPORT_BYTES if _is_ours(head.partition(b"\n")[0]) else MAX_DOCUMENT_BYTES
            size += len(piece)
            if size > most:
                raise _too_much(f"more than {most:,} bytes at once; send them in parts")
            ends = piece.rfind(b"\n")
            line = line + len(piece) if ends < 0 else len(piece) - ends - 1
            if line > MAX_LINE_BYTES and most == MAX_IMPORT_BYTES:
                raise _too_much(f"a line of more than {MAX_LINE_BYTES:,} bytes; a memory has one that is shorter")
            file.write(piece)


def _is_ours(line: bytes) -> bool:
    """Whether it is the head of an export of ours."""
    try:
        return (as_dict(msgspec.json.decode(line)) or {}).get("format") == FORMAT
    except (ValueError, RecursionError):
        return False


def _too_much(why: str) -> RequestError:
    return RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)


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
        body=Pieces(is_file=True),
        answer=LinesOf(Report),
        example=Example(content='{"messages": [{"role": "user", "content": "I moved to Shanghai in May."}]}\n'),
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
