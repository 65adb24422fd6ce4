"""Server-sent events: bytes to events, and back; what is not changed goes on as the bytes that came.

Source   WHATWG HTML, section 9.2, Server-sent events.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from offprompt.records import as_dict, as_list

LINE_END: Final = r"(?:\r\n|\n|\r(?!\n))"
LINES: Final = re.compile(LINE_END)
BLANK: Final = re.compile((LINE_END * 2).encode())
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 200
"""How deep an event may be nested that is read; a deeper one goes on as it came."""

HALVES: Final = "backslashreplace"
"""How JSON text becomes bytes: half a character, which UTF-8 cannot write, becomes its JSON escape."""


class EventTooLongError(ValueError):
    """An event that does not end."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. raw: its bytes, with the empty line behind it; data: what it carries, None if that is no object.

    is_end   it says `[DONE]`.
    """

    raw: bytes
    data: dict[str, Any] | None
    is_end: bool = False


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
        found = BLANK.search(self._held, max(self._seen - 3, 0))
        self._seen = len(self._held)
        return -1 if found is None else found.end()

    def last(self) -> ServerEvent | None:
        """What stands behind the last empty line, if that is an event: some servers end without one."""
        event = _event(bytes(self._held))
        return event if event.is_end or event.data is not None else None


def _event(raw: bytes) -> ServerEvent:
    lines = LINES.split(raw.decode("utf-8-sig", "replace"))
    given = [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]
    text = "\n".join(given)
    try:
        data = read_json(text) if given else None
        is_read = text.count("[") + text.count("{") <= MAX_DEPTH or _is_flat(data)
        return ServerEvent(raw, data if is_read else None)
    except ValueError:
        return ServerEvent(raw, None, is_end=text.strip() == "[DONE]")


def _is_flat(data: Any) -> bool:
    """Whether it is nested no deeper than MAX_DEPTH."""
    level: list[Any] = [data]
    for _ in range(MAX_DEPTH):
        level = [one for each in level for one in ((as_dict(each) or {}).values() or as_list(each) or [])]
        if not level:
            return True
    return False


def read_json(raw: bytes | str) -> dict[str, Any] | None:
    """A document as it came; None if it is no object.

    Raises   ValueError for what is no JSON, or is nested so deep that nobody here can read it.
    """
    try:
        return as_dict(json.loads(raw))
    except RecursionError as exc:
        raise ValueError("it is nested too deep") from exc


def event_bytes(data: dict[str, Any], *, named: bool) -> bytes:
    """An event that carries the data; named: by its `type`."""
    name = f"event: {data.get('type')}\n" if named else ""
    return b"%sdata: %s\n\n" % (name.encode("utf-8", HALVES), json_bytes(data))


def json_bytes(data: dict[str, Any]) -> bytes:
    """A document as it is sent: half a character as its JSON escape, and numbers that are none, as they came."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", HALVES)
