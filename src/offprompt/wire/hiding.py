"""Text for people to read, with stored values as their handles: for traces, never for requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from offprompt.errors import NameInvalidError
from offprompt.records import Json, as_dict, as_list, canonical, compact, text_of
from offprompt.wire.handles import find_handles, format_handle
from offprompt.wire.spelled import Spelled

MIN_LEAF_CHARS: Final = 4
MIN_CHARS: Final = 3
BOUNDED_BELOW_CHARS: Final = 8
LONG_CHARS: Final = 64
_HAN: Final = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Hidden:
    """A value that is not to be read. secret: of a `never` slot; hidden wherever it stands, in any case, in parts."""

    name: str
    value: Json
    secret: bool = False


class Hider:
    """Replaces values in texts by their handles.

    Secrets   each form of the value (as it is, JSON-escaped, compact, canonical), and each text of 4 characters or
              more inside a JSON value, whatever its case; in any other spelling and in parts as `Spelled` finds them.
    Others    whole values of 3 characters (2 Han) or more; below 8 only where no word goes on at their edges. Not
              inside of handles.
    Cost      O(n · values).
    """

    def __init__(self, values: Iterable[Hidden], *, secrets_only: bool = False) -> None:
        all_values = list(values)
        self._secret = _Table([one for one in all_values if one.secret])
        self._spelled = Spelled((one.name, one.value) for one in all_values if one.secret)
        self._others = _Table([] if secrets_only else [one for one in all_values if not one.secret])

    def __call__(self, text: str) -> str:
        """The text with handles in place of values."""
        text = self._spelled.replaced(self._secret.replaced(text))[0]
        pieces: list[str] = []
        at = 0
        for handle in find_handles(text):
            pieces += [self._others.replaced(text[at : handle.start]), text[handle.start : handle.end]]
            at = handle.end
        return "".join([*pieces, self._others.replaced(text[at:])])

    def deep(self, value: Any) -> Any:
        """A JSON value with every text in it treated, keys too."""
        if isinstance(value, str):
            return self(value)
        if (items := as_list(value)) is not None:
            return [self.deep(item) for item in items]
        if (fields := as_dict(value)) is not None:
            return {self(key): self.deep(item) for key, item in fields.items()}
        if value is None or isinstance(value, bool):
            return value
        text = compact(value)
        hidden = self(text)
        return value if hidden == text else hidden


class _Table:
    """Forms of values with their handles: long ones looked for one by one, then the short ones in one pass."""

    def __init__(self, values: list[Hidden]) -> None:
        self._long: dict[str, str] = {}
        self._short: dict[str, str] = {}
        patterns: dict[str, str] = {}
        for one in values:
            for form in _forms(one):
                if len(form) >= LONG_CHARS:
                    self._long.setdefault(form, _handle(one.name))
                else:
                    self._short.setdefault(form.casefold() if one.secret else form, _handle(one.name))
                    patterns[form] = re.escape(form) if one.secret else _bounded(form)
        self._fold = any(one.secret for one in values)
        self._longest_first = sorted(self._long, key=len, reverse=True)
        ordered = [patterns[form] for form in sorted(patterns, key=len, reverse=True)]
        self._pattern = re.compile("|".join(ordered), re.IGNORECASE if self._fold else 0) if ordered else None

    def replaced(self, text: str) -> str:
        for form in self._longest_first:
            if form in text:
                text = text.replace(form, self._long[form])
        return text if self._pattern is None else self._pattern.sub(self._handle, text)

    def _handle(self, match: re.Match[str]) -> str:
        found = match[0].casefold() if self._fold else match[0]
        # A letter may match one that folds to another text: then no name is known, and none is needed.
        return self._short.get(found, "[value]")


def _forms(one: Hidden) -> Iterator[str]:
    """The texts under which a value is looked for."""
    texts = [one.value] if isinstance(one.value, str) else _json_texts(one)
    for text in texts:
        long = len(text) + len(_HAN.findall(text)) >= MIN_CHARS
        if text and (one.secret or long):
            yield from {text, text.strip() or text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]}


def _json_texts(one: Hidden) -> list[str]:
    value = one.value
    texts = [text_of(value), canonical(value), json.dumps(value, ensure_ascii=False), json.dumps(value)]
    return [*texts, *_leaves(value)] if one.secret else texts


def _leaves(value: Any) -> Iterator[str]:
    """The texts inside a JSON value that are long enough to be told from chance."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = text_of(value)
        if len(text) >= MIN_LEAF_CHARS:
            yield text
    for item in as_list(value) or (as_dict(value) or {}).values():
        yield from _leaves(item)


def _bounded(form: str) -> str:
    if len(form) >= BOUNDED_BELOW_CHARS:
        return re.escape(form)
    before = r"(?<![^\W_])" if form[0].isalnum() and not _HAN.match(form[0]) else ""
    after = r"(?![^\W_])" if form[-1].isalnum() and not _HAN.match(form[-1]) else ""
    return f"{before}{re.escape(form)}{after}"


def _handle(name: str) -> str:
    try:
        return format_handle(name)
    except NameInvalidError:
        return "[value]"
