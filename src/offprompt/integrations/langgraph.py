"""OffpromptStore: LangGraph's long-term store on slots."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import ScopeError, UnsupportedError, UsageError
from offprompt.integrations.given import opened
from offprompt.integrations.store_filters import check_filter, fits
from offprompt.records import (
    EraseSlots,
    GetSlot,
    ListSlots,
    PutSlot,
    Scope,
    Slot,
    SlotLimits,
    SlotOp,
    SlotQuery,
    as_dict,
    as_list,
)
from offprompt.service.agent_stream import in_thread
from offprompt.service.offprompt import Offprompt

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        SearchItem,
        SearchOp,
        TTLConfig,
        ensure_embeddings,
        get_text_at_path,
        tokenize_path,
        validate_op_namespace,
    )
except ModuleNotFoundError as exc:
    raise UnsupportedError("LangGraph is not installed; run: pip install 'offprompt[langgraph]'") from exc

Namespace: TypeAlias = "tuple[str, ...]"

MAX_VALUE_BYTES: Final = 1024 * 1024
LIMITS: Final = SlotLimits(max_slots=10_000_000, max_bytes=MAX_VALUE_BYTES, keep_versions=1)
"""An item is no slot that a person looks over: the settings' limits are not for it."""

MAX_SESSION_BYTES: Final = 200
MAX_VECTORS: Final = 20_000
"""Texts whose vectors an object keeps; any other is embedded anew when it is searched."""


class OffpromptStore(BaseStore):
    """Items of LangGraph's store, each a slot of the scope {agent}, its namespace as the session.

    memory   an opened memory, not one of a server. agent, user: whose items.
    index    `{"fields": ["text"]}`: what `query=` searches; `"$"` is the whole value. Vectors are the memory's
             embedder's, or those of `embed`. None: `query=` raises.
    ttl      LangGraph's TTLConfig, in minutes; a read extends a life unless `refresh_on_read` is False.
    Batch    reads see the store before the batch; of puts of one key the last one counts; all of them are stored, or
             none. Delete erases.
    Filters  `$eq $ne $gt $gte $lt $lte`, nested values; what is no number is neither greater nor less.
    Search   newest first; with `query=` by cosine, the best field of an item, then items without such a field.
    Cost     get and put O(1); search and list_namespaces O(items of the agent); the first `query=` embeds them.
    Limits   MAX_VALUE_BYTES a value as JSON.
    Raises   UsageError for values that are not JSON, unknown operators and ops; LimitError; then nothing is changed.
             UnsupportedError for `query=` without an index.
    Safety   any number of threads and processes.
    """

    supports_ttl = True
    __slots__ = ("_base", "_embed", "_fields", "_parts", "_vectors", "ttl_config")

    def __init__(
        self,
        memory: Offprompt,
        *,
        agent: str = "langgraph",
        user: str | None = None,
        index: Mapping[str, Any] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        memory = opened(memory, "OffpromptStore")
        self._parts = memory.parts
        self._base: Scope = memory.scope(user=user, agent=agent).scope
        self.ttl_config = ttl
        self._fields = None if index is None else [_field(each) for each in index.get("fields") or ["$"]]
        self._embed: Any = None if index is None or "embed" not in index else ensure_embeddings(index["embed"])
        self._vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """See the class."""
        given = list(ops)
        for op in given:
            self._check(op)
        puts = {(op.namespace, op.key): op for op in given if isinstance(op, PutOp)}
        needs_all = any(isinstance(op, (SearchOp, ListNamespacesOp)) for op in given)
        slot_ops: list[SlotOp[Any]] = [self._get(op) for op in given if isinstance(op, GetOp)]
        if needs_all:
            slot_ops.append(ListSlots(SlotQuery(self._base, "subtree")))
        reads = len(slot_ops)
        slot_ops += [each for op in puts.values() for each in self._put(op)]
        found = self._parts.slots.batch(slot_ops)[:reads]
        everything = [_Stored.of(slot) for slot in found.pop() if _is_item(slot)] if needs_all else []
        gets = iter(found)
        return [self._answer(op, gets, everything) for op in given]

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """See the class; it runs in a worker thread."""
        return await in_thread(self.batch, list(ops))

    def _check(self, op: object) -> None:
        if not isinstance(op, (GetOp, PutOp, SearchOp, ListNamespacesOp)):
            raise UsageError(f"{op!r} is no operation of a store; there are GetOp, PutOp, SearchOp, ListNamespacesOp")
        validate_op_namespace(op)
        if isinstance(op, SearchOp):
            if op.query and self._fields is None:
                raise UnsupportedError(
                    f"query={op.query!r}: this store has no index; make it with "
                    "OffpromptStore(memory, index={'fields': ['text']}), or leave query out"
                )
            check_filter(op.filter or {})

    def _scope(self, namespace: Namespace) -> Scope:
        """Labels hold no dots. A namespace that cannot be an id is known by its digest: each item names it itself."""
        named = ".".join(namespace)
        try:
            fits = len(named.encode()) <= MAX_SESSION_BYTES and not named.startswith("#")
            scope = self._base.narrow(session=named) if fits else self._base
            if scope.session == named:
                return scope
        except (ScopeError, UnicodeEncodeError):
            pass
        return self._base.narrow(session=f"#{_digest(compact_key(namespace))}")

    def _get(self, op: GetOp) -> SlotOp[Any]:
        return GetSlot(self._scope(op.namespace), _name(op.key), touch=op.refresh_ttl)

    def _put(self, op: PutOp) -> list[SlotOp[Any]]:
        scope, name = self._scope(op.namespace), _name(op.key)
        if op.value is None:
            self._parts.memories.kit.slots.check_erasable(scope)
            return [EraseSlots(scope, (name,))]
        fields = list(op.index) if isinstance(op.index, (list, tuple)) else op.index
        told = {"namespace": list(op.namespace), "key": op.key, "value": op.value, "index": fields}
        try:
            value = json.loads(json.dumps(told, allow_nan=False))
        except (TypeError, ValueError) as exc:
            raise UsageError(f"the value of {op.key!r} in {op.namespace} is not JSON: {exc}; put plain data") from exc
        ttl = None if op.ttl is None else op.ttl * 60
        return [PutSlot(scope, name, value, "by_handle", ttl_s=ttl, sliding=ttl is not None, limits=LIMITS)]

    def _answer(self, op: Op, gets: Any, everything: Sequence[_Stored]) -> Any:
        if isinstance(op, GetOp):
            slot = next(gets)
            return None if slot is None else _Stored.of(slot).item()
        if isinstance(op, SearchOp):
            return self._search(op, everything)
        return _namespaces(op, everything) if isinstance(op, ListNamespacesOp) else None

    def _search(self, op: SearchOp, everything: Sequence[_Stored]) -> list[SearchItem]:
        depth = len(op.namespace_prefix)
        fit = [
            each
            for each in everything
            if each.namespace[:depth] == op.namespace_prefix
            and all(fits(each.value.get(key), wanted) for key, wanted in (op.filter or {}).items())
        ]
        fit.sort(key=lambda each: (-each.slot.updated_at, each.namespace, each.key))
        scores: list[float | None] = self._scores(op.query, fit) if op.query else [None] * len(fit)
        order = sorted(range(len(fit)), key=lambda at: -2.0 if scores[at] is None else scores[at] or 0.0, reverse=True)
        chosen = order[op.offset : op.offset + op.limit]
        if op.refresh_ttl and (aging := [fit[at].slot for at in chosen if fit[at].slot.sliding]):
            self._parts.slots.batch([GetSlot(slot.scope, slot.name, touch=True) for slot in aging])
        return [fit[at].found(scores[at]) for at in chosen]

    def _scores(self, query: str, items: Sequence[_Stored]) -> list[float | None]:
        """The cosine of each item's best text, None for one without any."""
        texts = [self._texts(each) for each in items]
        self._learn({text for each in texts for text in each})
        asked = self._embedded([query], is_query=True)[0]
        known = [[float(self._vectors[text] @ asked) for text in each] for each in texts]
        while len(self._vectors) > MAX_VECTORS:
            self._vectors.popitem(last=False)
        return [max(each) if each else None for each in known]

    def _texts(self, item: _Stored) -> list[str]:
        if item.index is False:
            return []
        fields = self._fields or [] if item.index is None else [_field(each) for each in as_list(item.index) or []]
        return [text for field in fields for text in get_text_at_path(item.value, field)]

    def _learn(self, texts: set[str]) -> None:
        new = sorted(texts - self._vectors.keys())
        for text, vector in zip(new, self._embedded(new, is_query=False), strict=True):
            self._vectors[text] = vector

    def _embedded(self, texts: list[str], *, is_query: bool) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, 1), np.float32)
        if self._embed is not None:
            rows: Any = [self._embed.embed_query(texts[0])] if is_query else self._embed.embed_documents(texts)
            given = np.asarray(rows, np.float32)
            return given / np.maximum(np.linalg.norm(given, axis=1, keepdims=True), 1e-12)
        embedder = self._parts.memories.kit.embedder
        if embedder is None:
            raise UnsupportedError(
                "query= needs an embedder, and the setting embedder is `none`; set one, or give embed"
            )
        return embedder.encode(texts, kind="query" if is_query else "passage")


