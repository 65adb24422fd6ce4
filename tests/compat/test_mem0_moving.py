"""What mem0's client lists can be moved: into another memory, with all that was said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import offprompt
from offprompt.compat.mem0.asked import Add, Listing, asked
from offprompt.compat.mem0.reach import Reach
from offprompt.compat.mem0.records import Records
from offprompt.records import Identity
from offprompt.testing.clock import MovedClock

KEPT = ("memory", "user_id", "agent_id", "run_id", "app_id", "metadata", "categories", "created_at", "expiration_date")


IDS = ({"user_id": "小明"}, {"agent_id": "bot"}, {"run_id": "r9"})


def shown(records: Records) -> list[dict[str, Any]]:
    """All that these ids find, without what is made anew."""
    found = [one for ids in IDS for one in records.listed(Listing(filters=ids))["results"]]
    return [{name: one[name] for name in KEPT} for one in found]


def test_an_export_comes_in_with_ids_categories_expiry_and_app(
    records: Records, tmp_path: Path, clock: MovedClock
) -> None:
    for given in (
        {
            "user_id": "小明",
            "app_id": "shop",
            "categories": ["Drinks"],
            "metadata": {"a": 1},
            "timestamp": 1_700_000_000,
        },
        {"agent_id": "bot", "run_id": "r1", "expiration_date": "2030-01-01"},
        {"run_id": "r9", "immutable": True},
    ):
        records.add(asked({"messages": f"喜欢茶 {len(given)}", "infer": False, **given}, Add)[0])
    before = shown(records)
    assert len(before) == 3
    whole = [one for ids in IDS for one in records.listed(Listing(filters=ids))["results"]]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"results": whole}), encoding="utf-8")
    with offprompt.open(":memory:", clock=clock) as other:
        done = other.scope(shared=True).memories.import_file(path)
        assert (done.added, done.refused) == (3, [])
        moved = Records(Reach(other, Identity(roles=frozenset({"admin"}))))
        assert shown(moved) == before
        assert moved.listed(Listing(filters={"user_id": "小明", "categories": {"contains": "Drinks"}}))["count"] == 1
        assert moved.listed(Listing(filters={"run_id": "r9"}))["results"][0]["immutable"] is True
        assert other.scope(shared=True).memories.list(within="exact").memories == ()
        again = other.scope(shared=True).memories.import_file(path)
        assert (again.added, again.known) == (0, 3)
