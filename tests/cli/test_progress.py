"""The progress bar of replay: on a terminal, and only there."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that takes a moment to read."""
    path = tmp_path / "log.jsonl"
    turn = [{"role": "user", "content": "word " * 400}, {"role": "assistant", "content": "answer " * 400}]
    path.write_text((json.dumps({"messages": turn * 10}) + "\n") * 60, encoding="utf-8")
    return path


def replayed(log: Path, stderr: int) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-m", "offprompt", "replay", str(log), "--no-picture"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    return subprocess.run(
        words, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, cwd=log.parent, env=env, check=True
    )


def test_a_terminal_sees_a_bar_and_the_table_none(log: Path) -> None:
    ours, theirs = pty.openpty()
    seen = ""
    try:
        try:
            done = replayed(log, theirs)
        finally:
            os.close(theirs)
        with contextlib.suppress(OSError):  # a terminal that nobody wrote to is closed, not empty
            seen = os.read(ours, 65536).decode("utf-8", "replace")
    finally:
        os.close(ours)
    assert "replay" in seen
    assert "%" in seen
    assert b"\x1b" not in done.stdout


def test_without_a_terminal_nothing_is_said(log: Path, tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("wb") as quiet:
        replayed(log, quiet.fileno())
    assert (tmp_path / "stderr").read_bytes() == b""
