"""What recall needs of memories, made from their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offprompt.errors import BackendError, UnsupportedError
from offprompt.models.by_kind import part_of, placed
from offprompt.protocols import Embedder
from offprompt.recall.chunks import embed
from offprompt.recall.docs import Content, Doc, analyse, without_vector
from offprompt.recall.packing import pack, unpack
from offprompt.records import MEMORY_KINDS, Indexed, Memory


def index_texts(embedder: Embedder | None, memories: Sequence[Memory]) -> tuple[list[Indexed], str]:
    """What is derived from each memory, and why there are no vectors; empty if there are, or none are wanted.

    Cost     one encode of all texts. A failing embedder fails nothing: the memories are found by their words.
    """
    name, trouble = "", ""
    vectors: Sequence[Any] = [None] * len(memories)
    if embedder is not None and memories:
        try:
            vectors = _vectors(embedder, memories)
            name = embedder.name
        except (BackendError, UnsupportedError) as exc:
            trouble = str(exc)
    contents = [_content(memory, vector) for memory, vector in zip(memories, vectors, strict=True)]
    packed = [Indexed(m.memory_id, m.version, pack(c), name) for m, c in zip(memories, contents, strict=True)]
    return packed, trouble


def _vectors(embedder: Embedder, memories: Sequence[Memory]) -> list[Any]:
    """A vector for each memory, by the embedder of its kind."""
    found: dict[str, Any] = {}
    for kind in MEMORY_KINDS:
        own = [memory for memory in memories if memory.kind == kind]
        if not own:
            continue
        speakers = [memory.speaker for memory in own]
        made = embed(part_of(embedder, kind), [_text(memory) for memory in own], kind="passage", speakers=speakers)
        found |= zip((memory.memory_id for memory in own), placed(embedder, kind, made), strict=True)
    return [found[memory.memory_id] for memory in memories]


def _text(memory: Memory) -> str:
    """What recall reads of a memory."""
    return f"{memory.text}\n{memory.gist}" if memory.gist else memory.text


def _content(memory: Memory, vector: Any = None) -> Content:
    return analyse(_text(memory), speaker=memory.speaker, event_at=memory.event_at, vector=vector)


def has_vector(memory: Memory, indexed: Indexed | None, embedder: Embedder | None) -> bool:
    """Whether what is derived is of the memory's version and of this embedder."""
    if indexed is None or embedder is None:
        return False
    return (indexed.version, indexed.embedder) == (memory.version, embedder.name)


def uses_of(memory: Memory) -> int:
    """What recall counts as uses: that it was recalled, and that it was said again."""
    return memory.uses + memory.repeats


def doc_of(memory: Memory, indexed: Indexed | None, embedder: Embedder | None) -> tuple[Doc, bool]:
    """The memory as recall ranks it, and whether it has a vector of this embedder."""
    content = None if indexed is None or indexed.version != memory.version else unpack(indexed.content)
    if content is None:
        content = _content(memory)
    elif content.vector is not None and not has_vector(memory, indexed, embedder):
        # Another embedder's vectors mean nothing to this one.
        content = without_vector(content)
    doc = Doc(
        doc_id=memory.memory_id,
        content=content,
        kind=memory.kind,
        speaker=memory.speaker,
        session=memory.session,
        order=memory.order,
        event_at=memory.event_at,
        created_at=memory.created_at,
        importance=memory.importance,
        uses=uses_of(memory),
        pinned=memory.pinned,
    )
    return doc, content.vector is not None
