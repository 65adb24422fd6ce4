"""What memories cost under load: recall in a scope within a large store, cold and warm; add, erase; beside the bound.

    python bench/memories.py [--memories 10000] [--store 1000000] [--large 100000] [--file FILE] [--mem0 PYTHON]

Texts are real turns, joined in pairs, from the folder that OFFPROMPT_DATA names; without it random words. Vectors are
random directions of 512 numbers, known beforehand: the embedder's time is in none of the figures. The rest of the
store are copies of the scope's rows under other users. The bound is one product of a query with the scope's vectors.
With --mem0, the Python of an environment that has mem0ai, the same texts and vectors go through it, into local Qdrant,
with infer=False. A FILE that is there is used as it is, and stays.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offprompt.config import Settings
from offprompt.models.clocks import SystemClock
from offprompt.models.tokenizers import tokenizer_for
from offprompt.protocols import EmbedKind
from offprompt.recall.docs import analyse
from offprompt.recall.packing import pack
from offprompt.recall.rows import products
from offprompt.records import AddMemory, Indexed, Memory, Scope
from offprompt.service.memories import Memories
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.memory_kit import MemoryIds
from offprompt.service.recall_bench.datasets import read
from offprompt.service.remembering import digest_of
from offprompt.service.slot_writer import Kit
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing.leak_texts import random_words

DIMENSION, BATCH, ERASED, ADDED, OTHERS = 512, 1000, 1000, 200, 10_000
QUESTIONS = 300
COLD_ROUNDS = 5


class KnownVectors:
    """An embedder that has every text's vector before it is asked: a random direction."""

    name, dimension, piece_chars, unrelated = "known", DIMENSION, 100_000, 0.1

    def __init__(self) -> None:
        self._rng, self._known = np.random.default_rng(1), dict[str, NDArray[np.float32]]()

    def learn(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._rng.standard_normal((len(texts), DIMENSION), np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self._known |= dict(zip(map(_squeezed, texts), vectors, strict=True))
        return vectors

    def knows(self, text: str) -> bool:
        return _squeezed(text) in self._known

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:  # noqa: ARG002 - one kind
        return np.stack([self._known[_squeezed(text)] for text in texts])


def _squeezed(text: str) -> str:
    """A text that was cut into sentences and joined again is still known."""
    return "".join(text.split())


def texts_of(number: int, seed: int) -> list[str]:
    rng = random.Random(seed)  # noqa: S311 - a repeatable draw
    folder = os.environ.get("OFFPROMPT_DATA")
    if folder is None:
        turns = [random_words(rng, 140, chinese=at % 4 == 0) for at in range(2000)]
    else:
        sets = [*read(Path(folder) / "locomo-dev"), *read(Path(folder) / "madial")]
        turns = [note.text for data in sets for corpus in data.corpora for note in corpus.notes]
    return [f"{rng.choice(turns)} {rng.choice(turns)[:40]} {at}" for at in range(number)]


def memories_of(store: SqliteStore, user: str, embedder: KnownVectors) -> Memories:
    clock, tokenizer, settings = SystemClock(), tokenizer_for(""), Settings()
    kit = Kit(store, clock, tokenizer, settings)
    return MemoryAccess(store, kit, embedder_for=lambda: embedder, redactors=tuple).of(Scope(user=user))


def fill(store: SqliteStore, user: str, texts: Sequence[str], embedder: KnownVectors) -> float:
    """Add a user's memories, and return the milliseconds that the store took for each thousand."""
    ids, scope, spent = MemoryIds(), Scope(user=user), 0.0
    for at in range(0, len(texts), BATCH):
        now, some = time.time(), texts[at : at + BATCH]
        ops: list[AddMemory] = []
        for text, vector in zip(some, embedder.learn(some), strict=True):
            memory_id = ids.new(now)
            memory = Memory(memory_id, scope, "fact", text, created_at=now - at, updated_at=now, digest=digest_of(text))
            ops.append(AddMemory(memory, Indexed(memory_id, 1, pack(analyse(text, vector=vector)), embedder.name)))
        begin = time.perf_counter()
        store.apply(ops)
        spent += time.perf_counter() - begin
    return spent * 1e6 / max(len(texts), 1)


def copy_to_others(path: Path, user: str, rows: int) -> None:
    """Rows of other users: copies of this one's, under ids and digests of their own."""
    file = sqlite3.connect(path, isolation_level=None)
    for number in range(-(-rows // OTHERS)):
        count, tail = min(OTHERS, rows - number * OTHERS), f"o{number}"
        given = (tail, user, count)
        file.execute("BEGIN")
        file.execute(
            "INSERT INTO memories SELECT app, ?1, agent, session, memory_id || ?1, kind, state, state_at, digest || ?1,"
            " subject, attribute, in_session, happened_at, expires_at, active_at, revision, json_set(record, "
            "'$.memory_id', memory_id || ?1, '$.scope.user', ?1, '$.digest', digest || ?1) "
            "FROM memories WHERE user = ?2 LIMIT ?3",
            given,
        )
        file.execute(
            "INSERT INTO memory_index SELECT x.app, x.memory_id || ?1, x.version, x.content, x.embedder FROM memories m"
            " JOIN memory_index x ON x.app = m.app AND x.memory_id = m.memory_id WHERE m.user = ?2 LIMIT ?3",
            given,
        )
        file.execute(
            "INSERT INTO memory_scopes SELECT app, ?1, agent, session, revision, 0 FROM memory_scopes WHERE user = ?2",
            (tail, user),
        )
        file.execute("COMMIT")
        print(f"\rcopied {number * OTHERS + count:,} rows", end="", file=sys.stderr)
    file.close()


def times_ms(calls: Sequence[Callable[[], object]]) -> NDArray[np.float64]:
    spent: list[float] = []
    for call in calls:
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return np.array(spent) * 1e3


def tell(what: str, spent: NDArray[np.float64]) -> None:
    p50, p99 = np.percentile(spent, (50, 99))
    print(f"{what:58} p50 {p50:8.2f} ms   p99 {p99:8.2f} ms", flush=True)


def recalls(memories: Memories, texts: Sequence[str], embedder: KnownVectors, what: str) -> None:
    """Recall with parts of the texts as questions; then the bound, on as many vectors."""
    rng = random.Random(2)  # noqa: S311 - a repeatable draw
    asked = [" ".join(rng.choice(texts).split()[:12]) for _ in range(QUESTIONS)]
    embedder.learn(asked)
    memories.recall(asked[0])
    tell(f"recall, {what}", times_ms([lambda text=text: memories.recall(text) for text in asked]))
    matrix = np.random.default_rng(3).standard_normal((len(texts), DIMENSION), np.float32)
    tell("  bound: one product, this thread", times_ms([lambda: products(matrix, matrix[0])] * 50))
    tell("  bound: one product, BLAS", times_ms([lambda: matrix @ matrix[0]] * 50))


def cold(path: Path) -> None:
    """Print, in milliseconds, what the first recall of a new process costs after its imports."""
    embedder = KnownVectors()
    embedder.learn(["where is the tea?"])
    begin = time.perf_counter()
    memories_of(SqliteStore(path, clock=SystemClock()), "alice", embedder).recall("where is the tea?")
    print((time.perf_counter() - begin) * 1e3)


def beside_mem0(python: str, texts: Sequence[str], embedder: KnownVectors, folder: Path) -> None:
    """The same texts and vectors in mem0."""
    np.save(folder / "vectors.npy", embedder.encode(texts, kind="passage"))
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    program = Path(__file__).parent / "memories_mem0.py"
    environ = os.environ | {"MEM0_TELEMETRY": "false", "MEM0_DIR": str(folder)}
    subprocess.run([python, str(program), str(folder), str(ERASED)], check=True, env=environ)  # noqa: S603 - as given


def measure(path: Path, given: argparse.Namespace) -> None:
    embedder, texts = KnownVectors(), texts_of(given.memories, 1)
    large = texts_of(given.large, 4)
    store = SqliteStore(path, clock=SystemClock())
    if not memories_of(store, "alice", embedder).list(limit=1).memories:
        each = fill(store, "alice", texts, embedder)
        print(f"add, 1,000 in one transaction: {each:.0f} ms a thousand")
        fill(store, "large", large, embedder)
        copy_to_others(path, "alice", max(given.store - given.memories - given.large, 0))
    print(f"\nstore {path.stat().st_size / 1e6:,.0f} MB")
    for what in ("first", "page cache warm"):
        rounds = 1 if what == "first" else COLD_ROUNDS
        command = [sys.executable, __file__, "--cold", str(path)]
        tell(
            f"cold scope of {given.memories:,}, new process, {what}",
            np.array([float(subprocess.check_output(command, text=True)) for _ in range(rounds)]),  # noqa: S603 - itself
        )
    alice = memories_of(store, "alice", embedder)
    recalls(alice, texts, embedder, f"{given.memories:,} in the scope")
    if given.large:
        recalls(memories_of(store, "large", embedder), large, embedder, f"{given.large:,} in the scope")
    fresh = [f"{text} again" for text in texts_of(ADDED, 5)]
    embedder.learn(fresh)
    begin = time.thread_time()
    tell("add one", times_ms([lambda text=text: alice.remember(text, derive="none") for text in fresh]))
    print(f"  of it on the processor: {(time.thread_time() - begin) * 1e3 / ADDED:.2f} ms")
    doomed = [memory.memory_id for memory in alice.list(limit=ERASED)]
    tell(f"erase {len(doomed):,}", times_ms([lambda: alice.erase(*doomed)]))
    store.close()
    if given.mem0:
        if not embedder.knows(texts[0]):
            embedder.learn(texts)
        with tempfile.TemporaryDirectory() as folder:
            beside_mem0(given.mem0, texts, embedder, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    for name, default in (("--memories", 10_000), ("--store", 1_000_000), ("--large", 100_000)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--mem0", metavar="PYTHON")
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cold:
        cold(given.cold)
    elif given.file:
        measure(given.file, given)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder) / "load.db", given)


if __name__ == "__main__":
    main()
