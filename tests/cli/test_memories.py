"""`offprompt memory …` and its short forms: remember, recall, forget."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Run


@pytest.fixture(autouse=True)
def words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories are found by their words: the embedder is not what is tested here."""
    monkeypatch.setenv("OFFPROMPT_EMBEDDER", "none")


def remembered(run: Run, line: str, stdin: str = "") -> str:
    """The id of what was remembered."""
    ran = run(f"remember {line} --json", stdin)
    assert ran.err == ""
    return ran.document["remembered"][0]["name"]


def texts(ran: Ran) -> list[str]:
    """The texts of a list or an answer."""
    return [one["text"] for one in ran.document.get("hits", ran.document.get("memories"))]


def test_what_was_remembered_is_recalled_in_both_languages(run: Run) -> None:
    run("remember 'The dentist moved to Oak Street' --user alice")
    run("remember '牙医搬到了橡树街' --user alice")
    assert texts(run("recall 'where is the dentist' --user alice --json")) == ["The dentist moved to Oak Street"]
    assert texts(run("recall 牙医搬到哪里 --user alice --json")) == ["牙医搬到了橡树街"]
    assert texts(run("recall dentist --user bob --json")) == []


def test_the_short_forms_and_the_long_ones_are_the_same(run: Run) -> None:
    run("memory remember 'The plan is blue' --user alice")
    assert texts(run("recall plan --user alice --json")) == texts(run("memory recall plan --user alice --json"))


def test_a_text_comes_from_stdin_or_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("火车八点开", encoding="utf-8")
    remembered(run, "- --user a", "The train leaves at eight\n")
    remembered(run, f"--file {path} --user a")
    assert texts(run("memory list --user a --json")) == ["The train leaves at eight", "火车八点开"]
    assert texts(run("recall - --user a --json", "when does the train leave")) == ["The train leaves at eight"]


def test_messages_are_turns_and_others_are_refused_with_a_reason(run: Run) -> None:
    turns = [
        {"role": "user", "content": "My name is Lin"},
        {"role": "assistant", "content": "Hello Lin"},
        {"role": "tool", "content": "x"},
    ]
    ran = run("remember - --messages --user a --session s1 --json", json.dumps(turns))
    done = [(one["outcome"], one["kind"]) for one in ran.document["remembered"]]
    assert done == [("added", "episode"), ("added", "fact"), ("added", "slot"), ("added", "episode"), ("refused", "")]
    assert "role 'tool'" in ran.document["remembered"][-1]["why"]
    assert run("read user_name --user a").out == "Lin\n"
    assert run("memory sessions --user a --json").document == {"sessions": {"s1": 3}}
    assert len(texts(run("memory list --user a --session s1 --json"))) == 3
    assert texts(run("memory list --user a --session s2 --json")) == []


def test_derivation_can_be_left_out(run: Run) -> None:
    run("remember 'My name is Lin' --user a --no-derive")
    assert run("read user_name --user a").code == 3


def test_every_option_of_remember_reaches_the_memory(run: Run) -> None:
    name = remembered(
        run,
        "'The launch' --user a --metadata '{\"topic\": \"work\"}' --tag x --tag 工作 --importance 0.9"
        " --event-at 2026-05-01 --expires-at 2099-01-01 --pinned --key k",
    )
    again = run("remember 'The launch, again' --user a --key k --json").document["remembered"][0]
    assert (again["name"], again["outcome"]) == (name, "merged")
    memory = run(f"memory get {name} --user a --json").document["memory"]
    assert (memory["metadata"], memory["tags"], memory["importance"]) == ({"topic": "work"}, ["x", "工作"], 0.9)
    assert (memory["event_at"], memory["pinned"], memory["scope"]["user"]) == (1777593600.0, True, "a")
    assert "event_at: 2026-05-01 00:00:00Z" in run(f"memory get {name} --user a").out


