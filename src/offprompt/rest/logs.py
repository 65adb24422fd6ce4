"""The server's log: a line for each request, and what the server and its libraries say; never a value.

A line of a request holds what `Seen` holds. An error that nobody expected is logged with its class and where it was
raised, without its message: that may hold anything. Of other libraries' messages, the text before it was filled in.
"""

from __future__ import annotations

import logging
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, TextIO, TypeAlias

import msgspec

from offprompt.rest.watched import Seen

LogKind: TypeAlias = Literal["json", "text", "off"]

OURS: Final = ("offprompt", "uvicorn")
"""Loggers whose messages hold no values: our own, and that of the server below us."""

_encode: Final = msgspec.json.Encoder().encode


class RequestLog:
    """Writes the lines of requests. out: where to; None: stderr.

    A line is one write, so that the lines of several processes do not mix. One that cannot be written is lost: no
    request fails for it.
    """

    def __init__(self, kind: Literal["json", "text"], out: TextIO | None = None) -> None:
        self._is_json, self._out = kind == "json", out

    def begun(self, seen: Seen) -> None:
        """Nothing: there is one line for each request, and it is written in the end."""

    def ended(self, seen: Seen) -> None:
        """Write the request's line."""
        with suppress(OSError, ValueError):  # ValueError: the stream is closed
            out = self._out or sys.stderr
            out.write(_json_line(seen) if self._is_json else _text_line(seen))
            out.flush()


def log_to(kind: LogKind, out: TextIO | None = None) -> RequestLog | None:
    """Send this process's logging to `out` (None: stderr) in that form; returns what writes the lines of requests.

    Of our own loggers from INFO, of all others from WARNING; `off`: errors alone, as text.
    """
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setFormatter(_Json() if kind == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR if kind == "off" else logging.WARNING)
    logging.getLogger("offprompt").setLevel(logging.ERROR if kind == "off" else logging.INFO)
    logging.captureWarnings(capture=True)
    return None if kind == "off" else RequestLog(kind, out)


def _stamp(moment: float) -> str:
    """A moment in UTC with milliseconds, as ISO 8601 writes it."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(moment))}.{int(moment % 1 * 1000):03}Z"


def _json_line(seen: Seen) -> str:
    line: dict[str, Any] = {
        "time": _stamp(time.time()),
        "request": seen.request,
        "method": seen.method,
        "route": seen.route,
        "status": seen.status,
        "ms": round(seen.seconds * 1000, 3),
        "bytes_in": seen.bytes_in,
        "bytes_out": seen.bytes_out,
        "key": seen.key,
        "app": seen.app,
    }
    if seen.memory:
        line["memory"] = seen.memory
    if seen.code:
        line["code"] = seen.code
    if seen.trace:
        line["trace"] = seen.trace
    if not seen.whole:
        line["broken_off"] = True
    return f"{_encode(line).decode()}\n"


def _text_line(seen: Seen) -> str:
    parts = [
        _stamp(time.time()),
        str(seen.status),
        seen.method,
        seen.route,
        f"{seen.seconds * 1000:.1f} ms",
        f"{seen.bytes_in} in",
        f"{seen.bytes_out} out",
        f"request={seen.request}",
    ]
    named = {"key": seen.key, "app": seen.app, "memory": seen.memory, "code": seen.code, "trace": seen.trace}
    parts += [f"{name}={text}" for name, text in named.items() if text]
    return f"{' '.join(parts)}{'' if seen.whole else ' broken off'}\n"


class _Text(logging.Formatter):
    """A record in one line: time, level, logger, message, and where an error was raised."""

    def format(self, record: logging.LogRecord) -> str:
        where = _raised(record)
        said = _said(record)
        return f"{_stamp(record.created)} {record.levelname} {record.name}: {said}{f' [{where}]' if where else ''}"


class _Json(logging.Formatter):
    """The same as a JSON document."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _stamp(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": _said(record),
        }
        if where := _raised(record):
            line["error"] = where
        return _encode(line).decode()


def _said(record: logging.LogRecord) -> str:
    """Our own messages as they are; of others the text before it was filled in, and where it was said."""
    if record.name.partition(".")[0] in OURS:
        return record.getMessage().replace("\n", " ").strip()
    text = record.msg if isinstance(record.msg, str) and record.args else ""
    return f"{text} ({Path(record.pathname).name}:{record.lineno})".strip()


def _raised(record: logging.LogRecord) -> str:
    """The class of the record's error and of what it came from, each with where it was raised; no message."""
    error = record.exc_info[1] if record.exc_info else None
    parts: list[str] = []
    while error is not None and len(parts) < 10:
        parts.append(f"{type(error).__qualname__} at {_places(error.__traceback__)}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return " from ".join(parts)


def _places(traceback: TracebackType | None) -> str:
    places: list[str] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(f"{Path(code.co_filename).name}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return " > ".join(places[-12:]) or "?"
