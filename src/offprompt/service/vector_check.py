"""The vector index held against the store, both ways, and mended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from offprompt.errors import OffpromptError
from offprompt.protocols import MemoryStore, VectorIndex, apply
from offprompt.records import (
    Finding,
    ListMemories,
    LoadMemories,
    MemoryQuery,
    MemoryScopes,
    QueueVectors,
    Scope,
    VectorEntry,
    VectorStamp,
    WaitingVectors,
)
from offprompt.service.vector_link import MOST_WAITING, VectorLink, entry_of

PAGE: Final = 500
_AWAY: Final = "recall finds by words alone, and changes wait, until it is back; see the message"


@dataclass(slots=True)
class Compared:
    """What a look at both found, without what waits.

    entries  that the index should have. missing: of those not there; other: there with another text, time or scope.
    extra    entries of memories that are not live, or not there at all. mended: of all three, put in order.
    """

    entries: int = 0
    missing: int = 0
    other: int = 0
    extra: int = 0
    mended: int = 0


def compare(
    link: VectorLink,
    store: MemoryStore,
    scope: Scope | None = None,
    *,
    fix: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Compared:
    """Hold the index against the store, digest by digest, and the store against the index.

    scope     its subtree only, and not what is extra elsewhere; None: all.
    fix       queue what differs, and tell the index: it gets what each memory is by then.
    progress  called with the number of memories looked at, after each page of 500.
    Cost      O(memories), a page at a time; with `fix` first all that waits. Others may read and write meanwhile.
    Raises    BackendError if store or index fail; UsageError if the index is of another dimension.
    """
    found, index = Compared(), link.outside
    if index is None:
        return found
    if fix:
        tell_all(link)
    waiting = frozenset(apply(store, WaitingVectors(limit=MOST_WAITING)))
    for entries in _entries(link, store, scope):
        due = [entry for entry in entries if entry.memory_id not in waiting]
        stamps = index.stamps([entry.place for entry in due])
        missing = [entry for entry in due if entry.place not in stamps]
        other = [entry for entry in due if entry.place in stamps and stamps[entry.place].stamp != entry.stamp]
        found.entries += len(entries)
        found.missing += len(missing)
        found.other += len(other)
        if fix:
            found.mended += _mend(link, store, [entry.place for entry in (*missing, *other)])
        if progress is not None:
            progress(found.entries)
    if scope is None:
        # Whatever is removed while its pages are turned could hide what comes after: first all are turned.
        extra = [one for page in _pages(index) for one in _extra(link, store, page) if one.memory_id not in waiting]
        found.extra = len(extra)
        if fix:
            found.mended += _mend(link, store, [one.place for one in extra])
    return found


def tell_all(link: VectorLink, *, progress: Callable[[int], object] | None = None) -> int:
    """Tell the index all that waits; how many.

    progress  called with the number told, after each batch.
    Raises    as VectorLink.tell.
    """
    done = 0
    while True:
        told = link.tell()
        done += told.put + told.removed
        if progress is not None and told.put + told.removed:
            progress(done)
        if not told.left:
            return done


def check_vectors(link: VectorLink, store: MemoryStore, *, fix: bool = False) -> list[Finding]:
    """What `doctor` says of the index; `fix`: it is brought in step with the store."""
    if link.outside is None:
        return []
    try:
        found = compare(link, store, fix=fix)
        waiting = len(apply(store, WaitingVectors(limit=MOST_WAITING)))
    except OffpromptError as exc:
        return [Finding("vectors", "fail", str(exc), _AWAY)]
    findings: list[Finding] = []
    if waiting:
        many = f"{waiting:,}{' or more' if waiting == MOST_WAITING else ''}"
        findings.append(
            Finding("vectors", "warn", f"{many} changes wait for the vector index", "offprompt worker, or doctor --fix")
        )
    differs = found.missing + found.other + found.extra
    if fix and differs:
        said = f"{found.mended:,} entries of the vector index that differed from the store are mended"
        findings.append(Finding("vectors", "ok", said))
    elif differs:
        state = "fail" if found.extra else "warn"
        said = (
            f"the vector index lacks {found.missing:,} memories, has {found.other:,} that changed as they were, "
            f"and {found.extra:,} that are not there any more"
        )
        findings.append(Finding("vectors", state, said, "offprompt doctor --fix"))
    return findings or [Finding("vectors", "ok", f"the vector index has all {found.entries:,} vectors of the store")]


def _entries(link: VectorLink, store: MemoryStore, scope: Scope | None) -> Iterator[list[VectorEntry]]:
    """What the index should have, page by page."""
    roots = [scope]
    if scope is None:
        apps = dict.fromkeys(place.app for place, _ in apply(store, MemoryScopes()))
        roots = [Scope(app, shared=True) for app in apps]
    for root in roots:
        after = ""
        while root is not None:
            rows = apply(store, ListMemories(MemoryQuery(root, "subtree", after=after, limit=PAGE)))
            if not rows:
                break
            after = rows[-1].memory_id
            pairs = apply(store, LoadMemories(root.app, tuple(row.memory_id for row in rows)))
            made = (entry_of(memory, indexed, link.embedder) for memory, indexed in pairs)
            yield [entry for entry in made if entry is not None]


def _pages(index: VectorIndex) -> Iterator[list[VectorStamp]]:
    after = ""
    while True:
        page, after = index.scan(after=after, limit=PAGE)
        yield page
        if not after:
            return


def _extra(link: VectorLink, store: MemoryStore, page: Sequence[VectorStamp]) -> Iterator[VectorStamp]:
    """Those of the entries that should not be there."""
    by_app: defaultdict[str, list[str]] = defaultdict(list)
    for stamp in page:
        by_app[stamp.scope.app].append(stamp.memory_id)
    wanted = {
        entry.place
        for app, ids in by_app.items()
        for memory, indexed in apply(store, LoadMemories(app, tuple(ids)))
        if (entry := entry_of(memory, indexed, link.embedder)) is not None
    }
    return (stamp for stamp in page if stamp.place not in wanted)


def _mend(link: VectorLink, store: MemoryStore, places: Sequence[tuple[str, str]]) -> int:
    """Queue the memories and tell the index; how many."""
    by_app: defaultdict[str, list[str]] = defaultdict(list)
    for app, memory_id in places:
        by_app[app].append(memory_id)
    if by_app:
        store.apply([QueueVectors(app, tuple(ids)) for app, ids in by_app.items()])
        tell_all(link)
    return len(places)