@dataclass(frozen=True, slots=True)
class _Stored:
    """An item as it is stored; index: the fields that its put named, False: none, None: the store's."""

    slot: Slot
    namespace: Namespace
    key: str
    value: dict[str, Any]
    index: Any

    @classmethod
    def of(cls, slot: Slot) -> _Stored:
        told = as_dict(slot.value) or {}
        return cls(slot, tuple(told["namespace"]), told["key"], told["value"], told["index"])

    def _fields(self) -> dict[str, Any]:
        times = {"created_at": self.slot.created_at, "updated_at": self.slot.updated_at}
        return {
            "namespace": self.namespace,
            "key": self.key,
            "value": self.value,
            **{name: datetime.fromtimestamp(at, UTC) for name, at in times.items()},
        }

    def item(self) -> Item:
        return Item(**self._fields())

    def found(self, score: float | None) -> SearchItem:
        return SearchItem(**self._fields(), score=score)


def _namespaces(op: ListNamespacesOp, everything: Sequence[_Stored]) -> list[Namespace]:
    fit = {
        each.namespace for each in everything if all(_matches(one, each.namespace) for one in op.match_conditions or ())
    }
    cut = {each if op.max_depth is None else each[: op.max_depth] for each in fit}
    return sorted(cut)[op.offset : op.offset + op.limit]


def _matches(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


def _is_item(slot: Slot) -> bool:
    told = as_dict(slot.value) if slot.scope.session else None
    return told is not None and told.keys() == {"namespace", "key", "value", "index"}


def _name(key: str) -> str:
    """The slot of a key: any text may be one."""
    return f"k_{_digest(key)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def compact_key(namespace: Namespace) -> str:
    """A text for each namespace, another one for any other."""
    return json.dumps(namespace)


def _field(path: str) -> Any:
    return path if path == "$" else tokenize_path(path)
