"""What remembering and recalling give back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from offprompt.records.document import Citation, citation_of
from offprompt.records.memory import AddOutcome, Memory, MemoryKind

RememberedKind: TypeAlias = MemoryKind | Literal["slot", ""]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What became of one thing that was to be remembered.

    kind      of the memory, or `slot` for a part of the profile; empty for what was refused.
    name      the memory's id, or the slot's name; empty if refused. text: as stored, without what was redacted.
    replaced  ids of the memories that it supersedes. why: in words, where it is not plainly `added`.
    rule      the rule that derived it; empty for what was given.
    """

    outcome: AddOutcome
    kind: RememberedKind
    name: str
    text: str
    replaced: tuple[str, ...] = ()
    why: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found.

    score  the greater the better; comparable within one answer only. parts: what it is made of; with `explain`.
    """

    memory: Memory
    score: float
    parts: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def memory_id(self) -> str:
        """The memory's id."""
        return self.memory.memory_id

    @property
    def text(self) -> str:
        """The memory's text."""
        return self.memory.text

    @property
    def citation(self) -> Citation | None:
        """Where it stands, if it is a passage of a document; `str` makes one line of it."""
        return citation_of(self.memory)


@dataclass(frozen=True, slots=True)
class Recalled:
    """The answer of a recall: iterate over it for the hits, best first.

    below     how many memories were found that lie below the floor. searched: how many could be found at all.
    why       why nothing was found, in words; empty where something was.
    degraded  what was not searched, and why, such as vectors without an embedder; empty: all was.
    """

    hits: tuple[Hit, ...]
    searched: int = 0
    below: int = 0
    why: str = ""
    degraded: str = ""

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, at: int) -> Hit:
        return self.hits[at]


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """One page of a list: iterate over it for the memories. cursor: of the next page, empty on the last."""

    memories: tuple[Memory, ...]
    cursor: str = ""

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)

    def __getitem__(self, at: int) -> Memory:
        return self.memories[at]
