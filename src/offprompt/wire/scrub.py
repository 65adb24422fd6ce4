"""Scrubbing: stored values in a text become their handles again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from offprompt.records import Json, as_dict, as_list, canonical, compact
from offprompt.wire.handles import escape_lookalikes, format_handle


def scrub_text(text: str, values: Mapping[str, Json]) -> tuple[str, tuple[str, ...]]:
    r"""The text with each whole value replaced by its handle, and the names of those that were found, in that order.

    values   by slot name or `@ID`; the caller leaves out what is too short to be told from chance. Empty ones are not
             looked for.
    Forms    as it is, JSON-escaped with and without `\u`; of JSON values the compact, canonical and spaced texts. The
             longest form goes first; of equal ones the first name.
    Inverse  `resolve_text` gives back the text where values stood as they are: what looks like a handle in the rest is
             escaped here. A JSON-escaped value comes back escaped by `resolve_arguments`.
    Cost     O(n · values).
    """
    forms = sorted(
        ((form, name) for name, value in values.items() for form in _forms(value) if form),
        key=lambda item: -len(item[0]),
    )
    rest: list[str] = [text]
    handles: list[str] = []
    found: dict[str, None] = {}
    for form, name in forms:
        pieces: list[str] = []
        between: list[str] = []
        for at, piece in enumerate(rest):
            parts = piece.split(form)
            pieces += parts
            between += [format_handle(name)] * (len(parts) - 1) + handles[at : at + 1]
        if len(pieces) > len(rest):
            found[name] = None
        rest, handles = pieces, between
    scrubbed = [escape_lookalikes(rest[0])]
    for handle, piece in zip(handles, rest[1:], strict=True):
        scrubbed += [handle, escape_lookalikes(piece)]
    return "".join(scrubbed), tuple(found)


def scrub_arguments(arguments: str, values: Mapping[str, Json]) -> tuple[str, tuple[str, ...]]:
    """A call's arguments with each stored value in a string, or standing whole as JSON, replaced by its handle.

    Also the names of those that were found. Strings without a value stay as they are, also where they hold handles.
    Without any, the same text comes back; what is no JSON is scrubbed as text.
    """
    found: dict[str, None] = {}
    try:
        scrubbed = _scrubbed(json.loads(arguments), values, found)
    except (ValueError, RecursionError):
        return scrub_text(arguments, values)
    return (compact(scrubbed) if found else arguments), tuple(found)


def _scrubbed(value: Any, values: Mapping[str, Json], found: dict[str, None]) -> Any:
    if isinstance(value, str):
        text, names = scrub_text(value, values)
        found.update(dict.fromkeys(names))
        return text if names else value
    whole = next((name for name, own in values.items() if type(own) is type(value) and own == value), None)
    if whole is not None and value not in (None, True, False, [], {}):
        found[whole] = None
        return format_handle(whole)
    members, items = as_dict(value), as_list(value)
    if members is not None:
        return {key: _scrubbed(item, values, found) for key, item in members.items()}
    return value if items is None else [_scrubbed(item, values, found) for item in items]


def _forms(value: Json) -> set[str]:
    if isinstance(value, str):
        return {value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]}
    return {compact(value), canonical(value), json.dumps(value, ensure_ascii=False), json.dumps(value)}
