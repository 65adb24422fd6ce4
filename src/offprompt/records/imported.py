"""What imports and reindexing give back."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a file that could not be read. line: from 1; 0: the file as a whole."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}" if self.line else f"{self.file}: {self.why}"


@dataclass(slots=True)
class Imported:
    """What an import did: memories added, those that were there already, and what was left out, with why."""

    added: int = 0
    known: int = 0
    refused: list[Problem] = field(default_factory=list[Problem])


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What a reindex did: memories that got a vector, and whose vectors these are (empty: none are wanted).

    mended   entries of the vector index that differed from the store, where there is one outside.
    """

    done: int
    embedder: str
    mended: int = 0
