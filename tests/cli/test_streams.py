"""Output in any encoding, closed, full or left; input that is no text; Ctrl-C while the program loads: one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "import sys; from offprompt.cli import main; sys.exit(main())"]
LOG = [sys.executable, "-m", "offprompt.testing.agent_log"]
SHELL = "/bin/bash"


def shell(line: str, store: Path, *, program: list[str] = PROGRAM, **more: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a line in which `$@` is the program."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("OFFPROMPT_", "LC_", "LANG"))}
    environ |= {"OFFPROMPT_URL": str(store), "OFFPROMPT_USER": "alice", **more}
    ran = subprocess.run(
        [SHELL, "-c", line, "bash", *program], env=environ, capture_output=True, timeout=60, check=False
    )
    return ran.returncode, ran.stdout.decode("utf-8", "surrogateescape"), ran.stderr.decode("utf-8", "surrogateescape")


def before(folder: Path) -> str:
    """A PYTHONPATH on which a folder goes before all else."""
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture
def written(store: Path) -> Path:
    assert shell('"$@" write 名称 "上海 😀 café"', store)[0] == 0
    return store


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_stdout_has_not_are_escaped(written: Path, encoding: str) -> None:
    code, out, err = shell('"$@" read 名称', written, PYTHONIOENCODING=encoding)
    assert (code, err) == (0, "")
    assert out.startswith(r"\u4e0a\u6d77 \U0001f600 caf")
    code, out, err = shell('"$@" read 名称 --json', written, PYTHONIOENCODING=encoding)
    assert json.loads(out) == {"name": "名称", "value": "上海 😀 café"}
    code, out, err = shell('"$@" read 没有', written, PYTHONIOENCODING=encoding)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "Traceback" not in err
    assert json.loads(shell('"$@" read 没有 --json', written, PYTHONIOENCODING=encoding)[2])["error"]["exit_code"] == 3


def test_a_plain_c_locale_is_no_trouble(written: Path) -> None:
    assert shell('"$@" read 名称 --lang zh', written, LANG="C", LC_ALL="C")[:2] == (0, "上海 😀 café\n")
    assert shell('"$@" slot list --lang zh', written, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")[0] == 0


@pytest.mark.parametrize("words", ["read 名称", "read 名称 --json", "settings", "--help", "--version"])
def test_a_full_disk_is_one_line_and_exit_code_5(written: Path, words: str) -> None:
    code, _, err = shell(f'"$@" {words} > /dev/full', written)
    assert (code, err.count("\n")) == (5, 1)
    assert "No space left" in err


def test_a_closed_stdout_is_one_line_and_what_was_written_is_there(written: Path) -> None:
    code, _, err = shell('"$@" write city Ulm >&-', written)
    assert (code, err.count("\n")) == (5, 1)
    assert "cannot be written to stdout" in err
    assert shell('"$@" read city', written)[1] == "Ulm\n"
    assert shell('"$@" read city <&- >&- 2>&-', written)[0] == 5
    assert shell('"$@" doctor', written)[0] == 0


def test_an_error_that_cannot_be_said_keeps_its_exit_code(written: Path) -> None:
    assert shell('"$@" read nothing 2>&-', written) == (3, "", "")
    assert shell('"$@" read nothing 2>/dev/full', written)[0] == 3


@pytest.mark.parametrize("words", ["--help", "settings", "slot --help"])
def test_a_reader_that_leaves_ends_it_quietly(written: Path, words: str) -> None:
    code, _, err = shell(f'"$@" {words} | true; exit "${{PIPESTATUS[0]}}"', written)
    assert err == ""
    assert code in (0, 141)  # 0: all was written before the reader left


def test_stdin_that_holds_nothing_or_no_text_is_refused(written: Path) -> None:
    for line, says in (
        ('"$@" write a - </dev/null', "nothing on stdin"),
        ('"$@" write a - <&-', "nothing on stdin"),
        (r'printf "\xff\xfe" | "$@" write a -', "stdin is not utf-8 text (byte 1)"),
        (r'printf "\xff\xfe" | LC_ALL=C "$@" write a -', "stdin is not utf-8 text (byte 1)"),
    ):
        code, out, err = shell(line, written)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert says in err
    assert shell('"$@" read a', written)[0] == 3
    assert shell("""echo | "$@" write a - && "$@" read a""", written)[0] == 0


@pytest.mark.parametrize("program", [PROGRAM, [sys.executable, "-m", "offprompt"]])
def test_ctrl_c_while_the_program_loads_is_as_quiet_as_later(program: list[str], tmp_path: Path) -> None:
    # The first of the slow imports is interrupted, wherever that is.
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    code, out, err = shell('"$@" settings', tmp_path / "none.db", program=program, PYTHONPATH=before(tmp_path))
    assert (code, out, err) == (130, "", "")


def test_the_made_up_log_ends_as_quietly(tmp_path: Path) -> None:
    store = tmp_path / "none.db"
    # The interrupt is raised where the log would be made.
    (tmp_path / "random.py").write_text("def Random(seed): raise KeyboardInterrupt\n", encoding="utf-8")
    assert shell('"$@"', store, program=LOG, PYTHONPATH=before(tmp_path)) == (130, "", "")
    assert shell('"$@" 400 | head -c 1; exit "${PIPESTATUS[0]}"', store, program=LOG)[::2] == (141, "")
    code, _, err = shell('"$@" >&-', store, program=LOG)
    assert (code, err.count("\n")) == (5, 1)
    code, _, err = shell('"$@" many', store, program=LOG)
    assert (code, err.count("\n")) == (2, 1)
    assert json.loads(shell('"$@" 1 7 zh', store, program=LOG, PYTHONIOENCODING="ascii")[1])["messages"]
