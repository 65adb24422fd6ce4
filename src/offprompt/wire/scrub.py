"""Scrubbing: stored values in a text become their handles again."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import Any

from offprompt.records import Json, as_dict, as_list, compact, text_of
from offprompt.wire.handles import MAX_BODY_CHARS, escape_lookalikes, format_handle
from offprompt.wire.scrub_forms import Form, forms, too_short


def scrub_text(
    text: str, values: Mapping[str, Json], *, parted: Container[str] | None = None
) -> tuple[str, tuple[str, ...]]:
    r"""The text with each stored value replaced by its handle, and the names of those that were found, in that order.

    values   by slot name or `@ID`; the caller leaves out what it does not mind. Those that cannot be told from chance
             (`scrub_forms.too_short`) are not looked for.
    parted   names of the JSON values whose parts are looked for too, each with its pointer; None: of all.
    Forms    text as it is, and JSON-escaped with and without `\u`; under 4 characters, and numbers, only as a whole
             word or number; JSON in any spelling. The longest form goes first; of equal ones the whole, then the
             first name.
    Inverse  `resolve_text` gives back the text where values stood as they are: what looks like a handle in the rest is
             escaped here. A JSON-escaped value comes back escaped by `resolve_arguments`, another spelling of JSON as
             its compact text.
    Cost     O(n · forms).
    """
    looked_for = [
        form for name, value in values.items() for form in forms(name, value, parts=parted is None or name in parted)
    ]
    rest: list[str] = [text]
    handles: list[str] = []
    found: dict[str, None] = {}
    for form in sorted(looked_for, key=lambda form: (-form.size, bool(form.pointer))):
        pieces: list[str] = []
        between: list[str] = []
        for at, piece in enumerate(rest):
            parts = form.cut(piece)
            pieces += parts
            between += [_handle(form)] * (len(parts) - 1) + handles[at : at + 1]
        if len(pieces) > len(rest):
            found[form.name] = None
        rest, handles = pieces, between
    scrubbed = [escape_lookalikes(rest[0])]
    for handle, piece in zip(handles, rest[1:], strict=True):
        scrubbed += [handle, escape_lookalikes(piece)]
    return "".join(scrubbed), tuple(found)


def scrub_arguments(
    arguments: str, values: Mapping[str, Json], *, parted: Container[str] | None = None
) -> tuple[str, tuple[str, ...]]:
    """A call's arguments with each stored value in a text or key, or standing whole as JSON, replaced by its handle.

    Also the names of those that were found. Strings without a value stay as they are, also where they hold handles.
    Without any, the same text comes back; what is no JSON is scrubbed as text. parted: see `scrub_text`.
    """
    found: dict[str, None] = {}

    def cleaned(value: Any) -> Any:
        members, items = as_dict(value), as_list(value)
        if members is not None or items is not None:
            whole = next((name for name, own in values.items() if own == value and not too_short(own)), None)
            if whole is not None:
                found[whole] = None
                return format_handle(whole)
            if members is not None:
                return {cleaned(key): cleaned(item) for key, item in members.items()}
            return [cleaned(item) for item in items or ()]
        text, names = scrub_text(text_of(value), values, parted=parted)
        found.update(dict.fromkeys(names))
        return text if names else value

    try:
        scrubbed = compact(cleaned(json.loads(arguments)))
    except (ValueError, RecursionError):
        return scrub_text(arguments, values, parted=parted)
    return (scrubbed if found else arguments), tuple(found)


def _handle(form: Form) -> str:
    """The handle of what a form stands for; of the whole value where its place would make the handle too long."""
    handle = format_handle(form.name, form.pointer)
    return handle if len(handle) <= MAX_BODY_CHARS else format_handle(form.name)
