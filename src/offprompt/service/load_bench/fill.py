"""A store filled for the bench: one user's memories made by the real path, all others' as copies of their rows."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from offprompt.errors import ConflictError
from offprompt.protocols import Embedder, Portable, Store
from offprompt.records import AddMemory, EraseMemories, Memory, Scope
from offprompt.records.tables import TABLES, Row
from offprompt.service.indexing import index_texts
from offprompt.service.load_bench.plan import Plan, user_of
from offprompt.service.memory_kit import MemoryIds
from offprompt.service.remembering import digest_of

NOTE: Final = "bench load"
POOL: Final = 20_000
"""Texts that are made; a user with more has them again, under numbers."""

POOL_USER: Final = "load-pool"
LOG: Final = 40
"""Turns of a session; every other memory is one."""

BATCH: Final = 1000

_WHO: Final = ("I", "my sister", "our team", "the neighbour", "我", "我妹妹", "我们组", "邻居")
_DOES: Final = ("likes", "bought", "lost", "repaired", "is looking for", "喜欢", "买了", "丢了", "修好了", "在找")
_WHAT: Final = (
    *("a green bicycle", "old maps of Lisbon", "the blue teapot", "a flat near the station", "jazz records"),
    *("绿色的自行车", "里斯本的旧地图", "蓝色的茶壶", "车站附近的公寓", "爵士唱片", "a violin", "一只橘猫"),
)
_WHEN: Final = ("in May", "since Monday", "after the trip", "before breakfast", "五月的时候", "从周一起", "旅行之后")
_WHY: Final = ("because of the rain", "for the wedding", "as a present", "因为下雨", "为了婚礼", "当作礼物")


@dataclass(frozen=True, slots=True)
class Filled:
    """What was filled. seconds: it took; 0: it was there. made: memories by the real path, the rest are copied rows."""

    seconds: float
    made: int


def texts(number: int, *, seed: int = 1) -> list[str]:
    """Sentences in English, Chinese and both; each is another one, by a number in it."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable draw
    parts = (_WHO, _DOES, _WHAT, _WHEN, _WHY)
    return [f"{' '.join(rng.choice(part) for part in parts)} ({at})" for at in range(number)]


def fill(store: Store, plan: Plan, embedder: Embedder | None, tell: Callable[[int], object]) -> Filled:
    """Fill an empty store as planned; one that was filled by the same plan is left as it is.

    tell     called with how many memories were stored since the last call.
    Copies   rows of the tables of memories under other users and ids: what recall reads is there, byte for byte; the
             texts are the same few thousand for all users.
    Raises   ConflictError if the store holds anything else.
    """
    if store.note(NOTE) == plan.note:
        return Filled(0.0, 0)
    if any(store.scan(table, limit=1) for table in store.tables()):
        raise ConflictError(f"the store holds something else than {plan.note}; give an empty one")
    begun = time.perf_counter()
    made = min(POOL, int(plan.sizes().max()))
    _make(store, embedder, made)
    pool = _Pool.of(store)
    for rank, size in enumerate(plan.sizes().tolist()):
        for rows in pool.copied(user_of(rank), size):
            for table, some in rows.items():
                store.put_rows(table, some)
            tell(len(rows["memories"]))
        store.put_rows("memory_scopes", [("default", user_of(rank), "", "", size, 0)])
    store.apply([EraseMemories(Scope(user=POOL_USER))])
    store.set_note(NOTE, plan.note, was=None)
    return Filled(time.perf_counter() - begun, made)


def _make(store: Store, embedder: Embedder | None, number: int) -> None:
    """The pool, by the real path."""
    ids, scope, now = MemoryIds(), Scope(user=POOL_USER), time.time()
    sentences = texts(number)
    for start in range(0, number, BATCH):
        memories: list[Memory] = []
        for at, text in enumerate(sentences[start : start + BATCH], start):
            made, is_turn = now - 60.0 * (number - at), at % 2 == 1
            memories.append(
                Memory(
                    ids.new(made),
                    scope,
                    "episode" if is_turn else "fact",
                    text,
                    speaker="user" if is_turn else "",
                    session=f"s{at // LOG}" if is_turn else "",
                    order=at if is_turn else -1,
                    created_at=made,
                    updated_at=made,
                    digest=digest_of(text),
                )
            )
        derived, _ = index_texts(embedder, memories)
        store.apply([AddMemory(memory, indexed) for memory, indexed in zip(memories, derived, strict=True)])


@dataclass(frozen=True, slots=True)
class _Pool:
    """Rows of the pool, by table, in the order of ids."""

    memories: Sequence[Row]
    versions: Sequence[Row]
    derived: Sequence[Row]

    @staticmethod
    def of(store: Portable) -> _Pool:
        return _Pool(*(list(_all(store, table)) for table in ("memories", "memory_versions", "memory_index")))

    def copied(self, user: str, size: int) -> Iterator[dict[str, list[Row]]]:
        """Rows of another user's memories, by table, a thousand at a time."""
        columns = TABLES["memories"].columns
        at_id, at_digest, at_user = (columns.index(name) for name in ("memory_id", "digest", "user"))
        at_revision, at_record = columns.index("revision"), columns.index("record")
        first = int(user.rpartition("-")[2]) * 7919  # not all begin with the same text
        for start in range(0, size, BATCH):
            rows: dict[str, list[Row]] = {"memories": [], "memory_versions": [], "memory_index": []}
            for number in range(start, min(size, start + BATCH)):
                chosen = (first + number) % len(self.memories)
                row, again = list(self.memories[chosen]), number // len(self.memories)
                old, digest = str(row[at_id]), str(row[at_digest])
                new = f"{old}{user[5:]}{again}"
                record = str(row[at_record]).replace(old, new).replace(POOL_USER, user)
                record = record.replace(digest, f"{digest}{again}")
                if again:
                    record = record.replace('"text":"', f'"text":"{again}: ', 1)
                row[at_id], row[at_digest], row[at_user] = new, f"{digest}{again}", user
                row[at_revision], row[at_record] = number + 1, record
                rows["memories"].append(tuple(row))
                rows["memory_versions"].append(_under(self.versions[chosen], new))
                rows["memory_index"].append(_under(self.derived[chosen], new))
            yield rows


def _under(row: Row, memory_id: str) -> Row:
    """A row of another memory; its key is app and id."""
    return row[0], memory_id, *row[2:]


def _all(store: Portable, table: str) -> Iterator[Row]:
    after: Row | None = None
    while page := store.scan(table, after=after, limit=BATCH):
        yield from page
        after = TABLES[table].key_of(page[-1])
