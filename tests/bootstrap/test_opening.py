"""Where memory is, and which settings hold: what cannot be used is said in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

import offprompt
from offprompt.bootstrap.urls import sqlite_path
from offprompt.config import find_file, read_file
from offprompt.errors import BackendError, UsageError

TOO_LONG = "x" * 300
"""A name that no file system takes: looking for it is an error even for the superuser."""


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("agent.db", "agent.db"),
        ("what?.db", "what?.db"),
        ("数据/记忆.db", "数据/记忆.db"),
        ("sqlite:///agent.db", "agent.db"),
        ("sqlite:////var/agent.db", "/var/agent.db"),
        ("sqlite:///what%3F%23.db", "what?#.db"),
        ("sqlite:///记忆.db", "记忆.db"),
    ],
)
def test_a_url_names_a_file(url: str, path: str) -> None:
    assert sqlite_path(url) == Path(path)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:rel.db", "write sqlite:///rel.db"),
        ("SQLite:/abs.db", "write sqlite:///abs.db"),
        ("sqlite:", "write sqlite:///agent.db"),
        ("file:rel.db?mode=ro", "or the path alone"),
        ("sqlite://rel.db", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///rel.db?mode=ro", "'mode=ro' behind the path.*leave it out"),
        ("sqlite:///rel.db#frag", "'frag' behind the path"),
        ("sqlite:///:memory:", "write ':memory:'"),
        ("sqlite://[x/y", "is no URL"),
        ("sqlite:///%00", "has a NUL"),
        ("sqlite:///%20", "is blank"),
        ("a\0b.db", "has a NUL"),
        ("   ", "is blank"),
        ("\n", "is blank"),
        ("~nobody-of-this-name/agent.db", "write the whole path"),
    ],
)
def test_what_names_no_file_is_refused_with_the_way_out(
    url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for create in (True, False):
        with pytest.raises(UsageError, match=said):
            offprompt.open(url, create=create)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("create", [True, False])
def test_a_path_that_the_system_refuses_is_an_error_of_ours(create: bool, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"cannot be opened: .*check the path"):
        offprompt.open(tmp_path / TOO_LONG / "agent.db", create=create)


def test_config_folders_that_cannot_be_entered_have_no_file(tmp_path: Path) -> None:
    assert find_file({}, folder=tmp_path / TOO_LONG, user_folder=tmp_path / TOO_LONG) is None
    with pytest.raises(UsageError, match="OFFPROMPT_CONFIG names"):
        find_file({"OFFPROMPT_CONFIG": str(tmp_path / TOO_LONG)}, folder=tmp_path, user_folder=tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = ", b"\0", b"a = " + b"[" * 5000])
def test_a_broken_config_file_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "offprompt.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"offprompt\.toml cannot be used: .*; correct or remove it"):
        read_file(file)


@pytest.mark.parametrize("name", ["", ".", TOO_LONG, "a\0b", "gone.toml"])
def test_a_config_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be used: .*; correct or remove it"):
        offprompt.open(":memory:", config=tmp_path / name)


@pytest.mark.parametrize("name", [TOO_LONG, "a\0b", "gone.toml", "binary.toml"])
def test_a_price_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"price file .* cannot be read: .*; correct `prices`"):
        offprompt.open(":memory:", prices=str(tmp_path / name))


IN_A_FOLDER_THAT_IS_GONE = """
import os, sys, offprompt
os.rmdir(os.getcwd())
try:
    offprompt.open("relative.db")
except offprompt.UsageError as exc:
    print(exc)
scope = offprompt.open(sys.argv[1]).scope(user="u")
scope.write("city", "杭州")
print(scope.read("city"))
"""


@pytest.mark.parametrize("url", [":memory:", "agent.db"])
def test_a_working_folder_that_is_gone_is_no_traceback(url: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    where = url if url == ":memory:" else str(tmp_path / url)
    command = [sys.executable, "-c", IN_A_FOLDER_THAT_IS_GONE, where]
    environ = {**os.environ, "PYTHONUTF8": "1"}
    done = subprocess.run(command, cwd=gone, env=environ, capture_output=True, text=True, check=False)
    said, read = done.stdout.splitlines()
    assert (done.stderr, read) == ("", "杭州")
    assert "relative to a folder that is gone" in said


@pytest.mark.parametrize("name", ["merge_cosine", "recall_floor", "directory_share"])
def test_a_share_is_at_most_one(name: str) -> None:
    with pytest.raises(UsageError, match=rf"setting {name} = 1.5 in the arguments: it must be a number from 0 to 1"):
        offprompt.open(":memory:", **cast("dict[str, Any]", {name: 1.5}))
    offprompt.open(":memory:", **cast("dict[str, Any]", {name: 1})).close()


@pytest.mark.parametrize(
    "given",
    [{"embedder": "word2vec"}, {"models": {"embroider": "gpt-4o-mini"}}, {"prices": "there-is-none.toml"}],
    ids=lambda given: next(iter(given)),
)
def test_nothing_is_made_where_what_was_given_is_wrong(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        offprompt.open(tmp_path / "new" / "agent.db", **given)
    assert list(tmp_path.iterdir()) == []
