"""How much of what may not be stored a redactor finds, and how much else it takes for it."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from offprompt.errors import UsageError
from offprompt.protocols import Redactor
from offprompt.records import as_dict, as_list
from offprompt.records.redaction import KINDS, Labelled, Span, SpanKind

FLOORS: Final[Mapping[SpanKind, tuple[float, float]]] = {"id_number": (0.97, 0.95), "bank_card": (0.97, 0.95)}
"""Precision and recall that the kinds have to reach."""

SPILL: Final = 5
"""Characters beyond the thing that a find may take with it: a country's prefix before a phone number."""

_TYPES: Final[dict[str, SpanKind]] = {
    "CN_ID": "id_number",
    "BANK_CARD": "bank_card",
    "PHONE": "phone",
    "LANDLINE": "phone",
    "EMAIL": "email",
    "PLATE": "licence_plate",
    "QQ": "qq",
    "WECHAT": "wechat",
    "PERSON": "name",
    **{kind: kind for kind in KINDS},
}
_Z: Final = 1.959964


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one kind.

    there  how many of it the texts hold; hit: how many of these were found whole.
    found  how many finds; right: how many of these were whole things of the kind, and at most 5 characters more.
    """

    kind: SpanKind
    there: int
    hit: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        """The part of the finds that is right; 1 without any."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The part of what is there that was found; 1 without any."""
        return self.hit / self.there if self.there else 1.0

    @property
    def is_below(self) -> bool:
        """Whether it misses its floor."""
        precision, recall = FLOORS.get(self.kind, (0.0, 0.0))
        return self.precision < precision or self.recall < recall


def measure(redactor: Redactor, texts: Sequence[Labelled]) -> list[Found]:
    """What is found of each kind that is there or was found, by the kinds' order. Cost: one redaction a text."""
    there, hit, found, right = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for one in texts:
        seen = redactor.redact(one.text).found
        there.update(span.kind for span in one.spans)
        found.update(span.kind for span in seen)
        hit.update(span.kind for span in one.spans if any(_is_of(each, span) for each in seen))
        right.update(each.kind for each in seen if any(_is_of(each, span) for span in one.spans))
    return [
        Found(kind, there[kind], hit[kind], found[kind], right[kind]) for kind in KINDS if there[kind] or found[kind]
    ]


def _is_of(seen: Span, span: Span) -> bool:
    whole = seen.start <= span.start and span.end <= seen.end
    return seen.kind == span.kind and whole and seen.end - seen.start <= span.end - span.start + SPILL


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share; 0 to 1 without anything to count.

    Source   Wilson 1927, the score interval: it stays within 0 to 1, and has a width where all are right.
    """
    if not total:
        return 0.0, 1.0
    share, squared = right / total, _Z * _Z
    middle = (share + squared / (2 * total)) / (1 + squared / total)
    width = _Z / (1 + squared / total) * math.sqrt(share * (1 - share) / total + squared / (4 * total * total))
    return max(0.0, middle - width), min(1.0, middle + width) if right < total else 1.0


def half(texts: Sequence[Labelled], part: Literal["tune", "report"]) -> list[Labelled]:
    """One half of the texts, by their digests: rules may be made by looking at `tune`, and are measured on `report`."""
    odd = part == "report"
    return [one for one in texts if hashlib.sha256(one.text.encode()).digest()[0] % 2 == odd]


def read_texts(path: Path) -> list[Labelled]:
    """Texts of a JSONL file, or of `dev.jsonl` in a folder: `text`, and `spans` with `start`, `end` and `type`.

    type     a kind, or CN_ID, BANK_CARD, PHONE, LANDLINE, EMAIL, PLATE, QQ, WECHAT, PERSON.
    Raises   UsageError if it is not there or a line is not of that form.
    """
    file = path / "dev.jsonl" if path.is_dir() else path
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as exc:
        raise UsageError(f"the texts {str(file)!r} cannot be read: {exc}; name a JSONL file, or its folder") from exc
    texts: list[Labelled] = []
    for number, line in enumerate(lines, 1):
        try:
            row: Any = json.loads(line)
            spans = [_span(each) for each in as_list(row.get("spans")) or []]
            texts.append(Labelled(str(row["text"]), tuple(sorted(spans, key=lambda span: span.start))))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise UsageError(
                f"{file}:{number} is no labelled text: {exc!r}; a line is "
                '{"text": …, "spans": [{"start": 0, "end": 2, "type": "PERSON"}]}'
            ) from exc
    return texts


def _span(value: object) -> Span:
    members = as_dict(value) or {}
    kind = _TYPES.get(str(members["type"]))
    if kind is None:
        raise ValueError(f"type {members['type']!r} is none of {', '.join(_TYPES)}")
    return Span(int(str(members["start"])), int(str(members["end"])), kind)
