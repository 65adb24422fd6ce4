"""Memories as mem0's API has them."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any, Final

from offprompt.compat.mem0.asked import Add, Change, Feedback, Listing, OneChange, OneId, Search, asked
from offprompt.errors import NotFoundError, UsageError
from offprompt.records import as_dict, as_list
from offprompt.rest.endpoint import Call, Endpoint, Example
from offprompt.rest.mem0.shapes import MANY, After, Found, Ids, Linked, Paged, batch_of, body_of, endpoint, reach

if TYPE_CHECKING:
    from offprompt.compat.mem0.records import Records

MAX_FILTERS: Final = 20_000
ID: Final = {"memory_id": "m_01K0000000000000000000000"}
ALICE: Final = {"user_id": "alice"}
PAGES: Final = "/v3/memories/"


def _records(call: Call) -> Records:
    from offprompt.compat.mem0.records import Records  # noqa: PLC0415 - loads NumPy and the rules

    return Records(reach(call))


def add(call: Call) -> Found:
    """Stored when it is answered: `status` is SUCCEEDED, or PENDING where the store did not take it in time."""
    return _records(call).add(*asked(call.body, Add))


def listed(call: Call) -> Found:
    """Oldest first; every branch of the filters names an id."""
    given, unused = asked(call.body, Listing)
    page: Paged = call.query
    found = _records(call).listed(given, unused, page=page.page, page_size=page.page_size)
    for name in ("next", "previous"):
        found[name] = found[name] and f"{PAGES}{found[name]}"
    return found


def search(call: Call) -> Found:
    """Best first, by words and by meaning; every branch of the filters names an id."""
    return _records(call).search(*asked(call.body, Search))


def get(call: Call) -> Found:
    """One that somebody else has is not there."""
    return _records(call).get(call.path["memory_id"])


def update(call: Call) -> Found:
    """What is left out stays; `expiration_date: null` takes it away."""
    return _records(call).update(call.path["memory_id"], *asked(call.body, Change))


def delete(call: Call) -> Found:
    """Hides it with what rules derived from it alone; `cascade_count` says how many more."""
    return _records(call).delete(call.path["memory_id"], linked=call.query.delete_linked)


def delete_all(call: Call) -> Found:
    """Hides what has all of these ids, and says how many; a star is a star."""
    query: Ids = call.query
    ids = {name: getattr(query, name) for name in ("user_id", "agent_id", "app_id", "run_id")}
    named: dict[str, Any] = {name: value for name, value in ids.items() if value is not None}
    if query.filters is not None:
        tree = _filters(query.filters)
        named = {"AND": [named, tree]} if named else tree
    return _records(call).delete_all(named)


def _filters(text: str) -> dict[str, Any]:
    """Filters out of an address: JSON, or the text of a dict as Python writes it, which is what their client sends.

    Raises   UsageError for what is neither, and for a dict of what JSON has not.
    """
    found = None
    if len(text) <= MAX_FILTERS:
        try:
            found = as_dict(json.loads(text))
        except (ValueError, RecursionError):
            found = _literal(text)
    if found is None:
        raise UsageError('filters in the address are no object; send JSON, such as {"user_id": "alice"}')
    return found


def _literal(text: str) -> dict[str, Any] | None:
    try:
        return as_dict(json.loads(json.dumps(ast.literal_eval(text), allow_nan=False)))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def history(call: Call) -> list[Found]:
    """Oldest first; of a deleted one without its texts."""
    return _records(call).history(call.path["memory_id"])


def batch_update(call: Call) -> Found:
    """None is changed if one of them is not there."""
    return _records(call).batch_update([asked(one, OneChange)[0] for one in _batch(call)])


def batch_delete(call: Call) -> Found:
    """None is hidden if one of them is not there."""
    return _records(call).batch_delete([asked(one, OneId)[0] for one in _batch(call)])


def _batch(call: Call) -> list[dict[str, Any]]:
    items = as_list(call.body.get("memories")) or []
    batch = [one for item in items if (one := as_dict(item)) is not None]
    if not batch or len(batch) != len(items):
        raise UsageError(f"memories: give a list of 1 to {MANY} objects, each with a memory_id")
    return batch


def feedback(call: Call) -> Found:
    """Kept with the memory; null takes it back."""
    return _records(call).feedback(asked(call.body, Feedback)[0])


def event(call: Call) -> Found:
    """What an `add` or `delete_all` made, with what is there of it now."""
    found = _records(call).event(call.path["event_id"])
    if found is None:
        raise NotFoundError(f"no event {call.path['event_id'][:40]!r} here; add and delete_all answer with one")
    return found


def events(call: Call) -> Found:
    """What happened to the memories that are reached, oldest first; never a text."""
    query: After = call.query
    own = reach(call)
    shown: list[Found] = []
    last = query.after
    for root in own.own_roots():
        for one in call.memory.parts.slots.events(scope=root, op="memory.", after=query.after, limit=query.page_size):
            kind = one.op.partition(".")[2].upper()
            shown.append(
                {"id": str(one.seq), "event_type": kind, "status": "SUCCEEDED", "at": one.at, "memory_id": one.name}
            )
    shown.sort(key=lambda one: int(one["id"]))
    shown = shown[: query.page_size]
    last = int(shown[-1]["id"]) if shown else last
    more = len(shown) == query.page_size
    return {"count": len(shown), "next": f"/v1/events/?after={last}" if more else None, "results": shown}


GONE: Final = Example(path=ID, status=404)
TEXT: Final = {"messages": [{"role": "user", "content": "I moved to Shanghai in May"}]}

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    endpoint(
        "POST",
        "/v3/memories/add/",
        "mem0_add",
        add,
        "Add messages.",
        role="write",
        body=body_of(Add),
        example=Example(body={**TEXT, **ALICE, "metadata": {"topic": "home"}}),
    ),
    endpoint(
        "POST",
        PAGES,
        "mem0_get_all",
        listed,
        "List memories.",
        body=body_of(Listing),
        query=Paged,
        example=Example(body={"filters": ALICE}, before=("mem0_add",)),
    ),
    endpoint(
        "POST",
        "/v3/memories/search/",
        "mem0_search",
        search,
        "Search memories.",
        body=body_of(Search),
        example=Example(body={"query": "Where does she live?", "filters": ALICE}, before=("mem0_add",)),
    ),
    endpoint("GET", "/v1/memories/{memory_id}/", "mem0_get", get, "Get a memory.", example=GONE),
    endpoint(
        "PUT",
        "/v1/memories/{memory_id}/",
        "mem0_update",
        update,
        "Change a memory.",
        role="write",
        body=body_of(Change),
        example=Example(body={"text": "She lives in Shanghai"}, path=ID, status=404),
    ),
    endpoint(
        "DELETE",
        "/v1/memories/{memory_id}/",
        "mem0_delete",
        delete,
        "Hide a memory.",
        role="write",
        query=Linked,
        example=GONE,
    ),
    endpoint(
        "DELETE",
        "/v1/memories/",
        "mem0_delete_all",
        delete_all,
        "Hide all memories of somebody.",
        role="write",
        query=Ids,
        example=Example(query=ALICE),
    ),
    endpoint(
        "GET",
        "/v1/memories/{memory_id}/history/",
        "mem0_history",
        history,
        "What became of a memory.",
        answer=list[Found],
        example=GONE,
    ),
    endpoint(
        "PUT",
        "/v1/batch/",
        "mem0_batch_update",
        batch_update,
        "Change memories.",
        role="write",
        body=batch_of(OneChange),
        example=Example(body={"memories": [{**ID, "text": "x"}]}, status=404),
    ),
    endpoint(
        "DELETE",
        "/v1/batch/",
        "mem0_batch_delete",
        batch_delete,
        "Hide memories.",
        role="write",
        body=batch_of(OneId),
        example=Example(body={"memories": [ID]}, status=404),
    ),
    endpoint(
        "POST",
        "/v1/feedback/",
        "mem0_feedback",
        feedback,
        "Say what a memory is worth.",
        role="write",
        body=body_of(Feedback),
        example=Example(body={**ID, "feedback": "POSITIVE"}, status=404),
    ),
    endpoint("GET", "/v1/events/", "mem0_events", events, "What happened to memories.", query=After),
    endpoint(
        "GET",
        "/v1/event/{event_id}/",
        "mem0_event",
        event,
        "What became of an add.",
        example=Example(path={"event_id": "none"}, status=404),
    ),
)
