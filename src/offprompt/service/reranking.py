"""Reranking: what a recall found, put in order by a model that reads question and memories together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from offprompt.errors import BackendError, BudgetError, ModelError, UnsupportedError, UsageError
from offprompt.protocols import Reranker
from offprompt.recall.reranking import asked, schema_of, scores_of
from offprompt.records import Hit, Recalled, Scope
from offprompt.service.exporting import secret_hider
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.model_calls import CountedModel

ANSWER_TOKENS: Final = 64
TEXT_ANSWER_TOKENS: Final = 16


@dataclass(frozen=True, slots=True)
class ChatReranker:
    """A chat model that gives each text a score; one call for all of them, whose tokens are the scope's."""

    model: CountedModel
    scope: Scope

    @property
    def name(self) -> str:
        """See `Reranker`."""
        return self.model.name

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker`.

        Raises   BudgetError too, where the scope's budget is spent.
        """
        if not texts:
            return []
        most = ANSWER_TOKENS + TEXT_ANSWER_TOKENS * len(texts)
        answer = self.model.complete(self.scope, asked(query, texts), schema=schema_of(len(texts)), max_tokens=most)
        found = scores_of(answer.data, len(texts))
        if isinstance(found, str):
            why = "it was cut off" if answer.finish == "length" else "it is no JSON" if answer.data is None else found
            raise ModelError(f"the answer of {self.name!r} gives no order: {why}; try another model", kind="reply")
        return found


def reranker_of(kit: MemoryKit, scope: Scope, rerank: object) -> Reranker | None:
    """The reranker that a recall asks for; None: by none.

    rerank   None: as the setting says. True: the model of `[models.rerank]`. False: none. Or a `Reranker`.
    Raises   UnsupportedError if none is set; UsageError for what is none.
    """
    wanted: Any = kit.settings.rerank if rerank is None else rerank
    if wanted is False:
        return None
    if wanted is not True:
        if isinstance(getattr(wanted, "name", None), str) and callable(getattr(wanted, "scores", None)):
            return wanted
        raise UsageError(
            f"rerank={rerank!r}: give True for the model of [models.rerank], False, or an object with name and scores"
        )
    if kit.models is None:
        raise UnsupportedError("rerank=True: no models are set here; open memory with models={'rerank': …}")
    return ChatReranker(kit.models.needed("rerank"), scope)


def reranked(kit: MemoryKit, scope: Scope, query: str, found: Recalled, reranker: Reranker, top_k: int) -> Recalled:
    """The best hits in the reranker's order, each with its score from there; its own order decides among equals.

    Trouble  if the reranker fails, or its budget is spent, the order stays as it was and `degraded` says why.
    Given    neither secrets: values of `never` slots are handles.
    """
    hide = secret_hider(kit, scope)
    try:
        scores = reranker.scores(hide(query), [hide(hit.text) for hit in found.hits])
    except (BackendError, BudgetError, UsageError) as exc:
        return _as_found(found, top_k, str(exc))
    except Exception as exc:  # noqa: BLE001 - an application's own may raise anything; its words may be the texts
        return _as_found(found, top_k, f"the reranker {reranker.name!r} raised {type(exc).__name__}")
    if len(scores) != len(found.hits) or not all(map(math.isfinite, scores)):
        raise UsageError(
            f"the reranker {reranker.name!r} gave {len(scores)} scores for {len(found.hits)} texts; "
            "give one finite number each"
        )
    pairs = sorted(zip(scores, found.hits, strict=True), key=lambda pair: -pair[0])
    hits = tuple(Hit(hit.memory, score, {**hit.parts, "rerank": score, "first": hit.score}) for score, hit in pairs)
    return replace(found, hits=hits[:top_k])


def _as_found(found: Recalled, top_k: int, why: str) -> Recalled:
    """The best hits in the order in which they were found, and why."""
    why = f"not reranked: {why}"
    return replace(found, hits=found.hits[:top_k], degraded=f"{found.degraded}; {why}" if found.degraded else why)
