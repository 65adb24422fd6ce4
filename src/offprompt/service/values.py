"""Checks of what callers hand to a slot: values, tags, options."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import POLICIES, Default, Json, fold_name

MAX_TAGS: Final = 16
MAX_TAG_CHARS: Final = 64


def checked_value(name: str, value: object) -> Json:
    """The value, if it is JSON whose text can be stored.

    Raises   UsageError if it is not JSON, or changes when written as JSON (a tuple, a key that is not text).
    """
    way_out = "pass text, numbers, true, false, null, lists, or objects with text keys"
    try:
        if isinstance(value, str):
            value.encode()
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
        if json.loads(text) != value:
            raise UsageError(f"the value for slot {name!r} changes when it is written as JSON; {way_out}")
    except (TypeError, ValueError, RecursionError) as exc:
        if isinstance(exc, UsageError):
            raise
        kind = type(value).__name__
        raise UsageError(f"the value for slot {name!r} (a {kind}) is not JSON: {_cause(exc)}; {way_out}") from exc
    return value  # type: ignore[return-value]


def _cause(exc: Exception) -> str:
    if isinstance(exc, UnicodeEncodeError):
        return f"half a character (a lone surrogate) at position {exc.start}"
    return "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc).split(":")[0]


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags folded, each once.

    Raises   UsageError for one text instead of a list.
    """
    if isinstance(tags, str):
        raise UsageError(f"tags={tags!r} is one text; pass a list, such as tags=[{tags!r}]")
    return tuple(dict.fromkeys(fold_name(tag).strip() for tag in tags))


def checked_options(
    name: str,
    ttl_s: float | Default | None,
    tags: Iterable[str] | None,
    importance: float | None,
    policy: str | None,
    if_version: int | None,
) -> dict[str, Any]:
    """The options as fields of a PutSlot.

    Raises   UsageError naming the option, its value and the rule.
    """
    if isinstance(ttl_s, (int, float)) and not 0 < ttl_s < float("inf"):
        raise UsageError(f"ttl_s={ttl_s!r} for slot {name!r}: give seconds above 0, or None for ever")
    if importance is not None and not 0 <= importance <= 1:
        raise UsageError(f"importance={importance!r} for slot {name!r}: give a number from 0 to 1")
    if policy is not None and policy not in POLICIES:
        raise UsageError(f"policy={policy!r} for slot {name!r}: the policies are {', '.join(POLICIES)}")
    if if_version is not None and if_version < 0:
        raise UsageError(f"if_version={if_version!r} for slot {name!r}: give 0 (not there) or the version")
    cleaned = None if tags is None else checked_tags(tags)
    if cleaned is not None and (len(cleaned) > MAX_TAGS or not all(1 <= len(tag) <= MAX_TAG_CHARS for tag in cleaned)):
        raise UsageError(
            f"{len(cleaned)} tags for slot {name!r}: give at most {MAX_TAGS} of 1 to {MAX_TAG_CHARS} characters"
        )
    return {"ttl_s": ttl_s, "tags": cleaned, "importance": importance, "if_version": if_version}


def pieces(text: str, max_bytes: int) -> list[str]:
    """The text in pieces of at most that many UTF-8 bytes, cut between characters."""
    pieces, rest = list[str](), text.encode()
    while rest:
        piece = rest[:max_bytes].decode(errors="ignore")
        pieces.append(piece)
        rest = rest[len(piece.encode()) :]
    return pieces
