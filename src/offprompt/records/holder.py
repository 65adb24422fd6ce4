"""Holder: who something is stored for."""

from __future__ import annotations

from dataclasses import dataclass

from offprompt.records.scope import Scope


@dataclass(frozen=True, slots=True)
class Holder:
    """What is stored for one user, agent, or user and agent together; scope: without a session."""

    scope: Scope
    slots: int = 0
    memories: int = 0
    sessions: int = 0
