"""Doctor: one look at all that an opened memory stands on."""

from __future__ import annotations

from offprompt.errors import BackendError, UnsupportedError, UsageError
from offprompt.protocols import Store, apply
from offprompt.records import Finding, MemoryScopes
from offprompt.service.copying import unfinished
from offprompt.service.encryption import findings as encryption_findings
from offprompt.service.maintenance import Report, doctor
from offprompt.service.model_findings import model_findings
from offprompt.service.parts import Parts
from offprompt.service.worker import worker_findings


def checkup(parts: Parts, *, fix: bool = False) -> Report:
    """Look at the engines of an opened memory, at their index, at a copy that is not finished, at the worker's
    runs, at memories without a vector, at turns that a language model is to read, at what models for memory took today.

    fix      mend the rights of the store's own files, and bring a vector index outside in step with the store.
    """
    # First, as rows that nobody can open are none for the engines' own checks once they are removed.
    sealed = encryption_findings(parts, fix=fix)
    engines = [parts.main] if parts.slots is parts.main else [parts.main, parts.slots]
    found = [one for engine in engines for one in doctor(engine, fix=fix).findings]
    found += parts.spool.findings() if parts.spool is not None else []
    found += sealed
    found += [*_copy(parts.main), *_vectors(parts, fix=fix), *worker_findings(parts.main, parts.clock.now())]
    found += [*_embeddings(parts), *_extraction(parts), *model_findings(parts.sessions, parts.clock)]
    return Report.of(found)


def _copy(store: Store) -> list[Finding]:
    source = unfinished(store)
    if not source:
        return []
    way = f"run the same copy again, from {source}; until then this store lacks a part"
    return [Finding("copy", "fail", f"this store is a copy of {source} that is not finished", way)]


def _embeddings(parts: Parts) -> list[Finding]:
    """Memories found by words alone though an embedder is set: it failed when they came, or is another one."""
    if parts.settings.embedder == "none" or not apply(parts.main, MemoryScopes()):
        return []
    from offprompt.service.reindexing import waiting  # noqa: PLC0415 - loads NumPy

    try:
        kit = parts.memories.kit
        name, number = kit.embedder.name if kit.embedder is not None else "", waiting(kit)
    except (BackendError, UnsupportedError, UsageError) as exc:
        way = "see that it answers, then run `offprompt reindex`; until then memories are found by words alone"
        return [Finding("embedder", "warn", str(exc), way)]
    if not number:
        return []
    what = f"{number:,} memories have no vector of {name}: they are found by words alone"
    return [Finding("embedder", "warn", what, "run `offprompt reindex`, or a worker")]


def _extraction(parts: Parts) -> list[Finding]:
    if parts.settings.derive != "model":
        return []
    from offprompt.service.consolidating import extraction_finding  # noqa: PLC0415 - loads NumPy

    return [extraction_finding(parts.main)]


def _vectors(parts: Parts, *, fix: bool) -> list[Finding]:
    if not parts.memories.has_index:
        return []
    # These load NumPy and the embedder.
    from offprompt.service.vector_check import check_vectors  # noqa: PLC0415

    kit = parts.memories.kit
    return [] if kit.vectors is None else check_vectors(kit.vectors, kit.memories, fix=fix)


def fill_index(parts: Parts) -> int | None:
    """Bring a vector index outside in step with a store that was copied; how many entries, None where there is none.

    Raises   BackendError if the index does not answer: `doctor --fix` does it later.
    """
    if not parts.memories.has_index:
        return None
    from offprompt.service.vector_check import compare  # noqa: PLC0415 - loads NumPy

    kit = parts.memories.kit
    return None if kit.vectors is None else compare(kit.vectors, kit.memories, fix=True).mended
