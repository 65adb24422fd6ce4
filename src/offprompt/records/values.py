"""Checks of what callers hand in: values, tags, options, conditions, times."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard, TypeVar

from offprompt.errors import UsageError
from offprompt.records.json import Json, as_dict, as_list
from offprompt.records.scope import WITHIN
from offprompt.records.slot import DEFAULT, POLICIES, RESERVED_PREFIX, Default, fold_name

C = TypeVar("C", bound=str)

MAX_TAGS: Final = 16
MAX_TAG_CHARS: Final = 64


def checked_value(name: str, value: object) -> Json:
    """The value, if it is JSON whose text can be stored.

    Raises   UsageError if it is not JSON, or changes when written as JSON (a tuple, a key that is not text).
    """
    way_out = "pass text, numbers, true, false, null, lists, or objects with text keys"
    try:
        if type(value) is str:
            value.encode()
            return value
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
        if json.loads(text) != value:
            raise UsageError(f"the value for slot {name!r} changes when it is written as JSON; {way_out}")
    except (TypeError, ValueError, RecursionError) as exc:
        if isinstance(exc, UsageError):
            raise
        kind = type(value).__name__
        # The cause holds the value, and what reports errors prints causes.
        raise UsageError(f"the value for slot {name!r} (a {kind}) is not JSON: {_cause(exc)}; {way_out}") from None
    return value  # type: ignore[return-value]


def _cause(exc: Exception) -> str:
    if isinstance(exc, UnicodeEncodeError):
        return f"half a character (a lone surrogate) at position {exc.start}"
    return "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc).split(":")[0]


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags folded, each once.

    Raises   UsageError for one text instead of a list, and for anything that is no list of texts.
    """
    if isinstance(tags, str):
        raise UsageError(f"tags={tags!r} is one text; pass a list, such as tags=[{tags!r}]")
    found = list(tags) if isinstance(tags, Iterable) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if found is None or not all(isinstance(tag, str) for tag in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"tags={tags!r}: give a list of texts, such as tags=['food']")
    return tuple(dict.fromkeys(fold_name(tag).strip() for tag in found))


def checked_options(
    name: str,
    ttl_s: float | Default | None,
    tags: Iterable[str] | None,
    importance: float | None,
    policy: str | None,
    if_version: int | None,
    schema: object = None,
) -> dict[str, Any]:
    """The options as fields of a PutSlot; the schema is looked at only.

    Raises   UsageError naming the option, its value and the rule.
    """
    if ttl_s is not None and ttl_s is not DEFAULT and not (is_number(ttl_s) and 0 < ttl_s < float("inf")):
        raise UsageError(f"ttl_s={ttl_s!r} for slot {name!r}: give seconds above 0, or None for ever")
    if importance is not None and not (is_number(importance) and 0 <= importance <= 1):
        raise UsageError(f"importance={importance!r} for slot {name!r}: give a number from 0 to 1")
    if schema is not None and not isinstance(schema, Mapping):
        raise UsageError(
            f"schema for slot {name!r} is a {type(schema).__name__}: give a JSON Schema as a dict, "
            "such as schema={'type': 'object'}"
        )
    if policy is not None and policy not in POLICIES:
        raise UsageError(f"policy={policy!r} for slot {name!r}: the policies are {', '.join(POLICIES)}")
    checked_version(f"slot {name!r}", if_version)
    cleaned = None if tags is None else checked_tags(tags)
    if cleaned is not None and (len(cleaned) > MAX_TAGS or not all(1 <= len(tag) <= MAX_TAG_CHARS for tag in cleaned)):
        raise UsageError(
            f"{len(cleaned)} tags for slot {name!r}: give at most {MAX_TAGS} of 1 to {MAX_TAG_CHARS} characters"
        )
    return {"ttl_s": ttl_s, "tags": cleaned, "importance": importance, "if_version": if_version}


def checked_version(what: str, version: object) -> None:
    """Nothing, if it can be the version that must be current, 0 for "not there", or is None for any.

    Raises   UsageError naming it, and what it is a version of.
    """
    if version is not None and not (is_whole(version) and version >= 0):
        raise UsageError(f"if_version={version!r} for {what}: give 0 (not there) or the version")


def check_unversioned(memory_id: str, version: object) -> None:
    """Nothing, if no version is asked for where a memory is forgotten.

    Raises   UsageError naming it: its versions guard what `update` changes.
    """
    if version is not None:
        raise UsageError(
            f"if_version={version!r} for memory {memory_id[:40]!r}: a memory is forgotten in any version; leave it out"
        )


