"""One client at work on a filled store, and what it was kept waiting."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from offprompt.records import Scope
from offprompt.service.load_bench.fill import texts
from offprompt.service.load_bench.plan import MIX, SIZES, Plan, class_of, user_of
from offprompt.service.offprompt import Offprompt

ASKED: Final = 997
"""Questions and new sentences that are drawn from."""

COLD_ROUNDS: Final = 10
"""Scopes of a class that are recalled from without anything kept in memory."""

WARM_ROUNDS: Final = 200
"""Recalls in the scopes of a class, each having been asked once before."""

WARM_SCOPES: Final = 4


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: what it was, its scope's class, whether nothing of the scope was kept in memory, and milliseconds."""

    what: str
    size: int
    cold: bool
    ms: float


def drive(memory: Offprompt, plan: Plan, seconds: float, *, seed: int) -> list[Sample]:
    """Read and write as many clients of a service do, one after the other, each time as another user.

    Mix      see `plan.MIX`; a user is drawn by the share of the memories.
    """
    rng, draw = random.Random(seed), np.random.default_rng(seed)  # noqa: S311 - a repeatable draw
    sizes, shares = plan.sizes(), plan.shares()
    sentences = texts(ASKED, seed=seed + 2)
    index = memory.parts.memories.kit.index
    samples: list[Sample] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        rank = int(draw.choice(plan.users, p=shares))
        scope = memory.scope(user=user_of(rank))
        what = rng.choices(list(MIX), list(MIX.values()))[0]
        sentence, number = rng.choice(sentences), rng.randrange(1 << 40)
        calls: dict[str, Callable[[], object]] = {
            "recall": lambda: scope.recall(_question(sentence)),  # noqa: B023 - called before the next round
            "read": scope.slots.list,
            "remember": lambda: scope.remember(f"{sentence} {number}"),  # noqa: B023
            "write": lambda: scope.write(f"slot_{number % 32}", sentence),  # noqa: B023
        }
        cold = what == "recall" and not index.holds(scope.scope, "inherit")
        samples.append(Sample(what, class_of(int(sizes[rank])), cold, _ms(calls[what])))
    return samples


def recalls(memory: Offprompt, plan: Plan, *, seed: int = 1) -> list[Sample]:
    """Recall alone, by classes of scopes: first with nothing kept in memory, then again and again.

    Cold     the process's own memory; what the server has read before stays in its cache.
    """
    rng = random.Random(seed)  # noqa: S311 - a repeatable draw
    sizes = plan.sizes()
    sentences = texts(ASKED, seed=seed + 2)
    samples: list[Sample] = []
    memory.scope(user="load-nobody").recall("The first question loads the embedder")
    for size in SIZES:
        ranks = [rank for rank, count in enumerate(sizes.tolist()) if class_of(count) == size]
        if not ranks:
            continue
        for at in range(COLD_ROUNDS):
            scope = Scope(user=user_of(ranks[at % len(ranks)]))
            memory.parts.memories.drop(scope)
            samples.append(Sample("recall", size, True, _asked(memory, scope, rng, sentences)))  # noqa: FBT003
        warm = [Scope(user=user_of(rank)) for rank in ranks[:WARM_SCOPES]]
        for scope in warm:
            _asked(memory, scope, rng, sentences)
        for at in range(WARM_ROUNDS):
            took = _asked(memory, warm[at % len(warm)], rng, sentences)
            samples.append(Sample("recall", size, False, took))  # noqa: FBT003
        for scope in warm:
            memory.parts.memories.drop(scope)
    return samples


def _asked(memory: Offprompt, scope: Scope, rng: random.Random, sentences: Sequence[str]) -> float:
    bound = memory.scope(user=scope.user)
    question = _question(rng.choice(sentences))
    return _ms(lambda: bound.recall(question))


def _question(sentence: str) -> str:
    """Part of a sentence, as a question has it."""
    words = sentence.split()
    return " ".join(words[1:6])


def _ms(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begun)
