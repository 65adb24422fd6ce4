"""`offprompt worker`: one round for cron, rounds until SIGTERM, a killed one followed by the next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import offprompt
from offprompt.service.worker import JOBS, Worker
from offprompt.testing import MovedClock
from tests.cli.conftest import Run


def filled(path: Path) -> None:
    """A slot that is over by now."""
    with offprompt.open(path, clock=MovedClock(1_000_000_000.0)) as memory:
        memory.scope(user="alice").write("brief", "晚点", ttl_s=10)


def test_one_round_says_what_each_job_did(run: Run, store: Path) -> None:
    filled(store)
    ran = run("worker --once")
    assert (ran.code, ran.err) == (0, "")
    done = {"sweep": 1}
    assert [line.split(" ", 1)[1] for line in ran.out.splitlines()] == [
        f"{job}: {done.get(job, 0)} done" for job in JOBS
    ]
    ran = run("worker --once --json --lang zh")
    assert [json.loads(line)["done"] for line in ran.out.splitlines()] == [0] * len(JOBS)
    assert "sweep: 0 完成" in run("worker --once --lang zh").out
    assert "worker sweep" in run("doctor").out
    assert run("worker --every 0").code == 2
    assert run(f"worker --once --url {store}.none").code == 3


def started(store: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "offprompt", "worker", "--every", "0.1", "--json", "--url", str(store)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def test_rounds_go_on_until_sigterm(store: Path) -> None:
    filled(store)
    process = started(store)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["done"] == 1
    filled(store)
    assert json.loads(process.stdout.readline())["job"] == "sweep"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_killed_worker_is_followed_by_the_next(run: Run, store: Path) -> None:
    filled(store)
    process = started(store)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)
    filled(store)
    with offprompt.open(store, clock=MovedClock(4e9)) as memory:
        assert [one.done for one in Worker(memory.parts).run() if one.job == "sweep"] == [1]
    assert run("doctor").code == 0