def checked_query(names: object, since: object, until: object, within: object) -> None:
    """Nothing, if these can be conditions of a list.

    Raises   UsageError naming the condition, its value and the rule.
    """
    if names is not None and not isinstance(names, str):
        raise UsageError(f"names={names!r}: give a pattern as text, such as names='trip*'")
    for what, value in (("since", since), ("until", until)):
        if value is not None and (not is_number(value) or value != value):  # noqa: PLR0124 - NaN differs from itself
            raise UsageError(f"{what}={value!r}: give seconds since 1970, such as datetime.timestamp() returns")
    if within not in WITHIN:
        raise UsageError(f"within={within!r}: it is one of {', '.join(WITHIN)}")


def checked_count(what: str, value: object) -> None:
    """Nothing, if it is a whole number of 0 or more, or None.

    Raises   UsageError naming it.
    """
    if value is not None and not (is_whole(value) and value >= 0):
        raise UsageError(f"{what}={value!r}: give a whole number of 0 or more")


def checked_tools(tools: object) -> None:
    """Nothing, if it is a list, or None; what is in it is looked at where the wire is known.

    Raises   UsageError naming what it is instead.
    """
    if tools is not None and as_list(tools) is None:
        raise UsageError(
            f"tools is a {type(tools).__name__}: give the list of your tools' definitions as dicts, "
            "as the client's own call takes them"
        )


def moment(name: str, value: object) -> float | None:
    """A time in seconds since 1970.

    value    None, seconds, a datetime, or ISO 8601 text; without a zone it is UTC.
    Raises   UsageError naming it.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as exc:
            raise UsageError(f"{name}={value!r}: give seconds since 1970, a datetime, or ISO 8601 text") from exc
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise UsageError(f"{name}={value!r}: give seconds since 1970, a datetime, or ISO 8601 text")


def checked_choice(name: str, value: C, choices: Sequence[str]) -> C:
    """The value, if it is one of the choices.

    Raises   UsageError naming them.
    """
    if value not in choices:
        raise UsageError(f"{name}={value!r}: it is {' or '.join(choices)}")
    return value


def checked_choices(name: str, values: Iterable[C], choices: Sequence[str]) -> tuple[C, ...]:
    """The values of a list, each one of the choices.

    Raises   UsageError for another one, or for what is no list.
    """
    if isinstance(values, str):
        raise UsageError(f"{name}={values!r} is one text; pass a list, such as {name}=[{values!r}]")
    if not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"{name}={values!r} is no list; pass one, such as {name}=[{choices[0]!r}]")
    return tuple(checked_choice(name, value, choices) for value in values)


def checked_name(name: str, value: str) -> str:
    """A text that names something: an id, a session, a cursor, a key.

    Raises   UsageError for anything but a text.
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"{name}={value!r} is a {type(value).__name__}; give a text")
    return value.encode("utf-8", "replace").decode("utf-8")  # half a character is a mark, as in stores


def checked_cursor(cursor: str) -> str:
    """The cursor of a page of memories: the id of the last one on the page before, or "" for the first page.

    Raises   UsageError for anything else: it would be a place in the list that nobody meant.
    """
    if checked_name("cursor", cursor) and not cursor.startswith(RESERVED_PREFIX):
        raise UsageError(f"cursor={cursor[:40]!r} is none that a page gave; leave it out for the first page")
    return checked_name("cursor", cursor)


def checked_metadata(metadata: object) -> None:
    """Nothing, if it is an object, or None.

    Raises   UsageError for anything else.
    """
    if metadata is not None and as_dict(metadata) is None:
        kind = type(metadata).__name__
        raise UsageError(f"metadata is a {kind}: give an object, such as metadata={{'topic': 'travel'}}")


def checked_ids(ids: Sequence[str]) -> tuple[str, ...]:
    """The ids of memories.

    Raises   UsageError for one text in place of a list, and for anything but texts.
    """
    if isinstance(ids, str):
        raise UsageError(f"ids={ids!r} is one text; pass a list, such as [{ids!r}]")
    for at, one in enumerate(ids):
        if not isinstance(one, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(one).__name__
            raise UsageError(f"ids[{at}] is a {kind}: give each id as a text of its own, such as forget('m_…', 'm_…')")
    return tuple(checked_name("id", one) for one in ids)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is an int or a float; True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an int; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def pieces(text: str, max_bytes: int) -> list[str]:
    """The text in pieces of at most that many UTF-8 bytes, cut between characters."""
    pieces, rest = list[str](), text.encode()
    while rest:
        piece = rest[:max_bytes].decode(errors="ignore")
        pieces.append(piece)
        rest = rest[len(piece.encode()) :]
    return pieces
