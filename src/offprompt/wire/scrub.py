"""Scrubbing: stored values in a text become their handles again."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import Any

from offprompt.records import Json, as_dict, as_list, compact, text_of
from offprompt.wire.handles import MAX_BODY_CHARS, escape_lookalikes, format_handle
from offprompt.wire.scrub_forms import Form, forms, too_short


class LookedFor:
    """Values made ready to be looked for in many texts.

    values   by slot name or `@ID`; the caller leaves out what it does not mind. Those that cannot be told from chance
             (`scrub_forms.too_short`) are not looked for.
    parted   names of the JSON values whose parts are looked for too, each with its pointer; None: of all.
    """

    def __init__(self, values: Mapping[str, Json], *, parted: Container[str] | None = None) -> None:
        self._values = values
        every = [
            form
            for name, value in values.items()
            for form in forms(name, value, parts=parted is None or name in parted)
        ]
        self._forms = sorted(every, key=lambda form: (-form.size, bool(form.pointer)))

    def scrub(self, text: str) -> tuple[str, tuple[str, ...]]:
        """See `scrub_text`."""
        rest: list[str] = [text]
        handles: list[str] = []
        found: dict[str, None] = {}
        for form in self._forms:
            parts = [form.cut(piece) for piece in rest]
            if all(len(each) == 1 for each in parts):
                continue
            found[form.name] = None
            between: list[str] = []
            for at, each in enumerate(parts):
                between += [_handle(form)] * (len(each) - 1) + handles[at : at + 1]
            rest, handles = [piece for each in parts for piece in each], between
        scrubbed = [escape_lookalikes(rest[0])]
        for handle, piece in zip(handles, rest[1:], strict=True):
            scrubbed += [handle, escape_lookalikes(piece)]
        return "".join(scrubbed), tuple(found)

    def arguments(self, arguments: str) -> tuple[str, tuple[str, ...]]:
        """See `scrub_arguments`."""
        found: dict[str, None] = {}

        def cleaned(value: Any) -> Any:
            members, items = as_dict(value), as_list(value)
            if members is not None or items is not None:
                whole = next((name for name, own in self._values.items() if own == value and not too_short(own)), None)
                if whole is not None:
                    found[whole] = None
                    return format_handle(whole)
                if members is not None:
                    return {cleaned(key): cleaned(item) for key, item in members.items()}
                return [cleaned(item) for item in items or ()]
            text, names = self.scrub(text_of(value))
            found.update(dict.fromkeys(names))
            return text if names else value

        try:
            scrubbed = compact(cleaned(json.loads(arguments)))
        except (ValueError, RecursionError):
            return self.scrub(arguments)
        return (scrubbed if found else arguments), tuple(found)


def scrub_text(
    text: str, values: Mapping[str, Json], *, parted: Container[str] | None = None
) -> tuple[str, tuple[str, ...]]:
    r"""The text with each stored value replaced by its handle, and the names of those that were found, in that order.

    values, parted  see `LookedFor`, which is quicker for several texts.
    Forms    text as it is, and JSON-escaped with and without `\u`; under 4 characters, and numbers, only as a whole
             word or number; JSON in any spelling. The longest form goes first; of equal ones the whole, then the
             first name.
    Inverse  `resolve_text` gives back the text where values stood as they are: what looks like a handle in the rest is
             escaped here. A JSON-escaped value comes back escaped by `resolve_arguments`, another spelling of JSON as
             its compact text.
    Cost     O(n · forms).
    """
    return LookedFor(values, parted=parted).scrub(text)


def scrub_arguments(
    arguments: str, values: Mapping[str, Json], *, parted: Container[str] | None = None
) -> tuple[str, tuple[str, ...]]:
    """A call's arguments with each stored value in a text or key, or standing whole as JSON, replaced by its handle.

    Also the names of those that were found. Strings without a value stay as they are, also where they hold handles.
    Without any, the same text comes back; what is no JSON is scrubbed as text. values, parted: see `LookedFor`.
    """
    return LookedFor(values, parted=parted).arguments(arguments)


def _handle(form: Form) -> str:
    """The handle of what a form stands for; of the whole value where its place would make the handle too long."""
    handle = format_handle(form.name, form.pointer)
    return handle if len(handle) <= MAX_BODY_CHARS else format_handle(form.name)
