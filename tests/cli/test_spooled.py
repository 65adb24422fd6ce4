"""What the command line says of a write that waits, and of what waits."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_write_that_waits_is_said_in_both_languages(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("OFFPROMPT_WRITE_DEADLINE_S", "0.05")
    run("write city 苏州 --user alice")
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ran = run("write city 杭州 --user alice")
        assert (ran.code, ran.out) == (0, "spooled: city; the store did not take it in time; it is done later\n")
        assert run("write city 上海 --user alice --lang zh").out == "已暂存: city; 存储未能及时接受，稍后自动写入\n"
        document = run("write n 1 --user alice --json").document["slot"]
        assert (document["spooled"], document["version"]) == (True, 0)
        assert "spooled" in run("remember 我养了一只叫豆豆的狗。 --user alice").out
        assert "已暂存" in run("remember 我养了一只猫。 --user alice --lang zh").out
        other.execute("ROLLBACK")
    assert "5 writes wait in" in run("doctor").out
    assert "spool: 5 done" in run("worker --once").out
    assert "writes wait" not in run("doctor").out
    assert run("read city --user alice").out == "上海\n"
