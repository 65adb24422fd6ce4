"""What is ranked, what is asked, and what comes back."""

from __future__ import annotations

import calendar
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Final, Literal

import numpy as np
from msgspec import Struct  # made by the ten thousand: a dataclass takes many times as long
from msgspec.structs import replace as replaced
from numpy.typing import NDArray

from offprompt.recall.analysis import all_terms, asks, meaningful
from offprompt.recall.duplicates import normalised
from offprompt.records import WordHits

MOST_TIMES: Final = 65535
EPISODE: Final = "episode"

_HAN: Final = re.compile("[\u3400-\u9fff]")

Part = Literal[
    "keyword",
    "vector",
    "neighbour",
    "speaker",
    "question",
    "session",
    "time",
    "recency",
    "uses",
    "importance",
    "pinned",
]


class Content(Struct, frozen=True, gc=False):
    """A text as the index needs it; made once by `analyse`, stored by `pack`.

    terms     each once. times: how often each is there, uint16, little endian.
    words     a number for the normalised text: two texts with the same one say the same.
    asks      whether the text is a question.
    vector    unit length in half precision, or None: found by its words alone.
    """

    terms: tuple[str, ...]
    times: bytes
    words: int = 0
    asks: bool = False
    vector: NDArray[np.float16] | None = None


def without_vector(content: Content) -> Content:
    """The content without its vector."""
    return content if content.vector is None else replaced(content, vector=None)


def analyse(
    text: str,
    *,
    speaker: str = "",
    event_at: float | None = None,
    vector: NDArray[np.floating] | None = None,
    zone: tzinfo = UTC,
) -> Content:
    """The content of a text; the speaker's name and the day of the event are words of it."""
    said = all_terms(text)
    about = all_terms(f"{speaker}\n{_day_words(event_at, text, zone)}")
    counts = Counter(meaningful([*about, *said]))
    times = np.minimum(np.fromiter(counts.values(), np.int64, len(counts)), MOST_TIMES).astype("<u2").tobytes()
    digest = hashlib.blake2b(normalised(text).encode(errors="replace"), digest_size=7).digest()
    half = None if vector is None else np.asarray(vector, np.float16)
    return Content(tuple(counts), times, int.from_bytes(digest), asks(text), half)


def _day_words(event_at: float | None, said: str, zone: tzinfo) -> str:
    if event_at is None:
        return ""
    try:
        day = datetime.fromtimestamp(event_at, zone)
    except (ValueError, OverflowError, OSError):  # a time that no calendar has
        return ""
    if _HAN.search(said):
        return f"{day.year}年{day.month}月{day.day}日"
    return f"{day.day} {calendar.month_name[day.month]} {day.year}"


class Doc(Struct, frozen=True, kw_only=True, gc=False):
    """One memory of a scope.

    kind       `episode`: a turn of a session's log, for which its neighbours, speaker and session count; any other
               kind stands for itself.
    order      place in the session.
    event_at, created_at   seconds since 1970: when it happened; when it was stored.
    importance 0 to 1.
    """

    doc_id: str
    content: Content
    kind: str = "fact"
    speaker: str = ""
    session: str = ""
    order: int = 0
    event_at: float | None = None
    created_at: float = 0.0
    importance: float = 0.0
    uses: int = 0
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """What each part of a score may add; docs/ranking.md has the formulas, sources and measurements.

    keyword, vector   shares of the two scores in [0, 1]; without a query vector keyword has both.
    follow, answer    part of a neighbour's score; of that of a question which this turn follows.
    half_life_s       seconds in which recency halves.
    """

    keyword: float = 0.6
    vector: float = 0.4
    follow: float = 0.3
    answer: float = 0.5
    speaker: float = 0.15
    question: float = -0.1
    session: float = 0.2
    time: float = 0.1
    recency: float = 0.01
    uses: float = 0.01
    importance: float = 0.05
    pinned: float = 0.1
    half_life_s: float = 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question to one scope.

    vector       of the text, unit length; None: by words alone.
    now          seconds since 1970: what "last week" is counted from, and recency; None: neither counts.
    as_of        leaves out what was stored later.
    since, until leave out what happened (where that is not known: was stored) before, and at or after.
    kinds, ids   leave out all others. All of these hold before anything is ranked.
    cosines      of docs to the vector, by id, where an index elsewhere knows them; None: by the docs' own vectors.
    of_scope     texts, terms and holders of the whole scope, where the docs are only the best candidates of it.
    speaker      who asks: turned to where the question says "I" or 我.
    floor        the evidence, 0 to 1, that a hit must have: 1 − (1 − words) · (1 − meaning), where words is the part
                 of the question's weight that it holds; or a part of its neighbours' evidence. Words of a time that
                 the question names are none; where it asks for nothing but that time, what happened then has 1, and
                 all else 0.
    """

    text: str
    vector: NDArray[np.floating] | None = None
    now: float | None = None
    as_of: float | None = None
    since: float | None = None
    until: float | None = None
    kinds: frozenset[str] | None = None
    ids: frozenset[str] | None = None
    cosines: Mapping[str, float] | None = None
    of_scope: WordHits | None = None
    speaker: str = ""
    top_k: int = 5
    floor: float = 0.1
    weights: Weights = field(default_factory=Weights)
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit. score: the sum of parts, which hold no zeros; evidence: what the floor was held against."""

    doc_id: str
    score: float
    evidence: float
    parts: Mapping[Part, float]


@dataclass(frozen=True, slots=True)
class Found:
    """The hits, best first, ties by id; and why there are no more.

    searched     docs that the filters left. below_floor: those of them with some evidence, but less than the floor.
    repeated     texts with the words of a better hit, left out.
    by_vector    whether vectors were compared; False: words alone.
    window       since and until that the question's own words gave, or None. held: what happened then comes first;
                 False: it was let go, because nothing that happened then has evidence enough.
    """

    hits: tuple[Ranked, ...]
    searched: int
    below_floor: int = 0
    repeated: int = 0
    by_vector: bool = False
    window: tuple[float, float] | None = None
    held: bool = False
