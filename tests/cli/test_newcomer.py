"""What a newcomer does on the command line: look before there is anything, mistype, give too little."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from offprompt.cli.program import app
from tests.cli.conftest import Run

LOOKING = [
    "read a --user u",
    "slot list --user u",
    "slot history a --user u",
    "slot rank --user u",
    "slot snapshot --user u",
    "slot erase a --user u --yes",
    "forget a --user u",
    "slot undo a --user u",
    "audit",
    "trace s1",
    "sessions",
    "doctor",
    "sweep",
    "backup copy.db",
    "restore nothing.db",
]


@pytest.mark.parametrize("line", LOOKING)
def test_a_command_that_only_looks_makes_no_store(
    run: Run, store: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    ran = run(line)
    assert (ran.code, ran.out) == (2 if "restore" in line else 3, "")
    assert ran.err.count("\n") == 1
    if "restore" not in line:
        assert f"there is no store at {store}" in ran.err
        assert "--url" in ran.err
    assert list(store.parent.iterdir()) == []


def test_a_backup_makes_no_folders(run: Run, store: Path) -> None:
    run("write city 上海 --user u")
    ran = run(f"backup {store.parent}/no/such/copy.db")
    assert ran.code == 2
    assert "is not there" in ran.err
    assert not (store.parent / "no").exists()


@pytest.mark.parametrize("line", ["", "slot"])
def test_without_a_command_there_is_help_and_no_empty_error(run: Run, line: str) -> None:
    ran = run(line)
    assert (ran.code, ran.err) == (2, "")
    assert "Usage" in ran.out


@pytest.mark.parametrize(
    ("line", "says", "never"),
    [
        ("write a x --user u --if-version 7", "--if-version 7 was expected", "if_version"),
        ("forget a --user u --if-version=-1", "--if-version -1 for slot 'a'", "if_version"),
        ("forget m_1 m_2 --user u --if-version 1", "--if-version 1 for memory 'm_1'", "if_version"),
        ("memory update m_1 x --user u --if-version=-1", "--if-version -1 for memory 'm_1'", "if_version"),
        ("write a x --user u --ttl 0", "--ttl 0.0 for slot 'a'", "ttl_s"),
        ("write a x --user u --ttl=-1", "or `none` for ever", "None"),
        ("write a x --user u --importance 2", "--importance 2.0", "importance="),
        ("write long - --user u", "--split to spread it", "split=True"),
        ("write long - --user u", "raise OFFPROMPT_MAX_VALUE_BYTES", "max_value_bytes"),
        ("write long2 - --user u --split --policy when_asked", "--policy by_handle", "policy='"),
        ("write a x --user ''", "--user '' is no id", "user=''"),
        ("write a x --user u --shared", "--shared stands alone", "shared=True"),
        ("restore copy.db", "--force", "force=True"),
        ("backup copy.db", "--overwrite", "overwrite=True"),
        ("write a x --user u --schema bad.json", "--schema 'bad.json' is not JSON", "--json-value"),
        ("write a x --user u --schema list.json", "--schema 'list.json' is no JSON object", "--json-value"),
        ("slot undo never_there --user u", "offprompt slot list --forgotten --user u", "slots.list"),
        ("slot erase never_there --user u --yes", "no slot 'never_there' in scope user=u", "slots.list"),
    ],
)
def test_errors_speak_the_command_lines_language(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, line: str, says: str, never: str
) -> None:
    monkeypatch.chdir(store.parent)
    Path("bad.json").write_text("{", encoding="utf-8")
    Path("list.json").write_text("[]", encoding="utf-8")
    run("write city 上海 --user u")
    run("backup copy.db")
    ran = run(line, stdin="长" * 2000)
    assert ran.code in (2, 3)
    assert ran.err.count("\n") == 1
    assert says in ran.err
    assert never not in ran.err


def test_a_value_with_a_dash_in_front_comes_with_the_command_that_writes_it(run: Run) -> None:
    ran = run("write degrees -5 --user u")
    assert ran.code == 2
    fixed = ran.err.partition("if it is a value: offprompt ")[2]
    assert fixed == "write degrees --user u -- -5\n"
    assert run(fixed).code == 0
    assert run("read degrees --user u").out == "-5\n"
    assert "if it is a value" not in run("write degrees 5 --usr u").err


def test_an_unknown_setting_in_the_environment_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFPROMPT_SHOWN_TOKEN", "3")
    assert run("settings").err == (
        "offprompt: unknown setting 'OFFPROMPT_SHOWN_TOKEN' in the environment; did you mean OFFPROMPT_SHOWN_TOKENS?\n"
    )


def test_a_split_write_says_the_bytes_of_the_whole_value(run: Run) -> None:
    assert "9,000 bytes" in run("write notes - --user a --split", stdin="字" * 3000).out


def test_an_unreadable_log_is_one_line(run: Run, store: Path) -> None:
    folder = store.parent
    (folder / "binary.json").write_bytes(b"\x00\xff\x80" * 90)
    (folder / "open.json").write_text('{"messages": [', encoding="utf-8")
    (folder / "none.jsonl").write_text("", encoding="utf-8")
    for name in ("binary.json", "open.json", "none.jsonl", "nowhere.json", "."):
        ran = run(f"replay {folder / name} --no-picture")
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), name
        assert name in ran.err or name == "."


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "list",
            "'list'; it is: offprompt "
            + ", offprompt ".join(f"{group} list" for group in ("slot", "memory", "hold", "grant", "key", "keyring")),
        ),
        ("export out.jsonl", "'export'; it is: offprompt memory export"),
        ("slot recall x", "'recall'; it is: offprompt recall, offprompt memory recall, offprompt bench recall"),
        ("memory doctor", "'doctor'; it is: offprompt doctor"),
        ("raed x", "Did you mean 'read', 'trace', 'erase'?; try: offprompt --help"),
        ("forgte x", "Did you mean 'forget'?; try: offprompt --help"),
    ],
)
def test_a_command_that_stands_elsewhere_is_named_whole(run: Run, line: str, says: str) -> None:
    ran = run(line + " --user u")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.endswith(f"{says}\n")


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("remember My dog is Bello --user u", "remember 'My dog is Bello' --user u"),
        ("--user u recall 我 的 狗", "--user u recall '我 的 狗'"),
        ("write city Santa Cruz --user u", "write city 'Santa Cruz' --user u"),
    ],
)
def test_words_without_quotes_come_with_the_command_that_has_them(run: Run, line: str, fixed: str) -> None:
    run("write diet x --user u")
    ran = run(line)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.endswith(f"; if they are one text: offprompt {fixed}\n")
    assert run(fixed).code == 0
    assert run("remember My dog --user u is Bello").err.endswith("; try: offprompt remember --help\n")


def test_an_empty_list_says_in_which_store(run: Run, store: Path) -> None:
    run("write diet x --user u")
    for line in ("sessions", "audit", "users --app other"):
        assert run(line).out == f"nothing here: {store}\n"
    assert run("sessions --lang zh").out == f"没有内容: {store}\n"
    assert (
        run("trace s1").err == f"offprompt: no session 's1'; there is none in {store}; list them: offprompt sessions\n"
    )


def test_an_import_of_what_is_anothers_says_the_option(run: Run, store: Path) -> None:
    run("remember 'My dog is Bello' --user u")
    run(f"memory export {store.parent}/u.jsonl --user u")
    out = run(f"memory import {store.parent}/u.jsonl --user v").out
    assert "with --rescope" in out
    assert "=True" not in out


def test_what_says_nothing_is_called_a_text(run: Run) -> None:
    assert run("remember '' --user u").err == "offprompt: the text '' says nothing; give some words\n"
    assert run("trace s1 --turn x").err.startswith("offprompt: Invalid value for '--turn': 'x' is no whole number; ")


def test_help_loses_no_words() -> None:
    def texts(command: Any) -> Iterator[str]:
        yield command.help or ""
        yield from (getattr(one, "help", None) or "" for one in command.params)
        for inner in getattr(command, "commands", {}).values():
            yield from texts(inner)

    found = list(texts(typer.main.get_command(app)))
    assert len(found) > 100
    assert [text for text in found if re.search(r"\[[a-z#/@]", text)] == [], "taken for markup, and not shown"


def test_a_key_that_is_missing_is_said_in_the_command_lines_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    ran = run("chat --user u --model qwen3:8b", "Hello\n")
    assert ran.code == 2
    assert "set OPENAI_API_KEY, or name its variable (--key-env; key_env in the config file)" in ran.err
    assert "key=;" not in ran.err
