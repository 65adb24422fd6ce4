"""mem0's library face: `Memory` with its calls and the shapes of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import offprompt
from offprompt.compat.mem0.asked import Add, Change, Listing, Search, asked
from offprompt.compat.mem0.config import checked_config, meaning_of, warn_of
from offprompt.compat.mem0.reach import Reach
from offprompt.compat.mem0.records import Records
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.records import DEFAULT, Identity, as_dict
from offprompt.service.offprompt import Offprompt

TOP_K: Final = 20
THRESHOLD: Final = 0.1
_PROMOTED: Final = ("user_id", "agent_id", "run_id", "actor_id", "role", "expiration_date")
_HISTORY: Final = (
    "id",
    "memory_id",
    "old_memory",
    "new_memory",
    "event",
    "created_at",
    "updated_at",
    "is_deleted",
    "actor_id",
    "role",
)
_IDS: Final = frozenset({"user_id", "agent_id", "run_id", "app_id"})


class Memory:
    """mem0's `Memory` over this memory.

    config  as theirs, see `from_config`; None: the store, embedder and models of this program's own settings.
    memory  an opened one to be used instead; it is not closed then.
    """

    def __init__(self, config: object = None, *, memory: Offprompt | None = None) -> None:
        self._own = memory is None
        if memory is None:
            found = meaning_of({} if config is None else config)
            warn_of(found)
            memory = offprompt.open(found.url, models=found.models, **found.settings)
        elif config is not None:
            raise UsageError("give a config or an opened memory, not both")
        identity = Identity(app=memory.parts.settings.app, roles=frozenset({"admin"}))
        self._memory, self._records = memory, Records(Reach(memory, identity))

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Memory:
        """With a configuration of theirs; what of it is not used is a UserWarning.

        Raises   UsageError for a part that they do not have, and for what is no object.
        """
        return cls(checked_config(config_dict))

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def add(  # noqa: PLR0913 - theirs
        self,
        messages: Any,
        *,
        user_id: Any = None,
        agent_id: Any = None,
        run_id: Any = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: Any = None,
        expiration_date: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, Any]:
        """Remember messages; `{"results": [{"id", "memory", "event"}]}`, what was said and what rules made of it.

        Raises   UsageError; UnsupportedError for memory_type and prompt.
        """
        if memory_type is not None or prompt is not None:
            raise UnsupportedError(
                "memory_type and prompt are for memories that a language model writes; store your own text with "
                "infer=False, or set [models.extract]"
            )
        given = {
            "messages": messages,
            "user_id": _id(user_id),
            "agent_id": _id(agent_id),
            "run_id": _id(run_id),
            "metadata": metadata,
            "timestamp": timestamp,
            "expiration_date": None if expiration_date is None else str(expiration_date),
            "infer": infer,
        }
        done = self._records.add(asked(given, Add)[0])
        return {"results": [{name: one[name] for name in ("id", "memory", "event")} for one in done["results"]]}

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """One memory, or None."""
        try:
            return _item(self._records.get(str(memory_id)))
        except NotFoundError:
            return None

    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = TOP_K,
        show_expired: bool = False,
        **other: Any,
    ) -> dict[str, Any]:
        """The first `top_k` memories that fit, oldest first.

        Raises   UsageError for filters with a branch that names no id, and for ids beside the filters.
        """
        _check(other, "get_all", top_k)
        given = Listing(filters=_tree(filters), show_expired=show_expired)
        return {
            "results": [_item(one) for one in self._records.listed(given, page_size=max(top_k, 1))["results"][:top_k]]
        }

    def search(
        self,
        query: str,
        *,
        top_k: int = TOP_K,
        filters: Mapping[str, Any] | None = None,
        threshold: float = THRESHOLD,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        **other: Any,
    ) -> dict[str, Any]:
        """The memories that answer, best first; explain: with `score_details`. Raises as `get_all`."""
        _check(other, "search", top_k)
        given = {
            "query": query,
            "filters": _tree(filters),
            "top_k": max(top_k, 1),
            "threshold": threshold,
            "rerank": rerank,
            "reference_date": reference_date,
            "show_expired": show_expired,
        }
        results: list[dict[str, Any]] = []
        for one in self._records.search(asked(given, Search)[0])["results"][:top_k]:
            details = {"score_details": one["score_breakdown"]} if explain else {}
            results.append({**_item(one), "score": one["score"], **details})
        return {"results": results}

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = DEFAULT,
        data: str | None = None,
    ) -> dict[str, Any]:
        """A memory changed; `data` is their old name of `text`.

        Raises   UsageError, also if there is no such memory.
        """
        given: dict[str, Any] = {"text": data if text is None else text, "metadata": metadata}
        if expiration_date is not DEFAULT:
            given["expiration_date"] = None if expiration_date is None else str(expiration_date)
        change = asked(
            {name: one for name, one in given.items() if one is not None or name == "expiration_date"}, Change
        )
        self._there(memory_id)
        self._records.update(str(memory_id), change[0])
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, Any]:
        """Hide a memory, with what rules derived from it alone.

        Raises   UsageError if there is no such memory.
        """
        self._there(memory_id)
        return {"message": self._records.delete(str(memory_id))["message"]}

    def _there(self, memory_id: str) -> None:
        try:
            self._records.get(str(memory_id))
        except NotFoundError as exc:
            raise UsageError(str(exc)) from exc

    def delete_all(self, user_id: Any = None, agent_id: Any = None, run_id: Any = None) -> dict[str, Any]:
        """Hide all memories of these ids; `deleted` says how many. Raises UsageError without an id."""
        ids = {"user_id": _id(user_id), "agent_id": _id(agent_id), "run_id": _id(run_id)}
        named = {name: value for name, value in ids.items() if value is not None}
        if not named:
            raise UsageError("delete_all needs an id, such as user_id='alice'; reset() removes everybody's")
        done = self._records.delete_all(named)
        return {"message": "Memories deleted successfully!", "deleted": done["deleted"]}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """What became of a memory, oldest first; of none: an empty list."""
        try:
            return [{name: one[name] for name in _HISTORY} for one in self._records.history(str(memory_id))]
        except NotFoundError:
            return []

    def reset(self) -> None:
        """Remove everybody's memories, slots and sessions of this app, for good."""
        self._memory.scope(shared=True).clear()

    def close(self) -> None:
        """Let go of the memory, if it was opened here."""
        if self._own:
            self._memory.close()