def test_recall_narrows_before_it_ranks(run: Run) -> None:
    for number, topic in ((1, "food"), (2, "travel"), (3, "travel")):
        remembered(
            run,
            f"'note {number} of the trip' --user a --metadata '{{\"topic\": \"{topic}\"}}'"
            f" --event-at 2026-0{number}-01 --no-derive",
        )
    assert texts(run("""recall trip --user a --json --filter '{"topic": "food"}'""")) == ["note 1 of the trip"]
    assert texts(run("recall trip --user a --json --since 2026-02-15")) == ["note 3 of the trip"]
    assert texts(run("recall trip --user a --json --until 2026-01-15")) == ["note 1 of the trip"]
    assert len(texts(run("recall trip --user a --json --top 2"))) == 2
    assert texts(run("recall trip --user a --json --kind episode")) == []
    assert texts(run("recall trip --user a --json --as-of 2020-01-01")) == []
    assert texts(run("recall trip --json --shared --within exact")) == []


def test_explain_tells_a_score_by_part(run: Run) -> None:
    remembered(run, "'the green umbrella' --user a")
    assert run("recall umbrella --user a --json").document["hits"][0]["parts"] == {}
    assert run("recall umbrella --user a --json --explain").document["hits"][0]["parts"]["keyword"] > 0
    assert "keyword=" in run("recall umbrella --user a --explain").out


def test_an_empty_answer_says_why(run: Run) -> None:
    remembered(run, "'the green umbrella' --user a")
    assert run("recall umbrella --user b").out == (
        "there is nothing to be found (0 searched, 0 below the floor)\n"
        "(searched by words alone: the setting embedder is none)\n"
    )
    ran = run("recall volcano --user a")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "nothing lies above the floor (1 searched, 0 below the floor)")
    assert run("recall 火山 --user a --lang zh").out.startswith("没有达到门槛的记忆 (1 条可查, 0 条低于门槛)\n")
    assert run("recall volcano --user a --json").document["why"] == "nothing lies above the floor"


def test_a_list_goes_on_where_its_command_says(run: Run) -> None:
    for number in range(5):
        remembered(run, f"'note {number}' --user a --no-derive")
    seen: list[str] = []
    line = "memory list --user a --limit 2"
    while True:
        seen += texts(run(line + " --json"))
        out = run(line).out
        if "more:" not in out:
            break
        line = out.rpartition("more: offprompt ")[2].strip()
    assert seen == [f"note {number}" for number in range(5)]


def test_an_update_changes_what_it_names(run: Run) -> None:
    name = remembered(run, "'the red door' --user a --metadata '{\"x\": 1, \"y\": 2}'")
    out = run(f"memory update {name} 'the blue door' --user a --metadata '{{\"x\": null}}' --if-version 1").out
    assert out == f"stored: {name}, version 2\n"
    assert run(f"memory update {name} x --user a --if-version 1").code == 2
    assert texts(run("recall blue --user a --json")) == ["the blue door"]
    assert texts(run("recall red --user a --json")) == []
    history = run(f"memory history {name} --user a --json").document["versions"]
    assert [(one["version"], one["text"]) for one in history] == [(1, "the red door"), (2, "the blue door")]
    run(f"memory update {name} --expires-at 2099-01-01 --user a")
    run(f"memory update {name} --expires-at none --pinned --user a")
    memory = run(f"memory get {name} --user a --json").document["memory"]
    assert (memory["expires_at"], memory["pinned"], memory["metadata"]) == (None, True, {"y": 2})


def test_forget_hides_and_undo_brings_back(run: Run) -> None:
    name = remembered(run, "'the red door' --user a")
    ran = run(f"forget {name} --user a")
    assert ran.out == f"1 hidden for now; bring it back with offprompt memory undo {name} --user a\n"
    assert texts(run("recall door --user a --json")) == []
    assert texts(run("memory list --state forgotten --user a --json")) == [""]
    assert run(f"memory get {name} --user a").code == 3
    assert run(ran.out.partition("offprompt ")[2]).out == "1 is back\n"
    assert texts(run("recall door --user a --json")) == ["the red door"]
    assert run(f"memory undo {name} --user a").code == 3


