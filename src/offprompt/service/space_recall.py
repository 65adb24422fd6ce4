"""Recall in spaces: each that is granted to a scope is searched by itself, and the best of all are the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from offprompt.recall.docs import Query
from offprompt.records import Actor, Recalled, Scope
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.memory_recall import Asked, Recaller


def granted_spaces(kit: MemoryKit, scope: Scope, actor: Actor, names: Sequence[str]) -> tuple[list[Scope], str]:
    """The spaces of these names that the scope may search, and what is to be said of the others, empty: nothing.

    Alike    are a space that is not granted and one that is not there.
    """
    grants = kit.slots.grants
    others = [name for name in names if name != scope.space]
    has = set(grants.granted("space", others, scope, actor.key)) if grants is not None and others else set[str]()
    lacking = [name for name in others if name not in has]
    found = [Scope(scope.app, space=name) for name in others if name in has]
    if not lacking:
        return found, ""
    to = f"user:{scope.user}" if scope.user else f"agent:{scope.agent}" if scope.agent else "everyone"
    told = "; ".join(f"offprompt grant space {name} --to {to}" for name in lacking)
    return found, f"not searched, since nothing of that name is granted to {scope}: {', '.join(lacking)} ({told})"


def recalled_in(kit: MemoryKit, scope: Scope, spaces: Sequence[Scope], asked: Asked) -> Recalled:
    """The answer of a scope together with those of spaces.

    Scores   are sums of parts that mean the same in each, so the best of all can be told.
    Cost     as a recall of each; the question's vector is made once. A space is loaded once for all who search it.
    """
    own = Recaller(kit, scope)
    made = own.query(asked)
    return _best([own.recall(asked, made), *_of_spaces(kit, spaces, asked, made)], made[0].top_k)


def passages_in(kit: MemoryKit, spaces: Sequence[Scope], asked: Asked) -> Recalled:
    """The answer of spaces alone."""
    if not spaces:
        return Recalled(())
    made = Recaller(kit, spaces[0]).query(asked)
    return _best(_of_spaces(kit, spaces, asked, made), made[0].top_k)


def _of_spaces(kit: MemoryKit, spaces: Sequence[Scope], asked: Asked, made: tuple[Query, str]) -> list[Recalled]:
    return [Recaller(kit, one).recall(replace(asked, within="exact"), made) for one in spaces]


def _best(answers: Sequence[Recalled], top_k: int) -> Recalled:
    hits = sorted((hit for one in answers for hit in one), key=lambda hit: (-hit.score, hit.memory_id))
    degraded = "; ".join(dict.fromkeys(one.degraded for one in answers if one.degraded))
    return Recalled(
        tuple(hits[:top_k]),
        sum(one.searched for one in answers),
        sum(one.below for one in answers),
        "" if hits else next((one.why for one in answers if one.searched), answers[0].why),
        degraded,
    )
