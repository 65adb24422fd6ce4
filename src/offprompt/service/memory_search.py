"""What `mem_search` finds: slots by name and words, earlier messages, bodies and memories by a snippet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from offprompt.protocols import apply
from offprompt.recall.text import TextIndex, snippet
from offprompt.records import JournalEntry, ListMemories, MemoryQuery, text_of
from offprompt.records.basis import plain_tags
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.heads import slot_line
from offprompt.service.leak_guard import stored_text
from offprompt.service.session_kit import date_of
from offprompt.service.turn import Turn
from offprompt.wire.head import language_of, unverified

SNIPPET_TOKENS: Final = 40
SEARCH_HITS: Final = 5
ID_CHARS: Final = 12
PASSAGE_CHARS: Final = {"en": 240, "zh": 100}
LEFT_LAST: Final = 2.0
FADING: Final = 0.95
"""What left the prompt last is what is looked for most often: its score counts (1 + 2) ×, and of that which is added
0.95 with each message that left behind it."""

FOREIGN_LABELS: Final = ("tool:", "document:")


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """Searches what one session may find. departed: messages that are not in the prompt any more."""

    turn: Turn
    departed: Sequence[JournalEntry]

    def hits(self, query: str) -> list[tuple[str, str]]:
        """Names and lines of the best hits, best first.

        A `never` slot is found by its name only, and only if it is usable somewhere; what foreign text wrote is marked.
        """
        index, lines = TextIndex[tuple[str, int]](), dict[str, str]()
        for slot in self.turn.slots.list():
            if slot.policy != "never" or slot.allow:
                value = "" if slot.policy == "never" else text_of(slot.value)
                tags = plain_tags(slot.tags)
                for at, piece in enumerate(passages(value)):
                    index.add((slot.name, at), " ".join([slot.name, slot.name.replace("_", " "), *tags, piece]))
                line = slot_line(self.turn, slot)
                lines[slot.name] = unverified(line, self.turn.language) if slot.trust == "tool" else line
        texts = {f"@{entry.key[:ID_CHARS]}": (entry.kind, entry.text) for entry in self.departed if entry.text}
        for body in self.turn.kit.sessions.bodies(self.turn.scope):
            # One without a handle in use stands whole in the prompt, or left with its message.
            if f"@{body.body_id}" in self.turn.issued:
                texts[f"@{body.body_id}"] = (body.kind, body.text)
        for name, (_, text) in texts.items():
            for at, piece in enumerate(passages(text)):
                index.add((name, at), piece)
        hits: list[tuple[str, str]] = []
        worth = {f"@{entry.key[:ID_CHARS]}": FADING**at for at, entry in enumerate(reversed(self.departed))}
        scores = dict[str, float]()
        for (name, _), score in index.search(query, len(index)):
            # Slots and bodies are of no age.
            scores[name] = max(scores.get(name, 0.0), score * (1 + LEFT_LAST * worth.get(name, 1.0)))
        for name in sorted(scores, key=lambda name: -scores[name])[:SEARCH_HITS]:
            if name in texts:
                kind, text = texts[name]
                found = snippet(stored_text(self.turn, text), query, max_tokens=SNIPPET_TOKENS)
                lines[name] = f"{name} {kind}: {' '.join(found.split())}"
            hits.append((name, lines[name]))
        both = [each for pair in zip_longest(hits, self._memories(query)) for each in pair if each is not None]
        return both[:SEARCH_HITS]

    def _memories(self, query: str) -> list[tuple[str, str]]:
        """Ids and lines of memories; those of this session are its messages."""
        turn = self.turn
        if not turn.kit.spaces and not has_memories(turn):
            return []
        lines: list[tuple[str, str]] = []
        for hit in turn.kit.memories.of(turn.scope, turn.kit.actor).recall(
            query, spaces=turn.kit.spaces, purposes=turn.kit.purposes
        ):
            memory = hit.memory
            if memory.session and memory.session == turn.scope.session:
                continue
            label = f"{memory.role or memory.source}, {date_of(memory.happened_at)}:"
            found = snippet(stored_text(turn, memory.text), query, max_tokens=SNIPPET_TOKENS)
            label = FOREIGN_LABELS[0] if memory.trust == "tool" else label
            if hit.citation is not None:
                label = f"{FOREIGN_LABELS[1]} [{stored_text(turn, str(hit.citation))}]"
            lines.append((memory.memory_id, f"{memory.memory_id} {label} {' '.join(found.split())}"))
        return lines


def has_memories(turn: Turn) -> bool:
    """Whether the session finds any memory: one short read, so that NumPy is not loaded for none."""
    query = MemoryQuery(turn.scope.without_session(), "inherit", limit=1)
    return bool(apply(turn.kit.memories.store, ListMemories(query)))


def passages(text: str) -> Iterator[str]:
    """A text in pieces that share a quarter: whole, a long one is outweighed by any short one with a word of it."""
    size = PASSAGE_CHARS[language_of(text)]
    shared = size // 4
    for at in range(0, max(len(text) - shared, 1), size - shared):
        yield text[at : at + size]


def is_foreign(line: str) -> bool:
    """Whether a hit's line holds words of a tool or a document."""
    return line.startswith(("@", RESERVED_PREFIX)) and line.split(" ", 2)[1] in FOREIGN_LABELS