def test_forget_takes_a_slot_by_name_or_memories_by_id(run: Run) -> None:
    first, second = remembered(run, "'the red door' --user a"), remembered(run, "'the blue door' --user a")
    run("write city 上海 --user a")
    assert run(f"forget city {first} --user a").code == 2
    assert run(f"forget {first} {second} --user a --json").document == {"forgotten": 2}
    assert run("forget city --user a").out.endswith("offprompt slot undo city --user a\n")


def test_archived_is_kept_but_not_recalled(run: Run) -> None:
    name = remembered(run, "'the red door' --user a")
    assert run(f"memory archive {name} --user a").out == f"{name}: archived\n"
    assert texts(run("recall door --user a --json")) == []
    assert run(f"memory archive {name} --back --user a").out == f"{name}: is back\n"
    assert texts(run("recall door --user a --json")) == ["the red door"]


def test_erase_asks_for_yes_and_leaves_no_trace(run: Run, store: Path) -> None:
    name = remembered(run, "'the zebrafish door' --user a")
    ran = run(f"memory erase {name} --user a")
    assert (ran.code, ran.err) == (
        2,
        f"offprompt: erase cannot be undone; if that is meant: offprompt memory erase {name} --user a --yes\n",
    )
    assert run(f"memory erase {name} --user a --yes").out == "1 erased for good\n"
    assert run(f"memory erase {name} --user a --yes").code == 3
    with sqlite3.connect(store) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"zebrafish" not in store.read_bytes()
    remembered(run, "'another door' --user a")
    assert "--all" in run("memory erase --user a --yes").err
    assert run("memory erase --all --user a --yes --json").document == {"erased": 1}


def test_what_is_not_there_is_one_line_with_a_command(run: Run) -> None:
    remembered(run, "'the red door' --user a")
    for line in ("get m_1", "history m_1", "update m_1 x", "forget m_1", "erase m_1 --yes", "archive m_1"):
        ran = run(f"memory {line} --user a")
        assert ran.code == 3, line
        assert ran.err.count("\n") == 1
        assert "no memory" in ran.err
        assert "offprompt memory list --user a" in ran.err
    assert run("forget m_1 --user a").code == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("recall '' --user a", "the question '' asks nothing"),
        ("recall x --top 0 --user a", "--top 0"),
        ("recall x --floor 7 --user a", "--floor 7"),
        ("recall x --filter '[1]' --user a", "--filter is no JSON object"),
        ("recall x --filter '{' --user a", "--filter is not JSON"),
        ("recall x --since soon --user a", "--since 'soon' is no time"),
        ("recall x", "offprompt recall x --user alice"),
        ("remember --user a", "no value for the memory"),
        ("remember '' --user a", "says nothing"),
        ("remember x --messages --user a", "--messages is not JSON"),
        ("remember x --importance 2 --user a", "--importance 2"),
        ("memory list --limit 0 --user a", "--limit 0"),
        ("memory import nowhere.json --user a", "nowhere.json"),
    ],
)
def test_a_mistake_is_one_line_that_says_the_way_out(run: Run, line: str, said: str) -> None:
    run("write other x --user bob")
    ran = run(line)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_export_and_import_carry_memories_over(run: Run, tmp_path: Path) -> None:
    remembered(run, "'the red door' --user a --tag x")
    remembered(run, "'红色的门' --user a")
    path = tmp_path / "memories.jsonl"
    assert run(f"memory export {path} --user a").out == f"2 memories: {path}\n"
    assert run(f"memory export {path} --user a").code == 2
    assert run(f"memory import {path} --user a").out == "0 added, 2 known already\n"
    ran = run(f"memory import {path} --user b --json")
    assert (ran.document["added"], len(ran.document["refused"]), ran.code) == (0, 2, 2)
    assert run(f"memory import {path} --user b --rescope").out == "2 added, 0 known already\n"
    assert texts(run("memory list --user b --json")) == ["the red door", "红色的门"]


