"""The order of slots: by use and importance."""

from __future__ import annotations

import math

from offprompt.records import Slot

DECAY = 0.5
HOUR_S = 3600.0


def rank_score(slot: Slot, now: float) -> float:
    """How much a slot is worth a line of the directory, 0 to 1, higher first.

    Formula  (importance + use) / 2, where use = 1 / (1 + e^−B) and B = ln(n / (1 − d)) − d · ln(L):
             n is the writes and reads so far, L the slot's age in hours (at least one), d = .5.
    Source   B is base-level activation in its "optimized learning" form, the logistic its retrieval
             probability at threshold 0 and noise 1: Anderson & Lebiere 1998, The Atomic Components of Thought, ch. 4.
             Equal weights of importance and use: Park et al. 2023, Generative Agents.
    """
    uses = slot.uses + 1
    age_h = max((now - slot.created_at) / HOUR_S, 1.0)
    activation = math.log(uses / (1 - DECAY)) - DECAY * math.log(age_h)
    return (slot.importance + 1 / (1 + math.exp(-activation))) / 2


def rank(slots: list[Slot], now: float) -> list[Slot]:
    """The slots, best first; ties by name."""
    return sorted(slots, key=lambda slot: (-rank_score(slot, now), slot.name))
