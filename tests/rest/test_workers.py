"""Workers, without a server in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys, time
from pathlib import Path
from offprompt.rest.workers import Workers

count = Path("count")
count.write_text("")

def work(alone, listens):
    with count.open("a") as file:
        file.write("x")
    {work}

workers = Workers(work, 2, stop_s=1, on_ready=lambda: print("ready", flush=True), on_end=lambda pid: print("ended"))
sys.exit(workers.run())
"""


def ran(folder: Path, work: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(work=work)], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_first_worker_that_does_not_come_to_listen_ends_all(tmp_path: Path) -> None:
    assert ran(tmp_path, "return 4") == (4, "", "")
    assert (tmp_path / "count").read_text() == "x"
    assert ran(tmp_path, "return 0")[0] == 1
    code, said, errors = ran(tmp_path, "raise ZeroDivisionError('as nobody expected')")
    assert (code, said) == (1, "")
    assert "ZeroDivisionError" in errors


def test_workers_that_end_at_once_are_begun_again_ever_more_slowly(tmp_path: Path) -> None:
    work = """
    listens()
    if len(count.read_text()) > 4:
        try:
            Path("told").touch(exist_ok=False)  # a second signal would end it at once
            os.kill(os.getppid(), 15)
        except FileExistsError:
            pass
        time.sleep(60)
    return 0
    """
    code, said, errors = ran(tmp_path, work.strip())
    assert (code, said.split("\n")[0]) == (0, "ready")
    waits = [line.rpartition(" in ")[2] for line in errors.splitlines() if "another one begins" in line]
    assert waits[:2] == ["0 s", "0 s"]
    assert waits[2] == "1 s"