def _id(value: Any) -> str | None:
    """An id as theirs are: any value's text, without spaces around it."""
    return None if value is None else str(value).strip()


def _tree(filters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Filters with plain ids as texts."""
    tree = as_dict({} if filters is None else filters)
    if tree is None:
        raise UsageError(f"filters is a {type(filters).__name__}; give an object such as {{'user_id': 'alice'}}")
    return {name: _id(one) if name in _IDS and not isinstance(one, dict) else one for name, one in tree.items()}


def _check(other: Mapping[str, Any], call: str, top_k: object) -> None:
    """Raises UsageError for ids beside the filters, for options that nobody knows, and for a wrong `top_k`."""
    if ids := _IDS & other.keys():
        raise UsageError(
            f"{call}: {', '.join(sorted(ids))} stand in filters={{…}}, such as filters={{'user_id': 'alice'}}"
        )
    if other:
        raise UsageError(f"{call} has no option {next(iter(other))!r}; top_k says how many, filters which")
    if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 0:
        raise UsageError(f"top_k={top_k!r}: give a number of memories, 0 or more")


def _item(shown: Mapping[str, Any]) -> dict[str, Any]:
    """A memory in the library's shape: what nobody said is left out."""
    core = {name: shown[name] for name in ("id", "memory", "hash", "created_at", "updated_at")}
    said = {name: shown[name] for name in _PROMOTED if shown[name] is not None}
    return {**core, **said, "metadata": shown["metadata"] or None}
