"""What mem0 says of a memory and our record has no field for, or says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from offprompt.errors import UsageError

MARKS: Final = "mem0"
"""The member of a memory's metadata that holds it: an object of those of PEER_FIELDS that were given."""

PEER_FIELDS: Final = ("app_id", "immutable", "feedback", "feedback_reason")

_DAY: Final = timedelta(days=1)
_DAY_CHARS: Final = len("2030-01-01")


def with_marks(metadata: Mapping[str, Any], marks: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata with what is said; what is null or false is not said, and nothing said adds nothing."""
    said = {name: value for name, value in marks.items() if value}
    return {**metadata, MARKS: said} if said else dict(metadata)


def expiry_of(value: object) -> float | None:
    """When what bears that `expiration_date` expires: a day is its last one; a time is that time.

    Raises   UsageError for what is neither.
    """
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        if at is not None:
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
            return (at + _DAY if len(str(value)) <= _DAY_CHARS else at).timestamp()
    except (ValueError, OverflowError):
        pass
    raise UsageError(f"expiration_date={value!r}: give a day as YYYY-MM-DD, or a time in ISO 8601")
