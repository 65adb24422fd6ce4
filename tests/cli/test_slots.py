"""`offprompt slot …` and its short forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("value", ["concise, Chinese", "简短，中文", " spaces ", "-", "a\nb", "😀"])
def test_a_value_comes_back_as_it_was_written(run: Run, value: str) -> None:
    assert run("write reply_style - --user alice", stdin=value + "\n").code == 0
    assert run("read reply_style --user alice").out == value + "\n"
    assert run("read reply_style --user alice --json").document == {"name": "reply_style", "value": value}


def test_the_short_forms_and_the_long_ones_are_the_same(run: Run) -> None:
    assert run("slot write city Shanghai --user alice").code == 0
    assert run("read city --user alice").out == run("slot read city --user alice").out == "Shanghai\n"
    assert run("forget city --user alice").code == 0
    assert run("slot read city --user alice").code == 3


def test_global_options_stand_before_or_behind_the_command(run: Run) -> None:
    assert run("--user alice write city 上海").code == 0
    assert run("read city --user alice --json").document == run("--json --user alice read city").document
    assert run("--user bob read city --user alice").out == "上海\n"


def test_json_values_keep_their_type(run: Run) -> None:
    assert run("""write profile '{"城市": "上海", "n": 1.5}' --json-value --user alice""").code == 0
    assert run("read profile --user alice").out == '{"城市":"上海","n":1.5}\n'
    assert run("read profile --user alice --json").document["value"] == {"城市": "上海", "n": 1.5}


def test_a_value_that_is_not_json_is_refused_without_repeating_it(run: Run) -> None:
    run("write other x --user bob")
    ran = run("write profile '{secret' --json-value --user alice")
    assert (ran.code, ran.out) == (2, "")
    assert "line 1, column 2" in ran.err
    assert "secret" not in ran.err
    assert run("slot list --user alice --json").document == {"slots": []}


def test_a_value_from_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("第一行\nsecond line\n", encoding="utf-8")
    assert run(f"write notes --file {path} --user alice").code == 0
    assert run("read notes --user alice").out == "第一行\nsecond line\n"


def test_a_file_that_is_not_there_or_not_text(run: Run, tmp_path: Path) -> None:
    binary = tmp_path / "b"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "No such file" in run("write notes --file missing.txt --user alice").err
    assert "not UTF-8" in run(f"write notes --file {binary} --user alice").err


def test_a_value_given_twice_or_not_at_all(run: Run) -> None:
    assert "no value" in run("write notes --user alice").err
    assert "a value and --file" in run("write notes x --file y --user alice").err


def test_every_option_of_write_reaches_the_slot(run: Run, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "string", "maxLength": 20}', encoding="utf-8")
    ran = run(
        f"write plan ready --user a --ttl 3600 --tag work --tag 工作 --importance 0.9 --policy by_handle"
        f" --if-version 0 --schema {schema} --json"
    )
    slot = ran.document["slot"]
    assert (slot["ttl_s"], slot["importance"], slot["policy"], slot["version"]) == (3600, 0.9, "by_handle", 1)
    assert set(slot["tags"]) == {"work", "工作"}
    assert run("write plan 'far longer than the schema allows' --user a").code == 2
    assert run("write plan again --user a --if-version 7").code == 2
    assert run("write plan again --user a --ttl none --json").document["slot"]["ttl_s"] is None


def test_a_long_value_is_split_on_request(run: Run) -> None:
    long = "字" * 3000
    refused = run("write notes - --user a", stdin=long)
    assert refused.code == 2
    assert "9,000 bytes" in refused.err or "9,000" in refused.err
    assert run("write notes - --user a --split", stdin=long).code == 0
    assert run("read notes --user a").out == long + "\n"


@pytest.mark.parametrize("ttl", ["soon", "0", "-5", "nan", "inf"])
def test_a_wrong_ttl_names_itself(run: Run, ttl: str) -> None:
    ran = run(f"write x y --user a --ttl={ttl}")
    assert ran.code == 2
    assert "ttl" in ran.err


def test_list_filters_by_pattern_tag_and_time(run: Run) -> None:
    for name, tag in (("city", "place"), ("country", "place"), ("颜色", "like")):
        assert run(f"write {name} x --user a --tag {tag}").code == 0

    def names(line: str) -> list[str]:
        return [slot["name"] for slot in run(line).document["slots"]]

    assert names("slot list 'c*' --user a --json") == ["city", "country"]
    assert names("slot list --tag like --user a --json") == ["颜色"]
    assert names("slot list --since 2001-01-01 --user a --json") == ["city", "country", "颜色"]
    assert names("slot list --until 2001-01-01T00:00:00+08:00 --user a --json") == []
    assert names("slot list --since 0 --user a --json") == ["city", "country", "颜色"]
    assert "no time" in run("slot list --since yesterday --user a").err


def test_list_shows_no_value_and_forgotten_ones_on_request(run: Run) -> None:
    run("write city Shanghai --user a")
    assert "Shanghai" not in run("slot list --user a").out
    assert "Shanghai" not in run("slot list --user a --json").out
    run("forget city --user a")
    assert run("slot list --user a").out == "nothing here\n"
    assert [slot["name"] for slot in run("slot list --forgotten --user a --json").document["slots"]] == ["city"]


def test_subtree_lists_what_lies_below(run: Run) -> None:
    run("write a 1 --user u")
    run("write b 2 --user u --session s")
    below = run("slot list --within subtree --user u --json").document["slots"]
    assert [(slot["name"], slot["scope"].get("session")) for slot in below] == [("a", None), ("b", "s")]
    assert [slot["name"] for slot in run("slot list --user u --json").document["slots"]] == ["a"]


def test_forget_says_how_to_bring_it_back_and_that_works(run: Run) -> None:
    run("write city Shanghai --user 'al ice'")
    said = run("forget city --user 'al ice'").out
    back = said.partition("offprompt ")[2].strip()
    assert back == "slot undo city --user 'al ice'"
    assert run(back).code == 0
    assert run("read city --user 'al ice'").out == "Shanghai\n"


def test_history_rank_and_snapshot(run: Run) -> None:
    run("write city Suzhou --user a")
    run("write city 上海 --user a")
    versions = run("slot history city --user a --json").document["versions"]
    assert [(one["version"], one["value"]) for one in versions] == [(1, "Suzhou"), (2, "上海")]
    assert "上海" in run("slot history city --user a").out
    ranked = run("slot rank --user a --json").document["slots"]
    assert [slot["name"] for slot in ranked] == ["city"]
    assert 0 < ranked[0]["score"] <= 1
    assert json.loads(run("slot snapshot --user a").out) == {"city": "上海"}
    assert run("slot snapshot --user a --json").document["values"] == {"city": "上海"}


def test_erase_asks_and_then_leaves_no_history(run: Run) -> None:
    run("write city Shanghai --user a")
    assert "--yes" in run("slot erase city --user a").err
    assert run("read city --user a").code == 0
    assert run("slot erase city --user a --yes --json").document == {"erased": 1}
    assert run("slot history city --user a").code == 3
    assert "--all" in run("slot erase --user a --yes").err


def test_shared_memory_is_read_by_all(run: Run) -> None:
    assert run("write hours 9-17 --shared").code == 0
    assert run("read hours --user anyone").out == "9-17\n"


def test_history_shows_the_values_of_a_secret_only_when_asked(run: Run) -> None:
    run("write api_key Zx9-hunter2-qwerty --policy never --user a")
    for more in ("", " --json"):
        assert "hunter2" not in run("slot history api_key --user a" + more).out
        assert "hunter2" in run("slot history api_key --values --user a" + more).out
    assert "value" not in run("slot history api_key --user a --json").document["versions"][0]
