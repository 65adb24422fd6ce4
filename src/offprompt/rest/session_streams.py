"""A model's reply that is sent up while it comes: its lines, its chunks, and what is answered to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

import msgspec

from offprompt.errors import OffpromptError, UsageError
from offprompt.rest.problems import RequestError, problem_of
from offprompt.rest.session_shapes import Absorbed, Piece
from offprompt.service.session import Session

MAX_STREAM_BYTES: Final = 64 * 1024 * 1024
EVENT_FIELDS: Final = (b"", b"event", b"id", b"retry")
"""Lines of an event stream that carry no data."""


def pieces_of(session: Session, lines: Iterator[bytes]) -> Iterator[Piece]:
    """The answer to the provider's chunks in lines: what the reader gets for each, then the whole or a problem."""
    stream = session.absorb_stream(_chunks(lines))
    try:
        for chunk in stream:
            yield Piece(chunk)
    except OffpromptError as exc:
        yield Piece(problem=problem_of(exc)[0])
        return
    yield Piece(absorbed=Absorbed(stream.reply, session.underway, session.last_entry))


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a body.

    Raises   RequestError 413 for more than a reply may be.
    """
    rest, size = b"", 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_STREAM_BYTES:
            raise RequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the stream has more than {MAX_STREAM_BYTES:,} bytes; what came before is absorbed as cut",
            )
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    yield rest


def _chunks(lines: Iterator[bytes]) -> Iterator[Any]:
    """The chunks in lines of JSON, or of an event stream."""
    for line in lines:
        name, colon, data = line.strip().partition(b":")
        if colon and name in EVENT_FIELDS:
            continue
        text = data.strip() if colon and name == b"data" else line.strip()
        if text and text != b"[DONE]":
            try:
                yield msgspec.json.decode(text)
            except msgspec.DecodeError as exc:
                raise UsageError(f"a line of {len(line):,} bytes is no JSON; send the provider's chunks") from exc
