"""Running the command line in this process."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from offprompt.cli import main


@dataclass(frozen=True)
class Ran:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Run = Callable[..., Ran]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "agent.db"
    monkeypatch.setenv("OFFPROMPT_URL", str(path))
    return path


@pytest.fixture
def run(store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("read name --user alice", stdin="")`: the words as a shell would split them."""
    assert store

    def run_line(line: str, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(shlex.split(line))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run_line
