"""The examples: short, and they print what they say they print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT, relative

EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".sh"))


@pytest.mark.parametrize("example", EXAMPLES, ids=relative)
def test_an_example_prints_what_its_end_says(example: Path, tmp_path: Path) -> None:
    code, _, shown = example.read_text(encoding="utf-8").partition("\n# prints:\n")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OFFPROMPT_")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    program = sys.executable if example.suffix == ".py" else "bash"
    ran = subprocess.run(
        [program, str(example)], cwd=tmp_path, env=environ, text=True, capture_output=True, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [line.removeprefix("# ") for line in shown.splitlines()]
    assert code.count("\n") < 60


def test_the_shell_example_can_be_run_again(tmp_path: Path) -> None:
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    script = next(example for example in EXAMPLES if example.suffix == ".sh")
    first, second = (
        subprocess.run(["bash", str(script)], cwd=tmp_path, env=environ, text=True, capture_output=True, check=True)
        for _ in range(2)
    )
    assert first.stdout == second.stdout
    assert list(tmp_path.iterdir()) == []


def test_there_is_one_for_each_entrance() -> None:
    assert [path.name for path in EXAMPLES] == [
        "cli.sh",
        "customer_service.py",
        "local_8k.py",
        "memories.py",
        "session.py",
        "slots.py",
        "team.py",
    ]
