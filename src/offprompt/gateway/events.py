"""Server-sent events: bytes to events, and back; what is not changed goes on as the bytes that came.

Source   WHATWG HTML, section 9.2, Server-sent events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from offprompt.records import as_dict, compact

ENDS: Final = (b"\r\n\r\n", b"\n\n", b"\r\r")
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024


class EventTooLongError(ValueError):
    """An event that does not end."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. raw: its bytes, with the empty line behind it; data: what it carries, None if that is no object."""

    raw: bytes
    data: dict[str, Any] | None


class EventReader:
    """Cuts a stream of bytes into events, wherever the pieces end."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._seen = 0

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that are whole by now.

        Raises   EventTooLongError for one over MAX_EVENT_BYTES.
        """
        self._held += piece
        events: list[ServerEvent] = []
        while (end := self._end()) >= 0:
            events.append(_event(bytes(self._held[:end])))
            del self._held[:end]
            self._seen = 0
        if len(self._held) > MAX_EVENT_BYTES:
            raise EventTooLongError(f"an event of the upstream has over {MAX_EVENT_BYTES:,} bytes")
        return events

    def _end(self) -> int:
        """Where the first event ends, -1 if it is not whole."""
        start = max(self._seen - 3, 0)
        found = [(at, at + len(mark)) for mark in ENDS if (at := self._held.find(mark, start)) >= 0]
        self._seen = len(self._held)
        return min(found)[1] if found else -1

    def rest(self) -> bytes:
        """What stands behind the last whole event."""
        return bytes(self._held)


def _event(raw: bytes) -> ServerEvent:
    lines = raw.decode("utf-8", "replace").splitlines()
    data = [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]
    try:
        return ServerEvent(raw, as_dict(json.loads("\n".join(data))) if data else None)
    except ValueError:
        return ServerEvent(raw, None)


def event_bytes(data: dict[str, Any], *, named: bool) -> bytes:
    """An event that carries the data; named: by its `type`."""
    name = f"event: {data.get('type')}\n" if named else ""
    return f"{name}data: {compact(data)}\n\n".encode()
