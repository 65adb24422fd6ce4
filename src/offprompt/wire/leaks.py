"""Stored values in text: whole or in part, and in any of the spellings that tools and models give them."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from offprompt.wire.encoded import decoded_runs
from offprompt.wire.folding import Places, fold
from offprompt.wire.thresholds import PROVABLE_CHARS, WHOLE_CHARS, chars, doubled, enough, provable, spelled_out

if TYPE_CHECKING:
    from offprompt.wire.runs import Run, Stored, StoredRuns

# Between texts that are searched at once: no folded text holds it, and no run goes over it.
BETWEEN: Final = b"\2"

_SPACE: Final = re.compile(r"[\s+]|\\+[nrt]|%(?:25)*(?:20|0[9ADad])")
_SPACE_BEFORE: Final = re.compile(rf"(?:{_SPACE.pattern})\Z")
_ESCAPED_ASCII: Final = re.compile(r"(?<!\\)\\+[\"/ntr]|%(?:25)*[0-7][0-9A-Fa-f]")
_PERCENT: Final = re.compile(r"%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True)
class Leak:
    """A stored value, or a part of it, in a text.

    name    of the value. start, end: the characters of the text that hold it; of `base64` and `hex` the whole run of
            digits.
    form    `as_is`; `json` (escaped), `url` (percent escapes); `folded` (case, spaces, widths); `base64`; `hex`.
    chars   how many characters of the value, a run of spaces counted as one. whole: all of them.
    """

    name: str
    start: int
    end: int
    form: str
    chars: int
    whole: bool


class LeakIndex:
    """Values to look for; kept up to date as values and bodies come and go.

    Whole    a value of 8 characters where it is `secret` or the text is `ours`, else of 24 (a Han character counts
             as two).
    Parts    32 characters, or 12 Han, or a mixture of both to that measure; a run of spaces counts as one character.
             Found without fail where 22 bytes of them (UTF-8) are neither spaces nor dashes; below, mostly.
    Memory   1.6 to 2 bytes for each byte of text, and a reference to the text itself.
    Cost     `add` 0.1 µs a byte. `find`: see docs/leaks.md; `python bench/leaks.py` prints it.
    Not safe for use by several threads at once.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._by_name: dict[str, Stored] = {}
        self._runs = _no_runs()
        self._dead = 0
        for name, text in (values or {}).items():
            self.add(name, text)

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @property
    def bytes(self) -> int:
        """Memory of the fingerprints, in bytes; the texts themselves belong to the caller."""
        return self._runs.bytes

    @property
    def unproven(self) -> tuple[str, ...]:
        """Names of values that are too short to be told from chance, in the order of `add`; empty ones left out."""
        return tuple(one.name for one in self._by_name.values() if one.text and not provable(one.text))

    def add(self, name: str, text: str, *, secret: bool = False) -> None:
        """Looks for the text from now on; in place of what had the name. secret: of a `never` slot."""
        self.remove(name)
        self._by_name[name] = self._runs.add(name, text, secret=secret)

    def remove(self, name: str) -> None:
        """Forgets a name; one that is not there is no error."""
        one = self._by_name.pop(name, None)
        if one is None:
            return
        self._runs.remove(one)
        self._dead += 1
        if self._dead > 64 and self._dead > len(self._by_name):
            self._without_dead()

    def find(self, text: str, *, ours: bool = False) -> list[Leak]:
        """The leaks in a text by place, each stretch under the value that has the most of it. ours: text that
        Offprompt added, where each whole value counts from 8 characters on.
        """
        if not self._by_name or not text:
            return []
        raw = text.encode("utf-8", "surrogatepass")
        found = [leak for _, leak in self._leaks([text], [fold(text, raw)], ours=ours)]
        views = list(decoded_runs(raw))
        texts = [view.raw.decode("utf-8", "surrogateescape") for view in views]
        for at, leak in self._leaks(texts, [*map(fold, texts)], ours=ours):
            start = len(raw[: views[at].start].decode("utf-8", "surrogatepass"))
            end = start + views[at].end - views[at].start
            found.append(replace(leak, start=start, end=end, form=views[at].form))
        return _tidy(found)

    def _leaks(self, texts: Sequence[str], folded: Sequence[bytes], *, ours: bool) -> Iterator[tuple[int, Leak]]:
        """Which of the texts, and what in it."""
        runs = self._runs.find(BETWEEN.join(folded)) if texts else []
        if not runs:
            return
        begins = [*accumulate((len(one) + len(BETWEEN) for one in folded), initial=0)][:-1]
        # Runs that share a template are many to a text, and to a stored one.
        places: dict[int, Places] = {}
        own = {run.stored.number: run.stored.text for run in runs if not run.whole}
        owned = {number: Places(text) for number, text in own.items()}
        for run in runs:
            at = bisect_right(begins, run.start) - 1
            if at not in places:
                places[at] = Places(texts[at])
            here = replace(run, start=run.start - begins[at], end=run.end - begins[at])
            if leak := _leak(here, texts[at], places[at], owned.get(run.stored.number), ours=ours):
                yield at, leak

    def _without_dead(self) -> None:
        """Builds anew what is looked for, without the fingerprints of what is gone."""
        values = self._by_name.values()
        self._runs, self._dead = _no_runs(), 0
        self._by_name = {one.name: self._runs.add(one.name, one.text, secret=one.secret) for one in values}


