"""One line, one exit code, the corrected command; never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offprompt import errors
from offprompt.cli.call import language_of
from offprompt.cli.errors import exit_code
from tests.cli.conftest import Run

PROGRAM = [sys.executable, "-c", "import sys; from offprompt.cli import main; sys.exit(main())"]


@pytest.mark.parametrize(
    ("line", "code", "kind"),
    [
        ("write style concise", 2, "ScopeError"),
        ("read nothing --user a", 3, "NotFoundError"),
        ("read nothing --user a --url redis://localhost", 2, "UsageError"),
        ("read nothing --user a --url kafka://localhost", 4, "UnsupportedError"),
        ("write 'a b' x --user a", 2, "NameInvalidError"),
        ("write a x --user a --importance 3", 2, "UsageError"),
        ("wrte a x", 2, "UsageError"),
        ("write a x --usr a", 2, "UsageError"),
        ("write", 2, "UsageError"),
        ("write a x --user a --policy sometimes", 2, "UsageError"),
        ("write a x --user a --config missing.toml", 2, "UsageError"),
        ("write a x --user ''", 2, "ScopeError"),
        ("write a x --user a --shared", 2, "ScopeError"),
    ],
)
def test_every_error_is_one_line_with_its_exit_code(run: Run, line: str, code: int, kind: str) -> None:
    plain = run(line)
    assert (plain.code, plain.out) == (code, "")
    assert plain.err.startswith("offprompt: ")
    assert plain.err.count("\n") == 1
    as_json = run(line + " --json")
    assert as_json.code == code
    assert as_json.error["exit_code"] == code
    assert as_json.error["type"] == kind
    assert as_json.error["message"]
    assert as_json.out == ""


def test_a_missing_scope_prints_the_corrected_command_and_it_works(run: Run) -> None:
    ran = run("write reply_style 'concise, 中文'")
    fixed = ran.err.strip().partition("offprompt write")[2]
    assert fixed == " reply_style 'concise, 中文' --user alice"
    assert run("write" + fixed).code == 0
    assert run("--lang zh write reply_style x").err.startswith("offprompt: 没有指定作用域")


def test_a_corrected_command_goes_before_the_double_dash(run: Run) -> None:
    ran = run("write note -- --json")
    assert "offprompt write note --user alice -- --json" in ran.err
    assert run("write note --user alice -- --json").code == 0
    assert run("read note --user alice").out == "--json\n"


def test_what_is_not_found_comes_with_the_command_that_finds_it(run: Run) -> None:
    run("write reply_style concise --user 'al ice'")
    ran = run("read reply_stile --user 'al ice'")
    fixed = ran.err.strip().partition("try: offprompt ")[2]
    assert fixed == "read reply_style --user 'al ice'"
    assert run(fixed).out == "concise\n"
    ran = run("forget 完全不同 --user 'al ice' --app=default")
    fixed = ran.err.strip().partition("try: offprompt ")[2]
    assert fixed == "slot list --user 'al ice' --app=default"
    assert "reply_style" in run(fixed).out


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "OFFPROMPT_LANGUAGE": "zh"}, "zh"),
        ({"LANG": "de_DE", "LC_MESSAGES": "zh_CN"}, "zh"),
    ],
)
def test_the_language_is_the_environments(environ: dict[str, str], language: str) -> None:
    assert language_of(environ) == language


def test_a_long_value_is_not_repeated_in_the_corrected_command(run: Run) -> None:
    ran = run("write note " + "x" * 61)
    assert "x" * 61 not in ran.err
    assert "offprompt write note VALUE --user alice" in ran.err


def test_a_broken_store_is_exit_code_5_and_untouched(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "not.db"
    path.write_text("this is no store, 不是数据库\n" * 100, encoding="utf-8")
    before = path.read_bytes()
    ran = run(f"read x --user a --url {path} --json")
    assert (ran.code, ran.error["type"]) == (5, "BackendError")
    assert path.read_bytes() == before


def test_the_tree_of_errors_is_the_table_of_exit_codes() -> None:
    assert exit_code(errors.LimitError("x", used=2, limit=1, unit="y", way_out="z")) == 2
    assert exit_code(errors.NotFoundError("x")) == 3
    assert exit_code(errors.UnsupportedError("x")) == 4
    assert exit_code(errors.BackendError("x")) == 5
    assert exit_code(errors.OffpromptError("x")) == 1


def test_a_closed_pipe_ends_quietly(store: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.Popen([*PROGRAM, "settings", "--url", str(store)], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, err = ran.communicate(timeout=60)
    assert err == b""
    assert ran.returncode == 141


def test_ctrl_c_ends_quietly_with_130(store: Path) -> None:
    # Waits for a value on stdin, which never comes.
    waiting = subprocess.Popen(
        [*PROGRAM, "--url", str(store), "write", "x", "-", "--user", "a"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert waiting.stdin is not None
    # A pipe that holds 64 KiB takes 1 MiB only when the program reads it: then it is waiting inside the command.
    waiting.stdin.write(b"x" * 2**20)
    waiting.stdin.flush()
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert (out, err) == (b"", b"")


def test_help_and_version_are_no_errors(run: Run) -> None:
    assert run("--version").out.startswith("offprompt ")
    helped = run("write --help")
    assert helped.code == 0
    assert "--importance" in helped.out
    assert "--user" in helped.out


def test_errors_are_json_even_when_the_command_line_cannot_be_read(run: Run) -> None:
    assert json.loads(run("--json slot nope").err)["error"]["exit_code"] == 2