def test_users_lists_who_holds_what(run: Run) -> None:
    run("write city 上海 --user 李明")
    remembered(run, "'the red door' --user bob --agent helper")
    run("write note x --shared")
    run("write draft x --session s9")
    assert run("users --json").document == {
        "users": [
            {"scope": {"app": "default", "shared": True}, "slots": 1, "memories": 0, "sessions": 0},
            {"scope": {"app": "default", "session": "s9"}, "slots": 1, "memories": 0, "sessions": 0},
            {"scope": {"app": "default", "user": "bob", "agent": "helper"}, "slots": 0, "memories": 1, "sessions": 0},
            {"scope": {"app": "default", "user": "李明"}, "slots": 1, "memories": 0, "sessions": 0},
        ]
    }
    assert "everyone" in run("users").out
    assert "所有人" in run("users --lang zh").out
    assert run("users --app other").out.startswith("nothing here: ")


def test_sweep_counts_memories(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(run, "'the red door' --user a --expires-at 2020-01-01")
    remembered(run, "'the blue door' --user a")
    assert run("sweep --json").document == {"slots": 0, "memories": 1, "sessions": 0}
    assert run("sweep").out == "removed: 0 slots, 0 memories, 0 sessions\n"
    monkeypatch.setenv("OFFPROMPT_USER_IDLE_DAYS", "1")
    assert run("sweep --json").document["memories"] == 0


def test_reindex_without_an_embedder_says_so(run: Run) -> None:
    remembered(run, "'the red door' --user a")
    assert run("reindex").out == "indexed: 0 memories, by words alone: there is no embedder\n"


def test_reindex_gives_vectors_to_what_has_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(run, "'the red door' --user a")
    monkeypatch.setenv("OFFPROMPT_EMBEDDER", "use")
    assert "have no vector" in run("recall door --user a").out
    ran = run("reindex --json").document
    assert ran["done"] == 1
    assert ran["embedder"]
    assert run("reindex --user a --json").document["done"] == 0
    assert run("recall door --user a --json").document["degraded"] == ""


def test_reindex_fills_a_vector_index_that_is_new(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OFFPROMPT_EMBEDDER", "use")
    file = tmp_path / "with.db"
    remembered(run, f"'the red door' --user a --url {file}")
    both = f"--url 'memories={file} vectors=qdrant:///{tmp_path}/q'"
    assert "not in the vector index" in run(f"recall door --user a {both}").out
    assert run(f"doctor {both} --json").document["sound"] is True
    assert run(f"reindex {both}").out.endswith("; entries of the vector index mended: 1\n")
    assert run(f"reindex {both} --lang zh").out.startswith("已建索引")
    assert run(f"recall door --user a {both} --json").document["degraded"] == ""
    assert [one["state"] for one in run(f"doctor {both} --json").document["findings"] if one["name"] == "vectors"] == [
        "ok"
    ]


def test_alias_looks_first_and_asks_for_yes(run: Run) -> None:
    remembered(run, "'the red door' --user bob@old")
    run("write city Lisbon --user bob@old")
    run("write diet nuts --user bob@old")
    run("write city Faro --user bob")
    ran = run("alias bob@old bob")
    assert ran.code == 2
    assert ran.err == (
        "offprompt: alias cannot be undone; look first: offprompt alias bob@old bob --preview; "
        "if it is meant: offprompt alias bob@old bob --yes\n"
    )
    said = "1 memories, 1 slots\nthe name is taken, so they stay: city\n"
    assert run("alias bob@old bob --preview").out == f"would move to bob: {said}"
    assert run("alias typo bob --preview").out.endswith("0 memories, 0 slots\nnothing is stored under typo\n")
    assert run("read city --user bob@old").out == "Lisbon\n"
    assert run("alias bob@old bob --yes").out == f"moved to bob: {said}"
    assert run("read city --user bob@old").out == "Faro\n"
    assert texts(run("memory list --user bob@old --json")) == ["the red door"]
    assert run("alias bob@old bob --yes --json").document == {
        "user": "bob",
        "memories": 0,
        "slots": [],
        "conflicts": ["city"],
        "preview": False,
    }
    assert run("alias bob bob --yes").code == 2
