"""Tables, times and documents of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len

from offprompt.errors import UsageError
from offprompt.records import Place, Scope, Slot, SlotVersion

NUMBER = re.compile(r"-|-?[\d,]+(\.\d+)?(e[-+]\d+)?( ?[%×])?")


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be (a Han character counts two), numbers to the right; never cut."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(cell_len(row[column]) for row in [list(heads), *cells]) for column in range(len(heads))]
    right = [bool(cells) and all(NUMBER.fullmatch(row[column]) for row in cells) for column in range(len(heads))]
    lines: list[str] = []
    for row in [list(heads), ["-" * width for width in widths], *cells]:
        padded = [
            " " * (width - cell_len(cell)) + cell if to_right else cell + " " * (width - cell_len(cell))
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def shortened(text: str, limit: int = 60) -> str:
    """The text on one line, its end left out when it is long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def moment(at: float | None) -> str:
    """A time in UTC, to the second; empty for None, and the seconds themselves for one that no calendar has."""
    if at is None:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at:g}"


def seconds_of(text: str | None, option: str) -> float | None:
    """Seconds since 1970 of `2026-11-30`, `2026-11-30T10:00:00+08:00` (UTC unless it says) or a number.

    Raises   UsageError naming the option if it is none of these.
    """
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError as exc:
        raise UsageError(f"{option} {text!r} is no time; write 2026-11-30, 2026-11-30T10:00:00Z or seconds") from exc
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def scope_json(scope: Scope) -> dict[str, Any]:
    """A scope's ids, without those that are absent."""
    ids = {kind: getattr(scope, kind) for kind in ("app", "user", "agent", "session", "space")}
    return {kind: value for kind, value in ids.items() if value is not None} | (
        {"shared": True} if scope.shared else {}
    )


def slot_json(slot: Slot) -> dict[str, Any]:
    """A slot as a document, without its value."""
    return {
        "name": slot.name,
        "version": slot.version,
        "policy": slot.policy,
        "trust": slot.trust,
        "source": slot.source,
        "type": slot.kind,
        "bytes": slot.bytes,
        "tags": list(slot.tags),
        "importance": slot.importance,
        "uses": slot.uses,
        "created_at": slot.created_at,
        "updated_at": slot.updated_at,
        "used_at": slot.used_at,
        "expires_at": slot.expires_at,
        "ttl_s": slot.ttl_s,
        "forgotten_at": slot.forgotten_at,
        "locked": slot.locked,
        "allow": [place_json(place) for place in slot.allow],
        "scope": scope_json(slot.scope),
    } | ({"spooled": True} if slot.spooled else {})


def place_json(place: Place) -> dict[str, str]:
    """A place of a handle as a document; without a host where any will do."""
    return {"tool": place.tool, "argument": place.argument} | ({"host": place.host} if place.host else {})


def version_json(version: SlotVersion, *, secret: bool = False) -> dict[str, Any]:
    """A version of a slot as a document; the value of a `never` slot only if `secret`, else there is none."""
    shown = secret or version.policy != "never"
    return (
        {"version": version.version}
        | ({"value": version.value} if shown else {})
        | {
            "policy": version.policy,
            "trust": version.trust,
            "source": version.source,
            "actor": version.actor,
            "written_at": version.written_at,
            "bytes": version.bytes,
            "outcome": version.outcome,
        }
    )
