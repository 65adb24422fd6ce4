"""`offprompt bench load`: a small store, filled, read and written, on a file and on PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import offprompt
from offprompt.errors import UsageError
from offprompt.service.load_bench.plan import Plan, class_of, user_of
from tests.cli.conftest import Run
from tests.servers import Server, postgres_url

SMALL = "--memories 600 --users 20 --largest 250 --seconds 0.5 --clients 1"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "load.db")
    server: Server = request.getfixturevalue("postgres_server")
    return f"{postgres_url(server)}?schema=load_{tmp_path.name.lower()[-20:].replace('-', '_')}"


def test_a_store_is_filled_once_and_measured(run: Run, url: str) -> None:
    first = run(f"bench load --url {url} {SMALL} --json")
    assert first.code == 0, first.err
    document = json.loads(first.out)
    assert document["by_the_real_path"] == 250
    assert document["bytes"] > 600 * 500
    assert {(one["up_to"], one["cold"]) for one in document["recall"]} == {
        (100, True), (100, False), (1000, True), (1000, False)
    }  # fmt: skip
    assert set(document["writes"]) == {"remember", "write", "bare"}
    assert all(rate > 0 for rate in document["writes"].values())
    with offprompt.open(url, create=False) as memory:
        counts = [len(memory.scope(user=user_of(rank)).memories.list(limit=1000)) for rank in range(20)]
        mixed = {one["what"]: one["calls"] for one in document["mixed"]}
        # What the mixed clients remembered came on top.
        assert 600 <= sum(counts) <= 600 + mixed.get("remember", 0)
        assert max(counts) == counts[0] >= 250
        hits = memory.scope(user=user_of(0)).recall("a green bicycle in May").hits
        assert "bicycle" in hits[0].text
    again = run(f"bench load --url {url} {SMALL} --lang zh")
    assert again.code == 0, again.err
    assert "填充用时" not in again.out
    assert "裸提交" in again.out


def test_it_fills_no_store_that_holds_something_or_that_nobody_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.db"
    with offprompt.open(path) as memory:
        memory.scope(user="ann").write("city", "Porto")
    ran = run(f"bench load --url {path} {SMALL}")
    assert (ran.code, ran.out) == (2, "")
    assert "give an empty one" in ran.err
    with offprompt.open(path) as memory:
        assert memory.scope(user="ann").read("city") == "Porto"
    monkeypatch.delenv("OFFPROMPT_URL")
    unnamed = run(f"bench load {SMALL}")
    assert unnamed.code == 2
    assert "--url" in unnamed.err


@pytest.mark.parametrize(("memories", "users", "largest"), [(1_000_000, 10_000, 100_000), (600, 20, 250), (50, 50, 1)])
def test_a_plan_has_its_numbers(memories: int, users: int, largest: int) -> None:
    sizes = Plan(memories, users, largest).sizes()
    assert (int(sizes.sum()), len(sizes), int(sizes.min())) == (memories, users, min(int(sizes.min()), largest))
    assert abs(int(sizes.max()) - largest) <= max(1, largest // 1000)
    assert sizes.min() >= 1
    assert class_of(int(sizes.max())) >= class_of(int(sizes.min()))


@pytest.mark.parametrize(("memories", "users", "largest"), [(10, 20, 5), (100, 10, 5), (100, 10, 99)])
def test_plans_that_cannot_be_are_refused(memories: int, users: int, largest: int) -> None:
    with pytest.raises(UsageError, match=str(largest)):
        Plan(memories, users, largest)
