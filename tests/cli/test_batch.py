"""`offprompt batch`: results, summary, exit code, and going on after an interrupt or a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from offprompt.cli.batch import progress_line
from offprompt.cli.call import Call
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict import RefusedError, Said
from offprompt.testing.strict_server import StrictServer
from tests.cli.conftest import Run


def write_tasks(folder: Path, *tasks: dict[str, Any]) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks), encoding="utf-8")
    return path


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_batch_from_tasks_to_summary(run: Run, tmp_path: Path) -> None:
    talk = ["My name is Ada Okafor.", "What is my name?"]
    tasks = write_tasks(tmp_path, {"id": "ada", "turns": talk}, {"id": "hi", "text": "Hello."})
    out = tmp_path / "out.jsonl"
    ran = run(f"batch {tasks} --out {out} --model scripted")
    assert ran.code == 0
    assert "SCRIPTED: a script stands in for the language model." in ran.err
    assert "2/2, " in ran.err
    assert ran.out.splitlines()[:3] == ["tasks: 2", "done well: 2", "failed: 0"]
    found = {each["task_id"]: each for each in results(out)}
    assert found["ada"]["texts"][-1] == "Your name is Ada Okafor."
    traced = run(f"trace main --user {found['ada']['user']}")
    assert "turn 2  What is my name?" in traced.out


def test_failures_are_counted_by_kind_and_run_again_on_resume(run: Run, tmp_path: Path) -> None:
    poisoned = [True]

    def model(**request: Any) -> Any:
        if poisoned[0] and "poison" in str(request["messages"]):
            raise RefusedError(400, {"error": {"message": "no"}})
        return ScriptedModel().create(**request)

    tasks = write_tasks(tmp_path, {"id": "a", "text": "Hello."}, {"id": "b", "text": "poison"}, {"id": "c"})
    out = tmp_path / "out.jsonl"
    with StrictServer(model) as server:
        line = f"batch {tasks} --out {out} --model m --base-url {server.url}/v1"
        ran = run(line)
        assert ran.code == 1
        assert ran.out.splitlines()[:5] == ["tasks: 3", "done well: 1", "failed: 2", "  UsageError: 1", "  task: 1"]
        assert run(line).err.count("--resume goes on with them") == 1
        poisoned[0], asked = False, len(server.requests)
        ran = run(f"{line} --resume --json")
        assert ran.code == 1
        assert len(server.requests) == asked + 1, "what was done well is not done again"
    assert (ran.document["ok"], ran.document["failed"], ran.document["kinds"]) == (2, 1, {"task": 1})


def test_misuse_is_said(run: Run, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, {"id": "a", "text": "Hello."})
    assert "no model: give --model" in run(f"batch {tasks} --out o").err
    assert "cannot be read" in run("batch nowhere.jsonl --out o --model scripted").err
    tasks.write_text("\n")
    assert "no task in" in run(f"batch {tasks} --out o --model scripted").err


def test_progress_has_a_rate_and_the_time_left() -> None:
    assert progress_line(Call(), 10, 100, 0, 60.0) == "10/100, 10.0 a minute, 9:00 left"
    assert progress_line(Call(), 1, 3601, 1, 2.0) == "1/3601, 1 failed, 30.0 a minute, 2:00:00 left"
    assert progress_line(Call(), 0, 0, 0, 0.0) == "0/0, 0.0 a minute, 0:00 left"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_resume_goes_on_after_an_interrupt_or_a_kill(store: Path, tmp_path: Path, how: signal.Signals) -> None:
    go = threading.Semaphore(6)

    def model(**request: Any) -> Said:
        words = [each for each in request["messages"] if each["role"] == "user"]
        go.acquire(timeout=60)
        return Said(f"Answer to {words[-1]['content']}")

    tasks = write_tasks(tmp_path, *({"id": f"t{at}", "turns": [f"{at} first", f"{at} second"]} for at in range(8)))
    out = tmp_path / "out.jsonl"
    with StrictServer(model) as server:
        command = [sys.executable, "-m", "offprompt", "batch", str(tasks), "--out", str(out)]
        command += ["--model", "m", "--base-url", f"{server.url}/v1", "--concurrency", "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            deadline = time.monotonic() + 60
            while (not out.exists() or len(results(out)) < 2) and time.monotonic() < deadline:
                time.sleep(0.02)
            running.send_signal(how)
            if how == signal.SIGINT:
                _, said = running.communicate(timeout=60)
                assert running.returncode == 130
                assert "interrupted; go on with: offprompt batch" in said
                assert "--resume" in said
                assert "Traceback" not in said
        before = {each["task_id"] for each in results(out)}
        assert 2 <= len(before) < 8
        for _ in range(100):
            go.release()
        asked = len(server.requests)
        ran = subprocess.run([*command, "--resume", "--json"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["ok"] == 8
    assert len(server.requests) - asked == 2 * (8 - len(before)), (
        "each task that was left is run once, from its beginning"
    )
    assert sorted(each["task_id"] for each in results(out)) == [f"t{at}" for at in range(8)]
    assert {tuple(each["texts"]) for each in results(out)} == {
        (f"Answer to {at} first", f"Answer to {at} second") for at in range(8)
    }
    assert store
