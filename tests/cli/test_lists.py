"""`sessions`, `prices`, `settings`, `doctor`, `backup`, `restore`, `sweep`."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt.config import setting_docs
from tests.cli.conftest import Run


def test_settings_lists_each_with_its_value_in_force(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "own.toml"
    config.write_text("max_slots = 7\nshown_tokens = 9\n", encoding="utf-8")
    monkeypatch.setenv("OFFPROMPT_SHOWN_TOKENS", "11")
    found = run(f"settings --json --config {config}").document["settings"]
    assert found.keys() == setting_docs().keys()
    assert found["max_slots"] == {"value": 7, "default": 64, "doc": setting_docs()["max_slots"]}
    assert found["shown_tokens"]["value"] == 11
    assert "max_slots" in run("settings").out
    assert "设置" in run("settings --lang zh").out


def test_prices_name_date_and_source_of_each_sheet(run: Run) -> None:
    sheets = run("prices --json").document["prices"]
    assert len({sheet["name"] for sheet in sheets}) == len(sheets) > 5
    assert all(sheet["dated"] and sheet["source"] for sheet in sheets)
    text = run("prices").out
    assert all(sheet["name"] in text and sheet["source"] in text for sheet in sheets)


def test_the_users_own_price_sheet_goes_first(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "prices.toml"
    own.write_text('[mine]\ninput = 3.0\ncache_read = 0.3\noutput = 9.0\nmodels = ["gpt-*"]\n', encoding="utf-8")
    monkeypatch.setenv("OFFPROMPT_PRICES", str(own))
    assert run("prices --json").document["prices"][0]["name"] == "mine"
    own.unlink()
    assert run("prices").code == 2


def test_doctor_finds_a_fresh_store_sound_and_a_readable_one_worth_a_word(run: Run, store: Path) -> None:
    run("write a x --user u")
    assert run("doctor --json").document["sound"] is True
    store.chmod(0o644)
    loose = run("doctor --json").document["findings"]
    assert any(finding["state"] != "ok" for finding in loose)
    run("doctor --fix")
    assert store.stat().st_mode & 0o777 == 0o600


def test_backup_and_restore(run: Run, tmp_path: Path) -> None:
    run("write city 上海 --user u")
    copy = tmp_path / "copy.db"
    assert run(f"backup {copy} --json").document["backup"] == str(copy)
    assert run(f"backup {copy}").code == 2
    assert run(f"backup {copy} --overwrite").code == 0
    run("write city Suzhou --user u")
    assert run(f"restore {copy}").code == 2
    assert run(f"restore {copy} --force").code == 0
    assert run("read city --user u").out == "上海\n"


def test_a_dry_run_of_a_sweep_counts_by_category(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[retention]\nslot = "1h"\n"tag:support" = "2d"\n')
    monkeypatch.setenv("OFFPROMPT_CONFIG", str(file))
    run("write old x --user alice --ttl 0.001")
    run("write town Porto --user alice --tag support")
    would = run("sweep --dry-run --json").document
    assert would == {**would, "slots": 1, "retention": {"slot": 0, "tag:support": 0}, "dry_run": True}
    assert "将会移除: 1 个槽位" in run("sweep --dry-run --lang zh").out
    assert run("sweep --json").document["slots"] == 1
    assert run("read town --user alice").out == "Porto\n"


def test_sweep_says_what_went(run: Run) -> None:
    run("write a x --user u --ttl 0.000001")
    assert run("sweep --json").document == {"slots": 1, "memories": 0, "sessions": 0}
    assert run("sweep").out == "removed: 0 slots, 0 memories, 0 sessions\n"


def test_sessions_lists_the_scopes_own(run: Run, store: Path) -> None:
    run("write city 上海 --user a")
    assert run("sessions").out == f"nothing here: {store}\n"
    with offprompt.open(store) as memory:
        for user in ("a", "b"):
            session = memory.scope(user=user).session("s1", model="gpt-4o-mini")
            session.prepare([{"role": "user", "content": "hello"}])
    found = run("sessions --user a --json").document["sessions"]
    assert [one["scope"] for one in found] == [{"app": "default", "user": "a", "session": "s1"}]
    assert len(run("sessions --json").document["sessions"]) == 2
    assert "gpt-4o-mini" in run("sessions").out
