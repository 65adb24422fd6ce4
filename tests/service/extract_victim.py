"""Reads turns of a store and is killed: `extract_victim.py FILE WHERE BATCH`; WHERE is where in that batch."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import offprompt
from offprompt.records import MarkExtracted, MemoryOp
from offprompt.service.bound import BoundScope
from offprompt.service.extracting import Extractor
from offprompt.stores import sqlite
from tests.service.read import FakeReader, Request, answer, decision

SAID = {
    "I only drink oolong in the afternoon.": (
        "drink oolong in the afternoon",
        "The user drinks oolong in the afternoon.",
    ),
    "Our dog Rex is afraid of thunder.": ("Rex is afraid of thunder", "The user's dog Rex is afraid of thunder."),
    "I cycle to the harbour office.": ("cycle to the harbour office", "The user cycles to the harbour office."),
    "My daughter Mia plays the cello.": ("Mia plays the cello", "The user's daughter Mia plays the cello."),
    "我对海鲜过敏。": ("对海鲜过敏", "用户对海鲜过敏。"),
    "我下个月要搬到杭州。": ("搬到杭州", "用户计划搬到杭州。"),
}
BATCH = 2


def facts_of(request: Request) -> dict[str, Any]:
    """One fact for each turn."""
    told: list[dict[str, Any]] = []
    for line in request.turns:
        quote, text = SAID[line["text"]]
        told.append(decision("ADD", line["turn"], quote, text))
    return answer(*told)


def read(scope: BoundScope, reader: FakeReader) -> Any:
    kit = scope._parts.memories.kit  # pyright: ignore[reportPrivateUsage]
    return Extractor(kit, scope.scope, reader).run()


def main(path: str, where: str, batch: int) -> None:
    def die(here: str, number: int) -> None:
        if (here, number) == (where, batch):
            os.kill(os.getpid(), signal.SIGKILL)

    def answered(request: Request) -> dict[str, Any]:
        die("before the answer", len(reader.requests))
        made = facts_of(request)
        die("after the answer", len(reader.requests))
        return made

    reader = FakeReader([answered])
    run_memory_ops = sqlite.run_memory_ops

    def killed(table: Any, ops: Sequence[MemoryOp[Any]], now: float) -> list[Any]:
        marks = any(isinstance(op, MarkExtracted) for op in ops)
        if marks:
            die("before it is stored", len(reader.requests))
        done = run_memory_ops(table, ops, now)
        if marks:
            die("before the commit", len(reader.requests))
        return done

    apply = sqlite.SqliteStore.apply

    def applied(self: sqlite.SqliteStore, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        done = apply(self, ops)
        if any(isinstance(op, MarkExtracted) for op in ops):
            die("after the commit", len(reader.requests))
        return done

    sqlite.run_memory_ops = killed
    sqlite.SqliteStore.apply = applied
    with offprompt.open(path, embedder="none", extract_turns=BATCH) as mem:
        ann = mem.scope(user="ann")
        ann.recall("tea")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        read(ann, reader)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
