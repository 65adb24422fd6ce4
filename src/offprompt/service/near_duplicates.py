"""Facts that are stored already in nearly the same words; looked for where the setting `merge_cosine` asks for it."""

from __future__ import annotations

from typing import Final

from offprompt.models.by_kind import asked
from offprompt.recall.chunks import embed
from offprompt.recall.docs import Query
from offprompt.recall.duplicates import nearly_same
from offprompt.recall.packing import unpack
from offprompt.records import Indexed, Memory
from offprompt.records.basis import basis_of
from offprompt.service.closeness import with_cosines
from offprompt.service.memory_kit import MemoryKit

NEAREST: Final = 8


def near_duplicates(kit: MemoryKit, memory: Memory, indexed: Indexed) -> tuple[str, ...]:
    """Ids of facts of exactly the memory's scope that say nearly the same, the closest first.

    Of what   a fact that no rule read: what rules read is told apart by subject and attribute.
    Cost      one search of the scope; the vectors of its first hits, which the embedder's cache mostly has.
    """
    embedder, least = kit.embedder, kit.settings.merge_cosine
    content = unpack(indexed.content)
    if not least or embedder is None or memory.kind != "fact" or memory.attribute:
        return ()
    if content is None or content.vector is None:
        return ()
    vector = asked(embedder, content.vector)
    query = Query(text=memory.text, vector=vector, kinds=frozenset({"fact"}), top_k=NEAREST, floor=0.0)
    query = with_cosines(kit, query, memory.scope, "exact").query
    with kit.index.open(kit.memories, memory.scope, "exact", memory.created_at) as kept:
        found = [kept.memories[one.doc_id] for one in kept.index.search(query).hits]
    rests = set(basis_of(memory.tags))
    found = [one for one in found if set(basis_of(one.tags)) == rests]
    alike = [one for one in found if not one.attribute and nearly_same(one.text, memory.text)]
    if not alike:
        return ()
    cosines = embed(embedder, [one.text for one in alike], kind="passage") @ content.vector
    close = [(-float(cosine), one.memory_id) for cosine, one in zip(cosines, alike, strict=True) if cosine >= least]
    return tuple(memory_id for _, memory_id in sorted(close))
