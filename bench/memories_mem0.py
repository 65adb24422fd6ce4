"""The texts and vectors of `bench/memories.py` in mem0 with local Qdrant; run by it, in an environment with mem0ai.

python memories_mem0.py FOLDER ERASED
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

QUESTIONS, ADDED, BATCH = 100, 50, 500


class KnownVectors:
    """Takes the place of mem0's embedder: every text's vector is known."""

    def __init__(self, known: dict[str, list[float]]) -> None:
        self.known, self.config = known, None

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002 - mem0's signature
        return self.known[text]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text, memory_action) for text in texts]


def main() -> None:
    os.environ.setdefault("OPENAI_API_KEY", "none: nothing is asked of a model")
    # Reads the environment when it is imported; not one of our dependencies.
    mem0: Any = import_module("mem0")

    folder, erased = Path(sys.argv[1]), int(sys.argv[2])
    texts: list[str] = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    vectors = np.load(folder / "vectors.npy")
    store = {"collection_name": "load", "path": str(folder / "qdrant"), "embedding_model_dims": vectors.shape[1]}
    config: dict[str, Any] = {
        "vector_store": {"provider": "qdrant", "config": {**store, "on_disk": True}},
        "history_db_path": str(folder / "history.db"),
    }
    memory: Any = mem0.Memory.from_config(config)
    memory.embedding_model = KnownVectors(dict(zip(texts, vectors.tolist(), strict=True)))
    begin = time.perf_counter()
    for text in texts[:ADDED]:
        memory.add(text, user_id="alice", infer=False)
    print(f"mem0: add one {(time.perf_counter() - begin) * 1e3 / ADDED:.2f} ms, mean of {ADDED}", flush=True)
    for at in range(ADDED, len(texts), BATCH):
        # What `add` hands to the vector store, many at once.
        some = texts[at : at + BATCH]
        payloads = [{"data": text, "user_id": "alice", "hash": str(hash(text))} for text in some]
        ids = [str(uuid.uuid4()) for _ in some]
        memory.vector_store.insert(vectors=vectors[at : at + BATCH].tolist(), payloads=payloads, ids=ids)
    spent: list[float] = []
    for text in texts[:: max(len(texts) // QUESTIONS, 1)]:
        begin = time.perf_counter()
        memory.search(text, filters={"user_id": "alice"}, top_k=5)
        spent.append((time.perf_counter() - begin) * 1e3)
    print(f"mem0: search p50 {np.percentile(spent, 50):.2f} ms, p99 {np.percentile(spent, 99):.2f} ms", flush=True)
    found = memory.get_all(filters={"user_id": "alice"}, top_k=erased)["results"]
    begin = time.perf_counter()
    for one in found:
        memory.delete(one["id"])
    print(f"mem0: delete {len(found):,} in {(time.perf_counter() - begin) * 1e3:,.0f} ms", flush=True)


if __name__ == "__main__":
    main()
