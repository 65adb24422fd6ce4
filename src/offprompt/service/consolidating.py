"""All that waits for a language model to read it, scope by scope; and how many turns that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offprompt.config import Settings
from offprompt.protocols import MemoryStore, apply
from offprompt.records import PENDING, Cancel, Finding, ListMemories, MemoryQuery, MemoryScopes, Scope, ScopeRevisions
from offprompt.service.extract_background import extract_model
from offprompt.service.extract_reading import Rules
from offprompt.service.extracting import Extracted, Extractor, waiting_turns
from offprompt.service.memory_kit import MemoryKit, Waiting


@dataclass(frozen=True, slots=True)
class Waits:
    """Users' turns that no language model has read: `waiting`, and `pending` where it gave no answer of use."""

    waiting: int = 0
    pending: int = 0


def rules_of(settings: Settings) -> Rules:
    """What the settings add to the instructions."""
    categories = tuple(name.strip() for name in settings.extract_categories.split(",") if name.strip())
    return Rules(settings.extract_strictness, categories, settings.extract_instructions.strip())


def consolidate(
    kit: MemoryKit,
    scope: Scope | None = None,
    *,
    limit: int | None = None,
    pending: bool = False,
    due: bool = False,
    cancel: Cancel | None = None,
) -> Iterator[Extracted]:
    """Let a language model read what waits in a scope and those below it (None: in all), one exact scope after another.

    limit    at most so many turns in all. pending: also what was set aside before.
    due      only where `extract_turns` turns wait, or one for `extract_every_s`.
    Yields   what was done where there was something to do. Trouble of the model ends it; a spent budget is one scope's.
    Raises   UnsupportedError if no model is set.
    """
    reader, rules, left = extract_model(kit.models), rules_of(kit.settings), limit
    for exact, _ in apply(kit.memories, MemoryScopes(scope)):
        if left is not None and left <= 0:
            return
        if due and not _is_due(kit, exact):
            continue
        found = Extractor(kit, exact, reader, rules).run(limit=left, pending=pending, cancel=cancel)
        kit.waiting.pop(exact, None)
        if left is not None:
            left -= found.read + found.pending
        if found.calls or found.stopped:
            yield found
        if found.cause in ("trouble", "useless"):
            return


def _is_due(kit: MemoryKit, scope: Scope) -> bool:
    """Whether enough waits, or for long enough. Cost: O(episodes) where the scope has changed since the last look."""
    (revision,) = apply(kit.memories, ScopeRevisions((scope,)))
    known = kit.waiting.get(scope)
    if known is None or known.revision != revision:
        turns, _ = waiting_turns(kit, scope)
        known = Waiting(revision, len(turns), min((turn.created_at for turn in turns), default=0.0))
        kit.waiting[scope] = known
    waited_s = kit.clock.now() - known.since
    return known.turns > 0 and (known.turns >= kit.settings.extract_turns or waited_s >= kit.settings.extract_every_s)


def waits(store: MemoryStore, scope: Scope | None = None) -> Waits:
    """How much waits in a scope and those below it (None: in all). Cost: O(episodes)."""
    waiting, pending = 0, 0
    for exact, _ in apply(store, MemoryScopes(scope)):
        episodes = apply(store, ListMemories(MemoryQuery(exact, "exact", kinds=("episode",))))
        marks = [one.extracted for one in episodes if one.role == "user"]
        waiting += marks.count("")
        pending += marks.count(PENDING)
    return Waits(waiting, pending)


def extraction_finding(store: MemoryStore) -> Finding:
    """What `doctor` says of extraction."""
    found = waits(store)
    what = f"{found.waiting:,} turns wait for a language model, {found.pending:,} are set aside"
    if found.pending:
        way = "offprompt trace SESSION says why; offprompt consolidate --pending tries them again"
        return Finding("extraction", "warn", what, way)
    return Finding("extraction", "ok", what, "offprompt consolidate reads them now" if found.waiting else "")
