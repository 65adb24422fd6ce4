"""The command line over a server says what it says over the store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.rest.running import Running, running

SEQUENCE = [
    "write city 上海 --user alice --tag home --importance 0.9",
    "write city Ulm --user alice --if-version 1",
    "write city Porto --user alice --if-version 1",
    "write bad.name. x --user alice",
    "write 'a b' x --user alice",
    "write profile --json-value '{\"since\": [2019, null]}' --user alice --ttl 3600",
    "write key s3cret-0123456789-0123456789 --policy never --user alice",
    "read city --user alice",
    "read ctiy --user alice",
    "read profile --user alice",
    "--lang zh read nothing --user alice",
    "slot list --user alice",
    "slot list 'c*' --user alice --within subtree",
    "slot rank --user alice --limit 2",
    "slot history city --user alice",
    "slot snapshot --user alice",
    "slot allow key send token --host api.example.com --user alice",
    "slot allow city send token --user alice",
    "slot lock key --user alice",
    "slot unlock key --user alice",
    "forget city --user alice",
    "forget city --user alice",
    "slot list --forgotten --user alice",
    "slot undo city --user alice",
    "slot undo city --user alice",
    "slot erase profile --user alice",
    "slot erase profile --yes --user alice",
    "remember 'I moved to Shanghai in May' --user alice --event-at 2026-05-01 --tag home",
    "remember '我喜欢绿茶' --user alice --metadata '{\"topic\": \"饮料\"}' --no-derive",
    "remember '' --user alice",
    "remember hello --metadata '[1]' --user alice",
    "recall 绿茶 --user alice --explain",
    "recall 'where does she live?' --user alice --top 1",
    "--lang zh recall nonsense --user alice --floor 1",
    "recall tea --user alice --rerank",
    "memory list --user alice --limit 1",
    'memory list --user alice --filter \'{"topic": "饮料"}\'',
    "memory list --user alice --state gone",
    "memory get m_nothing --user alice",
    "memory forget m_nothing --user alice",
    "memory history m_nothing --user alice",
    "memory sessions --user alice",
    "read city",
    "read city --user ''",
    "write x 1 --user bob",
    "users",
    "alias bob robert",
    "alias bob robert --preview",
    "alias bob robert --yes",
    "read x --user bob",
]

AS_JSON = [
    "slot list --user alice --within subtree",
    "slot history key --user alice",
    "memory list --user alice",
    "users",
]

MASKS = (
    (r"m_[0-9a-z]{26}", "m_ID"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME"),
    (r"\d+\.\d+(e-?\d+)?", "NUMBER"),
    (r"\"uses\": \d+", "USES"),  # a server stores them when it has time
    (r"\"used_at\": (null|NUMBER)", "USED"),
    (r" +", " "),
    (r"-{2,}", "--"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(str(tmp_path_factory.mktemp("remote") / "agent.db"), embedder="none") as own:
        yield own


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return text


def test_each_command_answers_as_it_does_where_the_store_is(
    run: Run, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFPROMPT_EMBEDDER", "none")
    for line in SEQUENCE:
        here = run(line)
        there = run(f"--url {server.url} {line}")
        said = [masked(text.replace(f"--url {server.url} ", "")) for text in (there.out, there.err)]
        assert (there.code, *said) == (here.code, masked(here.out), masked(here.err)), line
    for line in AS_JSON:
        here, there = run(f"{line} --json"), run(f"{line} --json --url {server.url}")
        assert (there.code, masked(there.out)) == (here.code, masked(here.out)), line


def test_files_are_of_the_machine_where_the_command_runs(run: Run, server: Running, tmp_path: Path) -> None:
    url = f"--url {server.url}"
    run(f"{url} remember 'I like tea' --user carol --no-derive")
    file = tmp_path / "out.jsonl"
    assert run(f"{url} memory export {file} --user carol").out == f"1 memories: {file}\n"
    assert run(f"{url} memory export {file} --user carol").code == 2
    assert run(f"{url} memory import {file} --user carol").out == "0 added, 1 known already\n"
    assert run(f"{url} memory import {file} --user dave --rescope").out == "1 added, 0 known already\n"
    assert run(f"{url} memory import {tmp_path / 'no.jsonl'} --user dave").code == 2


@pytest.mark.parametrize(
    "line",
    [
        "doctor",
        "sessions",
        "audit",
        "trace s1 --user a",
        "sweep",
        "backup {folder}/b.db",
        "consolidate --user a",
        "copy {url} {folder}/c.db",
    ],
)
def test_what_needs_the_store_itself_says_where_to_run_it(run: Run, server: Running, tmp_path: Path, line: str) -> None:
    words = line.format(folder=tmp_path, url=server.url)
    ran = run(words if "{url}" in line else f"--url {server.url} {words}")
    assert (ran.code, ran.out) == (4, "")
    assert "run it where the store is" in ran.err


def test_a_server_that_is_not_there_is_one_line(run: Run) -> None:
    ran = run("--url http://127.0.0.1:9 read city --user a")
    assert (ran.code, ran.err.count("\n")) == (5, 1)
    assert "start it with: offprompt serve --port 9" in ran.err
