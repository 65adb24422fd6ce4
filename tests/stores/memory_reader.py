"""Says what recall would search, line after line, from a cache that it keeps: the other processes' program.

python memory_reader.py FILE USER    each line on standard input is answered by ids, texts and hits as JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from offprompt.models.clocks import SystemClock
from offprompt.recall.docs import Query
from offprompt.records import Scope
from offprompt.service.memory_index import IndexCache
from offprompt.stores.sqlite import SqliteStore


def main() -> None:
    """Answer with the memories of the cache, and with those that the words of the line find."""
    clock = SystemClock()
    store, scope, cache = SqliteStore(Path(sys.argv[1]), clock=clock), Scope(user=sys.argv[2]), IndexCache(None)
    for line in sys.stdin:
        with cache.open(store, scope, "exact", clock.now()) as kept:
            texts = {memory_id: kept.memories[memory_id].text for memory_id in sorted(kept.memories)}
            hits = [hit.doc_id for hit in kept.index.search(Query(text=line, top_k=1000, floor=0.0)).hits]
            size = len(kept.index)
        sys.stdout.write(json.dumps({"texts": texts, "hits": sorted(hits), "size": size}) + "\n")
        sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main()
