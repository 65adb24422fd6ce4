"""Memories as mem0's callers see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from offprompt.compat.mem0.marks import created_at, marks_of, own_metadata, run_of
from offprompt.records import Hit, Memory, MemoryVersion

_MOMENT: Final = timedelta(milliseconds=1)
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC).timestamp()
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_EVENTS: Final[Mapping[str, str]] = {"added": "ADD", "forgotten": "DELETE"}
"""Of a version's outcome; each other one changed something of a memory that stayed."""


def iso(at: float | None) -> str | None:
    """A time as text, ISO 8601 in UTC."""
    return None if at is None else _moment(at).isoformat()


def _moment(at: float) -> datetime:
    """A time of the years 1 to 9999; before or after those the first or last day of them."""
    return datetime.fromtimestamp(min(max(at, _FIRST), _LAST), UTC)


def last_day(memory: Memory) -> str | None:
    """The last day on which it is found, in UTC."""
    if memory.expires_at is None:
        return None
    return (_moment(memory.expires_at) - _MOMENT).date().isoformat()


def item(memory: Memory) -> dict[str, Any]:
    """The whole of a memory."""
    marks = marks_of(memory)
    about = {name: getattr(memory, name) for name in ("kind", "role", "subject", "attribute")}
    return {
        "id": memory.memory_id,
        "memory": memory.text,
        "hash": memory.digest,
        "user_id": memory.scope.user,
        "agent_id": memory.scope.agent,
        "app_id": marks.get("app_id"),
        "run_id": run_of(memory),
        "session_id": run_of(memory),
        "actor_id": memory.speaker or None,
        "role": memory.role or None,
        "metadata": own_metadata(memory),
        "categories": list(memory.tags),
        "created_at": iso(created_at(memory)),
        "updated_at": iso(memory.updated_at),
        "expiration_date": last_day(memory),
        "structured_attributes": {name: value for name, value in about.items() if value},
        "immutable": bool(marks.get("immutable")),
        "feedback": marks.get("feedback"),
        "replaced_by": memory.superseded_by or None,
        "synthesized": False,
        "lifecycle_state": memory.state,
    }


def hit(found: Hit) -> dict[str, Any]:
    """A memory that was found. Scores: as ranking made them, at most 1; the parts are what they are made of."""
    parts = found.parts
    split = {"semantic": parts.get("vector", 0.0), "bm25": parts.get("keyword", 0.0), "entity": parts.get("asked", 0.0)}
    return {**item(found.memory), "score": min(found.score, 1.0), "score_breakdown": split}


def fields_of(shown: Mapping[str, Any], wanted: Sequence[str] | None) -> dict[str, Any]:
    """Those of the fields that were asked for, and the id."""
    return {name: value for name, value in shown.items() if not wanted or name == "id" or name in wanted}


def changes(memory: Memory, versions: Sequence[MemoryVersion]) -> list[dict[str, Any]]:
    """What became of a memory, oldest first. outcome: our word for it, such as `merged` for said once more."""
    told: list[dict[str, Any]] = []
    shown, before = item(memory), None
    for number, version in enumerate(versions):
        event = _EVENTS.get(version.outcome, "UPDATE")
        text = version.text or None
        after = None if event == "DELETE" else text
        told.append(
            {
                "id": f"{memory.memory_id}.{number}",
                "memory_id": memory.memory_id,
                "input": [{"role": memory.role or "user", "content": after}] if after else [],
                "old_memory": before,
                "new_memory": after,
                "event": event,
                "outcome": version.outcome,
                **{name: shown[name] for name in ("user_id", "agent_id", "app_id", "run_id", "session_id", "actor_id")},
                "role": shown["role"],
                "categories": shown["categories"],
                "metadata": {name: value for name, value in version.metadata.items() if name in shown["metadata"]},
                "created_at": iso(created_at(memory)),
                "updated_at": iso(version.at),
                "is_deleted": event == "DELETE",
            }
        )
        before = text
    return told
