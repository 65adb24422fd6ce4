"""Documents of a space: what became of each, and how a passage of one is cited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from offprompt.records.json import as_list
from offprompt.records.memory import Memory

IngestOutcome: TypeAlias = Literal["added", "unchanged", "changed", "removed", "refused"]

INGEST_OUTCOMES: Final = ("added", "unchanged", "changed", "removed", "refused")
MAX_LABEL_CHARS: Final = 80
"""Characters of a title or heading that a citation shows."""


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a passage stands.

    document    its name in the space. title: what it is called in itself. headings: the path to the passage, outermost
                first. page: from 1, where the document has pages.
    start, end  offsets of the passage in the text that the document was converted to, in characters.
    """

    space: str
    document: str
    title: str
    headings: tuple[str, ...] = ()
    page: int | None = None
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        """One line."""
        name = self.document if self.title in ("", self.document) else f"{self.title} ({self.document})"
        path = " › ".join((name, *(one for one in self.headings if one != self.title)))
        page = "" if self.page is None else f", p. {self.page}"
        return f"{self.space}: {path}{page}, {self.start}–{self.end}"


def label_of(text: object) -> str:
    """A title or heading as one short line, whatever a document has for one."""
    line = " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())
    return line if len(line) <= MAX_LABEL_CHARS else f"{line[: MAX_LABEL_CHARS - 1]}…"


def citation_of(memory: Memory) -> Citation | None:
    """Where a passage of a space's document stands; None for all else."""
    if memory.kind != "passage" or memory.scope.space is None:
        return None
    told: Mapping[str, Any] = memory.metadata
    page = told.get("page")
    return Citation(
        memory.scope.space,
        memory.session,
        label_of(told.get("title", "")),
        tuple(map(label_of, as_list(told.get("headings")) or ())),
        page if isinstance(page, int) else None,
        _offset(told.get("start")),
        _offset(told.get("end")),
    )


def _offset(value: object) -> int:
    return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a space has it.

    digest    of the bytes from which it was made. media: `markdown`, `text`, `html`, `pdf` or `docx`.
    pages     None where it has none. at: when it was last read anew.
    """

    space: str
    name: str
    title: str
    media: str
    bytes: int
    digest: str
    passages: int
    pages: int | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of one document.

    passages  that it has now. added, removed: how many are new, and how many went; all others stayed as they were.
    why       why it was refused, or what else there is to tell; never the document's text.
    """

    outcome: IngestOutcome
    document: str
    passages: int = 0
    added: int = 0
    removed: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ingest:
    """What became of all that was given: iterate over it."""

    space: str
    documents: tuple[Ingested, ...] = ()

    def __iter__(self) -> Iterator[Ingested]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, at: int) -> Ingested:
        return self.documents[at]

    @property
    def counts(self) -> dict[IngestOutcome, int]:
        """How many documents of each outcome; those that there are none of are left out."""
        found: dict[IngestOutcome, int] = {}
        for one in self.documents:
            found[one.outcome] = found.get(one.outcome, 0) + 1
        return found


@dataclass(frozen=True, slots=True)
class IngestStep:
    """How far an ingest is: told before each document, and as its passages are made findable.

    at, of    documents done, and of how many. passages: of this one that are ready, and of how many.
    """

    document: str
    at: int
    of: int
    passages: int = 0
    of_passages: int = 0