def _no_runs() -> StoredRuns:
    # Imported here: NumPy takes 90 ms that only callers with values to look for pay.
    from offprompt.wire.runs import StoredRuns  # noqa: PLC0415

    return StoredRuns()


def _leak(run: Run, text: str, places: Places, own: Places | None, *, ours: bool) -> Leak | None:
    """places: of the text. own: of the stored one, where a part of it is shared."""
    stored = run.stored.text
    start, end = places.span(run.start, run.end)
    if run.whole or own is None:
        least = PROVABLE_CHARS if ours or run.stored.secret else WHOLE_CHARS
        if doubled(stored) < least or not (run.form or spelled_out(text[start:end], stored)):
            return None
        form = run.form or _form(text[start:end], stored)
        return Leak(run.stored.name, start, end, form, chars(stored), whole=True)
    from_, to = own.span(run.at, run.at + run.end - run.start)
    start, from_, end, to = _widened(text, start, end, stored, from_, to)
    # Spaces may stand in the one and not in the other: the longer one counts.
    pieces = stored[from_:to], _ESCAPED_ASCII.sub(_unescaped, text[start:end])
    if not (enough(pieces[0]) or ("\\" not in pieces[1] and "%" not in pieces[1] and enough(pieces[1]))):
        return None
    return Leak(run.stored.name, start, end, _form(text[start:end], pieces[0]), max(map(chars, pieces)), whole=False)


def _unescaped(match: re.Match[str]) -> str:
    return " " if _SPACE.fullmatch(match[0]) else "."


def _widened(text: str, start: int, end: int, stored: str, from_: int, to: int) -> tuple[int, int, int, int]:
    """The two stretches with what folding dropped at their edges and both have: equal signs, a space for a space."""
    while start and from_ and text[start - 1] == stored[from_ - 1]:
        start, from_ = start - 1, from_ - 1
    while end < len(text) and to < len(stored) and text[end] == stored[to]:
        end, to = end + 1, to + 1
    # The backslashes of an escaped quote stand before it.
    start = len(text[:start].rstrip("\\"))
    if from_ and stored[from_ - 1].isspace() and (space := _SPACE_BEFORE.search(text, max(0, start - 9), start)):
        start, from_ = space.start(), from_ - 1
    if to < len(stored) and stored[to].isspace() and (space := _SPACE.match(text, end)):
        end, to = space.end(), to + 1
    return start, from_, end, to


def _form(piece: str, own: str) -> str:
    """How a part is spelled, beside its spelling in the value."""
    if piece == own:
        return "as_is"
    if piece.count("\\") > own.count("\\"):
        return "json"
    return "url" if len(_PERCENT.findall(piece)) > len(_PERCENT.findall(own)) else "folded"


def _tidy(found: Iterable[Leak]) -> list[Leak]:
    """By place, without parts that lie inside another leak and without the same twice."""
    merged: dict[tuple[str, int, int], Leak] = {}
    for leak in found:
        key = (leak.name, leak.start, leak.end)
        if key not in merged or merged[key].chars < leak.chars:
            merged[key] = leak
    ordered = sorted(merged.values(), key=lambda leak: (leak.start, -leak.end, -leak.chars, not leak.whole))
    kept: list[Leak] = []
    reach = 0
    reaches: dict[str, int] = {}
    for leak in ordered:
        own = reaches.get(leak.name, 0)
        if leak.end > own and (leak.whole or leak.end > reach):
            kept.append(leak)
            reaches[leak.name] = leak.end
        reach = max(reach, leak.end)
    return kept


def find_values(text: str, values: Mapping[str, str]) -> list[str]:
    """The names whose whole value stands in the text, as it is or JSON-escaped, in the order of `values`.

    Values of fewer than 8 characters are not looked for: they stand everywhere by chance. Cost O(values · text).
    """
    return [
        name
        for name, value in values.items()
        if len(value) >= PROVABLE_CHARS and (value in text or json.dumps(value, ensure_ascii=False)[1:-1] in text)
    ]


def unproven(values: Mapping[str, str]) -> list[str]:
    """The names whose value is too short to look for; empty values count as nothing."""
    return [name for name, value in values.items() if 0 < len(value) < PROVABLE_CHARS]
