"""Ingests a folder and is killed: `ingest_victim.py STORE FOLDER WHERE DOCUMENT`; WHERE is where in that document."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import offprompt
from offprompt.records import MemoryOp, UpdateMemory
from offprompt.records.document import IngestStep
from offprompt.stores import sqlite


def main(store: str, folder: str, where: str, document: str) -> None:
    at = [""]

    def die(here: str) -> None:
        if (here, at[0]) == (where, document):
            os.kill(os.getpid(), signal.SIGKILL)

    def told(step: IngestStep) -> None:
        at[0] = step.document
        if step.passages:
            die("before it is stored")

    run_memory_ops = sqlite.run_memory_ops

    def killed(table: Any, ops: Sequence[MemoryOp[Any]], now: float) -> list[Any]:
        is_ours = any(isinstance(op, UpdateMemory) for op in ops)
        if is_ours and (where, document) == ("in the middle", at[0]):
            run_memory_ops(table, ops[: len(ops) // 2], now)
            die("in the middle")
        done = run_memory_ops(table, ops, now)
        if is_ours:
            die("before the commit")
        return done

    sqlite.run_memory_ops = killed
    with offprompt.open(store, embedder="none") as mem:
        mem.ingest(folder, space="legal", progress=told)


if __name__ == "__main__":
    main(*sys.argv[1:])
